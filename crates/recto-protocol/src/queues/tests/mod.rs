//! Models that explore all possible events for a few messages, with the step functions of the
//! engine. For each rule of the protocol, a test disables the rule and finds the shortest path to a
//! broken invariant.
//!
//! `RECTO_TEST_SCALE=2`, or more, allows more faults at once. Then a model has millions of states,
//! and takes minutes.

#![expect(
    clippy::print_stderr,
    reason = "how much was looked at, and the ways in which things break"
)]

mod claims;
mod clearer;
mod driver;
mod fairness;
mod gone;
mod heads;
mod keeper;
mod lease;
mod mover;
mod moving;
mod places;
mod registry;
mod ring;
mod ring_keeper;
mod rounds;
mod rows;
mod segment;
mod sender;
mod states;
mod store;
mod stored;
mod stored_registry;
mod unit;
mod worker;
mod world;

use crate::queues::{
    Address, Clock, Entry, Fingerprint, Leases, Log, MessageId, Origin, Place, Protocol, QueueId, Segment,
    Shard, StateContext, Tenure,
};

const Q1: &str = "Q1: no confirmed message is lost";
const Q2: &str = "Q2: no message is claimed after its ack";
const Q3: &str = "Q3: a sealed log never changes";
const Q4: &str = "Q4: a segment leaves the list sealed and resolved, and never returns";
const Q5: &str = "Q5: no table is written in a new life while an earlier one may still be emptied";
const Q6: &str = "Q6: a stale receipt acks nothing";
const Q7: &str = "Q7: a group is received in order, one message at a time";
const HELD: &str = "no message is claimed that another has, whose claim holds";
const TWICE: &str = "nothing stands twice";
const OTHERS: &str = "nothing of one queue stands in another";

/// Shard in which all models have messages.
const HERE: Address = Address {
    place: Place(0),
    shard: Shard(0),
};
/// Epoch that began when the queue of the models got its slot.
const TENURE: Tenure = Tenure(1);
/// Second shard, which some models have.
const THERE: Address = Address {
    shard: Shard(1),
    ..HERE
};
/// Id of the queue of the models.
const QUEUE: QueueId = QueueId(1);
/// Location of the message that the models move.
const SOURCE: Origin = Origin {
    address: HERE,
    segment: Segment(1),
    seq: 0,
};

thread_local! {
    /// Number of log entries that were looked up, which tests of efficiency compare.
    pub(crate) static LOOKED_AT: std::cell::Cell<usize> = const { std::cell::Cell::new(0) };
}

/// Returns the number of faults that a model explores: `usual`, or `long` if `RECTO_TEST_SCALE` is
/// at least 2.
fn usually(usual: u8, long: u8) -> u8 {
    let scale = std::env::var("RECTO_TEST_SCALE").map_or(1, |text| text.parse().expect("a number"));
    if scale > 1 { long } else { usual }
}

/// Returns a log entry with this id and body size. Its other fields do not matter.
fn entry(id: u128, size: u32) -> Entry {
    Entry {
        id: MessageId(id),
        index: 0,
        size,
        sent: 0,
        not_before: 0,
        group: None,
        deduplication: None,
        origin: None,
        received: None,
        arrived: None,
    }
}

/// Returns the inputs of a state's commands for a process that gave no claims, at time 0.
fn state_context<'a>(log: &'a Log, leases: &'a Leases, protocol: Protocol) -> StateContext<'a> {
    StateContext {
        segment: Segment(1),
        log,
        most_attempts: None,
        expired_by: None,
        order: None,
        leases,
        clock: Clock::default(),
        protocol,
    }
}

/// Returns the log entry of a message of the models.
fn entry_of(message: u8, now: &world::Now<'_>) -> Entry {
    Entry {
        id: MessageId(u128::from(message)),
        index: 0,
        size: 1,
        sent: now.micros,
        not_before: now.micros,
        group: now.config.group(),
        deduplication: now.config.deduplicates.then_some(Fingerprint(2)),
        origin: None,
        received: None,
        arrived: None,
    }
}

/// Source texts of the models, which must have a test for each rule.
const MODELS: [&str; 8] = [
    include_str!("fairness.rs"),
    include_str!("heads.rs"),
    include_str!("lease.rs"),
    include_str!("moving.rs"),
    include_str!("places.rs"),
    include_str!("ring.rs"),
    include_str!("rounds.rs"),
    include_str!("segment.rs"),
];

/// Checks that each rule is disabled in some test, and that the design record names exactly these
/// tests.
#[test]
fn each_rule_has_a_test_and_the_decision_names_it() {
    let rules = include_str!("../rules.rs");
    let decision = include_str!("../../../../../docs/design/queues.md");
    recto_model::decisions::assert_each_rule_has_a_test(rules, 15, &MODELS, decision);
}
