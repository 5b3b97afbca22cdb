//! Sort text, `due desc, id`: the `order_by` of [AIP-132](https://google.aip.dev/132).
//!
//! A sort is a list of fields with commas between them. Each field is ascending unless ` desc`
//! follows. Additional white space has no meaning. Fields of fields (`a.b`) are not supported.
//! Recto also accepts two forms that AIP-132 does not have:
//!
//! - ` asc`, because users of SQL write it;
//! - `-due` for `due desc`, because schemas and plans write it.

use std::fmt;

use recto_model::Direction;

use super::Span;
use super::error::{Subject, TextError, TextErrorKind};
use super::literal::Name;
use super::scanner::Scanner;

/// Maximum number of fields of a sort text.
pub const MAX_SORT_FIELDS: usize = 32;

/// Field to sort by, with its direction.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SortTerm {
    /// Field to sort by.
    pub field: Name,
    /// Direction in which the rows are sorted by the field.
    pub direction: Direction,
}

impl fmt::Display for SortTerm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.field.fmt(f)?;
        match self.direction {
            Direction::Ascending => Ok(()),
            Direction::Descending => f.write_str(" desc"),
        }
    }
}

/// Returns `terms` as sort text, which parses back to equal terms.
pub fn print(terms: &[SortTerm]) -> String {
    let terms: Vec<String> = terms.iter().map(ToString::to_string).collect();
    terms.join(", ")
}

/// Parses sort text. Text that is empty or white space has no terms, and means the view's own order.
///
/// # Errors
/// [`TextError`], with the position of the syntax error, of a field that is named twice, or of the first
/// field over [`MAX_SORT_FIELDS`].
pub fn parse(text: &str) -> Result<Vec<SortTerm>, TextError> {
    let mut scanner = Scanner::new(Subject::Sort, text)?;
    let mut terms: Vec<SortTerm> = Vec::new();
    scanner.skip_white();
    if scanner.peek().is_none() {
        return Ok(terms);
    }
    loop {
        scanner.skip_white();
        let descends = scanner.eat('-');
        let field = scanner.name("a field name").map_err(sort_hint)?;
        check(&scanner, &terms, &field)?;
        scanner.skip_white();
        // After a minus, read no word for the direction, so that the parser rejects `-due desc` as
        // ambiguous.
        let direction = if descends {
            Direction::Descending
        } else {
            direction(&mut scanner)?
        };
        terms.push(SortTerm { field, direction });
        scanner.skip_white();
        if scanner.peek().is_none() {
            return Ok(terms);
        }
        if !scanner.eat(',') {
            return Err(sort_hint(scanner.unexpected("a comma or the end")));
        }
    }
}

fn check(scanner: &Scanner<'_>, terms: &[SortTerm], field: &Name) -> Result<(), TextError> {
    if terms.iter().any(|earlier| earlier.field == *field) {
        let message = format!("the sort has field `{field}` twice");
        return Err(scanner
            .error(TextErrorKind::DuplicateField, field.span, message)
            .with_hint("Name each field once: a repeated field does not change the order."));
    }
    if terms.len() == MAX_SORT_FIELDS {
        let message = format!("more than {MAX_SORT_FIELDS} fields");
        return Err(scanner
            .error(TextErrorKind::TooManyFields, field.span, message)
            .with_hint("Leave out the last fields: the order of the view completes a sort."));
    }
    Ok(())
}

fn direction(scanner: &mut Scanner<'_>) -> Result<Direction, TextError> {
    let word = scanner.peek_word();
    let span = Span::new(scanner.at(), scanner.at() + word.len());
    let direction = match word {
        "" => return Ok(Direction::Ascending),
        "asc" => Direction::Ascending,
        "desc" => Direction::Descending,
        other => {
            let lower = other.to_ascii_lowercase();
            return Err(if matches!(lower.as_str(), "asc" | "desc") {
                let message = format!("`{other}` must be written `{lower}`");
                scanner
                    .error(TextErrorKind::KeywordCase, span, message)
                    .with_hint(format!("Write `{lower}` in lower case."))
            } else {
                scanner
                    .unexpected("`desc`, a comma or the end")
                    .with_hint("Separate fields by commas: `due desc, id`.")
            });
        }
    };
    scanner.go_to(span.end);
    Ok(direction)
}

fn sort_hint(error: TextError) -> TextError {
    if error.hint.is_some() {
        return error;
    }
    error.with_hint("Write field names separated by commas, each optionally with `desc`: `due desc, id`.")
}
