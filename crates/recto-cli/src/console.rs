//! The streams a command speaks to: standard output and error, what kind of terminal they are, and keys.

use std::fmt;
use std::io::{self, BufRead, IsTerminal, Write};

use crate::terminal;

/// What text says, which decides how a terminal shows it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Tone {
    /// Nothing special.
    Plain,
    /// A heading.
    Strong,
    /// Of less weight: nulls, footers.
    Dim,
    /// Something to do or to press.
    Hint,
    /// All is well.
    Good,
    /// To be looked at.
    Warning,
    /// Failed.
    Bad,
}

impl Tone {
    /// The escape sequences that begin it (ECMA-48, SGR).
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

/// A key that was pressed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Key {
    /// A character, in lower case.
    Character(char),
    /// Page down, the right arrow or the space bar.
    Next,
    /// Page up, the left arrow or backspace.
    Previous,
    /// Home.
    First,
    /// End.
    Last,
    /// Escape or Ctrl-D.
    Quit,
    /// Ctrl-C.
    Interrupt,
    /// Any other.
    Other,
}

/// Where keys come from.
pub(crate) trait Keyboard: Send {
    /// Waits for the next key.
    fn next_key(&mut self) -> io::Result<Key>;
}

/// The streams a command speaks to.
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
    /// The process's own streams.
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

    /// Standard output; buffered, see [`flush`](Self::flush).
    pub(crate) fn out(&mut self) -> &mut dyn Write {
        &mut *self.out
    }

    /// Standard error.
    pub(crate) fn err(&mut self) -> &mut dyn Write {
        &mut *self.err
    }

    /// Standard input.
    pub(crate) fn input(&mut self) -> &mut dyn BufRead {
        &mut *self.input
    }

    /// Standard input, for who reads it elsewhere; there is none here any more.
    pub(crate) fn take_input(&mut self) -> Box<dyn BufRead + Send> {
        std::mem::replace(&mut self.input, Box::new(io::empty()))
    }

    /// Gives standard input back that was taken.
    pub(crate) fn give_input(&mut self, input: Box<dyn BufRead + Send>) {
        self.input = input;
    }

    /// Hands on what was written to standard output.
    pub(crate) fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }

    /// Writes a line to standard output.
    pub(crate) fn line(&mut self, text: impl fmt::Display) -> io::Result<()> {
        writeln!(self.out, "{text}")
    }

    /// Writes a line to standard error: what is said beside the result.
    pub(crate) fn note(&mut self, text: impl fmt::Display) -> io::Result<()> {
        writeln!(self.err, "{text}")
    }

    /// The keyboard, where a person sits before the terminal.
    pub(crate) fn keyboard(&mut self) -> Option<&mut (dyn Keyboard + 'static)> {
        self.keyboard.as_deref_mut()
    }

    /// Whether a person sits before the terminal: only then anything asks.
    pub(crate) fn is_interactive(&self) -> bool {
        self.keyboard.is_some()
    }

    /// Whether standard input is a terminal.
    pub(crate) fn input_is_terminal(&self) -> bool {
        self.input_is_terminal
    }

    /// Whether standard error is a terminal.
    pub(crate) fn err_is_terminal(&self) -> bool {
        self.err_is_terminal
    }

    /// Whether standard error shows tones.
    pub(crate) fn err_has_colour(&self) -> bool {
        self.err_has_colour
    }

    /// Columns of the terminal that standard output is.
    pub(crate) fn width(&self) -> Option<usize> {
        self.size.map(|(width, _)| usize::from(width))
    }

    /// Lines of the terminal that standard output is.
    pub(crate) fn height(&self) -> Option<usize> {
        self.size.map(|(_, height)| usize::from(height))
    }

    /// Text for standard output in its tone.
    pub(crate) fn paint(&self, tone: Tone, text: &str) -> String {
        painted(self.out_has_colour, tone, text)
    }

    /// Text for standard error in its tone.
    pub(crate) fn err_paint(&self, tone: Tone, text: &str) -> String {
        painted(self.err_has_colour, tone, text)
    }

    /// Asks a yes-or-no question on the terminal; anything but `y` or `yes` is no.
    pub(crate) fn confirm(&mut self, question: &str) -> io::Result<bool> {
        self.flush()?;
        write!(self.err, "{question} [y/N] ")?;
        self.err.flush()?;
        let mut answer = String::new();
        self.input.read_line(&mut answer)?;
        Ok(matches!(answer.trim().to_ascii_lowercase().as_str(), "y" | "yes"))
    }
}

/// Text in its tone, if the stream shows tones.
pub(crate) fn painted(coloured: bool, tone: Tone, text: &str) -> String {
    if !coloured || tone == Tone::Plain || text.is_empty() {
        return text.to_owned();
    }
    format!("{}{text}\u{1b}[0m", tone.begin())
}

/// The conventions of <https://no-color.org> and of terminals that say they have none.
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

    /// What was written to a console under test.
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
        /// What stands on standard output.
        pub(crate) fn out(&self) -> String {
            String::from_utf8(self.out.0.lock().unwrap().clone()).unwrap()
        }

        /// What stands on standard error.
        pub(crate) fn err(&self) -> String {
            String::from_utf8(self.err.0.lock().unwrap().clone()).unwrap()
        }
    }

    /// Keys that were pressed beforehand; afterwards it is quit.
    struct Pressed(std::vec::IntoIter<Key>);

    impl Keyboard for Pressed {
        fn next_key(&mut self) -> io::Result<Key> {
            Ok(self.0.next().unwrap_or(Key::Quit))
        }
    }

    impl Console {
        /// A console of `width` columns whose output is kept. No terminal, no colours, no input.
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

        /// The same, reading `input`.
        pub(crate) fn reading(mut self, input: &'static str) -> Self {
            self.input = Box::new(input.as_bytes());
            self
        }

        /// The same, as if standard output were a pipe: of no width.
        pub(crate) fn piped(mut self) -> Self {
            self.size = None;
            self
        }

        /// The same, with colours.
        pub(crate) fn coloured(mut self) -> Self {
            self.out_has_colour = true;
            self.err_has_colour = true;
            self
        }

        /// The same, with somebody before it who presses `keys` and types what it reads.
        pub(crate) fn pressing(mut self, keys: Vec<Key>) -> Self {
            self.keyboard = Some(Box::new(Pressed(keys.into_iter())));
            self
        }
    }
}
