//! Leases: decide when the claim of a message has ended, so that another receiver may get the
//! message.
//!
//! The process that gave a claim measures it on its monotonic clock, from the time when it *sent*
//! the claim. All other processes compare the end time in the claim with their wall clock, and add
//! the maximum difference between clocks.

use std::collections::{BTreeMap, BTreeSet};

use crate::queues::limits::LEASE_MARGIN_MICROS;
use crate::queues::names::{ClaimId, Micros, Segment, Seq};
use crate::queues::rules::{Rule, Rules};

/// Readings of a process's two clocks at one time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Clock {
    /// Wall clock, in microseconds since 1970.
    pub wall: Micros,
    /// Monotonic clock in microseconds, which is never set, and counts while the machine is
    /// suspended.
    pub monotonic: Micros,
}

/// Claim by which a receiver has a message: the message's segment, its position in the segment, and
/// the random id of the claim.
pub type Claim = (Segment, Seq, ClaimId);

/// Claims that this process gave, until they have ended for all processes.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub struct Leases {
    ends: BTreeMap<Claim, Micros>,
    /// Entries of `ends`, sorted by end time.
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

    /// Records that a claim was given or extended for `visibility` microseconds. `sent` is the time
    /// before the command was first sent, and `heard` the time of the response.
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

    /// Forgets claims that have ended for all other processes, too.
    fn prune(&mut self, clock: Clock) {
        while let Some((end, claim)) = self.by_end.first().copied() {
            if end.saturating_add(LEASE_MARGIN_MICROS) > clock.monotonic {
                return;
            }
            self.forget(claim);
        }
    }

    /// Returns whether the claim has not ended, so that a worker may still get its message.
    pub fn holds(&self, claim: Claim, clock: Clock) -> bool {
        let end = self.ends.get(&claim);
        end.is_some_and(|end| clock.monotonic < *end) || !self.rules.keeps(Rule::HandedOutInLease)
    }

    /// Returns whether the claim has ended, so that another claim may take the message. `until` is
    /// the end time that was stored with the claim.
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

    /// Returns the remaining time of a claim in microseconds; `None` if another process gave the
    /// claim, or if it was forgotten.
    pub fn left(&self, claim: Claim, clock: Clock) -> Option<Micros> {
        let end = self.ends.get(&claim)?;
        Some(end.saturating_sub(clock.monotonic).max(0))
    }

    /// Removes a claim, for example because its message was acknowledged.
    pub fn forget(&mut self, claim: Claim) {
        if let Some(end) = self.ends.remove(&claim) {
            self.by_end.remove(&(end, claim));
        }
    }
}
