//! Computation of the time when a message of a segment can be received next. A receiver that finds
//! no message waits until then.

use crate::queues::claims::{Pending, Standing, State, StateContext};
use crate::queues::lease::Claim;
use crate::queues::limits::LEASE_MARGIN_MICROS;
use crate::queues::log::Entry;
use crate::queues::names::{Micros, Seq};

impl State {
    /// Returns the earliest time when a message can be received, by the wall clock of this process,
    /// as far as this process knows. `None`: no message can be received until one is sent, given
    /// back or resolved. At the returned time, a claim may still find no message, because the
    /// message may have been acknowledged meanwhile. If several messages can be received now, the
    /// function returns the due time of the first one by position.
    ///
    /// In an ordered queue, the time may be too early: earlier messages of the same group may block
    /// the message.
    pub fn due(&self, context: &StateContext<'_>) -> Option<Micros> {
        if context.log.segment() != context.segment {
            return None;
        }
        let is_mine = self.segment() == context.segment;
        let mut first: Option<Micros> = None;
        for (seq, entry) in self.unresolved(context.segment, context.log) {
            if context.is_expired(entry) {
                continue;
            }
            let pending = self.pending().get(&seq).filter(|_| is_mine);
            let due = pending.map_or(Some(entry.free_from()), |pending| {
                pending.due(seq, entry, context)
            });
            let Some(due) = due else { continue };
            if due <= context.clock.wall {
                return Some(due);
            }
            first = Some(first.map_or(due, |first| first.min(due)));
        }
        first
    }

    /// Returns the time until which a sealed segment needs no work, unless its state changes.
    /// Returns `None` if a message is claimed, is being moved, or was received the maximum number
    /// of times and must go to the dead-letter queue.
    pub fn waits_until(&self, context: &StateContext<'_>) -> Option<Micros> {
        let is_whole = context.log.segment() == context.segment && context.log.sealed().is_some();
        let is_mine = self.segment() == context.segment;
        let waits =
            |pending: &Pending| pending.standing == Standing::Waiting && !pending.is_last_attempt(context);
        if !is_whole || is_mine && !self.pending().values().all(waits) {
            return None;
        }
        self.due(context)
    }
}

impl Pending {
    /// Returns whether the message was received the maximum number of times, so that it must not be
    /// received again.
    fn is_last_attempt(&self, context: &StateContext<'_>) -> bool {
        context.most_attempts.is_some_and(|most| self.attempts >= most)
    }

    fn due(&self, seq: Seq, entry: &Entry, context: &StateContext<'_>) -> Option<Micros> {
        let ends = match self.standing {
            Standing::Leaving(_) => return None,
            _ if self.is_last_attempt(context) => return None,
            Standing::Waiting => self.until,
            Standing::Claimed => {
                let claim: Claim = (context.segment, seq, self.claim);
                let of_others = self.until.saturating_add(LEASE_MARGIN_MICROS);
                match context.leases.left(claim, context.clock) {
                    None => of_others,
                    Some(0) => entry.not_before,
                    Some(left) => context.clock.wall.saturating_add(left),
                }
            }
        };
        Some(ends.max(entry.not_before))
    }
}
