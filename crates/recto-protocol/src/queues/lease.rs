//! Leases: decides when the claim of a message has ended, so that another receiver may get the message.
//!
//! The process that gave a claim counts by its monotonic clock, from the time at which it *sent*
//! the claim. All other processes use the end time in the claim and add the maximum difference of
//! clocks.

use std::collections::{BTreeMap, BTreeSet};

use crate::queues::limits::LEASE_MARGIN_MICROS;
use crate::queues::names::{ClaimId, Micros, Segment, Seq};
use crate::queues::rules::{Rule, Rules};

/// Clocks of a process.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Clock {
    /// Wall clock: time since 1970.
    pub wall: Micros,
    /// Monotonic clock, which is never set and counts while the machine is suspended.
    pub monotonic: Micros,
}

/// Claim of one message: the segment of the message, its position there, and the identifier of the claim.
pub type Claim = (Segment, Seq, ClaimId);

/// Claims that a process gave, until they have ended for all processes.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub struct Leases {
    ends: BTreeMap<Claim, Micros>,
    /// The entries of `ends`, sorted by end.
    by_end: BTreeSet<(Micros, Claim)>,
    rules: Rules,
}

impl Leases {
    /// Returns the number of known claims.
    #[cfg(test)]
    pub(crate) fn known(&self) -> usize {
        self.ends.len().max(self.by_end.len())
    }

    #[cfg(test)]
    pub(crate) fn new(rules: Rules) -> Self {
        Self {
            ends: BTreeMap::new(),
            by_end: BTreeSet::new(),
            rules,
        }
    }

    /// Records that a claim is given or extended for `visibility`. `sent` is the clock before the command was
    /// sent for the first time. `heard` is the clock when the response arrived.
    pub fn given(&mut self, claim: Claim, visibility: Micros, sent: Clock, heard: Clock) {
        let from = if self.rules.keeps(Rule::LeaseFromSending) {
            sent
        } else {
            heard
        };
        let end = from.monotonic.saturating_add(visibility);
        self.forget(claim);
        self.ends.insert(claim, end);
        self.by_end.insert((end, claim));
        self.prune(heard);
    }

    /// Forgets claims that ended so long ago that they have ended for all other processes, too.
    fn prune(&mut self, clock: Clock) {
        while let Some((end, claim)) = self.by_end.first().copied() {
            if end.saturating_add(LEASE_MARGIN_MICROS) > clock.monotonic {
                return;
            }
            self.forget(claim);
        }
    }

    /// Returns whether a worker may get the message of a claim now, because the claim has not ended.
    pub fn holds(&self, claim: Claim, clock: Clock) -> bool {
        let end = self.ends.get(&claim);
        end.is_some_and(|end| clock.monotonic < *end) || !self.rules.keeps(Rule::HandedOutInLease)
    }

    /// Returns whether another claim may take the message, because this claim has ended. `until` is the
    /// recorded end of this claim.
    pub fn is_over(&self, claim: Claim, until: Micros, clock: Clock) -> bool {
        if let Some(end) = self.ends.get(&claim) {
            return clock.monotonic >= *end;
        }
        let margin = if self.rules.keeps(Rule::MarginForClocks) {
            LEASE_MARGIN_MICROS
        } else {
            0
        };
        clock.wall >= until.saturating_add(margin)
    }

    /// Returns the remaining time of a claim that this process gave. `None`: another process gave it, or it
    /// was forgotten.
    pub fn left(&self, claim: Claim, clock: Clock) -> Option<Micros> {
        let end = self.ends.get(&claim)?;
        Some(end.saturating_sub(clock.monotonic).max(0))
    }

    /// Removes a claim that is no longer needed.
    pub fn forget(&mut self, claim: Claim) {
        if let Some(end) = self.ends.remove(&claim) {
            self.by_end.remove(&(end, claim));
        }
    }
}
