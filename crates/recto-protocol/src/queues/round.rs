//! Compare-and-set loop of one versioned cell. One conditional write is on its way at a time and carries all
//! waiting commands, so batches grow with the load, without a timer.
//!
//! ```text
//!  ask ► idle ── no copy, or nothing to write and the copy is older than a wish ──► read ─┐
//!         ▲ │                                                                      ▲       │
//!         │ └──────────── work out all wishes on the copy ◄────────────────────────┼───────┘
//!         │                          │                                             │
//!         │                          ▼        unknown: the same again              │
//!         └── applied: answers ── conditional write ────────────────────► refused ─┘
//! ```
//!
//! After each rejected write, the loop evaluates all commands again on the new value of the cell. The
//! identifier in a command (a chunk, a claim id) shows whether an earlier write already applied it.

use std::fmt::Debug;
use std::hash::Hash;

use crate::queues::limits::Protocol;
use crate::queues::names::{Ticket, Version};
use crate::queues::rules::Rule;

/// Versioned cell: a value that changes only by conditional writes on its version.
pub trait Register: Clone + Debug + PartialEq + Eq + Hash + Send + Sync + 'static {
    /// Command that the cell executes.
    type Wish: Clone + Debug + PartialEq + Eq + Hash + Send + 'static;
    /// Response of the cell to a command.
    type Answer: Clone + Debug + PartialEq + Eq + Hash + Send + 'static;
    /// Data that the evaluation of commands needs besides the cell.
    type Context<'a>;

    /// Returns approximately how many bytes a command adds to a conditional write and to the rows written
    /// with it.
    fn bytes(wish: &Self::Wish) -> u64 {
        let _ = wish;
        0
    }

    /// Returns the version of this value.
    fn version(&self) -> Version;

    /// Raises the version by one.
    fn raise(&mut self);

    /// Executes a command on this value and returns the response that holds if the result is applied. If
    /// `was_sent` is set, an earlier write may have applied the command already. In that case the value does
    /// not change and the response is the same.
    fn work_out(&mut self, wish: &Self::Wish, was_sent: bool, context: &Self::Context<'_>) -> Self::Answer;
}

/// Input of the compare-and-set loop.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Event<R: Register> {
    /// One or more commands for the cell, in this order.
    Asked(Vec<(Ticket, R::Wish)>),
    /// Value that was read from the cell.
    Read(R),
    /// Outcome of the conditional write that puts this version.
    Decided(Version, Decision),
}

/// Outcome of the conditional write of a versioned cell.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Decision {
    /// The write was applied.
    Applied,
    /// The last attempt of the write was not applied: the cell has another version.
    Refused,
    /// The write may be applied, now or later; or it was not sent.
    Unknown,
}

/// Output of the compare-and-set loop: an action that the caller must execute.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Action<R: Register> {
    /// Read the cell with serial consistency; repeat until the read succeeds.
    Read,
    /// Write the new value if the cell has the expected version. After an unknown outcome, pause first.
    Cas {
        /// Expected version of the cell; 0: the cell was never written.
        expected: Version,
        /// New value of the cell.
        put: R,
    },
    /// Give the response to the caller that waits for it. Each ticket gets exactly one response.
    Answer(Ticket, R::Answer),
}

/// Compare-and-set loop of one versioned cell in one process.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Round<R: Register> {
    copy: Option<R>,
    waiting: Vec<Waiting<R::Wish>>,
    step: Step<R>,
    protocol: Protocol,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct Waiting<W> {
    ticket: Ticket,
    wish: W,
    /// True if a conditional write of unknown outcome carried the command.
    may_be_done: bool,
    /// True if the copy was read after the command arrived.
    is_fresh: bool,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
enum Step<R: Register> {
    Idle,
    Reading,
    Deciding(Flight<R>),
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct Flight<R: Register> {
    expected: Version,
    put: R,
    carried: Vec<Waiting<R::Wish>>,
    /// Responses, in the order of `carried`.
    answers: Vec<R::Answer>,
}

impl<R: Register> Round<R> {
    /// Creates a loop for a cell whose value is not known.
    pub fn new(protocol: Protocol) -> Self {
        Self {
            copy: None,
            waiting: Vec::new(),
            step: Step::Idle,
            protocol,
        }
    }

    /// Returns the last known value of the cell, which may have changed since.
    pub fn copy(&self) -> Option<&R> {
        self.copy.as_ref()
    }

    /// Adopts a value of the cell that the caller read for another reason. The loop ignores the value if it
    /// is not newer than the known value, or if a command waits.
    pub fn learn(&mut self, found: R) {
        let is_newer = |copy: &R| copy.version() < found.version();
        if self.is_idle() && self.copy.as_ref().is_none_or(is_newer) {
            self.copy = Some(found);
        }
    }

    /// Returns whether no command waits.
    pub fn is_idle(&self) -> bool {
        matches!(self.step, Step::Idle)
    }

    /// Withdraws the command of a caller that no longer waits. Returns true if the command was not sent and
    /// never will be. Otherwise the ticket still gets its response.
    pub fn withdraw(&mut self, ticket: Ticket) -> bool {
        let unsent = self
            .waiting
            .iter()
            .position(|one| one.ticket == ticket && !one.may_be_done);
        unsent.is_some_and(|index| {
            self.waiting.remove(index);
            true
        })
    }

    /// Handles an event and returns the actions that follow from it.
    pub fn step(&mut self, event: Event<R>, context: &R::Context<'_>) -> Vec<Action<R>> {
        match (event, &self.step) {
            (Event::Asked(wishes), _) => {
                let wishes = wishes.into_iter().map(|(ticket, wish)| Waiting {
                    ticket,
                    wish,
                    may_be_done: false,
                    is_fresh: false,
                });
                self.waiting.extend(wishes);
                if self.is_idle() {
                    self.work_out(context)
                } else {
                    Vec::new()
                }
            }
            (Event::Read(found), Step::Reading) => {
                self.copy = Some(found);
                for waiting in &mut self.waiting {
                    waiting.is_fresh = true;
                }
                self.work_out(context)
            }
            (Event::Decided(version, decision), Step::Deciding(flight))
                if version == flight.put.version() =>
            {
                self.decided(decision, context)
            }
            _ => Vec::new(),
        }
    }

    fn go_on(&mut self, context: &R::Context<'_>) -> Vec<Action<R>> {
        if self.waiting.is_empty() {
            return Vec::new();
        }
        self.work_out(context)
    }

    fn read(&mut self) -> Vec<Action<R>> {
        self.step = Step::Reading;
        vec![Action::Read]
    }

    fn work_out(&mut self, context: &R::Context<'_>) -> Vec<Action<R>> {
        let Some(copy) = &self.copy else {
            return self.read();
        };
        let mut put = copy.clone();
        let count = self.carried();
        let answers: Vec<_> = self.waiting[..count]
            .iter()
            .map(|one| put.work_out(&one.wish, one.may_be_done, context))
            .collect();
        if put == *copy {
            let is_stale = self.waiting[..count].iter().any(|one| !one.is_fresh);
            if is_stale && self.protocol.rules.keeps(Rule::AnsweredOnFreshCopy) {
                return self.read();
            }
            self.step = Step::Idle;
            let mut actions = told(self.waiting.drain(..count), answers);
            actions.extend(self.go_on(context));
            return actions;
        }
        put.raise();
        let expected = copy.version();
        let carried = self.waiting.drain(..count).collect();
        let cas = Action::Cas {
            expected,
            put: put.clone(),
        };
        self.step = Step::Deciding(Flight {
            expected,
            put,
            carried,
            answers,
        });
        vec![cas]
    }

    /// Returns how many commands one conditional write carries. The first command always fits,
    /// regardless of its size.
    fn carried(&self) -> usize {
        let mut bytes = 0;
        let is_within = |(index, waiting): &(usize, &Waiting<R::Wish>)| {
            bytes += R::bytes(&waiting.wish);
            *index == 0 || bytes <= self.protocol.carried_bytes
        };
        let carried = self.waiting.iter().take(self.protocol.carried).enumerate();
        carried.take_while(is_within).count()
    }

    fn decided(&mut self, decision: Decision, context: &R::Context<'_>) -> Vec<Action<R>> {
        let Step::Deciding(flight) = std::mem::replace(&mut self.step, Step::Idle) else {
            return Vec::new();
        };
        match decision {
            Decision::Unknown if self.protocol.rules.keeps(Rule::UnknownIsSentAgain) => {
                let cas = Action::Cas {
                    expected: flight.expected,
                    put: flight.put.clone(),
                };
                let mut flight = flight;
                for one in &mut flight.carried {
                    one.may_be_done = true;
                }
                self.step = Step::Deciding(flight);
                vec![cas]
            }
            Decision::Applied | Decision::Unknown => {
                self.copy = Some(flight.put);
                let mut actions = told(flight.carried, flight.answers);
                actions.extend(self.go_on(context));
                actions
            }
            Decision::Refused => {
                let later = std::mem::replace(&mut self.waiting, flight.carried);
                self.waiting.extend(later);
                self.read()
            }
        }
    }
}

/// Pairs each response with the ticket that waits for it.
fn told<R: Register>(
    waiting: impl IntoIterator<Item = Waiting<R::Wish>>,
    answers: Vec<R::Answer>,
) -> Vec<Action<R>> {
    let tickets = waiting.into_iter().map(|one| one.ticket);
    tickets
        .zip(answers)
        .map(|(ticket, answer)| Action::Answer(ticket, answer))
        .collect()
}
