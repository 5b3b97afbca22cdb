//! Errors of queues.

use recto_jobs::{QueueError, QueueErrorKind};

use crate::error::Error;

/// Returns whether this process closed the store, so that every further request fails in the same way.
pub(super) fn is_closed(error: &Error) -> bool {
    error
        .cause::<QueueError>()
        .is_some_and(|error| error.kind() == QueueErrorKind::Closed)
}
