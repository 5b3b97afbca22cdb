//! One conditional write at a time of one register, carrying all that waits: load makes batches, no timer.
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
//! A wish is worked out anew after each refusal, on what is there. What it says of itself (a chunk, a claim id) shows
//! whether it was applied when it was sent before.

use std::fmt::Debug;
use std::hash::Hash;

use crate::queues::limits::Protocol;
use crate::queues::names::{Ticket, Version};
use crate::queues::rules::Rule;

/// What is changed by conditional writes on its version only.
pub trait Register: Clone + Debug + PartialEq + Eq + Hash + Send + Sync + 'static {
    /// What it may be asked.
    type Wish: Clone + Debug + PartialEq + Eq + Hash + Send + 'static;
    /// What is said of that.
    type Answer: Clone + Debug + PartialEq + Eq + Hash + Send + 'static;
    /// What wishes are worked out by, beside the register.
    type Context<'a>;

    /// About how many bytes a wish adds to a conditional write, and to what is put with it.
    fn bytes(wish: &Self::Wish) -> u64 {
        let _ = wish;
        0
    }

    /// The version of what is there.
    fn version(&self) -> Version;

    /// Makes it the next version.
    fn raise(&mut self);

    /// What a wish makes of the register, and the answer if that is applied. A wish that `was_sent` may have been
    /// applied already: then nothing is changed, and the answer is the same.
    fn work_out(&mut self, wish: &Self::Wish, was_sent: bool, context: &Self::Context<'_>) -> Self::Answer;
}

/// What happened.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Event<R: Register> {
    /// Somebody wants this, one at least, in this order.
    Asked(Vec<(Ticket, R::Wish)>),
    /// This is there.
    Read(R),
    /// The conditional write ended that puts this version.
    Decided(Version, Decision),
}

/// How a conditional write ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Decision {
    /// It is applied.
    Applied,
    /// It was not when it was sent last: the version is another one.
    Refused,
    /// It may be, now or later; or it was not sent.
    Unknown,
}

/// What is to be done.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Action<R: Register> {
    /// Read the register, serially, until it is read.
    Read,
    /// Put this, if this version is there. After an unknown outcome, with a pause.
    Cas {
        /// Of what is there; 0: null.
        expected: Version,
        /// What to put.
        put: R,
    },
    /// Tell whoever waits. Said once for each.
    Answer(Ticket, R::Answer),
}

/// The rounds of one register in one process.
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
    /// Whether it was in a conditional write of unknown outcome.
    may_be_done: bool,
    /// Whether the copy was read since it was asked.
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
    /// In the order of those.
    answers: Vec<R::Answer>,
}

impl<R: Register> Round<R> {
    /// Of a register of which nothing is known.
    pub fn new(protocol: Protocol) -> Self {
        Self {
            copy: None,
            waiting: Vec::new(),
            step: Step::Idle,
            protocol,
        }
    }

    /// What is known of the register: it may have changed since.
    pub fn copy(&self) -> Option<&R> {
        self.copy.as_ref()
    }

    /// Somebody read this, for whatever reason: it is what is known from now on, unless more is.
    pub fn learn(&mut self, found: R) {
        let is_newer = |copy: &R| copy.version() < found.version();
        if self.is_idle() && self.copy.as_ref().is_none_or(is_newer) {
            self.copy = Some(found);
        }
    }

    /// Whether nobody waits.
    pub fn is_idle(&self) -> bool {
        matches!(self.step, Step::Idle)
    }

    /// Nobody waits for this any longer. Whether it was not sent, and never will be; otherwise it will be answered.
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

    /// What is to be done about what happened.
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

    /// How many wishes one conditional write carries, the first one whatever it has.
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

/// The answers, each to who waits for it.
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
