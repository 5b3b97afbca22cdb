//! Tests of the state of a segment (progress of its messages), command by command.

use super::{HERE, entry, state_context};
use crate::queues::limits::Protocol;
use crate::queues::rows::Rows;
use crate::queues::{
    BodyTable, Chunk, ClaimId, Clock, Entry, Fingerprint, Head, Leases, Live, Log, LogRow, Order, Reach,
    Received, Register, RegisterNumber, Segment, State, StateCommand, StateContext, StateResponse, Target,
};

/// State of a segment (message batch) with three messages, which executes one command after the
/// other.
struct States {
    state: State,
    log: Log,
    leases: Leases,
    most_attempts: Option<u16>,
    expired_by: Option<i64>,
    clock: Clock,
    protocol: Protocol,
}

impl States {
    fn new(protocol: Protocol) -> Self {
        let mut log = Log::absent();
        log.segment = Segment(1);
        let entries = [entry(1, 1), entry(2, 1), entry(3, 1)].into();
        log.rows = Rows::from_iter([(
            0,
            LogRow {
                chunk: Chunk(1),
                entries,
            },
        )]);
        Self {
            state: State::absent(),
            log,
            leases: Leases::default(),
            most_attempts: Some(2),
            expired_by: None,
            clock: Clock::default(),
            protocol,
        }
    }

    fn context(&self) -> StateContext<'_> {
        StateContext {
            most_attempts: self.most_attempts,
            expired_by: self.expired_by,
            clock: self.clock,
            ..state_context(&self.log, &self.leases, self.protocol)
        }
    }

    fn is_told(&mut self, command: StateCommand) -> StateResponse {
        let mut state = self.state.clone();
        let response = state.work_out(&command, false, &self.context());
        self.state = state;
        response
    }

    /// Returns the data that a message keeps when it is moved after its first receive.
    fn received_once(&self, seq: u16) -> Option<Received> {
        let pending = self.state.pending().get(&seq)?;
        Some(Received {
            attempts: 1,
            first: pending.first_received,
            until: pending.until,
        })
    }

    fn claims(&mut self, claim: u128, most: u16) -> Vec<(u16, u16)> {
        let until = self.clock.wall + 30;
        let claim = ClaimId(claim);
        let failed_surplus = 0;
        match self.is_told(StateCommand::Claim {
            claim,
            most,
            until,
            failed_surplus,
        }) {
            StateResponse::Claimed(deliveries) => {
                deliveries.iter().map(|one| (one.seq, one.attempts)).collect()
            }
            other => panic!("{other:?}"),
        }
    }
}

#[test]
fn returned_messages_are_claimed_again_when_due() {
    let mut states = States::new(Protocol::default());
    assert_eq!(states.claims(1, 2), [(0, 1), (1, 1)]);
    // A repeated claim gets the same response.
    assert_eq!(states.claims(1, 2), [(0, 1), (1, 1)]);
    let (seq, claim) = (0, ClaimId(1));
    let nack = StateCommand::Nack {
        seq,
        claim,
        until: 100,
    };
    assert_eq!(states.is_told(nack), StateResponse::Done);
    assert_eq!(states.is_told(nack), StateResponse::Done);
    assert_eq!(
        states.is_told(StateCommand::Extend {
            seq,
            claim,
            until: 200
        }),
        StateResponse::Stale
    );
    assert_eq!(states.claims(2, 9), [(2, 1)]);
    states.clock.wall = 100;
    assert_eq!(states.claims(3, 9), [(0, 2)]);
    assert_eq!(
        states.is_told(StateCommand::Ack { seq, claim }),
        StateResponse::Stale
    );
    // A message that is given back with `GiveBack` did not reach its receiver, so the attempt does
    // not count.
    let claim = ClaimId(3);
    assert_eq!(
        states.is_told(StateCommand::GiveBack { seq, claim }),
        StateResponse::Done
    );
    assert!(states.state.exhausted(&states.context()).is_empty());
    assert_eq!(states.claims(4, 9), [(0, 2)]);
    let claim = ClaimId(4);
    assert_eq!(
        states.is_told(StateCommand::Nack {
            seq,
            claim,
            until: 100
        }),
        StateResponse::Done
    );
    assert_eq!(states.claims(5, 9), []);
    assert_eq!(states.state.exhausted(&states.context()), [0]);
    assert_eq!(
        states.is_told(StateCommand::Ack { seq, claim }),
        StateResponse::Done
    );
    assert_eq!(
        states.is_told(StateCommand::Ack {
            seq,
            claim: ClaimId(77)
        }),
        StateResponse::Done
    );
    let claim = ClaimId(2);
    assert_eq!(
        states.is_told(StateCommand::GiveBack { seq: 2, claim }),
        StateResponse::Done
    );
    assert!(!states.state.pending().contains_key(&2));
    assert_eq!(
        states.is_told(StateCommand::Purge { count: 3 }),
        StateResponse::Done
    );
    assert_eq!(
        (states.state.resolved().count(), states.claims(6, 9)),
        (3, vec![])
    );
}

#[test]
fn a_delayed_message_waits_and_so_many_are_pending() {
    let mut states = States::new(Protocol {
        pending: 2,
        ..Protocol::default()
    });
    let mut late = entry(1, 1);
    late.not_before = 50;
    let entries = [late, entry(2, 1), entry(3, 1)].into();
    states.log.rows = Rows::from_iter([(
        0,
        LogRow {
            chunk: Chunk(1),
            entries,
        },
    )]);
    assert_eq!(states.claims(1, 1), [(1, 1)]);
    states.clock.wall = 50;
    assert_eq!(states.claims(2, 9), [(0, 1)]);
    assert_eq!(
        states.is_told(StateCommand::Ack {
            seq: 0,
            claim: ClaimId(2)
        }),
        StateResponse::Done
    );
    assert_eq!(states.claims(3, 9), [(2, 1)]);
    // The state belongs to the next segment now, so segment 1 was released, and all of its messages
    // are resolved.
    states.state.segment = Segment(2);
    assert_eq!(
        states.is_told(StateCommand::Ack {
            seq: 1,
            claim: ClaimId(1)
        }),
        StateResponse::Gone
    );
}

/// Returns a segment of `count` messages in which the messages at these positions are resolved
/// (completed).
fn resolved(places: impl Iterator<Item = u16>, count: usize) -> States {
    let mut states = States::new(Protocol::default());
    let entries = vec![entry(1, 1); count].into();
    let row = LogRow {
        chunk: Chunk(1),
        entries,
    };
    states.log.rows = Rows::from_iter([(0, row)]);
    states.state.segment = Segment(1);
    for place in places {
        states.state.resolved.add(place);
    }
    states
}

#[test]
fn a_claim_looks_at_no_more_than_it_gives() {
    let looks = |states: &mut States, most| {
        super::LOOKED_AT.set(0);
        let claimed = states.claims(1, most).len();
        (claimed, super::LOOKED_AT.get())
    };
    assert_eq!(looks(&mut resolved(0..0, 4_096), 10), (10, 10));
    assert_eq!(looks(&mut resolved(0..4_000, 4_096), 10), (10, 10));
    let every_other = (0..4_096).step_by(2);
    assert_eq!(looks(&mut resolved(every_other, 4_096), 10), (10, 10));
    assert_eq!(looks(&mut resolved(0..4_096, 4_096), 10), (0, 0));
    // A claim looks up only those pending messages that can be received.
    let mut states = resolved(0..0, 4_096);
    states.claims(9, 1_024);
    assert_eq!(looks(&mut states, 10), (10, 10));
    let claim = ClaimId(9);
    for seq in [0, 700] {
        let nack = StateCommand::Nack { seq, claim, until: 0 };
        assert_eq!(states.is_told(nack), StateResponse::Done);
    }
    states.protocol.pending = 1_034;
    super::LOOKED_AT.set(0);
    assert_eq!(states.claims(2, 10).len(), 2, "there is no room for new ones");
    assert_eq!(super::LOOKED_AT.get(), 2);
}

#[test]
fn stops_the_search_at_the_first_due_message() {
    let looks = |states: &States| {
        super::LOOKED_AT.set(0);
        let due = states.state.due(&states.context());
        (due, super::LOOKED_AT.get())
    };
    assert_eq!(looks(&resolved(0..4_000, 4_096)), (Some(0), 1));
    assert_eq!(looks(&resolved(0..4_096, 4_096)), (None, 0));
    // The search looks up the ten claimed messages, and ends at the next message, which is free.
    let mut states = resolved(0..4_000, 4_096);
    states.claims(1, 10);
    assert_eq!(looks(&states), (Some(0), 11));
    // If all messages are claimed, a message is due when the first claim has ended for other
    // processes.
    states.claims(2, 96);
    let of_others = 30 + crate::queues::limits::LEASE_MARGIN_MICROS;
    assert_eq!(looks(&states), (Some(of_others), 96));
}

#[test]
fn a_purge_takes_back_nothing() {
    let mut states = resolved(5..7, 7);
    assert_eq!(states.claims(1, 9).len(), 5);
    assert_eq!(
        states.is_told(StateCommand::Purge { count: 3 }),
        StateResponse::Done
    );
    assert_eq!(states.state.resolved().count(), 5);
    assert!(states.state.resolved().has(6));
    let pending: Vec<_> = states.state.pending().keys().copied().collect();
    assert_eq!(pending, [3, 4]);
}

#[test]
fn messages_that_leave_count_as_pending() {
    let mut states = States::new(Protocol {
        pending: 1,
        ..Protocol::default()
    });
    let target = Target {
        address: HERE,
        segment: Segment(2),
        chunk: Chunk(2),
    };
    let leave = |seq, claim| StateCommand::Leave { seq, claim, target };
    assert_eq!(states.claims(1, 1), [(0, 1)]);
    assert_eq!(states.is_told(leave(1, None)), StateResponse::Full);
    // A receiver has the message, so only a command with its claim can move it. The message is
    // already pending, so the limit of pending messages does not prevent the move.
    assert_eq!(states.is_told(leave(0, None)), StateResponse::Stale);
    let received = states.received_once(0);
    assert_eq!(
        states.is_told(leave(0, Some(ClaimId(1)))),
        StateResponse::Leaving(target, received)
    );
    let left = StateCommand::Left { seq: 0, target };
    assert_eq!(states.is_told(left), StateResponse::Done);
    assert_eq!(
        states.is_told(leave(1, None)),
        StateResponse::Leaving(target, None)
    );
}

/// Checks that a message keeps its number of attempts when it is moved within its shard, and that a
/// claimed message is not moved.
#[test]
fn moved_messages_keep_their_attempts() {
    let mut states = States::new(Protocol::default());
    let target = Target {
        address: HERE,
        segment: Segment(2),
        chunk: Chunk(2),
    };
    let moves_on = |seq| StateCommand::MoveOn { seq, target };
    assert_eq!(states.is_told(moves_on(1)), StateResponse::Leaving(target, None));
    assert_eq!(states.is_told(moves_on(9)), StateResponse::NoMessage);
    assert_eq!(states.claims(1, 1), [(0, 1)]);
    // The receiver may still be about to acknowledge the message, even long after the claim, so the
    // message is not moved.
    states.clock.wall = 1_000_000_000;
    states.clock.monotonic = 1_000_000_000;
    assert_eq!(states.is_told(moves_on(0)), StateResponse::Stale);
    let (seq, claim, until) = (0, ClaimId(1), 2_000_000_000);
    assert_eq!(
        states.is_told(StateCommand::Nack { seq, claim, until }),
        StateResponse::Done
    );
    let received = states.received_once(0);
    assert_eq!(
        received.map(|received| (received.attempts, received.until)),
        Some((1, until))
    );
    assert_eq!(
        states.is_told(moves_on(0)),
        StateResponse::Leaving(target, received)
    );
    assert_eq!(
        states.is_told(StateCommand::Nack { seq, claim, until }),
        StateResponse::Stale
    );

    let mut there = States::new(Protocol::default());
    let entries = [Entry {
        received,
        ..entry(1, 1)
    }]
    .into();
    let chunk = Chunk(2);
    there.log.rows = Rows::from_iter([(0, LogRow { chunk, entries })]);
    there.clock.wall = until - 1;
    assert_eq!(there.state.due(&there.context()), Some(until));
    assert_eq!(there.claims(1, 1), []);
    there.clock.wall = until;
    assert_eq!(there.claims(1, 1), [(0, 2)]);
    let first = there.state.pending()[&0].first_received;
    assert_eq!(Some(first), received.map(|received| received.first));
    let claim = ClaimId(1);
    assert_eq!(
        there.is_told(StateCommand::GiveBack { seq, claim }),
        StateResponse::Done
    );
    assert_eq!(there.claims(2, 1), [(0, 2)], "nobody was given it");
    // The message is moved once more before it is received in its target segment, and keeps its
    // attempts.
    let mut there = States::new(Protocol::default());
    let entries = [Entry {
        received,
        ..entry(1, 1)
    }]
    .into();
    there.log.rows = Rows::from_iter([(0, LogRow { chunk, entries })]);
    assert_eq!(
        there.is_told(moves_on(0)),
        StateResponse::Leaving(target, received)
    );
}

const NOBODY: [u16; 0] = [];

#[test]
fn a_group_waits_for_earlier_and_unread_segments() {
    let grouped = |id, group| Entry {
        group: Some(Fingerprint(group)),
        ..entry(id, 1)
    };
    let log_of = |segment, entries: &[Entry]| {
        let mut log = Log::absent();
        log.segment = Segment(segment);
        log.is_sealed = true;
        let row = LogRow {
            chunk: Chunk(1),
            entries: entries.into(),
        };
        log.rows.push(0, row);
        log
    };
    let mut head = Head::absent();
    head.last = Segment(2);
    for number in 1..=2 {
        let live = Live {
            register: RegisterNumber(number),
            table: BodyTable(1),
            reach: Reach::Near,
            count: None,
        };
        head.live.insert(Segment(number.into()), live);
    }
    let (before, absent) = (log_of(1, &[grouped(1, 1)]), State::absent());
    let mut states = States::new(Protocol::default());
    states.log = log_of(2, &[grouped(2, 1), grouped(3, 2), grouped(4, 2)]);
    let claims = |states: &States, order: &Order| {
        let context = StateContext {
            segment: Segment(2),
            order: Some(order),
            ..states.context()
        };
        let (claim, most, until) = (ClaimId(1), 9, 30);
        let failed_surplus = 0;
        let command = StateCommand::Claim {
            claim,
            most,
            until,
            failed_surplus,
        };
        match State::absent().work_out(&command, false, &context) {
            StateResponse::Claimed(deliveries) => deliveries.iter().map(|one| one.seq).collect::<Vec<_>>(),
            other => panic!("{other:?}"),
        }
    };
    let protocol = Protocol::default();
    let order = |head: &Head, segment, log: Option<&Log>, state: &State| {
        Order::of(head, Segment(segment), |_| Some((log?, state)), protocol)
    };
    let mut done = State::absent();
    done.segment = Segment(1);
    done.resolved.add(0);
    assert_eq!(claims(&states, &order(&head, 2, Some(&before), &absent)), [1]);
    assert_eq!(claims(&states, &order(&head, 2, Some(&before), &done)), [0, 1]);
    // Without the log of the earlier segment, no message can be claimed, because earlier messages
    // of its group may exist there.
    assert_eq!(claims(&states, &order(&head, 2, None, &done)), NOBODY);
    let other = log_of(9, &[]);
    assert_eq!(claims(&states, &order(&head, 2, Some(&other), &done)), NOBODY);
    // The manifest is older than the segment, and may lack earlier segments, so no message can be
    // claimed.
    let older = Head {
        last: Segment(1),
        ..head.clone()
    };
    assert_eq!(claims(&states, &order(&older, 2, Some(&before), &done)), NOBODY);
    head.live.remove(&Segment(1));
    assert_eq!(claims(&states, &order(&head, 2, None, &done)), [0, 1]);
}

#[test]
fn a_message_is_removed_whoever_has_it() {
    let mut states = States::new(Protocol::default());
    assert_eq!(states.claims(1, 2), [(0, 1), (1, 1)]);
    let claim = ClaimId(1);
    assert_eq!(states.is_told(StateCommand::Remove(0)), StateResponse::Done);
    assert_eq!(states.is_told(StateCommand::Remove(2)), StateResponse::Done);
    assert_eq!(states.is_told(StateCommand::Remove(2)), StateResponse::Done);
    // The receiver of the removed message uses its receipt, and finds that the message is resolved.
    let (seq, until) = (0, 90);
    assert_eq!(
        states.is_told(StateCommand::Ack { seq, claim }),
        StateResponse::Done
    );
    assert_eq!(
        states.is_told(StateCommand::Extend { seq, claim, until }),
        StateResponse::Stale,
        "whoever works on it may stop"
    );
    let give_back = StateCommand::GiveBack { seq, claim };
    assert_eq!(states.is_told(give_back), StateResponse::Done);
    let nack = StateCommand::Nack { seq, claim, until };
    assert_eq!(states.is_told(nack), StateResponse::Stale);
    // `Remove` rejects a position that has no message yet. Otherwise, the message that gets the
    // position later would be lost.
    assert_eq!(states.is_told(StateCommand::Remove(3)), StateResponse::NoMessage);
    let target = Target {
        address: HERE,
        segment: Segment(2),
        chunk: Chunk(9),
    };
    let (seq, claim) = (1, Some(claim));
    let leaves = StateCommand::Leave { seq, claim, target };
    let leaving = StateResponse::Leaving(target, states.received_once(1));
    assert_eq!(states.is_told(leaves), leaving);
    assert_eq!(states.is_told(StateCommand::Remove(1)), leaving);
    let purge = StateCommand::Purge { count: 3 };
    assert_eq!(states.is_told(purge), leaving);
    assert_eq!(states.state.resolved().count(), 2, "it is on its way");
    assert_eq!(
        states.is_told(StateCommand::Clear { count: 3 }),
        StateResponse::Done
    );
    assert_eq!(
        (states.state.resolved().count(), states.state.pending().len()),
        (3, 0)
    );
    states.log.segment = Segment(0);
    states.state = State::absent();
    assert_eq!(
        states.is_told(StateCommand::Remove(0)),
        StateResponse::NoMessage,
        "nothing is known of it"
    );
}

#[test]
fn expires_what_nobody_has() {
    let mut states = States::new(Protocol::default());
    let due = |id, sent, not_before| Entry {
        sent,
        not_before,
        ..entry(id, 1)
    };
    // The second message became due later than it was sent. The third message is being moved.
    let entries = [due(1, 10, 0), due(2, 10, 30), due(3, 10, 0), due(4, 11, 0)].into();
    let chunk = Chunk(1);
    states.log.rows = Rows::from_iter([(0, LogRow { chunk, entries })]);
    let target = Target {
        address: HERE,
        segment: Segment(2),
        chunk: Chunk(9),
    };
    states.clock.wall = 40;
    let (seq, claim) = (2, None);
    let leaves = StateCommand::Leave { seq, claim, target };
    assert_eq!(states.is_told(leaves), StateResponse::Leaving(target, None));
    let resolved = |states: &States| {
        (0..4)
            .map(|seq| states.state.resolved().has(seq))
            .collect::<Vec<_>>()
    };
    for (by, expected) in [
        (9, [false, false, false, false]),
        (10, [true, false, false, false]),
        (11, [true, false, false, true]),
        (30, [true, true, false, true]),
    ] {
        assert_eq!(states.is_told(StateCommand::Expire { by }), StateResponse::Done);
        assert_eq!(resolved(&states), expected, "by {by}");
    }
    assert_eq!(states.state.pending().keys().collect::<Vec<_>>(), [&2]);
    states.log.segment = Segment(0);
    assert_eq!(
        states.is_told(StateCommand::Expire { by: 90 }),
        StateResponse::NoMessage
    );
}

#[test]
fn expires_what_is_given_back_and_not_what_is_in_flight() {
    let mut states = States::new(Protocol::default());
    assert_eq!(states.claims(1, 3), [(0, 1), (1, 1), (2, 1)]);
    let claim = ClaimId(1);
    let nack = |seq, until| StateCommand::Nack { seq, claim, until };
    assert_eq!(states.is_told(nack(1, 1_000)), StateResponse::Done);
    let is_resolved = |states: &States, seq| states.state.resolved().has(seq);
    let expire = StateCommand::Expire { by: 0 };
    assert_eq!(states.is_told(expire), StateResponse::Done);
    assert_eq!(
        [0, 1, 2].map(|seq| is_resolved(&states, seq)),
        [false, true, false]
    );
    // The third message failed in its last attempt. So it goes to the dead-letter queue, and does
    // not expire.
    states.most_attempts = Some(1);
    assert_eq!(states.is_told(nack(2, 0)), StateResponse::Done);
    // The claim of the first message was its last attempt, and has ended. So the message does not
    // expire, either.
    states.clock.wall = 30 + crate::queues::limits::LEASE_MARGIN_MICROS;
    assert_eq!(states.is_told(expire), StateResponse::Done);
    assert_eq!(
        [0, 1, 2].map(|seq| is_resolved(&states, seq)),
        [false, true, false]
    );
    states.most_attempts = None;
    assert_eq!(states.is_told(expire), StateResponse::Done);
    assert_eq!(states.state.resolved().count(), 3);
}

#[test]
fn claims_no_expired_message() {
    let mut states = States::new(Protocol::default());
    let group = Some(Fingerprint(1));
    let entries = [10, 20, 30].map(|sent| Entry {
        sent,
        group,
        ..entry(1, 1)
    });
    let chunk = Chunk(1);
    states.log.rows = Rows::from_iter([(
        0,
        LogRow {
            chunk,
            entries: entries.into(),
        },
    )]);
    states.expired_by = Some(20);
    assert_eq!(states.state.due(&states.context()), Some(0));
    assert_eq!(states.claims(1, 9), [(2, 1)]);
    states.expired_by = Some(30);
    assert_eq!(states.state.due(&states.context()), None);
    assert_eq!(states.claims(2, 9), []);
    // The first message may not have expired on another clock, so its group waits until the message
    // is resolved.
    states.state = State::absent();
    states.expired_by = Some(10);
    let order = Order::default();
    let context = StateContext {
        order: Some(&order),
        ..states.context()
    };
    assert!(!states.state.may_claim(&context));
}

#[test]
fn a_claim_has_so_many_bytes_unless_one_message_has_more() {
    let claimed = |sizes: [u32; 3], claimed_bytes| {
        let mut states = States::new(Protocol {
            claimed_bytes,
            ..Protocol::default()
        });
        let entries = (1..).zip(sizes).map(|(id, size)| entry(id, size)).collect();
        let chunk = Chunk(1);
        states.log.rows = Rows::from_iter([(0, LogRow { chunk, entries })]);
        let first = states.claims(1, 9).len();
        // The next claim returns the messages that did not fit into the first claim.
        (first, states.claims(2, 9).len())
    };
    assert_eq!(claimed([5, 5, 5], 15), (3, 0));
    assert_eq!(claimed([5, 5, 5], 14), (2, 1));
    assert_eq!(claimed([9, 5, 5], 4), (1, 1));
}
