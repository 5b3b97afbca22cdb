//! Queues and their messages, in the words of the HTTP API.

use std::collections::BTreeMap;
use std::ops::RangeInclusive;
use std::time::Duration;

use async_trait::async_trait;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use recto_jobs::{MAX_BATCH, MAX_WAIT, NewMessage, Totals};
use recto_protocol::queues::limits::{MAX_DELAY_SECONDS, MAX_VISIBILITY_SECONDS};
use recto_protocol::queues::options::{DeadLetters, Deduplication};
use recto_protocol::queues::{QueueChange, QueueName, QueueOptions};
use serde::{Deserialize, Deserializer, Serialize};

use super::queue_ring::{QueueRing, RingSettings};
use crate::error::{Error, ErrorKind, Result};

/// What a queue is like, or is to be like: what is not said is the default of one that is made, and stays as it is of one that is changed.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct QueueSettings {
    /// For how long a message is its receiver's, if that says nothing else.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub visibility_seconds: Option<u32>,
    /// How much later than sent a message is due, if its sender says nothing else.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub delay_seconds: Option<u32>,
    /// For how long a message is kept that is not done with; null: until it is.
    #[serde(skip_serializing_if = "Option::is_none", deserialize_with = "said")]
    pub retention_seconds: Option<Option<u32>>,
    /// Where messages go that were received too often; null: nowhere.
    #[serde(skip_serializing_if = "Option::is_none", deserialize_with = "said")]
    pub dead_letters: Option<Option<DeadLetterSettings>>,
    /// Whether messages have groups, each of which is received in order. Never changes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ordered: Option<bool>,
    /// Of how many parts it is, so that as many servers write to it side by side; in an embedded store of one, whatever is asked for.
    /// Never changes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub shards: Option<u16>,
    /// Where two messages with one deduplication id are found to be the same: `queue` or `group`. Never changes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub deduplication: Option<DeduplicationScope>,
    /// Bytes of a message's body and attributes at most.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub body_bytes: Option<u32>,
    /// Maximum number of messages in flight at once.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_in_flight: Option<u32>,
}

/// Where messages go that were received too often.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DeadLetterSettings {
    /// The other queue.
    pub queue: String,
    /// How often a message is received before.
    pub attempts: u16,
}

/// Where two messages with one deduplication id are found to be the same.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum DeduplicationScope {
    /// In all of the queue.
    Queue,
    /// In their group, of an ordered queue.
    Group,
}

/// Of a field that may be null: said, and null or not. One that is not said stays `None` by its default.
fn said<'de, D: Deserializer<'de>, T: Deserialize<'de>>(deserializer: D) -> Result<Option<T>, D::Error> {
    T::deserialize(deserializer).map(Some)
}

impl QueueSettings {
    /// All of what a queue is like.
    pub fn of(options: &QueueOptions) -> Self {
        let dead_letters = options.dead_letters.as_ref();
        Self {
            visibility_seconds: Some(options.visibility_seconds),
            delay_seconds: Some(options.delay_seconds),
            retention_seconds: Some(options.retention_seconds),
            dead_letters: Some(dead_letters.map(|dead_letters| DeadLetterSettings {
                queue: dead_letters.queue.as_str().to_owned(),
                attempts: dead_letters.attempts,
            })),
            ordered: Some(options.is_ordered),
            shards: Some(options.shards),
            deduplication: Some(match options.deduplication {
                Deduplication::Queue => DeduplicationScope::Queue,
                Deduplication::Group => DeduplicationScope::Group,
            }),
            body_bytes: Some(options.body_bytes),
            max_in_flight: Some(options.max_in_flight),
        }
    }

    /// What these are to change of a queue.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidArgument`]: what is named as queue of dead letters is no name.
    pub fn change(&self) -> Result<QueueChange> {
        let read = |dead_letters: &Option<DeadLetterSettings>| {
            dead_letters.as_ref().map(DeadLetterSettings::read).transpose()
        };
        Ok(QueueChange {
            visibility_seconds: self.visibility_seconds,
            delay_seconds: self.delay_seconds,
            retention_seconds: self.retention_seconds,
            dead_letters: self.dead_letters.as_ref().map(read).transpose()?,
            is_ordered: self.ordered,
            shards: self.shards,
            deduplication: self.deduplication.map(|scope| match scope {
                DeduplicationScope::Queue => Deduplication::Queue,
                DeduplicationScope::Group => Deduplication::Group,
            }),
            body_bytes: self.body_bytes,
            max_in_flight: self.max_in_flight,
        })
    }

    /// What a queue is like that is made by these.
    ///
    /// # Errors
    /// As of [`change`](Self::change).
    pub fn options(&self) -> Result<QueueOptions> {
        let options = self.change()?.on(&QueueOptions::default());
        // One that finds duplicates in all of its order has no more: nobody has to say so.
        let is_one = options.is_ordered && options.deduplication == Deduplication::Queue;
        let shards = if is_one { 1 } else { options.shards };
        Ok(QueueOptions {
            shards: self.shards.unwrap_or(shards),
            ..options
        })
    }
}

impl DeadLetterSettings {
    fn read(&self) -> Result<DeadLetters> {
        let queue = QueueName::new("dead_letters.queue", &self.queue).map_err(|error| {
            Error::new(ErrorKind::InvalidArgument, error.to_string())
                .with_hint(error.hint())
                .with_field("dead_letters.queue")
        })?;
        Ok(DeadLetters {
            queue,
            attempts: self.attempts,
        })
    }
}

/// A queue: what it is like, and how much there is in it.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct QueueStatus {
    /// What it is called.
    pub name: String,
    /// When its options were changed last: another number for each change.
    pub version: u64,
    /// What it is like: all of it.
    pub options: QueueSettings,
    /// Messages that are not done with.
    pub messages: u64,
    /// Of those, the ones that somebody has received.
    pub in_flight: u64,
    /// Of those, the ones that are not due yet.
    pub delayed: u64,
    /// Seconds since the oldest message is due; null if no message is due.
    pub age_seconds: Option<f64>,
    /// Whether these numbers are exact: beyond 64 segments of 4,096 messages, what is done with is counted among `messages`.
    pub exact: bool,
    /// How many wait for a message in the process that answers.
    pub receivers_waiting: u64,
    /// What that process did since it opened the store.
    pub totals: Totals,
    /// Why the numbers are not known, if what is stored of it is damaged.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub damage: Option<String>,
}

/// A message to be sent. It has one of `body` and `body_base64`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct OutgoingMessage {
    /// Text.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub body: Option<String>,
    /// Any bytes, in base64.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub body_base64: Option<String>,
    /// Names and values.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub attributes: BTreeMap<String, String>,
    /// For how long it is not received; else as the queue says. In an ordered queue no message has a delay of its own.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub delay_seconds: Option<u32>,
    /// Its group, in an ordered queue.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub group: Option<String>,
    /// Within five minutes no other message of this id is sent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub deduplication_id: Option<String>,
}

impl OutgoingMessage {
    /// A message with this body, as text if it is text.
    pub fn of(body: Vec<u8>) -> Self {
        let (body, body_base64) = body_words(body);
        Self {
            body,
            body_base64,
            ..Self::default()
        }
    }

    /// The message; `number` is where it stands among those that are sent.
    pub(crate) fn read(self, number: usize) -> Result<NewMessage> {
        let refused = |field: &str, what: String| {
            Error::new(ErrorKind::InvalidArgument, format!("{field}: {what}"))
                .with_hint("this one was not sent; the others were")
                .with_change(number)
                .with_field(field)
        };
        let body = match (self.body, self.body_base64) {
            (Some(body), None) => body.into_bytes(),
            (None, Some(encoded)) => STANDARD
                .decode(encoded)
                .map_err(|error| refused("body_base64", format!("no base64: {error}")))?,
            (None, None) => return Err(refused("body", "there is none".to_owned())),
            (Some(_), Some(_)) => {
                let what = "there is a `body`, and it can have one of them".to_owned();
                return Err(refused("body_base64", what));
            }
        };
        let message = NewMessage::new(body);
        Ok(NewMessage {
            attributes: self.attributes,
            delay: self.delay_seconds.map(|delay| Duration::from_secs(delay.into())),
            group: self.group,
            deduplication_id: self.deduplication_id,
            ..message
        })
    }
}

/// Bytes as text, if they are, or else in base64.
pub(crate) fn body_words(body: Vec<u8>) -> (Option<String>, Option<String>) {
    match String::from_utf8(body) {
        Ok(text) => (Some(text), None),
        Err(error) => (None, Some(STANDARD.encode(error.into_bytes()))),
    }
}

/// The bytes of a body that was said as text, or in base64.
///
/// # Errors
/// [`ErrorKind::InvalidArgument`]: it is no base64.
pub fn body_bytes(body: Option<&str>, body_base64: Option<&str>) -> Result<Vec<u8>> {
    match body_base64 {
        None => Ok(body.unwrap_or_default().as_bytes().to_vec()),
        Some(encoded) => STANDARD.decode(encoded).map_err(|error| {
            Error::new(
                ErrorKind::InvalidArgument,
                format!("a body is no base64: {error}"),
            )
            .with_field("body_base64")
        }),
    }
}

/// What became of a message that was sent.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SentMessage {
    /// What it is known by: 32 hexadecimal digits.
    pub id: String,
    /// Whether it was sent before, within five minutes, under its deduplication id, and not again.
    pub duplicate: bool,
}

/// For how long one redrive goes on, where nothing is known of how long it may.
pub const REDRIVE_TIME: Duration = Duration::from_secs(10);

/// What a redrive did.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct MovedMessages {
    /// How many messages were moved.
    pub moved: u64,
    /// Whether that is all that was to be moved; else the same again goes on.
    pub done: bool,
}

/// How messages are received.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ReceiveRequest {
    /// Messages at most: 1 to 1,000; else 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_messages: Option<u32>,
    /// For how long they are the receiver's; else as the queue says.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub visibility_seconds: Option<u32>,
    /// How long to wait if there is none: 0 to 20; else 0.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub wait_seconds: Option<u32>,
}

impl ReceiveRequest {
    /// # Errors
    /// [`ErrorKind::InvalidArgument`]: a number is too small or too great, as [`Error::field`] says.
    pub(crate) fn check(&self) -> Result<()> {
        let longest = u32::try_from(MAX_WAIT.as_secs()).unwrap_or(u32::MAX);
        for (field, given, range) in [
            ("max_messages", self.max_messages, 1..=most_messages()),
            (
                "visibility_seconds",
                self.visibility_seconds,
                1..=MAX_VISIBILITY_SECONDS,
            ),
            ("wait_seconds", self.wait_seconds, 0..=longest),
        ] {
            if let Some(given) = given {
                check_range(field, given, range)?;
            }
        }
        Ok(())
    }
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

/// A message that was received.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReceivedMessage {
    /// What it is known by.
    pub id: String,
    /// What shows that it was received.
    pub receipt: String,
    /// The body, if it is text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub body: Option<String>,
    /// The body in base64, if it is not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub body_base64: Option<String>,
    /// As they were sent.
    pub attributes: BTreeMap<String, String>,
    /// As it was sent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub group: Option<String>,
    /// As it was sent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deduplication_id: Option<String>,
    /// How often it was received, this time too.
    pub attempts: u16,
    /// When it was sent, by its sender's clock, as RFC 3339.
    pub sent_at: String,
    /// When it was received for the first time.
    pub first_received_at: String,
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

/// A message that was looked at, and not received.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PeekedMessage {
    /// What it is known by.
    pub id: String,
    /// Where it stands, by which it is removed.
    pub position: String,
    /// `ready`, `delayed`, `in_flight`, or `leaving`: on its way to another queue.
    pub state: String,
    /// Until when it is delayed or in flight, as RFC 3339.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub until: Option<String>,
    /// How often it was received.
    pub attempts: u16,
    /// When it was sent, by its sender's clock, as RFC 3339.
    pub sent_at: String,
    /// The body, if it is text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub body: Option<String>,
    /// The body in base64, if it is not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub body_base64: Option<String>,
    /// As they were sent.
    #[serde(default)]
    pub attributes: BTreeMap<String, String>,
    /// As it was sent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub group: Option<String>,
    /// As it was sent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deduplication_id: Option<String>,
    /// Why what it says cannot be read, if so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub damage: Option<String>,
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
/// let received = queues.receive("mails", &ReceiveRequest::default()).await?;
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
    /// Receives messages; if the future is dropped they are given back.
    async fn receive(&self, queue: &str, request: &ReceiveRequest) -> Result<Vec<ReceivedMessage>>;
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
    async fn ring(&self) -> Result<QueueRing>;
    /// Changes what all queues go by.
    async fn change_ring(&self, settings: &RingSettings) -> Result<QueueRing>;
    /// What all queues go by, if anybody has said so, or made a queue; nothing is made for that.
    async fn ring_settings(&self) -> Result<Option<RingSettings>>;
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
