//! What is asked when messages are received.

use std::time::Duration;

/// How messages are received.
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
    /// Messages at most: 1 to 1,000.
    pub most: usize,
    /// For how long they are the receiver's, up to 12 hours; else as the queue says.
    pub visibility: Option<Duration>,
    /// How long to wait for one if there is none, up to 20 s.
    pub wait: Duration,
}

impl Receive {
    /// At most so many messages, without waiting, for as long as the queue says.
    pub fn up_to(most: usize) -> Self {
        Self {
            most,
            visibility: None,
            wait: Duration::ZERO,
        }
    }

    /// They are the receiver's for so long.
    #[must_use]
    pub fn visibility(mut self, visibility: Duration) -> Self {
        self.visibility = Some(visibility);
        self
    }

    /// If there is none, one is waited for.
    #[must_use]
    pub fn wait(mut self, wait: Duration) -> Self {
        self.wait = wait;
        self
    }
}
