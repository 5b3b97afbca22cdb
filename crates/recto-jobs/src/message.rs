//! Messages as they are sent and received.

use std::collections::BTreeMap;
use std::time::Duration;

use recto_protocol::queues::limits::{MAX_DELAY_SECONDS, MESSAGE_OVERHEAD_BYTES};
use recto_protocol::queues::{MessageId, Micros, Receipt};

use crate::error::{QueueError, QueueErrorKind, Result};
use crate::options::ShardOptions;

/// The most attributes of a message.
pub(crate) const MAX_ATTRIBUTES: usize = 64;
/// The most bytes of the name of a group, of a deduplication id, and of an attribute's name.
pub(crate) const MAX_NAME_BYTES: usize = 256;
/// The most characters that are shown of a name which is too long.
const MAX_SHOWN_CHARACTERS: usize = 80;
/// The most messages that are received at once, or sent by one append.
pub const MAX_BATCH: usize = 1_000;

/// A message to be sent.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct NewMessage {
    /// Any bytes.
    pub body: Vec<u8>,
    /// Names and values, as text: at most 64.
    pub attributes: BTreeMap<String, String>,
    /// For how long it is not received, at most 30 days; none: for as long as its queue says. In an ordered queue no message has
    /// one of its own.
    pub delay: Option<Duration>,
    /// Messages of one group of an ordered queue are received in order.
    pub group: Option<String>,
    /// Within five minutes no other message of this id is sent.
    pub deduplication_id: Option<String>,
}

impl NewMessage {
    /// A body, and nothing else.
    pub fn new(body: impl Into<Vec<u8>>) -> Self {
        Self {
            body: body.into(),
            ..Self::default()
        }
    }

    /// How many bytes it takes in a commit, at most.
    pub(crate) fn stored_bytes(&self) -> u64 {
        self.bytes() as u64 + MESSAGE_OVERHEAD_BYTES
    }

    /// How many bytes count.
    pub(crate) fn bytes(&self) -> usize {
        let attributes = self
            .attributes
            .iter()
            .map(|(name, value)| name.len() + value.len());
        let names = [&self.group, &self.deduplication_id].into_iter().flatten();
        self.body.len() + attributes.sum::<usize>() + names.map(String::len).sum::<usize>()
    }

    /// Whether it may be sent to a queue that is like that, on a store that takes so much in one commit; `number` is where it stands
    /// among those that are sent together.
    pub(crate) fn check(&self, number: usize, options: &ShardOptions, committed_bytes: u64) -> Result<()> {
        if options.is_ordered && self.group.is_none() {
            return Err(refused(
                number,
                "group",
                "it has none: in an ordered queue each message has",
            ));
        }
        if options.is_ordered && self.delay.is_some() {
            return Err(refused(
                number,
                "delay_seconds",
                "in an ordered queue no message has one of its own",
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
                let what = format!("{shown} is a name of {length} bytes: it has 1 to {MAX_NAME_BYTES}");
                return Err(refused(number, field, &what));
            }
        }
        if self.attributes.len() > MAX_ATTRIBUTES {
            let what = format!(
                "{} attributes: {MAX_ATTRIBUTES} are the most",
                self.attributes.len()
            );
            return Err(refused(number, "attributes", &what));
        }
        let delay = self.delay.unwrap_or_default();
        if delay > Duration::from_secs(MAX_DELAY_SECONDS.into()) {
            let what = format!("{} s: 30 days are the longest", delay.as_secs());
            return Err(refused(number, "delay_seconds", &what));
        }
        if self.bytes() > options.body_bytes as usize {
            let (bytes, most) = (self.bytes(), options.body_bytes);
            let what = format!("{bytes} bytes with attributes and names: {most} are the most in this queue");
            return Err(refused(number, "body", &what));
        }
        if self.stored_bytes() > committed_bytes {
            let bytes = self.stored_bytes();
            let what = format!(
                "{bytes} bytes with all that is stored of it: this store takes {committed_bytes} at once"
            );
            return Err(refused(number, "body", &what));
        }
        Ok(())
    }
}

/// A name, or how it begins.
fn shown(name: &str) -> String {
    match name.char_indices().nth(MAX_SHOWN_CHARACTERS) {
        Some((end, _)) => format!("{:?}…", &name[..end]),
        None => format!("{name:?}"),
    }
}

fn refused(number: usize, field: &'static str, what: &str) -> QueueError {
    let message = format!("{field}: {what}");
    QueueError::new(QueueErrorKind::InvalidArgument, message)
        .with_hint("this one was not sent; the others were")
        .with_number(number)
        .with_field(field)
}

/// A message that was received.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Message {
    /// What it is known by.
    pub id: MessageId,
    /// As it was sent.
    pub body: Vec<u8>,
    /// As they were sent.
    pub attributes: BTreeMap<String, String>,
    /// As it was sent.
    pub group: Option<String>,
    /// As it was sent.
    pub deduplication_id: Option<String>,
    /// When it was sent, by its sender's clock.
    pub sent_at: Micros,
    /// When it was received for the first time.
    pub first_received_at: Micros,
    /// How often it was received, this time too.
    pub attempts: u16,
    /// What shows that it was received: to be done with it.
    pub receipt: Receipt,
}

/// What became of a message that was sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sent {
    /// It is durable, and will be received.
    New(MessageId),
    /// This message was sent within five minutes under its deduplication id; it was not sent again.
    Duplicate(MessageId),
}

/// What became of a receipt that was shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Settled {
    /// It is so, durably. Acknowledging or returning uncounted a message that is done with already is answered like this, too:
    /// another receiver may have acknowledged it, or it may have been removed, purged, expired or moved to the dead letters.
    Done,
    /// Nothing was done. The message was received again since, or moves. A message that was acknowledged, removed, purged or moved
    /// cannot be given back or kept for longer either: its handler may stop.
    Stale,
}
