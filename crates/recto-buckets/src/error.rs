//! Errors of requests to a partition that is kept in buckets.

use std::error::Error;
use std::fmt;
use std::sync::Arc;

use recto_model::key::KeyError;
use recto_protocol::buckets::StoredError;
use recto_store::{StoreError, StoreErrorKind};

use crate::place::Place;

/// Result of a request to a partition that is kept in buckets.
pub type Result<T> = std::result::Result<T, PiecesError>;

/// Kind of a failed request to a partition that is kept in buckets.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum PiecesErrorKind {
    /// The table or a key is invalid. Nothing was done.
    InvalidArgument,
    /// The rows are older than the retention time of their table. Nothing was done.
    BelowFloor,
    /// Another row has the key of an inserted row. Nothing was done.
    Conflict,
    /// The store is unreachable. Nothing was done.
    Unavailable,
    /// This process closed the store. Nothing was done.
    Closed,
    /// The request timed out. Nothing was done.
    Timeout,
    /// The request may have been done, or may be done later.
    OutcomeUnknown,
    /// Stored data is damaged, or a newer release wrote it.
    Corrupt,
    /// The store rejected the request.
    Store,
}

/// Error of a failed request to a partition that is kept in buckets.
#[derive(Debug, Clone)]
pub struct PiecesError {
    kind: PiecesErrorKind,
    message: String,
    hint: Option<String>,
    source: Option<Arc<dyn Error + Send + Sync>>,
}

impl fmt::Display for PiecesError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl Error for PiecesError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        self.source.as_deref().map(|source| source as _)
    }
}

impl PiecesError {
    pub(crate) fn new(kind: PiecesErrorKind, message: impl Into<String>) -> Self {
        Self {
            kind,
            message: message.into(),
            hint: None,
            source: None,
        }
    }

    pub(crate) fn with_hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }

    fn with_source(mut self, source: impl Error + Send + Sync + 'static) -> Self {
        self.source = Some(Arc::new(source));
        self
    }

    /// Returns the kind of the error.
    pub fn kind(&self) -> PiecesErrorKind {
        self.kind
    }

    /// Returns advice on how to fix the cause of the error.
    pub fn hint(&self) -> Option<&str> {
        self.hint.as_deref()
    }

    /// Prefixes the message with the partition, named by its encoded key as in table
    /// `recto_buckets`.
    pub(crate) fn of_partition(self, place: &Place) -> Self {
        let (table, partition) = &*place.id;
        let partition: String = partition.iter().map(|byte| format!("{byte:02x}")).collect();
        let message = format!("partition 0x{partition} of table {table}: {self}");
        Self { message, ..self }
    }

    /// Returns an error for an expired deadline, with the store's last error as its source, if any.
    pub(crate) fn out_of_time(last: Option<Self>) -> Self {
        let message = "the store did not answer in time: nothing was done";
        let error = Self::new(PiecesErrorKind::Timeout, message);
        match last {
            Some(last) => error.with_source(last),
            None => error,
        }
    }

    /// Returns the kind of the underlying store error, if a store error caused this error.
    pub(crate) fn of_store(&self) -> Option<StoreErrorKind> {
        let source = self.source.as_deref()?;
        source.downcast_ref::<StoreError>().map(StoreError::kind)
    }

    /// Turns this error into [`PiecesErrorKind::OutcomeUnknown`], for a request that may be done in
    /// part.
    pub(crate) fn in_doubt(self) -> Self {
        if self.kind == PiecesErrorKind::OutcomeUnknown {
            return self;
        }
        let message = format!("{self}: part of the request may have been executed, or may be executed later");
        let hint = self.hint.clone();
        let error = Self::new(PiecesErrorKind::OutcomeUnknown, message);
        Self { hint, ..error }.with_source(self)
    }

    /// Returns whether a retry of the request may succeed.
    pub(crate) fn is_passing(&self) -> bool {
        matches!(
            self.kind,
            PiecesErrorKind::Unavailable | PiecesErrorKind::Timeout | PiecesErrorKind::OutcomeUnknown
        )
    }
}

impl From<StoreError> for PiecesError {
    fn from(error: StoreError) -> Self {
        let kind = match error.kind() {
            StoreErrorKind::Unavailable => PiecesErrorKind::Unavailable,
            StoreErrorKind::Closed => PiecesErrorKind::Closed,
            StoreErrorKind::Timeout => PiecesErrorKind::Timeout,
            StoreErrorKind::Corrupt => PiecesErrorKind::Corrupt,
            StoreErrorKind::Invalid => PiecesErrorKind::InvalidArgument,
            _ => PiecesErrorKind::Store,
        };
        let hint = error.hint().map(str::to_owned);
        let made = Self::new(kind, error.to_string());
        Self { hint, ..made }.with_source(error)
    }
}

impl From<StoredError> for PiecesError {
    fn from(error: StoredError) -> Self {
        Self::new(PiecesErrorKind::Corrupt, error.to_string())
            .with_hint(error.hint())
            .with_source(error)
    }
}

impl From<KeyError> for PiecesError {
    fn from(error: KeyError) -> Self {
        Self::new(PiecesErrorKind::InvalidArgument, error.to_string()).with_source(error)
    }
}
