//! The error of queues.

use std::fmt;

use recto_protocol::queues::StoredError;
use recto_store::{StoreError, StoreErrorKind};

/// What a request to a queue ends with.
pub type Result<T> = std::result::Result<T, QueueError>;

/// What to do about registers that are not of one time.
pub(crate) const RESTORE_ALL: &str =
    "some of its tables were restored and others not: restore all of them, or delete the queue";

/// What to do about a redrive that ended early.
const REDRIVE_AGAIN: &str = "redrive again: what was moved is not moved once more";

/// What kind of failure it was.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum QueueErrorKind {
    /// A message, an option or a number is not right. Nothing was done.
    InvalidArgument,
    /// There is no such queue, or no longer.
    NotFound,
    /// Another queue stands in the way: one of this name, or one that sends its dead letters there. Nothing was done.
    Conflict,
    /// The queue was changed since it was looked at. Nothing was done.
    Changed,
    /// The queue holds as much as it may. Nothing was sent.
    Full,
    /// As many messages are in flight as may be. Nothing was received.
    TooManyInFlight,
    /// The store cannot be reached. Nothing was done.
    Unavailable,
    /// The store was closed here. Nothing was done.
    Closed,
    /// It took too long. Nothing was done.
    Timeout,
    /// It may have been done, or be done later.
    OutcomeUnknown,
    /// What is stored is damaged, or of a newer release.
    Corrupt,
    /// The store refused it.
    Store,
}

/// Why a request to a queue failed.
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

    /// What kind of failure it was.
    pub fn kind(&self) -> QueueErrorKind {
        self.kind
    }

    /// What to do about it.
    pub fn hint(&self) -> Option<&str> {
        self.hint.as_deref()
    }

    /// Which message it is about, by where it stands among those that were sent together, from 0.
    pub fn number(&self) -> Option<usize> {
        self.number
    }

    /// Which field or option it is about.
    pub fn field(&self) -> Option<&str> {
        self.field
    }

    /// How many messages a redrive had moved when it failed.
    pub fn moved(&self) -> usize {
        self.moved
    }

    pub(crate) fn too_many_in_flight(most: u32) -> Self {
        let message = format!("{most} messages or more are in flight, which is the limit of this queue");
        Self::new(QueueErrorKind::TooManyInFlight, message)
            .with_hint(
                "acknowledge messages or give them back, or raise the limit of the queue (`max_in_flight`)",
            )
            .with_field("max_in_flight")
    }

    pub(crate) fn deleted() -> Self {
        Self::new(QueueErrorKind::NotFound, "the queue was deleted")
            .with_hint("create it again, and open it anew")
    }

    /// Whoever did it ended before it was said what became of it.
    pub(crate) fn ended() -> Self {
        let message = "what was asked ended before its answer: it may be done, now or later";
        Self::new(QueueErrorKind::OutcomeUnknown, message)
    }

    /// Part of what was asked is done, or may be.
    pub(crate) fn in_part(self) -> Self {
        let message = format!("{self}: some of it may be done, now or later");
        Self::new(QueueErrorKind::OutcomeUnknown, message).with_source(self)
    }

    /// So many messages were moved before that: whatever it says of itself, not nothing was done.
    pub(crate) fn after_moving(self, moved: usize) -> Self {
        if moved == 0 {
            return self;
        }
        let message = format!("{} moved, and then it ended: {self}", counted(moved));
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
