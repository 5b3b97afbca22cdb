//! Error type that the engine, sessions and clients share.

use std::convert::Infallible;
use std::error::Error as StdError;
use std::fmt;

use crate::ErrorKind;
use crate::parameters::ParameterError;
use crate::problem::ProblemType;
use crate::suggestion::Suggestion;

/// Part of a request that an error refers to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ErrorPart {
    /// Filter of a query: its text, its values, or the number of its values.
    Filter,
    /// Sort order of a query.
    Sort,
    /// Values of the sort fields at which a page starts (parameter `from`).
    From,
    /// Token: a page token, the token of a row, or the token that continues an export.
    Cursor,
    /// View that the request names.
    View,
    /// List of the fields that the reply should have.
    Fields,
    /// Requested number of rows of a page.
    PageSize,
    /// Number of rows to skip before the page.
    Skip,
    /// Record that the request contains.
    Record,
    /// Key of a record that the request names.
    Key,
    /// File for the rows that a load rejects.
    Rejects,
}

impl ErrorPart {
    const ALL: [Self; 11] = [
        Self::Filter,
        Self::Sort,
        Self::From,
        Self::Cursor,
        Self::View,
        Self::Fields,
        Self::PageSize,
        Self::Skip,
        Self::Record,
        Self::Key,
        Self::Rejects,
    ];

    /// Returns the name of the part in the JSON of an HTTP problem, such as `filter` or
    /// `page_size`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Filter => "filter",
            Self::Sort => "sort",
            Self::From => "from",
            Self::Cursor => "cursor",
            Self::View => "view",
            Self::Fields => "fields",
            Self::PageSize => "page_size",
            Self::Skip => "skip",
            Self::Record => "record",
            Self::Key => "key",
            Self::Rejects => "rejects",
        }
    }

    /// Returns the part of a request with a [`name`](Self::name), or `None` if this release has no
    /// part of that name.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|part| part.name() == name)
    }
}

/// Error with a kind for decisions in code, a message, the position of the fault, and a hint.
///
/// `Display` prints the message and the hint, which may have several lines. [`message`](Self::message) and
/// [`hint`](Self::hint) return them separately. `Debug` also prints the kind and the causes, because a `main`
/// that returns this error prints it with `Debug`.
///
/// ```
/// use recto_api::{Error, ErrorKind};
///
/// let error = Error::new(ErrorKind::Unavailable, "no node can be reached").with_hint("check the address");
/// assert_eq!(error.to_string(), "no node can be reached (check the address)");
/// assert_eq!(error.message(), "no node can be reached");
/// assert!(error.is_retryable());
/// ```
pub struct Error {
    inner: Box<Inner>,
}

struct Inner {
    kind: ErrorKind,
    message: String,
    part: Option<ErrorPart>,
    field: Option<String>,
    key: Vec<String>,
    column: Option<usize>,
    change: Option<usize>,
    version: Option<i64>,
    missing_partition_fields: Vec<String>,
    hint: Option<String>,
    suggestion: Option<Suggestion>,
    source: Option<Box<dyn StdError + Send + Sync>>,
}

/// Result whose error is [`Error`] by default.
pub type Result<T, E = Error> = std::result::Result<T, E>;

impl Error {
    /// Returns an error with a kind and a message.
    pub fn new(kind: ErrorKind, message: impl Into<String>) -> Self {
        Self {
            inner: Box::new(Inner {
                kind,
                message: message.into(),
                part: None,
                field: None,
                key: Vec::new(),
                column: None,
                change: None,
                version: None,
                missing_partition_fields: Vec::new(),
                hint: None,
                suggestion: None,
                source: None,
            }),
        }
    }

    /// Sets the hint, which describes the most likely fix. Removes a suggested view or collection,
    /// because the text of the suggestion is also a hint, and an error has one hint.
    #[must_use]
    pub fn with_hint(mut self, hint: impl Into<String>) -> Self {
        self.inner.hint = Some(hint.into());
        self.inner.suggestion = None;
        self
    }

    /// Adds a suggested view or collection that would serve the query. The text of the suggestion
    /// becomes the hint if the error has no hint.
    #[must_use]
    pub fn with_suggestion(mut self, suggestion: Suggestion) -> Self {
        self.inner.hint.get_or_insert_with(|| suggestion.to_string());
        self.inner.suggestion = Some(suggestion);
        self
    }

    /// Sets the part of the request that the error refers to.
    #[must_use]
    pub fn with_part(mut self, part: ErrorPart) -> Self {
        self.inner.part = Some(part);
        self
    }

    /// Sets the partition fields that the filter must fix with `=` before a view can serve the
    /// query.
    #[must_use]
    pub fn with_missing_partition_fields(
        mut self,
        fields: impl IntoIterator<Item = impl Into<String>>,
    ) -> Self {
        self.inner.missing_partition_fields = fields.into_iter().map(Into::into).collect();
        self
    }

    /// Sets the field that the error refers to.
    #[must_use]
    pub fn with_field(mut self, field: impl Into<String>) -> Self {
        self.inner.field = Some(field.into());
        self
    }

    /// Sets the key of the record that the error refers to, as one text per key field.
    #[must_use]
    pub fn with_key(mut self, key: Vec<String>) -> Self {
        self.inner.key = key;
        self
    }

    /// Sets the column of the error in the filter or sort text, counted in characters from 1.
    #[must_use]
    pub fn with_column(mut self, column: usize) -> Self {
        self.inner.column = Some(column);
        self
    }

    /// Sets the index of the change that the error refers to, in a request with several changes,
    /// counted from 0.
    #[must_use]
    pub fn with_change(mut self, change: usize) -> Self {
        self.inner.change = Some(change);
        self
    }

    /// Sets the version of the stored record, whose difference from the expected version prevented
    /// a change.
    #[must_use]
    pub fn with_version(mut self, version: i64) -> Self {
        self.inner.version = Some(version);
        self
    }

    /// Sets the cause of the error.
    #[must_use]
    pub fn with_source(mut self, source: impl Into<Box<dyn StdError + Send + Sync>>) -> Self {
        self.inner.source = Some(source.into());
        self
    }

    /// Returns the kind of the error.
    pub fn kind(&self) -> ErrorKind {
        self.inner.kind
    }

    /// Returns whether the same call may succeed a little later. This is the case in the following
    /// situations:
    ///
    /// - The store was unreachable or busy.
    /// - The time limit was exceeded.
    /// - Too many messages were in flight.
    /// - The outcome of a write is unknown. Repeating the write resolves the outcome.
    ///
    /// All other calls fail again until something is changed.
    pub fn is_retryable(&self) -> bool {
        ProblemType::of(self.kind()).can_retry()
    }

    /// Returns the message, without the hint.
    pub fn message(&self) -> &str {
        &self.inner.message
    }

    /// Returns the part of the request that the error refers to, or `None` if it refers to no part.
    pub fn part(&self) -> Option<ErrorPart> {
        self.inner.part.or(match self.inner.kind {
            ErrorKind::InvalidCursor => Some(ErrorPart::Cursor),
            ErrorKind::InvalidRecord => Some(ErrorPart::Record),
            _ => None,
        })
    }

    /// Returns the partition fields that the filter must fix with `=` before a view can serve the
    /// query. The list is empty if fixing fields would not suffice, or if the filter already fixes
    /// all fields of a partition.
    pub fn missing_partition_fields(&self) -> &[String] {
        &self.inner.missing_partition_fields
    }

    /// Returns the field that the error refers to, if there is one.
    pub fn field(&self) -> Option<&str> {
        self.inner.field.as_deref()
    }

    /// Returns the key of the record that an error of the kind [`ErrorKind::Unreadable`] refers to:
    /// the text of each value, in the key's order. The list is empty for other errors.
    pub fn key(&self) -> &[String] {
        &self.inner.key
    }

    /// Returns the column of the error in the filter or sort text, counted in characters from 1.
    pub fn column(&self) -> Option<usize> {
        self.inner.column
    }

    /// Returns the index of the change that the error refers to, in a request with several changes,
    /// counted from 0.
    pub fn change(&self) -> Option<usize> {
        self.inner.change
    }

    /// Returns the version of the stored record that prevented a change. An error of the kind
    /// [`ErrorKind::Exists`] has it. An error of the kind [`ErrorKind::Changed`] has it unless the
    /// record does not exist.
    pub fn version(&self) -> Option<i64> {
        self.inner.version
    }

    /// Returns the hint, which describes the most likely fix.
    pub fn hint(&self) -> Option<&str> {
        self.inner.hint.as_deref()
    }

    /// Returns the view or the collection that would serve the query, if the hint suggests one.
    pub fn suggestion(&self) -> Option<&Suggestion> {
        self.inner.suggestion.as_ref()
    }

    /// Returns the first error of type `E` in the chain of causes, starting at the direct cause.
    pub fn cause<E: StdError + 'static>(&self) -> Option<&E> {
        let mut cause = self.source();
        while let Some(error) = cause {
            if let Some(error) = error.downcast_ref() {
                return Some(error);
            }
            cause = error.source();
        }
        None
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.inner.message)?;
        match &self.inner.hint {
            None => Ok(()),
            // A hint of several lines is text to paste, so it starts on its own line.
            Some(hint) if hint.contains('\n') => write!(f, "\nhint:\n{hint}"),
            Some(hint) => write!(f, " ({hint})"),
        }
    }
}

impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}: {}", self.inner.kind, self.inner.message)?;
        if let Some(hint) = &self.inner.hint {
            write!(f, "\nhint: {hint}")?;
        }
        let mut source = self.source();
        while let Some(cause) = source {
            write!(f, "\ncaused by: {cause}")?;
            source = cause.source();
        }
        Ok(())
    }
}

impl StdError for Error {
    fn source(&self) -> Option<&(dyn StdError + 'static)> {
        self.inner
            .source
            .as_deref()
            .map(|source| source as &(dyn StdError + 'static))
    }
}

impl From<ParameterError> for Error {
    fn from(error: ParameterError) -> Self {
        let mut converted = Self::new(ErrorKind::InvalidArgument, error.message);
        converted.inner.hint = error.hint;
        converted.inner.field = error.name;
        converted
    }
}

/// Converts an error type without values, so that `?` also works on conversions that cannot fail.
impl From<Infallible> for Error {
    fn from(never: Infallible) -> Self {
        match never {}
    }
}
