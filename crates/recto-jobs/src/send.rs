//! Sending.

use recto_queue::{
    BodyTable, Chunk, Entry, Fingerprint, HeadAnswer, MessageId, Micros, Placed, Reach, SendAction,
    SendAnswer, SendEvent, Sending, ShardEvent, reach,
};

use crate::bodies::Body;
use crate::entering::Load;
use crate::error::{QueueError, QueueErrorKind, RESTORE_ALL, Result};
use crate::message::{MAX_BATCH, NewMessage, Sent};
use crate::options::ShardOptions;
use crate::place::committed_bytes;
use crate::settle::micros;
use crate::shard::{Inner, Shard};

/// Bytes that are sent by one append, with what is stored beside the messages; fewer, if the store takes no more in one commit.
const MAX_APPEND_BYTES: u64 = 4 << 20;
/// Messages that are sent wake at most so many who wait; those wake the next.
const MAX_WOKEN: usize = 64;

/// Messages that are sent together: all of them or none.
struct Append {
    reach: Reach,
    /// Where they stand among those that the caller sends.
    numbers: Vec<usize>,
    entries: Vec<Entry>,
    bodies: Vec<Body>,
    bytes: u64,
}

impl Shard {
    /// Sends messages, in this order; what became of each. Those that are not right are left out, and the others sent. A caller
    /// that goes away leaves nothing half done: they are sent, or not. In an ordered queue nothing is sent behind what the store
    /// did not take.
    ///
    /// # Errors
    /// Of each message: it is not right; the shard is full; the store cannot be reached; or it is not known whether it was sent,
    /// which sending it again under the same deduplication id settles.
    pub async fn send(&self, messages: Vec<NewMessage>) -> Vec<Result<Sent>> {
        let count = messages.len();
        let mut results: Vec<Option<Result<Sent>>> = vec![None; count];
        let appends = self.appends(&messages, &mut results);
        let is_ordered = self.options().is_ordered;
        let mut failed: Option<QueueError> = None;
        // One after the other: what is sent first is to be received first.
        for append in appends {
            let (numbers, shard) = (append.numbers.clone(), self.clone());
            if let Some(error) = failed.as_ref().filter(|_| is_ordered) {
                // No message of a group stands without those before it.
                for number in numbers {
                    results[number] = Some(Err(not_sent_behind(error)));
                }
                continue;
            }
            let ids: Vec<_> = append.entries.iter().map(|entry| entry.id).collect();
            let sent = tokio::spawn(async move { shard.0.append(append).await }).await;
            let sent = sent.unwrap_or_else(|_| Err(QueueError::ended()));
            failed = failed.or_else(|| sent.as_ref().err().cloned());
            for (index, number) in numbers.into_iter().enumerate() {
                results[number] = Some(match &sent {
                    Ok(placed) => Ok(match placed[index] {
                        Placed::At(_) => Sent::New(ids[index]),
                        Placed::Duplicate(other) => Sent::Duplicate(other),
                    }),
                    Err(error) => Err(error.clone()),
                });
            }
        }
        let none = || Err(QueueError::ended());
        results
            .into_iter()
            .map(|result| result.unwrap_or_else(none))
            .collect()
    }

    /// Those that are right, as few appends as may be; the others have their results.
    fn appends(&self, messages: &[NewMessage], results: &mut [Option<Result<Sent>>]) -> Vec<Append> {
        let sent = self.0.queues.environment.now_micros();
        let options = self.options();
        let committed_bytes = committed_bytes(&self.0.queues.store.limits());
        let most_bytes = committed_bytes.min(MAX_APPEND_BYTES);
        let mut appends: Vec<Append> = Vec::new();
        for (number, message) in messages.iter().enumerate() {
            if let Err(error) = message.check(number, &options, committed_bytes) {
                results[number] = Some(Err(error));
                continue;
            }
            let mut entry = self.0.entry(message, sent, &options);
            let reach = reach(&entry);
            let is_last = |append: &&Append| append.reach == reach;
            let has_room = appends
                .iter()
                .rev()
                .find(is_last)
                .is_some_and(|append| append.takes(message, most_bytes));
            if !has_room {
                appends.push(Append::new(reach));
            }
            let Some(append) = appends.iter_mut().rev().find(|append| append.reach == reach) else {
                continue;
            };
            entry.index = u16::try_from(append.entries.len()).unwrap_or(u16::MAX);
            append.numbers.push(number);
            append.entries.push(entry);
            append.bodies.push(Body::of(message));
            append.bytes += message.stored_bytes();
        }
        appends
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

    /// Whether it has room for one more.
    fn takes(&self, message: &NewMessage, most_bytes: u64) -> bool {
        self.entries.len() < MAX_BATCH && self.bytes + message.stored_bytes() <= most_bytes
    }
}

impl Inner {
    fn entry(&self, message: &NewMessage, sent: Micros, options: &ShardOptions) -> Entry {
        let delay = micros(message.delay.unwrap_or(options.delay));
        Entry {
            id: MessageId(self.queues.random()),
            index: 0,
            size: u32::try_from(message.bytes()).unwrap_or(u32::MAX),
            sent,
            // Without a delay no clock is asked.
            not_before: if delay == 0 { 0 } else { sent.saturating_add(delay) },
            group: message.group.as_deref().map(fingerprint),
            deduplication: message.deduplication_id.as_deref().map(|id| {
                let group = message.group.as_deref();
                let group = group.filter(|_| options.deduplicates_by_group);
                group.map_or_else(|| fingerprint(id), |group| fingerprint_in(group, id))
            }),
            origin: None,
        }
    }

    /// Appends to whatever segment is open; the place of each.
    async fn append(&self, append: Append) -> Result<Vec<Placed>> {
        let until = self.queues.deadline(self.queues.request_timeout);
        let load = Load {
            is_deduplicated: append.entries.iter().any(|entry| entry.deduplication.is_some()),
            bodies: append.bodies.into(),
        };
        let (count, protocol) = (append.entries.len(), self.queues.protocol);
        let chunk = Chunk(self.queues.random());
        let (reach, entries) = (append.reach, append.entries.into());
        let (address, tenure) = (self.address, self.tenure);
        let mut sending = Sending::new(address, tenure, reach, chunk, entries, protocol);
        if let Some(table) = self.own_table().await? {
            sending = sending.in_table(table);
        }
        let mut event = self.first_event(reach);
        loop {
            match sending.step(event) {
                SendAction::Shard(_, action) => {
                    let left = self.queues.left(until);
                    event = SendEvent::Shard(self.enter(action, &load, left).await?);
                }
                SendAction::Answer(answer) => return self.sent(answer, count),
            }
        }
    }

    /// The table that a work unit has to itself; none: it is no unit's, or there is no ring.
    pub(crate) async fn own_table(&self) -> Result<Option<BodyTable>> {
        let Some(unit) = self.unit.get().filter(|_| self.queues.has_ring()) else {
            return Ok(None);
        };
        if let Some(table) = self.queues.ring.unit(*unit) {
            return Ok(Some(table));
        }
        self.queues.read_ring().await?;
        let table = self.queues.ring.unit(*unit);
        table.map(Some).ok_or_else(|| {
            let message = "the work unit has no table of bodies: it has ended, or did not begin to the end";
            QueueError::new(QueueErrorKind::NotFound, message).with_hint("begin it again")
        })
    }

    /// What is open by what is known, if anything is.
    fn first_event(&self, reach: Reach) -> SendEvent {
        let open = self
            .head
            .with_copy(|head| head.and_then(|head| head.open(reach, self.tenure)));
        let opened = |(segment, live)| SendEvent::Shard(ShardEvent::Head(HeadAnswer::Open(segment, live)));
        open.map_or(SendEvent::Begin, opened)
    }

    fn sent(&self, answer: SendAnswer, count: usize) -> Result<Vec<Placed>> {
        match answer {
            SendAnswer::Sent(_, placed) => {
                let is_new = |placed: &&Placed| matches!(placed, Placed::At(_));
                self.counters.sent.add(placed.iter().filter(is_new).count());
                self.tells();
                for _ in 1..count.min(MAX_WOKEN) {
                    self.wakes();
                }
                Ok(placed)
            }
            SendAnswer::Full => Err(QueueError::new(
                QueueErrorKind::Full,
                "the queue holds as much as it may: nothing was sent",
            )
            .with_hint("receive and acknowledge messages, or purge the queue, and send again")),
            SendAnswer::NoQueue => Err(QueueError::deleted()),
            SendAnswer::TooLarge => Err(QueueError::new(
                QueueErrorKind::InvalidArgument,
                "the messages are larger than any segment: nothing was sent",
            )),
            SendAnswer::Unknown => Err(QueueError::new(
                QueueErrorKind::OutcomeUnknown,
                "it is not known whether the messages were sent",
            )
            .with_hint("send them again under the same deduplication ids: that settles it")),
            SendAnswer::Damaged => Err(QueueError::new(
                QueueErrorKind::Corrupt,
                "what is stored of the queue is not of one time: nothing was sent",
            )
            .with_hint(RESTORE_ALL)),
        }
    }
}

/// Of messages of an ordered queue that are behind others of which this became.
fn not_sent_behind(error: &QueueError) -> QueueError {
    let kind = match error.kind() {
        // What is said of those before says nothing of these: nothing was done.
        QueueErrorKind::OutcomeUnknown | QueueErrorKind::InvalidArgument | QueueErrorKind::Store => {
            QueueErrorKind::Unavailable
        }
        kind => kind,
    };
    let message =
        "messages before it were not sent, or may not be, and the queue is ordered: it was not sent";
    QueueError::new(kind, message)
        .with_hint("settle first what became of those before it, then send it again")
        .with_source(error.clone())
}

/// By which groups and deduplication ids are told apart.
fn fingerprint(name: &str) -> Fingerprint {
    let mut bytes = [0; 16];
    blake3::Hasher::new()
        .update(name.as_bytes())
        .finalize_xof()
        .fill(&mut bytes);
    Fingerprint(u128::from_be_bytes(bytes))
}

/// The same of a deduplication id in a group.
fn fingerprint_in(group: &str, id: &str) -> Fingerprint {
    let length = group.len();
    // No two pairs have one text.
    fingerprint(&format!("{length}:{group}{id}"))
}
