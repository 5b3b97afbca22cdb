//! State machine of one change of a record, or of the resolution of one intent (pending change of
//! another process). The caller reports each event, and the machine returns the next actions.
//!
//! ```text
//!            ┌── lost, or of a newer schema ◄───────────────────┐
//!            ▼                                                  │
//!  Begin ► look (read ‖ intent) [► claims] ► conditional write ─┼─ applied ► entries, releases ► settled, answered
//!                                                   ▲     │     │
//!                                                   └─ unknown  └─ cannot be told, or out of time ► resolve
//! ```
//!
//! Before the conditional write, the machine reserves the unique values that the record needs and
//! does not have (`write/claiming.rs`).
//!
//! If views are kept in buckets (partitions of key ranges), a key may be moved to another bucket
//! after the machine read the row. Then the machine reads the row again. If the row has the same
//! version, the machine writes the entries again, to the new buckets. Otherwise it completes the
//! newer version.

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

/// Inputs that each step of a [`Write`] needs from the process.
#[derive(Debug, Clone, Copy)]
pub struct StepContext<'a, A: Arranged> {
    /// Collection and views, in the newest schema that the process has read.
    pub schema: &'a A,
    /// Key of the record, in the form in which reservations of unique values store it.
    pub owner: &'a A::Key,
    /// Current time of the wall clock, in microseconds since 1970.
    pub now: Micros,
    /// Fresh random token (id of a conditional write). Each step gets a new token.
    pub token: Token,
    /// True if the process still has the lease with which the intent was stored. A process that
    /// lost its registration drops all of its writes before it registers again, as if it had
    /// crashed. Other processes complete these writes.
    pub has_lease: bool,
}

/// Event that the caller reports to a [`Write`].
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Event<R, K> {
    /// The machine may start, or continue after [`Action::Reload`].
    Begin,
    /// The caller has read the base row (row in the base table).
    Read(Found<R, K>),
    /// The caller has stored the intent (note of the pending change).
    Noted,
    /// The read failed, or the intent may not be stored. A change ends. The resolution of an intent
    /// waits for [`Begin`](Self::Begin) to start over.
    Failed,
    /// The conditional write with this token (id) ended. The machine ignores the event if it no
    /// longer waits for the write.
    Decided(Token, Decision),
    /// The conditional write that reserves unique values with this token (id of a write) ended.
    Claimed(Token, ClaimDecision<K>),
    /// While reserving unique values with this token: the record that owns the values was read. The
    /// flag says whether it still has them.
    HolderLooked(Token, bool),
    /// While reserving unique values with this token: the token of the record that owns the values
    /// was replaced. The flag says whether it still had them.
    HolderFenced(Token, bool),
    /// A step of reserving unique values with this token (id of a write) failed, and the process
    /// gives up.
    NotClaimed(Token),
    /// The caller has written all view entries of [`Action::Write`].
    Written,
    /// Some view entries are not written, because their keys were moved to other buckets after the
    /// base row was read.
    Moved,
    /// The deadline of the change has passed, so no caller waits for an answer any more.
    Deadline,
}

impl<R, K> Event<R, K> {
    /// Returns whether the event ends a step of reserving unique values with this token (id of a
    /// write).
    pub(super) fn answers_claim(&self, own: Token) -> bool {
        match self {
            Self::Claimed(token, _) | Self::HolderLooked(token, _) | Self::HolderFenced(token, _) => {
                *token == own
            }
            _ => false,
        }
    }
}

/// Outcome of the conditional write of a base row (row in the base table).
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Decision {
    /// The write is applied.
    Applied,
    /// The write is not applied, because these tokens (ids of writes) are stored.
    NotApplied(Option<Tokens>),
    /// The outcome is unknown: the write may be applied, now or later.
    Unknown,
    /// The write was not sent this time, for example because it exceeds a limit. An earlier sending
    /// may still be applied.
    NotSent,
}

/// Action that the caller of a [`Write`] executes.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Action<A: Arranged> {
    /// Read the base row (row in the base table) at quorum. If `note`, concurrently store an intent
    /// (note of the pending change). Before each attempt after the first, pause.
    Look {
        /// True if the intent (pending change) is not stored yet.
        note: bool,
        /// Index of the attempt, from 1.
        attempt: u32,
    },
    /// Read the catalog of schemas, then report [`Begin`](Event::Begin).
    Reload,
    /// Send the conditional write of the base row, unless the view entries that it requires exceed
    /// a limit of the store. These entries could otherwise never be written after the conditional
    /// write is applied.
    Cas(Conditional<A>),
    /// Execute a step of reserving unique values, and report its result.
    Claim {
        /// Unique values to reserve.
        key: EntryKey<A::Key>,
        /// Claim (reservation of the values) to store.
        own: Claim<A::Key>,
        /// Step to execute, such as a conditional write.
        step: TakingStep<A::Key>,
        /// Time until which the reservation lives, in microseconds since 1970; `None`: forever.
        until: Option<Micros>,
    },
    /// Release reserved unique values that are not needed, each by its token, when this process has
    /// a lease. No caller waits for the release. If the process loses its registration first, it
    /// executes [`Write::releasing`] under its next registration.
    Release(Vec<(EntryKey<A::Key>, Token)>),
    /// Write these view entries, and repeat until all are written. Also release the listed unique
    /// values.
    ///
    /// If a view's table was dropped, its entries count as written. If a view is in buckets, send
    /// puts by the range map that was known before the base row was read, and deletions by the
    /// current one.
    Write(EntriesOf<A>),
    /// Set `recto_done` to the version, with the version as write timestamp. The mark says that all
    /// view entries of the version are written. No caller waits for the mark.
    MarkDone(Version),
    /// Answer the waiting caller. The machine returns this action at most once.
    Answer(Answer),
    /// The intent (pending change) is settled and may be deleted. The machine has ended.
    Settled,
}

/// Conditional write of a base row. It sets all columns except `recto_done`, if the stored tokens
/// are as expected.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Conditional<A: Arranged> {
    /// Tokens (ids of the last writes) that must be stored; `None`: the column must be null. The
    /// condition does not require that the row is absent, because a late mark `recto_done` creates
    /// a row without tokens.
    pub expected: Option<Tokens>,
    /// New base row (row in the base table).
    pub row: RowOf<A>,
    /// View entries that the row requires, computed with the schema with which the row is written.
    pub entries: EntriesOf<A>,
}

/// Result of a change, for the waiting caller.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Answer {
    /// The change is applied, and every view shows it. The value is the new version.
    Done(Version),
    /// The change is applied, but some views will show it later. The value is the new version.
    Pending(Version),
    /// The change is rejected, and nothing is written.
    Refused(Refusal),
    /// Nothing is written, because the process could not write in time.
    NotWritten(NotWritten),
    /// The outcome is unknown now: the change may be applied or not. The process will decide it
    /// later.
    Unknown,
}

/// Reason why a process wrote nothing of a change.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum NotWritten {
    /// The deadline of the change passed before the conditional write was sent.
    Deadline,
    /// The lease of the process had expired.
    NoLease,
    /// The store could not be read, or could not store the intent (pending change).
    Failed,
}

/// State machine of a change of one record, or of the resolution of an intent (pending change).
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Write<A: Arranged> {
    /// Requested change; `None`: resolve an earlier change, or this change after its outcome became
    /// unknown.
    request: Option<Request<A::Record, A::Patch>>,
    /// True if a caller waits for an answer, which was not sent yet.
    is_awaited: bool,
    noted: bool,
    attempt: u32,
    /// Version whose view entries this machine has written itself, before it changes the record.
    /// The mark `recto_done` of the version may not be visible yet.
    resolved: Option<Version>,
    /// Version of the change, once it is applied.
    applied: Option<Version>,
    /// Applied write whose view entries must be sent again, because their keys were moved to other
    /// buckets.
    moved: Option<Conditional<A>>,
    /// Unique values that this machine has reserved, each with its token (id of a write).
    claimed: BTreeMap<EntryKey<A::Key>, Token>,
    /// True if the machine deletes the record if it has expired.
    ends_expired: bool,
    state: State<A>,
    rules: Rules,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
enum State<A: Arranged> {
    /// Waiting for [`Event::Begin`].
    Waiting,
    Looking {
        generation: Generation,
        found: Option<FoundOf<A>>,
    },
    Claiming(Claiming<A>),
    Deciding {
        conditional: Conditional<A>,
        /// True if the conditional write was sent and its outcome is unknown.
        in_doubt: bool,
        /// True if the conditional write applies the change; false if it only replaces the token of
        /// the row.
        is_change: bool,
    },
    Writing(Conditional<A>),
    Over,
}

type Actions<A> = Vec<Action<A>>;

impl<A: Arranged> Write<A> {
    /// Creates the machine of a change. The process needs a lease (time for which it may write) for
    /// it.
    pub fn change(request: Request<A::Record, A::Patch>) -> Self {
        Self::new(Some(request), Rules::default())
    }

    /// Creates the machine that resolves an intent: it decides the outcome of another process's
    /// change, and completes the view entries of the record. Then the intent may be deleted.
    pub fn resolve() -> Self {
        Self::new(None, Rules::default())
    }

    /// Creates the machine that [resolves](Self::resolve) a record whose unique values another
    /// record wants. It replaces the record's token, so that no earlier write can still be applied.
    /// It deletes an expired record, which might still be alive on other clocks.
    pub fn fencing() -> Self {
        Self {
            ends_expired: true,
            ..Self::resolve()
        }
    }

    /// Creates the machine that releases the unique values of a change whose process lost its
    /// registration. It runs under the next registration. It first [resolves](Self::resolve) the
    /// record, because another change of the record may rely on the reservations.
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

    /// Returns the unique values that this machine reserved and may still have to release. An
    /// intent does not name them, so processes that resolve the intent do not release them.
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

    /// Returns whether the machine waits for [`Begin`](Event::Begin).
    #[cfg(test)]
    pub(crate) fn is_waiting(&self) -> bool {
        self.state == State::Waiting
    }

    /// Handles an event, and returns the next actions of the caller. Ignores an event for which the
    /// machine does not wait.
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

    /// Returns whether the conditional write of the change is under way.
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

    /// Continues the machine once both the base row is read and the intent (note of the change) is
    /// stored.
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
            // `Raise` does not change the unique values of the record, so it reserves none.
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
                    // Unless `in_doubt`, the write was sent only once, and this sending was not
                    // applied. So the write failed, even if the stored row has lost old tokens.
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

    /// Reads the row again after keys of view entries were moved to another bucket. The other
    /// bucket may have received deletions that this machine does not know. Entries that are put
    /// after this read are newer than these deletions.
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
            // The change was not sent, so it is not written. The request under way completes the
            // previous row, or reserves unique values. Wait for its result, because a reservation
            // that is stored after its release would stay.
            State::Claiming(_) | State::Deciding { .. } | State::Writing(_) => {
                self.request = None;
                self.answer(Answer::NotWritten(NotWritten::Deadline))
            }
            State::Over => Vec::new(),
        }
    }

    /// Handles a change of unknown outcome: answers [`Answer::Unknown`], and then decides the
    /// outcome by resolving the intent (note) of the change.
    fn doubt(&mut self, here: &StepContext<'_, A>) -> Actions<A> {
        let mut actions = self.answer(Answer::Unknown);
        self.request = None;
        actions.extend(self.look(here));
        actions
    }

    fn give_up(&mut self, why: NotWritten, here: &StepContext<'_, A>) -> Actions<A> {
        if self.request.is_none() {
            // The intent is not settled, so wait for `Begin`, which starts the resolution over.
            self.state = State::Waiting;
            return Vec::new();
        }
        self.end_unclaimed(Answer::NotWritten(why), here)
    }

    /// Ends a change that is not written, and releases the unique values that it reserved. Another
    /// change of the record may rely on them, so the machine first replaces the record's token,
    /// which needs no lease. The releases wait for a lease.
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

/// Outcome of a conditional write that was sent several times, and whose last sending was not
/// applied.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Fate {
    /// An earlier sending was applied.
    Applied,
    /// No sending was applied, or ever will be.
    Refused,
    /// The outcome is unknown, because the row no longer has the tokens (ids of writes) of that
    /// time.
    Unknown,
}

/// Returns the outcome of a conditional write that puts the token `own` if the tokens `expected`
/// are stored. Its last sending was not applied, and the tokens `current` are stored. Each token is
/// put only once, so if `expected` is no longer stored, the write can never be applied.
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
