//! Why a query cannot be asked.

use std::fmt;

use recto_api::suggestion::Suggestion;
use recto_api::{ErrorKind, ErrorPart};

/// What is wrong with a query.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum QueryErrorKind {
    /// The filter's text or values.
    Filter,
    /// The sort's text or fields.
    Sort,
    /// A limit of the filter's conditions and values.
    Limit,
    /// No view serves the query.
    NoPlan,
}

/// Why a query cannot be asked: what is wrong, where, and what to do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct QueryError {
    /// What is wrong.
    pub kind: QueryErrorKind,
    /// What it is, in a sentence.
    pub message: String,
    /// The field it is about.
    pub field: Option<String>,
    /// The column in the filter or sort text, 1-based, in characters.
    pub column: Option<usize>,
    /// The fields to pin with `=`, after which a view serves the query. Empty if something else is missing.
    pub missing_partition_fields: Box<[String]>,
    /// The collection that would serve it, where the hint is about one.
    pub suggestion: Option<Box<Suggestion>>,
    /// What to do about it.
    pub hint: Option<String>,
}

impl QueryError {
    /// An error of `kind` that says `message`.
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

    /// Names the field it is about.
    #[must_use]
    pub fn with_field(mut self, field: &str) -> Self {
        self.field = Some(field.to_owned());
        self
    }

    /// Says where in the text it is.
    #[must_use]
    pub fn with_column(mut self, column: usize) -> Self {
        self.column = Some(column);
        self
    }

    /// Says what to do about it.
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
