//! Tests of the compare-and-set loop of one versioned cell. Checks that waiting commands share a
//! write, and that responses match the stored value.

use std::sync::Arc;

use super::{entry, state_context};
use crate::queues::limits::{MESSAGE_OVERHEAD_BYTES, Protocol, WINDOW_MICROS};
use crate::queues::rules::{Rule, Rules};
use crate::queues::{
    Action, Chunk, ClaimId, Decision, Entry, Event, Leases, Log, LogCommand, LogContext, LogResponse,
    MessageId, Placed, Reach, Recent, Round, Segment, State, StateCommand, StateResponse, Ticket,
};

fn append(id: u128, entries: &[Entry]) -> (Ticket, LogCommand) {
    let entries: Arc<[Entry]> = entries.into();
    let chunk = Chunk(id);
    (Ticket(id as u64), LogCommand::Append { chunk, entries })
}

fn log_context(recent: &Recent, protocol: Protocol) -> LogContext<'_> {
    LogContext {
        segment: Segment(1),
        recent,
        protocol,
    }
}

/// Returns the value that the only action, a conditional write, puts.
fn put<R: crate::queues::Register>(actions: &[Action<R>]) -> R {
    match actions {
        [Action::Cas { put, .. }] => put.clone(),
        others => panic!("{others:?}"),
    }
}

#[test]
fn batches_waiting_commands() {
    let (recent, protocol) = (Recent::new(), Protocol::default());
    let context = log_context(&recent, protocol);
    let mut round = Round::<Log>::new(protocol);
    let first = append(1, &[entry(1, 1)]);
    assert_eq!(
        round.step(Event::Asked(vec![first]), &context),
        vec![Action::Read]
    );
    assert!(
        round
            .step(
                Event::Asked(vec![append(2, &[entry(2, 1), entry(3, 1)])]),
                &context
            )
            .is_empty()
    );
    let both = put(&round.step(Event::Read(Log::absent()), &context));
    assert_eq!((both.version, both.next(), both.rows.iter().count()), (1, 3, 2));
    assert!(
        round
            .step(Event::Asked(vec![append(4, &[entry(4, 1)])]), &context)
            .is_empty()
    );
    // The outcome of a different conditional write has no effect.
    assert!(
        round
            .step(Event::Decided(7, Decision::Applied), &context)
            .is_empty()
    );
    let told = round.step(Event::Decided(1, Decision::Applied), &context);
    let [
        Action::Response(Ticket(1), first),
        Action::Response(Ticket(2), second),
        Action::Cas { expected: 1, put },
    ] = &told[..]
    else {
        panic!("{told:?}");
    };
    assert_eq!(*first, LogResponse::Appended(vec![Placed::At(0)]));
    assert_eq!(*second, LogResponse::Appended(vec![Placed::At(1), Placed::At(2)]));
    assert_eq!(put.next(), 4);
    assert_eq!(put.message(2).expect("a message").1.id, MessageId(3));
    assert_eq!(put.message(4), None);
    let added: Vec<_> = put.rows_since(&both).map(|(number, _)| number).collect();
    assert_eq!(added, [2], "the third row");
}

#[test]
fn a_round_carries_so_much_and_no_more() {
    let (recent, protocol) = (
        Recent::new(),
        Protocol {
            carried: 2,
            ..Protocol::default()
        },
    );
    let context = log_context(&recent, protocol);
    let mut round = Round::<Log>::new(protocol);
    let commands = (1..=3).map(|id| append(id, &[entry(id, 1)])).collect();
    round.step(Event::Asked(commands), &context);
    let two = put(&round.step(Event::Read(Log::absent()), &context));
    assert_eq!(two.next(), 2);
    assert!(!round.withdraw(Ticket(1)), "it is sent");
    let told = round.step(Event::Decided(1, Decision::Applied), &context);
    assert_eq!(told.len(), 3);
    assert!(!round.withdraw(Ticket(3)), "it is sent by now");
    assert_eq!(
        round.step(Event::Decided(2, Decision::Refused), &context),
        vec![Action::Read]
    );
    // The conditional write with the command was rejected, so the command was not executed, and can
    // be withdrawn.
    assert!(round.withdraw(Ticket(3)));
    round.step(Event::Asked(vec![append(4, &[entry(4, 1)])]), &context);
    assert!(round.withdraw(Ticket(4)));
}

#[test]
fn a_segment_is_sealed_when_it_is_full() {
    let recent = Recent::new();
    let protocol = Protocol {
        segment_messages: 3,
        segment_bytes: 10,
        ..Protocol::default()
    };
    let context = log_context(&recent, protocol);
    for (entries, last) in [([1, 1], 2), ([8, 2], 1)] {
        let mut round = Round::<Log>::new(protocol);
        let first = [entry(1, entries[0]), entry(2, entries[1])];
        let second = [entry(3, last), entry(4, 0)];
        round.step(
            Event::Asked(vec![append(1, &first), append(2, &second)]),
            &context,
        );
        let put = put(&round.step(Event::Read(Log::absent()), &context));
        assert_eq!(put.sealed(), Some(2));
        let told = round.step(Event::Decided(1, Decision::Applied), &context);
        assert_eq!(told[1], Action::Response(Ticket(2), LogResponse::Sealed(2)));
        let too_large = [entry(5, 11)];
        round.step(Event::Asked(vec![append(3, &too_large)]), &context);
    }
    let mut round = Round::<Log>::new(protocol);
    for too_large in [vec![entry(5, 11)], vec![entry(5, 1); 4]] {
        let asked = round.step(Event::Asked(vec![append(3, &too_large)]), &context);
        assert_eq!(asked, vec![Action::Read]);
        let mut empty = Log::absent();
        empty.segment = Segment(1);
        let told = round.step(Event::Read(empty), &context);
        assert_eq!(told, vec![Action::Response(Ticket(3), LogResponse::TooLarge)]);
    }
}

/// Sends an acknowledgment with a valid receipt to a process that knows only an old state. Returns
/// the actions of its loop.
fn acks_elsewhere(protocol: Protocol) -> Vec<Action<State>> {
    let mut log = Log::absent();
    log.segment = Segment(1);
    let row = crate::queues::LogRow {
        chunk: Chunk(1),
        entries: [entry(1, 1)].into(),
    };
    log.rows.push(0, row);
    let leases = Leases::default();
    let context = state_context(&log, &leases, protocol);
    let (mut here, mut there) = (Round::<State>::new(protocol), Round::<State>::new(protocol));
    here.step(
        Event::Asked(vec![(
            Ticket(1),
            StateCommand::Ack {
                seq: 0,
                claim: ClaimId(9),
            },
        )]),
        &context,
    );
    here.step(Event::Read(State::absent()), &context);
    let claim = StateCommand::Claim {
        claim: ClaimId(1),
        most: 10,
        until: 30,
        failed_surplus: 0,
    };
    there.step(Event::Asked(vec![(Ticket(2), claim)]), &context);
    let claimed = put(&there.step(Event::Read(State::absent()), &context));
    assert_eq!(claimed.pending[&0].attempts, 1);
    let ack = StateCommand::Ack {
        seq: 0,
        claim: ClaimId(1),
    };
    here.step(Event::Asked(vec![(Ticket(3), ack)]), &context)
}

#[test]
fn a_receipt_is_not_called_stale_by_an_old_copy() {
    assert_eq!(acks_elsewhere(Protocol::default()), vec![Action::Read]);
}

#[test]
fn without_a_fresh_copy() {
    let rules = Rules::without([Some(Rule::AnsweredOnFreshCopy), None]);
    let told = acks_elsewhere(Protocol {
        rules,
        ..Protocol::default()
    });
    assert_eq!(told, vec![Action::Response(Ticket(3), StateResponse::Stale)]);
}

#[test]
fn the_later_of_two_duplicates_counts() {
    let sent = |id, sent| Entry {
        sent,
        deduplication: Some(crate::queues::Fingerprint(1)),
        ..entry(id, 1)
    };
    let log_of = |entry: Entry| {
        let mut log = Log::absent();
        let row = crate::queues::LogRow {
            chunk: Chunk(1),
            entries: [entry].into(),
        };
        log.rows.push(0, row);
        log
    };
    let (old, new) = (log_of(sent(1, 0)), log_of(sent(2, WINDOW_MICROS)));
    for logs in [[&new, &old], [&old, &new]] {
        let mut recent = Recent::new();
        for log in logs {
            recent.extend(log.fingerprints());
        }
        let protocol = Protocol::default();
        let context = log_context(&recent, protocol);
        let mut round = Round::<Log>::new(protocol);
        let command = append(3, &[sent(3, WINDOW_MICROS + 1)]);
        round.step(Event::Asked(vec![command]), &context);
        let mut empty = Log::absent();
        empty.segment = Segment(1);
        let told = round.step(Event::Read(empty), &context);
        let duplicate = LogResponse::Appended(vec![Placed::Duplicate(MessageId(2))]);
        assert_eq!(told, [Action::Response(Ticket(3), duplicate)]);
    }
}

#[test]
fn a_round_carries_so_many_bytes_unless_one_wish_has_more() {
    let recent = Recent::new();
    let of = |size| u64::from(size) + MESSAGE_OVERHEAD_BYTES;
    for (sizes, carried_bytes, expected) in [
        ([7, 7, 7], of(7_u32) * 2, 2),
        ([7, 7, 7], of(7) * 2 - 1, 1),
        ([900, 7, 7], 1, 1),
        ([7, 7, 7], of(7) * 3, 3),
    ] {
        let protocol = Protocol::default().carrying(carried_bytes);
        let context = log_context(&recent, protocol);
        let mut round = Round::<Log>::new(protocol);
        let commands = (1..).zip(sizes).map(|(id, size)| append(id, &[entry(id, size)]));
        round.step(Event::Asked(commands.collect()), &context);
        let first = put(&round.step(Event::Read(Log::absent()), &context));
        assert_eq!(first.next(), expected, "{carried_bytes}");
        // The next conditional write carries the commands that did not fit into the first.
        if expected < 3 {
            let told = round.step(Event::Decided(1, Decision::Applied), &context);
            assert!(put(&told[usize::from(expected)..]).next() > expected);
        }
    }
}

#[test]
fn far_messages_go_apart_but_those_with_a_deduplication_id() {
    let mut late = entry(1, 1);
    late.not_before = crate::queues::limits::FAR_MICROS + 1;
    assert_eq!(crate::queues::reach(&late), Reach::Far);
    late.deduplication = Some(crate::queues::Fingerprint(1));
    assert_eq!(crate::queues::reach(&late), Reach::Near);
    assert_eq!(crate::queues::reach(&entry(1, 1)), Reach::Near);
}

#[test]
fn rewrites_a_reused_versioned_cell_completely() {
    let (recent, protocol) = (Recent::new(), Protocol::default());
    let of = |number| LogContext {
        segment: Segment(number),
        ..log_context(&recent, protocol)
    };
    let mut round = Round::<Log>::new(protocol);
    round.step(Event::Asked(vec![append(1, &[entry(1, 1), entry(2, 1)])]), &of(1));
    let first = put(&round.step(Event::Read(Log::absent()), &of(1)));
    round.step(Event::Decided(1, Decision::Applied), &of(1));
    // The log of the next segment has as many rows as the previous log. Its row must be written
    // nevertheless.
    let second = put(&round.step(Event::Asked(vec![append(3, &[entry(3, 1)])]), &of(2)));
    assert_eq!(round.copy(), Some(&first));
    let rows: Vec<_> = second
        .rows_since(&first)
        .map(|(number, row)| (number, row.chunk))
        .collect();
    assert_eq!(rows, [(0, Chunk(3))]);
}
