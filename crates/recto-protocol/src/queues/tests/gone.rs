//! Tests of segments and body tables that a shard's manifest lists but that do not exist. Processes
//! may be late, and tables may be restored from different times.

use super::{HERE, SOURCE, TENURE, entry};
use crate::queues::{
    Address, BodyTable, Chunk, Entry, Fencing, Head, HeadCommand, HeadContext, HeadResponse, KeepAction,
    KeepEvent, Live, Log, LogResponse, LogRow, MoveAction, MoveEvent, Moved, Moving, Phase, Place, Protocol,
    Reach, Register, Rehoming, ReleaseAction, ReleaseEvent, Released, Releasing, Ring, Segment, SendAction,
    SendEvent, SendResponse, Sending, Settled, ShardAction, ShardEvent, State, StateCommand, StateResponse,
    Target,
};

const CHUNK: Chunk = Chunk(1);

/// Returns a manifest that was restored from a backup, and a segment that it lists although the
/// segment's cell belongs to another segment.
fn restored() -> (Segment, Live, Head) {
    let context = HeadContext {
        ring: 1,
        table: BodyTable(1),
        now: 0,
        protocol: Protocol::default(),
    };
    let mut head = Head::absent();
    let mut opened = HeadResponse::Done;
    for command in [HeadCommand::Fence(1), opening()] {
        opened = head.work_out(&command, false, &context);
    }
    match opened {
        HeadResponse::Open(segment, live) => (segment, live, head),
        other => panic!("{other:?}"),
    }
}

fn sending() -> Sending {
    Sending::new(
        HERE,
        TENURE,
        Reach::Near,
        CHUNK,
        [entry(1, 1)].into(),
        Protocol::default(),
    )
}

fn moving() -> Moving {
    Moving::new(
        SOURCE,
        None,
        (HERE, TENURE),
        CHUNK,
        entry(1, 1),
        Protocol::default(),
    )
}

fn opening() -> HeadCommand {
    HeadCommand::Open {
        reach: Reach::Near,
        tenure: TENURE,
        table: None,
    }
}

fn open() -> ShardAction {
    ShardAction::Head(vec![opening()])
}

#[test]
fn sending_ends_if_a_named_segment_is_missing() {
    let (segment, live, _) = restored();
    for gone in [
        vec![ShardEvent::Written, ShardEvent::Log(LogResponse::Gone)],
        vec![ShardEvent::TableGone],
    ] {
        let mut sending = sending();
        let mut hears = |event| sending.step(SendEvent::Shard(event));
        let opened = || ShardEvent::Head(HeadResponse::Open(segment, live));
        hears(opened());
        let asked = gone.into_iter().map(&mut hears).last();
        assert_eq!(asked, Some(SendAction::Shard(HERE, open())));
        assert_eq!(hears(opened()), SendAction::Response(SendResponse::Damaged));
    }
}

#[test]
fn reports_deleted_queues_to_senders_and_movers() {
    let told = || ShardEvent::Head(HeadResponse::NoQueue);
    let response = sending().step(SendEvent::Shard(told()));
    assert_eq!(response, SendAction::Response(SendResponse::NoQueue));
    let response = moving().step(MoveEvent::Shard(told()));
    assert_eq!(response, MoveAction::Over(Moved::NoQueue));
}

#[test]
fn reads_the_ring_for_an_absent_or_newer_head() {
    let commands = vec![HeadCommand::Fence(7), opening()];
    for response in [HeadResponse::Absent, HeadResponse::OldRing] {
        for (event, asked) in [
            (ShardEvent::Head(response), ShardAction::ReadRing),
            (ShardEvent::Ring(7), ShardAction::Head(commands.clone())),
        ] {
            let sent = sending().step(SendEvent::Shard(event.clone()));
            assert_eq!(sent, SendAction::Shard(HERE, asked.clone()));
            let moved = moving().step(MoveEvent::Shard(event));
            assert_eq!(moved, MoveAction::Shard(HERE, asked));
        }
    }
}

#[test]
fn moving_ends_if_a_named_segment_is_missing() {
    let (segment, live, _) = restored();
    for gone in [LogResponse::Gone, LogResponse::Unknown] {
        for address in [HERE, elsewhere()] {
            let mut moving = marked(Target {
                address,
                segment,
                chunk: CHUNK,
            });
            let mut hears = |event| moving.step(MoveEvent::Shard(event));
            hears(ShardEvent::Found(Some(live)));
            assert_eq!(
                hears(ShardEvent::Log(gone.clone())),
                MoveAction::Shard(HERE, open())
            );
            let found = hears(ShardEvent::Found(Some(live)));
            assert_eq!(found, MoveAction::Over(Moved::Damaged));
            // If the missing segment is in another shard, a segment with the same id in this shard
            // is a different one, so the move continues.
            let opened = hears(ShardEvent::Head(HeadResponse::Open(segment, live)));
            let is_damaged = opened == MoveAction::Over(Moved::Damaged);
            assert_eq!(is_damaged, address == HERE, "{opened:?}");
        }
    }
    let address = elsewhere();
    let mut moving = marked(Target {
        address,
        segment,
        chunk: CHUNK,
    });
    let mut hears = |event| moving.step(MoveEvent::Shard(event));
    hears(ShardEvent::Found(Some(live)));
    let find = MoveAction::Shard(address, ShardAction::Find(segment));
    assert_eq!(hears(ShardEvent::TableGone), find);
    let rehomed = Live {
        table: BodyTable(2),
        ..live
    };
    let write = ShardAction::Write {
        live: rehomed,
        segment,
        chunk: CHUNK,
    };
    let found = hears(ShardEvent::Found(Some(rehomed)));
    assert_eq!(found, MoveAction::Shard(address, write));
    let found = hears(ShardEvent::Found(Some(live)));
    assert_eq!(found, MoveAction::Over(Moved::Damaged));
}

fn elsewhere() -> Address {
    Address {
        place: Place(7),
        ..HERE
    }
}

/// Returns a move of a message whose source is already marked with `target`.
fn marked(target: Target) -> Moving {
    let mut moving = moving();
    let found = moving.step(MoveEvent::Source(StateResponse::Leaving(target, None)));
    let find = ShardAction::Find(target.segment);
    assert_eq!(found, MoveAction::Shard(target.address, find));
    moving
}

#[test]
fn a_mark_elsewhere_whose_segment_is_sealed_is_redirected_here() {
    let (segment, live, _) = restored();
    let sealed = HeadCommand::Sealed { segment, count: 4 };
    let both = ShardAction::Head(vec![sealed, opening()]);
    for (address, asked) in [(HERE, both), (elsewhere(), open())] {
        let from = Target {
            address,
            segment,
            chunk: Chunk(9),
        };
        let mut moving = marked(from);
        let mut hears = |event| moving.step(MoveEvent::Shard(event));
        hears(ShardEvent::Found(Some(live)));
        hears(ShardEvent::Written);
        let told = hears(ShardEvent::Log(LogResponse::Sealed(4)));
        assert_eq!(told, MoveAction::Shard(HERE, asked));
        let next = Segment(segment.0 + 1);
        let target = Target {
            address: HERE,
            segment: next,
            chunk: CHUNK,
        };
        let redirect = StateCommand::Redirect {
            seq: SOURCE.seq,
            from,
            target,
        };
        let opened = hears(ShardEvent::Head(HeadResponse::Open(next, live)));
        assert_eq!(opened, MoveAction::Source(SOURCE, redirect));
    }
}

#[test]
fn fencing_ends_if_a_named_segment_is_missing() {
    let (segment, live, head) = restored();
    let mut fencing = Fencing::new(live.table, 1, Protocol::default());
    let fenced = || KeepEvent::Head(HeadResponse::Done, head.clone());
    assert_eq!(fencing.step(fenced()), KeepAction::Seal(segment, live));
    let fence = KeepAction::Head(HeadCommand::Fence(1));
    assert_eq!(fencing.step(KeepEvent::Sealed(None)), fence);
    assert_eq!(fencing.step(fenced()), KeepAction::Damaged(segment));
}

#[test]
fn rehoming_ends_if_a_named_source_is_missing() {
    let (segment, live, _) = restored();
    let life = crate::queues::Life(1);
    let ring = |open: u32| Ring {
        version: 1,
        last: BodyTable(open),
        tables: [(BodyTable(open), Phase::Open { since: 0, life })].into(),
    };
    let begun = || {
        let mut rehoming = Rehoming::new(segment, live, Protocol::default());
        assert_eq!(rehoming.step(KeepEvent::Begin), KeepAction::ReadRing);
        let to = BodyTable(2);
        let copy = KeepAction::Copy { segment, live, to };
        assert_eq!(rehoming.step(KeepEvent::Ring(ring(2))), KeepAction::Find(segment));
        assert_eq!(rehoming.step(KeepEvent::Found(Some(live))), copy);
        rehoming
    };
    let elsewhere = Live {
        table: BodyTable(3),
        ..live
    };
    // The manifest that is read after the ring may name another table than the manifest that was read before.
    let in_target = Live {
        table: BodyTable(2),
        ..live
    };
    let copy_from_elsewhere = KeepAction::Copy {
        segment,
        live: elsewhere,
        to: BodyTable(2),
    };
    for (found, told) in [
        (Some(elsewhere), copy_from_elsewhere),
        (Some(in_target), KeepAction::Over),
        (None, KeepAction::Over),
    ] {
        let mut rehoming = Rehoming::new(segment, live, Protocol::default());
        rehoming.step(KeepEvent::Ring(ring(2)));
        assert_eq!(rehoming.step(KeepEvent::Found(found)), told);
    }
    for gone in [KeepEvent::SegmentGone, KeepEvent::TableGone(live.table)] {
        for (found, told) in [
            (Some(live), KeepAction::Damaged(segment)),
            (Some(elsewhere), KeepAction::Over),
            (None, KeepAction::Over),
        ] {
            let mut rehoming = begun();
            assert_eq!(rehoming.step(gone.clone()), KeepAction::Find(segment));
            assert_eq!(rehoming.step(KeepEvent::Found(found)), told);
        }
    }
    // The body table that should get the copies is missing, so the ring is read again. The copy
    // goes to its open table. If that is the missing table, the copy is postponed.
    let mut rehoming = begun();
    let gone = || KeepEvent::TableGone(BodyTable(2));
    assert_eq!(rehoming.step(gone()), KeepAction::ReadRing);
    let to = BodyTable(3);
    let copy = KeepAction::Copy { segment, live, to };
    assert_eq!(rehoming.step(KeepEvent::Ring(ring(3))), KeepAction::Find(segment));
    assert_eq!(rehoming.step(KeepEvent::Found(Some(live))), copy);
    let mut rehoming = begun();
    rehoming.step(gone());
    assert_eq!(rehoming.step(KeepEvent::Ring(ring(2))), KeepAction::Over);
}

/// Returns the sealed log of a segment into which two messages were moved, and its state, in which
/// both are resolved.
fn received(segment: Segment) -> (Log, State) {
    let origin = |seq| Some(crate::queues::Origin { seq, ..SOURCE });
    let moved = [0, 1].map(|seq| Entry {
        origin: origin(seq),
        ..entry(seq.into(), 1)
    });
    let mut log = Log::absent();
    log.segment = segment;
    log.is_sealed = true;
    log.rows.push(
        0,
        LogRow {
            chunk: CHUNK,
            entries: moved.into(),
        },
    );
    let mut state = State::absent();
    state.segment = segment;
    (0..2).for_each(|seq| state.resolved.add(seq));
    (log, state)
}

#[test]
fn releasing_goes_on_where_it_failed() {
    let segment = Segment(4);
    let (log, mut state) = received(segment);
    let settles = |seq| {
        let target = Target {
            address: HERE,
            segment,
            chunk: CHUNK,
        };
        ReleaseAction::Source(
            crate::queues::Origin { seq, ..SOURCE },
            StateCommand::Left { seq, target },
        )
    };
    let release = ReleaseAction::Head(HeadCommand::Release(Settled {
        segment,
        resolved: 2,
        has_ids: false,
    }));
    let mut releasing = Releasing::new(HERE, segment, &log, &state, Protocol::default());
    // `Begin` repeats a command that failed. A command that got a response is not repeated.
    for (event, action) in [
        (ReleaseEvent::Begin, settles(1)),
        (ReleaseEvent::Begin, settles(1)),
        (ReleaseEvent::Source(StateResponse::Stale), settles(0)),
        (ReleaseEvent::Begin, settles(0)),
        (ReleaseEvent::Source(StateResponse::Gone), release),
        (ReleaseEvent::Begin, release),
        (
            ReleaseEvent::Head(HeadResponse::NotYet),
            ReleaseAction::Over(Released::NotYet),
        ),
        (
            ReleaseEvent::Head(HeadResponse::Done),
            ReleaseAction::Over(Released::Done),
        ),
    ] {
        assert_eq!(releasing.step(event.clone()), action, "{event:?}");
    }
    // A segment with unresolved messages is not released. A purge first resolves them.
    state.resolved = crate::queues::Resolved::default();
    let mut releasing = Releasing::new(HERE, segment, &log, &state, Protocol::default());
    assert_eq!(
        releasing.step(ReleaseEvent::Begin),
        ReleaseAction::Over(Released::NotYet)
    );
    let mut purging = Releasing::purging(HERE, segment, &log, &state, Protocol::default());
    let purge = ReleaseAction::State(StateCommand::Purge { count: 2 });
    assert_eq!(purging.step(ReleaseEvent::Begin), settles(1));
    assert_eq!(
        purging.step(ReleaseEvent::Source(StateResponse::Done)),
        settles(0)
    );
    assert_eq!(purging.step(ReleaseEvent::Source(StateResponse::Done)), purge);
    assert_eq!(purging.step(ReleaseEvent::Begin), purge);
    let target = Target {
        address: HERE,
        segment,
        chunk: Chunk(1),
    };
    let leaving = StateResponse::Leaving(target, None);
    let not_yet = ReleaseAction::Over(Released::NotYet);
    assert_eq!(
        purging.step(ReleaseEvent::State(leaving)),
        not_yet,
        "that is gone on with first"
    );
    assert_eq!(purging.step(ReleaseEvent::State(StateResponse::Done)), release);
    let mut clearing = Releasing::clearing(HERE, segment, &log, &state, Protocol::default());
    clearing.step(ReleaseEvent::Source(StateResponse::Done));
    let clear = ReleaseAction::State(StateCommand::Clear { count: 2 });
    assert_eq!(clearing.step(ReleaseEvent::Source(StateResponse::Done)), clear);
    // A purge releases neither an open segment, nor a segment whose cell still has the log of the
    // previous segment.
    let (before, _) = received(Segment(segment.0 - 1));
    let open = Log {
        is_sealed: false,
        ..log
    };
    for log in [open, before] {
        let mut purging = Releasing::purging(HERE, segment, &log, &state, Protocol::default());
        let told = purging.step(ReleaseEvent::Begin);
        assert_eq!(told, ReleaseAction::Over(Released::NotYet));
    }
}

#[test]
fn releasing_ends_if_a_named_segment_is_missing() {
    let (segment, live, _) = restored();
    let (log, state) = received(segment);
    let (later_log, later_state) = received(Segment(segment.0 + 1));
    for (log, state) in [(&later_log, &state), (&log, &later_state)] {
        for (found, told) in [(Some(live), Released::Damaged), (None, Released::Done)] {
            let mut releasing = Releasing::new(HERE, segment, log, state, Protocol::default());
            assert_eq!(releasing.step(ReleaseEvent::Begin), ReleaseAction::Find(segment));
            assert_eq!(
                releasing.step(ReleaseEvent::Found(found)),
                ReleaseAction::Over(told)
            );
        }
    }
    let mut purging = Releasing::purging(HERE, segment, &log, &state, Protocol::default());
    let gone = purging.step(ReleaseEvent::State(StateResponse::Gone));
    assert_eq!(gone, ReleaseAction::Find(segment));
}
