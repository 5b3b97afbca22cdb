//! Errors of the view advisor.

use std::fmt;

/// Kind of a [`DesignError`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum DesignErrorKind {
    /// The file of queries or the log of a server is invalid.
    File,
    /// The filter or the sort of a query is invalid.
    Query,
    /// No view can serve a query.
    Unserved,
    /// The request exceeds a limit, such as the maximum number of queries.
    Limit,
    /// A result is inconsistent, because of a bug in Recto.
    Internal,
}

/// Error of the view advisor, with the query and the position that caused it, and a hint.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct DesignError {
    /// Kind of the error.
    pub kind: DesignErrorKind,
    /// Description of the error, in one sentence.
    pub message: String,
    /// Name of the query that caused the error.
    pub query: Option<Box<str>>,
    /// Line of the file, counted from 1.
    pub line: Option<usize>,
    /// Filter or sort text that caused the error, and the column of the error in it, counted in
    /// characters from 1.
    pub pointed: Option<(String, usize)>,
    /// Advice on how to fix the error.
    pub hint: Option<String>,
}

impl DesignError {
    /// Returns an error of `kind` with `message`.
    pub fn new(kind: DesignErrorKind, message: impl Into<String>) -> Self {
        Self {
            kind,
            message: message.into(),
            query: None,
            line: None,
            pointed: None,
            hint: None,
        }
    }

    /// Returns the error with a hint.
    #[must_use]
    pub fn with_hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }

    /// Returns the error with the line of the file.
    #[must_use]
    pub fn at_line(mut self, line: usize) -> Self {
        self.line = Some(line);
        self
    }
}

/// Writes the position and the message, for example `query late (line 7): filter, column 20: …`.
impl fmt::Display for DesignError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (&self.query, self.line) {
            (Some(query), Some(line)) => write!(f, "query {query} (line {line}): ")?,
            (Some(query), None) => write!(f, "query {query}: ")?,
            (None, Some(line)) => write!(f, "line {line}: ")?,
            (None, None) => {}
        }
        f.write_str(&self.message)
    }
}

impl std::error::Error for DesignError {}
