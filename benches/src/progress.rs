//! Progress line of a long run, on standard error.

use std::io::{IsTerminal, Write as _};
use std::time::{Duration, Instant};

/// Interval between two lines of progress if the output is no terminal, where a line cannot be overwritten.
const LINE_EVERY: Duration = Duration::from_secs(10);

/// Progress output on standard error. It shows the time, the phase and the current work.
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

    /// Sets the name of the current phase.
    pub(crate) fn phase(&mut self, name: &str) {
        name.clone_into(&mut self.phase);
        self.last = None;
        self.say("…");
    }

    /// Shows the current step of the phase.
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

    /// Ends the progress output with a last line.
    pub(crate) fn done(&self) {
        if self.is_terminal {
            eprintln!();
        }
        eprintln!("{:>5} s  done", self.started.elapsed().as_secs());
    }
}
