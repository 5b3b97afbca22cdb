//! Options of a request to receive messages.

use std::time::Duration;

/// Options of a request to receive messages.
///
/// ```
/// # use std::time::Duration;
/// use recto::queues::Receive;
///
/// let receive = Receive::up_to(10).wait(Duration::from_secs(20));
/// assert_eq!(receive.visibility, None);
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Receive {
    /// Maximum number of messages to receive, 1 to 1,000.
    pub most: usize,
    /// Visibility timeout of the messages, up to 12 hours. `None`: the timeout of the queue.
    pub visibility: Option<Duration>,
    /// Maximum time to wait if no message can be received, up to 20 s.
    pub wait: Duration,
}

impl Receive {
    /// Returns the options to receive at most `most` messages, without waiting, with the visibility timeout of the
    /// queue.
    pub fn up_to(most: usize) -> Self {
        Self {
            most,
            visibility: None,
            wait: Duration::ZERO,
        }
    }

    /// Sets the visibility timeout of the received messages.
    #[must_use]
    pub fn visibility(mut self, visibility: Duration) -> Self {
        self.visibility = Some(visibility);
        self
    }

    /// Sets the maximum time to wait if no message can be received.
    #[must_use]
    pub fn wait(mut self, wait: Duration) -> Self {
        self.wait = wait;
        self
    }
}
