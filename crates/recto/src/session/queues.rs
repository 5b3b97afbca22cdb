//! Queues and their messages, in the terms of the HTTP API.

use std::ops::RangeInclusive;
use std::time::Duration;

use async_trait::async_trait;
use recto_api::queues::{
    MovedMessages, OutgoingMessage, PeekedMessage, QueueSettings, QueueStatus, QueueTableSettings,
    QueueTables, QueueTotals, ReceiveRequest, ReceivedMessages, SentMessage,
};
use recto_protocol::queues::limits::{MAX_DELAY_SECONDS, MAX_VISIBILITY_SECONDS};
use recto_queues::{MAX_BATCH, MAX_WAIT, NewMessage, Totals};

use crate::error::{Error, ErrorKind, Result};

/// Converts the counters of the queue operations of a process to the form of the HTTP API.
pub(crate) fn queue_totals(totals: Totals) -> QueueTotals {
    QueueTotals {
        sent: totals.sent,
        received: totals.received,
        acked: totals.acked,
        given_back: totals.given_back,
        dead_lettered: totals.dead_lettered,
        expired: totals.expired,
        bodies_lost: totals.bodies_lost,
    }
}

/// Converts a message of a request to a message to send. Errors contain `number`, the index of the
/// message in the request.
///
/// # Errors
/// [`ErrorKind::InvalidArgument`]: the message has no body, two bodies, or a body that is not base64.
pub(crate) fn new_message(message: OutgoingMessage, number: usize) -> Result<NewMessage> {
    let rejected = |field: &str, reason: String| {
        Error::new(ErrorKind::InvalidArgument, format!("{field}: {reason}"))
            .with_hint("fix this message and send it again; the other messages were sent")
            .with_change(number)
            .with_field(field)
    };
    let body = match (message.body, message.body_base64) {
        (Some(body), None) => body.into_bytes(),
        (None, Some(encoded)) => body_bytes(None, Some(&encoded))
            .map_err(|error| rejected("body_base64", error.message().to_owned()))?,
        (None, None) => return Err(rejected("body", "the message has no body".to_owned())),
        (Some(_), Some(_)) => {
            let reason =
                "the message has both `body` and `body_base64`, and needs only one of them".to_owned();
            return Err(rejected("body_base64", reason));
        }
    };
    Ok(NewMessage {
        attributes: message.attributes,
        delay: message
            .delay_seconds
            .map(|delay| Duration::from_secs(delay.into())),
        group: message.group,
        deduplication_id: message.deduplication_id,
        ..NewMessage::new(body)
    })
}

/// Decodes a message body that is given as text or as base64.
///
/// # Errors
/// [`ErrorKind::InvalidArgument`]: the body is not base64.
pub fn body_bytes(body: Option<&str>, body_base64: Option<&str>) -> Result<Vec<u8>> {
    Ok(recto_api::queues::body_bytes(body, body_base64)?)
}

/// Default time limit of one redrive.
pub const REDRIVE_TIME: Duration = Duration::from_secs(10);

/// Checks that the numbers of a request to receive messages are in range.
///
/// # Errors
/// [`ErrorKind::InvalidArgument`]: a number is out of range; [`Error::field`] names it.
pub(crate) fn check_receive(request: &ReceiveRequest) -> Result<()> {
    let longest = u32::try_from(MAX_WAIT.as_secs()).unwrap_or(u32::MAX);
    for (field, given, range) in [
        ("max_messages", request.max_messages, 1..=most_messages()),
        (
            "visibility_seconds",
            request.visibility_seconds,
            1..=MAX_VISIBILITY_SECONDS,
        ),
        ("wait_seconds", request.wait_seconds, 0..=longest),
    ] {
        if let Some(given) = given {
            check_range(field, given, range)?;
        }
    }
    Ok(())
}

/// Returns the maximum number of messages that one call receives or returns from a peek.
pub(crate) fn most_messages() -> u32 {
    u32::try_from(MAX_BATCH).unwrap_or(u32::MAX)
}

/// Checks that a number is in a range.
///
/// # Errors
/// [`ErrorKind::InvalidArgument`]: the number is too small or too large.
pub(crate) fn check_range(field: &str, given: u32, range: RangeInclusive<u32>) -> Result<()> {
    if range.contains(&given) {
        return Ok(());
    }
    let (least, most) = (range.start(), range.end());
    let message = format!("`{field}` is {given}; the range is {least} to {most}");
    Err(Error::new(ErrorKind::InvalidArgument, message)
        .with_hint("use a number in this range; nothing was done")
        .with_field(field))
}

/// Operation on messages that were received.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Settling {
    /// Acknowledges the messages.
    Ack,
    /// Gives the messages back.
    Nack {
        /// Delay before the messages can be received again, in seconds.
        delay_seconds: u32,
        /// Reason why the messages are given back; may be empty.
        error: String,
    },
    /// Gives back messages that were not handled. They can be received again at once, and the
    /// attempt does not count.
    GiveBack,
    /// Extends the visibility timeouts of the messages.
    Extend {
        /// New visibility timeout in seconds, counted from now.
        visibility_seconds: u32,
    },
}

impl Settling {
    /// Checks that the numbers of the operation are in range.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidArgument`]: a number is out of range; [`Error::field`] names it.
    pub(crate) fn check(&self) -> Result<()> {
        match self {
            Self::Ack | Self::GiveBack => Ok(()),
            Self::Nack { delay_seconds, .. } => {
                check_range("delay_seconds", *delay_seconds, 0..=MAX_DELAY_SECONDS)
            }
            Self::Extend { visibility_seconds } => check_range(
                "visibility_seconds",
                *visibility_seconds,
                1..=MAX_VISIBILITY_SECONDS,
            ),
        }
    }
}

/// Operations on the queues of a store. The name of a queue can also be that of a work unit (a
/// temporary queue), `QUEUE/UNIT`.
///
/// ```
/// use recto::session::{OutgoingMessage, QueueSettings, ReceiveRequest, Settling};
/// use recto::{OpenOptions, Session};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> recto::Result<()> {
/// # let folder = tempfile::tempdir().unwrap();
/// # let folder = folder.path().join("store");
/// # let address = recto::StoreAddress::Embedded(folder);
/// let session = recto::open(&address, OpenOptions::new().create()).await?;
/// let queues = session.queues()?;
/// queues.create_queue("mails", &QueueSettings::default()).await?;
/// queues.send("mails", vec![OutgoingMessage::of(b"to ada".to_vec())]).await?;
/// let received = queues.receive("mails", &ReceiveRequest::default()).await?.messages;
/// assert_eq!(received[0].body.as_deref(), Some("to ada"));
/// let receipts = [received[0].receipt.clone()];
/// assert_eq!(queues.settle("mails", &receipts, &Settling::Ack).await?, [true]);
/// # Ok(())
/// # }
/// ```
#[async_trait]
pub trait Queues: Send + Sync {
    /// Returns all queues, by name.
    async fn queues(&self) -> Result<Vec<QueueStatus>>;
    /// Returns the queue with this name.
    async fn queue(&self, name: &str) -> Result<QueueStatus>;
    /// Creates a queue, or finds an existing queue with these settings. Also returns whether the queue is new.
    async fn create_queue(&self, name: &str, settings: &QueueSettings) -> Result<(QueueStatus, bool)>;
    /// Changes settings of a queue. If `version` is given, rejects the change unless the queue has
    /// this version.
    async fn change_queue(
        &self,
        name: &str,
        settings: &QueueSettings,
        version: Option<u64>,
    ) -> Result<QueueStatus>;
    /// Deletes a queue with its messages.
    async fn delete_queue(&self, name: &str) -> Result<()>;
    /// Sends messages in the given order, and returns the result of each message. [`Error::change`]
    /// of an error is the index of the message.
    async fn send(&self, queue: &str, messages: Vec<OutgoingMessage>) -> Result<Vec<Result<SentMessage>>>;
    /// Receives messages. If the future is dropped, the messages are given back.
    async fn receive(&self, queue: &str, request: &ReceiveRequest) -> Result<ReceivedMessages>;
    /// Acknowledges messages, gives them back, or extends their visibility timeouts. Returns, for
    /// each receipt, whether the operation took effect. The result is false in these cases:
    /// - The message was received again after this receipt was issued.
    /// - The text is not a receipt.
    /// - The message was already settled or removed, and the operation is not an acknowledgment.
    async fn settle(&self, queue: &str, receipts: &[String], settling: &Settling) -> Result<Vec<bool>>;
    /// Returns the first messages by position without receiving them, at most `most` messages (up
    /// to 1,000). They are approximately in the order in which they were sent. A message with a
    /// delay of more than 15 minutes comes later: after messages that were sent at the same time or
    /// earlier.
    async fn peek(&self, queue: &str, most: u32) -> Result<Vec<PeekedMessage>>;
    /// Removes a message by its position. Returns whether the message existed.
    async fn remove_message(&self, queue: &str, position: &str) -> Result<bool>;
    /// Purges a queue: deletes all messages that are in it now.
    async fn purge(&self, queue: &str) -> Result<()>;
    /// Moves messages that were never received to the queue `to`, at most `most` messages. Without
    /// `to`, the target is the queue whose dead-letter queue this queue is, if there is exactly
    /// one. Stops after about `time`, or at the time limit of the server. Another call continues.
    async fn redrive(
        &self,
        queue: &str,
        to: Option<&str>,
        most: Option<u64>,
        time: Duration,
    ) -> Result<MovedMessages>;
    /// Begins a work unit of a queue, or returns a work unit that has already begun. A work unit is
    /// a temporary queue with the options of its queue. Its name is `QUEUE/UNIT`.
    async fn begin_unit(&self, queue: &str, unit: &str) -> Result<QueueStatus>;
    /// Ends a work unit (a temporary queue) and deletes its messages.
    async fn end_unit(&self, queue: &str, unit: &str) -> Result<()>;
    /// Returns the current work units (temporary queues) of a queue, by name.
    async fn units(&self, queue: &str) -> Result<Vec<QueueStatus>>;
    /// Returns the state of the rotating tables of message bodies.
    async fn tables(&self) -> Result<QueueTables>;
    /// Changes the settings that all queues share, such as the rotation interval. Returns the state
    /// of the tables.
    async fn change_tables(&self, settings: &QueueTableSettings) -> Result<QueueTables>;
    /// Returns the settings that all queues share; `None` if they were never set and no queue was
    /// created. Creates nothing.
    async fn table_settings(&self) -> Result<Option<QueueTableSettings>>;
    /// Confirms that the clock of this machine is right. The queues of an embedded store then
    /// expire messages by this clock. Returns the time of the clock as RFC 3339 text.
    async fn confirm_clock(&self) -> Result<String> {
        Err(Error::new(
            ErrorKind::Unsupported,
            "confirming the clock needs direct access to the store",
        )
        .with_hint("stop the server, and run this command on the machine that has the store"))
    }
}
