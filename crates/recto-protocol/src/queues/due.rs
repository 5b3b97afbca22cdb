//! When a message of a segment may be received next: for how long whoever finds none may wait.

use crate::queues::lease::Claim;
use crate::queues::limits::LEASE_MARGIN_MICROS;
use crate::queues::log::Entry;
use crate::queues::names::{Micros, Seq};
use crate::queues::state::{Pending, Standing, State, StateContext};

impl State {
    /// When a message may be received, by the wall clock of this process, as far as that is known; none: not before something is
    /// sent, given back or done with. A claim that looks then may still find nothing: a message may have been acknowledged.
    /// Of those that may be received by now the first one is looked for, whichever was the first to be due.
    ///
    /// Groups are not looked at: of an ordered queue it may be earlier than a message is in its turn.
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

    /// Until when there is nothing to do with the messages of a sealed segment, unless its state is asked for something: those that
    /// are left were never received, or were given back. None: somebody has one, or one is on its way elsewhere, or is to be.
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
    /// Whether it was received as often as it may be.
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
