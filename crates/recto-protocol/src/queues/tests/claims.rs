//! Tests of claims in random states of random logs. Checks that a claim returns the same messages
//! as a simple check of each message, one after the other.

use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;

use super::{HERE, entry, state_context};
use crate::queues::limits::{LEASE_MARGIN_MICROS, Protocol};
use crate::queues::{
    BodyTable, Chunk, ClaimId, Clock, Entry, Fingerprint, Head, Leases, Live, Log, LogRow, OpenGroups, Order,
    Pending, Reach, Received, Register, RegisterNumber, Resolved, Segment, Seq, Standing, State,
    StateCommand, StateContext, StateResponse, Target,
};

const SEGMENT: Segment = Segment(2);
const NOW: i64 = 2 * LEASE_MARGIN_MICROS;
/// Id of the tested claim, which no other claim has. The id of another claim equals the position of
/// its message.
const CLAIM: ClaimId = ClaimId(u128::MAX);

/// Random message, as a tuple of:
///
/// 1. its group
/// 2. whether it is due later
/// 3. whether it is resolved (never received again)
/// 4. if it is pending: its attempts, a time, and its phase
/// 5. if segment merging moved it here after a receive: the time from which it can be received
///    again
type Message = (Option<u8>, bool, bool, Option<(u16, i64, u8)>, Option<i64>);

fn messages() -> impl Strategy<Value = Vec<Message>> {
    let group = proptest::option::of(0..4_u8);
    let pending = proptest::option::weighted(0.4, (0..4_u16, 0..4_i64, 0..3_u8));
    let message = (
        group,
        proptest::bool::weighted(0.2),
        proptest::bool::weighted(0.7),
        pending,
        proptest::option::weighted(0.1, 0..4_i64),
    );
    proptest::collection::vec(message, 0..200)
}

fn log_of(segment: Segment, entries: Vec<Entry>) -> Log {
    let mut log = Log::absent();
    log.segment = segment;
    log.is_sealed = true;
    if !entries.is_empty() {
        let entries = entries.into();
        let chunk = Chunk(1);
        log.rows.push(0, LogRow { chunk, entries });
    }
    log
}

fn in_group(group: Option<u8>) -> Entry {
    Entry {
        group: group.map(|group| Fingerprint(group.into())),
        ..entry(1, 1)
    }
}

/// Returns the log and the state of a segment (message batch) with these messages.
fn stored(messages: &[Message]) -> (Log, State) {
    let entries = messages.iter().map(|(group, is_late, _, _, moved_on)| Entry {
        not_before: if *is_late { NOW + 1 } else { NOW },
        received: moved_on.map(|until| Received {
            attempts: 1,
            first: 0,
            until: until * LEASE_MARGIN_MICROS,
        }),
        ..in_group(*group)
    });
    let log = log_of(SEGMENT, entries.collect());
    let mut state = State::absent();
    state.segment = SEGMENT;
    for (seq, (_, _, is_resolved, pending, _)) in (0..).zip(messages) {
        match pending {
            _ if *is_resolved => state.resolved.add(seq),
            Some((attempts, until, standing)) => {
                let pending = Pending {
                    attempts: *attempts,
                    first_received: 0,
                    claim: ClaimId(seq.into()),
                    until: until * LEASE_MARGIN_MICROS,
                    standing: standing_of(*standing),
                };
                state.pending.insert(seq, pending);
            }
            None => {}
        }
    }
    (log, state)
}

fn standing_of(standing: u8) -> Standing {
    match standing {
        0 => Standing::Claimed,
        1 => Standing::Waiting,
        _ => Standing::Leaving(Target {
            address: HERE,
            segment: Segment(3),
            chunk: Chunk(1),
        }),
    }
}

/// Returns an order in which exactly these message groups must wait.
fn order_of(blocked: &BTreeSet<u8>) -> Order {
    let mut head = Head::absent();
    head.last = SEGMENT;
    let live = Live {
        register: RegisterNumber(0),
        table: BodyTable(1),
        reach: Reach::Near,
        count: None,
    };
    head.live = BTreeMap::from([(Segment(1), live), (SEGMENT, live)]);
    let entries = blocked.iter().map(|group| in_group(Some(*group)));
    let (log, state) = (log_of(Segment(1), entries.collect()), State::absent());
    Order::of(&head, SEGMENT, |_| Some((&log, &state)), Protocol::default())
}

/// Returns the messages that a claim must get, found by a check of each message.
fn expected(
    messages: &[Message],
    state: &State,
    (most, failed_surplus): (u16, i16),
    most_attempts: Option<u16>,
    blocked: Option<&BTreeSet<u8>>,
    limit: usize,
) -> Vec<Seq> {
    let (mut seen, mut new, mut failed) = (BTreeSet::new(), Vec::new(), Vec::new());
    for (seq, (group, is_late, is_resolved, _, moved_on)) in (0..).zip(messages) {
        let must_wait = !is_resolved
            && match (blocked, group) {
                (Some(blocked), Some(group)) => !seen.insert(*group) || blocked.contains(group),
                _ => false,
            };
        let pending = state.pending.get(&seq);
        let is_held = pending.is_some_and(|pending| match pending.standing {
            Standing::Claimed => NOW < pending.until + LEASE_MARGIN_MICROS,
            Standing::Waiting => NOW < pending.until,
            Standing::Leaving(_) => true,
        });
        let is_exhausted =
            pending.is_some_and(|pending| most_attempts.is_some_and(|most| pending.attempts >= most));
        let moved_on = moved_on.map(|until| until * LEASE_MARGIN_MICROS);
        let is_waiting = moved_on.is_some_and(|until| NOW < until);
        if *is_resolved || must_wait || is_held || is_exhausted || *is_late || is_waiting {
            continue;
        }
        match pending.map(|pending| pending.until).or(moved_on) {
            Some(until) => failed.push((until, seq)),
            None => new.push(seq),
        }
    }
    failed.sort_unstable();
    // The loop below takes messages from the end of each list, so reverse the lists.
    new.reverse();
    failed.reverse();
    let mut room = limit - state.pending.len();
    let (mut claimed, mut new_count) = (Vec::new(), 0);
    while claimed.len() < usize::from(most) {
        if room == 0 {
            new.clear();
            failed.retain(|(_, seq)| state.pending.contains_key(seq));
        }
        let next_failed = failed.last().map(|(_, seq)| *seq);
        let count = |messages: usize| i64::try_from(messages).expect("there are few");
        let failed_count = count(claimed.len() - new_count) + i64::from(failed_surplus);
        let is_new_next = count(new_count) <= failed_count || next_failed.is_none();
        let next = new.last().copied().filter(|_| is_new_next).or(next_failed);
        let Some(seq) = next.or(new.last().copied()) else {
            break;
        };
        new_count += usize::from(new.contains(&seq));
        new.retain(|other| *other != seq);
        failed.retain(|(_, other)| *other != seq);
        room -= usize::from(!state.pending.contains_key(&seq));
        claimed.push(seq);
    }
    claimed.sort_unstable();
    claimed
}

proptest! {
    #[test]
    fn a_claim_gets_what_looking_at_each_message_finds(
        messages in messages(),
        is_done_up_to in 0..200_usize,
        most in 0..30_u16,
        most_attempts in proptest::option::of(1..4_u16),
        blocked in proptest::option::of(proptest::collection::btree_set(0..4_u8, 0..3)),
        room in 0..30_usize,
        failed_surplus in -1..4_i16,
    ) {
        let mut messages = messages;
        for message in messages.iter_mut().take(is_done_up_to) {
            message.2 = true;
        }
        let (log, mut state) = stored(&messages);
        let order = blocked.as_ref().map(order_of);
        let limit = state.pending.len() + room;
        let protocol = Protocol { pending: limit, ..Protocol::default() };
        let leases = Leases::default();
        let context = StateContext {
            segment: SEGMENT,
            most_attempts,
            order: order.as_ref(),
            clock: Clock { wall: NOW, monotonic: 0 },
            ..state_context(&log, &leases, protocol)
        };
        let command = StateCommand::Claim { claim: CLAIM, most, until: NOW + 1, failed_surplus };
        let expects = |most, surplus| {
            expected(&messages, &state, (most, surplus), most_attempts, blocked.as_ref(), limit)
        };
        let (expected, first) = (expects(most, failed_surplus), expects(1, 0));
        let before = state.clone();
        let is_new = |seq: &Seq| !state.pending.contains_key(seq) && messages[usize::from(*seq)].4.is_none();
        // A claim of one message takes a new message if there is one, so `first` shows whether a
        // new message can be claimed.
        let has_new = first.iter().any(is_new);
        // Check that `may_claim` and `has_new` predict the claim. Check also that the part of the
        // order that concerns this segment gives the same claim.
        prop_assert_eq!(before.may_claim(&context), !first.is_empty());
        prop_assert_eq!(before.has_new(&context), has_new);
        if let Some(order) = &order {
            let open = OpenGroups::of(SEGMENT, &log, &before).expect("the segment's log");
            prop_assert!(!order.blocks_all(&open) || first.is_empty());
            let within = order.within(&open);
            let context = StateContext { order: Some(&within), ..context };
            let response = before.clone().work_out(&command, false, &context);
            let claimed = matches!(&response, StateResponse::Claimed(all) if all.iter().map(|one| one.seq).eq(expected.clone()));
            prop_assert!(claimed, "{:?} is not {:?}", response, expected);
        }
        let response = state.work_out(&command, false, &context);
        let StateResponse::Claimed(deliveries) = &response else {
            panic!("{response:?}");
        };
        let claimed: Vec<_> = deliveries.iter().map(|delivery| delivery.seq).collect();
        prop_assert_eq!(&claimed, &expected);
        for delivery in deliveries {
            let moved_on = messages[usize::from(delivery.seq)].4.map_or(0, |_| 1);
            let attempts = before.pending.get(&delivery.seq).map_or(moved_on, |pending| pending.attempts);
            prop_assert_eq!(delivery.attempts, attempts + 1);
        }
        // A repeated command gets the same response, and changes nothing.
        let (after, again) = (state.clone(), state.work_out(&command, true, &context));
        prop_assert_eq!(again, response);
        prop_assert_eq!(&state, &after);
        state.pending.retain(|seq, _| !claimed.contains(seq));
        let mut untouched = before;
        untouched.pending.retain(|seq, _| !claimed.contains(seq));
        prop_assert_eq!(state, untouched);
    }

    #[test]
    fn lists_unresolved_messages_as_missing(
        places in proptest::collection::btree_set(0..300_u16, 0..300),
        count in 0..300_u16,
    ) {
        let mut resolved = Resolved::default();
        for place in &places {
            resolved.add(*place);
        }
        let missing: Vec<_> = resolved.missing(count).collect();
        let expected: Vec<_> = (0..count).filter(|place| !places.contains(place)).collect();
        prop_assert_eq!(missing, expected);
    }
}
