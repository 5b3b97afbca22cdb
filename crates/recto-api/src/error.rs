//! The error type of the engine, of the server's sessions and of clients.

use std::convert::Infallible;
use std::error::Error as StdError;
use std::fmt;

use crate::ErrorKind;
use crate::parameters::ParameterError;
use crate::problem::ProblemType;
use crate::suggestion::Suggestion;

/// The part of a request that an error refers to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ErrorPart {
    /// The filter: its text, its values, or their number.
    Filter,
    /// The sort order.
    Sort,
    /// The order values at which a page starts.
    From,
    /// A cursor: the token of a page, of a row or of a scan.
    Cursor,
    /// The view that the request names.
    View,
    /// The fields that the request names.
    Fields,
    /// The page size.
    PageSize,
    /// The number of rows to skip.
    Skip,
    /// A record.
    Record,
    /// A key.
    Key,
    /// The destination of rows that a load rejects.
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

    /// Returns the name of this part in the member `part` of an HTTP problem: `filter`, `page_size`.
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

    /// Returns the part with this [`name`](Self::name), if this release knows it.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|part| part.name() == name)
    }
}

/// An error: a kind for decisions in code, a message, the place of the mistake, and a hint.
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

/// Result with this error.
pub type Result<T, E = Error> = std::result::Result<T, E>;

impl Error {
    /// Returns an error of this kind with this message.
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

    /// Adds a hint at the fix, and removes a suggestion.
    #[must_use]
    pub fn with_hint(mut self, hint: impl Into<String>) -> Self {
        self.inner.hint = Some(hint.into());
        self.inner.suggestion = None;
        self
    }

    /// Adds a suggestion of a view or a collection that would serve the query. Its text becomes the hint if there is none.
    #[must_use]
    pub fn with_suggestion(mut self, suggestion: Suggestion) -> Self {
        self.inner.hint.get_or_insert_with(|| suggestion.to_string());
        self.inner.suggestion = Some(suggestion);
        self
    }

    /// Adds the part of the request that the error refers to.
    #[must_use]
    pub fn with_part(mut self, part: ErrorPart) -> Self {
        self.inner.part = Some(part);
        self
    }

    /// Adds the fields of a partition that the filter does not fix with `=`.
    #[must_use]
    pub fn with_missing_partition_fields(
        mut self,
        fields: impl IntoIterator<Item = impl Into<String>>,
    ) -> Self {
        self.inner.missing_partition_fields = fields.into_iter().map(Into::into).collect();
        self
    }

    /// Adds the field that the error refers to.
    #[must_use]
    pub fn with_field(mut self, field: impl Into<String>) -> Self {
        self.inner.field = Some(field.into());
        self
    }

    /// Adds the key of the record that the error refers to, as the texts of its values.
    #[must_use]
    pub fn with_key(mut self, key: Vec<String>) -> Self {
        self.inner.key = key;
        self
    }

    /// Adds the column in the filter or sort text, counted from 1, in characters.
    #[must_use]
    pub fn with_column(mut self, column: usize) -> Self {
        self.inner.column = Some(column);
        self
    }

    /// Adds the index of the change that the error refers to, among several changes, counted from 0.
    #[must_use]
    pub fn with_change(mut self, change: usize) -> Self {
        self.inner.change = Some(change);
        self
    }

    /// Adds the version of the stored record.
    #[must_use]
    pub fn with_version(mut self, version: i64) -> Self {
        self.inner.version = Some(version);
        self
    }

    /// Adds the cause of the error.
    #[must_use]
    pub fn with_source(mut self, source: impl Into<Box<dyn StdError + Send + Sync>>) -> Self {
        self.inner.source = Some(source.into());
        self
    }

    /// Returns the kind of the error.
    pub fn kind(&self) -> ErrorKind {
        self.inner.kind
    }

    /// Returns whether the same call may succeed a little later. This is so if the store was unreachable or
    /// busy, if the time was too short, or if too many messages were in flight. It is also so if a write's
    /// outcome is unknown: repeating the write resolves the outcome. All other calls fail again until
    /// something is changed.
    pub fn is_retryable(&self) -> bool {
        ProblemType::of(self.kind()).can_retry()
    }

    /// Returns the message, without the hint.
    pub fn message(&self) -> &str {
        &self.inner.message
    }

    /// Returns the part of the request that the error refers to, if it refers to one.
    pub fn part(&self) -> Option<ErrorPart> {
        self.inner.part.or(match self.inner.kind {
            ErrorKind::InvalidCursor => Some(ErrorPart::Cursor),
            ErrorKind::InvalidRecord => Some(ErrorPart::Record),
            _ => None,
        })
    }

    /// Returns the fields that the query must fix with `=` so that a view serves it. The list is empty if
    /// fixing fields is not enough, or if the query already fixes all fields of a partition.
    pub fn missing_partition_fields(&self) -> &[String] {
        &self.inner.missing_partition_fields
    }

    /// Returns the field that the error refers to.
    pub fn field(&self) -> Option<&str> {
        self.inner.field.as_deref()
    }

    /// Returns the key of the record that the error refers to, for [`ErrorKind::Unreadable`]. The key
    /// consists of the text of each value, in the key's order.
    /// The list is empty for other errors.
    pub fn key(&self) -> &[String] {
        &self.inner.key
    }

    /// Returns the column in the filter or sort text, counted from 1, in characters.
    pub fn column(&self) -> Option<usize> {
        self.inner.column
    }

    /// Returns the index of the change that the error refers to, among several changes, counted from 0.
    pub fn change(&self) -> Option<usize> {
        self.inner.change
    }

    /// Returns the version of the stored record that prevented a change. [`ErrorKind::Exists`] has a version.
    /// [`ErrorKind::Changed`] has one unless the record does not exist.
    pub fn version(&self) -> Option<i64> {
        self.inner.version
    }

    /// Returns the hint at the fix.
    pub fn hint(&self) -> Option<&str> {
        self.inner.hint.as_deref()
    }

    /// Returns the view or the collection that would serve the query, if the hint suggests one.
    pub fn suggestion(&self) -> Option<&Suggestion> {
        self.inner.suggestion.as_ref()
    }

    /// Returns the first cause that has this type.
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

/// The error of a conversion that cannot fail.
impl From<Infallible> for Error {
    fn from(never: Infallible) -> Self {
        match never {}
    }
}
