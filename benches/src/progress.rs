//! A line on the standard error that says how far a long run is.

use std::io::{IsTerminal, Write as _};
use std::time::{Duration, Instant};

/// How often the line is written where it cannot be written over.
const LINE_EVERY: Duration = Duration::from_secs(10);

/// The line.
pub(crate) struct Progress {
    started: Instant,
    last: Option<Instant>,
    is_terminal: bool,
    phase: String,
}

impl Progress {
    pub(crate) fn new() -> Self {
        Self {
            started: Instant::now(),
            last: None,
            is_terminal: std::io::stderr().is_terminal(),
            phase: String::new(),
        }
    }

    /// Goes on with another phase.
    pub(crate) fn phase(&mut self, name: &str) {
        name.clone_into(&mut self.phase);
        self.last = None;
        self.say("…");
    }

    /// What is being done.
    pub(crate) fn say(&mut self, what: &str) {
        let seconds = self.started.elapsed().as_secs();
        if self.is_terminal {
            eprint!("\r\x1b[K{seconds:>5} s  {}: {what}", self.phase);
            let _ = std::io::stderr().flush();
        } else if self.last.is_none_or(|last| last.elapsed() >= LINE_EVERY) {
            self.last = Some(Instant::now());
            eprintln!("{seconds:>5} s  {}: {what}", self.phase);
        }
    }

    /// The end.
    pub(crate) fn done(&self) {
        if self.is_terminal {
            eprintln!();
        }
        eprintln!("{:>5} s  done", self.started.elapsed().as_secs());
    }
}
