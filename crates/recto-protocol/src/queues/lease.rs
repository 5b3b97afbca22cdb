//! When a claim is over.
//!
//! Its giver counts by the clock that nobody sets, from when the claim was *sent*. Everybody else goes by the time that the
//! claim names, and waits for as much longer as clocks may be apart.

use std::collections::{BTreeMap, BTreeSet};

use crate::queues::limits::LEASE_MARGIN_MICROS;
use crate::queues::names::{ClaimId, Micros, Segment, Seq};
use crate::queues::rules::{Rule, Rules};

/// What a process' clocks show.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Clock {
    /// Since 1970.
    pub wall: Micros,
    /// Never set, and counting while the machine is suspended.
    pub monotonic: Micros,
}

/// A claim of one message.
pub type Claim = (Segment, Seq, ClaimId);

/// The claims that a process gave, until they are over for everybody.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub struct Leases {
    ends: BTreeMap<Claim, Micros>,
    /// The same, the first to end first.
    by_end: BTreeSet<(Micros, Claim)>,
    rules: Rules,
}

impl Leases {
    /// How many claims it knows.
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

    /// A claim is given or extended for so long; `sent` is what the clock showed before that was sent first, `heard` what
    /// it showed when the answer came.
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

    /// Forgets what lapsed so long ago that it is over by the time that the claim names, too.
    fn prune(&mut self, clock: Clock) {
        while let Some((end, claim)) = self.by_end.first().copied() {
            if end.saturating_add(LEASE_MARGIN_MICROS) > clock.monotonic {
                return;
            }
            self.forget(claim);
        }
    }

    /// Whether a worker may be given the message now.
    pub fn holds(&self, claim: Claim, clock: Clock) -> bool {
        let end = self.ends.get(&claim);
        end.is_some_and(|end| clock.monotonic < *end) || !self.rules.keeps(Rule::HandedOutInLease)
    }

    /// Whether anybody may be given it anew, whose claim names this end.
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

    /// For how long a claim that was given here holds; none: it was not, or that was forgotten.
    pub fn left(&self, claim: Claim, clock: Clock) -> Option<Micros> {
        let end = self.ends.get(&claim)?;
        Some(end.saturating_sub(clock.monotonic).max(0))
    }

    /// A claim is done with.
    pub fn forget(&mut self, claim: Claim) {
        if let Some(end) = self.ends.remove(&claim) {
            self.by_end.remove(&(end, claim));
        }
    }
}
