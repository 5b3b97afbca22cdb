//! State machine that reserves unique values for a record (takes a claim), on a store without
//! transactions. The caller reports each event, and the machine returns the next step.
//! `docs/design/unique.md` gives the reasons.
//!
//! ```text
//!           ┌──────── nobody's, or one's own ◄──┐
//!           ▼                                   │
//!  begin ► conditional write of the claim ─► another's ► look at that record ─┬─ has the values ► taken
//!           ▲            │                                                    │
//!           │            └─ applied ► held                                    └─ has not ► fence it ─┬─ has them now ► taken
//!           └────────────────────────────────────────────────────────────────────────────────────────┘
//! ```
//!
//! A claim may belong to another record that no longer has the values. The writer first replaces
//! the token in that record's row, so that no earlier write of the record can still be applied.
//! Then the writer takes the claim, on condition that the claim still has the same token. No token
//! is stored twice: otherwise the other record could release the claim and take it again with the
//! same token, and the condition would not notice. So the writer uses another token after an
//! unknown outcome.

use crate::views::row::Token;
use crate::views::rules::{Rule, Rules};

/// Claim: a reservation of unique values for one record. Each time a record takes the values, even
/// the same record, it uses a new token.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Claim<K> {
    /// Key of the record that owns the values.
    pub owner: K,
    /// Random id of the conditional write that took the values.
    pub token: Token,
}

impl<K: PartialEq> Claim<K> {
    /// Returns whether a release of the claim `own` deletes this stored claim. A late release must
    /// not delete a newer claim of the same values.
    pub fn is_released_by(&self, own: &Self) -> bool {
        self.is_released_by_rules(own, Rules::default())
    }

    pub(crate) fn is_released_by_rules(&self, own: &Self, rules: Rules) -> bool {
        self.token == own.token || !rules.keeps(Rule::ReleasedByToken) && self.owner == own.owner
    }
}

/// Outcome of the conditional write of a claim (reservation of unique values).
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum ClaimDecision<K> {
    /// The conditional write is applied, so the unique values are reserved.
    Applied,
    /// The write is not applied, because this other claim (reservation of the values) is stored;
    /// `None`: no claim is stored.
    NotApplied(Option<Claim<K>>),
    /// The outcome is unknown: the write may be applied, now or later.
    Unknown,
}

/// Next step of taking a claim (reserving unique values), which the caller executes.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum TakingStep<K> {
    /// Put the own claim (reservation of the values) on condition that this claim is stored;
    /// `None`: that no claim is stored.
    Send(Option<Claim<K>>),
    /// Read the base row of the record with this key at quorum, and report whether the record has
    /// the unique values.
    Look(K),
    /// Replace the token of the record with this key, so that no earlier write of the record can be
    /// applied. Report whether the record had the unique values.
    Fence(K),
    /// The claim (reserved unique values) is taken. The record may now be written with the values.
    Held,
    /// The values are not available, because the record with this key has them.
    Taken(K),
    /// Start over: read the row of the own record again, and reserve the values with another token.
    /// It is unknown whether the first reservation was stored.
    Anew,
}

/// State machine that takes one claim (reserves one combination of unique values).
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Taking<K> {
    own: Claim<K>,
    /// Stored claim (reserved unique values) that the last conditional write found; `None`: none
    /// was found.
    there: Option<Claim<K>>,
    /// True if a conditional write of the own claim (reservation) was sent and its outcome is
    /// unknown.
    in_doubt: bool,
    rules: Rules,
}

impl<K: Clone + PartialEq> Taking<K> {
    /// Starts to reserve unique values by the claim `own`, whose token no other attempt uses. The
    /// first step puts the claim if no claim is stored.
    pub fn begin(own: Claim<K>) -> (Self, TakingStep<K>) {
        Self::begin_by(own, Rules::default())
    }

    pub(crate) fn begin_by(own: Claim<K>, rules: Rules) -> (Self, TakingStep<K>) {
        let taking = Self {
            own,
            there: None,
            in_doubt: false,
            rules,
        };
        (taking, TakingStep::Send(None))
    }

    /// Returns the claim (reserved unique values) that this machine puts.
    pub fn own(&self) -> &Claim<K> {
        &self.own
    }

    /// Handles the outcome of the conditional write of the own claim (reserved unique values).
    pub fn decided(&mut self, decision: ClaimDecision<K>) -> TakingStep<K> {
        match decision {
            ClaimDecision::Applied => TakingStep::Held,
            // Send the same write again, until its outcome is known.
            ClaimDecision::Unknown => {
                self.in_doubt = true;
                self.send()
            }
            ClaimDecision::NotApplied(there) => {
                self.there = there;
                match &self.there {
                    // The stored claim has the token of this write, so an earlier sending of the
                    // write was applied.
                    Some(there) if there.token == self.own.token => TakingStep::Held,
                    _ if self.in_doubt && self.rules.keeps(Rule::ClaimTokenOnce) => TakingStep::Anew,
                    Some(there) if there.owner == self.own.owner && !self.rules.keeps(Rule::TakenAnew) => {
                        TakingStep::Held
                    }
                    Some(there) if there.owner != self.own.owner => TakingStep::Look(there.owner.clone()),
                    _ => self.send(),
                }
            }
        }
    }

    /// Handles the read of the record that owns the stored claim (reservation of the values).
    /// `has_values` says whether the record has the values.
    pub fn looked(&mut self, has_values: bool) -> TakingStep<K> {
        match &self.there {
            Some(there) if has_values => TakingStep::Taken(there.owner.clone()),
            Some(there) if self.rules.keeps(Rule::HolderFenced) => TakingStep::Fence(there.owner.clone()),
            _ => self.send(),
        }
    }

    /// Handles the replacement of the token in the record that owns the stored claim. Earlier
    /// writes of that record can no longer be applied. `had_values` says whether the record had the
    /// values.
    pub fn fenced(&mut self, had_values: bool) -> TakingStep<K> {
        match &self.there {
            Some(there) if had_values => TakingStep::Taken(there.owner.clone()),
            _ => self.send(),
        }
    }

    fn send(&self) -> TakingStep<K> {
        TakingStep::Send(self.there.clone())
    }
}
