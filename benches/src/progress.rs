//! Progress output of a long run, on standard error.

use std::io::{IsTerminal, Write as _};
use std::time::{Duration, Instant};

/// Minimum interval between two lines of progress, if the output is not a terminal. Such lines
/// cannot be overwritten.
const LINE_EVERY: Duration = Duration::from_secs(10);

/// Progress output on standard error: the time since the start, the phase and the current step.
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

    /// Sets the name of the current phase, and shows it.
    pub(crate) fn phase(&mut self, name: &str) {
        name.clone_into(&mut self.phase);
        self.last = None;
        self.say("…");
    }

    /// Shows a description of the current step of the phase.
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

    /// Writes the last line of the progress output, with the total time.
    pub(crate) fn done(&self) {
        if self.is_terminal {
            eprintln!();
        }
        eprintln!("{:>5} s  done", self.started.elapsed().as_secs());
    }
}
