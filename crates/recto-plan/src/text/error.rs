//! Error in filter or sort text, with the position of the error in the text.

use std::fmt;

use super::Span;

/// Kind of text in which an error occurred.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Subject {
    /// Text of a filter.
    Filter,
    /// Text of a sort.
    Sort,
}

impl fmt::Display for Subject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Filter => "filter",
            Self::Sort => "sort",
        })
    }
}

/// Kind of an error in filter or sort text, for programs. People read the message.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum TextErrorKind {
    /// The text is longer than [`MAX_TEXT_BYTES`](super::MAX_TEXT_BYTES).
    TooLong,
    /// There are more conditions than [`MAX_CONDITIONS`](super::filter::MAX_CONDITIONS).
    TooManyConditions,
    /// There are more values than [`MAX_VALUES`](super::filter::MAX_VALUES).
    TooManyValues,
    /// There are more fields than [`MAX_SORT_FIELDS`](super::sort::MAX_SORT_FIELDS).
    TooManyFields,
    /// The text has another word or symbol at the error's position than the grammar requires.
    Unexpected,
    /// A keyword is in the wrong case.
    KeywordCase,
    /// Two conditions have no keyword between them.
    MissingAnd,
    /// The text has parentheses at a position where the grammar has none.
    Parentheses,
    /// The operator exists in other languages, but not in filter text.
    UnsupportedOperator,
    /// The filter contains a negation, such as `NOT`, which is not supported.
    UnsupportedNegation,
    /// The filter calls a function other than `startsWith`.
    UnsupportedFunction,
    /// The filter contains a `*` outside of a string.
    UnsupportedWildcard,
    /// The filter contains an OR of other conditions than equalities of one field.
    UnsupportedOr,
    /// The text is not a field name.
    InvalidName,
    /// The text is not a literal.
    InvalidLiteral,
    /// A string contains an escape that strings do not support.
    InvalidEscape,
    /// A string contains a control character without an escape.
    ControlCharacter,
    /// A string has no closing quote.
    UnterminatedString,
    /// The number of fields in a tuple differs from the number of values.
    TupleLength,
    /// A sort or a tuple has a field twice.
    DuplicateField,
    /// The text is syntactically correct, but invalid for the collection, for example because a field does
    /// not exist. [`TextError::at`] creates this error.
    Meaning,
}

/// Error in filter or sort text, with its position.
///
/// [`Display`](fmt::Display) prints one line, `filter, column 14: …`. [`render`](Self::render) shows the text
/// with a pointer to the error.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct TextError {
    /// Kind of the text: filter or sort.
    pub subject: Subject,
    /// Kind of the error, for programs.
    pub kind: TextErrorKind,
    /// Error message, for people.
    pub message: String,
    /// Position of the error in the text, as byte offsets.
    pub span: Span,
    /// Position of the error in the text, in characters, counted from 1.
    pub column: usize,
    /// Hint that says how to resolve the error.
    pub hint: Option<String>,
}

impl std::error::Error for TextError {}

impl fmt::Display for TextError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}, column {}: {}", self.subject, self.column, self.message)
    }
}

/// Maximum number of characters of a line that [`TextError::render`] shows.
const RENDERED_WIDTH: usize = 78;
/// Number of characters before the pointer that [`TextError::render`] shows, if the line is too
/// long to show whole.
const RENDERED_BEFORE: usize = 30;

impl TextError {
    pub(super) fn new(
        subject: Subject,
        kind: TextErrorKind,
        text: &str,
        span: Span,
        message: impl Into<String>,
    ) -> Self {
        Self {
            subject,
            kind,
            message: message.into(),
            span,
            column: text
                .char_indices()
                .take_while(|(offset, _)| *offset < span.start)
                .count()
                + 1,
            hint: None,
        }
    }

    /// Returns an error of kind [`TextErrorKind::Meaning`] about the range `span` of `text`.
    /// Examples are a field that does not exist, and a literal that does not have the type of its
    /// field.
    #[must_use]
    pub fn at(subject: Subject, text: &str, span: Span, message: impl Into<String>) -> Self {
        Self::new(subject, TextErrorKind::Meaning, text, span, message)
    }

    /// Adds a hint: a sentence that says how to resolve the error.
    #[must_use]
    pub fn with_hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }

    /// Returns a message of several lines: the error, the line of `text` with the error, a pointer
    /// to it, and the hint. Shows only a part of a long line. There is no newline at the end.
    /// `text` must be the text that was parsed. Control characters are shown as `?`, so that they
    /// cannot control a terminal.
    pub fn render(&self, text: &str) -> String {
        let (line, before, marked) = self.line(text);
        let count = line.chars().count();
        let skipped = if count > RENDERED_WIDTH {
            before.saturating_sub(RENDERED_BEFORE)
        } else {
            0
        };
        let shown: String = line
            .chars()
            .skip(skipped)
            .take(RENDERED_WIDTH)
            .map(|character| match character {
                '\t' => ' ',
                character if character.is_control() => '?',
                character => character,
            })
            .collect();
        let (lead, tail) = (
            if skipped > 0 { "…" } else { "" },
            if count > skipped + RENDERED_WIDTH {
                "…"
            } else {
                ""
            },
        );
        let indent = before - skipped + lead.chars().count();
        let pointer = "^".repeat(marked.clamp(1, RENDERED_WIDTH.saturating_sub(before - skipped).max(1)));
        let mut out = format!("{self}\n  {lead}{shown}{tail}\n  {:indent$}{pointer}", "");
        if let Some(hint) = &self.hint {
            out.push_str("\n  hint: ");
            out.push_str(hint);
        }
        out
    }

    /// Returns the line in which the error begins. Also returns two numbers of characters of this
    /// line: those before the error, and those that the error covers.
    fn line<'t>(&self, text: &'t str) -> (&'t str, usize, usize) {
        let start = floor(text, self.span.start);
        let end = floor(text, self.span.end).max(start);
        let from = text[..start].rfind('\n').map_or(0, |newline| newline + 1);
        let to = text[start..]
            .find('\n')
            .map_or(text.len(), |newline| start + newline);
        let before = text[from..start].chars().count();
        (&text[from..to], before, text[start..end.min(to)].chars().count())
    }
}

/// Returns the last character boundary of `text` that is not after `offset`.
fn floor(text: &str, offset: usize) -> usize {
    let mut offset = offset.min(text.len());
    while !text.is_char_boundary(offset) {
        offset -= 1;
    }
    offset
}
