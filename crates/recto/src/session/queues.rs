//! Queues and their messages, in the words of the HTTP API.

use std::ops::RangeInclusive;
use std::time::Duration;

use async_trait::async_trait;
use recto_api::queues::{
    MovedMessages, OutgoingMessage, PeekedMessage, QueueSettings, QueueStatus, QueueTableSettings,
    QueueTables, QueueTotals, ReceiveRequest, ReceivedMessages, SentMessage,
};
use recto_jobs::{MAX_BATCH, MAX_WAIT, NewMessage, Totals};
use recto_protocol::queues::limits::{MAX_DELAY_SECONDS, MAX_VISIBILITY_SECONDS};

use crate::error::{Error, ErrorKind, Result};

/// Returns the counters of a process.
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

/// Returns a message to send. Its errors name it by its `number` in the request.
///
/// # Errors
/// [`ErrorKind::InvalidArgument`]: it has no body, two bodies, or one that is not base64.
pub(crate) fn new_message(message: OutgoingMessage, number: usize) -> Result<NewMessage> {
    let rejected = |field: &str, reason: String| {
        Error::new(ErrorKind::InvalidArgument, format!("{field}: {reason}"))
            .with_hint("this message was not sent; the others were")
            .with_change(number)
            .with_field(field)
    };
    let body = match (message.body, message.body_base64) {
        (Some(body), None) => body.into_bytes(),
        (None, Some(encoded)) => body_bytes(None, Some(&encoded))
            .map_err(|error| rejected("body_base64", error.message().to_owned()))?,
        (None, None) => return Err(rejected("body", "the message has no body".to_owned())),
        (Some(_), Some(_)) => {
            let reason = "the message has a `body`, too, and can have only one of them".to_owned();
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

/// Returns the bytes of a body that is given as text or as base64.
///
/// # Errors
/// [`ErrorKind::InvalidArgument`]: it is not base64.
pub fn body_bytes(body: Option<&str>, body_base64: Option<&str>) -> Result<Vec<u8>> {
    Ok(recto_api::queues::body_bytes(body, body_base64)?)
}

/// For how long one redrive goes on, where nothing is known of how long it may.
pub const REDRIVE_TIME: Duration = Duration::from_secs(10);

/// Checks the numbers of a receive.
///
/// # Errors
/// [`ErrorKind::InvalidArgument`]: a number is too small or too great, as [`Error::field`] says.
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

/// How many messages are received or looked at at once, at most.
pub(crate) fn most_messages() -> u32 {
    u32::try_from(MAX_BATCH).unwrap_or(u32::MAX)
}

/// # Errors
/// [`ErrorKind::InvalidArgument`]: a number is too small or too great.
pub(crate) fn check_range(field: &str, given: u32, range: RangeInclusive<u32>) -> Result<()> {
    if range.contains(&given) {
        return Ok(());
    }
    let (least, most) = (range.start(), range.end());
    let message = format!("`{field}` is {given}, and must be from {least} to {most}");
    Err(Error::new(ErrorKind::InvalidArgument, message)
        .with_hint("choose a number in that range; nothing was done")
        .with_field(field))
}

/// What becomes of messages that were received.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Settling {
    /// They are done with.
    Ack,
    /// They are given back.
    Nack {
        /// To be received again after so long.
        delay_seconds: u32,
        /// Why; empty for no reason.
        error: String,
    },
    /// They are given back at once: nobody worked on them, and that they were received is not counted.
    GiveBack,
    /// They are kept for so long from now.
    Extend {
        /// So long.
        visibility_seconds: u32,
    },
}

impl Settling {
    /// # Errors
    /// [`ErrorKind::InvalidArgument`]: a number is too small or too great, as [`Error::field`] says.
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

/// The queues of a store. Where a queue is named, a work unit is named as `QUEUE/UNIT`.
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
    /// All queues, by name.
    async fn queues(&self) -> Result<Vec<QueueStatus>>;
    /// The queue of this name.
    async fn queue(&self, name: &str) -> Result<QueueStatus>;
    /// Makes a queue, or finds that it is there and like that; whether it was made now.
    async fn create_queue(&self, name: &str, settings: &QueueSettings) -> Result<(QueueStatus, bool)>;
    /// Changes what is said of a queue; if a version is given, only if it is of that.
    async fn change_queue(
        &self,
        name: &str,
        settings: &QueueSettings,
        version: Option<u64>,
    ) -> Result<QueueStatus>;
    /// Deletes a queue with its messages.
    async fn delete_queue(&self, name: &str) -> Result<()>;
    /// Sends messages in this order; what became of each. [`Error::change`] is which one an error is about.
    async fn send(&self, queue: &str, messages: Vec<OutgoingMessage>) -> Result<Vec<Result<SentMessage>>>;
    /// Receives messages. If the future is dropped, they are given back.
    async fn receive(&self, queue: &str, request: &ReceiveRequest) -> Result<ReceivedMessages>;
    /// Acknowledges messages, gives them back, or keeps them for longer. Returns for each receipt whether that was done: not if the
    /// message was received again since, not for a text that is no receipt, and not if a message that was settled or removed is to
    /// be given back or kept.
    async fn settle(&self, queue: &str, receipts: &[String], settling: &Settling) -> Result<Vec<bool>>;
    /// The first messages by position, as they stand, at most so many of up to 1,000: about the oldest first, and those with a
    /// delay of more than 15 minutes apart, behind others of their time or before.
    async fn peek(&self, queue: &str, most: u32) -> Result<Vec<PeekedMessage>>;
    /// Takes a message out, by its position; whether it was there.
    async fn remove_message(&self, queue: &str, position: &str) -> Result<bool>;
    /// Every message that is there now is received no more.
    async fn purge(&self, queue: &str) -> Result<()>;
    /// Moves messages that nobody has received to another queue, at most so many; without one, to that which sends its dead
    /// letters here, if only one does. Ends after about this time, or when the server that does it says: another one goes on.
    async fn redrive(
        &self,
        queue: &str,
        to: Option<&str>,
        most: Option<u64>,
        time: Duration,
    ) -> Result<MovedMessages>;
    /// Begins a work unit of a queue, or finds that it has begun: a queue like its queue, which ends at once. Its name is
    /// `QUEUE/UNIT`.
    async fn begin_unit(&self, queue: &str, unit: &str) -> Result<QueueStatus>;
    /// Ends a work unit: what is left of it is gone.
    async fn end_unit(&self, queue: &str, unit: &str) -> Result<()>;
    /// The work units of a queue that have begun, by name.
    async fn units(&self, queue: &str) -> Result<Vec<QueueStatus>>;
    /// How the tables of bodies stand.
    async fn tables(&self) -> Result<QueueTables>;
    /// Changes what all queues go by.
    async fn change_tables(&self, settings: &QueueTableSettings) -> Result<QueueTables>;
    /// What all queues go by, if anybody has said so, or made a queue; nothing is made for that.
    async fn table_settings(&self) -> Result<Option<QueueTableSettings>>;
    /// Confirms that the clock of this machine is right, so that queues of an embedded store expire messages by it. Returns the
    /// time that the clock shows, as RFC 3339.
    async fn confirm_clock(&self) -> Result<String> {
        Err(Error::new(
            ErrorKind::Unsupported,
            "confirming the clock needs direct access to the store",
        )
        .with_hint("stop the server, and run this command on the machine that has the store"))
    }
}
