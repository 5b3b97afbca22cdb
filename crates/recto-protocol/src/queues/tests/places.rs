//! Models of a queue that is deleted while a process sends to it, and whose slot another queue
//! gets.

use super::world::Config;
use super::{OTHERS, Q1, usually};
use crate::queues::limits::LEASE_MARGIN_MICROS;
use crate::queues::rules::Rule;
use crate::queues::{
    BodyTable, Chunk, ClearAction, ClearEvent, Clearing, Entry, Head, HeadCommand, HeadContext, HeadResponse,
    Live, Log, LogResponse, LogRow, MessageId, Protocol, Reach, Register, RegisterNumber, Released, Segment,
    State, Tenure, expired_by, is_expired,
};

/// Returns a model with a sender that knows only the old queue, and a process that deletes it and
/// creates another queue in its slot.
fn clearing() -> Config {
    Config {
        senders: vec![vec![1, 2]],
        clearers: 1,
        losses: usually(0, 1),
        crashes: usually(0, 1),
        ..Config::default()
    }
}

/// Returns the model of `clearing` with two processes that clear the slot. Each sends to the next
/// queue.
fn clearing_twice() -> Config {
    Config {
        senders: vec![vec![1]],
        clearers: 2,
        ..clearing()
    }
}

#[test]
fn nothing_of_a_deleted_queue_comes_into_the_next() {
    let seen = [
        "sent to the next queue",
        "told that there is no queue",
        "released",
    ];
    clearing().holds("a place is cleared", &seen);
}

#[test]
fn two_clear_a_place() {
    clearing_twice().holds("a place is cleared by two", &["sent to the next queue"]);
}

#[test]
fn without_tenures() {
    clearing().breaks(Rule::TenureNoOlderThanHead, OTHERS);
}

#[test]
fn without_closing_heads() {
    clearing().breaks(Rule::HeadsClosed, OTHERS);
}

#[test]
fn without_leaving_the_next_queue_alone() {
    clearing_twice().breaks(Rule::ClearedByTheNewest, Q1);
}

#[test]
fn without_clearing_heads() {
    clearing().breaks(Rule::ClearedWhenEmpty, OTHERS);
}

/// Returns the log of a segment (message batch) with one message that has these times.
fn log_of(sent: i64, not_before: i64, arrived: Option<i64>) -> Log {
    let entry = Entry {
        id: MessageId(1),
        index: 0,
        size: 1,
        sent,
        not_before,
        group: None,
        deduplication: None,
        origin: None,
        received: None,
        arrived,
    };
    let mut log = Log::absent();
    log.segment = Segment(1);
    let entries = [entry].into();
    let chunk = Chunk(1);
    log.rows.push(0, LogRow { chunk, entries });
    log
}

#[test]
fn a_segment_is_expired_when_its_newest_message_is() {
    let kept = 60_000_000 + LEASE_MARGIN_MICROS;
    for (sent, due, arrived) in [
        (7, 7, None),
        (7, 0, None),
        (0, 7, None),
        (0, 0, Some(7)),
        (0, 7, Some(6)),
        (9, 0, Some(7)),
    ] {
        let log = log_of(sent, due, arrived);
        let by = |now| expired_by(60, now);
        assert!(!is_expired(&log, Segment(1), by(6 + kept)));
        assert!(is_expired(&log, Segment(1), by(7 + kept)));
        assert!(!is_expired(&log, Segment(2), by(7 + kept)), "it is another's");
    }
    let empty = Log::absent();
    assert!(
        !is_expired(&empty, empty.segment, i64::MAX),
        "nothing is too old there"
    );
}

#[test]
fn a_deleted_queue_is_cleared_of_what_is_gone() {
    let segment = Segment(1);
    let live = Live {
        register: RegisterNumber(0),
        table: BodyTable(1),
        reach: Reach::Near,
        count: None,
    };
    let mut head = Head::absent();
    head.live.insert(segment, live);
    let mut log = Log::absent();
    log.segment = Segment(2);
    let mut clearing = Clearing::new(super::HERE, Tenure(2), Protocol::default());
    let told = |head: &Head| ClearEvent::Head(HeadResponse::Done, head.clone());
    assert_eq!(
        clearing.step(ClearEvent::Begin),
        ClearAction::Head(HeadCommand::Close(Tenure(2)))
    );
    for _ in 0..2 {
        let live = head.live[&segment];
        assert_eq!(clearing.step(told(&head)), ClearAction::Seal(segment, live));
        let read = clearing.step(ClearEvent::Log(LogResponse::Gone));
        assert_eq!(read, ClearAction::Read(segment, live));
        let found = clearing.step(ClearEvent::Read(log.clone(), State::absent()));
        assert_eq!(found, ClearAction::Find(segment));
        let ClearAction::Head(command) = clearing.step(ClearEvent::Found(Some(live))) else {
            panic!("it is taken off");
        };
        let context = HeadContext {
            ring: 1,
            table: BodyTable(1),
            now: 0,
            protocol: Protocol::default(),
        };
        assert_eq!(head.work_out(&command, false, &context), HeadResponse::Done);
    }
    assert_eq!(clearing.step(told(&head)), ClearAction::Over(Released::Done));
    assert!(head.live().is_empty());
}

#[test]
fn late_clearing_leaves_the_next_queue_intact() {
    let live = Live {
        register: RegisterNumber(0),
        table: BodyTable(1),
        reach: Reach::Near,
        count: None,
    };
    let mut head = Head::absent();
    head.live.insert(Segment(1), live);
    for (next, expected) in [
        (2, ClearAction::Seal(Segment(1), live)),
        (3, ClearAction::Over(Released::Done)),
    ] {
        head.tenure = Tenure(next);
        let mut clearing = Clearing::new(super::HERE, Tenure(2), Protocol::default());
        clearing.step(ClearEvent::Begin);
        let told = ClearEvent::Head(HeadResponse::Done, head.clone());
        assert_eq!(clearing.step(told), expected);
    }
}
