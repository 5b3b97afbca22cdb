//! The rounds of one register: what is asked of it, by one conditional write at a time.

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

/// How many wishes may wait for one register. Who comes then is refused.
const MAX_WAITING: usize = 65_536;
/// How often in a row others are let run, and nothing is asked, before those who asked are served: whoever was answered just now
/// has to hear of it, and to ask for the next thing.
const QUIET_TURNS: u32 = 4;
/// How often others are let run at most.
const MAX_TURNS: u32 = 64;

/// How a register lies in the store, and by what its wishes are worked out.
#[async_trait]
pub(crate) trait Ground: Send + Sync + 'static {
    /// What it is.
    type Register: Register;

    /// The store.
    fn queue_store(&self) -> &QueueStore;

    /// The machine's step, by what is known now.
    fn step(
        &self,
        round: &mut Round<Self::Register>,
        event: Event<Self::Register>,
    ) -> Vec<Action<Self::Register>>;

    /// Reads it, serially; of what was read before only what is new, if that is worth it.
    async fn read(&self, copy: Option<Self::Register>) -> Result<Self::Register>;

    /// A conditional write found that another process was quicker.
    fn was_late(&self) {}

    /// What makes one of the other.
    fn request(&self, before: &Self::Register, put: &Self::Register) -> Request;
}

/// A conditional write, and what is written with it, all or nothing, where the store has that.
#[derive(Debug, Clone)]
pub(crate) struct Request {
    pub(crate) cas: Cas,
    pub(crate) plain: Vec<PartitionWrite>,
}

/// A register's rounds in this process.
pub(crate) struct Rounds<G: Ground> {
    pub(crate) ground: G,
    inner: Mutex<Inner<G::Register>>,
}

struct Inner<R: Register> {
    round: Round<R>,
    /// What the machine was not told yet.
    asked: Vec<(Ticket, R::Wish)>,
    waiting: BTreeMap<Ticket, Waiting<R>>,
    /// Whether a task serves those who wait.
    is_driven: bool,
    last_ticket: u64,
    /// Whether something of which somebody still waits to hear was sent, and may be done.
    is_in_doubt: bool,
    /// Why the last request failed.
    failure: Option<QueueError>,
}

/// Whoever waits for an answer, or has given up since while the wish was on its way.
struct Waiting<R: Register> {
    told: oneshot::Sender<Result<R::Answer>>,
    /// What is put with it: kept for as long as it may be worked out anew.
    _bodies: Option<Arc<[Body]>>,
}

/// What the store is asked next.
enum Work {
    Read,
    Cas(Box<Request>, Version),
}

/// What is done after the store was asked.
enum Next {
    /// This, at once.
    Ask(Work),
    /// This after a pause, or the same again.
    Again(Option<Work>),
    /// Nothing.
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

    /// What is known of the register: it may have changed since, where others change it, too.
    pub(crate) fn with_copy<T>(&self, look: impl FnOnce(Option<&G::Register>) -> T) -> T {
        look(self.lock().round.copy())
    }

    /// The same, as long as nothing that changes it is on its way.
    pub(crate) fn with_settled_copy<T>(&self, look: impl FnOnce(&G::Register) -> T) -> Option<T> {
        let inner = self.lock();
        let copy = inner.round.copy().filter(|_| inner.round.is_idle());
        copy.map(look)
    }

    /// Reads the register: what is found is what is known from now on, unless more is.
    pub(crate) async fn read(&self) -> Result<G::Register> {
        let copy = self.with_copy(|copy| Some(copy?.clone()));
        let found = self.ground.read(copy).await?;
        self.lock().round.learn(found.clone());
        Ok(found)
    }

    /// Asks one thing.
    pub(crate) async fn ask_one(
        self: &Arc<Self>,
        wish: <G::Register as Register>::Wish,
        time: Duration,
    ) -> Result<<G::Register as Register>::Answer> {
        let mut answers = self.ask(vec![wish], None, time).await?;
        answers.pop().ok_or_else(QueueError::ended)
    }

    /// Asks several, one at least, in one round; what is said of each. Bodies are kept until nothing puts them any more.
    ///
    /// # Errors
    /// It was not decided in time: not sent, or of unknown outcome, as the kind says. The register is damaged, or the store
    /// refuses the request.
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
            return Err(error.with_hint("send fewer at a time, or wait until those are done"));
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
            // Made here: a task may end before it begins.
            let ending = Ending(Some(Arc::clone(self)));
            tokio::spawn(Arc::clone(self).drive(ending));
        }
        Ok((tickets, answers))
    }

    /// Nobody waits for these any longer.
    fn give_up(&self, tickets: &[Ticket]) -> QueueError {
        let mut inner = self.lock();
        let mut is_unsent = true;
        for ticket in tickets {
            // One that was answered meanwhile is as good as sent: the others of its round are not told.
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
                "the store did not answer in time: it may be done, now or later",
            )
        };
        let error = QueueError::new(kind, message);
        match inner.failure.clone() {
            Some(failure) => error.with_source(failure),
            None => error,
        }
    }

    /// Tells the machine what happened, and whoever waits what it says; what the store is asked next.
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
                        // Who does not listen any more has no use for it.
                        let _ = waiting.told.send(Ok(answer));
                    }
                }
            }
        }
        work
    }

    /// Serves those who ask until nobody does.
    async fn drive(self: Arc<Self>, mut ending: Ending<G>) {
        while let Some(asked) = self.gather().await {
            let work = self.step(&mut self.lock(), Event::Asked(asked));
            if let Some(work) = work {
                self.work(work).await;
            }
        }
        ending.0 = None;
    }

    /// Lets all ask who are about to, so that one conditional write carries what they ask; none: nobody asks.
    async fn gather(&self) -> Option<Vec<(Ticket, <G::Register as Register>::Wish)>> {
        let queues = self.ground.queue_store();
        if !queues.store.limits().remote {
            queues.trains.wait().await;
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

    /// Asks the store until there is nothing to ask, or nobody waits.
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

    /// What follows from what the store said; none: nothing was sent.
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
            // Whoever comes next begins by reading.
            inner.fail(&QueueError::ended(), protocol);
            return Next::Over;
        }
        next
    }

    /// Sends a conditional write once; none: it is certain that it was not sent.
    async fn decide(&self, request: &Request, version: Version) -> Result<Option<Event<G::Register>>> {
        let queues = self.ground.queue_store();
        let (store, options) = (&queues.store, write_options());
        let cas = request.cas.clone();
        let decided = |decision| Ok(Some(Event::Decided(version, decision)));
        let _departed = queues.trains.depart();
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

/// Whoever asks the store for a register: when that ends before its time, with its runtime or by a panic, all who wait hear so.
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

/// The outcome of a transaction of one conditional write and plain writes, as that of the conditional write.
fn as_of_one(outcome: TransactionOutcome) -> CasOutcome {
    match outcome {
        TransactionOutcome::Applied => CasOutcome::Applied,
        TransactionOutcome::NotApplied { .. } => CasOutcome::NotApplied { current: Vec::new() },
        TransactionOutcome::Unknown(error) => CasOutcome::Unknown(error),
        TransactionOutcome::Refused(error) => CasOutcome::Refused(error),
        TransactionOutcome::Conflict(_) => {
            let message = "the store took a body for a row of its own";
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

    /// Nobody waits for this any longer. Whether it was not sent, and never will be.
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

    /// Nobody can be served: all who wait are told why, and who comes next begins by reading.
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
