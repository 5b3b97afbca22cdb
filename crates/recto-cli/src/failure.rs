//! Failure of a command, its display, and its exit code.

use std::error::Error as StdError;
use std::io;

use recto::ErrorKind;
use recto::problem::ProblemType;

use crate::console::{Console, Tone};
use crate::text::{printable, printable_lines, width};

/// Outcome of a command. It determines the exit code of the program.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Exit {
    Done,
    /// The store, a file or the network failed.
    Failed,
    /// The request was rejected: an argument, filter, token, schema or record is invalid.
    Refused,
    /// The collection, record or file does not exist.
    NotFound,
    /// The command succeeded in part: for example, a load rejected rows, or a check found problems.
    Partly,
    /// A write may or may not have been applied.
    Unknown,
    /// The user stopped the command by Ctrl-C.
    Interrupted,
}

impl Exit {
    /// Returns the exit for a failed request with a problem of the given type.
    fn of(problem: ProblemType) -> Self {
        let failures = [Exit::Refused, Exit::NotFound, Exit::Unknown];
        let exit = failures
            .into_iter()
            .find(|exit| exit.code() == problem.exit_code());
        exit.unwrap_or(Exit::Failed)
    }

    /// Returns the exit code as a number.
    pub(crate) fn code(self) -> u8 {
        match self {
            Exit::Done => 0,
            Exit::Failed => 1,
            Exit::Refused => 2,
            Exit::NotFound => 3,
            Exit::Partly => 4,
            Exit::Unknown => 5,
            Exit::Interrupted => 130,
        }
    }
}

/// Table of the exit codes, for `--help`.
pub(crate) const EXIT_CODES: &str = "\
Exit codes:
  0    done
  1    failed: the store, a file or the network
  2    rejected: an argument, filter, sort, token, schema or record is invalid, or another record exists
  3    not found: the collection, record or file does not exist
  4    partly done: for example, `load` rejected rows, or `check` found problems
  5    unknown: a write may or may not have been applied; repeat it to resolve the outcome
  130  stopped by Ctrl-C";

/// Failure of a command: message, hint, causes and exit code.
#[derive(Debug)]
pub(crate) struct Failure {
    pub(crate) exit: Exit,
    message: String,
    /// Line of input text that the message is about, and the column of the error in it (from 1, in
    /// characters).
    pointed: Option<(String, usize)>,
    hint: Option<String>,
    causes: Vec<String>,
    quiet: bool,
}

/// Result of a command or a part of it, whose error is printed to the user.
pub(crate) type Result<T> = std::result::Result<T, Failure>;

impl Failure {
    /// Creates a failure with a message. It ends the program with the exit code of `exit`.
    pub(crate) fn new(exit: Exit, message: impl Into<String>) -> Self {
        Self {
            exit,
            message: message.into(),
            pointed: None,
            hint: None,
            causes: Vec::new(),
            quiet: false,
        }
    }

    /// Adds a hint: advice on how to fix the failure.
    pub(crate) fn with_hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }

    /// Puts the position in the input, such as `line 7`, in front of the message.
    pub(crate) fn at(mut self, place: &str) -> Self {
        self.message = format!("{place}: {}", self.message);
        self
    }

    /// Adds a description of what succeeded before the failure to the message.
    pub(crate) fn after(mut self, done: &str) -> Self {
        self.message = format!("{} ({done})", self.message);
        self
    }

    /// Replaces a name in the message, for example a temporary file's name by the name that the
    /// user knows.
    pub(crate) fn renaming(mut self, from: &str, to: &str) -> Self {
        self.message = self.message.replace(from, to);
        self
    }

    /// Returns the message, without the hint.
    pub(crate) fn message(&self) -> &str {
        &self.message
    }

    /// Adds the input text that the message is about. The output shows it with a caret below the
    /// column.
    pub(crate) fn pointing(mut self, text: &str, column: usize) -> Self {
        self.pointed = Some((text.to_owned(), column));
        self
    }

    /// Creates the failure of a file operation. `what` is the operation, such as `read`.
    pub(crate) fn file(what: &str, path: &std::path::Path, error: &io::Error) -> Self {
        let exit = if error.kind() == io::ErrorKind::NotFound {
            Exit::NotFound
        } else {
            Exit::Failed
        };
        Self::new(exit, format!("cannot {what} {}: {error}", path.display()))
    }

    /// Prints the failure on standard error.
    pub(crate) fn show(&self, console: &mut Console) {
        if self.quiet {
            return;
        }
        // Ignore an error, because there is no other stream to report it on.
        let _ = self.write(console);
    }

    fn write(&self, console: &mut Console) -> io::Result<()> {
        let error = console.err_paint(Tone::Bad, "error:");
        console.note(format_args!("{error} {}", printable_lines(&self.message)))?;
        for cause in &self.causes {
            console.note(format_args!("  because: {}", printable_lines(cause)))?;
        }
        if let Some((text, column)) = &self.pointed {
            let lines = caret(text, *column, console);
            write!(console.err(), "{lines}")?;
        }
        if let Some(hint) = &self.hint {
            let text = printable_lines(hint.trim_end());
            // Start a hint of several lines on a new line, because users paste such text.
            let gap = if text.contains('\n') { '\n' } else { ' ' };
            let hint = console.err_paint(Tone::Hint, "hint:");
            console.note(format_args!("{hint}{gap}{text}"))?;
        }
        console.err().flush()
    }
}

/// Maximum number of characters of the input that are printed before the caret's column.
const MAX_BEFORE_CARET: usize = 60;
/// Maximum number of characters of the input that are printed from the caret's column on.
const MAX_AFTER_CARET: usize = 40;

/// Returns the line of `text` that contains `column`, and below it a line with a caret at the
/// column.
fn caret(text: &str, column: usize, console: &Console) -> String {
    let characters: Vec<char> = text.chars().collect();
    let at = column.saturating_sub(1).min(characters.len());
    let line_start = characters[..at]
        .iter()
        .rposition(|&next| next == '\n')
        .map_or(0, |index| index + 1);
    let line_end = characters[at..]
        .iter()
        .position(|&next| next == '\n')
        .map_or(characters.len(), |n| at + n);
    let start = line_start.max(at.saturating_sub(MAX_BEFORE_CARET));
    let end = line_end.min(at + MAX_AFTER_CARET);
    let before: String = characters[start..at].iter().collect();
    let after: String = characters[at..end].iter().collect();
    let (before, after) = (printable(&before), printable(&after));
    let left = if start > line_start { "…" } else { "" };
    let right = if end < line_end { "…" } else { "" };
    let indent = " ".repeat(width(&before) + left.chars().count());
    format!(
        "  {left}{before}{after}{right}\n  {indent}{}\n",
        console.err_paint(Tone::Bad, "^")
    )
}

impl From<recto::Error> for Failure {
    fn from(error: recto::Error) -> Self {
        let exit = Exit::of(ProblemType::of(error.kind()));
        let message = error.message().to_owned();
        let mut causes: Vec<String> = Vec::new();
        let mut source = error.source();
        while let Some(cause) = source {
            let text = cause.to_string();
            if !message.contains(&text) && !causes.iter().any(|earlier| earlier.contains(&text)) {
                causes.push(text);
            }
            source = cause.source();
        }
        // Print the hint before the list of reasons (one per view), because users look for the
        // solution first.
        let (message, hint) = match (message.split_once(":\n"), error.hint()) {
            (Some((first, why)), Some(hint)) if error.kind() == ErrorKind::NoPlan => {
                let hint = format!("{}\nwhy not:\n{why}", hint.trim_end());
                (first.to_owned(), Some(hint))
            }
            (_, hint) => {
                let hint = hint.map(str::to_owned);
                (message, hint)
            }
        };
        Self {
            exit,
            message,
            pointed: None,
            hint,
            causes,
            quiet: false,
        }
    }
}

/// Converts an error of writing output to a failure. If the reader has closed the pipe (`| head`),
/// the command ends without an error.
impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Self {
        if error.kind() == io::ErrorKind::BrokenPipe {
            return Self {
                quiet: true,
                ..Self::new(Exit::Done, "")
            };
        }
        Self::new(Exit::Failed, format!("cannot write the output: {error}"))
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    fn shown(failure: &Failure) -> String {
        let (mut console, screen) = Console::captured(80);
        failure.show(&mut console);
        screen.err()
    }

    #[test]
    fn a_failure_shows_message_cause_place_and_hint() {
        let source = io::Error::other("connection refused");
        let error = recto::Error::new(
            ErrorKind::InvalidQuery,
            "filter, column 11: there is no field \"carier\"",
        )
        .with_hint("did you mean carrier?")
        .with_source(source);
        let failure = Failure::from(error).pointing("year = 1\nAND carier = \"UA\"", 14);
        assert_eq!(
            shown(&failure),
            "error: filter, column 11: there is no field \"carier\"\n  because: connection refused\n  \
             AND carier = \"UA\"\n      ^\nhint: did you mean carrier?\n"
        );
    }

    #[test]
    fn aligns_the_caret_with_wide_and_escaped_characters() {
        let (console, _) = Console::captured(80);
        assert_eq!(caret("名 = \t1", 6, &console), "  名 = \\t1\n         ^\n");
        assert_eq!(caret("a =", 4, &console), "  a =\n     ^\n");
        assert_eq!(caret("", 1, &console), "  \n  ^\n");
        assert_eq!(caret("a", usize::MAX, &console), "  a\n   ^\n");
    }

    #[test]
    fn a_long_text_is_cut_around_the_caret() {
        let (console, _) = Console::captured(80);
        let text = "x".repeat(500);
        let shown = caret(&text, 250, &console);
        assert_eq!(shown.lines().next().unwrap(), format!("  …{}…", "x".repeat(100)));
        assert_eq!(shown.lines().nth(1).unwrap(), format!("  {}^", " ".repeat(61)));
    }

    #[test]
    fn a_reader_that_went_away_is_no_failure() {
        let failure = Failure::from(io::Error::from(io::ErrorKind::BrokenPipe));
        assert_eq!((failure.exit.code(), shown(&failure)), (0, String::new()));
        assert_eq!(Failure::from(io::Error::other("disk full")).exit, Exit::Failed);
    }
}
