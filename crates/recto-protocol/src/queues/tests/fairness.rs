//! Tests of fairness: messages that always fail do not prevent the delivery of others. The tests
//! repeatedly claim messages of one segment.

use std::collections::BTreeMap;

use proptest::prelude::*;

use super::{entry, state_context};
use crate::queues::limits::{LEASE_MARGIN_MICROS, Protocol};
use crate::queues::rules::{Rule, Rules};
use crate::queues::{
    Chunk, ClaimId, Clock, Delivery, Entry, Fingerprint, Leases, Log, LogRow, Micros, Order, Register,
    Segment, Seq, State, StateCommand, StateContext, StateResponse,
};

const NEW: &str =
    "half of the messages of a claim, and at least one, were never received, if there are so many";
const IN_TURN: &str = "no failed message comes twice before each other that was due came";
const ORDERED: &str = "a group is received in order, one message at a time";
const ALL: &str = "each message is received in time";
/// Time for which a claim is valid, in microseconds.
const VISIBILITY: Micros = 30;

/// Step of a test: a pause, and then a claim of at most `most` messages. Failed messages can be
/// received again after `delay` microseconds; `None`: they are never given back.
#[derive(Debug, Clone, Copy)]
struct Step {
    most: u16,
    pause: Micros,
    delay: Option<Micros>,
}

/// Segment of a test, and its deliveries so far.
struct Run<'a> {
    /// For each message, whether it fails whenever it is received.
    fails: &'a [bool],
    is_ordered: bool,
    log: Log,
    state: State,
    now: Micros,
    protocol: Protocol,
    /// For each failed message, the messages that were also due when it was last received, and have
    /// not been received since.
    passed_over: BTreeMap<Seq, Vec<Seq>>,
}

impl<'a> Run<'a> {
    fn new(fails: &'a [bool], groups: Option<u128>, without: Option<Rule>) -> Self {
        let entries = (0..fails.len() as u128).map(|id| Entry {
            group: groups.map(|groups| Fingerprint(id % groups)),
            ..entry(id, 1)
        });
        let mut log = Log::absent();
        log.segment = Segment(1);
        log.is_sealed = true;
        let (chunk, entries) = (Chunk(1), entries.collect());
        log.rows.push(0, LogRow { chunk, entries });
        Self {
            fails,
            is_ordered: groups.is_some(),
            log,
            state: State::absent(),
            now: 0,
            protocol: Protocol {
                rules: Rules::without([without, None]),
                ..Protocol::default()
            },
            passed_over: BTreeMap::new(),
        }
    }

    fn ask(&mut self, command: StateCommand) -> StateResponse {
        let (leases, order) = (Leases::default(), Order::default());
        let context = StateContext {
            order: self.is_ordered.then_some(&order),
            clock: Clock {
                wall: self.now,
                monotonic: 0,
            },
            ..state_context(&self.log, &leases, self.protocol)
        };
        self.state.work_out(&command, false, &context)
    }

    fn is_resolved(&self, seq: Seq) -> bool {
        self.state.resolved().has(seq)
    }

    /// Returns whether all earlier messages of the same group are resolved (completed).
    fn is_first(&self, seq: Seq) -> bool {
        let group = |seq: Seq| self.log.message(seq).and_then(|(_, entry)| entry.group);
        !self.is_ordered || (0..seq).all(|other| self.is_resolved(other) || group(other) != group(seq))
    }

    /// Returns the positions of the messages that can be received: the new ones, and the failed
    /// ones.
    fn receivable(&self) -> (Vec<Seq>, Vec<Seq>) {
        let all = (0..self.log.next()).filter(|seq| !self.is_resolved(*seq) && self.is_first(*seq));
        let is_due = |seq: &Seq| {
            self.state.pending().get(seq).is_none_or(|pending| {
                let margin = match pending.standing {
                    crate::queues::Standing::Claimed => LEASE_MARGIN_MICROS,
                    _ => 0,
                };
                pending.until + margin <= self.now
            })
        };
        all.filter(is_due)
            .partition(|seq| !self.state.pending().contains_key(seq))
    }

    /// Executes a step. Returns the property that its claim violates; `None` if it violates none.
    fn takes(&mut self, number: usize, step: Step) -> Option<&'static str> {
        self.now += step.pause;
        let (new, failed) = self.receivable();
        let claim = ClaimId(number as u128 + 1);
        let claimed = self.ask(StateCommand::Claim {
            claim,
            most: step.most,
            until: self.now + VISIBILITY,
            failed_surplus: 0,
        });
        let StateResponse::Claimed(deliveries) = claimed else {
            return Some(ALL);
        };
        let taken: Vec<Seq> = deliveries.iter().map(|delivery| delivery.seq).collect();
        if taken.len() < usize::from(step.most).min(new.len() + failed.len()) {
            return Some(ALL);
        }
        if !taken.iter().all(|seq| new.contains(seq) || failed.contains(seq)) {
            return Some(ORDERED);
        }
        let taken_new = taken.iter().filter(|seq| new.contains(seq)).count();
        if taken_new < new.len().min(taken.len().div_ceil(2)) {
            return Some(NEW);
        }
        for passed_over in self.passed_over.values_mut() {
            passed_over.retain(|seq| !taken.contains(seq));
        }
        let left: Vec<_> = failed
            .iter()
            .copied()
            .filter(|seq| !taken.contains(seq))
            .collect();
        for seq in taken.iter().filter(|seq| failed.contains(seq)) {
            let passed_over = self.passed_over.insert(*seq, left.clone());
            if passed_over.is_some_and(|passed_over| !passed_over.is_empty()) {
                return Some(IN_TURN);
            }
        }
        self.settle(&deliveries, step);
        None
    }

    fn settle(&mut self, deliveries: &[Delivery], step: Step) {
        // Advance the clock, because messages are processed after they are claimed.
        self.now += 1;
        for Delivery { seq, claim, .. } in deliveries.iter().copied() {
            if !self.fails[usize::from(seq)] {
                self.passed_over.remove(&seq);
                self.ask(StateCommand::Ack { seq, claim });
            } else if let Some(delay) = step.delay {
                let until = self.now + delay;
                self.ask(StateCommand::Nack { seq, claim, until });
            }
        }
    }

    /// Executes these steps, and then further claims. Returns the property that a claim violates;
    /// `None` if none does.
    fn ends(mut self, steps: &[Step]) -> Option<&'static str> {
        for (number, step) in steps.iter().enumerate() {
            if let Some(broken) = self.takes(number, *step) {
                return Some(broken);
            }
        }
        // Each further claim must get a new message, as long as there is one.
        let last = Step {
            most: 1,
            pause: 1,
            delay: Some(0),
        };
        for number in 0..self.fails.len() {
            if let Some(broken) = self.takes(steps.len() + number, last) {
                return Some(broken);
            }
        }
        (!self.receivable().0.is_empty()).then_some(ALL)
    }
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let over = VISIBILITY + LEASE_MARGIN_MICROS;
    let pause = prop_oneof![4 => Just(1), 4 => 2..40_i64, 1 => Just(over)];
    let delay = prop_oneof![3 => Just(Some(0)), 2 => (0..60_i64).prop_map(Some), 1 => Just(None)];
    let step = (1..7_u16, pause, delay);
    let step = step.prop_map(|(most, pause, delay)| Step { most, pause, delay });
    proptest::collection::vec(step, 0..60)
}

proptest! {
    #[test]
    fn serves_new_and_failed_messages(
        fails in (0..=4_u8).prop_flat_map(|share| {
            let share = f64::from(share) / 4.0;
            proptest::collection::vec(proptest::bool::weighted(share), 0..40)
        }),
        groups in proptest::option::of(1..9_u128),
        steps in steps(),
    ) {
        prop_assert_eq!(Run::new(&fails, groups, None).ends(&steps), None);
    }
}

/// Checks that the property `broken` is violated without `rule`, in a segment with three failing
/// messages and one that succeeds.
fn breaks(rule: Rule, broken: &str) {
    let fails = [true, true, true, false];
    let step = |most| Step {
        most,
        pause: 1,
        delay: Some(0),
    };
    let steps = [step(3), step(2), step(2), step(2)];
    assert_eq!(Run::new(&fails, None, None).ends(&steps), None);
    assert_eq!(Run::new(&fails, None, Some(rule)).ends(&steps), Some(broken));
}

#[test]
fn without_new_messages_in_each_claim() {
    breaks(Rule::NewWithFailed, NEW);
}

#[test]
fn without_the_order_of_failed_messages() {
    breaks(Rule::FailedByDue, IN_TURN);
}
