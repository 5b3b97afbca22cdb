//! Reader of the lines of a file or of standard input. A thread reads ahead; the caller takes all
//! lines read so far as one batch.

use std::collections::VecDeque;
use std::fs::File;
use std::io::{self, BufRead, BufReader, Read as _};
use std::path::Path;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;

use crate::console::Console;
use crate::failure::{Exit, Failure, Result};

/// Maximum number of lines that a batch contains.
const MAX_LINES: usize = super::MAX_BATCH as usize;
/// Maximum number of bytes that a batch contains, unless a single line is longer.
const MAX_BATCH_BYTES: usize = 2 << 20;
/// Maximum length of an input line, in bytes. Every valid message is shorter, even with all
/// characters escaped.
const MAX_LINE_BYTES: usize = 8 << 20;

/// Line of the input without its line break.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Line {
    /// Line number in the input, from 1.
    pub(super) number: u64,
    /// Content of the line; `None` if it has more than [`MAX_LINE_BYTES`].
    pub(super) content: Option<Vec<u8>>,
}

impl Line {
    fn bytes(&self) -> usize {
        self.content.as_ref().map_or(0, Vec::len)
    }

    /// Returns the content of the line.
    ///
    /// # Errors
    /// The line is too long.
    pub(super) fn content(self) -> std::result::Result<Vec<u8>, String> {
        let too_long = || format!("it has more than {} MiB", MAX_LINE_BYTES >> 20);
        self.content.ok_or_else(too_long)
    }
}

/// Reader of input lines. Its thread reads ahead by at most one batch.
#[derive(Debug)]
pub(super) struct Lines(Arc<Shared>);

#[derive(Debug, Default)]
struct Shared {
    state: Mutex<State>,
    /// Notification for the thread: the caller took lines, or dropped the reader.
    taken: Condvar,
    /// Notification for the caller: lines were read, or the input has ended.
    came: Notify,
}

#[derive(Debug, Default)]
struct State {
    lines: VecDeque<Line>,
    bytes: usize,
    /// Result of the reading thread; `None` while the thread reads.
    end: Option<io::Result<()>>,
    is_dropped: bool,
}

impl Lines {
    /// Starts to read the lines of a file, or of standard input if `file` is `None`.
    pub(super) fn open(file: Option<&Path>, console: &mut Console) -> Result<Self> {
        let source: Box<dyn BufRead + Send> = match file {
            Some(path) => {
                let file = File::open(path).map_err(|error| Failure::file("read", path, &error))?;
                Box::new(BufReader::new(file))
            }
            None => console.take_input(),
        };
        Ok(Self::read(source))
    }

    fn read(mut source: Box<dyn BufRead + Send>) -> Self {
        let shared = Arc::new(Shared::default());
        let reader = Arc::clone(&shared);
        // Use a separate thread, because a read from a terminal or a pipe blocks and cannot be interrupted.
        std::thread::spawn(move || {
            let end = reader.fill(&mut *source);
            reader.state().end = Some(end);
            reader.came.notify_one();
        });
        Self(shared)
    }

    /// Waits for lines and returns all lines read so far, or `None` at the end of the input. A
    /// canceled call loses no line.
    pub(super) async fn next(&mut self) -> Result<Option<Vec<Line>>> {
        loop {
            {
                let mut state = self.0.state();
                if !state.lines.is_empty() {
                    state.bytes = 0;
                    self.0.taken.notify_one();
                    return Ok(Some(state.lines.drain(..).collect()));
                }
                match state.end.take() {
                    None => {}
                    Some(Ok(())) => return Ok(None),
                    Some(Err(error)) => {
                        return Err(Failure::new(
                            Exit::Failed,
                            format!("cannot read the input: {error}"),
                        ));
                    }
                }
            }
            self.0.came.notified().await;
        }
    }
}

impl Drop for Lines {
    fn drop(&mut self) {
        self.0.state().is_dropped = true;
        self.0.taken.notify_one();
    }
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn fill(&self, source: &mut dyn BufRead) -> io::Result<()> {
        let mut number = 0;
        while let Some(content) = read_line(source)? {
            number += 1;
            let line = Line { number, content };
            let is_full = |state: &mut State| {
                let bytes = state.bytes + line.bytes();
                !state.is_dropped
                    && !state.lines.is_empty()
                    && (state.lines.len() >= MAX_LINES || bytes > MAX_BATCH_BYTES)
            };
            let waited = self.taken.wait_while(self.state(), is_full);
            let mut state = waited.unwrap_or_else(PoisonError::into_inner);
            if state.is_dropped {
                return Ok(());
            }
            state.bytes += line.bytes();
            state.lines.push_back(line);
            drop(state);
            self.came.notify_one();
        }
        Ok(())
    }
}

/// Reads the next line without its line break. Returns `None` at the end of the input, and
/// `Some(None)` for a line that is too long, which is skipped.
#[allow(clippy::option_option)] // whether there is a line, and whether it can be held
fn read_line(source: &mut dyn BufRead) -> io::Result<Option<Option<Vec<u8>>>> {
    let mut line = Vec::new();
    let most = MAX_LINE_BYTES as u64 + 1;
    if source.take(most).read_until(b'\n', &mut line)? == 0 {
        return Ok(None);
    }
    if line.last() != Some(&b'\n') && line.len() > MAX_LINE_BYTES {
        source.skip_until(b'\n')?;
        return Ok(Some(None));
    }
    if line.pop_if(|last| *last == b'\n').is_some() {
        line.pop_if(|last| *last == b'\r');
    }
    Ok(Some(Some(line)))
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    async fn all(text: Vec<u8>) -> Vec<Line> {
        let mut lines = Lines::read(Box::new(io::Cursor::new(text)));
        let mut all = Vec::new();
        while let Some(some) = lines.next().await.unwrap() {
            assert!(!some.is_empty() && some.len() <= MAX_LINES);
            let bytes: usize = some.iter().map(Line::bytes).sum();
            assert!(some.len() == 1 || bytes <= MAX_BATCH_BYTES, "{bytes}");
            all.extend(some);
        }
        all
    }

    #[tokio::test]
    async fn every_line_is_given_once_without_its_end() {
        let lines = all(b"one\r\ntwo\n\n\xff\r".to_vec()).await;
        let contents: Vec<_> = lines
            .iter()
            .map(|line| line.content.as_deref().unwrap())
            .collect();
        assert_eq!(contents, [&b"one"[..], b"two", b"", b"\xff\r"]);
        assert_eq!(lines[3].number, 4);
        assert_eq!(all(Vec::new()).await, []);
    }

    #[tokio::test]
    async fn batches_are_bounded_and_a_line_that_is_too_long_is_read_past() {
        let mut text = "a\n".repeat(3_000).into_bytes();
        for length in [
            3 << 20,
            MAX_LINE_BYTES,
            MAX_LINE_BYTES + 1,
            3 * MAX_LINE_BYTES,
            1 << 20,
            1 << 20,
            1 << 20,
        ] {
            text.extend(vec![b'x'; length]);
            text.push(b'\n');
        }
        text.extend(b"last");
        let lines = all(text).await;
        assert_eq!(lines.len(), 3_008);
        let lengths: Vec<_> = lines[3_000..]
            .iter()
            .map(|line| line.content.as_ref().map(Vec::len))
            .collect();
        let one = Some(1 << 20);
        assert_eq!(
            lengths,
            [
                Some(3 << 20),
                Some(MAX_LINE_BYTES),
                None,
                None,
                one,
                one,
                one,
                Some(4)
            ]
        );
        assert_eq!(lines.last().unwrap().number, 3_008);
    }
}
