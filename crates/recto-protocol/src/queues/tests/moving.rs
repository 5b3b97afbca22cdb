//! Models of moves: two processes move the message of a sealed segment, while workers receive
//! messages, and another process releases segments.

use super::world::Config;
use super::{HERE, Q2, SOURCE, TENURE, THERE, TWICE, entry, usually};
use crate::queues::rules::Rule;
use crate::queues::{
    Address, BodyTable, Chunk, HeadCommand, HeadResponse, Live, LogCommand, LogResponse, MoveAction,
    MoveEvent, Moved, Moving, Placed, Protocol, Reach, Received, RegisterNumber, Segment, Shard, ShardAction,
    ShardEvent, StateCommand, StateResponse, Target,
};

/// Returns a model with two processes that move the message (movers).
fn moving() -> Config {
    Config {
        movers: 2,
        losses: 1,
        crashes: usually(0, 1),
        ..Config::default()
    }
}

/// Returns a model with two movers, and a sender that may fill the target segment (message batch).
fn moving_to_what_is_full() -> Config {
    Config {
        senders: vec![vec![2]],
        losses: usually(0, 1),
        ..moving()
    }
}

/// Returns a model in which a mover stopped halfway. A worker acknowledges the message in its
/// target, and the target segment is released. Then another mover continues the move.
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

/// Returns a model in which a mover stopped halfway, and the target segment is purged. Then another
/// mover continues the move.
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

/// Returns a model with two movers that move the message to different shards. Each may continue the
/// move of the other, by the mark in the source.
fn moving_apart() -> Config {
    Config {
        moves_apart: true,
        ..moving()
    }
}

/// Returns the model of `moving_apart` in which the segment of the second shard, which may contain
/// the message, is purged.
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

/// Returns a model with a mover, a worker, and a process that purges the source segment.
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

/// Returns a model with a mover and two workers. A worker may be so late that its claim ends.
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
    let chunk = Chunk(1);
    let target = Target {
        address: HERE,
        segment: Segment(2),
        chunk,
    };
    let mut moving = Moving::new(
        SOURCE,
        None,
        (HERE, TENURE),
        chunk,
        entry(1, 1),
        Protocol::default(),
    );
    moving.step(MoveEvent::Source(StateResponse::Leaving(target, None)));
    let placed = vec![Placed::Duplicate(crate::queues::MessageId(1))];
    let action = moving.step(MoveEvent::Shard(ShardEvent::Log(LogResponse::Appended(placed))));
    assert_eq!(action, MoveAction::Over(Moved::NotNow));
}

/// Checks that a move reports whether the message was resolved before this process appended it.
#[test]
fn reports_messages_that_were_resolved_before() {
    let begun = || {
        Moving::new(
            SOURCE,
            None,
            (HERE, TENURE),
            Chunk(1),
            entry(1, 1),
            Protocol::default(),
        )
    };
    let target = Target {
        address: HERE,
        segment: Segment(2),
        chunk: Chunk(1),
    };
    for response in [StateResponse::Done, StateResponse::Gone] {
        let mut moving = begun();
        let resolved = moving.step(MoveEvent::Source(response.clone()));
        assert_eq!(resolved, MoveAction::Over(Moved::AlreadyResolved));
        let mut moving = begun();
        moving.step(MoveEvent::Source(StateResponse::Leaving(target, None)));
        let appended = LogResponse::Appended(vec![Placed::At(0)]);
        let left = StateCommand::Left { seq: 0, target };
        let asked = moving.step(MoveEvent::Shard(ShardEvent::Log(appended)));
        assert_eq!(asked, MoveAction::Source(SOURCE, left));
        let moved = moving.step(MoveEvent::Source(response));
        assert_eq!(moved, MoveAction::Over(Moved::Done));
    }
}

/// Checks that a process continues only moves of its own kind. A message that is moved within its shard keeps
/// its number of receives. A message that is moved to another shard does not keep it. A process that makes
/// moves of one kind therefore does not continue a move of the other kind.
#[test]
fn a_mark_is_gone_on_with_as_it_was_meant() {
    let received = Some(Received {
        attempts: 2,
        first: 5,
        until: 9,
    });
    let there = Address {
        shard: Shard(1),
        ..HERE
    };
    let begun = |to: Address| {
        Moving::new(
            SOURCE,
            None,
            (to, TENURE),
            Chunk(1),
            entry(1, 1),
            Protocol::default(),
        )
    };
    let live = Live {
        register: RegisterNumber(1),
        table: BodyTable(0),
        reach: Reach::Far,
        count: None,
    };
    let marked = |address| {
        let (segment, chunk) = (Segment(2), Chunk(1));
        let target = Target {
            address,
            segment,
            chunk,
        };
        MoveEvent::Source(StateResponse::Leaving(target, received))
    };
    // Returns the log entry that a move appends to the target segment.
    let entry_of = |mut moving: Moving, address| {
        moving.step(marked(address));
        moving.step(MoveEvent::Shard(ShardEvent::Found(Some(live))));
        match moving.step(MoveEvent::Shard(ShardEvent::Written)) {
            MoveAction::Shard(_, ShardAction::Log { command, .. }) => match command {
                LogCommand::Append { entries, .. } => entries[0],
                LogCommand::Seal => panic!("nothing is sealed"),
            },
            other => panic!("{other:?}"),
        }
    };
    assert_eq!(entry_of(begun(HERE).on(Reach::Far), HERE).received, received);
    assert_eq!(entry_of(begun(there), there).received, None, "it begins anew");
    let not_now = MoveAction::Over(Moved::NotNow);
    assert_eq!(begun(HERE).on(Reach::Far).step(marked(there)), not_now);
    assert_eq!(begun(there).step(marked(HERE)), not_now);
    // Check the command that opens the target segment, and then the command that marks the source.
    let mut moving = begun(HERE).on(Reach::Far);
    let asked = moving.step(MoveEvent::Begin);
    assert!(matches!(
        asked,
        MoveAction::Shard(HERE, ShardAction::Head(commands))
            if matches!(commands[..], [HeadCommand::Open { reach: Reach::Far, .. }])
    ));
    let open = HeadResponse::Open(Segment(2), live);
    let asked = moving.step(MoveEvent::Shard(ShardEvent::Head(open)));
    assert!(matches!(
        asked,
        MoveAction::Source(SOURCE, StateCommand::MoveOn { seq: 0, .. })
    ));
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
fn a_message_is_moved_on_once() {
    let on = |config| Config {
        goes_on: true,
        ..config
    };
    on(moving_to_what_is_full()).holds("two who move on, and a sender", &["moved", "redirected"]);
    on(moving_and_releasing()).holds("one who moves on, a segment released", &["moved", "released"]);
    on(moving_and_working()).holds("one who moves on, and workers", &["moved", "all acked"]);
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
fn a_moved_and_purged_message_does_not_reappear() {
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
