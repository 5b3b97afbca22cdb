//! The one error of filter and sort text, which points at the text.

use std::fmt;

use super::Span;

/// Which text an error is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Subject {
    /// Filter text.
    Filter,
    /// Sort text.
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

/// What is wrong with a text, for programs; people read the message.
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
    /// Something else should stand here.
    Unexpected,
    /// A keyword in letters of the wrong case.
    KeywordCase,
    /// Two conditions with nothing between them.
    MissingAnd,
    /// Parentheses where the grammar has none.
    Parentheses,
    /// An operator that is not supported.
    UnsupportedOperator,
    /// A negation.
    UnsupportedNegation,
    /// A function other than `startsWith`.
    UnsupportedFunction,
    /// A `*` outside a string.
    UnsupportedWildcard,
    /// An OR of anything but equalities of one field.
    UnsupportedOr,
    /// Not a field's name.
    InvalidName,
    /// Not a literal.
    InvalidLiteral,
    /// Not an escape that strings know.
    InvalidEscape,
    /// A control character in a string that is not escaped.
    ControlCharacter,
    /// A string without its closing quote.
    UnterminatedString,
    /// A tuple with more fields than values, or fewer.
    TupleLength,
    /// A field named twice.
    DuplicateField,
    /// Reported by [`TextError::at`] for the one who gives the text its meaning.
    Meaning,
}

/// Why a text was refused, and where.
///
/// [`Display`](fmt::Display) is one line, `filter, column 14: …`; [`render`](Self::render) shows
/// the text with a pointer into it.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct TextError {
    /// Which text.
    pub subject: Subject,
    /// What is wrong, for programs.
    pub kind: TextErrorKind,
    /// What is wrong, for people.
    pub message: String,
    /// Where, in bytes.
    pub span: Span,
    /// Where, in characters from the beginning of the text; the first is 1.
    pub column: usize,
    /// What to do about it.
    pub hint: Option<String>,
}

impl std::error::Error for TextError {}

impl fmt::Display for TextError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}, column {}: {}", self.subject, self.column, self.message)
    }
}

/// How many characters of a line [`TextError::render`] shows.
const RENDERED_WIDTH: usize = 78;
/// How many of these stand before the pointer when the line is longer.
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

    /// An error of kind [`TextErrorKind::Meaning`] about the piece `span` of `text`: for a field
    /// that does not exist, a literal that is not of its field's type, and the like.
    #[must_use]
    pub fn at(subject: Subject, text: &str, span: Span, message: impl Into<String>) -> Self {
        Self::new(subject, TextErrorKind::Meaning, text, span, message)
    }

    /// With a hint: a sentence that says what to do.
    #[must_use]
    pub fn with_hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }

    /// The error, the line of `text` it is about (a piece of it, if it is long), a pointer and the
    /// hint, on lines of their own without a newline at the end. `text` is the text that was
    /// parsed. Control characters are shown as `?`, so that a terminal takes no orders from them.
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

    /// The line the span begins in, how many of its characters stand before the span, and how many
    /// the span takes of it.
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

/// The last character boundary of `text` that is not after `offset`.
fn floor(text: &str, offset: usize) -> usize {
    let mut offset = offset.min(text.len());
    while !text.is_char_boundary(offset) {
        offset -= 1;
    }
    offset
}
