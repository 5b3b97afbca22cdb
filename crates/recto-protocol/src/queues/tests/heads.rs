//! Tests of a shard's manifest, command by command: its live segments, and their versioned cells.

use crate::queues::limits::{LEASE_MARGIN_MICROS, Protocol, WINDOW_MICROS};
use crate::queues::rules::{Rule, Rules};
use crate::queues::{
    BodyTable, Head, HeadCommand, HeadContext, HeadResponse, Reach, Register, Segment, Settled, Tenure,
};

fn opening(reach: Reach) -> HeadCommand {
    let tenure = super::TENURE;
    HeadCommand::Open {
        reach,
        tenure,
        table: None,
    }
}

fn released(segment: Segment, resolved: u32) -> HeadCommand {
    HeadCommand::Release(Settled {
        segment,
        resolved,
        has_ids: true,
    })
}

fn head_context(ring: u64, now: i64) -> HeadContext {
    HeadContext {
        ring,
        table: BodyTable(ring as u32),
        now,
        protocol: Protocol {
            live_segments: 3,
            registers: 3,
            ..Protocol::default()
        },
    }
}

#[test]
fn a_head_opens_near_and_far_until_it_is_full() {
    let mut head = Head::absent();
    let mut asks = |command, now| head.work_out(&command, false, &head_context(1, now));
    let number = |response| match response {
        HeadResponse::Open(segment, live) => (segment.0, live.register.0),
        other => panic!("{other:?}"),
    };
    // A new manifest does not know which body tables are closing, so it opens no segment before a
    // `Fence` command.
    assert_eq!(asks(opening(Reach::Near), 0), HeadResponse::Absent);
    assert_eq!(asks(HeadCommand::Fence(1), 0), HeadResponse::Done);
    assert_eq!(number(asks(opening(Reach::Near), 0)), (1, 0));
    assert_eq!(number(asks(opening(Reach::Far), 0)), (2, 1));
    assert_eq!(number(asks(opening(Reach::Near), 0)), (1, 0));
    let (segment, count) = (Segment(1), 2);
    assert_eq!(asks(released(segment, 2), 0), HeadResponse::NotYet);
    assert_eq!(
        asks(HeadCommand::Sealed { segment, count }, 0),
        HeadResponse::Done
    );
    assert_eq!(asks(released(segment, 1), 0), HeadResponse::NotYet);
    assert_eq!(number(asks(opening(Reach::Near), 0)), (3, 2));
    assert_eq!(
        asks(
            HeadCommand::Sealed {
                segment: Segment(3),
                count
            },
            0
        ),
        HeadResponse::Done
    );
    assert_eq!(asks(opening(Reach::Near), 0), HeadResponse::Full);
    assert_eq!(asks(released(segment, 2), 5), HeadResponse::Done);
    assert_eq!(asks(released(segment, 2), 5), HeadResponse::Done);
    // The versioned cell of the released segment must rest before its reuse, so the shard is still
    // full.
    assert_eq!(asks(opening(Reach::Near), 6), HeadResponse::Full);
    let rested = WINDOW_MICROS + 2 * LEASE_MARGIN_MICROS + 5;
    assert_eq!(head.before(Segment(4), rested - 1).len(), 2);
    assert_eq!(head.before(Segment(4), rested).len(), 1);
    // The cell rests for longer than the deduplication window, because clocks differ.
    let mut asks = |command, now| head.work_out(&command, false, &head_context(1, now));
    assert_eq!(asks(opening(Reach::Near), rested - 1), HeadResponse::Full);
    assert_eq!(number(asks(opening(Reach::Near), rested)), (4, 0));
    assert_eq!(asks(released(Segment(3), 2), rested), HeadResponse::Done);
    assert_eq!(
        head.before(Segment(4), rested)
            .iter()
            .map(|(number, _)| number.0)
            .collect::<Vec<_>>(),
        [3],
        "the second is for what is due much later"
    );
    assert_eq!(head.references(BodyTable(1)).count(), 2);
    head.last = Segment(u64::MAX);
    head.live.remove(&Segment(4));
    let context = head_context(1, 2 * rested);
    let response = head.work_out(&opening(Reach::Near), false, &context);
    assert_eq!(response, HeadResponse::Full, "there is no greater number");
}

/// Returns the response to a process with an old registry that opens a segment after another queue
/// got the slot.
fn opens_by_an_old_registry(rules: Rules) -> HeadResponse {
    let mut head = Head::absent();
    let protocol = Protocol {
        rules,
        ..Protocol::default()
    };
    let context = HeadContext {
        protocol,
        ..head_context(1, 0)
    };
    let mut asks = |command| head.work_out(&command, false, &context);
    let reach = Reach::Near;
    let (old, deletion, new) = (Tenure(1), Tenure(2), Tenure(3));
    // The queue is deleted before the manifest exists, so `Close` creates the manifest.
    assert_eq!(asks(HeadCommand::Close(deletion)), HeadResponse::Done);
    assert_eq!(asks(HeadCommand::Close(old)), HeadResponse::Done);
    assert_eq!(asks(HeadCommand::Fence(1)), HeadResponse::Done);
    let opened = asks(HeadCommand::Open {
        reach,
        tenure: new,
        table: None,
    });
    assert!(matches!(opened, HeadResponse::Open(Segment(1), _)));
    let response = asks(HeadCommand::Open {
        reach,
        tenure: old,
        table: None,
    });
    assert!(head.serves(new) && !head.serves(deletion));
    response
}

#[test]
fn rejects_openings_by_an_old_registry() {
    assert_eq!(opens_by_an_old_registry(Rules::default()), HeadResponse::NoQueue);
}

#[test]
fn without_the_tenure_of_a_place() {
    let response = opens_by_an_old_registry(Rules::without([Some(Rule::TenureNoOlderThanHead), None]));
    assert!(
        matches!(response, HeadResponse::Open(Segment(1), _)),
        "what is the new queue's"
    );
}

#[test]
fn delays_cell_reuse_for_ids_and_unknown_outcomes() {
    let second = |protocol: Protocol, has_ids| {
        let context = HeadContext {
            protocol,
            ..head_context(1, 1_000_000_000)
        };
        let mut head = Head::absent();
        let mut asks = |command: HeadCommand| head.work_out(&command, false, &context);
        asks(HeadCommand::Fence(1));
        asks(opening(Reach::Near));
        let (segment, count, resolved) = (Segment(1), 2, 2);
        asks(HeadCommand::Sealed { segment, count });
        let settled = Settled {
            segment,
            resolved,
            has_ids,
        };
        assert_eq!(asks(HeadCommand::Release(settled)), HeadResponse::Done);
        match asks(opening(Reach::Near)) {
            HeadResponse::Open(segment, live) => (segment.0, live.register.0),
            other => panic!("{other:?}"),
        }
    };
    let protocol = Protocol::default();
    assert_eq!(second(protocol, true), (2, 1));
    assert_eq!(second(protocol, false), (2, 1));
    assert_eq!(second(protocol.alone(), true), (2, 1));
    assert_eq!(second(protocol.alone(), false), (2, 0));
}
