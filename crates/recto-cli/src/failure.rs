//! Why a command failed, how that is shown, and the exit code it becomes.

use std::error::Error as StdError;
use std::io;

use recto::ErrorKind;
use recto::problem::ProblemType;

use crate::console::{Console, Tone};
use crate::text::{printable, printable_lines, width};

/// How the program ends, as its exit code says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Exit {
    /// All was done.
    Done,
    /// It failed: the store, a file or the network.
    Failed,
    /// What was asked is not right: arguments, filter, token, schema or record.
    Refused,
    /// There is no such collection, record or file.
    NotFound,
    /// It was done, but for rows or problems that were reported.
    Partly,
    /// A write may or may not have been applied.
    Unknown,
    /// Stopped by Ctrl-C.
    Interrupted,
}

impl Exit {
    /// The end of a command that fails with such a problem.
    fn of(problem: ProblemType) -> Self {
        let failures = [Exit::Refused, Exit::NotFound, Exit::Unknown];
        let exit = failures
            .into_iter()
            .find(|exit| exit.code() == problem.exit_code());
        exit.unwrap_or(Exit::Failed)
    }

    /// The exit code.
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

/// What the exit codes mean, for `--help`.
pub(crate) const EXIT_CODES: &str = "\
Exit codes:
  0    done
  1    failed: the store, a file or the network
  2    refused: arguments, filter, sort, token, schema or record are not right, or another record is there
  3    not found: no such collection, record or file
  4    done, but for what was reported: rows rejected by `load`, problems found by `check`
  5    unknown: a write may or may not have been applied; repeating it settles it
  130  stopped by Ctrl-C";

/// Why a command failed.
#[derive(Debug)]
pub(crate) struct Failure {
    pub(crate) exit: Exit,
    message: String,
    /// A line of text and the column in it (1-based, in characters) that the message is about.
    pointed: Option<(String, usize)>,
    hint: Option<String>,
    causes: Vec<String>,
    quiet: bool,
}

/// The result of a command.
pub(crate) type Result<T> = std::result::Result<T, Failure>;

impl Failure {
    /// A failure that ends the program with `exit`.
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

    /// Says what to do about it.
    pub(crate) fn with_hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }

    /// Says where in what was given it is.
    pub(crate) fn at(mut self, place: &str) -> Self {
        self.message = format!("{place}: {}", self.message);
        self
    }

    /// Says what was done before.
    pub(crate) fn after(mut self, done: &str) -> Self {
        self.message = format!("{} ({done})", self.message);
        self
    }

    /// Calls a file by the name that the user knows.
    pub(crate) fn renaming(mut self, from: &str, to: &str) -> Self {
        self.message = self.message.replace(from, to);
        self
    }

    /// What failed.
    pub(crate) fn message(&self) -> &str {
        &self.message
    }

    /// Shows the text it is about, with a caret under the column.
    pub(crate) fn pointing(mut self, text: &str, column: usize) -> Self {
        self.pointed = Some((text.to_owned(), column));
        self
    }

    /// A failure to do something with a file.
    pub(crate) fn file(what: &str, path: &std::path::Path, error: &io::Error) -> Self {
        let exit = if error.kind() == io::ErrorKind::NotFound {
            Exit::NotFound
        } else {
            Exit::Failed
        };
        Self::new(exit, format!("cannot {what} {}: {error}", path.display()))
    }

    /// Shows it on standard error.
    pub(crate) fn show(&self, console: &mut Console) {
        if self.quiet {
            return;
        }
        // Where standard error cannot be written to, nobody is left to tell.
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
            // Text to paste stands on lines of its own.
            let gap = if text.contains('\n') { '\n' } else { ' ' };
            let hint = console.err_paint(Tone::Hint, "hint:");
            console.note(format_args!("{hint}{gap}{text}"))?;
        }
        console.err().flush()
    }
}

/// The widest piece of the text that is shown before the caret, in characters.
const MAX_BEFORE_CARET: usize = 60;
/// The widest piece of the text that is shown from the caret on, in characters.
const MAX_AFTER_CARET: usize = 40;

/// The line of the text that holds the column, and a caret below it.
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
        // Show the hint before the reason why each view does not serve: users look for the way out first.
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

/// Writing output failed. A reader that went away (`| head`) has what it wanted: that ends quietly.
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
    fn the_caret_stands_under_wide_and_escaped_characters_and_past_the_end() {
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
