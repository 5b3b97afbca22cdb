//! State machine that takes unique values for a record, on a store without transactions. The caller
//! reports each event, and the machine returns the next step. `docs/design/unique.md` gives the
//! reasons.
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
//! A writer first fences the record that has a claim: it replaces the token of that record, so that no
//! earlier write of the record can be applied any more. The writer then takes the claim, on the condition
//! that the claim has the same token as before. No token is stored twice. Otherwise the fenced record could
//! lose the claim and take it again with the same token, and the condition would not detect that. After an
//! unknown outcome, the record uses another token.

use crate::views::row::Token;
use crate::views::rules::{Rule, Rules};

/// Claim: the record that has the values, and the token of the conditional write with which it took
/// them. Each time that the values are taken, the token is new, even if the same record takes them
/// again.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Claim<K> {
    /// Key of the record that has the values.
    pub owner: K,
    /// Random token of the conditional write that took the values.
    pub token: Token,
}

impl<K: PartialEq> Claim<K> {
    /// Returns whether a release of `own` removes this claim. A late release must not remove a
    /// claim that was taken since.
    pub fn is_released_by(&self, own: &Self) -> bool {
        self.is_released_by_rules(own, Rules::default())
    }

    pub(crate) fn is_released_by_rules(&self, own: &Self, rules: Rules) -> bool {
        self.token == own.token || !rules.keeps(Rule::ReleasedByToken) && self.owner == own.owner
    }
}

/// Outcome of the conditional write of a claim.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum ClaimDecision<K> {
    /// The conditional write of the claim is applied.
    Applied,
    /// The write is not applied, and this claim is stored; `None`: no claim is stored.
    NotApplied(Option<Claim<K>>),
    /// The write may be applied, now or later.
    Unknown,
}

/// Next step of taking a claim, which the caller executes.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum TakingStep<K> {
    /// Put the claim if this claim is stored; `None`: if no claim is stored.
    Send(Option<Claim<K>>),
    /// Read the base row of this record at quorum, and report whether the record has the values.
    Look(K),
    /// Replace the token of this record, as the resolution of an intent does, and report whether
    /// the record had the values at that time.
    Fence(K),
    /// The claim is taken: the values belong to the record once the conditional write of its row is applied.
    Held,
    /// The values are not available, because this record has them.
    Taken(K),
    /// Read the row again, and take the claim with another token. It is unknown whether the claim
    /// was stored before.
    Anew,
}

/// State machine that takes one claim.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Taking<K> {
    own: Claim<K>,
    /// Claim that the last attempt found stored.
    there: Option<Claim<K>>,
    /// True if a write was sent whose outcome is unknown.
    in_doubt: bool,
    rules: Rules,
}

impl<K: Clone + PartialEq> Taking<K> {
    /// Starts to take a claim for a record, with a token that no other attempt has. The first step
    /// puts the claim if no claim is stored.
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

    /// Returns the claim that the machine puts.
    pub fn own(&self) -> &Claim<K> {
        &self.own
    }

    /// Handles the outcome of the conditional write of the claim.
    pub fn decided(&mut self, decision: ClaimDecision<K>) -> TakingStep<K> {
        match decision {
            ClaimDecision::Applied => TakingStep::Held,
            // Repeat the same write until its outcome is known.
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

    /// Handles the read of the record that has the claim.
    pub fn looked(&mut self, has_values: bool) -> TakingStep<K> {
        match &self.there {
            Some(there) if has_values => TakingStep::Taken(there.owner.clone()),
            Some(there) if self.rules.keeps(Rule::HolderFenced) => TakingStep::Fence(there.owner.clone()),
            _ => self.send(),
        }
    }

    /// Handles the replacement of the token of the record that has the claim. No earlier write of
    /// that record can be applied any more.
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
