//! Errors of a query.

use std::fmt;

use recto_api::suggestion::Suggestion;
use recto_api::{ErrorKind, ErrorPart};

/// Kind of a [`QueryError`]: the part of the query that is wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum QueryErrorKind {
    /// Error in the text or the values of the filter.
    Filter,
    /// Error in the text or the fields of the sort.
    Sort,
    /// The query exceeds a limit on the number of conditions, values, or combinations of values.
    Limit,
    /// No view serves the query.
    NoPlan,
}

/// Reason why a query cannot be executed, with its position and a hint.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct QueryError {
    /// Kind of the error.
    pub kind: QueryErrorKind,
    /// Error message in one sentence, for the user.
    pub message: String,
    /// Name of the field that caused the error, if one field caused it.
    pub field: Option<String>,
    /// Column in the text of the filter or sort, 1-based, in characters.
    pub column: Option<usize>,
    /// Fields on which the query must add an equality (`=`), so that a view serves the query. Empty
    /// if added equalities are not enough.
    pub missing_partition_fields: Box<[String]>,
    /// Suggested view or collection that would serve the query, if the hint describes one.
    pub suggestion: Option<Box<Suggestion>>,
    /// Advice on how to fix the query; `None` if there is none.
    pub hint: Option<String>,
}

impl QueryError {
    /// Returns an error of `kind` with `message`.
    pub fn new(kind: QueryErrorKind, message: impl Into<String>) -> Self {
        Self {
            kind,
            message: message.into(),
            field: None,
            column: None,
            missing_partition_fields: Box::default(),
            suggestion: None,
            hint: None,
        }
    }

    /// Sets the field that caused the error.
    #[must_use]
    pub fn with_field(mut self, field: &str) -> Self {
        self.field = Some(field.to_owned());
        self
    }

    /// Sets the column in the text of the filter or sort, 1-based, in characters.
    #[must_use]
    pub fn with_column(mut self, column: usize) -> Self {
        self.column = Some(column);
        self
    }

    /// Sets the hint for the user.
    #[must_use]
    pub fn with_hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }
}

impl fmt::Display for QueryError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let place = match self.kind {
            QueryErrorKind::Filter => "filter",
            QueryErrorKind::Sort => "sort",
            _ => "",
        };
        match (place, self.column) {
            ("", _) => f.write_str(&self.message),
            (place, Some(column)) => write!(f, "{place}, column {column}: {}", self.message),
            (place, None) => write!(f, "{place}: {}", self.message),
        }
    }
}

impl std::error::Error for QueryError {}

impl From<QueryError> for recto_api::Error {
    fn from(error: QueryError) -> Self {
        let kind = match error.kind {
            QueryErrorKind::NoPlan => ErrorKind::NoPlan,
            QueryErrorKind::Limit => ErrorKind::LimitExceeded,
            _ => ErrorKind::InvalidQuery,
        };
        let part = match error.kind {
            QueryErrorKind::Filter | QueryErrorKind::Limit => Some(ErrorPart::Filter),
            QueryErrorKind::Sort => Some(ErrorPart::Sort),
            _ => None,
        };
        let mut converted = Self::new(kind, error.to_string())
            .with_missing_partition_fields(error.missing_partition_fields.into_vec());
        if let Some(part) = part {
            converted = converted.with_part(part);
        }
        if let Some(field) = error.field {
            converted = converted.with_field(field);
        }
        if let Some(column) = error.column {
            converted = converted.with_column(column);
        }
        if let Some(hint) = error.hint {
            converted = converted.with_hint(hint);
        }
        match error.suggestion {
            Some(suggestion) => converted.with_suggestion(*suggestion),
            None => converted,
        }
    }
}
