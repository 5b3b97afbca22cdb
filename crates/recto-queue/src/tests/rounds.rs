//! Rounds of one register by themselves: what waits goes together, and what is said is said of what is there.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::limits::{LEASE_MARGIN_MICROS, Protocol, WINDOW_MICROS};
use crate::rules::{Rule, Rules};
use crate::{
    Action, BodyTable, Chunk, ClaimId, Clock, Decision, Entry, Event, Head, HeadAnswer, HeadContext,
    HeadWish, Leases, Log, LogAnswer, LogContext, LogWish, MessageId, Placed, Reach, Recent, Round, Segment,
    State, StateAnswer, StateContext, StateWish, Ticket,
};

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
    }
}

fn append(id: u128, entries: &[Entry]) -> (Ticket, LogWish) {
    let entries: Arc<[Entry]> = entries.into();
    let chunk = Chunk(id);
    (Ticket(id as u64), LogWish::Append { chunk, entries })
}

fn log_context(recent: &Recent, protocol: Protocol) -> LogContext<'_> {
    LogContext {
        segment: Segment(1),
        recent,
        protocol,
    }
}

fn state_context<'a>(log: &'a Log, leases: &'a Leases, protocol: Protocol) -> StateContext<'a> {
    StateContext {
        segment: Segment(1),
        log,
        most_attempts: None,
        order: None,
        leases,
        clock: Clock::default(),
        protocol,
    }
}

/// What a conditional write puts; everything else is unexpected.
fn put<R: crate::Register>(actions: &[Action<R>]) -> R {
    match actions {
        [Action::Cas { put, .. }] => put.clone(),
        others => panic!("{others:?}"),
    }
}

#[test]
fn what_waits_goes_together() {
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
    assert_eq!((both.version, both.next(), both.rows.len()), (1, 3, 2));
    assert!(
        round
            .step(Event::Asked(vec![append(4, &[entry(4, 1)])]), &context)
            .is_empty()
    );
    // An end of another conditional write changes nothing.
    assert!(
        round
            .step(Event::Decided(7, Decision::Applied), &context)
            .is_empty()
    );
    let told = round.step(Event::Decided(1, Decision::Applied), &context);
    let [
        Action::Answer(Ticket(1), first),
        Action::Answer(Ticket(2), second),
        Action::Cas { expected: 1, put },
    ] = &told[..]
    else {
        panic!("{told:?}");
    };
    assert_eq!(*first, LogAnswer::Appended(vec![Placed::At(0)]));
    assert_eq!(*second, LogAnswer::Appended(vec![Placed::At(1), Placed::At(2)]));
    assert_eq!(put.next(), 4);
    assert_eq!(put.message(2).expect("a message").1.id, MessageId(3));
    assert_eq!(put.message(4), None);
    let added: Vec<_> = put.rows_since(&both).map(|(first, _)| first).collect();
    assert_eq!(added, [3]);
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
    let wishes = (1..=3).map(|id| append(id, &[entry(id, 1)])).collect();
    round.step(Event::Asked(wishes), &context);
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
    assert!(!round.withdraw(Ticket(3)), "it was sent");
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
        assert_eq!(told[1], Action::Answer(Ticket(2), LogAnswer::Sealed(2)));
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
        assert_eq!(told, vec![Action::Answer(Ticket(3), LogAnswer::TooLarge)]);
    }
}

/// A receipt is shown to a process that knows an old state.
fn acks_elsewhere(protocol: Protocol) -> Vec<Action<State>> {
    let mut log = Log::absent();
    log.segment = Segment(1);
    let row = crate::LogRow {
        chunk: Chunk(1),
        entries: [entry(1, 1)].into(),
    };
    log.rows.insert(0, row);
    let leases = Leases::default();
    let context = state_context(&log, &leases, protocol);
    let (mut here, mut there) = (Round::<State>::new(protocol), Round::<State>::new(protocol));
    here.step(
        Event::Asked(vec![(
            Ticket(1),
            StateWish::Ack {
                seq: 0,
                claim: ClaimId(9),
            },
        )]),
        &context,
    );
    here.step(Event::Read(State::absent()), &context);
    let claim = StateWish::Claim {
        claim: ClaimId(1),
        most: 10,
        until: 30,
    };
    there.step(Event::Asked(vec![(Ticket(2), claim)]), &context);
    let claimed = put(&there.step(Event::Read(State::absent()), &context));
    assert_eq!(claimed.pending[&0].attempts, 1);
    let ack = StateWish::Ack {
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
    let rules = Rules::without(Some(Rule::AnsweredOnFreshCopy));
    let told = acks_elsewhere(Protocol {
        rules,
        ..Protocol::default()
    });
    assert_eq!(told, vec![Action::Answer(Ticket(3), StateAnswer::Stale)]);
}

/// Works out one wish after the other on a state of three messages.
struct States {
    state: State,
    log: Log,
    leases: Leases,
    most_attempts: Option<u16>,
    clock: Clock,
    protocol: Protocol,
}

impl States {
    fn new(protocol: Protocol) -> Self {
        let mut log = Log::absent();
        log.segment = Segment(1);
        let entries = [entry(1, 1), entry(2, 1), entry(3, 1)].into();
        log.rows = BTreeMap::from([(
            0,
            crate::LogRow {
                chunk: Chunk(1),
                entries,
            },
        )]);
        Self {
            state: State::absent(),
            log,
            leases: Leases::default(),
            most_attempts: Some(2),
            clock: Clock::default(),
            protocol,
        }
    }

    fn context(&self) -> StateContext<'_> {
        StateContext {
            most_attempts: self.most_attempts,
            clock: self.clock,
            ..state_context(&self.log, &self.leases, self.protocol)
        }
    }

    fn is_told(&mut self, wish: StateWish) -> StateAnswer {
        use crate::Register;
        let mut state = self.state.clone();
        let answer = state.work_out(&wish, false, &self.context());
        self.state = state;
        answer
    }

    fn claims(&mut self, claim: u128, most: u16) -> Vec<(u16, u16)> {
        let until = self.clock.wall + 30;
        let claim = ClaimId(claim);
        match self.is_told(StateWish::Claim { claim, most, until }) {
            StateAnswer::Claimed(deliveries) => {
                deliveries.iter().map(|one| (one.seq, one.attempts)).collect()
            }
            other => panic!("{other:?}"),
        }
    }
}

#[test]
fn what_is_given_back_comes_again_when_it_may() {
    let mut states = States::new(Protocol::default());
    assert_eq!(states.claims(1, 2), [(0, 1), (1, 1)]);
    // The same claim once more is the same.
    assert_eq!(states.claims(1, 2), [(0, 1), (1, 1)]);
    let (seq, claim) = (0, ClaimId(1));
    let nack = StateWish::Nack {
        seq,
        claim,
        until: 100,
    };
    assert_eq!(states.is_told(nack), StateAnswer::Done);
    assert_eq!(states.is_told(nack), StateAnswer::Done);
    assert_eq!(
        states.is_told(StateWish::Extend {
            seq,
            claim,
            until: 200
        }),
        StateAnswer::Stale
    );
    assert_eq!(states.claims(2, 9), [(2, 1)]);
    states.clock.wall = 100;
    assert_eq!(states.claims(3, 9), [(0, 2)]);
    assert_eq!(states.is_told(StateWish::Ack { seq, claim }), StateAnswer::Stale);
    // Nobody was there to be given it: it does not count.
    let claim = ClaimId(3);
    assert_eq!(
        states.is_told(StateWish::GiveBack { seq, claim }),
        StateAnswer::Done
    );
    assert!(states.state.exhausted(&states.context()).is_empty());
    assert_eq!(states.claims(4, 9), [(0, 2)]);
    let claim = ClaimId(4);
    assert_eq!(
        states.is_told(StateWish::Nack {
            seq,
            claim,
            until: 100
        }),
        StateAnswer::Done
    );
    assert_eq!(states.claims(5, 9), []);
    assert_eq!(states.state.exhausted(&states.context()), [0]);
    assert_eq!(states.is_told(StateWish::Ack { seq, claim }), StateAnswer::Done);
    assert_eq!(
        states.is_told(StateWish::Ack {
            seq,
            claim: ClaimId(77)
        }),
        StateAnswer::Done
    );
    let claim = ClaimId(2);
    assert_eq!(
        states.is_told(StateWish::GiveBack { seq: 2, claim }),
        StateAnswer::Done
    );
    assert!(!states.state.pending().contains_key(&2));
    assert_eq!(states.is_told(StateWish::Purge { count: 3 }), StateAnswer::Done);
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
    states.log.rows = BTreeMap::from([(
        0,
        crate::LogRow {
            chunk: Chunk(1),
            entries,
        },
    )]);
    assert_eq!(states.claims(1, 1), [(1, 1)]);
    states.clock.wall = 50;
    assert_eq!(states.claims(2, 9), [(0, 1)]);
    assert_eq!(
        states.is_told(StateWish::Ack {
            seq: 0,
            claim: ClaimId(2)
        }),
        StateAnswer::Done
    );
    assert_eq!(states.claims(3, 9), [(2, 1)]);
    // A released segment's messages are done with.
    states.state.segment = Segment(2);
    assert_eq!(
        states.is_told(StateWish::Ack {
            seq: 1,
            claim: ClaimId(1)
        }),
        StateAnswer::Gone
    );
}

fn opening(reach: Reach) -> HeadWish {
    let tenure = super::TENURE;
    HeadWish::Open { reach, tenure }
}

fn released(segment: Segment, resolved: u32) -> HeadWish {
    HeadWish::Release(crate::Settled { segment, resolved })
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
    use crate::Register;
    let mut head = Head::absent();
    let mut asks = |wish, now| head.work_out(&wish, false, &head_context(1, now));
    let number = |answer| match answer {
        HeadAnswer::Open(segment, live) => (segment.0, live.register.0),
        other => panic!("{other:?}"),
    };
    // What does not exist cannot have been fenced.
    assert_eq!(asks(opening(Reach::Near), 0), HeadAnswer::Absent);
    assert_eq!(asks(HeadWish::Fence(1), 0), HeadAnswer::Done);
    assert_eq!(number(asks(opening(Reach::Near), 0)), (1, 0));
    assert_eq!(number(asks(opening(Reach::Far), 0)), (2, 1));
    assert_eq!(number(asks(opening(Reach::Near), 0)), (1, 0));
    let (segment, count) = (Segment(1), 2);
    assert_eq!(asks(released(segment, 2), 0), HeadAnswer::NotYet);
    assert_eq!(asks(HeadWish::Sealed { segment, count }, 0), HeadAnswer::Done);
    assert_eq!(asks(released(segment, 1), 0), HeadAnswer::NotYet);
    assert_eq!(number(asks(opening(Reach::Near), 0)), (3, 2));
    assert_eq!(
        asks(
            HeadWish::Sealed {
                segment: Segment(3),
                count
            },
            0
        ),
        HeadAnswer::Done
    );
    assert_eq!(asks(opening(Reach::Near), 0), HeadAnswer::Full);
    assert_eq!(asks(released(segment, 2), 5), HeadAnswer::Done);
    assert_eq!(asks(released(segment, 2), 5), HeadAnswer::Done);
    // Its register rests.
    assert_eq!(asks(opening(Reach::Near), 6), HeadAnswer::Full);
    let rested = WINDOW_MICROS + 2 * LEASE_MARGIN_MICROS + 5;
    assert_eq!(head.before(Segment(4), rested - 1).len(), 2);
    assert_eq!(head.before(Segment(4), rested).len(), 1);
    // By clocks that are apart it would rest for less than the window.
    let mut asks = |wish, now| head.work_out(&wish, false, &head_context(1, now));
    assert_eq!(asks(opening(Reach::Near), rested - 1), HeadAnswer::Full);
    assert_eq!(number(asks(opening(Reach::Near), rested)), (4, 0));
    assert_eq!(asks(released(Segment(3), 2), rested), HeadAnswer::Done);
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
    let answer = head.work_out(&opening(Reach::Near), false, &context);
    assert_eq!(answer, HeadAnswer::Full, "there is no greater number");
}

/// What somebody is told who opens a segment in a place that was another queue's since he knew whose it is.
fn opens_by_an_old_registry(rules: Rules) -> HeadAnswer {
    use crate::{Register, Tenure};
    let mut head = Head::absent();
    let protocol = Protocol {
        rules,
        ..Protocol::default()
    };
    let context = HeadContext {
        protocol,
        ..head_context(1, 0)
    };
    let mut asks = |wish| head.work_out(&wish, false, &context);
    let reach = Reach::Near;
    let (old, deletion, new) = (Tenure(1), Tenure(2), Tenure(3));
    // It was deleted before it was made.
    assert_eq!(asks(HeadWish::Close(deletion)), HeadAnswer::Done);
    assert_eq!(asks(HeadWish::Close(old)), HeadAnswer::Done);
    assert_eq!(asks(HeadWish::Fence(1)), HeadAnswer::Done);
    let opened = asks(HeadWish::Open { reach, tenure: new });
    assert!(matches!(opened, HeadAnswer::Open(Segment(1), _)));
    let answer = asks(HeadWish::Open { reach, tenure: old });
    assert!(head.serves(new) && !head.serves(deletion));
    answer
}

#[test]
fn who_knows_a_deleted_queue_is_told_so() {
    assert_eq!(opens_by_an_old_registry(Rules::default()), HeadAnswer::NoQueue);
}

#[test]
fn without_the_tenure_of_a_place() {
    let answer = opens_by_an_old_registry(Rules::without(Some(Rule::TenureNoOlderThanHead)));
    assert!(
        matches!(answer, HeadAnswer::Open(Segment(1), _)),
        "what is the new queue's"
    );
}

#[test]
fn of_two_messages_with_one_deduplication_id_the_later_one_counts() {
    let sent = |id, sent| Entry {
        sent,
        deduplication: Some(crate::Fingerprint(1)),
        ..entry(id, 1)
    };
    let log_of = |entry: Entry| {
        let mut log = Log::absent();
        let row = crate::LogRow {
            chunk: Chunk(1),
            entries: [entry].into(),
        };
        log.rows.insert(0, row);
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
        let wish = append(3, &[sent(3, WINDOW_MICROS + 1)]);
        round.step(Event::Asked(vec![wish]), &context);
        let mut empty = Log::absent();
        empty.segment = Segment(1);
        let told = round.step(Event::Read(empty), &context);
        let duplicate = LogAnswer::Appended(vec![Placed::Duplicate(MessageId(2))]);
        assert_eq!(told, [Action::Answer(Ticket(3), duplicate)]);
    }
}

#[test]
fn far_messages_go_apart_but_those_with_a_deduplication_id() {
    let mut late = entry(1, 1);
    late.not_before = crate::limits::FAR_MICROS + 1;
    assert_eq!(crate::reach(&late), Reach::Far);
    late.deduplication = Some(crate::Fingerprint(1));
    assert_eq!(crate::reach(&late), Reach::Near);
    assert_eq!(crate::reach(&entry(1, 1)), Reach::Near);
}

#[test]
fn what_sets_a_register_up_anew_is_put_whole() {
    let (recent, protocol) = (Recent::new(), Protocol::default());
    let of = |number| LogContext {
        segment: Segment(number),
        ..log_context(&recent, protocol)
    };
    let mut round = Round::<Log>::new(protocol);
    round.step(Event::Asked(vec![append(1, &[entry(1, 1), entry(2, 1)])]), &of(1));
    let first = put(&round.step(Event::Read(Log::absent()), &of(1)));
    round.step(Event::Decided(1, Decision::Applied), &of(1));
    // The next segment's log is no longer than the one before it was.
    let second = put(&round.step(Event::Asked(vec![append(3, &[entry(3, 1)])]), &of(2)));
    assert_eq!(round.copy(), Some(&first));
    let rows: Vec<_> = second
        .rows_since(&first)
        .map(|(place, row)| (place, row.chunk))
        .collect();
    assert_eq!(rows, [(0, Chunk(3))]);
}

/// A state of which these are resolved, and its log of so many messages.
fn resolved(places: impl Iterator<Item = u16>, count: usize) -> States {
    let mut states = States::new(Protocol::default());
    let entries = vec![entry(1, 1); count].into();
    let row = crate::LogRow {
        chunk: Chunk(1),
        entries,
    };
    states.log.rows = BTreeMap::from([(0, row)]);
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
    // Where no more may be pending, only what is pending already is looked at, and the next one.
    let mut states = resolved(0..0, 4_096);
    states.claims(9, 1_024);
    assert_eq!(looks(&mut states, 10), (0, 1_025));
}

#[test]
fn a_purge_takes_back_nothing() {
    let mut states = resolved(5..7, 7);
    assert_eq!(states.claims(1, 9).len(), 5);
    assert_eq!(states.is_told(StateWish::Purge { count: 3 }), StateAnswer::Done);
    assert_eq!(states.state.resolved().count(), 5);
    assert!(states.state.resolved().has(6));
    let pending: Vec<_> = states.state.pending().keys().copied().collect();
    assert_eq!(pending, [3, 4]);
}

const NOBODY: [u16; 0] = [];

#[test]
fn a_group_waits_for_each_live_segment_before_and_for_those_that_nobody_read() {
    use crate::{Fingerprint, Live, Order, RegisterNumber};
    let grouped = |id, group| Entry {
        group: Some(Fingerprint(group)),
        ..entry(id, 1)
    };
    let log_of = |segment, entries: &[Entry]| {
        let mut log = Log::absent();
        log.segment = Segment(segment);
        log.is_sealed = true;
        let row = crate::LogRow {
            chunk: Chunk(1),
            entries: entries.into(),
        };
        log.rows.insert(0, row);
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
        use crate::Register;
        let context = StateContext {
            segment: Segment(2),
            order: Some(order),
            ..states.context()
        };
        let (claim, most, until) = (ClaimId(1), 9, 30);
        let wish = StateWish::Claim { claim, most, until };
        match State::absent().work_out(&wish, false, &context) {
            StateAnswer::Claimed(deliveries) => deliveries.iter().map(|one| one.seq).collect::<Vec<_>>(),
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
    // Nobody read it; or the head is older than the segment, and may not have all that come before.
    assert_eq!(claims(&states, &order(&head, 2, None, &done)), NOBODY);
    assert_eq!(claims(&states, &order(&head, 3, Some(&before), &done)), NOBODY);
    let other = log_of(9, &[]);
    assert_eq!(claims(&states, &order(&head, 2, Some(&other), &done)), NOBODY);
    head.live.remove(&Segment(1));
    assert_eq!(claims(&states, &order(&head, 2, None, &done)), [0, 1]);
}
