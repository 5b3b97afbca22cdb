//! One change of one record, or the resolving of one intent, as a machine: it is told what happened and says what to
//! do next.
//!
//! ```text
//!            ┌── lost, or of a newer schema ◄───────────────────┐
//!            ▼                                                  │
//!  Begin ► look (read ‖ intent) [► claims] ► conditional write ─┼─ applied ► entries, releases ► settled, answered
//!                                                   ▲     │     │
//!                                                   └─ unknown  └─ cannot be told, or out of time ► resolve
//! ```
//!
//! Unique values that the record is to have and has not are claimed on the way (`write/claiming.rs`).
//!
//! Where views are kept in buckets, entries may come to lie elsewhere after the row was read that they are of. Then the row
//! is read again: if it is as it was, they are written again, by what is known of the buckets since; if it is of a newer
//! version, that one is resolved.

mod claiming;

use std::collections::BTreeMap;

use crate::views::arranged::Arranged;
use crate::views::change::{
    After, Change, EntriesOf, FoundOf, Refusal, Request, RowOf, decide, entries_of_by, fenced_row,
    must_resolve_first, next_row_by,
};
use crate::views::row::{EntryKey, Found, Generation, Micros, Token, Tokens, Version};
use crate::views::rules::{Rule, Rules};
use crate::views::taking::{Claim, ClaimDecision, TakingStep};
use claiming::Claiming;

/// What a process knows at the moment of a step.
#[derive(Debug, Clone, Copy)]
pub struct Here<'a, A: Arranged> {
    /// The collection by the schema that the process has read last.
    pub schema: &'a A,
    /// The key of the record, as claims say it.
    pub owner: &'a A::Key,
    /// Its wall clock.
    pub now: Micros,
    /// A fresh token: another one at each step.
    pub token: Token,
    /// Whether the lease still holds of the registration in whose segment the intent is. A process that lost its
    /// registration drops all its writes, as if it had crashed, before it takes another: others resolve them.
    pub has_lease: bool,
}

/// What happened.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Event<R, K> {
    /// It can begin; or go on, after it was told to reload the schema.
    Begin,
    /// The base row was read.
    Read(Found<R, K>),
    /// The intent is stored.
    Noted,
    /// The read failed, or the intent is not known to be stored, and the process gives up. What resolves an intent
    /// waits to [begin](Self::Begin) again.
    Failed,
    /// The conditional write that puts this token ended. One that is waited for no longer changes nothing.
    Decided(Token, Decision),
    /// The conditional write of a claim that puts this token ended.
    Claimed(Token, ClaimDecision<K>),
    /// The record that has a claim which is to get this token was read: whether it has the values.
    HolderLooked(Token, bool),
    /// The token of that record was replaced: whether it had the values.
    HolderFenced(Token, bool),
    /// What the taking of this claim needed could not be done, and the process gives up.
    NotClaimed(Token),
    /// All entries are written.
    Written,
    /// Some are not: since the base row was read they came to lie in other buckets.
    Moved,
    /// Whoever waits for the answer waits no longer.
    Deadline,
}

impl<R, K> Event<R, K> {
    /// Whether it ends a step of the taking of the claim that gets this token.
    pub(super) fn answers_claim(&self, own: Token) -> bool {
        match self {
            Self::Claimed(token, _) | Self::HolderLooked(token, _) | Self::HolderFenced(token, _) => {
                *token == own
            }
            _ => false,
        }
    }
}

/// How a conditional write ended.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Decision {
    /// It is applied.
    Applied,
    /// It is not, and these are the tokens that are there.
    NotApplied(Option<Tokens>),
    /// It may be, now or later.
    Unknown,
    /// It was not sent, or is over a limit: this one is not applied, nor will be. One that was sent before may.
    NotSent,
}

/// What is to be done.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Action<A: Arranged> {
    /// Read the base row at quorum; beside it, if `note`, store an intent. From the second attempt on, after a pause.
    Look {
        /// Whether an intent is to be stored.
        note: bool,
        /// Counted from 1.
        attempt: u32,
    },
    /// Read the catalog, then [`Begin`](Event::Begin).
    Reload,
    /// Send the conditional write, if what it asks of the views is within the store's limits; it must be written when this
    /// one is applied.
    Cas(Conditional<A>),
    /// Do what the taking of these values says, and tell what became of it.
    Claim {
        /// The values.
        key: EntryKey<A::Key>,
        /// The claim that is put.
        own: Claim<A::Key>,
        /// What is to be done.
        step: TakingStep<A::Key>,
        /// Until when the claim lives; none: for ever.
        until: Option<Micros>,
    },
    /// Release claims that were taken and are not needed, each by its token, when this process has a lease. No caller waits for
    /// it. If the registration is lost first, the next one [releases](Write::releasing) them.
    Release(Vec<(EntryKey<A::Key>, Token)>),
    /// Write these entries until all are written. One of a view that is not in the catalog any more, whose table is gone,
    /// counts as written. Where a view is in buckets, entries are put by what was known of these before the base row was
    /// read; removals go wherever deletions go now. Release the claims that it says.
    Write(EntriesOf<A>),
    /// Set `recto_done` to the version, stamped with it; nobody waits for it.
    MarkDone(Version),
    /// Tell whoever waits. Said once.
    Answer(Answer),
    /// The intent is done with, and the machine is at its end.
    Settled,
}

/// A conditional write of a base row: all its columns but `recto_done`, if the tokens are as expected.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Conditional<A: Arranged> {
    /// `None`: null. Never whether the row exists: a late mark makes one that has no tokens.
    pub expected: Option<Tokens>,
    /// What to put.
    pub row: RowOf<A>,
    /// What the row asks of the views, by the schema that it is written by.
    pub entries: EntriesOf<A>,
}

/// What became of a change.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Answer {
    /// It is applied, and every view shows it.
    Done(Version),
    /// It is applied; views will show it.
    Pending(Version),
    /// Nothing is written.
    Refused(Refusal),
    /// Nothing is written: the process could not, in time.
    NotWritten(NotWritten),
    /// It may be applied, or not; it will be decided.
    Unknown,
}

/// Why a process wrote nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum NotWritten {
    /// It was out of time.
    Deadline,
    /// Its lease had run out.
    NoLease,
    /// The store could not be read, or the intent not be stored.
    Failed,
}

/// A change of a record under way, or the resolving of an intent.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Write<A: Arranged> {
    /// The change; none: to resolve whatever became of an earlier one.
    request: Option<Request<A::Record, A::Patch>>,
    /// Whether somebody waits for an answer.
    is_awaited: bool,
    noted: bool,
    attempt: u32,
    /// The version whose entries it has written itself, before it changes the record: the mark may come late.
    resolved: Option<Version>,
    /// The version of the change, once it is applied.
    applied: Option<Version>,
    /// What was applied, and whose entries came to lie elsewhere before all were written.
    moved: Option<Conditional<A>>,
    /// What it claimed and has not by its row, each by its token.
    claimed: BTreeMap<EntryKey<A::Key>, Token>,
    /// Whether a record that has expired is ended.
    ends_expired: bool,
    state: State<A>,
    rules: Rules,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
enum State<A: Arranged> {
    /// Not begun, or waiting for the schema.
    Waiting,
    Looking {
        generation: Generation,
        found: Option<FoundOf<A>>,
    },
    Claiming(Claiming<A>),
    Deciding {
        conditional: Conditional<A>,
        /// Whether one was sent of whose outcome nothing is known.
        in_doubt: bool,
        /// Whether it is the row of the change; else one that resolves what is there.
        is_change: bool,
    },
    Writing(Conditional<A>),
    Over,
}

type Actions<A> = Vec<Action<A>>;

impl<A: Arranged> Write<A> {
    /// A change. It needs a lease.
    pub fn change(request: Request<A::Record, A::Patch>) -> Self {
        Self::new(Some(request), Rules::default())
    }

    /// The resolving of an intent: what became of it is decided, and the views are as the base row says.
    /// The intent may be dropped when it is settled.
    pub fn resolve() -> Self {
        Self::new(None, Rules::default())
    }

    /// The fencing of a record whose claim is in the way: it is [resolved](Self::resolve), and deleted if it has expired, so
    /// that nobody holds it for living by another clock.
    pub fn fencing() -> Self {
        Self {
            ends_expired: true,
            ..Self::resolve()
        }
    }

    /// The release of claims that a change took before its process lost the registration, under the next one. The record
    /// is [resolved](Self::resolve) first, as another change of the record may have relied on the claims.
    pub fn releasing(claims: impl IntoIterator<Item = (EntryKey<A::Key>, Token)>) -> Self {
        Self {
            claimed: claims.into_iter().collect(),
            ..Self::resolve()
        }
    }

    pub(crate) fn new(request: Option<Request<A::Record, A::Patch>>, rules: Rules) -> Self {
        Self {
            is_awaited: request.is_some(),
            noted: request.is_none(),
            request,
            attempt: 0,
            resolved: None,
            applied: None,
            moved: None,
            claimed: BTreeMap::new(),
            ends_expired: false,
            state: State::Waiting,
            rules,
        }
    }

    /// Returns the claims that this machine took and may still have to release. An intent does not name claims: processes
    /// that resolve it leave them.
    pub fn unreleased(&self, schema: &A) -> Vec<(EntryKey<A::Key>, Token)> {
        let row = match &self.state {
            State::Writing(conditional) => Some(&conditional.row),
            _ => None,
        };
        self.unneeded(row, schema)
    }

    /// Whether it is at its end.
    #[cfg(test)]
    pub(crate) fn is_over(&self) -> bool {
        self.state == State::Over
    }

    /// Whether it waits to [`Begin`](Event::Begin): at first, when it was told to reload the schema, and when resolving an
    /// intent failed.
    #[cfg(test)]
    pub(crate) fn is_waiting(&self) -> bool {
        self.state == State::Waiting
    }

    /// What to do now that this happened. An event that it does not wait for changes nothing.
    pub fn step(&mut self, event: Event<A::Record, A::Key>, here: &Here<'_, A>) -> Vec<Action<A>> {
        match (event, &mut self.state) {
            (Event::Begin, State::Waiting) => self.look(here),
            (Event::Read(read), State::Looking { found, .. }) => {
                *found = Some(read);
                self.act_if_ready(here)
            }
            (Event::Noted, _) => {
                self.noted = true;
                self.act_if_ready(here)
            }
            (Event::Failed, State::Waiting | State::Looking { .. }) => self.give_up(NotWritten::Failed, here),
            (Event::Read(read), State::Deciding { .. }) if !self.rules.keeps(Rule::ReadDecidesNothing) => {
                let tokens = read.row.map(|row| row.tokens);
                self.decided(Decision::NotApplied(tokens), here)
            }
            (Event::Decided(token, decision), State::Deciding { conditional, .. })
                if conditional.row.tokens.newest() == token =>
            {
                self.decided(decision, here)
            }
            (
                event @ (Event::Claimed(..) | Event::HolderLooked(..) | Event::HolderFenced(..)),
                State::Claiming(_),
            ) => self.go_on_claiming(event, here),
            (Event::NotClaimed(token), State::Claiming(claiming)) if claiming.token() == token => {
                self.give_up(NotWritten::Failed, here)
            }
            (Event::Written, State::Writing(_)) => self.written(here),
            (Event::Moved, State::Writing(_)) => self.moved(here),
            (Event::Deadline, _) => self.out_of_time(here),
            _ => Vec::new(),
        }
    }

    /// Whether the conditional write it waits for is the change's.
    #[cfg(test)]
    pub(crate) fn sends_change(&self) -> bool {
        matches!(self.state, State::Deciding { is_change: true, .. })
    }

    fn look(&mut self, here: &Here<'_, A>) -> Actions<A> {
        self.attempt += 1;
        self.state = State::Looking {
            generation: here.schema.generation(),
            found: None,
        };
        let note = !self.noted;
        vec![Action::Look {
            note,
            attempt: self.attempt,
        }]
    }

    /// Goes on when the base row is read and the intent stored.
    fn act_if_ready(&mut self, here: &Here<'_, A>) -> Actions<A> {
        let State::Looking { generation, found } = &mut self.state else {
            return Vec::new();
        };
        if !self.noted && self.rules.keeps(Rule::IntentFirst) {
            return Vec::new();
        }
        let Some(mut found) = found.take() else {
            return Vec::new();
        };
        if found.row.as_ref().map(|row| row.version) == self.resolved {
            found.done = found.done.max(self.resolved);
        }
        if *generation != here.schema.generation() {
            return self.look(here);
        }
        let newer = (found.row.as_ref()).is_some_and(|row| row.generation > here.schema.generation());
        if newer && self.rules.keeps(Rule::NewerRowReloads) {
            self.state = State::Waiting;
            return vec![Action::Reload];
        }
        if let Some(moved) = self.moved.take() {
            let is_as_it_was = (found.row.as_ref()).is_some_and(|row| row.version == moved.row.version);
            if is_as_it_was || !self.rules.keeps(Rule::NewerRowIsResolved) {
                return self.write_entries(moved, false, here);
            }
        }
        match self.request.clone() {
            None => self.resolve_found(found, here),
            Some(_) if !here.has_lease && self.rules.keeps(Rule::LeaseHolds) => {
                self.give_up(NotWritten::NoLease, here)
            }
            Some(_) if must_resolve_first(&found, here.schema) => self.fence(found, here),
            Some(request) => self.change_found(&request, found, here),
        }
    }

    fn change_found(
        &mut self,
        request: &Request<A::Record, A::Patch>,
        found: FoundOf<A>,
        here: &Here<'_, A>,
    ) -> Actions<A> {
        let after = match decide(request, found.row.as_ref(), here.schema, here.now) {
            Ok(after) => after,
            Err(refusal) => return self.refuse(refusal, here),
        };
        let row = match request.change {
            Change::Claim => {
                let mut row = fenced_row(&found, here.schema, here.token, here.now, self.rules);
                row.claims.held.clear();
                row
            }
            _ => next_row_by(&found, after, here.schema, here.token, here.now, self.rules),
        };
        if matches!(request.change, Change::Raise(_)) {
            // It claims no more than it did.
            return self.send(found, row, true, here);
        }
        self.claim(found, row, here)
    }

    fn resolve_found(&mut self, found: FoundOf<A>, here: &Here<'_, A>) -> Actions<A> {
        if found.row.is_none() && !self.rules.keeps(Rule::FenceAbsent) {
            self.state = State::Over;
            return vec![Action::Settled];
        }
        if let (Some(row), false) = (&found.row, self.rules.keeps(Rule::FenceReplacesToken)) {
            let conditional = Conditional {
                expected: None,
                entries: entries_of_by(row, here.schema, here.now, self.rules),
                row: row.clone(),
            };
            return self.write_entries(conditional, false, here);
        }
        let has_expired = |row: &RowOf<A>| row.record.is_some() && row.has_expired(here.now);
        if self.ends_expired && found.row.as_ref().is_some_and(has_expired) {
            let row = next_row_by(
                &found,
                After::DELETED,
                here.schema,
                here.token,
                here.now,
                self.rules,
            );
            return self.send(found, row, false, here);
        }
        self.fence(found, here)
    }

    fn fence(&mut self, found: FoundOf<A>, here: &Here<'_, A>) -> Actions<A> {
        let row = fenced_row(&found, here.schema, here.token, here.now, self.rules);
        self.send(found, row, false, here)
    }

    fn send(&mut self, found: FoundOf<A>, row: RowOf<A>, is_change: bool, here: &Here<'_, A>) -> Actions<A> {
        let conditional = Conditional {
            expected: found.row.map(|row| row.tokens),
            entries: entries_of_by(&row, here.schema, here.now, self.rules),
            row,
        };
        self.state = State::Deciding {
            conditional: conditional.clone(),
            in_doubt: false,
            is_change,
        };
        vec![Action::Cas(conditional)]
    }

    fn decided(&mut self, decision: Decision, here: &Here<'_, A>) -> Actions<A> {
        let State::Deciding {
            conditional,
            in_doubt,
            is_change,
        } = &mut self.state
        else {
            return Vec::new();
        };
        let fate = match decision {
            Decision::Applied => Fate::Applied,
            Decision::NotApplied(current) => {
                let own = conditional.row.tokens.newest();
                match fate(own, conditional.expected.as_ref(), current.as_ref()) {
                    // It was sent once, and that one was not applied: whatever was forgotten since.
                    Fate::Unknown if !*in_doubt => Fate::Refused,
                    fate => fate,
                }
            }
            Decision::NotSent if !*in_doubt || !self.rules.keeps(Rule::DoubtStays) => {
                return self.give_up(NotWritten::Failed, here);
            }
            Decision::Unknown | Decision::NotSent if !self.rules.keeps(Rule::ReadDecidesNothing) => {
                let attempt = self.attempt;
                return vec![Action::Look { note: false, attempt }];
            }
            Decision::Unknown | Decision::NotSent if self.rules.keeps(Rule::RepeatIdentical) => {
                *in_doubt = true;
                return vec![Action::Cas(conditional.clone())];
            }
            Decision::Unknown | Decision::NotSent => Fate::Refused,
        };
        let is_change = *is_change;
        match fate {
            Fate::Applied => {
                let conditional = conditional.clone();
                self.write_entries(conditional, is_change, here)
            }
            Fate::Unknown if is_change && self.rules.keeps(Rule::ForgottenIsUnknown) => self.doubt(here),
            Fate::Refused | Fate::Unknown => self.look(here),
        }
    }

    fn write_entries(
        &mut self,
        conditional: Conditional<A>,
        is_change: bool,
        here: &Here<'_, A>,
    ) -> Actions<A> {
        let (row, mut entries) = (&conditional.row, conditional.entries.clone());
        if !self.rules.keeps(Rule::EntriesByRowsSchema) {
            entries = entries_of_by(row, here.schema, here.now, self.rules);
        }
        if !is_change && !self.rules.keeps(Rule::EntriesAtVersion) {
            entries.version = Version::after(Some(row.version), here.now);
        }
        let version = row.version;
        if is_change {
            self.applied = Some(version);
            self.request = None;
        }
        self.state = State::Writing(conditional);
        let mut actions = vec![Action::Write(entries)];
        if !self.rules.keeps(Rule::DoneAfterEntries) {
            actions.push(Action::MarkDone(version));
        }
        if !self.rules.keeps(Rule::AcknowledgeAfterEntries) && is_change {
            actions.extend(self.answer(Answer::Done(version)));
        }
        if !self.rules.keeps(Rule::SettleAfterEntries) {
            actions.push(Action::Settled);
        }
        actions
    }

    fn written(&mut self, here: &Here<'_, A>) -> Actions<A> {
        let State::Writing(Conditional { row, .. }) = &self.state else {
            return Vec::new();
        };
        let version = row.version;
        let mut actions = vec![Action::MarkDone(version)];
        if self.request.is_some() {
            self.resolved = Some(version);
            actions.extend(self.look(here));
            return actions;
        }
        let unneeded = self.unneeded(Some(row), here.schema);
        let release = (!unneeded.is_empty()).then_some(Action::Release(unneeded));
        actions.extend(self.answer(Answer::Done(self.applied.unwrap_or(version))));
        self.state = State::Over;
        actions.extend(release);
        actions.push(Action::Settled);
        actions
    }

    /// The row is read again, so that what is put then is known to be newer than all that was removed there before it was
    /// known where it lies.
    fn moved(&mut self, here: &Here<'_, A>) -> Actions<A> {
        if !self.rules.keeps(Rule::MovedIsNotWritten) {
            return self.written(here);
        }
        let State::Writing(conditional) = std::mem::replace(&mut self.state, State::Waiting) else {
            return Vec::new();
        };
        if !self.rules.keeps(Rule::MovedReadsRow) {
            return self.write_entries(conditional, false, here);
        }
        self.moved = Some(conditional);
        self.look(here)
    }

    fn out_of_time(&mut self, here: &Here<'_, A>) -> Actions<A> {
        if let Some(version) = self.applied {
            return self.answer(Answer::Pending(version));
        }
        match &self.state {
            _ if !self.is_awaited => Vec::new(),
            State::Waiting | State::Looking { .. } => self.give_up(NotWritten::Deadline, here),
            State::Deciding { is_change: true, .. } => self.doubt(here),
            // The change itself was not sent. The request on its way resolves the row before it, or puts a claim. It is
            // waited for, because a claim that came after its release would stay.
            State::Claiming(_) | State::Deciding { .. } | State::Writing(_) => {
                self.request = None;
                self.answer(Answer::NotWritten(NotWritten::Deadline))
            }
            State::Over => Vec::new(),
        }
    }

    /// It cannot be told whether the change is applied: it is said so, and the process decides it by resolving its own
    /// intent.
    fn doubt(&mut self, here: &Here<'_, A>) -> Actions<A> {
        let mut actions = self.answer(Answer::Unknown);
        self.request = None;
        actions.extend(self.look(here));
        actions
    }

    fn give_up(&mut self, why: NotWritten, here: &Here<'_, A>) -> Actions<A> {
        if self.request.is_none() {
            // An intent is not settled by giving up: whoever resolves it begins anew.
            self.state = State::Waiting;
            return Vec::new();
        }
        self.end_unclaimed(Answer::NotWritten(why), here)
    }

    /// Ends a change that is not written. Another change of the record may have relied on the claims of this one: the record
    /// is fenced before they are released. The fence needs no lease; the releases wait for one.
    fn end_unclaimed(&mut self, answer: Answer, here: &Here<'_, A>) -> Actions<A> {
        if self.claimed.is_empty() {
            return self.end(answer);
        }
        let mut actions = self.answer(answer);
        self.request = None;
        actions.extend(self.look(here));
        actions
    }

    fn end(&mut self, answer: Answer) -> Actions<A> {
        self.state = State::Over;
        let mut actions = self.answer(answer);
        actions.push(Action::Settled);
        actions
    }

    fn answer(&mut self, answer: Answer) -> Actions<A> {
        if std::mem::take(&mut self.is_awaited) {
            vec![Action::Answer(answer)]
        } else {
            Vec::new()
        }
    }
}

/// What became of a conditional write of which the last one sent was not applied.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Fate {
    /// An earlier one was.
    Applied,
    /// None was, and none will be.
    Refused,
    /// Tokens were forgotten since.
    Unknown,
}

/// What became of a conditional write that puts `own` where `expected` is, now that `current` is there and it was not
/// applied when it was last sent. Tokens never recur, so one that is gone as the newest is gone for good.
pub fn fate(own: Token, expected: Option<&Tokens>, current: Option<&Tokens>) -> Fate {
    let Some(current) = current else {
        return Fate::Unknown;
    };
    if current.contains(own) {
        return Fate::Applied;
    }
    match expected {
        Some(expected) if current.contains(expected.newest()) => Fate::Refused,
        None if !current.is_full() => Fate::Refused,
        _ => Fate::Unknown,
    }
}
