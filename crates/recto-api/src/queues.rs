//! Bodies of requests and replies about queues, work units (temporary queues) and messages.

use std::collections::BTreeMap;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use recto_model::schema::StoreQueues;
use serde::{Deserialize, Serialize};

#[cfg(feature = "clap")]
use crate::display::time_seconds;
use crate::pages::is_false;
use crate::parameters::{ParameterError, present, whole_number};
use crate::problem::ProblemBody;

/// Regular expression for base64 with padding.
#[cfg(test)]
const BASE64: &str = "^(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/][AQgw]==|[A-Za-z0-9+/]{2}[AEIMQUYcgkosw048]=)?$";

/// Options of a queue. A queue that is created gets the default of each option that is left out. A
/// queue that is changed keeps it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "clap", derive(clap::Args))]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(default, deny_unknown_fields)]
pub struct QueueSettings {
    /// Time for which a received message is invisible to others, if its receiver sets none: 1
    /// second to 12 hours; default 30 seconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "clap", arg(long = "visibility", value_name = "TIME", value_parser = time_seconds))]
    #[cfg_attr(test, schemars(range(min = 1, max = 43_200)))]
    pub visibility_seconds: Option<u32>,
    /// Time from the sending of a message until it can be received, if its sender sets none: up to
    /// 30 days, and up to 15 minutes in an ordered queue; default 0 seconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "clap", arg(long = "delay", value_name = "TIME", value_parser = time_seconds))]
    #[cfg_attr(test, schemars(range(max = 2_592_000)))]
    pub delay_seconds: Option<u32>,
    /// Time for which the queue keeps a message that is not acknowledged: 1 minute to 365 days. The
    /// default keeps a message until it is acknowledged (JSON: null; command line: `forever`).
    #[serde(skip_serializing_if = "Option::is_none", deserialize_with = "present")]
    #[cfg_attr(feature = "clap", arg(long = "retention", value_name = "TIME", value_parser = retention))]
    #[cfg_attr(test, schemars(with = "Option<u32>", range(min = 60, max = 31_536_000)))]
    pub retention_seconds: Option<Retention>,
    /// Queue for messages that were received too often; null, no queue; default null.
    #[serde(skip_serializing_if = "Option::is_none", deserialize_with = "present")]
    #[cfg_attr(feature = "clap", arg(skip))]
    #[cfg_attr(test, schemars(with = "Option<DeadLetterSettings>"))]
    pub dead_letters: Option<Option<DeadLetterSettings>>,
    /// Whether the queue is paused. A paused queue accepts messages and delivers none; default false.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "clap", arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_missing_value = "true"))]
    pub paused: Option<bool>,
    /// Whether messages have groups, and each group is delivered in order. The name of an ordered queue can
    /// end in `.fifo`. This option never changes; default false.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "clap", arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_missing_value = "true"))]
    pub ordered: Option<bool>,
    /// Number of shards, and so of servers that can write to the queue at the same time: 1 to 64. An embedded
    /// store uses one shard. The number never changes; default 4, and 1 for an ordered queue whose
    /// `deduplication` is `queue`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "clap", arg(long, value_name = "NUMBER"))]
    #[cfg_attr(test, schemars(range(min = 1, max = 64)))]
    pub shards: Option<u16>,
    /// Scope in which a deduplication id is unique. The scope never changes; default `queue`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "clap", arg(long, value_enum, value_name = "SCOPE"))]
    pub deduplication: Option<DeduplicationScope>,
    /// Maximum number of bytes of a message's body and attributes; default 1048576, which is also the maximum.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "clap", arg(long, value_name = "BYTES"))]
    #[cfg_attr(test, schemars(range(min = 1, max = 1_048_576)))]
    pub body_bytes: Option<u32>,
    /// Maximum number of messages in flight: 1 to 1000000; default 120000. A receive beyond it fails with
    /// `too-many-in-flight` (HTTP status 429).
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "clap", arg(long, value_name = "NUMBER"))]
    #[cfg_attr(test, schemars(range(min = 1, max = 1_000_000)))]
    pub max_in_flight: Option<u32>,
}

/// Retention of messages in seconds; `None` keeps a message until it is acknowledged.
///
/// The alias hides an `Option` from clap. Without it, clap would read the field's type
/// `Option<Option<u32>>` as an option whose value may be omitted.
pub type Retention = Option<u32>;

/// Parses the retention of messages on the command line: a time, or `forever`.
#[cfg(feature = "clap")]
fn retention(text: &str) -> Result<Retention, String> {
    match text {
        "forever" => Ok(None),
        text => time_seconds(text)
            .map(Some)
            .map_err(|expected| format!("`forever`, or {expected}")),
    }
}

/// Queue for messages that were received too often.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct DeadLetterSettings {
    /// Name of the other queue.
    #[cfg_attr(
        test,
        schemars(length(min = 1, max = 80), regex(pattern = "^[A-Za-z0-9_-]+([.]fifo)?$"))
    )]
    pub queue: String,
    /// Number of deliveries of a message before it goes to this queue.
    #[cfg_attr(test, schemars(range(min = 1, max = 1_000)))]
    pub attempts: u16,
}

/// Scope in which a deduplication id is unique.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "clap", derive(clap::ValueEnum))]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum DeduplicationScope {
    /// The queue.
    #[default]
    Queue,
    /// The group of the message, in an ordered queue.
    Group,
}

/// A queue or a work unit: its options, and the numbers of its messages.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[cfg_attr(test, schemars(rename = "Queue"))]
#[serde(default)]
pub struct QueueStatus {
    /// Name of the queue; of a work unit, `QUEUE/UNIT`.
    pub name: String,
    /// Version of the options, which each change raises. It is the `ETag`.
    pub version: u64,
    /// All options of the queue.
    pub options: QueueSettings,
    /// Number of messages that are not acknowledged.
    pub messages: u64,
    /// Number of messages in flight: received, and not yet acknowledged.
    pub in_flight: u64,
    /// Number of messages that cannot be received yet.
    pub delayed: u64,
    /// Seconds since the oldest message could be received; null if no message can.
    pub age_seconds: Option<f64>,
    /// Whether the numbers are exact. In a very long queue (more than 64 segments of 4,096 messages), some acknowledged
    /// messages are counted as `messages`.
    pub exact: bool,
    /// Number of receivers that wait at this server.
    pub receivers_waiting: u64,
    /// Counters of this server since it opened the store.
    pub totals: QueueTotals,
    /// Reason why the numbers are not known, if stored data is damaged.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub damage: Option<String>,
}

impl QueueStatus {
    /// Returns whether the queue is paused. Also returns false if the caller cannot see the options.
    pub fn is_paused(&self) -> bool {
        self.options.paused == Some(true)
    }
}

/// Counters of one process for one queue since it opened the store.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct QueueTotals {
    /// Number of messages that were sent. A duplicate is not counted.
    pub sent: u64,
    /// Number of deliveries of messages.
    pub received: u64,
    /// Number of messages that were acknowledged.
    pub acked: u64,
    /// Number of messages that receivers gave back.
    pub given_back: u64,
    /// Number of messages that became dead letters.
    pub dead_lettered: u64,
    /// Number of messages that expired.
    pub expired: u64,
    /// Number of messages whose bodies were missing or damaged.
    pub bodies_lost: u64,
}

/// Reply to `GET /v1/queues`.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[cfg_attr(test, schemars(rename = "Queues"))]
pub struct QueueList {
    /// Queues, by name.
    pub queues: Vec<QueueStatus>,
}

/// Reply to `GET /v1/queues/QUEUE/units`.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[cfg_attr(test, schemars(rename = "Units"))]
pub struct UnitList {
    /// Work units that have begun, by name.
    pub units: Vec<QueueStatus>,
}

/// Body of `POST …/messages:send`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[cfg_attr(test, schemars(rename = "OutgoingMessages"))]
#[serde(deny_unknown_fields)]
pub struct SendRequest {
    /// Messages to send, in this order.
    #[cfg_attr(test, schemars(length(max = 1_000)))]
    pub messages: Vec<OutgoingMessage>,
}

/// A message to send. It has either `body` or `body_base64`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(default, deny_unknown_fields)]
pub struct OutgoingMessage {
    /// Body as text. A message has either this or `body_base64`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(test, schemars(with = "String"))]
    pub body: Option<String>,
    /// Body as base64, for any bytes. If they are UTF-8, the receiver gets them as `body`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(test, schemars(with = "String", extend("contentEncoding" = "base64"), regex(pattern = BASE64)))]
    pub body_base64: Option<String>,
    /// Names and values that go with the body.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub attributes: BTreeMap<String, String>,
    /// Time in seconds until the message can be received; absent, the delay of the queue. In an ordered
    /// queue, messages cannot have their own delay.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(test, schemars(range(max = 2_592_000)))]
    pub delay_seconds: Option<u32>,
    /// Group of the message, in an ordered queue.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub group: Option<String>,
    /// Deduplication id. Within five minutes, the queue accepts only one message with this id.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub deduplication_id: Option<String>,
}

impl OutgoingMessage {
    /// Returns a message with this body: as `body` if the bytes are UTF-8, otherwise as
    /// `body_base64`.
    pub fn of(body: Vec<u8>) -> Self {
        let (body, body_base64) = body_members(body);
        Self {
            body,
            body_base64,
            ..Self::default()
        }
    }
}

/// Converts the bytes of a body to the members `body` and `body_base64`, of which one is set:
/// `body` if the bytes are UTF-8.
pub fn body_members(body: Vec<u8>) -> (Option<String>, Option<String>) {
    match String::from_utf8(body) {
        Ok(text) => (Some(text), None),
        Err(error) => (None, Some(STANDARD.encode(error.into_bytes()))),
    }
}

/// Returns the bytes of a body that the members `body` or `body_base64` contain.
///
/// # Errors
/// `body_base64` is not base64.
pub fn body_bytes(body: Option<&str>, body_base64: Option<&str>) -> Result<Vec<u8>, ParameterError> {
    match body_base64 {
        None => Ok(body.unwrap_or_default().as_bytes().to_vec()),
        Some(encoded) => STANDARD.decode(encoded).map_err(|error| {
            ParameterError::new("body_base64", format!("the body is not base64: {error}"))
                .with_hint("encode it with the standard alphabet and padding")
        }),
    }
}

/// Outcome of sending a message.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct SentMessage {
    /// Id of the message: 32 hexadecimal digits.
    #[cfg_attr(test, schemars(regex(pattern = "^[0-9a-f]{32}$")))]
    pub id: String,
    /// Whether the message is a duplicate: a message with its deduplication id was sent in the five minutes
    /// before. A duplicate is not sent.
    pub duplicate: bool,
}

/// Reply to `POST …/messages:send`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct SentMessages {
    /// Outcome of each message, in their order.
    pub results: Vec<SendResult>,
}

/// Outcome of a message: it was sent, or was rejected.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[cfg_attr(test, schemars(inline))]
#[serde(untagged)]
pub enum SendResult {
    /// The message was sent.
    Sent(SentMessage),
    /// The message was rejected.
    Rejected(Box<Rejection>),
}

/// Reason why a part of a request failed.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Rejection {
    /// Reason why the part failed.
    pub problem: ProblemBody,
}

/// Body of `POST …/messages:receive`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(default, deny_unknown_fields)]
pub struct ReceiveRequest {
    /// Maximum number of messages to receive; absent, 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(test, schemars(range(min = 1, max = 1_000)))]
    pub max_messages: Option<u32>,
    /// Time in seconds for which the messages are invisible to other receivers; absent, the visibility
    /// timeout of the queue.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(test, schemars(range(min = 1, max = 43_200)))]
    pub visibility_seconds: Option<u32>,
    /// Time in seconds to wait for a message if the queue is empty; absent, 0.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(test, schemars(range(max = 20)))]
    pub wait_seconds: Option<u32>,
}

/// Reply to `POST …/messages:receive`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct ReceivedMessages {
    /// Messages, the oldest first; empty if no message came in time.
    pub messages: Vec<ReceivedMessage>,
    /// Whether the queue is paused and therefore delivered no messages; absent, false.
    #[serde(default, skip_serializing_if = "is_false")]
    pub paused: bool,
}

/// A message that was received.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct ReceivedMessage {
    /// Id of the message.
    #[cfg_attr(test, schemars(regex(pattern = "^[0-9a-f]{32}$")))]
    pub id: String,
    /// Receipt of this delivery. With it, the receiver acknowledges the message, gives it back, or extends
    /// its visibility timeout.
    pub receipt: String,
    /// Body, if it is UTF-8.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(test, schemars(with = "String"))]
    pub body: Option<String>,
    /// Body as base64, if it is not UTF-8.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(test, schemars(with = "String", extend("contentEncoding" = "base64"), regex(pattern = BASE64)))]
    pub body_base64: Option<String>,
    /// Attributes of the message.
    pub attributes: BTreeMap<String, String>,
    /// Group of the message, in an ordered queue.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(test, schemars(with = "String"))]
    pub group: Option<String>,
    /// Deduplication id of the message.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(test, schemars(with = "String"))]
    pub deduplication_id: Option<String>,
    /// Number of deliveries of the message, including this one.
    pub attempts: u16,
    /// Time at which the message was sent, by the clock of its sender (RFC 3339).
    #[cfg_attr(test, schemars(extend("format" = "date-time")))]
    pub sent_at: String,
    /// Time of the first delivery (RFC 3339).
    #[cfg_attr(test, schemars(extend("format" = "date-time")))]
    pub first_received_at: String,
}

/// Body of `POST …/messages:ack`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct AckRequest {
    /// Receipts of the messages to acknowledge.
    #[cfg_attr(test, schemars(length(max = 1_000)))]
    pub receipts: Vec<String>,
}

/// Body of `POST …/messages:nack`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct NackRequest {
    /// Receipts of the messages to give back.
    #[cfg_attr(test, schemars(length(max = 1_000)))]
    pub receipts: Vec<String>,
    /// Time in seconds until the messages can be received again.
    #[serde(default)]
    #[cfg_attr(test, schemars(range(max = 2_592_000)))]
    pub delay_seconds: u32,
    /// Reason of the failure. A dead letter has it as an attribute.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub error: String,
    /// Count the delivery as an attempt. Use `false` for messages whose handling did not start; then
    /// `delay_seconds` and `error` have no effect.
    #[serde(default = "yes")]
    pub counted: bool,
}

fn yes() -> bool {
    true
}

/// Body of `POST …/messages:extend`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct ExtendRequest {
    /// Receipts of the messages whose visibility timeout is extended.
    #[cfg_attr(test, schemars(length(max = 1_000)))]
    pub receipts: Vec<String>,
    /// Time in seconds, from now, for which the messages stay invisible to others.
    #[cfg_attr(test, schemars(range(min = 1, max = 43_200)))]
    pub visibility_seconds: u32,
}

/// Reply to `POST …/messages:ack`, `:nack` and `:extend`.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct SettledMessages {
    /// Outcome of each receipt, in their order.
    pub results: Vec<SettledMessage>,
}

/// Outcome of a receipt.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct SettledMessage {
    /// Whether the request succeeded for this receipt. It is false if the message was received again since,
    /// and for a malformed receipt. For nack and extend, it is also false if the message was acknowledged,
    /// removed, purged or moved: then its handler can stop.
    pub done: bool,
    /// Reason why the receipt is malformed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(test, schemars(with = "ProblemBody"))]
    pub problem: Option<ProblemBody>,
}

/// Reply to `DELETE …/messages/POSITION`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct RemovedMessage {
    /// Whether the message was removed. It is false if the message was not in the queue, or was moving to
    /// another queue.
    pub removed: bool,
}

/// Body of `POST …/messages:redrive`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(default, deny_unknown_fields)]
pub struct RedriveRequest {
    /// Queue to which the messages go; absent, the only queue that sends its dead letters here.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(
        test,
        schemars(
            length(min = 1, max = 161),
            regex(pattern = "^[A-Za-z0-9_-]+([.]fifo)?(/[A-Za-z0-9_-]+([.]fifo)?)?$")
        )
    )]
    pub to: Option<String>,
    /// Maximum number of messages to move; absent, all.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_messages: Option<u64>,
}

/// Reply to `POST …/messages:redrive`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct MovedMessages {
    /// Number of messages that were moved.
    pub moved: u64,
    /// Whether all messages are moved. If it is false, send the same request again.
    pub done: bool,
}

/// Options of `GET …/messages`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(default)]
pub struct PeekOptions {
    /// Maximum number of messages to return.
    #[serde(deserialize_with = "whole_number", skip_serializing_if = "Option::is_none")]
    #[cfg_attr(test, schemars(with = "u32", range(min = 1, max = 1_000), extend("default" = 10)))]
    pub max_messages: Option<i64>,
}

/// Reply to `GET …/messages`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct PeekedMessages {
    /// Messages, by position.
    pub messages: Vec<PeekedMessage>,
}

/// A message that was shown without being received.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct PeekedMessage {
    /// Id of the message.
    #[cfg_attr(test, schemars(regex(pattern = "^[0-9a-f]{32}$")))]
    pub id: String,
    /// Position of the message, by which it can be removed.
    pub position: String,
    /// `ready`, `delayed`, `in_flight`, or `leaving` for a message that moves to another queue.
    #[cfg_attr(test, schemars(extend("enum" = ["ready", "delayed", "in_flight", "leaving"])))]
    pub state: String,
    /// Time until which the message is delayed or in flight (RFC 3339).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(test, schemars(with = "String", extend("format" = "date-time")))]
    pub until: Option<String>,
    /// Number of deliveries of the message.
    pub attempts: u16,
    /// Time at which the message was sent, by the clock of its sender (RFC 3339).
    #[cfg_attr(test, schemars(extend("format" = "date-time")))]
    pub sent_at: String,
    /// Body, if it is UTF-8.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(test, schemars(with = "String"))]
    pub body: Option<String>,
    /// Body as base64, if it is not UTF-8.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(test, schemars(with = "String", extend("contentEncoding" = "base64"), regex(pattern = BASE64)))]
    pub body_base64: Option<String>,
    /// Attributes of the message.
    #[serde(default)]
    pub attributes: BTreeMap<String, String>,
    /// Group of the message, in an ordered queue.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(test, schemars(with = "String"))]
    pub group: Option<String>,
    /// Deduplication id of the message.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(test, schemars(with = "String"))]
    pub deduplication_id: Option<String>,
    /// Reason why the content cannot be read, if it is damaged.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(test, schemars(with = "String"))]
    pub damage: Option<String>,
}

/// Options of the tables in which a store on Cassandra keeps bodies of messages. An option that is left out
/// does not change.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[cfg_attr(test, schemars(rename = "QueueTableSettings"))]
#[serde(default, deny_unknown_fields)]
pub struct QueueTableSettings {
    /// Rotation interval in seconds, for which new bodies go to one table.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(test, schemars(range(min = 10, max = 604_800)))]
    pub rotation_seconds: Option<u32>,
    /// Grace period in seconds, for which no message needs a table before it is truncated.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(test, schemars(range(min = 1, max = 86_400)))]
    pub grace_seconds: Option<u32>,
    /// Number of tables that are filled in turn.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(test, schemars(range(min = 2, max = 48)))]
    pub tables: Option<u32>,
    /// Maximum number of work units at the same time. Each work unit has its own table. `tables` and `units`
    /// together are at most 48.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(test, schemars(range(max = 46)))]
    pub units: Option<u32>,
}

impl QueueTableSettings {
    /// Converts the settings of queue tables from the section `[queues]` of a schema.
    pub fn of_schema(queues: &StoreQueues) -> Self {
        Self {
            rotation_seconds: queues.rotation_seconds,
            grace_seconds: queues.grace_seconds,
            tables: queues.tables,
            units: queues.units,
        }
    }

    /// Converts the settings of queue tables to the section `[queues]` of a schema.
    pub fn to_schema(&self) -> StoreQueues {
        let mut queues = StoreQueues::default();
        queues.rotation_seconds = self.rotation_seconds;
        queues.grace_seconds = self.grace_seconds;
        queues.tables = self.tables;
        queues.units = self.units;
        queues
    }
}

/// State of the tables for bodies of messages.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct QueueTables {
    /// Whether bodies are in separate tables. An embedded store keeps bodies with their messages, and uses
    /// only `units`.
    pub needed: bool,
    /// Options for all queues.
    pub options: QueueTableSettings,
    /// Tables, by number.
    pub tables: Vec<QueueTable>,
    /// Reason why the tables do not rotate; null if they do. No message is lost, and sending continues.
    pub obstacle: Option<String>,
}

/// A table for bodies of messages.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct QueueTable {
    /// Number of the table. No other table ever has the same number.
    pub number: u32,
    /// Name of the table in the store.
    pub name: String,
    /// `free`, `open`, `closing`, `closed`, `emptying`, `unit` or `retired`.
    #[cfg_attr(
        test,
        schemars(extend("enum" = ["free", "open", "closing", "closed", "emptying", "unit", "retired"]))
    )]
    pub phase: String,
    /// Seconds since the table entered its phase; null for a table that is free or retired.
    pub age_seconds: Option<f64>,
    /// Work unit of the table, as `QUEUE/UNIT`, until it ends.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(test, schemars(with = "String"))]
    pub unit: Option<String>,
    /// Number of segments with bodies in the table that may still be needed.
    pub segments: u64,
    /// Number of messages that were sent to those segments, acknowledged or not.
    pub messages: u64,
    /// Number of bytes of the bodies and attributes of these messages. Until the table is truncated, the
    /// files of the store also have those of acknowledged messages.
    #[serde(default)]
    pub bytes: u64,
    /// Whether Recto counted all of these segments. If there are more than 1,024, it counts 1,024 of them,
    /// and the numbers are minimums.
    #[serde(default)]
    pub exact: bool,
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn null_is_not_an_option_left_out() {
        let read = |text| serde_json::from_str::<QueueSettings>(text);
        assert_eq!(read("{}").unwrap(), QueueSettings::default());
        assert_eq!(read(r#"{"dead_letters":null}"#).unwrap().dead_letters, Some(None));
        assert_eq!(
            read(r#"{"retention_seconds":null}"#).unwrap().retention_seconds,
            Some(None)
        );
        assert!(read(r#"{"visibility":5}"#).is_err());
        let all = QueueSettings {
            visibility_seconds: Some(30),
            delay_seconds: Some(0),
            retention_seconds: Some(None),
            dead_letters: Some(None),
            paused: Some(false),
            ordered: Some(false),
            shards: Some(4),
            deduplication: Some(DeduplicationScope::Queue),
            body_bytes: Some(1_048_576),
            max_in_flight: Some(120_000),
        };
        let text = serde_json::to_string(&all).unwrap();
        assert_eq!(read(&text).unwrap(), all);
    }
}
