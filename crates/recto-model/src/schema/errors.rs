//! Errors in a schema, and their display.

use std::fmt;
use std::ops::Range;
use std::sync::Arc;

use super::declared::Span;
use super::position::{Lines, Position};
use super::problem::Problem;

/// Maximum number of characters of a source line that an error shows.
const MAX_SHOWN_WIDTH: usize = 100;

/// Error in a schema text, with its position.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct SchemaError {
    /// Rule that the text violates.
    pub problem: Problem,
    /// Position where the error begins.
    pub position: Position,
    /// Range of the text that the error concerns, as byte offsets.
    pub span: Range<usize>,
}

/// All errors in a schema text, in the order of the text.
///
/// They are displayed like the errors of a compiler: `schema.toml:3:12: …` with the line, a mark under the
/// error, and the suggested replacement.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SchemaErrors {
    file_name: String,
    text: Arc<str>,
    errors: Vec<SchemaError>,
    omitted: usize,
}

impl SchemaErrors {
    pub(super) fn new(text: &str, found: Vec<(Span, Problem)>, omitted: usize) -> Self {
        let lines = Lines::of(text);
        let mut errors: Vec<_> = found
            .into_iter()
            .map(|(span, problem)| SchemaError {
                position: lines.position(span.start),
                problem,
                span,
            })
            .collect();
        errors.sort_by_key(|error| error.span.start);
        Self {
            file_name: "schema.toml".into(),
            text: text.into(),
            errors,
            omitted,
        }
    }

    /// Returns the errors with another name of the schema file, which their display contains.
    #[must_use]
    pub fn in_file(mut self, file_name: impl Into<String>) -> Self {
        self.file_name = file_name.into();
        self
    }

    /// Returns the errors, in the order of the text: at least one, at most [`MAX_ERRORS`](super::MAX_ERRORS).
    pub fn errors(&self) -> &[SchemaError] {
        &self.errors
    }

    /// Returns the number of errors beyond the maximum, which [`errors`](Self::errors) does not
    /// list.
    pub fn omitted(&self) -> usize {
        self.omitted
    }
}

impl std::error::Error for SchemaErrors {}

impl fmt::Display for SchemaErrors {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let lines = Lines::of(&self.text);
        for (index, error) in self.errors.iter().enumerate() {
            if index > 0 {
                f.write_str("\n\n")?;
            }
            let Position { line, column } = error.position;
            write!(
                f,
                "{}:{line}:{column}: {}",
                self.file_name,
                OneLine(&error.problem.to_string())
            )?;
            let excerpt = Excerpt::of(lines.line(line), column, lines.marked(&error.span));
            let gutter = line.to_string();
            let blank = " ".repeat(gutter.len());
            write!(
                f,
                "\n {blank} |\n {gutter} | {}\n {blank} | {}",
                excerpt.text, excerpt.mark
            )?;
            if let Some(hint) = error.problem.hint() {
                write!(f, "\n {blank} = help: {}", OneLine(&hint))?;
            }
        }
        if self.omitted > 0 {
            write!(f, "\n\n… and {} more", self.omitted)?;
        }
        Ok(())
    }
}

/// Text that is displayed with escaped control characters, so that it cannot control a terminal.
struct OneLine<'a>(&'a str);

impl fmt::Display for OneLine<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for character in self.0.chars() {
            if character.is_control() {
                write!(f, "{}", character.escape_default())?;
            } else {
                write!(f, "{character}")?;
            }
        }
        Ok(())
    }
}

/// Part of a source line for an error message, and the marks under it.
struct Excerpt {
    text: String,
    mark: String,
}

impl Excerpt {
    /// Returns the part of `line` around `column` (counted from 1), and marks under `marked`
    /// characters from `column` on.
    fn of(line: &str, column: usize, marked: usize) -> Self {
        let first = column.saturating_sub(MAX_SHOWN_WIDTH / 2 + 1);
        let first = if column < MAX_SHOWN_WIDTH { 0 } else { first };
        let shown: String = line
            .chars()
            .skip(first)
            .take(MAX_SHOWN_WIDTH)
            // Show each control character as one space, so that the marks stay under the marked
            // characters.
            .map(|character| if character.is_control() { ' ' } else { character })
            .collect();
        let before = column - 1 - first;
        let marks = marked.clamp(1, MAX_SHOWN_WIDTH.saturating_sub(before).max(1));
        Self {
            text: shown.trim_end().to_owned(),
            mark: format!("{}{}", " ".repeat(before), "^".repeat(marks)),
        }
    }
}

/// All errors in a collection that is declared in code, where errors have no position.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct CollectionError {
    /// Declared name of the collection.
    pub collection: String,
    /// Rules that the declaration violates, at least one.
    pub problems: Vec<Problem>,
}

impl std::error::Error for CollectionError {}

impl fmt::Display for CollectionError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "the declaration of collection `{}` is wrong:",
            OneLine(&self.collection)
        )?;
        for problem in &self.problems {
            write!(f, "\n- {}", OneLine(&problem.to_string()))?;
            if let Some(hint) = problem.hint() {
                write!(f, " ({})", OneLine(&hint))?;
            }
        }
        Ok(())
    }
}
