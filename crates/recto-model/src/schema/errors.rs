//! Errors in a schema, and how they are shown.

use std::fmt;
use std::ops::Range;
use std::sync::Arc;

use super::declared::Span;
use super::position::{Lines, Position};
use super::problem::Problem;

/// The widest piece of a source line that is shown, in characters.
const MAX_SHOWN_WIDTH: usize = 100;

/// One thing wrong in a schema text.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct SchemaError {
    /// What is wrong.
    pub problem: Problem,
    /// Where it begins.
    pub position: Position,
    /// The bytes of the text it is about.
    pub span: Range<usize>,
}

/// Everything wrong in a schema text, in the order of the text.
///
/// Displayed as compilers do: `schema.toml:3:12: …` with the line, the place marked, and what to
/// write instead.
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

    /// The same, displayed with the name of the file that the text is from.
    #[must_use]
    pub fn in_file(mut self, file_name: impl Into<String>) -> Self {
        self.file_name = file_name.into();
        self
    }

    /// The errors, in the order of the text; at least one, at most [`MAX_ERRORS`](super::MAX_ERRORS).
    pub fn errors(&self) -> &[SchemaError] {
        &self.errors
    }

    /// How many more there were.
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

/// Text with control characters escaped, so that a terminal shows a schema and does not obey it.
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

/// The part of a source line that is shown, and the marks under it.
struct Excerpt {
    text: String,
    mark: String,
}

impl Excerpt {
    /// Shows the characters of `line` around `column`, of which `marked` are marked.
    fn of(line: &str, column: usize, marked: usize) -> Self {
        let first = column.saturating_sub(MAX_SHOWN_WIDTH / 2 + 1);
        let first = if column < MAX_SHOWN_WIDTH { 0 } else { first };
        let shown: String = line
            .chars()
            .skip(first)
            .take(MAX_SHOWN_WIDTH)
            // One column each, so that the marks stand under what they mark.
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

/// Everything wrong with a collection declared in code.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct CollectionError {
    /// The collection's name as declared.
    pub collection: String,
    /// What is wrong, at least one thing.
    pub problems: Vec<Problem>,
}

impl std::error::Error for CollectionError {}

impl fmt::Display for CollectionError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "collection `{}` is declared wrongly:",
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
