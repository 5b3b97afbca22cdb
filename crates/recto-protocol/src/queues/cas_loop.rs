//! Compare-and-set loop that changes one versioned cell. Only one conditional write is under way at
//! a time. It carries all waiting commands, so batches grow with the load, without a timer.
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
//! After each rejected write, the loop evaluates all commands again on the new value of the cell. A
//! random id in a command (of bodies, or of a claim) shows whether an earlier write has already
//! applied the command.

use std::fmt::Debug;
use std::hash::Hash;

use crate::queues::limits::Protocol;
use crate::queues::names::{Ticket, Version};
use crate::queues::rules::Rule;

/// Versioned cell: a stored value that changes only by conditional writes on its version.
pub trait Register: Clone + Debug + PartialEq + Eq + Hash + Send + Sync + 'static {
    /// Command to the cell.
    type Command: Clone + Debug + PartialEq + Eq + Hash + Send + 'static;
    /// Response of the cell to a command.
    type Response: Clone + Debug + PartialEq + Eq + Hash + Send + 'static;
    /// Inputs that the evaluation of a command needs besides the cell.
    type Context<'a>;

    /// Returns the approximate bytes that a command adds to a conditional write, including rows
    /// written with it.
    fn bytes(command: &Self::Command) -> u64 {
        let _ = command;
        0
    }

    /// Returns the version of the cell.
    fn version(&self) -> Version;

    /// Increases the version of the cell by 1.
    fn raise(&mut self);

    /// Executes a command on this value, and returns the response, which is valid once the new
    /// value is stored. If `was_sent`, an earlier write may have applied the command. If it did,
    /// the value must not change, and the response must be that of the earlier execution.
    fn work_out(
        &mut self,
        command: &Self::Command,
        was_sent: bool,
        context: &Self::Context<'_>,
    ) -> Self::Response;
}

/// Event that the caller reports to the compare-and-set loop [`Round`].
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Event<R: Register> {
    /// One or more new commands to the cell, each with the id of its waiting caller.
    Asked(Vec<(Ticket, R::Command)>),
    /// The caller has read this value of the cell.
    Read(R),
    /// The conditional write that puts this version ended with this outcome.
    Decided(Version, Decision),
}

/// Outcome of the conditional write of a versioned cell (changed by compare-and-set).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Decision {
    /// The write was applied.
    Applied,
    /// The write was not applied at its last sending, because the cell has another version.
    Refused,
    /// The outcome is unknown: the write may be applied, now or later, or was never sent.
    Unknown,
}

/// Action that the caller of the compare-and-set loop [`Round`] executes.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Action<R: Register> {
    /// Read the cell with serial consistency, until a read succeeds.
    Read,
    /// Replace the cell by `put` if its version is `expected`. If the write is repeated after an
    /// unknown outcome, pause first.
    Cas {
        /// Version that the cell must have; 0: the cell was never written.
        expected: Version,
        /// New value of the cell.
        put: R,
    },
    /// Give the response to the waiting caller with this id. Each caller gets exactly one response.
    Response(Ticket, R::Response),
}

/// Compare-and-set loop with which one process changes one versioned cell.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Round<R: Register> {
    copy: Option<R>,
    waiting: Vec<Waiting<R::Command>>,
    step: Step<R>,
    protocol: Protocol,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct Waiting<W> {
    ticket: Ticket,
    command: W,
    /// True if a conditional write with the command was sent, and its outcome is unknown.
    may_be_done: bool,
    /// True if the known value of the cell was read after the command arrived.
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
    carried: Vec<Waiting<R::Command>>,
    /// Responses to the commands, in the order of `carried`.
    responses: Vec<R::Response>,
}

impl<R: Register> Round<R> {
    /// Creates a loop for a cell whose value is not known yet.
    pub fn new(protocol: Protocol) -> Self {
        Self {
            copy: None,
            waiting: Vec::new(),
            step: Step::Idle,
            protocol,
        }
    }

    /// Returns the last known value of the cell, which another process may have changed since.
    pub fn copy(&self) -> Option<&R> {
        self.copy.as_ref()
    }

    /// Takes over a value of the cell that the caller has read for another reason. Ignores the
    /// value if it is not newer than the known one, or if a read or a write is under way.
    pub fn learn(&mut self, found: R) {
        let is_newer = |copy: &R| copy.version() < found.version();
        if self.is_idle() && self.copy.as_ref().is_none_or(is_newer) {
            self.copy = Some(found);
        }
    }

    /// Returns whether no command is waiting.
    pub fn is_idle(&self) -> bool {
        matches!(self.step, Step::Idle)
    }

    /// Withdraws the command of a caller that no longer waits. Returns true if the command was not
    /// sent and never will be. Otherwise the caller still gets its response.
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

    /// Handles an event, and returns the next actions of the caller.
    pub fn step(&mut self, event: Event<R>, context: &R::Context<'_>) -> Vec<Action<R>> {
        match (event, &self.step) {
            (Event::Asked(commands), _) => {
                let commands = commands.into_iter().map(|(ticket, command)| Waiting {
                    ticket,
                    command,
                    may_be_done: false,
                    is_fresh: false,
                });
                self.waiting.extend(commands);
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
        let responses: Vec<_> = self.waiting[..count]
            .iter()
            .map(|one| put.work_out(&one.command, one.may_be_done, context))
            .collect();
        if put == *copy {
            let is_stale = self.waiting[..count].iter().any(|one| !one.is_fresh);
            if is_stale && self.protocol.rules.keeps(Rule::AnsweredOnFreshCopy) {
                return self.read();
            }
            self.step = Step::Idle;
            let mut actions = told(self.waiting.drain(..count), responses);
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
            responses,
        });
        vec![cas]
    }

    /// Returns the number of waiting commands that the next conditional write carries. The first
    /// command is always carried, whatever its size.
    fn carried(&self) -> usize {
        let mut bytes = 0;
        let is_within = |(index, waiting): &(usize, &Waiting<R::Command>)| {
            bytes += R::bytes(&waiting.command);
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
                let mut actions = told(flight.carried, flight.responses);
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

/// Pairs each response with the id of the caller that waits for it.
fn told<R: Register>(
    waiting: impl IntoIterator<Item = Waiting<R::Command>>,
    responses: Vec<R::Response>,
) -> Vec<Action<R>> {
    let tickets = waiting.into_iter().map(|one| one.ticket);
    tickets
        .zip(responses)
        .map(|(ticket, response)| Action::Response(ticket, response))
        .collect()
}
