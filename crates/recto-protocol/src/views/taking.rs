//! Taking unique values for a record where the store has no transactions, as a machine: it is told what happened and says
//! what to do next. Why it is so stands in `docs/design/unique.md`.
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
//! Whoever takes a claim over goes by its token: one that was there, and is there again, would be taken over from a record that
//! was fenced too early. So no token is put twice.

use crate::views::row::Token;
use crate::views::rules::{Rule, Rules};

/// What a claim says: which record has the values, and the token of the conditional write by which it took them. Another
/// one each time that they are taken, be it by the same record.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Claim<K> {
    /// The key of the record.
    pub owner: K,
    /// Random.
    pub token: Token,
}

impl<K: PartialEq> Claim<K> {
    /// Whether what releases `own` removes this one: a late release removes nothing that was taken since.
    pub fn is_released_by(&self, own: &Self) -> bool {
        self.is_released_by_rules(own, Rules::default())
    }

    pub(crate) fn is_released_by_rules(&self, own: &Self, rules: Rules) -> bool {
        self.token == own.token || !rules.keeps(Rule::ReleasedByToken) && self.owner == own.owner
    }
}

/// How the conditional write of a claim ended.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum ClaimDecision<K> {
    /// It is applied.
    Applied,
    /// It is not, and this is there.
    NotApplied(Option<Claim<K>>),
    /// It may be, now or later.
    Unknown,
}

/// What is to be done next.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum TakingStep<K> {
    /// Put the claim if this one is there; none: if there is none.
    Send(Option<Claim<K>>),
    /// Read this record's base row at quorum: has it the values?
    Look(K),
    /// Replace this record's token, as who resolves an intent: had it the values then?
    Fence(K),
    /// The values are the record's own, if its conditional write is applied.
    Held,
    /// This record has them.
    Taken(K),
    /// It cannot be told whether the claim was there once. It is taken by another token, on a row that is read anew.
    Anew,
}

/// The taking of one claim.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Taking<K> {
    own: Claim<K>,
    /// What was there when it was looked at last.
    there: Option<Claim<K>>,
    /// Whether one was sent of whose outcome nothing is known.
    in_doubt: bool,
    rules: Rules,
}

impl<K: Clone + PartialEq> Taking<K> {
    /// By this record, with a token that no other attempt has. The first step is to put the claim where there is none.
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

    /// The claim as it will be.
    pub fn own(&self) -> &Claim<K> {
        &self.own
    }

    /// The conditional write ended.
    pub fn decided(&mut self, decision: ClaimDecision<K>) -> TakingStep<K> {
        match decision {
            ClaimDecision::Applied => TakingStep::Held,
            // The same again, until it is decided.
            ClaimDecision::Unknown => {
                self.in_doubt = true;
                self.send()
            }
            ClaimDecision::NotApplied(there) => {
                self.there = there;
                match &self.there {
                    // By an earlier sending.
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

    /// The record that has the claim was read.
    pub fn looked(&mut self, has_values: bool) -> TakingStep<K> {
        match &self.there {
            Some(there) if has_values => TakingStep::Taken(there.owner.clone()),
            Some(there) if self.rules.keeps(Rule::HolderFenced) => TakingStep::Fence(there.owner.clone()),
            _ => self.send(),
        }
    }

    /// The token of the record that has the claim was replaced: whatever it was about to write cannot come any more.
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
