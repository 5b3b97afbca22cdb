//! Size of the terminal, for a program whose only command (`recto demo`) reads no keys.

use std::io;
use std::process::{Command, Stdio};

use crate::console::{Key, Keyboard};

/// Returns the numbers of columns and lines of the terminal; `None` without a terminal. Runs
/// `stty`, which exists on Unix.
pub(crate) fn size() -> Option<(u16, u16)> {
    let mut stty = Command::new("stty");
    stty.arg("size").stdin(Stdio::inherit()).stderr(Stdio::null());
    let told = stty.output().ok().filter(|output| output.status.success())?;
    let told = String::from_utf8(told.stdout).ok()?;
    let (lines, columns) = told.trim().split_once(' ')?;
    // Treat 0 columns as no size: a terminal that does not know its size reports 0.
    let columns = columns.parse().ok().filter(|&columns| columns > 0)?;
    Some((columns, lines.parse().ok()?))
}

/// Returns a keyboard without keys. Its existence tells the console that a user sits at the terminal.
pub(crate) fn keyboard() -> Box<dyn Keyboard> {
    Box::new(NoKeys)
}

/// Keyboard that reads no keys, because `recto demo` needs none.
struct NoKeys;

impl Keyboard for NoKeys {
    fn next_key(&mut self) -> io::Result<Key> {
        Ok(Key::Quit)
    }
}
