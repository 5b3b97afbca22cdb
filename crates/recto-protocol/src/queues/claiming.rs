//! Selection of the messages that a receiver gets from a segment (batch of consecutive messages of
//! a shard).
//!
//! A message is *new* until it is received for the first time. It has *failed* if a receiver gave
//! it back, or if its claim has ended. A claim takes new and failed messages alternately. So while
//! new messages exist, half of the claimed messages are new, however many messages fail. The
//! receiver says which kind comes first, so claims of a single message alternate, too. New messages
//! are taken by position. Failed messages are taken by the time when they became due, so that no
//! message is received again before all other due messages.

use std::cmp::Reverse;
use std::collections::{BTreeSet, BinaryHeap};

use crate::queues::claims::{State, StateContext};
use crate::queues::log::{Entry, Received};
use crate::queues::names::{Micros, Seq};
use crate::queues::order::Order;
use crate::queues::rules::Rule;

/// Failed messages (given back, or with an ended claim). The message that was due first is at the
/// top.
type Failed = BinaryHeap<Reverse<(Micros, Seq)>>;

impl State {
    /// Returns the positions of the messages that a claim of at most `most` messages takes,
    /// ascending. Each comes with its receives in earlier segments, if any. There are fewer if the
    /// segment reaches its limit of pending messages, or the claim its limit of bytes. `surplus` is
    /// the number of failed messages minus the number of new messages that the receiver already
    /// has. If it is negative, a failed message comes first.
    pub(crate) fn claimable(
        &self,
        most: u16,
        surplus: i16,
        context: &StateContext<'_>,
    ) -> Vec<(Seq, Option<Received>)> {
        if context.log.segment != context.segment || context.order.is_some_and(Order::is_blind) {
            return Vec::new();
        }
        let mut taken = match context.order {
            None => {
                let new = self.new_messages(context);
                self.take(most, surplus, new, || self.failed_messages(context), context)
            }
            Some(order) => {
                let (new, failed) = self.in_turn(order, most, context);
                self.take(most, surplus, new.into_iter(), || failed, context)
            }
        };
        taken.sort_unstable_by_key(|(seq, _)| *seq);
        taken
    }

    /// Returns whether a claim would take a message that was never received before.
    pub fn has_new(&self, context: &StateContext<'_>) -> bool {
        if self.segment < context.segment {
            return Self::empty(context.segment, self.version).has_new(context);
        }
        let is_known = self.segment == context.segment && context.log.segment == context.segment;
        is_known
            && self.pending.len() < context.protocol.pending
            && match context.order {
                None => self.new_messages(context).next().is_some(),
                Some(order) => !order.is_blind() && !self.in_turn(order, 1, context).0.is_empty(),
            }
    }

    /// Takes new and failed messages in turn, and inspects no more new messages than it takes.
    fn take<'a>(
        &self,
        most: u16,
        surplus: i16,
        mut new: impl Iterator<Item = (Seq, &'a Entry)>,
        failed: impl FnOnce() -> Failed,
        context: &StateContext<'a>,
    ) -> Vec<(Seq, Option<Received>)> {
        let rules = context.protocol.rules;
        let mut room = context.protocol.pending.saturating_sub(self.pending.len());
        let mut find_failed = Some(failed);
        let mut failed = Failed::new();
        let (mut taken, mut bytes) = (Vec::new(), 0);
        let mut surplus = i32::from(surplus);
        while taken.len() < usize::from(most) {
            let mut next_new = || if room == 0 { None } else { new.next() };
            let mut next_failed = || {
                if let Some(find) = find_failed.take() {
                    failed = find();
                }
                self.next_failed(room, &mut failed, context)
            };
            let next = if surplus >= 0 && rules.keeps(Rule::NewWithFailed) {
                next_new()
                    .map(|new| (new, -1))
                    .or_else(|| Some((next_failed()?, 1)))
            } else {
                next_failed()
                    .map(|failed| (failed, 1))
                    .or_else(|| Some((next_new()?, -1)))
            };
            let Some(((seq, entry), change)) = next else {
                break;
            };
            bytes += u64::from(entry.size);
            if bytes > context.protocol.claimed_bytes && !taken.is_empty() {
                break;
            }
            surplus += change;
            room -= usize::from(!self.pending.contains_key(&seq));
            taken.push((seq, entry.received));
        }
        taken
    }

    /// Returns the next failed message that can be received. A failed message that segment merging
    /// moved here is not pending in this segment yet. It is returned only if `room`, the free
    /// number of pending messages, is not 0.
    fn next_failed<'a>(
        &self,
        room: usize,
        failed: &mut Failed,
        context: &StateContext<'a>,
    ) -> Option<(Seq, &'a Entry)> {
        loop {
            let Reverse((_, seq)) = failed.pop()?;
            let (_, entry) = context.log.message(seq)?;
            let has_room = room > 0 || self.pending.contains_key(&seq);
            if has_room && self.is_receivable(seq, entry, context) {
                return Some((seq, entry));
            }
        }
    }

    /// Returns the new (never received) messages of an unordered queue, by position.
    fn new_messages<'a>(
        &'a self,
        context: &'a StateContext<'_>,
    ) -> impl Iterator<Item = (Seq, &'a Entry)> + 'a {
        let log = context.log;
        let untouched = self.resolved.missing(log.next());
        let untouched = untouched.filter(move |seq| !self.pending.contains_key(seq));
        let untouched = untouched.filter_map(move |seq| Some((seq, log.message(seq)?.1)));
        untouched
            .filter(move |(seq, entry)| entry.received.is_none() && self.is_receivable(*seq, entry, context))
    }

    /// Returns the failed messages (given back, or with an ended claim) of an unordered queue.
    fn failed_messages(&self, context: &StateContext<'_>) -> Failed {
        let here = self.pending.iter().map(|(seq, pending)| (pending.until, *seq));
        let here = here.filter(|(_, seq)| self.is_free(*seq, context));
        let moved_on = context
            .log
            .moved_on()
            .map(|(seq, received)| (received.until, seq));
        let moved_on =
            moved_on.filter(|(_, seq)| !self.resolved.has(*seq) && !self.pending.contains_key(seq));
        here.chain(moved_on)
            .map(|failed| Self::by_due(failed, context))
            .collect()
    }

    /// Returns the messages of an ordered queue that do not have to wait for earlier messages of
    /// their group: at most `most` new messages, by position, and the failed messages.
    fn in_turn<'a>(
        &'a self,
        order: &Order,
        most: u16,
        context: &StateContext<'a>,
    ) -> (Vec<(Seq, &'a Entry)>, Failed) {
        let (mut new, mut failed, mut open_groups) = (Vec::new(), Failed::new(), BTreeSet::new());
        let moved_on = context.log.moved_on().map(|(seq, _)| seq).last();
        let last_failed = self.pending.last_key_value().map(|(seq, _)| *seq).max(moved_on);
        for (seq, entry) in self.unresolved(context.segment, context.log) {
            if new.len() >= usize::from(most) && Some(seq) > last_failed {
                break;
            }
            let is_in_turn = entry
                .group
                .is_none_or(|group| open_groups.insert(group) && !order.blocks(group));
            if !is_in_turn || !self.is_receivable(seq, entry, context) {
                continue;
            }
            let received = self.pending.get(&seq).map(|pending| pending.until);
            match received.or(entry.received.map(|received| received.until)) {
                Some(due) => failed.push(Self::by_due((due, seq), context)),
                None if new.len() < usize::from(most) => new.push((seq, entry)),
                None => {}
            }
        }
        (new, failed)
    }

    fn by_due(failed: (Micros, Seq), context: &StateContext<'_>) -> Reverse<(Micros, Seq)> {
        let (due, seq) = failed;
        let is_kept = context.protocol.rules.keeps(Rule::FailedByDue);
        Reverse((if is_kept { due } else { 0 }, seq))
    }

    /// Returns whether a message may be received now, regardless of its group. An expired message
    /// still blocks its group until it is resolved, because it may not have expired on another
    /// clock.
    fn is_receivable(&self, seq: Seq, entry: &Entry, context: &StateContext<'_>) -> bool {
        self.is_free(seq, context) && entry.free_from() <= context.clock.wall && !context.is_expired(entry)
    }

    /// Returns whether no receiver has the message, it is not being moved, and it may be received
    /// once more.
    fn is_free(&self, seq: Seq, context: &StateContext<'_>) -> bool {
        let pending = self.pending.get(&seq);
        pending.is_none_or(|pending| pending.stays(context) && pending.is_over(seq, context))
    }
}
