//! Collector of the problems in a schema that the parser and the checks report.

use super::MAX_ERRORS;
use super::declared::Span;
use super::errors::SchemaErrors;
use super::position::{Lines, Position};
use super::problem::Problem;

/// Collector of problems in a schema. It keeps the first [`MAX_ERRORS`] problems and counts the
/// others. It also converts offsets in the text to lines.
pub(super) struct Context<'a> {
    lines: Option<Lines<'a>>,
    problems: Vec<(Span, Problem)>,
    omitted: usize,
}

impl<'a> Context<'a> {
    pub(super) fn with_text(text: &'a str) -> Self {
        Self {
            lines: Some(Lines::of(text)),
            problems: Vec::new(),
            omitted: 0,
        }
    }

    pub(super) fn without_text() -> Self {
        Self {
            lines: None,
            problems: Vec::new(),
            omitted: 0,
        }
    }

    /// Adds the problem that `problem` returns, at `span` of the schema text. Beyond [`MAX_ERRORS`]
    /// problems, only counts.
    pub(super) fn report(&mut self, span: &Span, problem: impl FnOnce() -> Problem) {
        if self.problems.len() < MAX_ERRORS {
            self.problems.push((span.clone(), problem()));
        } else {
            self.omitted += 1;
        }
    }

    /// Returns the number of problems reported so far, including those that were only counted.
    pub(super) fn count(&self) -> usize {
        self.problems.len() + self.omitted
    }

    pub(super) fn position(&self, span: &Span) -> Option<Position> {
        self.lines.as_ref().map(|lines| lines.position(span.start))
    }

    pub(super) fn into_problems(self) -> Vec<(Span, Problem)> {
        self.problems
    }

    /// Returns the collected problems as the error of parsing `text`, or `Ok` if there are none.
    pub(super) fn into_errors(self, text: &str) -> Result<(), SchemaErrors> {
        if self.problems.is_empty() {
            return Ok(());
        }
        Err(SchemaErrors::new(text, self.problems, self.omitted))
    }
}
