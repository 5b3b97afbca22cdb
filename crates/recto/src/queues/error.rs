//! Errors of queues.

use recto_queues::{QueueError, QueueErrorKind};

use crate::error::Error;

/// Returns whether an error reports that this process has closed the store. A retry would fail with
/// the same error.
pub(super) fn is_closed(error: &Error) -> bool {
    error
        .cause::<QueueError>()
        .is_some_and(|error| error.kind() == QueueErrorKind::Closed)
}
