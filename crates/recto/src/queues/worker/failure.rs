//! Why a message is not done with.

use std::fmt;
use std::time::Duration;

/// Why a handler is not done with its message. Any error becomes one by `?`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Failure {
    pub(super) error: String,
    pub(super) delay: Option<Duration>,
    pub(super) is_counted: bool,
}

impl Failure {
    /// It failed for this reason.
    pub fn new(error: impl Into<String>) -> Self {
        Self {
            error: error.into(),
            delay: None,
            is_counted: true,
        }
    }

    /// Nobody worked on the message, and nothing is said of it: it is given back at once, and that it was received is not
    /// counted.
    pub fn not_begun() -> Self {
        Self {
            is_counted: false,
            ..Self::new("")
        }
    }

    /// The message comes again after just so long.
    #[must_use]
    pub fn after(mut self, delay: Duration) -> Self {
        self.delay = Some(delay);
        self
    }
}

// No `Display` and no `Error`: it could not be made of any error then.
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
