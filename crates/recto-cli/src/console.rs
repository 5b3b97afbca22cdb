//! Console of a command: standard input, output and error, the terminal's size and colors, and the
//! keyboard.

use std::fmt;
use std::io::{self, BufRead, IsTerminal, Write};

use crate::terminal;

/// Meaning of a text, which determines its color or style on a terminal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Tone {
    /// Text without a special meaning, in normal style.
    Plain,
    /// Heading, in bold.
    Strong,
    /// Less important text, such as nulls and footers.
    Dim,
    /// Hint, or a key that the user can press.
    Hint,
    /// Message about a success.
    Good,
    Warning,
    Bad,
}

impl Tone {
    /// Returns the escape sequence that starts the style (ECMA-48, SGR); empty for normal text.
    fn begin(self) -> &'static str {
        match self {
            Tone::Plain => "",
            Tone::Strong => "\u{1b}[1m",
            Tone::Dim => "\u{1b}[2m",
            Tone::Hint => "\u{1b}[36m",
            Tone::Good => "\u{1b}[32m",
            Tone::Warning => "\u{1b}[33m",
            Tone::Bad => "\u{1b}[1m\u{1b}[31m",
        }
    }
}

/// Key that the user pressed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Key {
    /// Character key, in lower case.
    Character(char),
    /// Next page: page down, right arrow or space bar.
    Next,
    /// Previous page: page up, left arrow or backspace.
    Previous,
    /// First page: the home key.
    First,
    /// Last page: the end key.
    Last,
    /// Quit: escape or Ctrl-D.
    Quit,
    /// Interrupt: Ctrl-C.
    Interrupt,
    /// Key without a meaning for the command.
    Other,
}

/// Source of pressed keys: the terminal, or a test.
pub(crate) trait Keyboard: Send {
    /// Waits for the next key.
    fn next_key(&mut self) -> io::Result<Key>;
}

/// Standard streams and keyboard of a command.
#[allow(clippy::struct_excessive_bools)] // each is a fact about a stream, independent of the others
pub(crate) struct Console {
    out: Box<dyn Write + Send>,
    err: Box<dyn Write + Send>,
    input: Box<dyn BufRead + Send>,
    keyboard: Option<Box<dyn Keyboard>>,
    size: Option<(u16, u16)>,
    input_is_terminal: bool,
    err_is_terminal: bool,
    out_has_colour: bool,
    err_has_colour: bool,
}

impl fmt::Debug for Console {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Console")
            .field("size", &self.size)
            .finish_non_exhaustive()
    }
}

impl Console {
    /// Creates the console for the standard streams of this process.
    pub(crate) fn standard() -> Self {
        let out_is_terminal = io::stdout().is_terminal();
        let err_is_terminal = io::stderr().is_terminal();
        let input_is_terminal = io::stdin().is_terminal();
        let interactive = out_is_terminal && input_is_terminal;
        Self {
            out: Box::new(io::BufWriter::new(io::stdout())),
            err: Box::new(io::stderr()),
            input: Box::new(io::BufReader::new(io::stdin())),
            keyboard: interactive.then(terminal::keyboard),
            size: out_is_terminal.then(terminal::size).flatten(),
            input_is_terminal,
            err_is_terminal,
            out_has_colour: out_is_terminal && wants_colour(),
            err_has_colour: err_is_terminal && wants_colour(),
        }
    }

    /// Returns standard output, which is buffered until [`flush`](Self::flush).
    pub(crate) fn out(&mut self) -> &mut dyn Write {
        &mut *self.out
    }

    pub(crate) fn err(&mut self) -> &mut dyn Write {
        &mut *self.err
    }

    pub(crate) fn input(&mut self) -> &mut dyn BufRead {
        &mut *self.input
    }

    /// Takes standard input, so that the caller can read it on another thread. The console then has
    /// an empty input until [`give_input`](Self::give_input).
    pub(crate) fn take_input(&mut self) -> Box<dyn BufRead + Send> {
        std::mem::replace(&mut self.input, Box::new(io::empty()))
    }

    /// Returns standard input to the console, after [`take_input`](Self::take_input).
    pub(crate) fn give_input(&mut self, input: Box<dyn BufRead + Send>) {
        self.input = input;
    }

    /// Flushes standard output.
    pub(crate) fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }

    /// Writes a line to standard output.
    pub(crate) fn line(&mut self, text: impl fmt::Display) -> io::Result<()> {
        writeln!(self.out, "{text}")
    }

    /// Writes a line to standard error, for messages that are not part of the result.
    pub(crate) fn note(&mut self, text: impl fmt::Display) -> io::Result<()> {
        writeln!(self.err, "{text}")
    }

    /// Returns the keyboard, if a user sits at the terminal.
    pub(crate) fn keyboard(&mut self) -> Option<&mut (dyn Keyboard + 'static)> {
        self.keyboard.as_deref_mut()
    }

    /// Returns whether a user sits at the terminal. Otherwise commands must not ask questions.
    pub(crate) fn is_interactive(&self) -> bool {
        self.keyboard.is_some()
    }

    pub(crate) fn input_is_terminal(&self) -> bool {
        self.input_is_terminal
    }

    pub(crate) fn err_is_terminal(&self) -> bool {
        self.err_is_terminal
    }

    /// Returns whether standard error shows colors and styles.
    pub(crate) fn err_has_colour(&self) -> bool {
        self.err_has_colour
    }

    /// Returns the width of the terminal in columns. `None`: standard output is no terminal.
    pub(crate) fn width(&self) -> Option<usize> {
        self.size.map(|(width, _)| usize::from(width))
    }

    /// Returns the height of the terminal in lines. `None`: standard output is no terminal.
    pub(crate) fn height(&self) -> Option<usize> {
        self.size.map(|(_, height)| usize::from(height))
    }

    /// Adds the escape sequences of a style to a text, if standard output shows styles.
    pub(crate) fn paint(&self, tone: Tone, text: &str) -> String {
        painted(self.out_has_colour, tone, text)
    }

    /// Adds the escape sequences of a style to a text, if standard error shows styles.
    pub(crate) fn err_paint(&self, tone: Tone, text: &str) -> String {
        painted(self.err_has_colour, tone, text)
    }

    /// Asks a yes-or-no question on the terminal. Any answer but `y` or `yes` means no.
    pub(crate) fn confirm(&mut self, question: &str) -> io::Result<bool> {
        self.flush()?;
        write!(self.err, "{question} [y/N] ")?;
        self.err.flush()?;
        let mut answer = String::new();
        self.input.read_line(&mut answer)?;
        Ok(matches!(answer.trim().to_ascii_lowercase().as_str(), "y" | "yes"))
    }
}

/// Adds the escape sequences of a style to a text, if `coloured` is true.
pub(crate) fn painted(coloured: bool, tone: Tone, text: &str) -> String {
    if !coloured || tone == Tone::Plain || text.is_empty() {
        return text.to_owned();
    }
    format!("{}{text}\u{1b}[0m", tone.begin())
}

/// Returns whether the user wants colors. Follows <https://no-color.org>, and uses no colors if `TERM` is
/// `dumb`.
fn wants_colour() -> bool {
    std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty())
        && std::env::var_os("TERM").is_none_or(|terminal| terminal != "dumb")
}

#[cfg(test)]
pub(crate) use captured::Screen;

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod captured {
    use std::sync::{Arc, Mutex};

    use super::*;

    /// Recorded output of a console in a test.
    #[derive(Debug, Clone, Default)]
    pub(crate) struct Screen {
        out: Stream,
        err: Stream,
    }

    #[derive(Debug, Clone, Default)]
    struct Stream(Arc<Mutex<Vec<u8>>>);

    impl Write for Stream {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.lock().unwrap().write(bytes)
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    impl Screen {
        pub(crate) fn out(&self) -> String {
            String::from_utf8(self.out.0.lock().unwrap().clone()).unwrap()
        }

        pub(crate) fn err(&self) -> String {
            String::from_utf8(self.err.0.lock().unwrap().clone()).unwrap()
        }
    }

    /// Keyboard of a test, which returns predefined keys, and then the key to quit.
    struct Pressed(std::vec::IntoIter<Key>);

    impl Keyboard for Pressed {
        fn next_key(&mut self) -> io::Result<Key> {
            Ok(self.0.next().unwrap_or(Key::Quit))
        }
    }

    impl Console {
        /// Creates a console of `width` columns whose output is recorded. It has no terminal, no colors and no input.
        pub(crate) fn captured(width: u16) -> (Self, Screen) {
            let screen = Screen::default();
            let console = Self {
                out: Box::new(screen.out.clone()),
                err: Box::new(screen.err.clone()),
                input: Box::new(io::empty()),
                keyboard: None,
                size: Some((width, 40)),
                input_is_terminal: false,
                err_is_terminal: false,
                out_has_colour: false,
                err_has_colour: false,
            };
            (console, screen)
        }

        /// Returns the console with `input` as its standard input.
        pub(crate) fn reading(mut self, input: &'static str) -> Self {
            self.input = Box::new(input.as_bytes());
            self
        }

        /// Returns the console with a pipe instead of a terminal as its standard output, so that it has no
        /// width.
        pub(crate) fn piped(mut self) -> Self {
            self.size = None;
            self
        }

        /// Returns the console with colors on standard output and standard error.
        pub(crate) fn coloured(mut self) -> Self {
            self.out_has_colour = true;
            self.err_has_colour = true;
            self
        }

        /// Returns the console with a user at the terminal who presses `keys`. Answers to questions come from
        /// the standard input.
        pub(crate) fn pressing(mut self, keys: Vec<Key>) -> Self {
            self.keyboard = Some(Box::new(Pressed(keys.into_iter())));
            self
        }
    }
}
