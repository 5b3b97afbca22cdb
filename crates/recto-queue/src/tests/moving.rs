//! Two who move a message of a sealed segment, workers who receive it here or there, and who releases segments.

use super::world::Config;
use super::{Q2, THERE, TWICE, entry, usually};
use crate::rules::Rule;
use crate::{LogAnswer, MoveAction, MoveEvent, Moved, Moving, Placed, ShardEvent, StateAnswer, Target};

/// Two movers.
fn moving() -> Config {
    Config {
        movers: 2,
        losses: 1,
        crashes: usually(0, 1),
        ..Config::default()
    }
}

/// Two movers, and a sender that may fill the segment they move to.
fn moving_to_what_is_full() -> Config {
    Config {
        senders: vec![vec![2]],
        losses: usually(0, 1),
        ..moving()
    }
}

/// A mover stopped half-way; the message is received and acked where it came, and its segment is released; another mover
/// goes on.
fn moving_and_releasing() -> Config {
    Config {
        movers: 1,
        is_half_moved: true,
        workers: vec![1],
        keepers: vec![usually(1, 2)],
        seals: true,
        losses: usually(0, 1),
        ..moving()
    }
}

/// A mover stopped half-way; the segment that the message came to is purged; another mover goes on.
fn moving_and_purging() -> Config {
    Config {
        movers: 1,
        is_half_moved: true,
        keepers: vec![1],
        seals: true,
        purges: true,
        losses: usually(0, 1),
        ..moving()
    }
}

/// Two who move the message to two shards, of whom one may go on with the other's mark.
fn moving_apart() -> Config {
    Config {
        moves_apart: true,
        ..moving()
    }
}

/// The same, and the segment of the other shard that the message may have come to is purged.
fn moving_apart_and_purging() -> Config {
    Config {
        keepers: vec![1],
        kept: THERE,
        seals: true,
        purges: true,
        losses: usually(0, 1),
        ..moving_apart()
    }
}

/// A mover, a worker, and a keeper that purges the segment which the message leaves.
fn moving_and_purging_the_source() -> Config {
    Config {
        movers: 1,
        workers: vec![1],
        keepers: vec![1],
        purges: true,
        purges_source: true,
        losses: usually(0, 1),
        ..moving()
    }
}

/// A mover, and a worker that is late.
fn moving_and_working() -> Config {
    Config {
        movers: 1,
        workers: vec![1, 1],
        ticks: 1,
        losses: usually(0, 1),
        ..moving()
    }
}

#[test]
fn a_message_is_moved_once() {
    moving().holds("two movers", &["moved"]);
    moving_to_what_is_full().holds("two movers and a sender", &["moved", "redirected"]);
}

#[test]
fn a_message_with_a_deduplication_id_is_moved() {
    let moving = Config {
        movers: 1,
        deduplicates: true,
        ..moving()
    };
    moving.holds("a mover, a deduplication id", &["moved"]);
}

#[test]
fn a_message_that_does_not_stand_in_the_target_is_not_resolved() {
    let chunk = crate::Chunk(1);
    let target = Target {
        address: super::HERE,
        segment: crate::Segment(2),
        chunk,
    };
    let mut moving = Moving::new(
        super::SOURCE,
        None,
        (super::HERE, super::TENURE),
        chunk,
        entry(1, 1),
        crate::Protocol::default(),
    );
    moving.step(MoveEvent::Source(StateAnswer::Leaving(target)));
    let placed = vec![Placed::Duplicate(crate::MessageId(1))];
    let action = moving.step(MoveEvent::Shard(ShardEvent::Log(LogAnswer::Appended(placed))));
    assert_eq!(action, MoveAction::Over(Moved::NotNow));
}

#[test]
fn a_message_is_moved_once_though_its_segment_is_released() {
    moving_and_releasing().holds("a mover, a segment released", &["moved", "released", "all acked"]);
}

#[test]
fn a_message_that_was_moved_and_purged_does_not_come_again() {
    moving_and_purging().holds("a mover, a segment purged", &["released"]);
}

#[test]
fn a_message_that_leaves_is_not_purged() {
    moving_and_purging_the_source().holds("a mover, its segment purged", &["moved", "released", "all acked"]);
}

#[test]
fn without_keeping_what_leaves() {
    moving_and_purging_the_source().breaks(Rule::PurgeKeepsWhatLeaves, Q2);
}

#[test]
fn without_settling_sources_of_what_is_purged() {
    moving_and_purging().breaks(Rule::OriginsSettledFirst, TWICE);
}

#[test]
fn a_message_is_moved_beside_a_worker() {
    moving_and_working().holds("a mover and workers", &["moved", "all acked"]);
}

#[test]
fn a_message_that_two_move_to_two_shards_comes_to_one() {
    moving_apart().holds("two movers to two shards", &["moved", "moved to another shard"]);
}

#[test]
fn a_message_that_was_moved_to_another_shard_and_purged_there_does_not_come_again() {
    moving_apart_and_purging().holds("two movers, another shard purged", &["released"]);
}

#[test]
fn without_settling_sources_in_other_shards() {
    moving_apart_and_purging().breaks(Rule::OriginsSettledFirst, TWICE);
}

#[test]
fn without_asking_where_it_is_marked() {
    moving_apart().breaks(Rule::AskedWhereMarked, TWICE);
}

#[test]
fn without_a_mark_first() {
    moving().breaks(Rule::MarkedFirst, TWICE);
}

#[test]
fn without_deciding_on_the_mark() {
    moving_to_what_is_full().breaks(Rule::RedirectedFromMark, TWICE);
}

#[test]
fn without_a_seal_before_redirecting() {
    moving().breaks(Rule::RedirectedFromSealed, TWICE);
}

#[test]
fn without_settling_sources() {
    moving_and_releasing().breaks(Rule::OriginsSettledFirst, TWICE);
}

#[test]
fn without_a_fence_of_what_leaves() {
    moving_and_working().breaks(Rule::LeavingIsFenced, Q2);
}
