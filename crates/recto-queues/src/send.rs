//! Sending of messages.

use std::collections::BTreeMap;
use std::sync::Arc;

use futures::future::join_all;
use recto_protocol::queues::{
    Chunk, Entry, Fingerprint, HeadResponse, MessageId, Micros, Placed, Reach, SendAction, SendEvent,
    SendResponse, Sending, ShardEvent, reach,
};

use crate::body_format::Body;
use crate::context::micros;
use crate::context::{QueueContext, committed_bytes};
use crate::error::{QueueError, QueueErrorKind, RESTORE_ALL, Result};
use crate::message::{MAX_BATCH, NewMessage, Sent};
use crate::options::ShardOptions;
use crate::shard::Shard;
use crate::shard::append::ChunkBodies;
use crate::shards::Shards;

/// Maximum number of bytes of one append, including the overhead of its messages. A smaller limit for commits
/// of the store takes precedence.
const MAX_APPEND_BYTES: u64 = 4 << 20;
/// Maximum number of waiting receivers that one append wakes. These receivers wake further receivers.
const MAX_WOKEN: usize = 64;

/// Messages that are appended to a shard together: all of them or none.
struct Append {
    reach: Reach,
    /// Indexes of the messages in the list that the caller sends.
    numbers: Vec<usize>,
    entries: Vec<Entry>,
    bodies: Vec<Body>,
    bytes: u64,
}

/// Shards of the queue to which a message may be sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Destination {
    /// Only the shard with this index, because the group or the deduplication id determines the
    /// shard.
    Only(usize),
    /// Any shard that is not full.
    Any,
}

impl Shards {
    /// Sends `messages` in their order, and returns the outcome of each. Invalid messages are
    /// skipped, and the other messages are sent. If the caller goes away, each message is either
    /// sent completely or not sent.
    ///
    /// In an ordered queue, no message of a group is sent after a message of the group that the
    /// store did not accept.
    ///
    /// # Errors
    /// Each message has its own error: the message is invalid, the queue is full, or the store is
    /// unreachable. Or it is unknown whether the message was sent. In that case, send it again with
    /// the same deduplication id to resolve the outcome.
    pub async fn send(&self, messages: Vec<NewMessage>) -> Vec<Result<Sent>> {
        let mut results: Vec<Option<Result<Sent>>> = vec![None; messages.len()];
        let appends = self.appends(&messages, &mut results);
        let sent = appends
            .into_iter()
            .map(|(to, appends)| self.send_in_turn(to, appends));
        for (number, result) in join_all(sent).await.into_iter().flatten() {
            results[number] = Some(result);
        }
        let none = || Err(QueueError::ended());
        results
            .into_iter()
            .map(|result| result.unwrap_or_else(none))
            .collect()
    }

    /// Sends appends one after another, because messages that are sent first should be received first.
    /// Returns the outcome of each message, with the index of the message in the caller's list.
    async fn send_in_turn(&self, to: Destination, appends: Vec<Append>) -> Vec<(usize, Result<Sent>)> {
        let is_ordered = self.options().is_ordered;
        let mut failed: Option<QueueError> = None;
        let mut results = Vec::new();
        for append in appends {
            let numbers = append.numbers.clone();
            if let Some(error) = failed.as_ref().filter(|_| is_ordered) {
                // Later messages of a group must not exist without the earlier ones, so in an ordered queue,
                // messages after a failed message are not sent.
                results.extend(
                    numbers
                        .into_iter()
                        .map(|number| (number, Err(not_sent_behind(error)))),
                );
                continue;
            }
            let ids: Vec<_> = append.entries.iter().map(|entry| entry.id).collect();
            let shards = self.clone();
            let sent = tokio::spawn(async move { shards.append(to, append).await }).await;
            let sent = sent.unwrap_or_else(|_| Err(QueueError::ended()));
            failed = failed.or_else(|| sent.as_ref().err().cloned());
            for (index, number) in numbers.into_iter().enumerate() {
                let result = match &sent {
                    Ok(placed) => Ok(match placed[index] {
                        Placed::At(_) => Sent::New(ids[index]),
                        Placed::Duplicate(other) => Sent::Duplicate(other),
                    }),
                    Err(error) => Err(error.clone()),
                };
                results.push((number, result));
            }
        }
        results
    }

    /// Divides the valid messages into as few appends as possible, by destination. Sets the results of the
    /// invalid messages.
    fn appends(
        &self,
        messages: &[NewMessage],
        results: &mut [Option<Result<Sent>>],
    ) -> BTreeMap<Destination, Vec<Append>> {
        let context = self.context();
        let sent = context.environment.now_micros();
        let options = self.options();
        let committed_bytes = committed_bytes(&context.store.limits());
        let most_bytes = committed_bytes.min(MAX_APPEND_BYTES);
        let mut appends: BTreeMap<Destination, Vec<Append>> = BTreeMap::new();
        for (number, message) in messages.iter().enumerate() {
            if let Err(error) = message.check(number, &options, committed_bytes) {
                results[number] = Some(Err(error));
                continue;
            }
            let mut entry = entry(context, message, sent, &options);
            let (to, reach) = (self.destination(&entry, &options), reach(&entry));
            let here = appends.entry(to).or_default();
            let last = here.iter().rposition(|append| append.reach == reach);
            let last = last.filter(|last| here[*last].takes(message, most_bytes));
            let last = last.unwrap_or_else(|| {
                here.push(Append::new(reach));
                here.len() - 1
            });
            let append = &mut here[last];
            entry.index = u16::try_from(append.entries.len()).unwrap_or(u16::MAX);
            append.numbers.push(number);
            append.entries.push(entry);
            append.bodies.push(Body::of(message));
            append.bytes += message.stored_bytes();
        }
        appends
    }

    /// Returns the shards to which a message may be sent. In an ordered queue, all messages of a
    /// group go to the same shard. In other queues, messages with the same deduplication id go to
    /// the same shard. So do messages without an id that have the same group.
    fn destination(&self, entry: &Entry, options: &ShardOptions) -> Destination {
        let name = if options.is_ordered {
            entry.group
        } else {
            entry.deduplication.or(entry.group)
        };
        // With one shard, every destination is `Any`, so messages with and without a name share
        // appends, in the order in which they are sent.
        let name = name.filter(|_| self.count() > 1);
        name.map_or(Destination::Any, |name| {
            Destination::Only(self.shard_of_name(name))
        })
    }

    /// Appends messages to the shard `to`, or to any shard that is not full. Returns the outcome of
    /// each message.
    async fn append(&self, to: Destination, append: Append) -> Result<Vec<Placed>> {
        let (entries, bodies) = (append.entries.into(), append.bodies.into());
        let first = match to {
            Destination::Only(shard) => {
                return self.all()[shard].append(append.reach, &entries, &bodies).await;
            }
            Destination::Any => self.shard_to_send(),
        };
        let (before, behind) = self.all().split_at(first);
        let mut sent = Err(QueueError::ended());
        for shard in behind.iter().chain(before) {
            sent = shard.append(append.reach, &entries, &bodies).await;
            match &sent {
                Ok(_) => break,
                // Count a failed append, so that the next messages go to another shard.
                Err(_) => shard.conflicts.appends.add(1),
            }
            let is_full = |error: &QueueError| error.kind() == QueueErrorKind::Full;
            if !sent.as_ref().is_err_and(is_full) {
                break;
            }
        }
        sent
    }
}

impl Append {
    fn new(reach: Reach) -> Self {
        Self {
            reach,
            numbers: Vec::new(),
            entries: Vec::new(),
            bodies: Vec::new(),
            bytes: 0,
        }
    }

    /// Returns whether the append can take one more message within its limits.
    fn takes(&self, message: &NewMessage, most_bytes: u64) -> bool {
        self.entries.len() < MAX_BATCH && self.bytes + message.stored_bytes() <= most_bytes
    }
}

/// Creates the log entry of a message: its id, size, times, group and deduplication id.
fn entry(context: &QueueContext, message: &NewMessage, sent: Micros, options: &ShardOptions) -> Entry {
    let delay = micros(message.delay.unwrap_or(options.delay));
    Entry {
        id: MessageId(context.random()),
        index: 0,
        size: u32::try_from(message.bytes()).unwrap_or(u32::MAX),
        sent,
        // 0 means that the message is due at once, regardless of any clock.
        not_before: if delay == 0 { 0 } else { sent.saturating_add(delay) },
        group: message.group.as_deref().map(fingerprint),
        deduplication: message.deduplication_id.as_deref().map(|id| {
            let group = message.group.as_deref();
            let group = group.filter(|_| options.deduplicates_by_group);
            group.map_or_else(|| fingerprint(id), |group| fingerprint_in(group, id))
        }),
        origin: None,
        received: None,
        arrived: None,
    }
}

impl Shard {
    /// Appends messages to the open segment of the shard. Returns for each message its position, or
    /// that it is a duplicate.
    async fn append(
        &self,
        reach: Reach,
        entries: &Arc<[Entry]>,
        bodies: &Arc<[Body]>,
    ) -> Result<Vec<Placed>> {
        let until = self.context.deadline(self.context.request_timeout);
        let load = ChunkBodies {
            is_deduplicated: entries.iter().any(|entry| entry.deduplication.is_some()),
            bodies: Arc::clone(bodies),
        };
        let (count, protocol) = (entries.len(), self.context.protocol);
        let chunk = Chunk(self.context.random());
        let entries = Arc::clone(entries);
        let (address, tenure) = (self.address, self.tenure);
        let mut sending = Sending::new(address, tenure, reach, chunk, entries, protocol);
        if let Some(table) = self.own_table().await? {
            sending = sending.in_table(table);
        }
        let mut event = self.first_event(reach);
        loop {
            match sending.step(event) {
                SendAction::Shard(_, action) => {
                    let left = self.context.time_left(until);
                    event = SendEvent::Shard(self.execute_append(action, &load, left).await?);
                }
                SendAction::Response(response) => return self.sent(response, count),
            }
        }
    }

    /// Returns the event that starts the protocol of sending. It contains the open segment if the
    /// cached head (shard manifest) has one.
    fn first_event(&self, reach: Reach) -> SendEvent {
        let open = self
            .head
            .with_cached(|head| head.and_then(|head| head.open(reach, self.tenure)));
        let opened = |(segment, live)| SendEvent::Shard(ShardEvent::Head(HeadResponse::Open(segment, live)));
        open.map_or(SendEvent::Begin, opened)
    }

    fn sent(&self, response: SendResponse, count: usize) -> Result<Vec<Placed>> {
        match response {
            SendResponse::Sent(_, placed) => {
                let is_new = |placed: &&Placed| matches!(placed, Placed::At(_));
                self.queue.counters.sent.add(placed.iter().filter(is_new).count());
                self.notify_receivers();
                for _ in 1..count.min(MAX_WOKEN) {
                    self.wake_receiver();
                }
                Ok(placed)
            }
            SendResponse::Full => Err(QueueError::new(
                QueueErrorKind::Full,
                "the queue is full: nothing was sent",
            )
            .with_hint("receive and acknowledge messages, or purge the queue, and send again")),
            SendResponse::NoQueue => Err(QueueError::deleted()),
            SendResponse::TooLarge => Err(QueueError::new(
                QueueErrorKind::InvalidArgument,
                "the messages are larger than a segment: nothing was sent",
            )),
            SendResponse::Unknown => Err(QueueError::new(
                QueueErrorKind::OutcomeUnknown,
                "the messages may have been sent",
            )
            .with_hint(
                "send the messages again with the same deduplication ids, which cannot send them twice",
            )),
            SendResponse::Damaged => Err(QueueError::new(
                QueueErrorKind::Corrupt,
                "the tables of the queue are from different points in time: nothing was sent",
            )
            .with_hint(RESTORE_ALL)),
        }
    }
}

/// Returns the error of messages that were not sent in an ordered queue because an earlier message failed.
fn not_sent_behind(error: &QueueError) -> QueueError {
    let kind = match error.kind() {
        // The kinds `OutcomeUnknown`, `InvalidArgument` and `Store` describe the failed messages.
        // The messages after them were not sent at all, so their error has another kind.
        QueueErrorKind::OutcomeUnknown | QueueErrorKind::InvalidArgument | QueueErrorKind::Store => {
            QueueErrorKind::Unavailable
        }
        kind => kind,
    };
    let message = "the message was not sent, because the queue is ordered and earlier messages were not sent \
                   or may not have been";
    QueueError::new(kind, message)
        .with_hint("send the earlier messages again first, then this one")
        .with_source(error.clone())
}

/// Returns the hash that represents the name of a group or a deduplication id in the log.
fn fingerprint(name: &str) -> Fingerprint {
    let mut bytes = [0; 16];
    blake3::Hasher::new()
        .update(name.as_bytes())
        .finalize_xof()
        .fill(&mut bytes);
    Fingerprint(u128::from_be_bytes(bytes))
}

/// Returns the hash of a deduplication id that applies only within a group.
fn fingerprint_in(group: &str, id: &str) -> Fingerprint {
    let length = group.len();
    // Without the length, different pairs would have the same text, for example `ab` with `c` and
    // `a` with `bc`.
    fingerprint(&format!("{length}:{group}{id}"))
}
