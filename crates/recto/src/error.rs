//! The one error of the public API.

use std::error::Error as StdError;
use std::fmt;

use recto_plan::cursor::{CursorError, CursorName};
use recto_plan::error::{QueryError, QueryErrorKind};
pub use recto_plan::refusal::Suggestion;
use recto_store::{StoreError, StoreErrorKind};

pub use recto_api::ErrorKind;
use recto_api::parameters::ParameterError;
use recto_api::problem::ProblemType;

/// Which part of what was asked an error is about, where it is about one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Part {
    /// The filter: its text, its values, or how many there are.
    Filter,
    /// The sort.
    Sort,
    /// The order values that a page starts at.
    From,
    /// A cursor: the token of a page, of a row or of a scan.
    Cursor,
    /// The view that was asked for by name.
    View,
    /// The fields that were asked for.
    Fields,
    /// The page's size.
    PageSize,
    /// A record.
    Record,
    /// A key.
    Key,
    /// Where rows go that a load rejects.
    Rejects,
}

impl Part {
    const ALL: [Self; 10] = [
        Self::Filter,
        Self::Sort,
        Self::From,
        Self::Cursor,
        Self::View,
        Self::Fields,
        Self::PageSize,
        Self::Record,
        Self::Key,
        Self::Rejects,
    ];

    /// Its name in the `part` of a problem over HTTP: `filter`, `page_size`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Filter => "filter",
            Self::Sort => "sort",
            Self::From => "from",
            Self::Cursor => "cursor",
            Self::View => "view",
            Self::Fields => "fields",
            Self::PageSize => "page_size",
            Self::Record => "record",
            Self::Key => "key",
            Self::Rejects => "rejects",
        }
    }

    /// The part of this [`name`](Self::name), if this release knows it.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|part| part.name() == name)
    }
}

/// Why something failed: a kind to decide by, a message, where, and what to do about it.
///
/// `Display` gives the message and the hint, which may have lines of its own; [`message`](Self::message) and
/// [`hint`](Self::hint) give each alone. `Debug` adds the kind and what caused it, because a `main` that returns
/// this error prints that.
///
/// ```
/// use recto::{Error, ErrorKind};
///
/// let error = Error::new(ErrorKind::Unavailable, "no node can be reached").with_hint("check the address");
/// assert_eq!(error.to_string(), "no node can be reached (check the address)");
/// assert_eq!(error.message(), "no node can be reached");
/// assert!(error.is_retryable());
/// ```
///
/// A caller decides by the kind how to continue:
/// ```
/// # use recto::{OpenOptions, Record, Recto};
/// # #[derive(Debug, Clone, PartialEq, Record)]
/// # #[record(collection = "events", key = ["day", "id"], partition = ["day"], order = ["id"], writes = "append")]
/// # struct Event { day: String, id: i64, kind: String }
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> recto::Result<()> {
/// # let folder = tempfile::tempdir().unwrap();
/// # let store = Recto::open_with(folder.path().join("store"), OpenOptions::new().create()).await?;
/// # store.apply(&recto::schema_of([Event::collection()])).await?;
/// # let events = store.collection::<Event>()?;
/// # let event = |id| Event { day: "mon".into(), id, kind: if id % 9 == 0 { "alarm" } else { "tick" }.into() };
/// # events.put_all(&(0..60).map(event).collect::<Vec<_>>()).await?;
/// use recto::ErrorKind;
///
/// let error = events.query().filter(r#"kind = "alarm""#).await.unwrap_err();
/// match error.kind() {
///     ErrorKind::NoPlan => println!("a view is missing: {}", error.hint().unwrap_or_default()),
///     _ if error.is_retryable() => println!("again, a little later"),
///     _ => return Err(error),
/// }
/// # Ok(())
/// # }
/// ```
pub struct Error {
    inner: Box<Inner>,
}

struct Inner {
    kind: ErrorKind,
    message: String,
    part: Option<Part>,
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

/// The result of everything in this crate.
pub type Result<T, E = Error> = std::result::Result<T, E>;

impl Error {
    /// An error of `kind` that says `message`.
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

    /// A cursor that is not right, in the words of who calls it that.
    pub(crate) fn of_cursor(error: &CursorError, name: CursorName) -> Self {
        Self::new(ErrorKind::InvalidCursor, error.message(name)).with_hint(error.hint(name))
    }

    /// Says what to do about it.
    #[must_use]
    pub fn with_hint(mut self, hint: impl Into<String>) -> Self {
        self.inner.hint = Some(hint.into());
        self.inner.suggestion = None;
        self
    }

    /// Says that having this would help; that is the hint, too.
    #[must_use]
    pub fn with_suggestion(mut self, suggestion: Suggestion) -> Self {
        self.inner.hint = Some(suggestion.to_string());
        self.inner.suggestion = Some(suggestion);
        self
    }

    /// Says which part of what was asked it is about.
    #[must_use]
    pub fn with_part(mut self, part: Part) -> Self {
        self.inner.part = Some(part);
        self
    }

    /// Says that these fields, of which a partition is made, have no `=`.
    #[must_use]
    pub fn with_missing_partition_fields(
        mut self,
        fields: impl IntoIterator<Item = impl Into<String>>,
    ) -> Self {
        self.inner.missing_partition_fields = fields.into_iter().map(Into::into).collect();
        self
    }

    /// Names the field it is about.
    #[must_use]
    pub fn with_field(mut self, field: impl Into<String>) -> Self {
        self.inner.field = Some(field.into());
        self
    }

    /// Names the record that it is about, by the texts of its key's values.
    #[must_use]
    pub fn with_key(mut self, key: Vec<String>) -> Self {
        self.inner.key = key;
        self
    }

    /// Says at which column of the filter or sort text it is, 1-based, in characters.
    #[must_use]
    pub fn with_column(mut self, column: usize) -> Self {
        self.inner.column = Some(column);
        self
    }

    /// Says which of several changes it is about, counted from 0.
    #[must_use]
    pub fn with_change(mut self, change: usize) -> Self {
        self.inner.change = Some(change);
        self
    }

    /// Says of which version the record is that is there.
    #[must_use]
    pub fn with_version(mut self, version: i64) -> Self {
        self.inner.version = Some(version);
        self
    }

    /// Adds what caused it.
    #[must_use]
    pub fn with_source(mut self, source: impl Into<Box<dyn StdError + Send + Sync>>) -> Self {
        self.inner.source = Some(source.into());
        self
    }

    /// What kind of failure it was.
    pub fn kind(&self) -> ErrorKind {
        self.inner.kind
    }

    /// Whether the same call, made again a little later, may succeed: the store was away or busy, the time was
    /// not enough, too many messages were in flight, or a write's outcome is unknown, which repeating the write settles. Everything else fails
    /// again until something is changed.
    pub fn is_retryable(&self) -> bool {
        ProblemType::of(self.kind()).can_retry()
    }

    /// What went wrong, without the hint.
    pub fn message(&self) -> &str {
        &self.inner.message
    }

    /// The part of what was asked that it is about, where it is about one.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> recto::Result<()> {
    /// use recto::{ErrorPart, OpenOptions, Record, Recto};
    ///
    /// # #[derive(Debug, Record)]
    /// # #[record(collection = "events", key = ["day", "id"], partition = ["day"], order = ["id"], writes = "append")]
    /// # struct Event { day: String, id: i64 }
    /// # let folder = tempfile::tempdir().unwrap();
    /// # let store = Recto::open_with(folder.path().join("store"), OpenOptions::new().create()).await?;
    /// # store.apply(&recto::schema_of([Event::collection()])).await?;
    /// let events = store.collection::<Event>()?;
    /// let error = events.query().filter("day = 7").await.unwrap_err();
    /// assert_eq!((error.part(), error.column()), (Some(ErrorPart::Filter), Some(7)));
    /// // What has no partition is no mistake of one part.
    /// let error = events.query().await.unwrap_err();
    /// assert_eq!((error.part(), error.missing_partition_fields()), (None, &["day".to_owned()][..]));
    /// # Ok(())
    /// # }
    /// ```
    pub fn part(&self) -> Option<Part> {
        self.inner.part.or(match self.inner.kind {
            ErrorKind::InvalidCursor => Some(Part::Cursor),
            ErrorKind::InvalidRecord => Some(Part::Record),
            _ => None,
        })
    }

    /// The fields to pin with `=`, after which a view serves the query. Empty if pinning fields is not enough,
    /// and if the query names a partition already.
    pub fn missing_partition_fields(&self) -> &[String] {
        &self.inner.missing_partition_fields
    }

    /// The field it is about.
    pub fn field(&self) -> Option<&str> {
        self.inner.field.as_deref()
    }

    /// The key of the record it is about, for [`ErrorKind::Unreadable`]: the text of each value, in the key's order, as
    /// [`KeyText`](crate::KeyText) takes them. Empty for other errors.
    pub fn key(&self) -> &[String] {
        &self.inner.key
    }

    /// The column of the filter or sort text it is at, 1-based, in characters.
    pub fn column(&self) -> Option<usize> {
        self.inner.column
    }

    /// Which of several changes it is about, counted from 0.
    pub fn change(&self) -> Option<usize> {
        self.inner.change
    }

    /// The version of the record that is there, where one stood against a change: of
    /// [`ErrorKind::Exists`], and of [`ErrorKind::Changed`] unless there is none.
    pub fn version(&self) -> Option<i64> {
        self.inner.version
    }

    /// What to do about it.
    pub fn hint(&self) -> Option<&str> {
        self.inner.hint.as_deref()
    }

    /// The view, or the collection, that would serve the query, where the hint is about one.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> recto::Result<()> {
    /// # use recto::{OpenOptions, Record, Recto};
    /// # #[derive(Debug, Record)]
    /// # #[record(collection = "events", key = ["day", "id"], partition = ["day"], order = ["id"], writes = "append")]
    /// # struct Event { day: String, id: i64, kind: String }
    /// # let folder = tempfile::tempdir().unwrap();
    /// # let store = Recto::open_with(folder.path().join("store"), OpenOptions::new().create()).await?;
    /// # store.apply(&recto::schema_of([Event::collection()])).await?;
    /// let events = store.collection::<Event>()?;
    /// let error = events.query().filter(r#"kind = "alarm""#).await.unwrap_err();
    /// let suggestion = error.suggestion().unwrap();
    /// assert_eq!(suggestion.view.as_ref().unwrap().partition, ["kind"]);
    /// assert!(suggestion.declaration().starts_with("[collection.events.view.by_kind]"));
    /// # Ok(())
    /// # }
    /// ```
    pub fn suggestion(&self) -> Option<&Suggestion> {
        self.inner.suggestion.as_ref()
    }

    /// The node of the cluster that was asked last, `address:port`, where one was: for logs.
    pub fn node(&self) -> Option<&str> {
        self.cause::<StoreError>()?.node()
    }

    /// The table of the store that was read or written, where the store tells: for logs.
    pub fn table(&self) -> Option<&str> {
        self.cause::<StoreError>()?.table()
    }

    /// The error of this type that caused it.
    pub(crate) fn cause<E: StdError + 'static>(&self) -> Option<&E> {
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
            // Text to paste stands on lines of its own.
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

impl From<QueryError> for Error {
    fn from(error: QueryError) -> Self {
        let kind = match error.kind {
            QueryErrorKind::NoPlan => ErrorKind::NoPlan,
            QueryErrorKind::Limit => ErrorKind::LimitExceeded,
            _ => ErrorKind::InvalidQuery,
        };
        let mut converted = Self::new(kind, error.to_string());
        converted.inner.part = match error.kind {
            QueryErrorKind::Filter | QueryErrorKind::Limit => Some(Part::Filter),
            QueryErrorKind::Sort => Some(Part::Sort),
            _ => None,
        };
        converted.inner.missing_partition_fields = error.missing_partition_fields.into_vec();
        converted.inner.field = error.field;
        converted.inner.column = error.column;
        converted.inner.hint = error.hint;
        converted.inner.suggestion = error.suggestion.map(|suggestion| *suggestion);
        converted
    }
}

impl From<StoreError> for Error {
    fn from(error: StoreError) -> Self {
        let kind = match error.kind() {
            StoreErrorKind::Unavailable | StoreErrorKind::Closed | StoreErrorKind::Conflict => {
                ErrorKind::Unavailable
            }
            StoreErrorKind::Timeout => ErrorKind::Timeout,
            StoreErrorKind::Unauthorized => ErrorKind::Unauthorized,
            StoreErrorKind::Corrupt | StoreErrorKind::Version => ErrorKind::Corrupt,
            StoreErrorKind::Invalid => ErrorKind::InvalidArgument,
            _ => ErrorKind::Store,
        };
        let mut converted = Self::new(kind, error.to_string());
        converted.inner.hint = error.hint().map(str::to_owned);
        converted.inner.source = Some(Box::new(error));
        converted
    }
}
