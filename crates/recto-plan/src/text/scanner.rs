//! Scanner that the filter parser and the sort parser use to read a text.

use super::error::{Subject, TextError, TextErrorKind};
use super::literal::{Name, is_name};
use super::{MAX_TEXT_BYTES, Span};

/// Maximum number of characters of the user's text that an error message repeats.
const QUOTED_LENGTH: usize = 40;

/// Filter or sort text, and the byte offset up to which the parser has read it.
pub(super) struct Scanner<'t> {
    text: &'t str,
    at: usize,
    subject: Subject,
}

impl<'t> Scanner<'t> {
    /// Returns a scanner at the beginning of `text`. Fails if the text is longer than
    /// [`MAX_TEXT_BYTES`].
    pub(super) fn new(subject: Subject, text: &'t str) -> Result<Self, TextError> {
        let scanner = Self::of_any_length(subject, text);
        if text.len() > MAX_TEXT_BYTES {
            let mut limit = MAX_TEXT_BYTES;
            while !text.is_char_boundary(limit) {
                limit -= 1;
            }
            return Err(scanner
                .error(
                    TextErrorKind::TooLong,
                    Span::new(limit, limit),
                    format!("the text has {} bytes; the limit is {MAX_TEXT_BYTES}", text.len()),
                )
                .with_hint("Use fewer conditions, in several queries."));
        }
        Ok(scanner)
    }

    /// Returns a scanner for a text of any length, for text that Recto wrote itself.
    pub(super) fn of_any_length(subject: Subject, text: &'t str) -> Self {
        Self { text, at: 0, subject }
    }

    /// Returns the byte offset of the next character.
    pub(super) fn at(&self) -> usize {
        self.at
    }

    /// Moves to an offset that [`at`](Self::at) returned.
    pub(super) fn go_to(&mut self, at: usize) {
        self.at = at;
    }

    /// Returns the text between an offset that [`at`](Self::at) returned and the current offset.
    pub(super) fn since(&self, start: usize) -> &'t str {
        &self.text[start..self.at]
    }

    /// Returns the remaining text.
    pub(super) fn rest(&self) -> &'t str {
        &self.text[self.at..]
    }

    /// Returns the next character without consuming it.
    pub(super) fn peek(&self) -> Option<char> {
        self.rest().chars().next()
    }

    /// Consumes and returns the next character.
    pub(super) fn next(&mut self) -> Option<char> {
        let next = self.peek()?;
        self.at += next.len_utf8();
        Some(next)
    }

    /// Consumes the next character if it is `wanted`. Returns whether it was.
    pub(super) fn eat(&mut self, wanted: char) -> bool {
        let found = self.peek() == Some(wanted);
        if found {
            self.at += wanted.len_utf8();
        }
        found
    }

    /// Skips spaces, tabs and line ends.
    pub(super) fn skip_white(&mut self) {
        self.take_while(|character| matches!(character, ' ' | '\t' | '\n' | '\r'));
    }

    /// Consumes the next characters as long as `belongs` returns true, and returns them.
    pub(super) fn take_while(&mut self, belongs: impl Fn(char) -> bool) -> &'t str {
        let rest = self.rest();
        let length = rest.find(|character| !belongs(character)).unwrap_or(rest.len());
        self.at += length;
        &rest[..length]
    }

    /// Returns the next word without consuming it: letters, digits and underscores, not beginning
    /// with a digit. Returns an empty string if no word begins at the current position.
    pub(super) fn peek_word(&self) -> &'t str {
        let rest = self.rest();
        if rest.starts_with(|first: char| first.is_numeric()) {
            return "";
        }
        let length = rest
            .find(|character: char| !(character.is_alphanumeric() || character == '_'))
            .unwrap_or(rest.len());
        &rest[..length]
    }

    /// Reads the name of a field at the current position. On error, the message describes the name
    /// as `role`.
    pub(super) fn name(&mut self, role: &str) -> Result<Name, TextError> {
        let word = self.peek_word();
        if word.is_empty() {
            return Err(self.not_a_name(role));
        }
        let span = Span::new(self.at, self.at + word.len());
        if !is_name(word) {
            let lower = word.to_ascii_lowercase();
            let hint = if is_name(&lower) {
                format!(
                    "Field names have lower-case letters, digits and underscores: did you mean `{lower}`?"
                )
            } else {
                "Field names have lower-case letters, digits and underscores, and begin with a letter."
                    .to_owned()
            };
            let message = format!("{} is not a field name", shorten(word));
            return Err(self
                .error(TextErrorKind::InvalidName, span, message)
                .with_hint(hint));
        }
        self.at = span.end;
        Ok(Name::new(word, span))
    }

    fn not_a_name(&self, role: &str) -> TextError {
        let error = self.unexpected(role);
        match self.peek() {
            Some('"' | '\'' | '`') => error.with_hint("Write the field name without quotes."),
            Some('0'..='9') => {
                error.with_hint("Write the field to the left of its operator: `due < 5`, not `5 > due`.")
            }
            _ => error,
        }
    }

    /// Returns an error about a span of the scanned text.
    pub(super) fn error(&self, kind: TextErrorKind, span: Span, message: impl Into<String>) -> TextError {
        TextError::new(self.subject, kind, self.text, span, message)
    }

    /// Returns the error that the text at the current position is not `expected`.
    pub(super) fn unexpected(&self, expected: &str) -> TextError {
        let word = self.peek_word();
        let (found, length) = match self.peek() {
            None => ("the text ends".to_owned(), 0),
            Some(_) if !word.is_empty() => (format!("{} was found", shorten(word)), word.len()),
            Some(character) => (
                format!("`{}` was found", character.escape_debug()),
                character.len_utf8(),
            ),
        };
        let error = self.error(
            TextErrorKind::Unexpected,
            Span::new(self.at, self.at + length),
            format!("{expected} is expected here, but {found}"),
        );
        match self.peek() {
            Some('“' | '”' | '„' | '‘' | '’' | '«' | '»') => {
                error.with_hint("Use straight quotes for strings: \"…\".")
            }
            Some(character) if character.is_whitespace() => {
                error.with_hint("Replace this special space by an ordinary one.")
            }
            _ => error,
        }
    }
}

/// Returns `text` in backquotes for an error message, truncated if it is long, with escaped control
/// characters.
pub(super) fn shorten(text: &str) -> String {
    let mut out = String::from("`");
    for (count, character) in text.chars().enumerate() {
        if count == QUOTED_LENGTH {
            out.push('…');
            break;
        }
        if character.is_control() {
            out.extend(character.escape_debug());
        } else {
            out.push(character);
        }
    }
    out.push('`');
    out
}
