//! Models of the segments of one shard, with senders, workers, and keepers (processes that release
//! segments). Segments reuse versioned cells.

use super::worker::Act;
use super::world::Config;
use super::{HELD, Q1, Q3, Q4, Q6, Q7, TWICE, usually};
use crate::queues::rules::Rule;

/// Returns a model with two senders, and segments (message batches) with room for one message.
fn sending() -> Config {
    Config {
        senders: vec![vec![1], vec![2]],
        losses: usually(1, 2),
        crashes: usually(1, 2),
        ..Config::default()
    }
}

/// Returns a model with two workers. One may consider the other dead.
fn working() -> Config {
    Config {
        senders: vec![vec![1]],
        workers: vec![1, 2],
        losses: usually(1, 2),
        ticks: 1,
        ..Config::default()
    }
}

/// Returns a model with two workers that first do `act` with a message. One may consider the other
/// dead.
fn giving_back(act: Act) -> Config {
    Config {
        workers: vec![2, 2],
        acts: vec![act],
        ..working()
    }
}

/// Returns a model with two messages, of which only one at a time can be pending (claimed or given
/// back).
fn full_of_pending() -> Config {
    Config {
        senders: vec![vec![1, 2]],
        workers: vec![2, 2],
        segment_messages: 2,
        pending: 1,
        losses: usually(0, 1),
        ..working()
    }
}

/// Returns a model in which two segments use the same versioned cells, one after the other.
fn recurring() -> Config {
    Config {
        senders: vec![vec![1], vec![2]],
        workers: vec![2],
        keepers: vec![2],
        seals: true,
        registers: 1,
        segment_messages: 2,
        losses: usually(0, 1),
        ticks: 1,
        ..Config::default()
    }
}

/// Returns the model of `recurring` in which a response is lost, and no worker receives the second
/// message.
fn recurring_in_doubt() -> Config {
    Config {
        workers: vec![1],
        losses: 1,
        lossy: 1,
        ..recurring()
    }
}

/// Returns a model in which a full segment is released while a second segment is open.
fn releasing() -> Config {
    Config {
        senders: vec![vec![1, 2]],
        workers: vec![1],
        keepers: vec![2],
        losses: 1,
        ..Config::default()
    }
}

/// Returns a model with three messages of one group, in two segments (message batches).
fn ordered() -> Config {
    Config {
        senders: vec![vec![1, 2, 3]],
        workers: vec![2, 2],
        segment_messages: 2,
        is_ordered: true,
        ticks: usually(0, 1),
        ..Config::default()
    }
}

/// Returns the model of `ordered` with two messages in one segment (message batch).
fn ordered_in_one() -> Config {
    Config {
        senders: vec![vec![1, 2]],
        ticks: 1,
        ..ordered()
    }
}

/// Returns a model in which two messages have the same deduplication id, and a process seals the
/// segment of the first.
fn deduplicating() -> Config {
    Config {
        senders: vec![vec![1], vec![2]],
        keepers: vec![1],
        seals: true,
        deduplicates: true,
        losses: usually(0, 1),
        ..Config::default()
    }
}

/// Returns the model of `deduplicating` with one sender, in which the segment of the first message
/// is released.
fn deduplicating_released() -> Config {
    Config {
        senders: vec![vec![1, 2]],
        workers: vec![1],
        keepers: vec![2],
        ..deduplicating()
    }
}

#[test]
fn senders_fill_segments() {
    sending().holds("two senders", &[]);
}

#[test]
fn workers_overtake_each_other() {
    working().holds("two workers", &["all done"]);
}

#[test]
fn returned_messages_are_received_again() {
    for act in [Act::Nack, Act::Extend, Act::GiveBack] {
        let seen: &[_] = match act {
            Act::GiveBack => &["all done"],
            _ => &["all done", "received again"],
        };
        giving_back(act).holds(&format!("two workers, {act:?}"), seen);
    }
}

#[test]
fn the_rest_waits_at_the_limit_of_pending_messages() {
    full_of_pending().holds(
        "two workers, one pending",
        &["all done", "as much is pending as may be"],
    );
}

#[test]
fn registers_recur() {
    let seen = ["all done", "a register has its second segment", "full"];
    recurring().holds("a register recurs", &seen);
    recurring_in_doubt().holds("a register recurs, an answer lost", &["unknown"]);
}

#[test]
fn segments_are_released() {
    releasing().holds("a segment is released", &["released"]);
}

#[test]
fn groups_stay_in_order() {
    ordered().holds("a group in two segments", &["all done"]);
    ordered_in_one().holds("a group in one segment", &["all done"]);
}

#[test]
fn duplicates_are_known() {
    deduplicating().holds("a duplicate", &["duplicate"]);
    deduplicating_released().holds("a duplicate, one released", &["duplicate", "released"]);
}

#[test]
fn without_sending_again() {
    sending().breaks(Rule::UnknownIsSentAgain, Q1);
}

#[test]
fn without_bodies_first() {
    sending().breaks(Rule::BodiesFirst, Q1);
}

#[test]
fn without_the_chunk() {
    sending().breaks(Rule::SettledByChunk, TWICE);
}

#[test]
fn without_a_seal() {
    deduplicating().breaks(Rule::SealedIsFinal, Q3);
}

#[test]
fn without_setting_up_by_version() {
    sending().breaks(Rule::SetUpByVersion, Q1);
}

#[test]
fn without_doubt_of_what_is_gone() {
    recurring_in_doubt().breaks(Rule::GoneIsUnknown, TWICE);
}

#[test]
fn without_sealing_before_release() {
    releasing().breaks(Rule::ReleaseOnlySealed, Q4);
}

#[test]
fn without_resolving_before_release() {
    releasing().breaks(Rule::ReleaseOnlyResolved, Q1);
}

#[test]
fn without_a_fence_of_receipts() {
    working().breaks(Rule::ReceiptFencedByClaim, Q6);
}

#[test]
fn without_a_fence_of_what_is_given_back() {
    for act in [Act::Nack, Act::GiveBack] {
        giving_back(act).breaks(Rule::ReceiptFencedByClaim, HELD);
    }
}

#[test]
fn without_knowing_logs_to_their_end() {
    ordered().breaks(Rule::EarlierLogsSealed, Q7);
}

#[test]
fn without_the_logs_before() {
    deduplicating().breaks(Rule::EarlierLogsOfWindow, TWICE);
}

#[test]
fn without_rest() {
    deduplicating_released().breaks(Rule::RegistersRest, TWICE);
}
