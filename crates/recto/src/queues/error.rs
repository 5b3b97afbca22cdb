//! What queues say went wrong, as all of Recto says it.

use recto_jobs::{QueueError, QueueErrorKind};

use crate::error::{Error, ErrorKind};

impl From<QueueError> for Error {
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
        let mut said = Self::new(kind, error.to_string());
        if let Some(hint) = error.hint() {
            said = said.with_hint(hint);
        }
        if let Some(field) = error.field() {
            said = said.with_field(field);
        }
        if let Some(number) = error.number() {
            said = said.with_change(number);
        }
        said.with_source(error)
    }
}

/// Whether the store was closed here: whoever asks again hears the same.
pub(super) fn is_closed(error: &Error) -> bool {
    error
        .cause::<QueueError>()
        .is_some_and(|error| error.kind() == QueueErrorKind::Closed)
}
