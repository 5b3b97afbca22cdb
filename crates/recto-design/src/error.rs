//! Why nothing is proposed.

use std::fmt;

/// What is wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum DesignErrorKind {
    /// The file of queries, or the log.
    File,
    /// A filter or a sort.
    Query,
    /// No view can serve a query.
    Unserved,
    /// There is too much of something.
    Limit,
    /// What was found does not hold: a mistake of Recto's.
    Internal,
}

/// Why nothing is proposed: what is wrong, with which query and where in it, and what to do.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct DesignError {
    /// What is wrong.
    pub kind: DesignErrorKind,
    /// What it is, in a sentence.
    pub message: String,
    /// The query it is about.
    pub query: Option<Box<str>>,
    /// The line of the file that it is about, 1-based.
    pub line: Option<usize>,
    /// The filter or sort text it is about, and the column in it, 1-based, in characters.
    pub pointed: Option<(String, usize)>,
    /// What to do about it.
    pub hint: Option<String>,
}

impl DesignError {
    /// An error of `kind` that says `message`.
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

    /// Says what to do about it.
    #[must_use]
    pub fn with_hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }

    /// Says in which line of a file it is.
    #[must_use]
    pub fn at_line(mut self, line: usize) -> Self {
        self.line = Some(line);
        self
    }
}

/// `query late (line 7): filter, column 20: …`.
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
