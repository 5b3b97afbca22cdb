//! Poll of a shard: it claims and reads the messages that can be received. If no message can be
//! received, it finds the time from which one can.

use std::sync::atomic::Ordering;
use std::sync::{Arc, PoisonError};
use std::time::Duration;

use recto_protocol::queues::limits::{MAX_BODY_BYTES, MAX_CLAIMED_BYTES};
use recto_protocol::queues::{
    ClaimId, Delivery, Entry, Live, Micros, Order, Receipt, Segment, StateCommand, StateResponse,
};
use tokio::runtime::Handle;

use crate::body_format::Content;
use crate::context::micros;
use crate::error::{QueueErrorKind, Result};
use crate::message::Message;
use crate::receipts::ReceiptOperation;
use crate::shard::empty_poll::PollStart;
use crate::shard::segment::LiveSegment;
use crate::shard::{MAX_CACHED_SEGMENTS, Shard};
use crate::shards::Shards;

/// Maximum wait of a receiver between two polls of a shard if nothing notifies it of messages.
const POLL_INTERVAL: Duration = Duration::from_secs(1);
/// Maximum wait of a receiver between two polls of a shard if the notifier reports messages of other
/// processes.
const NOTIFIED_POLL_INTERVAL: Duration = Duration::from_secs(60);
/// Time for which other waiting receivers rely on the poll of one receiver, if no message is known to become
/// due.
const POLL_TIME: Duration = Duration::from_millis(500);
/// Time after a complete poll of a shard in which receivers claim messages by cached data, in nanoseconds.
const CACHE_NANOS: u64 = 1_000_000_000;
/// Maximum random delay of a poll, which spreads the polls of receivers that wait for the same shard.
const POLL_SPREAD: Duration = Duration::from_secs(2);

/// Maximum number of live segments that a poll of an ordered queue reads: as many as a process
/// caches. A group of messages that is only in later segments waits until earlier messages are
/// resolved.
const MAX_ORDERED_SEGMENTS: usize = MAX_CACHED_SEGMENTS;

/// Parameters of a poll, which searches one shard for messages to receive.
#[derive(Clone, Copy)]
pub(crate) struct PollRequest<'q> {
    /// Queue that contains the polled shard.
    pub(crate) queue: &'q Shards,
    /// Number of messages that the receive still needs, at least 1.
    pub(crate) most: usize,
    /// Total number of messages that the receive requests.
    pub(crate) total: usize,
    /// Visibility timeout of the claimed messages, in microseconds.
    pub(crate) visibility: Micros,
    /// True to read the shard again if cached data shows no message, even if it was read less than
    /// `CACHE_NANOS` ago.
    pub(crate) is_urgent: bool,
}

/// Result of a poll of one shard.
#[derive(Default)]
pub(crate) struct PollResult {
    pub(crate) messages: Vec<Message>,
    /// Number of bytes of all messages of the receive, including those of its earlier polls.
    pub(crate) bytes: u64,
    /// True if the bodies of some claimed messages are lost. The shard may then have other messages
    /// behind the lost ones.
    pub(crate) is_lossy: bool,
    /// Number of messages of the receive that failed before, minus the number of messages that are received
    /// for the first time.
    failed_surplus: isize,
    /// Number of messages of the receive that were received before and given back or not
    /// acknowledged.
    failed: usize,
    /// Earliest time at which a message may be available, as far as this process knows.
    due: Option<Micros>,
}

impl PollResult {
    /// Creates the empty result for the next poll of a receive, with the counters of this earlier
    /// poll.
    pub(crate) fn next(&self) -> Self {
        Self {
            bytes: self.bytes,
            failed_surplus: self.failed_surplus,
            failed: self.failed,
            ..Self::default()
        }
    }

    /// Adds the result of a later poll of the receive.
    pub(crate) fn add(&mut self, next: Self) {
        self.messages.extend(next.messages);
        self.bytes = next.bytes;
        self.failed_surplus = next.failed_surplus;
        self.failed = next.failed;
        self.is_lossy |= next.is_lossy;
    }

    fn count(&mut self, deliveries: &[Delivery]) {
        let failed = deliveries.iter().filter(|delivery| delivery.attempts > 1).count();
        self.failed += failed;
        self.failed_surplus += failed.cast_signed() - (deliveries.len() - failed).cast_signed();
    }

    /// Returns whether more than half of the `total` messages of a receive failed before.
    pub(crate) fn has_failed_half(&self, total: usize) -> bool {
        self.failed_surplus > 0 && self.failed * 2 > total
    }

    /// Returns whether the next message may exceed the byte limit of a claim. If so, the poll ends,
    /// although the shard may have more messages.
    pub(crate) fn is_full(&self) -> bool {
        self.bytes + u64::from(MAX_BODY_BYTES) > MAX_CLAIMED_BYTES
    }

    /// Records that a message may become available at the time `due`.
    fn set_due(&mut self, due: Micros) {
        self.due = Some(self.due.map_or(due, |other| other.min(due)));
    }
}

impl PollRequest<'_> {
    /// Returns the number of messages that the poll may still claim (reserve for the receiver); 0
    /// at the byte limit.
    fn wanted(&self, result: &PollResult) -> usize {
        if result.is_full() {
            0
        } else {
            self.most - result.messages.len()
        }
    }
}

/// Outcome of the poll of one segment of a shard.
enum SegmentPoll {
    /// The messages of the segment were claimed, or it had no messages to claim.
    Done,
    /// The segment was skipped: it has only failed messages, and segments with new messages come first.
    Skipped,
}

impl Shard {
    /// Returns how long a receiver can skip polls of the shard, because a poll by this process found no
    /// message, and no notification came afterward. Unless a message is due at a known time, the result
    /// includes a random delay, so that waiting receivers do not poll all at once. `None`: a poll is needed.
    pub(crate) fn remaining_pause(&self) -> Option<Duration> {
        let (until, is_due) = self
            .empty_poll
            .until(self.empty_poll.start(&self.all_shards.notifier))?;
        let left = until.saturating_sub(self.context.environment.now_micros());
        // Ignore a time that has passed. Ignore a time that is too far away, too, because then the clock was
        // set back.
        let left = Some(left).filter(|left| (1..=micros(NOTIFIED_POLL_INTERVAL)).contains(left))?;
        let left = Duration::from_micros(left.unsigned_abs());
        // Unless a message is due at a known time, add a random delay. Then one of many waiting
        // receivers polls first, and the other receivers learn its result.
        let apart = if is_due {
            Duration::ZERO
        } else {
            self.random_duration(POLL_SPREAD)
        };
        Some(left + apart)
    }

    /// Returns how long a receiver waits after a poll that found no message.
    pub(crate) fn pause_after(&self, result: &PollResult, since: PollStart) -> Duration {
        let now = self.context.environment.now_micros();
        let longest = now.saturating_add(micros(NOTIFIED_POLL_INTERVAL));
        let due = result.due.filter(|due| *due < longest);
        let until = due.unwrap_or(longest);
        let is_notified = self.empty_poll.record(since, until, due.is_some());
        let due = u64::try_from(until.saturating_sub(now)).map_or(Duration::ZERO, Duration::from_micros);
        let most = if is_notified {
            NOTIFIED_POLL_INTERVAL
        } else {
            POLL_INTERVAL
        };
        due.clamp(Duration::from_millis(1), most)
    }

    /// Returns a random duration of at most `most`.
    fn random_duration(&self, most: Duration) -> Duration {
        let [drawn] = self.context.environment.random();
        most.mul_f64(f64::from(drawn) / 256.0)
    }

    /// Records that a receiver polls the shard now, so that other waiting receivers need not poll
    /// the shard.
    pub(crate) fn begin_poll(&self) -> PollStart {
        let since = self.empty_poll.start(&self.all_shards.notifier);
        let polled_by = self.context.environment.now_micros() + micros(POLL_TIME);
        self.empty_poll.extend(since, polled_by);
        since
    }

    /// Returns whether the whole shard was polled within the last `CACHE_NANOS`.
    fn was_polled_lately(&self) -> bool {
        let now_nanos = self.context.environment.monotonic_nanos();
        let polled_nanos = self.polled_nanos.load(Ordering::Relaxed);
        polled_nanos > 0 && now_nanos.saturating_sub(polled_nanos) < CACHE_NANOS
    }

    /// Polls the shard once. `before` is the result of earlier polls of the receive that needs
    /// messages.
    pub(crate) async fn poll(
        self: &Arc<Self>,
        request: PollRequest<'_>,
        before: &PollResult,
    ) -> Result<PollResult> {
        let result = self.poll_once(request, before).await?;
        if result.messages.len() == request.most || result.is_full() || result.has_failed_half(request.total)
        {
            // Wake another waiting receiver, because the shard may have more messages than this
            // poll returns.
            self.wake_receiver();
        }
        Ok(result)
    }

    async fn poll_once(
        self: &Arc<Self>,
        request: PollRequest<'_>,
        before: &PollResult,
    ) -> Result<PollResult> {
        // Every second poll begins at a segment with new messages, so that new messages need not wait for all
        // messages that fail again and again.
        let prefers_new = self.polls.fetch_add(1, Ordering::Relaxed) % 2 == 1;
        if self.is_shared() && self.was_polled_lately() && !self.queue.options.get().is_ordered {
            let result = self.poll_cached(request, prefers_new, before.next()).await?;
            if !result.messages.is_empty() || result.is_lossy || !request.is_urgent {
                return Ok(result);
            }
        }
        let now_nanos = self.context.environment.monotonic_nanos();
        let head = self.serving().await?;
        self.polled_nanos.store(now_nanos.max(1), Ordering::Relaxed);
        let mut result = before.next();
        // In an ordered queue, `order` collects the groups that have unresolved messages: their
        // messages in later segments must wait.
        let mut order = self.queue.options.get().is_ordered.then(Order::default);
        let most_segments = order.as_ref().map_or(usize::MAX, |_| MAX_ORDERED_SEGMENTS);
        let mut skipped = Vec::new();
        for (number, live) in head.live().iter().take(most_segments) {
            if request.wanted(&result) == 0 {
                return Ok(result);
            }
            let now = self.context.environment.now_micros();
            // Skip no segment of an ordered queue, because its groups block messages in later
            // segments.
            if order.is_none()
                && let Some(due) = self.idle_segments.not_due_until(*number, now)
            {
                result.set_due(due);
                continue;
            }
            if prefers_new || result.has_failed_half(request.total) {
                let is_without_new = order.is_none() && self.has_no_new_message(*number, *live);
                if is_without_new && prefers_new {
                    skipped.push((*number, *live));
                    continue;
                }
                if !is_without_new && !prefers_new {
                    // More than half of the received messages failed before, and the segment may
                    // have new messages. End the receive, because at least half of its messages
                    // must be new.
                    return Ok(result);
                }
            }
            let segment = self.segment(*number, *live);
            let polled = self
                .poll_segment(&mut result, &segment, *live, request, prefers_new, order.as_mut())
                .await;
            match polled {
                // Return the messages that were claimed before the error. The next poll reports the
                // error.
                Err(_) if !result.messages.is_empty() => return Ok(result),
                Ok(SegmentPoll::Skipped) => skipped.push((*number, *live)),
                Ok(SegmentPoll::Done) => {}
                Err(error) => return Err(error),
            }
        }
        for (number, live) in skipped {
            if request.wanted(&result) == 0 {
                break;
            }
            let segment = self.segment(number, live);
            match self
                .poll_segment(&mut result, &segment, live, request, false, None)
                .await
            {
                Err(_) if !result.messages.is_empty() => break,
                Err(error) => return Err(error),
                Ok(_) => {}
            }
        }
        Ok(result)
    }

    /// Returns whether cached data shows that a segment has no message that was never received. The data of
    /// an open segment proves this only if no other process can send to it.
    fn has_no_new_message(&self, number: Segment, live: Live) -> bool {
        let is_all_known = live.count.is_some() || !self.is_shared();
        let known = self.cached_segment(number).filter(|_| is_all_known);
        known.is_some_and(|segment| segment.is_known() && !segment.has_new())
    }

    /// Claims messages by cached data, although other processes may have changed the shard. If another
    /// process changed a segment, its claim is evaluated again on the new data. No read is needed as long as
    /// the cached segments have messages.
    async fn poll_cached(
        self: &Arc<Self>,
        request: PollRequest<'_>,
        prefers_new: bool,
        mut result: PollResult,
    ) -> Result<PollResult> {
        let Some(head) = self.head.with_cached(|head| Some(head?.clone())) else {
            return Ok(result);
        };
        if !head.serves(self.tenure) || self.queue.is_deleted.load(Ordering::Acquire) {
            return Ok(result);
        }
        // Older segments come first, so stop at the first segment without cached data, because it
        // would have to be read.
        let known = head.live().iter();
        let known = known.map_while(|(number, live)| Some((self.cached_segment(*number)?, *live)));
        let (with_new, others): (Vec<_>, Vec<_>) =
            known.partition(|(segment, _)| !prefers_new || segment.has_new());
        for (segment, live) in with_new.into_iter().chain(others) {
            let is_too_late = result.has_failed_half(request.total) && !prefers_new && segment.has_new();
            if request.wanted(&result) == 0 || is_too_late {
                break;
            }
            let now = self.context.environment.now_micros();
            if segment.due().is_some_and(|due| due <= now) {
                match self
                    .claim(&mut result, &segment, live, request, prefers_new)
                    .await
                {
                    Err(_) if !result.messages.is_empty() => break,
                    claimed => claimed?,
                }
            }
        }
        Ok(result)
    }

    async fn poll_segment(
        self: &Arc<Self>,
        result: &mut PollResult,
        segment: &Arc<LiveSegment>,
        live: Live,
        request: PollRequest<'_>,
        prefers_new: bool,
        order: Option<&mut Order>,
    ) -> Result<SegmentPoll> {
        self.load(segment).await?;
        self.start_dead_lettering(segment, live);
        self.expire_polled(segment, live).await?;
        if segment.is_done() {
            let (shard, segment) = (Arc::clone(self), Arc::clone(segment));
            tokio::spawn(async move { shard.release_if_done(&segment).await });
            return Ok(SegmentPoll::Done);
        }
        let is_in_turn = order.is_none_or(|order| {
            let open = segment.open_groups();
            let is_in_turn = open.as_ref().is_some_and(|open| !order.blocks_all(open));
            if let Some(open) = open.as_ref().filter(|_| is_in_turn) {
                segment.set_order(order.within(open));
            }
            order.passes(open.as_deref(), self.context.protocol);
            is_in_turn
        });
        match segment.due().filter(|_| is_in_turn) {
            Some(due) if due <= self.context.environment.now_micros() => {
                if prefers_new && !segment.has_new() {
                    return Ok(SegmentPoll::Skipped);
                }
                let before = result.messages.len();
                self.claim(result, segment, live, request, prefers_new).await?;
                if result.messages.len() == before {
                    // The messages of the segment must wait for others, or another receiver was faster. The
                    // time of the next message is unknown, so poll again after `POLL_INTERVAL`.
                    result.set_due(self.context.environment.now_micros() + micros(POLL_INTERVAL));
                }
            }
            Some(due) => {
                result.set_due(due);
                if !self.is_shared() {
                    segment.record_not_due();
                }
            }
            None => {}
        }
        Ok(SegmentPoll::Done)
    }

    async fn claim(
        self: &Arc<Self>,
        result: &mut PollResult,
        segment: &Arc<LiveSegment>,
        live: Live,
        request: PollRequest<'_>,
        prefers_new: bool,
    ) -> Result<()> {
        if !segment.may_claim() {
            return Ok(());
        }
        let room = request.queue.reserve_claim(request.wanted(result));
        let most = room.count();
        if most == 0 {
            // The queue has its maximum number of messages in flight. An ack wakes waiting receivers, but the
            // end of a visibility timeout does not, so poll again after `POLL_INTERVAL`.
            result.set_due(self.context.environment.now_micros() + micros(POLL_INTERVAL));
            return Ok(());
        }
        let claim = ClaimId(self.context.random());
        let (sent, visibility) = (self.context.clock(), request.visibility);
        let claims = StateCommand::Claim {
            claim,
            most: u16::try_from(most).unwrap_or(u16::MAX),
            until: sent.wall.saturating_add(visibility),
            failed_surplus: if request.total == 1 && !prefers_new {
                // A receive of one message cannot return half new messages, so every second one takes a
                // failed message first.
                -1
            } else {
                i16::try_from(result.failed_surplus.max(0)).unwrap_or(i16::MAX)
            },
        };
        let response = segment.claims.call(claims).await.inspect_err(|error| {
            if error.kind() == QueueErrorKind::OutcomeUnknown {
                self.resolve_claim(segment, claims);
            }
        })?;
        // The state now counts the claimed messages as in flight, so release the room that was
        // reserved for them.
        drop(room);
        let heard = self.context.clock();
        let StateResponse::Claimed(deliveries) = response else {
            return Ok(());
        };
        result.count(&deliveries);
        {
            let mut leases = self.leases.lock().unwrap_or_else(PoisonError::into_inner);
            for delivery in &deliveries {
                leases.given((segment.number, delivery.seq, claim), visibility, sent, heard);
            }
        }
        let read = self.add_messages(result, segment, live, &deliveries).await;
        read.inspect_err(|_| self.give_back(self.receipts(segment, &deliveries)))
    }

    /// Returns those receipts whose lease has ended, so that their messages must not be handed out: another
    /// receiver has them already, or will soon.
    pub(crate) fn ended_leases(&self, receipts: impl IntoIterator<Item = Receipt>) -> Vec<Receipt> {
        let leases = self.leases.lock().unwrap_or_else(PoisonError::into_inner);
        let now = self.context.clock();
        let holds = |receipt: &Receipt| leases.holds((receipt.segment, receipt.seq, receipt.claim), now);
        let ended_leases = receipts.into_iter().filter(|receipt| !holds(receipt));
        ended_leases.collect()
    }

    /// Resolves a claim (reservation of messages for a receiver) with an unknown outcome: repeats
    /// the claim, and then gives its messages back.
    fn resolve_claim(self: &Arc<Self>, segment: &Arc<LiveSegment>, command: StateCommand) {
        let (shard, segment) = (Arc::clone(self), Arc::clone(segment));
        tokio::spawn(async move {
            if let Ok(StateResponse::Claimed(deliveries)) = segment.claims.call(command).await {
                shard.give_back(shard.receipts(&segment, &deliveries));
            }
        });
    }

    fn receipts(&self, segment: &LiveSegment, deliveries: &[Delivery]) -> Vec<Receipt> {
        let receipt = |delivery: &Delivery| self.receipt(segment, delivery);
        deliveries.iter().map(receipt).collect()
    }

    fn receipt(&self, segment: &LiveSegment, delivery: &Delivery) -> Receipt {
        Receipt {
            address: self.address,
            tenure: self.tenure,
            segment: segment.number,
            seq: delivery.seq,
            claim: delivery.claim,
        }
    }

    /// Gives claimed messages back that reached no receiver. If that fails, a message is received again when
    /// its visibility timeout has ended.
    pub(crate) fn give_back(self: &Arc<Self>, receipts: Vec<Receipt>) {
        if receipts.is_empty() {
            return;
        }
        let shard = Arc::clone(self);
        if let Ok(runtime) = Handle::try_current() {
            runtime.spawn(async move { shard.apply(&receipts, ReceiptOperation::GiveBack).await.map(drop) });
        }
    }

    /// Reads the bodies of claimed messages, and adds the messages to the result. A message that a
    /// newer release wrote is left out, and is received again later. The call fails because of such
    /// a message only if no other message was read.
    async fn add_messages(
        self: &Arc<Self>,
        result: &mut PollResult,
        segment: &Arc<LiveSegment>,
        live: Live,
        deliveries: &[Delivery],
    ) -> Result<()> {
        let entry = |delivery: &Delivery| {
            segment.with_log(|log| log.message(delivery.seq).map(|(chunk, entry)| (chunk, *entry)))
        };
        let (known, entries): (Vec<_>, Vec<_>) = deliveries
            .iter()
            .filter_map(|one| Some((*one, entry(one)??)))
            .unzip();
        let contents = self.contents(segment.number, live, &entries).await?;
        let (mut found, mut lost, mut wrong) = (Vec::new(), Vec::new(), None);
        for ((delivery, (_, entry)), content) in known.into_iter().zip(entries).zip(contents) {
            match content {
                Ok(content) => {
                    let message = self.message(segment, delivery, &entry, content);
                    found.push((message, u64::from(entry.size)));
                }
                Err(unread) if unread.is_lost() => lost.push(delivery),
                Err(unread) => wrong = Some(unread.of(entry.id)),
            }
        }
        // A missing body is lost only if its segment is still live. A purge deletes bodies with
        // their segment, and so does the release of a segment whose messages are all resolved. `lose` leaves
        // out messages that were resolved meanwhile.
        let is_lossy = !lost.is_empty();
        if is_lossy && self.find(segment.number).await?.is_some() {
            self.resolve_lost(segment, live, lost);
        }
        result.is_lossy |= is_lossy;
        // Add the messages last: after an error above, the caller gives all claimed messages back.
        for (message, bytes) in found {
            result.bytes += bytes;
            result.messages.push(message);
        }
        match wrong {
            Some(error) if result.messages.is_empty() => Err(error),
            _ => Ok(()),
        }
    }

    fn message(&self, segment: &LiveSegment, delivery: Delivery, entry: &Entry, content: Content) -> Message {
        Message {
            id: entry.id,
            body: content.body,
            attributes: content.attributes,
            group: content.group,
            deduplication_id: content.deduplication_id,
            sent_at: entry.sent,
            first_received_at: delivery.first_received,
            attempts: delivery.attempts,
            receipt: self.receipt(segment, &delivery),
        }
    }
}
