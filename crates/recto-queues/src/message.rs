//! Messages that are sent and received.

use std::collections::BTreeMap;
use std::time::Duration;

use recto_protocol::queues::limits::{MAX_DELAY_SECONDS, MESSAGE_OVERHEAD_BYTES};
use recto_protocol::queues::{MessageId, Micros, Receipt};

use crate::error::{QueueError, QueueErrorKind, Result};
use crate::options::ShardOptions;

/// Maximum number of attributes of a message.
pub(crate) const MAX_ATTRIBUTES: usize = 64;
/// Maximum length in bytes of three names of a message: its group, its deduplication id, and each attribute.
pub(crate) const MAX_NAME_BYTES: usize = 256;
/// Maximum number of characters of a too long name that an error message shows.
const MAX_SHOWN_CHARACTERS: usize = 80;
/// Maximum number of messages of one receive, or of one append.
pub const MAX_BATCH: usize = 1_000;

/// Message to send.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct NewMessage {
    /// Body: any bytes.
    pub body: Vec<u8>,
    /// Attributes: at most 64 names with their values, as text.
    pub attributes: BTreeMap<String, String>,
    /// Time before the message can be received, at most 30 days. `None`: the delay of the queue. In an
    /// ordered queue, this must be `None`.
    pub delay: Option<Duration>,
    /// Name of the message's group. An ordered queue delivers the messages of a group in order.
    pub group: Option<String>,
    /// Deduplication id. A message with the same id that is sent within five minutes is a duplicate, and is
    /// not stored.
    pub deduplication_id: Option<String>,
}

impl NewMessage {
    /// Creates a message that has only a body.
    pub fn new(body: impl Into<Vec<u8>>) -> Self {
        Self {
            body: body.into(),
            ..Self::default()
        }
    }

    /// Returns the maximum number of bytes that the message takes in one commit of the store.
    pub(crate) fn stored_bytes(&self) -> u64 {
        self.bytes() as u64 + MESSAGE_OVERHEAD_BYTES
    }

    /// Returns the size of the message in bytes, to which the limit of the queue applies: body, attributes,
    /// group and deduplication id.
    pub(crate) fn bytes(&self) -> usize {
        let attributes = self
            .attributes
            .iter()
            .map(|(name, value)| name.len() + value.len());
        let names = [&self.group, &self.deduplication_id].into_iter().flatten();
        self.body.len() + attributes.sum::<usize>() + names.map(String::len).sum::<usize>()
    }

    /// Checks that the message may be sent to a queue with the options `options`. `committed_bytes`
    /// is the maximum size of a commit of the store. `number` is the index of the message among the
    /// messages that are sent together.
    pub(crate) fn check(&self, number: usize, options: &ShardOptions, committed_bytes: u64) -> Result<()> {
        if options.is_ordered && self.group.is_none() {
            return Err(refused(
                number,
                "group",
                "each message in an ordered queue needs a group",
            ));
        }
        if options.is_ordered && self.delay.is_some() {
            return Err(refused(
                number,
                "delay_seconds",
                "a message in an ordered queue cannot have its own delay",
            ));
        }
        let names = [
            ("group", &self.group),
            ("deduplication_id", &self.deduplication_id),
        ];
        let named = names
            .into_iter()
            .filter_map(|(field, name)| Some((field, name.as_deref()?)));
        let attributes = self.attributes.keys().map(|name| ("attributes", name.as_str()));
        for (field, name) in named.chain(attributes) {
            if name.is_empty() || name.len() > MAX_NAME_BYTES {
                let (length, shown) = (name.len(), shown(name));
                let what =
                    format!("{shown} is a name of {length} bytes; a name has 1 to {MAX_NAME_BYTES} bytes");
                return Err(refused(number, field, &what));
            }
        }
        if self.attributes.len() > MAX_ATTRIBUTES {
            let what = format!(
                "{} attributes; a message has at most {MAX_ATTRIBUTES}",
                self.attributes.len()
            );
            return Err(refused(number, "attributes", &what));
        }
        let delay = self.delay.unwrap_or_default();
        if delay > Duration::from_secs(MAX_DELAY_SECONDS.into()) {
            let what = format!("{} s; the maximum is 30 days", delay.as_secs());
            return Err(refused(number, "delay_seconds", &what));
        }
        if self.bytes() > options.body_bytes as usize {
            let (bytes, most) = (self.bytes(), options.body_bytes);
            let what = format!("{bytes} bytes with attributes and names; this queue accepts at most {most}");
            return Err(refused(number, "body", &what));
        }
        if self.stored_bytes() > committed_bytes {
            let bytes = self.stored_bytes();
            let what = format!(
                "{bytes} bytes with its stored metadata; this store accepts at most {committed_bytes} in one \
                 write"
            );
            return Err(refused(number, "body", &what));
        }
        Ok(())
    }
}

/// Returns the name in quotes, shortened to `MAX_SHOWN_CHARACTERS`, for an error message.
fn shown(name: &str) -> String {
    match name.char_indices().nth(MAX_SHOWN_CHARACTERS) {
        Some((end, _)) => format!("{:?}…", &name[..end]),
        None => format!("{name:?}"),
    }
}

fn refused(number: usize, field: &'static str, what: &str) -> QueueError {
    let message = format!("{field}: {what}");
    QueueError::new(QueueErrorKind::InvalidArgument, message)
        .with_hint("fix this message and send it again; the other messages were sent")
        .with_number(number)
        .with_field(field)
}

/// Received message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Message {
    /// Identifier of the message.
    pub id: MessageId,
    /// Body, as it was sent.
    pub body: Vec<u8>,
    /// Attributes, as they were sent.
    pub attributes: BTreeMap<String, String>,
    /// Name of the group, as it was sent.
    pub group: Option<String>,
    /// Deduplication id, as it was sent.
    pub deduplication_id: Option<String>,
    /// Time at which the message was sent, by the sender's clock.
    pub sent_at: Micros,
    /// Time at which the message was received for the first time.
    pub first_received_at: Micros,
    /// Number of times that the message was received, including the current receive.
    pub attempts: u16,
    /// Receipt, with which the receiver acknowledges the message, gives it back, or extends its visibility
    /// timeout.
    pub receipt: Receipt,
}

/// Outcome of sending a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sent {
    /// The message is stored durably, and will be delivered.
    New(MessageId),
    /// The message was not stored: a message with the same deduplication id was sent within the last five
    /// minutes. The value is the identifier of that message.
    Duplicate(MessageId),
}

/// Outcome of an operation with a receipt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Settled {
    /// The change is durable.
    ///
    /// A receipt of a resolved message also has this outcome if it acknowledges the message, or gives it back
    /// without counting the attempt. Such a message may have been acknowledged by another receiver, removed,
    /// purged, expired, or moved to the dead-letter queue.
    Done,
    /// Nothing was done: the message was received again since, or is being moved. A message that was acknowledged,
    /// removed, purged or moved cannot be given back, and its visibility timeout cannot be extended. The handler of
    /// such a message may stop.
    Stale,
}
