//! Failure of a message handler.

use std::fmt;
use std::time::Duration;

/// Reason why a handler did not complete its message. The operator `?` converts any error to a
/// failure.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Failure {
    pub(super) error: String,
    pub(super) delay: Option<Duration>,
    pub(super) is_counted: bool,
}

impl Failure {
    /// Creates a failure with this reason. The attempt counts.
    pub fn new(error: impl Into<String>) -> Self {
        Self {
            error: error.into(),
            delay: None,
            is_counted: true,
        }
    }

    /// Creates a failure for a message whose handling did not begin. The message is given back at
    /// once without a reason, and the attempt does not count.
    pub fn not_begun() -> Self {
        Self {
            is_counted: false,
            ..Self::new("")
        }
    }

    /// Sets the exact delay after which the message can be received again. Without it, the delay
    /// grows with each attempt.
    #[must_use]
    pub fn after(mut self, delay: Duration) -> Self {
        self.delay = Some(delay);
        self
    }
}

// `Failure` does not implement `Display` and `Error`, because the conversion from any error would
// conflict with them.
impl<E: fmt::Display + std::error::Error> From<E> for Failure {
    fn from(error: E) -> Self {
        let mut text = error.to_string();
        let mut source = error.source();
        while let Some(cause) = source {
            text.push_str(": ");
            text.push_str(&cause.to_string());
            source = cause.source();
        }
        Self::new(text)
    }
}
