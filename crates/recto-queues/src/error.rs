//! Errors of queues.

use std::fmt;

use recto_api::ErrorKind;
use recto_protocol::queues::StoredError;
use recto_store::{StoreError, StoreErrorKind};

/// Result of a request to a queue.
pub type Result<T> = std::result::Result<T, QueueError>;

/// Hint for an error about versioned cells (rows changed by compare-and-set) that were restored
/// from backups of different times.
pub(crate) const RESTORE_ALL: &str = "restore all tables of the queue, not only some, or delete the queue";

/// Hint for a redrive that failed after it moved some messages.
const REDRIVE_AGAIN: &str = "redrive again: messages that were moved are not moved twice";

/// Kind of an error of a request to a queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum QueueErrorKind {
    /// A message, an option or another argument is invalid. Nothing was done.
    InvalidArgument,
    /// The queue does not exist, or was deleted.
    NotFound,
    /// Another queue prevents the change: a queue with this name, or a queue that uses this one as its dead-letter
    /// queue. Nothing was done.
    Conflict,
    /// The queue was changed after the caller read it. Nothing was done.
    Changed,
    /// The queue is full. Nothing was sent.
    Full,
    /// The queue has the maximum number of messages in flight. Nothing was received.
    TooManyInFlight,
    /// The store is unreachable. Nothing was done.
    Unavailable,
    /// This process closed the store. Nothing was done.
    Closed,
    /// The request took too long. Nothing was done.
    Timeout,
    /// The request may have been executed, or may be executed later.
    OutcomeUnknown,
    /// Stored data is damaged, or a newer release wrote it.
    Corrupt,
    /// The store rejected the request.
    Store,
}

/// Error of a request to a queue.
#[derive(Debug, Clone, thiserror::Error)]
pub struct QueueError {
    kind: QueueErrorKind,
    message: String,
    hint: Option<String>,
    number: Option<usize>,
    field: Option<&'static str>,
    moved: usize,
    #[source]
    source: Option<std::sync::Arc<dyn std::error::Error + Send + Sync>>,
}

impl fmt::Display for QueueError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl QueueError {
    pub(crate) fn new(kind: QueueErrorKind, message: impl Into<String>) -> Self {
        Self {
            kind,
            message: message.into(),
            hint: None,
            number: None,
            field: None,
            moved: 0,
            source: None,
        }
    }

    pub(crate) fn with_hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }

    pub(crate) fn with_number(mut self, number: usize) -> Self {
        self.number = Some(number);
        self
    }

    pub(crate) fn with_field(mut self, field: &'static str) -> Self {
        self.field = Some(field);
        self
    }

    pub(crate) fn with_source(mut self, source: impl std::error::Error + Send + Sync + 'static) -> Self {
        self.source = Some(std::sync::Arc::new(source));
        self
    }

    /// Returns the kind of the error.
    pub fn kind(&self) -> QueueErrorKind {
        self.kind
    }

    /// Returns a hint: advice on how to fix the error.
    pub fn hint(&self) -> Option<&str> {
        self.hint.as_deref()
    }

    /// Returns the index, from 0, of the message that the error is about, among the messages that were sent together.
    pub fn number(&self) -> Option<usize> {
        self.number
    }

    /// Returns the name of the field or option that the error is about.
    pub fn field(&self) -> Option<&str> {
        self.field
    }

    /// Returns the number of messages that a redrive had moved before it failed.
    pub fn moved(&self) -> usize {
        self.moved
    }

    pub(crate) fn too_many_in_flight(most: u32) -> Self {
        let message = format!("the queue has {most} or more messages in flight, which is its limit");
        Self::new(QueueErrorKind::TooManyInFlight, message)
            .with_hint("acknowledge or return messages, or raise the limit of the queue (`max_in_flight`)")
            .with_field("max_in_flight")
    }

    pub(crate) fn deleted() -> Self {
        Self::new(QueueErrorKind::NotFound, "the queue was deleted")
            .with_hint("create the queue again, and open the new one")
    }

    /// Returns the error of a request whose task ended before it reported the outcome.
    pub(crate) fn ended() -> Self {
        let message = "the request ended before its reply: it may have been executed, or may be executed \
                       later";
        Self::new(QueueErrorKind::OutcomeUnknown, message)
    }

    /// Changes the error of a request that may be partly executed. The new kind says that the outcome is
    /// unknown.
    pub(crate) fn in_part(self) -> Self {
        let message = format!("{self}: part of the request may have been executed, or may be executed later");
        Self::new(QueueErrorKind::OutcomeUnknown, message).with_source(self)
    }

    /// Changes the error of a redrive that failed after it moved `moved` messages. The outcome is unknown,
    /// even if the original error says that nothing was done.
    pub(crate) fn after_moving(self, moved: usize) -> Self {
        if moved == 0 {
            return self;
        }
        let message = format!("{} moved, then the redrive failed: {self}", counted(moved));
        Self {
            moved,
            hint: self.hint.clone().or(Some(REDRIVE_AGAIN.to_owned())),
            ..Self::new(QueueErrorKind::OutcomeUnknown, message).with_source(self)
        }
    }
}

fn counted(messages: usize) -> String {
    match messages {
        1 => "1 message was".to_owned(),
        more => format!("{more} messages were"),
    }
}

impl From<StoreError> for QueueError {
    fn from(error: StoreError) -> Self {
        let kind = match error.kind() {
            StoreErrorKind::Unavailable => QueueErrorKind::Unavailable,
            StoreErrorKind::Closed => QueueErrorKind::Closed,
            StoreErrorKind::Timeout => QueueErrorKind::Timeout,
            StoreErrorKind::Corrupt => QueueErrorKind::Corrupt,
            _ => QueueErrorKind::Store,
        };
        let hint = error.hint().map(str::to_owned);
        let message = error.to_string();
        Self {
            kind,
            message,
            hint,
            number: None,
            field: None,
            moved: 0,
            source: Some(std::sync::Arc::new(error)),
        }
    }
}

impl From<StoredError> for QueueError {
    fn from(error: StoredError) -> Self {
        Self::new(QueueErrorKind::Corrupt, error.to_string())
            .with_hint(error.hint())
            .with_source(error)
    }
}

impl From<QueueError> for recto_api::Error {
    fn from(error: QueueError) -> Self {
        let kind = match error.kind() {
            QueueErrorKind::InvalidArgument => ErrorKind::InvalidArgument,
            QueueErrorKind::NotFound => ErrorKind::NotFound,
            QueueErrorKind::Conflict => ErrorKind::Conflict,
            QueueErrorKind::Changed => ErrorKind::Changed,
            QueueErrorKind::Full => ErrorKind::LimitExceeded,
            QueueErrorKind::TooManyInFlight => ErrorKind::TooManyInFlight,
            QueueErrorKind::Unavailable | QueueErrorKind::Closed => ErrorKind::Unavailable,
            QueueErrorKind::Timeout => ErrorKind::Timeout,
            QueueErrorKind::OutcomeUnknown => ErrorKind::OutcomeUnknown,
            QueueErrorKind::Corrupt => ErrorKind::Corrupt,
            _ => ErrorKind::Store,
        };
        let mut converted = Self::new(kind, error.to_string());
        if let Some(hint) = error.hint() {
            converted = converted.with_hint(hint);
        }
        if let Some(field) = error.field() {
            converted = converted.with_field(field);
        }
        if let Some(number) = error.number() {
            converted = converted.with_change(number);
        }
        converted.with_source(error)
    }
}
