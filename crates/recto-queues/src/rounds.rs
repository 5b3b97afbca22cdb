//! Compare-and-set loop of one versioned cell (row that is overwritten on the condition of its
//! version) in this process. The loop executes the waiting commands by one conditional write at a
//! time.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use futures::future::join_all;
use recto_protocol::queues::{Action, Decision, Event, Protocol, Register, Round, Ticket, Version};
use recto_store::{Cas, CasOutcome, PartitionWrite, StoreError, StoreErrorKind, TransactionOutcome};
use tokio::sync::oneshot;

use crate::bodies::Body;
use crate::error::{QueueError, QueueErrorKind, Result};
use crate::place::{QueueStore, is_passing, write_options};

/// Maximum number of commands that may wait for one versioned cell (row changed by
/// compare-and-set). Further commands are rejected.
const MAX_WAITING: usize = 65_536;
/// Number of successive turns of the scheduler without a new command after which the loop executes the
/// waiting commands. A caller that just got its response needs some turns to see it and to send its next
/// command.
const QUIET_TURNS: u32 = 4;
/// Maximum number of turns of the scheduler for which the loop waits for more commands.
const MAX_TURNS: u32 = 64;

/// Storage of a versioned cell, and the data with which commands to the cell are evaluated, for a
/// compare-and-set loop.
#[async_trait]
pub(crate) trait Ground: Send + Sync + 'static {
    /// Type of the versioned cell (row changed by compare-and-set): head, log, state, ring of body
    /// tables or registry.
    type Register: Register;

    /// Returns the store of queues, which has the versioned cell.
    fn queue_store(&self) -> &QueueStore;

    /// Executes one step of the protocol's loop, with the data that this process has now for the evaluation
    /// of commands.
    fn step(
        &self,
        round: &mut Round<Self::Register>,
        event: Event<Self::Register>,
    ) -> Vec<Action<Self::Register>>;

    /// Reads the cell with serial consistency. `copy` is an earlier value, so that the read may be limited to
    /// newer parts.
    async fn read(&self, copy: Option<Self::Register>) -> Result<Self::Register>;

    /// Records that a conditional write of the versioned cell failed because another process wrote
    /// first.
    fn was_late(&self) {}

    /// Returns the request that replaces the value `before` by the value `put`.
    fn request(&self, before: &Self::Register, put: &Self::Register) -> Request;
}

/// Conditional write with plain writes. A store with transactions applies either all of them or
/// none.
#[derive(Debug, Clone)]
pub(crate) struct Request {
    pub(crate) cas: Cas,
    pub(crate) plain: Vec<PartitionWrite>,
}

/// Compare-and-set loop of one versioned cell (row that is overwritten on the condition of its
/// version) in this process.
pub(crate) struct Rounds<G: Ground> {
    pub(crate) ground: G,
    inner: Mutex<Inner<G::Register>>,
}

struct Inner<R: Register> {
    round: Round<R>,
    /// Commands that callers sent, and that the step function of the protocol has not received yet.
    asked: Vec<(Ticket, R::Wish)>,
    waiting: BTreeMap<Ticket, Waiting<R>>,
    /// True while a task executes the waiting commands. Only one task does so at a time.
    is_driven: bool,
    last_ticket: u64,
    /// True if a write with an unknown outcome may have executed a waiting command.
    is_in_doubt: bool,
    /// Error of the last failed request to the store, which explains a later timeout to the caller.
    failure: Option<QueueError>,
}

/// Caller that waits for a response. If the caller gives up while its command is in progress, the
/// entry stays until the command has ended.
struct Waiting<R: Register> {
    told: oneshot::Sender<Result<R::Answer>>,
    /// Bodies that the write of the command includes. The caller keeps the bodies as long as the
    /// command may be evaluated again.
    _bodies: Option<Arc<[Body]>>,
}

/// Next request of the compare-and-set loop to the store.
enum Work {
    Read,
    Cas(Box<Request>, Version),
}

/// Decision of the loop after a request to the store.
enum Next {
    /// Sends the request at once.
    Ask(Work),
    /// Waits, then sends this request; `None`: sends the last request again.
    Again(Option<Work>),
    /// The commands are executed, or have failed. Sends no further request.
    Over,
}

type Answers<R> = Vec<<R as Register>::Answer>;

impl<G: Ground> Rounds<G> {
    pub(crate) fn new(ground: G) -> Arc<Self> {
        let protocol = ground.queue_store().protocol;
        Arc::new(Self {
            ground,
            inner: Mutex::new(Inner::new(protocol)),
        })
    }

    fn lock(&self) -> MutexGuard<'_, Inner<G::Register>> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Calls `look` with the cached value of the versioned cell. The value may be stale if other processes
    /// change the cell, too.
    pub(crate) fn with_copy<T>(&self, look: impl FnOnce(Option<&G::Register>) -> T) -> T {
        look(self.lock().round.copy())
    }

    /// Calls `look` with the cached value of the cell. Returns `None` if a change of the cell is in
    /// progress, or if no value is cached.
    pub(crate) fn with_settled_copy<T>(&self, look: impl FnOnce(&G::Register) -> T) -> Option<T> {
        let inner = self.lock();
        let copy = inner.round.copy().filter(|_| inner.round.is_idle());
        copy.map(look)
    }

    /// Reads the versioned cell from the store, and caches the value unless the cached value is
    /// newer.
    pub(crate) async fn read(&self) -> Result<G::Register> {
        let copy = self.with_copy(|copy| Some(copy?.clone()));
        let found = self.ground.read(copy).await?;
        self.lock().round.learn(found.clone());
        Ok(found)
    }

    /// Sends one command and returns its response.
    pub(crate) async fn ask_one(
        self: &Arc<Self>,
        wish: <G::Register as Register>::Wish,
        time: Duration,
    ) -> Result<<G::Register as Register>::Answer> {
        let mut answers = self.ask(vec![wish], None, time).await?;
        answers.pop().ok_or_else(QueueError::ended)
    }

    /// Sends one or more commands together, waits at most for `time`, and returns their responses. `bodies`
    /// are kept as long as a write may include them.
    ///
    /// # Errors
    /// - The commands were not executed in time. The kind of the error says whether they were not sent, or
    ///   whether their outcome is unknown.
    /// - The cell is damaged.
    /// - The store rejects the request.
    /// - Too many commands wait.
    pub(crate) async fn ask(
        self: &Arc<Self>,
        wishes: Vec<<G::Register as Register>::Wish>,
        bodies: Option<&Arc<[Body]>>,
        time: Duration,
    ) -> Result<Answers<G::Register>> {
        let (tickets, answers) = self.begin(wishes, bodies)?;
        match tokio::time::timeout(time, join_all(answers)).await {
            Ok(answers) => {
                let each = answers
                    .into_iter()
                    .map(|one| one.map_err(|_| QueueError::ended())?);
                each.collect()
            }
            Err(_) => Err(self.give_up(&tickets)),
        }
    }

    #[allow(clippy::type_complexity)] // one ticket and one answer each
    fn begin(
        self: &Arc<Self>,
        wishes: Vec<<G::Register as Register>::Wish>,
        bodies: Option<&Arc<[Body]>>,
    ) -> Result<(
        Vec<Ticket>,
        Vec<oneshot::Receiver<Result<<G::Register as Register>::Answer>>>,
    )> {
        let mut inner = self.lock();
        if inner.waiting.len() + wishes.len() > MAX_WAITING {
            let error = QueueError::new(
                QueueErrorKind::Unavailable,
                "too many requests wait for this queue",
            );
            return Err(
                error.with_hint("send fewer requests at a time, or wait until earlier requests have ended")
            );
        }
        let mut tickets = Vec::with_capacity(wishes.len());
        let mut answers = Vec::with_capacity(wishes.len());
        for wish in wishes {
            inner.last_ticket += 1;
            let ticket = Ticket(inner.last_ticket);
            let (told, answer) = oneshot::channel();
            let waiting = Waiting {
                told,
                _bodies: bodies.cloned(),
            };
            inner.waiting.insert(ticket, waiting);
            answers.push(answer);
            tickets.push(ticket);
            inner.asked.push((ticket, wish));
        }
        let is_driven = std::mem::replace(&mut inner.is_driven, true);
        drop(inner);
        if !is_driven {
            // Create the guard before the task starts: if the task is dropped before it runs, the
            // guard still fails the waiting commands.
            let ending = Ending(Some(Arc::clone(self)));
            tokio::spawn(Arc::clone(self).drive(ending));
        }
        Ok((tickets, answers))
    }

    /// Withdraws the commands of a caller that stops waiting. Returns the error for the caller: a timeout if
    /// no command was sent, and otherwise an unknown outcome.
    fn give_up(&self, tickets: &[Ticket]) -> QueueError {
        let mut inner = self.lock();
        let mut is_unsent = true;
        for ticket in tickets {
            // The caller gets one error for all its commands, so a command that was already answered counts
            // as sent.
            if inner.withdraw(*ticket) {
                inner.waiting.remove(ticket);
            } else {
                is_unsent = false;
            }
        }
        let (kind, message) = if is_unsent {
            (
                QueueErrorKind::Timeout,
                "the store did not answer in time: nothing was done",
            )
        } else {
            (
                QueueErrorKind::OutcomeUnknown,
                "the store did not answer in time: the request may have been executed, or may be executed \
                 later",
            )
        };
        let error = QueueError::new(kind, message);
        match inner.failure.clone() {
            Some(failure) => error.with_source(failure),
            None => error,
        }
    }

    /// Passes an event to the protocol's loop, and passes the responses to the callers. Returns the next
    /// request to the store.
    fn step(&self, inner: &mut Inner<G::Register>, event: Event<G::Register>) -> Option<Work> {
        let mut work = None;
        for action in self.ground.step(&mut inner.round, event) {
            match action {
                Action::Read => work = Some(Work::Read),
                Action::Cas { put, .. } => {
                    let request = inner.round.copy().map(|before| self.ground.request(before, &put));
                    work = request.map(|request| Work::Cas(Box::new(request), put.version()));
                }
                Action::Answer(ticket, answer) => {
                    if let Some(waiting) = inner.waiting.remove(&ticket) {
                        // Ignore a failed send: a caller that no longer listens does not need the
                        // response.
                        let _ = waiting.told.send(Ok(answer));
                    }
                }
            }
        }
        work
    }

    /// Executes the waiting commands, one conditional write after another, until no command waits.
    async fn drive(self: Arc<Self>, mut ending: Ending<G>) {
        while let Some(asked) = self.gather().await {
            let work = self.step(&mut self.lock(), Event::Asked(asked));
            if let Some(work) = work {
                self.work(work).await;
            }
        }
        ending.0 = None;
    }

    /// Waits until callers that are about to send commands have sent them, so that one conditional write
    /// executes all of them. Returns the commands, or `None` if no command waits.
    async fn gather(&self) -> Option<Vec<(Ticket, <G::Register as Register>::Wish)>> {
        let queues = self.ground.queue_store();
        if !queues.store.limits().remote {
            queues.commits.wait_until_idle().await;
        }
        let (mut quiet_turns, mut count) = (0, self.lock().asked.len());
        for _ in 0..MAX_TURNS {
            tokio::task::yield_now().await;
            let before = std::mem::replace(&mut count, self.lock().asked.len());
            quiet_turns = if count == before { quiet_turns + 1 } else { 0 };
            if quiet_turns == QUIET_TURNS {
                break;
            }
        }
        let mut inner = self.lock();
        let asked = std::mem::take(&mut inner.asked);
        inner.is_driven = !asked.is_empty();
        inner.is_driven.then_some(asked)
    }

    /// Sends requests to the store until the loop needs no further request, or no caller waits.
    async fn work(&self, mut work: Work) {
        let mut failures = 0;
        loop {
            let heard = match &work {
                Work::Read => {
                    let copy = self.with_copy(|copy| Some(copy?.clone()));
                    let read = self.ground.read(copy).await;
                    read.map(|read| Some(Event::Read(read)))
                }
                Work::Cas(request, version) => self.decide(request, *version).await,
            };
            match self.heard(heard) {
                Next::Ask(next) => (work, failures) = (next, 0),
                Next::Again(next) => {
                    work = next.unwrap_or(work);
                    failures += 1;
                    self.ground.queue_store().pause(failures).await;
                }
                Next::Over => return,
            }
        }
    }

    /// Evaluates the result of a request to the store. `Ok(None)` means that the request was not sent.
    fn heard(&self, heard: Result<Option<Event<G::Register>>>) -> Next {
        let protocol = self.ground.queue_store().protocol;
        let mut inner = self.lock();
        let next = match heard {
            Ok(Some(event)) => {
                let is_unknown = matches!(event, Event::Decided(_, Decision::Unknown));
                inner.is_in_doubt |= is_unknown;
                if !is_unknown {
                    inner.failure = None;
                }
                match self.step(&mut inner, event) {
                    Some(work) if is_unknown => Next::Again(Some(work)),
                    Some(work) => Next::Ask(work),
                    None => {
                        inner.is_in_doubt = false;
                        Next::Over
                    }
                }
            }
            Ok(None) => Next::Again(None),
            Err(error)
                if matches!(
                    error.kind(),
                    QueueErrorKind::Timeout | QueueErrorKind::Unavailable
                ) =>
            {
                inner.failure = Some(error);
                Next::Again(None)
            }
            Err(error) => {
                inner.fail(&error, protocol);
                Next::Over
            }
        };
        let is_waited_for = inner.waiting.values().any(|waiting| !waiting.told.is_closed());
        if matches!(next, Next::Again(_)) && !is_waited_for {
            // No caller waits, so stop repeating the request. `fail` makes the next command start
            // with a read.
            inner.fail(&QueueError::ended(), protocol);
            return Next::Over;
        }
        next
    }

    /// Sends a conditional write once. Returns `None` if the write was certainly not sent.
    async fn decide(&self, request: &Request, version: Version) -> Result<Option<Event<G::Register>>> {
        let queues = self.ground.queue_store();
        let (store, options) = (&queues.store, write_options());
        let cas = request.cas.clone();
        let decided = |decision| Ok(Some(Event::Decided(version, decision)));
        let _in_flight = queues.commits.begin();
        let outcome = if request.plain.is_empty() {
            store.cas(cas, options).await
        } else {
            let sent = store.transact(vec![cas], request.plain.clone(), options).await;
            sent.map(as_of_one)
        };
        match outcome {
            Ok(CasOutcome::Applied) => decided(Decision::Applied),
            Ok(CasOutcome::NotApplied { .. }) => {
                self.ground.was_late();
                decided(Decision::Refused)
            }
            Ok(CasOutcome::Unknown(error)) => {
                self.lock().failure = Some(error.into());
                decided(Decision::Unknown)
            }
            Err(error) if is_passing(&error) => {
                self.lock().failure = Some(error.into());
                Ok(None)
            }
            Ok(CasOutcome::Refused(error)) | Err(error) => Err(error.into()),
        }
    }
}

/// Guard of the task that executes commands. If the task ends early, with its runtime or by a panic, all waiting
/// callers get an error.
struct Ending<G: Ground>(Option<Arc<Rounds<G>>>);

impl<G: Ground> Drop for Ending<G> {
    fn drop(&mut self) {
        if let Some(rounds) = self.0.take() {
            let protocol = rounds.ground.queue_store().protocol;
            let mut inner = rounds.lock();
            inner.is_driven = false;
            inner.fail(&QueueError::ended(), protocol);
        }
    }
}

/// Converts the outcome of a transaction to that of its conditional write. The transaction consists of this
/// write and plain writes.
fn as_of_one(outcome: TransactionOutcome) -> CasOutcome {
    match outcome {
        TransactionOutcome::Applied => CasOutcome::Applied,
        TransactionOutcome::NotApplied { .. } => CasOutcome::NotApplied { current: Vec::new() },
        TransactionOutcome::Unknown(error) => CasOutcome::Unknown(error),
        TransactionOutcome::Refused(error) => CasOutcome::Refused(error),
        TransactionOutcome::Conflict(_) => {
            let message = "the store mistook a message body for one of its own rows";
            CasOutcome::Refused(StoreError::new(StoreErrorKind::Other, message))
        }
    }
}

impl<R: Register> Inner<R> {
    fn new(protocol: Protocol) -> Self {
        Self {
            round: Round::new(protocol),
            asked: Vec::new(),
            waiting: BTreeMap::new(),
            is_driven: false,
            last_ticket: 0,
            is_in_doubt: false,
            failure: None,
        }
    }

    /// Withdraws the command of a caller that stops waiting. Returns true if the command was not sent, so
    /// that it is never executed.
    fn withdraw(&mut self, ticket: Ticket) -> bool {
        let unheard = self.asked.iter().position(|(asked, _)| *asked == ticket);
        match unheard {
            Some(index) => {
                self.asked.remove(index);
                true
            }
            None => self.round.withdraw(ticket),
        }
    }

    /// Passes the error to all waiting callers, and drops their commands. The next command starts
    /// with a read of the cell.
    fn fail(&mut self, error: &QueueError, protocol: Protocol) {
        self.round = Round::new(protocol);
        self.asked.clear();
        let is_in_doubt = std::mem::take(&mut self.is_in_doubt);
        for (_, waiting) in std::mem::take(&mut self.waiting) {
            let error = error.clone();
            let error = if is_in_doubt { error.in_part() } else { error };
            let _ = waiting.told.send(Err(error));
        }
    }
}
