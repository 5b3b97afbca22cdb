//! Queries of a workload, bound to the fields and types of a collection.

use std::sync::Arc;

use crate::text::{FilterText, Literal, Name, Operator, Term, TextError, filter, sort};
use crate::{Query, QueryError, QueryErrorKind, bind};
use recto_model::schema::Collection;

use crate::advisor::error::{DesignError, DesignErrorKind};
use crate::advisor::samples::{EQUAL, FIRST_OF_MANY, LOWER, UPPER, sample};
use crate::advisor::workload::WorkloadQuery;

/// Literal (an empty string) that replaces a `?` while the type of its field is unknown. The filter
/// parser accepts it wherever a value may be.
const ANY: &str = "\"\"";

/// Hint for a query that needs rows ordered by a field whose type has no order.
pub(crate) const BY_ROWS: &str =
    "remove the condition, or query with allow_filter_scan, which checks rows one by one";

/// Query of a workload, with its names and values resolved in the collection.
#[derive(Debug, Clone)]
pub(crate) struct Bound<'a> {
    pub(crate) asked: &'a WorkloadQuery,
    pub(crate) query: Arc<Query>,
}

/// Text of a query to which the column in an error message refers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Subject {
    Filter,
    Sort,
}

impl<'a> Bound<'a> {
    /// Binds a query to a collection.
    ///
    /// # Errors
    /// - The filter or the sort is not valid text, or does not fit the collection.
    /// - It compares a `?` with a field by which no view can be ordered.
    /// - Its conditions contradict each other.
    pub(crate) fn new(collection: &Collection, asked: &'a WorkloadQuery) -> Result<Self, DesignError> {
        let filled = Filled::new(collection, &asked.filter);
        let filled =
            filled.map_err(|error| refused(asked, &Filled::with(&asked.filter, &[]), error.into()))?;
        let bound = |query| Self { asked, query };
        if let Some((field, ty)) = filled.orderless {
            let message = format!("{field} is a {ty}, and no view can be ordered by it");
            let error = bound(Arc::default()).error(Subject::Filter, Some(&field), &message);
            return Err(error.with_hint(BY_ROWS));
        }
        let query = bind::query(collection, &filled.text, &asked.order_by);
        let query = query.map_err(|error| refused(asked, &filled, error))?;
        let bound = bound(Arc::new(query));
        if bound.query.contradiction {
            let message = "its conditions contradict each other, so no record can match";
            let error = bound.error(Subject::Filter, None, message);
            return Err(error.with_hint("write ? for values: such conditions do not contradict each other"));
        }
        Ok(bound)
    }

    /// Returns an error about the filter or the sort of the query. The error names the column of
    /// `field` in that text.
    pub(crate) fn error(&self, subject: Subject, field: Option<&str>, message: &str) -> DesignError {
        let (word, text) = match subject {
            Subject::Filter => ("filter", &self.asked.filter),
            Subject::Sort => ("sort", &self.asked.order_by),
        };
        let column = field.and_then(|field| column_of(subject, text, field));
        let message = match column {
            Some(column) => format!("{word}, column {column}: {message}"),
            None => message.to_owned(),
        };
        DesignError {
            query: Some(self.asked.name.as_str().into()),
            line: self.asked.line,
            pointed: column.map(|column| (text.clone(), column)),
            ..DesignError::new(DesignErrorKind::Unserved, message)
        }
    }
}

/// Returns the column of the last occurrence of `field` in the filter or sort text, counted in
/// characters from 1.
fn column_of(subject: Subject, text: &str, field: &str) -> Option<usize> {
    let is_it = |name: &&Name| name.text == field;
    let (span, filled) = match subject {
        Subject::Filter => {
            let filled = Filled::with(text, &[]);
            let terms = filter::parse(&filled.text).ok()?.terms;
            let mut names = terms.iter().flat_map(Term::fields);
            (names.rfind(is_it)?.span, filled)
        }
        Subject::Sort => {
            let terms = sort::parse(text).ok()?;
            let span = terms.iter().map(|term| &term.field).find(is_it)?.span;
            return Some(1 + text.get(..span.start)?.chars().count());
        }
    };
    let column = 1 + filled.text.get(..span.start)?.chars().count();
    Some(filled.column(column))
}

fn refused(asked: &WorkloadQuery, filled: &Filled, error: QueryError) -> DesignError {
    let (word, text) = match error.kind {
        QueryErrorKind::Sort => ("sort", &asked.order_by),
        _ => ("filter", &asked.filter),
    };
    let column = error.column.map(|column| match error.kind {
        QueryErrorKind::Sort => column,
        _ => filled.column(column),
    });
    let message = match column {
        Some(column) => format!("{word}, column {column}: {}", error.message),
        None => error.message,
    };
    DesignError {
        query: Some(asked.name.as_str().into()),
        line: asked.line,
        pointed: column.map(|column| (text.clone(), column)),
        hint: error.hint,
        ..DesignError::new(DesignErrorKind::Query, message)
    }
}

/// Filter text with values in place of `?`.
struct Filled {
    text: String,
    /// For each inserted value, the index of its first character and its number of characters.
    fills: Vec<(usize, usize)>,
    /// For each inserted value, its byte offset in `text`.
    starts: Vec<usize>,
    /// Name and type of a field that the filter compares with a `?`, although its type has no
    /// order. `None` if there is no such field.
    orderless: Option<(String, String)>,
}

impl Filled {
    /// Returns the filter text with a sample value in place of each `?`. Each value has the type of
    /// the field that the filter compares with the `?`.
    fn new(collection: &Collection, text: &str) -> Result<Self, TextError> {
        let filled = Self::with(text, &[]);
        if filled.fills.is_empty() {
            return Ok(filled);
        }
        let FilterText { terms } = filter::parse(&filled.text)?;
        let mut values = vec![ANY.to_owned(); filled.fills.len()];
        let mut orderless = None;
        for (field, literal, number) in terms.iter().flat_map(literals) {
            let place = filled
                .starts
                .iter()
                .position(|start| *start == literal.span.start);
            // Ignore an unknown field here, because the binding of the text rejects it later.
            let (Some(place), Some((_, field))) = (place, collection.field(&field.text)) else {
                continue;
            };
            match sample(&field.ty, number) {
                Some(value) => values[place] = value,
                None => orderless = Some((field.name.clone(), field.ty.to_string())),
            }
        }
        Ok(Self {
            orderless,
            ..Self::with(text, &values)
        })
    }

    /// Returns the filter text with one of `values` in place of each `?` outside of strings. Uses
    /// [`ANY`] if there are too few values.
    fn with(text: &str, values: &[String]) -> Self {
        let mut filled = Self {
            text: String::with_capacity(text.len()),
            fills: Vec::new(),
            starts: Vec::new(),
            orderless: None,
        };
        let (mut quote, mut is_escaped, mut column) = (None, false, 0);
        for character in text.chars() {
            let in_string = quote.is_some();
            match (quote, character) {
                _ if is_escaped => is_escaped = false,
                (Some(_), '\\') => is_escaped = true,
                (Some(one), other) if one == other => quote = None,
                (None, '"' | '\'') => quote = Some(character),
                _ => {}
            }
            if character == '?' && !in_string {
                let value = values.get(filled.fills.len()).map_or(ANY, String::as_str);
                let length = value.chars().count();
                filled.fills.push((column, length));
                filled.starts.push(filled.text.len());
                filled.text.push_str(value);
                column += length;
            } else {
                filled.text.push(character);
                column += 1;
            }
        }
        filled
    }

    /// Converts a column of the filled text to the column in the original text, so that errors
    /// point into the user's text.
    fn column(&self, column: usize) -> usize {
        let at = column.saturating_sub(1);
        let mut surplus = 0;
        for &(start, length) in self.fills.iter().take_while(|(start, _)| *start < at) {
            surplus += (length - 1).min(at - start);
        }
        column - surplus
    }
}

/// Returns the literals of a term. Each has the field with which the term compares it, and the
/// index of the sample value that replaces the literal if it is a `?`.
fn literals(term: &Term) -> Vec<(&Name, &Literal, usize)> {
    let number = |operator: Operator| match operator {
        Operator::Equal => EQUAL,
        Operator::Greater | Operator::GreaterOrEqual => LOWER,
        Operator::Less | Operator::LessOrEqual => UPPER,
    };
    match term {
        Term::Compare {
            field,
            operator,
            literal,
        } => vec![(field, literal, number(*operator))],
        Term::AnyOf { field, literals } => {
            let literals = literals.iter().enumerate();
            literals
                .map(|(index, literal)| (field, literal, FIRST_OF_MANY + index))
                .collect()
        }
        Term::StartsWith { field, prefix } => vec![(field, prefix, EQUAL)],
        Term::Tuple {
            fields,
            operator,
            literals,
        } => {
            let pairs = fields.iter().zip(literals);
            pairs
                .map(|(field, literal)| (field, literal, number(*operator)))
                .collect()
        }
    }
}
