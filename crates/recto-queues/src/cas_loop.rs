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

use crate::body_format::Body;
use crate::context::{QueueContext, is_temporary, write_options};
use crate::error::{QueueError, QueueErrorKind, Result};

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
pub(crate) trait RegisterBackend: Send + Sync + 'static {
    /// Type of the versioned cell (row changed by compare-and-set): head, log, state, ring of body
    /// tables or registry.
    type Register: Register;

    /// Returns the store of queues, which has the versioned cell.
    fn context(&self) -> &QueueContext;

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
    fn count_conflict(&self) {}

    /// Returns the request that replaces the value `before` by the value `put`.
    fn write_request(&self, before: &Self::Register, put: &Self::Register) -> RegisterWrite;
}

/// Conditional write with plain writes. A store with transactions applies either all of them or
/// none.
#[derive(Debug, Clone)]
pub(crate) struct RegisterWrite {
    pub(crate) cas: Cas,
    pub(crate) plain: Vec<PartitionWrite>,
}

/// Compare-and-set loop of one versioned cell (row that is overwritten on the condition of its
/// version) in this process.
pub(crate) struct CasLoop<G: RegisterBackend> {
    pub(crate) backend: G,
    inner: Mutex<LoopState<G::Register>>,
}

struct LoopState<R: Register> {
    round: Round<R>,
    /// Commands that callers sent, and that the step function of the protocol has not received yet.
    queued: Vec<(Ticket, R::Command)>,
    waiting: BTreeMap<Ticket, WaitingCaller<R>>,
    /// True while a task executes the waiting commands. Only one task does so at a time.
    is_running: bool,
    last_ticket: u64,
    /// True if a write with an unknown outcome may have executed a waiting command.
    is_in_doubt: bool,
    /// Error of the last failed request to the store, which explains a later timeout to the caller.
    failure: Option<QueueError>,
}

/// Caller that waits for a response. If the caller gives up while its command is in progress, the
/// entry stays until the command has ended.
struct WaitingCaller<R: Register> {
    sender: oneshot::Sender<Result<R::Response>>,
    /// Bodies that the write of the command includes. The caller keeps the bodies as long as the
    /// command may be evaluated again.
    _bodies: Option<Arc<[Body]>>,
}

/// Next request of the compare-and-set loop to the store.
enum StoreRequest {
    Read,
    Cas(Box<RegisterWrite>, Version),
}

/// Decision of the loop after a request to the store.
enum NextStep {
    /// Sends the request at once.
    Send(StoreRequest),
    /// Waits, then sends this request; `None`: sends the last request again.
    Retry(Option<StoreRequest>),
    /// The commands are executed, or have failed. Sends no further request.
    Done,
}

type Responses<R> = Vec<<R as Register>::Response>;

impl<G: RegisterBackend> CasLoop<G> {
    pub(crate) fn new(backend: G) -> Arc<Self> {
        let protocol = backend.context().protocol;
        Arc::new(Self {
            backend,
            inner: Mutex::new(LoopState::new(protocol)),
        })
    }

    fn lock(&self) -> MutexGuard<'_, LoopState<G::Register>> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Calls `look` with the cached value of the versioned cell. The value may be stale if other processes
    /// change the cell, too.
    pub(crate) fn with_cached<T>(&self, look: impl FnOnce(Option<&G::Register>) -> T) -> T {
        look(self.lock().round.copy())
    }

    /// Calls `look` with the cached value of the cell. Returns `None` if a change of the cell is in
    /// progress, or if no value is cached.
    pub(crate) fn with_idle_cached<T>(&self, look: impl FnOnce(&G::Register) -> T) -> Option<T> {
        let inner = self.lock();
        let copy = inner.round.copy().filter(|_| inner.round.is_idle());
        copy.map(look)
    }

    /// Reads the versioned cell from the store, and caches the value unless the cached value is
    /// newer.
    pub(crate) async fn read(&self) -> Result<G::Register> {
        let copy = self.with_cached(|copy| Some(copy?.clone()));
        let found = self.backend.read(copy).await?;
        self.lock().round.learn(found.clone());
        Ok(found)
    }

    /// Sends one command, waits at most for the time limit of a request, and returns its response.
    pub(crate) async fn call(
        self: &Arc<Self>,
        command: <G::Register as Register>::Command,
    ) -> Result<<G::Register as Register>::Response> {
        let time = self.backend.context().request_timeout;
        let mut responses = self.call_all(vec![command], None, time).await?;
        responses.pop().ok_or_else(QueueError::ended)
    }

    /// Sends one or more commands together, waits at most for `time`, and returns their responses. `body_format`
    /// are kept as long as a write may include them.
    ///
    /// # Errors
    /// - The commands were not executed in time. The kind of the error says whether they were not sent, or
    ///   whether their outcome is unknown.
    /// - The cell is damaged.
    /// - The store rejects the request.
    /// - Too many commands wait.
    pub(crate) async fn call_all(
        self: &Arc<Self>,
        commands: Vec<<G::Register as Register>::Command>,
        bodies: Option<&Arc<[Body]>>,
        time: Duration,
    ) -> Result<Responses<G::Register>> {
        let (tickets, responses) = self.enqueue(commands, bodies)?;
        match tokio::time::timeout(time, join_all(responses)).await {
            Ok(responses) => {
                let each = responses
                    .into_iter()
                    .map(|one| one.map_err(|_| QueueError::ended())?);
                each.collect()
            }
            Err(_) => Err(self.withdraw_all(&tickets)),
        }
    }

    #[allow(clippy::type_complexity)] // one ticket and one answer each
    fn enqueue(
        self: &Arc<Self>,
        commands: Vec<<G::Register as Register>::Command>,
        bodies: Option<&Arc<[Body]>>,
    ) -> Result<(
        Vec<Ticket>,
        Vec<oneshot::Receiver<Result<<G::Register as Register>::Response>>>,
    )> {
        let mut inner = self.lock();
        if inner.waiting.len() + commands.len() > MAX_WAITING {
            let error = QueueError::new(
                QueueErrorKind::Unavailable,
                "too many requests wait for this queue",
            );
            return Err(
                error.with_hint("send fewer requests at a time, or wait until earlier requests have ended")
            );
        }
        let mut tickets = Vec::with_capacity(commands.len());
        let mut responses = Vec::with_capacity(commands.len());
        for command in commands {
            inner.last_ticket += 1;
            let ticket = Ticket(inner.last_ticket);
            let (sender, response) = oneshot::channel();
            let waiting = WaitingCaller {
                sender,
                _bodies: bodies.cloned(),
            };
            inner.waiting.insert(ticket, waiting);
            responses.push(response);
            tickets.push(ticket);
            inner.queued.push((ticket, command));
        }
        let is_running = std::mem::replace(&mut inner.is_running, true);
        drop(inner);
        if !is_running {
            // Create the guard before the task starts: if the task is dropped before it runs, the
            // guard still fails the waiting commands.
            let ending = DriverGuard(Some(Arc::clone(self)));
            tokio::spawn(Arc::clone(self).run(ending));
        }
        Ok((tickets, responses))
    }

    /// Withdraws the commands of a caller that stops waiting. Returns the error for the caller: a timeout if
    /// no command was sent, and otherwise an unknown outcome.
    fn withdraw_all(&self, tickets: &[Ticket]) -> QueueError {
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
    fn step(&self, inner: &mut LoopState<G::Register>, event: Event<G::Register>) -> Option<StoreRequest> {
        let mut request = None;
        for action in self.backend.step(&mut inner.round, event) {
            match action {
                Action::Read => request = Some(StoreRequest::Read),
                Action::Cas { put, .. } => {
                    let write = inner
                        .round
                        .copy()
                        .map(|before| self.backend.write_request(before, &put));
                    request = write.map(|write| StoreRequest::Cas(Box::new(write), put.version()));
                }
                Action::Response(ticket, response) => {
                    if let Some(waiting) = inner.waiting.remove(&ticket) {
                        // Ignore a failed send: a caller that no longer listens does not need the
                        // response.
                        let _ = waiting.sender.send(Ok(response));
                    }
                }
            }
        }
        request
    }

    /// Executes the waiting commands, one conditional write after another, until no command waits.
    async fn run(self: Arc<Self>, mut ending: DriverGuard<G>) {
        while let Some(queued) = self.collect_commands().await {
            let request = self.step(&mut self.lock(), Event::Asked(queued));
            if let Some(request) = request {
                self.execute(request).await;
            }
        }
        ending.0 = None;
    }

    /// Waits until callers that are about to send commands have sent them, so that one conditional write
    /// executes all of them. Returns the commands, or `None` if no command waits.
    async fn collect_commands(&self) -> Option<Vec<(Ticket, <G::Register as Register>::Command)>> {
        let context = self.backend.context();
        if !context.is_shared() {
            context.commits.wait_until_idle().await;
        }
        let (mut quiet_turns, mut count) = (0, self.lock().queued.len());
        for _ in 0..MAX_TURNS {
            tokio::task::yield_now().await;
            let before = std::mem::replace(&mut count, self.lock().queued.len());
            quiet_turns = if count == before { quiet_turns + 1 } else { 0 };
            if quiet_turns == QUIET_TURNS {
                break;
            }
        }
        let mut inner = self.lock();
        let queued = std::mem::take(&mut inner.queued);
        inner.is_running = !queued.is_empty();
        inner.is_running.then_some(queued)
    }

    /// Sends requests to the store until the loop needs no further request, or no caller waits.
    async fn execute(&self, mut request: StoreRequest) {
        let mut failures = 0;
        loop {
            let outcome = match &request {
                StoreRequest::Read => {
                    let copy = self.with_cached(|copy| Some(copy?.clone()));
                    let read = self.backend.read(copy).await;
                    read.map(|read| Some(Event::Read(read)))
                }
                StoreRequest::Cas(write, version) => self.send_write(write, *version).await,
            };
            match self.evaluate(outcome) {
                NextStep::Send(next) => (request, failures) = (next, 0),
                NextStep::Retry(next) => {
                    request = next.unwrap_or(request);
                    failures += 1;
                    self.backend.context().pause(failures).await;
                }
                NextStep::Done => return,
            }
        }
    }

    /// Evaluates the result of a request to the store. `Ok(None)` means that the request was not sent.
    fn evaluate(&self, outcome: Result<Option<Event<G::Register>>>) -> NextStep {
        let protocol = self.backend.context().protocol;
        let mut inner = self.lock();
        let next = match outcome {
            Ok(Some(event)) => {
                let is_unknown = matches!(event, Event::Decided(_, Decision::Unknown));
                inner.is_in_doubt |= is_unknown;
                if !is_unknown {
                    inner.failure = None;
                }
                match self.step(&mut inner, event) {
                    Some(request) if is_unknown => NextStep::Retry(Some(request)),
                    Some(request) => NextStep::Send(request),
                    None => {
                        inner.is_in_doubt = false;
                        NextStep::Done
                    }
                }
            }
            Ok(None) => NextStep::Retry(None),
            Err(error)
                if matches!(
                    error.kind(),
                    QueueErrorKind::Timeout | QueueErrorKind::Unavailable
                ) =>
            {
                inner.failure = Some(error);
                NextStep::Retry(None)
            }
            Err(error) => {
                inner.fail(&error, protocol);
                NextStep::Done
            }
        };
        let is_waited_for = inner.waiting.values().any(|waiting| !waiting.sender.is_closed());
        if matches!(next, NextStep::Retry(_)) && !is_waited_for {
            // No caller waits, so stop repeating the request. `fail` makes the next command start
            // with a read.
            inner.fail(&QueueError::ended(), protocol);
            return NextStep::Done;
        }
        next
    }

    /// Sends a conditional write once. Returns `None` if the write was certainly not sent.
    async fn send_write(
        &self,
        write: &RegisterWrite,
        version: Version,
    ) -> Result<Option<Event<G::Register>>> {
        let context = self.backend.context();
        let (store, options) = (&context.store, write_options());
        let cas = write.cas.clone();
        let decided = |decision| Ok(Some(Event::Decided(version, decision)));
        let _in_flight = context.commits.begin();
        let outcome = if write.plain.is_empty() {
            store.cas(cas, options).await
        } else {
            let sent = store.transact(vec![cas], write.plain.clone(), options).await;
            sent.map(cas_outcome_of)
        };
        match outcome {
            Ok(CasOutcome::Applied) => decided(Decision::Applied),
            Ok(CasOutcome::NotApplied { .. }) => {
                self.backend.count_conflict();
                decided(Decision::Refused)
            }
            Ok(CasOutcome::Unknown(error)) => {
                self.lock().failure = Some(error.into());
                decided(Decision::Unknown)
            }
            Err(error) if is_temporary(&error) => {
                self.lock().failure = Some(error.into());
                Ok(None)
            }
            Ok(CasOutcome::Refused(error)) | Err(error) => Err(error.into()),
        }
    }
}

/// Guard of the task that executes commands. If the task ends early, with its runtime or by a panic, all waiting
/// callers get an error.
struct DriverGuard<G: RegisterBackend>(Option<Arc<CasLoop<G>>>);

impl<G: RegisterBackend> Drop for DriverGuard<G> {
    fn drop(&mut self) {
        if let Some(rounds) = self.0.take() {
            let protocol = rounds.backend.context().protocol;
            let mut inner = rounds.lock();
            inner.is_running = false;
            inner.fail(&QueueError::ended(), protocol);
        }
    }
}

/// Converts the outcome of a transaction to that of its conditional write. The transaction consists of this
/// write and plain writes.
fn cas_outcome_of(outcome: TransactionOutcome) -> CasOutcome {
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

impl<R: Register> LoopState<R> {
    fn new(protocol: Protocol) -> Self {
        Self {
            round: Round::new(protocol),
            queued: Vec::new(),
            waiting: BTreeMap::new(),
            is_running: false,
            last_ticket: 0,
            is_in_doubt: false,
            failure: None,
        }
    }

    /// Withdraws the command of a caller that stops waiting. Returns true if the command was not sent, so
    /// that it is never executed.
    fn withdraw(&mut self, ticket: Ticket) -> bool {
        let unheard = self.queued.iter().position(|(queued, _)| *queued == ticket);
        match unheard {
            Some(index) => {
                self.queued.remove(index);
                true
            }
            None => self.round.withdraw(ticket),
        }
    }

    /// Passes the error to all waiting callers, and drops their commands. The next command starts
    /// with a read of the cell.
    fn fail(&mut self, error: &QueueError, protocol: Protocol) {
        self.round = Round::new(protocol);
        self.queued.clear();
        let is_in_doubt = std::mem::take(&mut self.is_in_doubt);
        for (_, waiting) in std::mem::take(&mut self.waiting) {
            let error = error.clone();
            let error = if is_in_doubt { error.in_part() } else { error };
            let _ = waiting.sender.send(Err(error));
        }
    }
}
