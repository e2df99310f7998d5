//! What searches came to, kept from run to run: the same results with and without, whatever is in it.

use karakoram_bpf::program::Program;
use karakoram_bpf::text::{self, Format, asm};
use karakoram_optimize::store::{Digest, Entry, Sqlite, Store};
use karakoram_optimize::{Options, Outcome, optimize};
use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

/// A store in memory that counts what it could answer.
#[derive(Default)]
struct Counting {
    entries: Mutex<HashMap<Digest, Entry>>,
    hits: AtomicUsize,
}

impl Store for Counting {
    fn get(&self, key: &Digest) -> Option<Entry> {
        let entry = self.entries.lock().expect("no panics").get(key).cloned();
        self.hits.fetch_add(entry.is_some() as usize, Ordering::Relaxed);
        entry
    }
    fn put(&self, key: &Digest, entry: &Entry) {
        self.entries.lock().expect("no panics").insert(*key, entry.clone());
    }
}

/// A store that says the same about every window.
struct Lying(Entry);

impl Store for Lying {
    fn get(&self, _: &Digest) -> Option<Entry> {
        Some(self.0.clone())
    }
    fn put(&self, _: &Digest, _: &Entry) {}
}

fn programs() -> Vec<Program> {
    let names = ["bpf/before.bpf", "k2/before.k2", "parameters/benchmark.bpf"];
    let read = |name: &&str| {
        let path = format!("{}/../../tests/inputs/k2/{name}", env!("CARGO_MANIFEST_DIR"));
        let stem = path.rsplit_once('.').expect("has an ending").0;
        let file = |p: &str| std::fs::read_to_string(p).expect("readable");
        let (desc, maps) = (file(&format!("{stem}.desc")), file(&format!("{stem}.maps")));
        let format = Format::of_path(&path).expect("known ending");
        text::read(format, &file(&path), Some(&desc), Some(&maps)).expect("reads")
    };
    // Something that only the search finds.
    let by_search = "
.hook buffer=64
r2 = *(u8 *)(r1 + 0)
r3 = *(u8 *)(r1 + 1)
r2 ^= 1
r2 ^= r3
r2 ^= r3
r0 = r2
r0 ^= 1
exit
";
    names.iter().map(read).chain([asm::parse(by_search).expect("parses")]).collect()
}

fn run(program: &Program, store: Option<&dyn Store>) -> Outcome {
    optimize(program.clone(), &Options { store, ..Options::default() }, &mut |_| {})
}

fn same(a: &Outcome, b: &Outcome) {
    assert_eq!(a.proven.applied(), b.proven.applied());
    assert_eq!(a.proven.program(), b.proven.program());
    assert_eq!(a.judged, b.judged, "the same work is counted");
}

#[test]
fn the_result_is_the_same_without_a_store_and_with_a_cold_and_a_warm_one() {
    let mut hits = 0;
    for program in programs() {
        let (store, without) = (Counting::default(), run(&program, None));
        same(&without, &run(&program, Some(&store)));
        let cold = store.hits.swap(0, Ordering::Relaxed);
        same(&without, &run(&program, Some(&store)));
        assert!(store.hits.load(Ordering::Relaxed) >= cold);
        hits += store.hits.load(Ordering::Relaxed);
    }
    assert!(hits > 0, "nothing was ever found in a warm store");
}

#[test]
fn a_store_filled_by_other_programs_changes_nothing() {
    let store = Counting::default();
    let all = programs();
    all.iter().for_each(|p| drop(run(p, Some(&store))));
    for program in &all {
        same(&run(program, None), &run(program, Some(&store)));
    }
}

#[test]
fn wrong_replacements_are_searched_for_instead() {
    for text in ["r0 = 0", "", "r10 = 1", "no instruction", "call 1", "if r1 == 0x0 goto @0", "exit"] {
        let lie = Entry { found: Some(text.to_string()), candidates: 1, judgements: 1 };
        for program in programs() {
            same(&run(&program, None), &run(&program, Some(&Lying(lie.clone()))));
        }
    }
}

#[test]
fn a_store_that_knows_nothing_better_hides_improvements_and_does_no_other_harm() {
    let lie = Entry { found: None, candidates: 0, judgements: 0 };
    for program in programs() {
        let (honest, lied_to) = (run(&program, None), run(&program, Some(&Lying(lie.clone()))));
        assert!(lied_to.proven.program().slots() >= honest.proven.program().slots());
        assert!(lied_to.proven.program().slots() <= program.slots());
    }
}

#[test]
fn efforts_that_cannot_be_are_not_believed() {
    let lie = Entry { found: None, candidates: u64::MAX, judgements: u64::MAX };
    for program in programs() {
        same(&run(&program, None), &run(&program, Some(&Lying(lie.clone()))));
    }
}

fn file(name: &str) -> PathBuf {
    let path = std::env::temp_dir().join(format!("karakoram-{}-{name}", std::process::id()));
    for ending in ["", "-wal", "-shm"] {
        let _ = std::fs::remove_file(format!("{}{ending}", path.display()));
    }
    path
}

#[test]
fn entries_stay_in_the_file_and_are_seen_by_others_that_have_it_open() {
    let path = file("shared");
    let (a, b) = (Sqlite::open(&path).expect("opens"), Sqlite::open(&path).expect("opens twice"));
    let found = Entry { found: Some("r0 = 1".to_string()), candidates: 7, judgements: 2 };
    let nothing = Entry { found: None, candidates: 9, judgements: 0 };
    a.put(&Digest([1; 16]), &found);
    b.put(&Digest([2; 16]), &nothing);
    assert_eq!(b.get(&Digest([1; 16])), Some(found.clone()));
    assert_eq!(a.get(&Digest([2; 16])), Some(nothing));
    assert_eq!(a.get(&Digest([3; 16])), None);
    drop((a, b));
    let again = Sqlite::open(&path).expect("opens again");
    assert_eq!(again.get(&Digest([1; 16])), Some(found));
    let s = again.statistics().expect("counts");
    assert_eq!((s.found, s.nothing, s.candidates), (1, 1, 16));
    let other = file("other");
    let into = Sqlite::open(&other).expect("opens");
    assert_eq!(into.merge(&path).expect("merges"), 2);
    assert_eq!(into.merge(&path).expect("merges"), 0, "there already");
    again.clear().expect("clears");
    assert_eq!(again.get(&Digest([1; 16])), None);
    drop((again, into));
    file("shared");
    file("other");
}

#[test]
fn a_file_that_is_no_store_is_refused() {
    let path = file("text");
    std::fs::write(&path, "this is a text and no database, and it is long enough to be looked at").expect("writable");
    assert!(Sqlite::open(&path).is_err());
    file("text");
}
