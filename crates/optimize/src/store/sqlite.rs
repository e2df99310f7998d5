//! A store in a file, which several processes may use at once.

use super::{Digest, Entry, Store};
use rusqlite::{Connection, OptionalExtension, params};
use std::path::Path;
use std::sync::Mutex;
use std::time::Duration;

/// Why a store cannot be used.
pub type StoreError = rusqlite::Error;

/// Counts up when the tables change.
const SCHEMA: i64 = 1;

/// Entries in a SQLite database.
#[derive(Debug)]
pub struct Sqlite {
    connection: Mutex<Connection>,
}

/// What a store holds.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Statistics {
    /// Windows that have a replacement.
    pub found: u64,
    /// Windows for which nothing was found.
    pub nothing: u64,
    /// Candidates that need not be evaluated again.
    pub candidates: u64,
    /// Bytes of the database.
    pub bytes: u64,
}

impl Sqlite {
    /// The store in that file, which is made when it is not there.
    ///
    /// # Errors
    /// When the file is no store of this version, or cannot be written.
    pub fn open(path: &Path) -> Result<Sqlite, StoreError> {
        let connection = Connection::open(path)?;
        connection.busy_timeout(Duration::from_secs(10))?;
        connection.pragma_update(None, "journal_mode", "wal")?;
        // A crash may lose the last entries, and does no other harm.
        connection.pragma_update(None, "synchronous", "off")?;
        connection.execute_batch(
            "CREATE TABLE IF NOT EXISTS windows (
                key BLOB PRIMARY KEY, found TEXT, candidates INTEGER NOT NULL, judgements INTEGER NOT NULL
            ) WITHOUT ROWID",
        )?;
        let schema: i64 = connection.pragma_query_value(None, "user_version", |row| row.get(0))?;
        match schema {
            0 => connection.pragma_update(None, "user_version", SCHEMA)?,
            SCHEMA => {}
            _ => return Err(rusqlite::Error::InvalidQuery),
        }
        Ok(Sqlite { connection: Mutex::new(connection) })
    }

    /// Runs something on the database; after a panic of another thread it is as good as before.
    fn with<T>(&self, run: impl FnOnce(&Connection) -> Result<T, StoreError>) -> Result<T, StoreError> {
        run(&self.connection.lock().unwrap_or_else(|poisoned| poisoned.into_inner()))
    }

    /// What it holds.
    ///
    /// # Errors
    /// When it cannot be read.
    pub fn statistics(&self) -> Result<Statistics, StoreError> {
        self.with(|c| {
            let pages: u64 = c.pragma_query_value(None, "page_count", |r| r.get(0))?;
            let size: u64 = c.pragma_query_value(None, "page_size", |r| r.get(0))?;
            let sums = "SELECT count(found), count(*) - count(found), coalesce(sum(candidates), 0) FROM windows";
            c.query_row(sums, [], |r| {
                Ok(Statistics { found: r.get(0)?, nothing: r.get(1)?, candidates: r.get(2)?, bytes: pages * size })
            })
        })
    }

    /// Forgets everything.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn clear(&self) -> Result<(), StoreError> {
        self.with(|c| c.execute_batch("DELETE FROM windows; VACUUM;"))
    }

    /// Takes over what another store has and this one has not; returns how many entries.
    ///
    /// # Errors
    /// When one cannot be read or the other not be written.
    pub fn merge(&self, other: &Path) -> Result<usize, StoreError> {
        // Opened by itself first, so that what is no store is not attached.
        drop(Sqlite::open(other)?);
        self.with(|c| {
            c.execute("ATTACH DATABASE ?1 AS other", params![other.to_string_lossy()])?;
            let merged = c.execute("INSERT OR IGNORE INTO windows SELECT * FROM other.windows", []);
            c.execute("DETACH DATABASE other", [])?;
            merged
        })
    }
}

impl Store for Sqlite {
    fn get(&self, key: &Digest) -> Option<Entry> {
        let query = "SELECT found, candidates, judgements FROM windows WHERE key = ?1";
        let found = self.with(|c| {
            let entry =
                |r: &rusqlite::Row| Ok(Entry { found: r.get(0)?, candidates: r.get(1)?, judgements: r.get(2)? });
            c.prepare_cached(query)?.query_row([key.0], entry).optional()
        });
        found.ok().flatten()
    }

    fn put(&self, key: &Digest, entry: &Entry) {
        let statement = "INSERT OR REPLACE INTO windows VALUES (?1, ?2, ?3, ?4)";
        // What cannot be kept has to be searched again; that is all.
        let _ = self.with(|c| {
            let values = params![key.0, entry.found, entry.candidates, entry.judgements];
            c.prepare_cached(statement)?.execute(values)
        });
    }
}
