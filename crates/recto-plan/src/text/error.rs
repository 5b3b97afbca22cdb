//! Error of filter and sort text, with the position of the error in the text.

use std::fmt;

use super::Span;

/// Kind of text that an error is about.
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

/// Kind of an error, for programs. People read the message.
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
    /// The word or symbol at this position is not the expected one.
    Unexpected,
    /// A keyword is in the wrong case.
    KeywordCase,
    /// Two conditions have no keyword between them.
    MissingAnd,
    /// The text has parentheses at a position where the grammar has none.
    Parentheses,
    /// The operator is an operator of another language.
    UnsupportedOperator,
    /// Negation is not supported.
    UnsupportedNegation,
    /// A function other than `startsWith` is not supported.
    UnsupportedFunction,
    /// A `*` outside a string is not supported.
    UnsupportedWildcard,
    /// An OR is supported only between equalities of one field.
    UnsupportedOr,
    /// The text is not a field name.
    InvalidName,
    /// The text is not a literal.
    InvalidLiteral,
    /// The escape is not an escape of strings.
    InvalidEscape,
    /// A string contains a control character without an escape.
    ControlCharacter,
    /// A string has no closing quote.
    UnterminatedString,
    /// A tuple has more fields than values, or fewer.
    TupleLength,
    /// A sort or a tuple has a field twice.
    DuplicateField,
    /// The text is syntactically correct, but invalid for the collection, for example because a field does
    /// not exist. [`TextError::at`] creates this error.
    Meaning,
}

/// Error of a text, with its position.
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
    /// Position of the error, in characters from the beginning of the text. The first character has the
    /// number 1.
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

/// Number of characters of a line that [`TextError::render`] shows.
const RENDERED_WIDTH: usize = 78;
/// Number of characters that [`TextError::render`] shows before the pointer, if it shows only a part of a
/// line.
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

    /// Returns the error, the line of `text` with the error (or a part of the line if it is long), a pointer
    /// and the hint. Each has its own line. There is no newline at the end. `text` must be the text that was
    /// parsed. Control characters are shown as `?`, so that they cannot control a terminal.
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

    /// Returns the line in which the span begins, the number of characters of the line before the span, and
    /// the number of characters of the line in the span.
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
