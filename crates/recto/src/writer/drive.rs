//! Runs one change of a record, or resolves an intent (the stored record of a change that may be
//! incomplete). Executes the actions of the state machine [`Write`], and passes their results to
//! the state machine.

use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt;
use futures::future::{BoxFuture, join};
use recto_model::Cells;
use recto_protocol::views::change::RowOf;
use recto_protocol::views::write::Conditional;
use recto_protocol::views::{
    Action, Answer, Claim, Decision, EntryKey, Event, FieldCells, KeyCells, Micros, Refusal, Refused,
    Request, StepContext, TakingStep, Token, Version, ViewedCollection, Write,
};
use recto_store::Cas;
use tokio::sync::oneshot;

use super::claims::Claiming;
use super::common::{Deadline, Known};
use super::record::{Record, UnderWay};
use super::requests::{self, EntryWrite};
use super::tables::stored;
use crate::error::{Error, ErrorKind, Result};
use crate::viewed::check_size;

/// Result of a change of a record that was applied.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Changed {
    /// Version of the record, or of its deletion.
    pub(crate) version: Version,
    /// True if some views of the record may not show the change yet.
    pub(crate) pending: bool,
}

/// Result of a change, or the reason why it is rejected.
pub(crate) type Outcome = std::result::Result<Changed, Refused>;

/// Caller that waits for the outcome of a change.
pub(super) struct Waiting {
    pub(super) answer: oneshot::Sender<Result<Outcome>>,
    /// Time at which the caller stops waiting.
    pub(super) deadline: Deadline,
    /// Time that the change uses as the current time; `None` for the actual current time.
    pub(super) at: Option<Micros>,
}

/// Result of running a change, or of resolving an intent (the stored record of an incomplete
/// change).
pub(super) enum End {
    /// All requests are complete, and the intent is settled (can be deleted). If a resolution wrote
    /// the record's row, the value is the row that it sent last.
    Settled(Option<Box<RowOf<ViewedCollection>>>),
    /// Another process declared this process dead, and resolves the intent. If `waiting` is set,
    /// nothing was written for the change of this caller.
    Lost {
        waiting: Option<Waiting>,
        /// Claims (reservations of unique values) that this process must release itself, because no
        /// other process does.
        unreleased: Option<Unreleased>,
    },
}

/// Claims (reservations of unique values) that remain to be released. This process releases them
/// when it is registered again.
pub(super) struct Unreleased {
    claims: Vec<(EntryKey<KeyCells>, Token)>,
    /// Request to take a claim that was still running when the registration was lost.
    sending: Option<PendingEvents>,
}

impl Unreleased {
    /// Returns the claims to release; `None` if there are none.
    fn new(claims: Vec<(EntryKey<KeyCells>, Token)>, sending: Option<PendingEvents>) -> Option<Self> {
        (!claims.is_empty()).then_some(Self { claims, sending })
    }

    /// Waits until the running request to take a claim has ended. A release that reached the store
    /// before this request would have no effect.
    pub(super) async fn arrived(&mut self) {
        if let Some(sending) = self.sending.take() {
            sending.await;
        }
    }

    /// Returns the state machine that releases the claims.
    pub(super) fn release(&self) -> Write<ViewedCollection> {
        Write::releasing(self.claims.iter().cloned())
    }
}

type PendingEvents = BoxFuture<'static, Vec<Event<Cells, KeyCells>>>;

/// Running change of a record, or running resolution of an intent (the stored record of an
/// incomplete change).
#[expect(clippy::struct_excessive_bools, reason = "the flags are independent")]
pub(super) struct Drive {
    record: Arc<Record>,
    machine: Write<ViewedCollection>,
    under_way: Option<UnderWay>,
    waiting: Option<Waiting>,
    /// Time that the change uses as the current time; `None` for the actual current time.
    at: Option<Micros>,
    /// Conditional write of the record's row that was sent last.
    sent: Option<Sent>,
    /// Version of the record whose view entries are all written. The base row must still be marked
    /// accordingly.
    mark: Option<Version>,
    /// Key of the record that was last found to have a claim to the requested unique values.
    holder: Option<KeyCells>,
    /// True if a request to take a claim is running.
    is_claiming: bool,
    /// Last step of taking a claim: the token of the claim, the step, and the number of its
    /// repetitions.
    claim: Option<(Token, TakingStep<KeyCells>, u32)>,
    /// Number of times that this change has fenced another record: replaced its token, so that its
    /// earlier conditional writes fail.
    fenced: u32,
    /// Claims (reservations of unique values) that the change took and does not need.
    unneeded: Vec<(EntryKey<KeyCells>, Token)>,
    /// Row of the record that a resolution sent last.
    row: Option<Box<RowOf<ViewedCollection>>>,
    is_settled: bool,
    is_lost: bool,
    /// True for a change, false for a resolution or for the fencing of a record.
    is_change: bool,
}

/// Conditional write of a record's row, with the view entries to write after it. It can be sent
/// repeatedly.
struct Sent {
    token: Token,
    known: Arc<Known>,
    cas: Arc<Cas>,
    ttl_seconds: Option<u32>,
    entries: Arc<[EntryWrite]>,
    repeats: u32,
}

impl Drive {
    pub(super) fn change(
        record: Arc<Record>,
        request: Request<Cells, FieldCells>,
        under_way: UnderWay,
        waiting: Waiting,
    ) -> Self {
        Self::new(record, Write::change(request), under_way, Some(waiting))
    }

    /// Creates the [resolution](Write::resolve) of an intent, or the [fencing](Write::fencing) of a
    /// record. No caller waits for its outcome.
    pub(super) fn resolve(record: Arc<Record>, how: Write<ViewedCollection>, under_way: UnderWay) -> Self {
        Self::new(record, how, under_way, None)
    }

    fn new(
        record: Arc<Record>,
        machine: Write<ViewedCollection>,
        under_way: UnderWay,
        waiting: Option<Waiting>,
    ) -> Self {
        Self {
            record,
            machine,
            under_way: Some(under_way),
            is_change: waiting.is_some(),
            at: waiting.as_ref().and_then(|waiting| waiting.at),
            waiting,
            sent: None,
            mark: None,
            holder: None,
            is_claiming: false,
            claim: None,
            fenced: 0,
            unneeded: Vec::new(),
            row: None,
            is_settled: false,
            is_lost: false,
        }
    }

    /// Runs the state machine until the change is complete, or until other processes declare this
    /// process dead.
    pub(super) async fn run(mut self) -> End {
        let record = Arc::clone(&self.record);
        let deadline = self.waiting.as_ref().map(|waiting| waiting.deadline);
        let left = deadline.map_or(Duration::MAX, |deadline| record.common.left(deadline));
        let mut deadline = std::pin::pin!(tokio::time::sleep(left));
        let mut is_late = self.waiting.is_none();
        let mut doing = self.tell([Event::Begin]);
        while !self.is_settled {
            let waits_to_begin = || Arc::clone(&record).pause_and_begin().boxed();
            let done = doing.get_or_insert_with(waits_to_begin);
            tokio::select! {
                biased;
                () = record.process.lost() => {
                    self.is_lost = true;
                    let sending = doing.filter(|_| self.is_claiming);
                    self.tell([Event::Deadline]);
                    let known = record.known();
                    let claims = known.map(|known| self.machine.unreleased(&known.views));
                    return End::Lost {
                        unreleased: Unreleased::new(claims.unwrap_or_default(), sending),
                        waiting: self.waiting,
                    };
                }
                events = done => {
                    self.is_claiming = false;
                    doing = self.tell(events);
                }
                () = &mut deadline, if !is_late => {
                    is_late = true;
                    // At the deadline, the running request continues, unless the deadline leads to
                    // another request.
                    if let Some(next) = self.tell([Event::Deadline]) {
                        doing = Some(next);
                    }
                }
            }
        }
        if let (Some(version), Some(sent)) = (self.mark.take(), &self.sent) {
            record.mark(&sent.known, version, sent.ttl_seconds).await;
        }
        if record.release_unneeded(&self.unneeded).await {
            return End::Settled(self.row);
        }
        End::Lost {
            waiting: None,
            unreleased: Unreleased::new(self.unneeded, None),
        }
    }

    /// Passes events to the state machine of the change, and starts the actions that the state
    /// machine returns.
    fn tell(&mut self, events: impl IntoIterator<Item = Event<Cells, KeyCells>>) -> Option<PendingEvents> {
        let mut doing = None;
        for event in events {
            let Some(known) = self.record.known() else {
                self.gone();
                return None;
            };
            let here = StepContext {
                schema: &known.views,
                owner: &self.record.owner,
                now: self
                    .at
                    .unwrap_or_else(|| self.record.common.environment.now_micros()),
                token: Token(u128::from_be_bytes(self.record.common.environment.random())),
                has_lease: self.record.process.has_lease(&self.record.common),
            };
            for action in self.machine.step(event, &here) {
                if let Some(begun) = self.begin(action, &known) {
                    doing = Some(begun);
                }
            }
        }
        doing
    }

    fn begin(&mut self, action: Action<ViewedCollection>, known: &Arc<Known>) -> Option<PendingEvents> {
        let record = Arc::clone(&self.record);
        match action {
            Action::Look { note, attempt } => {
                let needs_lease = self.waiting.is_some();
                let look = Arc::clone(&record).look(note, attempt, needs_lease);
                let mark = self.mark.take().zip(self.sent.as_ref());
                let Some((version, sent)) = mark else {
                    return Some(look.boxed());
                };
                let (known, ttl_seconds) = (Arc::clone(&sent.known), sent.ttl_seconds);
                let marked = async move { record.mark(&known, version, ttl_seconds).await };
                Some(join(look, marked).map(|(events, ())| events).boxed())
            }
            Action::Reload => Some(record.reload().boxed()),
            Action::Cas(conditional) => Some(self.cas(&conditional, known)),
            Action::Claim {
                key,
                own,
                step,
                until,
            } => Some(self.claim(key, own, step, until)),
            Action::Release(claims) => {
                self.unneeded = claims;
                None
            }
            Action::Write(entries) => {
                let writes = self.sent.as_ref().map(|sent| Arc::clone(&sent.entries));
                let written = record.write(writes.unwrap_or_default(), entries);
                Some(written.boxed())
            }
            Action::MarkDone(version) => {
                self.mark = Some(version);
                None
            }
            // If the registration is lost, do not answer: the process may register again
            // and repeat the change.
            Action::Answer(Answer::NotWritten(_)) if self.is_lost => None,
            Action::Answer(answer) => {
                let answer = self.told(answer);
                self.answer(answer);
                None
            }
            Action::Settled => {
                self.settled();
                None
            }
        }
    }

    fn claim(
        &mut self,
        key: EntryKey<KeyCells>,
        own: Claim<KeyCells>,
        step: TakingStep<KeyCells>,
        until: Option<Micros>,
    ) -> PendingEvents {
        let fenced = self.fenced;
        self.is_claiming = matches!(step, TakingStep::Send(_));
        match &step {
            TakingStep::Look(holder) => self.holder = Some(holder.clone()),
            TakingStep::Fence(_) => self.fenced += 1,
            _ => {}
        }
        let repeats = match &self.claim {
            Some((token, sent, repeats)) if *token == own.token && *sent == step => repeats + 1,
            _ => 0,
        };
        self.claim = Some((own.token, step.clone(), repeats));
        let claiming = Claiming {
            key,
            own,
            step,
            until,
            repeats,
            fenced,
        };
        Arc::clone(&self.record).claim(claiming).boxed()
    }

    fn cas(&mut self, asked: &Conditional<ViewedCollection>, known: &Arc<Known>) -> PendingEvents {
        let token = asked.row.tokens.newest();
        let record = Arc::clone(&self.record);
        if !self.is_change {
            self.row = Some(Box::new(asked.row.clone()));
        }
        let sent = match &mut self.sent {
            Some(sent) if sent.token == token => {
                sent.repeats += 1;
                sent
            }
            sent => match prepare(&record, asked, known, self.is_change) {
                Ok(prepared) => sent.insert(prepared),
                Err(error) => {
                    record.failed(error);
                    let not_sent = vec![Event::Decided(token, Decision::NotSent)];
                    return std::future::ready(not_sent).boxed();
                }
            },
        };
        record.cas(token, Arc::clone(&sent.cas), sent.repeats).boxed()
    }

    /// Ends the change with an error, because the collection was dropped.
    fn gone(&mut self) {
        let error = Error::new(
            ErrorKind::NotFound,
            format!(
                "collection {} was removed during the change",
                self.record.collection
            ),
        );
        self.answer(Err(error));
        self.settled();
    }

    fn settled(&mut self) {
        self.record.settle();
        self.under_way = None;
        self.is_settled = true;
    }

    fn answer(&mut self, answer: Result<Outcome>) {
        if let Some(waiting) = self.waiting.take() {
            // Ignore a failed send, because the caller may no longer wait.
            drop(waiting.answer.send(answer));
        }
    }

    fn told(&self, answer: Answer) -> Result<Outcome> {
        let changed = |version, pending| Ok(Ok(Changed { version, pending }));
        match answer {
            Answer::Done(version) => changed(version, false),
            Answer::Pending(version) => changed(version, true),
            Answer::Refused(refusal) => {
                let holder = self.holder.as_ref();
                let is_taken = matches!(refusal, Refusal::Taken(_));
                let holder = holder.filter(|_| is_taken);
                let holder = holder.map(|key| key.cells().map(Some).collect());
                Ok(Err(Refused { refusal, holder }))
            }
            Answer::NotWritten(why) => Err(self.record.not_written(why)),
            Answer::Unknown => Err(self.record.unknown()),
        }
    }
}

/// Prepares the conditional write of a record, and the view entries that must be written after it
/// was applied.
fn prepare(
    record: &Record,
    asked: &Conditional<ViewedCollection>,
    known: &Arc<Known>,
    is_change: bool,
) -> Result<Sent> {
    if let Some(becomes) = asked.row.record.as_ref().filter(|_| is_change) {
        check_size(&record.collection, becomes)?;
    }
    let store = &record.common.store;
    let ttl_seconds = asked.row.ttl_seconds(record.common.environment.now_micros());
    let cas = requests::conditional(known, &record.key, asked, ttl_seconds).map_err(stored)?;
    let entries = requests::entry_writes(store.limits(), &known.views, &asked.entries);
    requests::check(store, &cas, &entries).map_err(|error| {
        let hint = error.hint().unwrap_or("nothing was written").to_owned();
        Error::new(ErrorKind::LimitExceeded, error.to_string())
            .with_hint(hint)
            .with_source(error)
    })?;
    Ok(Sent {
        token: asked.row.tokens.newest(),
        known: Arc::clone(known),
        cas: Arc::new(cas),
        ttl_seconds,
        entries: entries.into(),
        repeats: 0,
    })
}
