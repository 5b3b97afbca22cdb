//! State machine of one change of a record, or of the resolution of one intent. The caller reports each event, and the
//! machine returns the next actions.
//!
//! ```text
//!            ┌── lost, or of a newer schema ◄───────────────────┐
//!            ▼                                                  │
//!  Begin ► look (read ‖ intent) [► claims] ► conditional write ─┼─ applied ► entries, releases ► settled, answered
//!                                                   ▲     │     │
//!                                                   └─ unknown  └─ cannot be told, or out of time ► resolve
//! ```
//!
//! The unique values that the record needs and does not have are claimed before the conditional write
//! (`write/claiming.rs`).
//!
//! If views are kept in buckets, the entries of a row may come to belong to other buckets after the row was read. Then
//! the machine reads the row again. If the row has the same version, the machine writes the entries again, with the
//! newer range map. If the row has a newer version, the machine resolves that version.

mod claiming;

use std::collections::BTreeMap;

use crate::views::arranged::Arranged;
use crate::views::change::{
    Change, ChangedRecord, EntriesOf, FoundOf, Refusal, Request, RowOf, decide, entries_of_by, fenced_row,
    must_resolve_first, next_row_by,
};
use crate::views::row::{EntryKey, Found, Generation, Micros, Token, Tokens, Version};
use crate::views::rules::{Rule, Rules};
use crate::views::taking::{Claim, ClaimDecision, TakingStep};
use claiming::Claiming;

/// State of the process at the time of a step.
#[derive(Debug, Clone, Copy)]
pub struct StepContext<'a, A: Arranged> {
    /// Definition of the collection in the newest schema that the process has read.
    pub schema: &'a A,
    /// Key of the record, in the form in which claims of unique values store it.
    pub owner: &'a A::Key,
    /// Time of the wall clock.
    pub now: Micros,
    /// Fresh random token. Each step gets a new token.
    pub token: Token,
    /// True if the process still has the lease of the registration whose segment contains the
    /// intent. A process that lost its registration drops all its writes, as if it had crashed,
    /// before it registers again. Other processes resolve these writes.
    pub has_lease: bool,
}

/// Event of a [`Write`] that the caller reports.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Event<R, K> {
    /// The machine can begin, or can continue after [`Action::Reload`].
    Begin,
    /// The base row was read.
    Read(Found<R, K>),
    /// The intent is stored.
    Noted,
    /// The read failed, or it is not certain that the intent is stored. The machine of a change ends. The
    /// machine that resolves an intent waits to [begin](Self::Begin) again.
    Failed,
    /// The conditional write that puts this token ended. The machine ignores the event if it no longer waits for this
    /// write.
    Decided(Token, Decision),
    /// The conditional write of a claim that puts this token ended.
    Claimed(Token, ClaimDecision<K>),
    /// For the claim with this token: the record that has the stored claim was read. The flag says whether that record
    /// has the values.
    HolderLooked(Token, bool),
    /// For the claim with this token: the token of the record that has the stored claim was replaced. The flag says
    /// whether that record had the values.
    HolderFenced(Token, bool),
    /// A step of taking the claim with this token could not be done, and the process gives up.
    NotClaimed(Token),
    /// All entries of [`Action::Write`] are written.
    Written,
    /// Some entries are not written, because they came to belong to other buckets after the base row was
    /// read.
    Moved,
    /// The caller that waits for the answer stops waiting.
    Deadline,
}

impl<R, K> Event<R, K> {
    /// Returns whether the event ends a step of taking the claim with this token.
    pub(super) fn answers_claim(&self, own: Token) -> bool {
        match self {
            Self::Claimed(token, _) | Self::HolderLooked(token, _) | Self::HolderFenced(token, _) => {
                *token == own
            }
            _ => false,
        }
    }
}

/// Outcome of the conditional write of a base row.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Decision {
    /// The write is applied.
    Applied,
    /// The write is not applied, and these tokens are stored.
    NotApplied(Option<Tokens>),
    /// The write may be applied, now or later.
    Unknown,
    /// The write was not sent, or exceeds a limit. It is not applied, and will not be. An earlier sending of it may be
    /// applied.
    NotSent,
}

/// Action of a [`Write`] that the caller takes.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Action<A: Arranged> {
    /// Read the base row at quorum. If `note`, store an intent concurrently. From the second attempt on, pause first.
    Look {
        /// True if the machine stores an intent.
        note: bool,
        /// Number of the attempt, from 1.
        attempt: u32,
    },
    /// Read the catalog, then report [`Begin`](Event::Begin).
    Reload,
    /// Send the conditional write, unless the writes to views that it requires exceed a limit of the store.
    /// They must succeed after the conditional write is applied.
    Cas(Conditional<A>),
    /// Execute a step of claiming these unique values, and report its result.
    Claim {
        /// Unique values to claim.
        key: EntryKey<A::Key>,
        /// Claim to put.
        own: Claim<A::Key>,
        /// Step to execute.
        step: TakingStep<A::Key>,
        /// Time until which the claim lives; `None`: forever.
        until: Option<Micros>,
    },
    /// Release claims that were taken and are not needed, each by its token, when this process has a lease. No caller
    /// waits for the release. If the process loses its registration first, it [releases](Write::releasing) them under
    /// its next registration.
    Release(Vec<(EntryKey<A::Key>, Token)>),
    /// Write these entries, and repeat until all are written. An entry of a view that is no longer in the catalog, and
    /// whose table was dropped, counts as written. If a view is in buckets, put entries with the range map that was
    /// known before the base row was read. Send removals to the buckets to which deletions go now. Also release the
    /// listed claims.
    Write(EntriesOf<A>),
    /// Set `recto_done` to the version, with the version as write timestamp. No caller waits for this write.
    MarkDone(Version),
    /// Send the answer to the waiting caller. The machine returns this action at most once.
    Answer(Answer),
    /// The intent is settled, and the machine has ended.
    Settled,
}

/// Conditional write of a base row: it sets all columns except `recto_done`, if the tokens are as expected.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Conditional<A: Arranged> {
    /// Expected tokens; `None`: the column is null. The condition is never that the row does not exist,
    /// because a late mark `recto_done` creates a row without tokens.
    pub expected: Option<Tokens>,
    /// Row to put.
    pub row: RowOf<A>,
    /// Writes to views that the row requires, derived with the schema with which the row is written.
    pub entries: EntriesOf<A>,
}

/// Result of a change, for the caller that waits for it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Answer {
    /// The change is applied, and every view shows it.
    Done(Version),
    /// The change is applied. Views will show it later.
    Pending(Version),
    /// The change is rejected. Nothing is written.
    Refused(Refusal),
    /// Nothing is written, because the process could not write in time.
    NotWritten(NotWritten),
    /// The change may be applied, or not. Its outcome will be decided later.
    Unknown,
}

/// Reason why a process did not write a change.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum NotWritten {
    /// The deadline of the change passed.
    Deadline,
    /// The lease of the process had expired.
    NoLease,
    /// The store could not be read, or the intent could not be stored.
    Failed,
}

/// Change of a record that is under way, or resolution of an intent.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Write<A: Arranged> {
    /// The change; `None`: resolve the outcome of an earlier change.
    request: Option<Request<A::Record, A::Patch>>,
    /// True if a caller waits for an answer.
    is_awaited: bool,
    noted: bool,
    attempt: u32,
    /// Version whose entries this machine has written itself, before it changes the record. The machine
    /// remembers the version, because the mark `recto_done` of the version may arrive late.
    resolved: Option<Version>,
    /// Version of the change, after it is applied.
    applied: Option<Version>,
    /// Applied write whose entries came to belong to other buckets before all of them were written.
    moved: Option<Conditional<A>>,
    /// Claims that this machine took, each with its token.
    claimed: BTreeMap<EntryKey<A::Key>, Token>,
    /// True if the machine deletes a record that has expired.
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
        /// True if a write was sent whose outcome is unknown.
        in_doubt: bool,
        /// True if the conditional write applies the change. If false, it resolves the stored row.
        is_change: bool,
    },
    Writing(Conditional<A>),
    Over,
}

type Actions<A> = Vec<Action<A>>;

impl<A: Arranged> Write<A> {
    /// Returns the machine of a change. A change needs a lease.
    pub fn change(request: Request<A::Record, A::Patch>) -> Self {
        Self::new(Some(request), Rules::default())
    }

    /// Returns the machine that resolves an intent. It decides the outcome of the earlier change, and makes the views
    /// equal to the base row. The intent may be deleted when it is settled.
    pub fn resolve() -> Self {
        Self::new(None, Rules::default())
    }

    /// Returns the machine that fences a record whose claim conflicts with a change. It [resolves](Self::resolve) the
    /// record. If the record has expired, it deletes the record, so that no process considers it alive because of
    /// another clock.
    pub fn fencing() -> Self {
        Self {
            ends_expired: true,
            ..Self::resolve()
        }
    }

    /// Returns the machine that releases the claims of a change whose process lost its registration. It runs under the
    /// next registration. It first [resolves](Self::resolve) the record, because another change of the record may have
    /// relied on the claims.
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

    /// Returns the claims that this machine took and may still have to release. An intent does not name claims, so
    /// processes that resolve it do not release them.
    pub fn unreleased(&self, schema: &A) -> Vec<(EntryKey<A::Key>, Token)> {
        let row = match &self.state {
            State::Writing(conditional) => Some(&conditional.row),
            _ => None,
        };
        self.unneeded(row, schema)
    }

    /// Returns whether the machine has ended.
    #[cfg(test)]
    pub(crate) fn is_over(&self) -> bool {
        self.state == State::Over
    }

    /// Returns whether the machine waits to [`Begin`](Event::Begin): at first, after [`Action::Reload`], and after the
    /// resolution of an intent failed.
    #[cfg(test)]
    pub(crate) fn is_waiting(&self) -> bool {
        self.state == State::Waiting
    }

    /// Handles an event, and returns the next actions. An event for which the machine does not wait changes nothing.
    pub fn step(&mut self, event: Event<A::Record, A::Key>, here: &StepContext<'_, A>) -> Vec<Action<A>> {
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

    /// Returns whether the machine waits for the conditional write of the change.
    #[cfg(test)]
    pub(crate) fn sends_change(&self) -> bool {
        matches!(self.state, State::Deciding { is_change: true, .. })
    }

    fn look(&mut self, here: &StepContext<'_, A>) -> Actions<A> {
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

    /// Continues when the base row is read and the intent is stored.
    fn act_if_ready(&mut self, here: &StepContext<'_, A>) -> Actions<A> {
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
        here: &StepContext<'_, A>,
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
            // `Raise` leaves the unique values of the record as they are, so it takes no claims.
            return self.send(found, row, true, here);
        }
        self.claim(found, row, here)
    }

    fn resolve_found(&mut self, found: FoundOf<A>, here: &StepContext<'_, A>) -> Actions<A> {
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
                ChangedRecord::DELETED,
                here.schema,
                here.token,
                here.now,
                self.rules,
            );
            return self.send(found, row, false, here);
        }
        self.fence(found, here)
    }

    fn fence(&mut self, found: FoundOf<A>, here: &StepContext<'_, A>) -> Actions<A> {
        let row = fenced_row(&found, here.schema, here.token, here.now, self.rules);
        self.send(found, row, false, here)
    }

    fn send(
        &mut self,
        found: FoundOf<A>,
        row: RowOf<A>,
        is_change: bool,
        here: &StepContext<'_, A>,
    ) -> Actions<A> {
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

    fn decided(&mut self, decision: Decision, here: &StepContext<'_, A>) -> Actions<A> {
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
                    // Unless `in_doubt`, the write was sent only once, and that sending was not
                    // applied. So it is rejected, even if the stored row has forgotten old tokens.
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
        here: &StepContext<'_, A>,
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

    fn written(&mut self, here: &StepContext<'_, A>) -> Actions<A> {
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

    /// Reads the row again after entries came to belong to another bucket. The entries that are put after
    /// this read are newer than all removals that the other bucket received before the machine knew of that
    /// bucket.
    fn moved(&mut self, here: &StepContext<'_, A>) -> Actions<A> {
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

    fn out_of_time(&mut self, here: &StepContext<'_, A>) -> Actions<A> {
        if let Some(version) = self.applied {
            return self.answer(Answer::Pending(version));
        }
        match &self.state {
            _ if !self.is_awaited => Vec::new(),
            State::Waiting | State::Looking { .. } => self.give_up(NotWritten::Deadline, here),
            State::Deciding { is_change: true, .. } => self.doubt(here),
            // The change itself was not sent, so it is not written. The request in progress
            // resolves the previous row, or puts a claim. Wait for its result, because a claim that
            // arrived after its release would stay.
            State::Claiming(_) | State::Deciding { .. } | State::Writing(_) => {
                self.request = None;
                self.answer(Answer::NotWritten(NotWritten::Deadline))
            }
            State::Over => Vec::new(),
        }
    }

    /// Handles a change whose outcome is unknown: answers [`Answer::Unknown`], and decides the outcome by
    /// resolving the intent of the change.
    fn doubt(&mut self, here: &StepContext<'_, A>) -> Actions<A> {
        let mut actions = self.answer(Answer::Unknown);
        self.request = None;
        actions.extend(self.look(here));
        actions
    }

    fn give_up(&mut self, why: NotWritten, here: &StepContext<'_, A>) -> Actions<A> {
        if self.request.is_none() {
            // Giving up does not settle the intent, so wait for `Begin`, which starts its
            // resolution again.
            self.state = State::Waiting;
            return Vec::new();
        }
        self.end_unclaimed(Answer::NotWritten(why), here)
    }

    /// Ends a change that is not written. Another change of the record may have relied on the claims of this change, so
    /// the record is fenced before the claims are released. The fence needs no lease. The releases wait for a lease.
    fn end_unclaimed(&mut self, answer: Answer, here: &StepContext<'_, A>) -> Actions<A> {
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

/// Outcome of a conditional write that was sent several times and whose last sending was not applied.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Fate {
    /// An earlier sending was applied.
    Applied,
    /// No sending was applied, and none will be.
    Refused,
    /// The outcome is unknown, because the row has forgotten tokens since.
    Unknown,
}

/// Returns the outcome of a conditional write that puts `own` if `expected` is stored. Its last sending was not
/// applied, and `current` is stored now. Tokens never recur: a token that is no longer the newest never becomes the
/// newest again.
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
