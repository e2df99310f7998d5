//! A solver's process that is asked one question after another: most questions take less time than its start.

use std::io::{BufRead as _, BufReader, Error, ErrorKind, Result, Write as _};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

/// Time that a solver may take beyond its limit before it is given up.
const GRACE: Duration = Duration::from_secs(5);
/// What it says when it is done with a question.
const END: &str = "end-of-question";

/// A running solver that reads SMT-LIB2. Ends with this value.
#[derive(Debug)]
pub struct Session {
    child: Child,
    input: ChildStdin,
    lines: Receiver<String>,
}

impl Session {
    /// Starts it.
    pub fn start(command: &mut Command) -> Result<Session> {
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn()?;
        let (Some(input), Some(output)) = (child.stdin.take(), child.stdout.take()) else {
            return Err(Error::from(ErrorKind::BrokenPipe));
        };
        let (found, lines) = channel();
        std::thread::spawn(move || {
            BufReader::new(output).lines().map_while(Result::ok).try_for_each(|line| found.send(line))
        });
        Ok(Session { child, input, lines })
    }

    /// The first line of the answer to a script that knows nothing of those before it, with a limit that the option of
    /// that name sets in milliseconds. After an error the session is of no use any more.
    pub fn ask(&mut self, script: &str, option: &str, limit: Duration) -> Result<String> {
        let milliseconds = limit.as_millis();
        write!(self.input, "(reset)\n(set-option {option} {milliseconds})\n{script}\n(echo \"{END}\")\n")?;
        self.input.flush()?;
        let mut first = None;
        loop {
            let line = self.lines.recv_timeout(limit + GRACE).map_err(|_| Error::from(ErrorKind::TimedOut))?;
            if line.trim().trim_matches('"') == END {
                return Ok(first.unwrap_or_default());
            }
            first.get_or_insert(line);
        }
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
