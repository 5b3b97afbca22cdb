//! Reservation of the unique values (claims) that a change needs, between the read of its row and
//! the conditional write. A [`Taking`] takes each claim, one after the other.

use super::{Action, Actions, Answer, Event, NotWritten, State, Write};
use crate::views::arranged::Arranged;
use crate::views::change::{FoundOf, Refusal, RowOf};
use crate::views::claimed::untaken;
use crate::views::row::{EntryKey, Token};
use crate::views::rules::Rule;
use crate::views::taking::{Claim, Taking, TakingStep};
use crate::views::write::StepContext;

/// Change whose unique values are being reserved.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct Claiming<A: Arranged> {
    found: FoundOf<A>,
    row: RowOf<A>,
    /// Claim (unique values) that is being taken. The claims in `left` follow.
    key: EntryKey<A::Key>,
    left: Vec<EntryKey<A::Key>>,
    taking: Taking<A::Key>,
}

impl<A: Arranged> Claiming<A> {
    /// Returns the token of the claim (reserved unique values) that is being taken.
    pub(super) fn token(&self) -> Token {
        self.taking.own().token
    }
}

impl<A: Arranged> Write<A> {
    /// Takes the claims (unique values) that the changed row needs and does not have, and then
    /// sends the row.
    pub(super) fn claim(
        &mut self,
        found: FoundOf<A>,
        mut row: RowOf<A>,
        here: &StepContext<'_, A>,
    ) -> Actions<A> {
        // Take the claims of an earlier attempt of this machine again: the stored claims no longer
        // have the token that the row lists.
        row.claims
            .held
            .retain(|number, _| !self.claimed.keys().any(|key| key.view == *number));
        let mut left = untaken(&row, here.schema);
        if !self.rules.keeps(Rule::ClaimBeforeRow) {
            let token = row.tokens.newest();
            row.claims
                .held
                .extend(left.drain(..).map(|key| (key.view, token)));
        }
        self.claim_next(found, row, left, here)
    }

    fn claim_next(
        &mut self,
        found: FoundOf<A>,
        row: RowOf<A>,
        mut left: Vec<EntryKey<A::Key>>,
        here: &StepContext<'_, A>,
    ) -> Actions<A> {
        if left.is_empty() {
            return self.send_claimed(found, row, here);
        }
        let key = left.remove(0);
        let own = Claim {
            owner: here.owner.clone(),
            token: row.tokens.newest(),
        };
        self.claimed.insert(key.clone(), own.token);
        let (taking, step) = Taking::begin_by(own, self.rules);
        let claiming = Claiming {
            found,
            row,
            key,
            left,
            taking,
        };
        self.act_on(claiming, step, here)
    }

    /// Handles the result of a step of taking the current claim (reserved unique values).
    pub(super) fn go_on_claiming(
        &mut self,
        event: Event<A::Record, A::Key>,
        here: &StepContext<'_, A>,
    ) -> Actions<A> {
        let state = std::mem::replace(&mut self.state, State::Waiting);
        let State::Claiming(mut claiming) = state else {
            self.state = state;
            return Vec::new();
        };
        let own = claiming.token();
        if self.request.is_none() && event.answers_claim(own) {
            // Without a request, the deadline of the change has passed. Read the row, to release
            // the claims that were taken.
            return self.look(here);
        }
        let step = match event {
            Event::Claimed(token, decision) if token == own => claiming.taking.decided(decision),
            Event::HolderLooked(token, has_values) if token == own => claiming.taking.looked(has_values),
            Event::HolderFenced(token, had_values) if token == own => claiming.taking.fenced(had_values),
            _ => {
                self.state = State::Claiming(claiming);
                return Vec::new();
            }
        };
        self.act_on(claiming, step, here)
    }

    fn act_on(
        &mut self,
        claiming: Claiming<A>,
        step: TakingStep<A::Key>,
        here: &StepContext<'_, A>,
    ) -> Actions<A> {
        match step {
            TakingStep::Held => {
                let Claiming { found, key, left, .. } = claiming;
                let mut row = claiming.row;
                row.claims.held.insert(key.view, row.tokens.newest());
                self.claim_next(found, row, left, here)
            }
            TakingStep::Anew => self.look(here),
            TakingStep::Taken(_) => {
                self.claimed.remove(&claiming.key);
                self.refuse(Refusal::Taken(claiming.key.view), here)
            }
            TakingStep::Send(_) | TakingStep::Look(_) | TakingStep::Fence(_) => {
                let action = Action::Claim {
                    key: claiming.key.clone(),
                    own: claiming.taking.own().clone(),
                    step,
                    until: claiming.row.entries_until(),
                };
                self.state = State::Claiming(claiming);
                vec![action]
            }
        }
    }

    /// Sends the row after its unique values are reserved. Checks the lease and the schema again,
    /// because the reservation may have taken long.
    fn send_claimed(&mut self, found: FoundOf<A>, row: RowOf<A>, here: &StepContext<'_, A>) -> Actions<A> {
        if row.generation != here.schema.generation() {
            return self.look(here);
        }
        if !here.has_lease && self.rules.keeps(Rule::LeaseHolds) {
            return self.give_up(NotWritten::NoLease, here);
        }
        self.send(found, row, true, here)
    }

    /// Rejects the change, and releases the claims (reserved unique values) that it took.
    pub(super) fn refuse(&mut self, refusal: Refusal, here: &StepContext<'_, A>) -> Actions<A> {
        self.end_unclaimed(Answer::Refused(refusal), here)
    }

    /// Returns the claims that this machine took and that `row` does not need, so that they can be
    /// released. The machine has put `row`, so no earlier change, which might rely on the claims,
    /// can still be applied. Without a row, returns all claims that the machine took.
    pub(super) fn unneeded(&self, row: Option<&RowOf<A>>, schema: &A) -> Vec<(EntryKey<A::Key>, Token)> {
        let record = row.and_then(|row| row.record.as_ref());
        let needed = record.map(|record| schema.claims(record)).unwrap_or_default();
        let unneeded = self.claimed.iter().filter(|(key, _)| !needed.contains(*key));
        unneeded.map(|(key, token)| (key.clone(), *token)).collect()
    }
}
