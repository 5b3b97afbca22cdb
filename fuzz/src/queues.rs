//! Target for stored data of queues, and for receipts. Parsed data must be written as the same bytes, and
//! commands must work on it.

use recto_protocol::queues::stored::{
    decode_head, decode_log, decode_log_header, decode_log_row, decode_registry, decode_registry_row,
    decode_ring, decode_state, encode_head, encode_log_header, encode_log_row, encode_registry,
    encode_registry_row, encode_ring, encode_state,
};
use recto_protocol::queues::{
    BodyTable, ClaimId, Clock, HeadCommand, HeadContext, Leases, Log, Phase, Place, Protocol, QueueId,
    QueueName, QueueOptions, Reach, Receipt, Register, RegistryCommand, RegistryContext, RingCommand,
    RingContext, Segment, State, StateCommand, StateContext, StoredError, Tenure,
};

use crate::memory::limited;

/// Memory limit of parsing stored data, as a multiple of its bytes. It must be large, because a row of the
/// registry may have only 20 bytes.
const MEMORY_FACTOR: usize = 64;

/// Version of the tested versioned cells. Stores keep it in a column of its own.
const COLUMN: u64 = 77;
const NOW: i64 = 1_800_000_000_000_000;

/// Runs the case that the first byte selects, on the remaining bytes.
pub(crate) fn run(data: &[u8]) {
    let Some((kind, rest)) = data.split_first() else {
        return;
    };
    limited(rest.len(), MEMORY_FACTOR, || match kind % 8 {
        0 => log(rest),
        1 => is_same(rest, decode_log_row(rest), |(segment, row)| {
            encode_log_row(*segment, row)
        }),
        2 => state(rest),
        3 => head(rest),
        4 => ring(rest),
        5 => registry(rest),
        6 => is_same(rest, decode_registry_row(rest), encode_registry_row),
        _ => is_same(rest, Receipt::decode(rest), Receipt::encode),
    });
}

/// Checks that parsed data is written as the same bytes. If parsing failed, checks that the error has a
/// message and a hint.
fn is_same<T>(bytes: &[u8], read: Result<T, StoredError>, encode: impl Fn(&T) -> Vec<u8>) {
    match read {
        Ok(read) => assert_eq!(encode(&read), bytes),
        Err(error) => assert!(!error.to_string().is_empty() && !error.hint().is_empty()),
    }
}

/// Splits the input into parts. Two bytes in front of each part contain its length. The last part may be
/// shorter.
fn pieces(mut bytes: &[u8]) -> Vec<&[u8]> {
    let mut pieces = Vec::new();
    while let Some((length, rest)) = bytes.split_first_chunk() {
        let length = usize::from(u16::from_be_bytes(*length)).min(rest.len());
        let (piece, rest) = rest.split_at(length);
        pieces.push(piece);
        bytes = rest;
    }
    pieces
}

/// Tests the log of a segment: its static column, and consecutive rows.
fn log(bytes: &[u8]) {
    let pieces = pieces(bytes);
    let Some((column, rows)) = pieces.split_first() else {
        return;
    };
    let rows = (0..).zip(rows.iter().copied());
    let Ok(header) = decode_log_header(COLUMN, column) else {
        return;
    };
    let Ok(log) = decode_log(header, &Log::absent(), rows) else {
        return;
    };
    assert_eq!(encode_log_header(&log), *column);
    assert_eq!(decode_log(header, &log, []).as_ref(), Ok(&log));
    let messages = log.messages().map(|(seq, ..)| seq);
    assert!(messages.eq(0..log.next()));
    if let Some(last) = log.next().checked_sub(1) {
        assert!(log.message(last).is_some());
        claims(State::absent(), &log);
    }
}

fn state(bytes: &[u8]) {
    let read = decode_state(COLUMN, bytes);
    if let Ok(state) = &read {
        claims(state.clone(), &Log::absent());
    }
    is_same(bytes, read, encode_state);
}

/// Checks that messages can be claimed from a parsed state and log.
fn claims(mut state: State, log: &Log) {
    let segment = Segment(log.segment().0.max(state.segment().0));
    let context = StateContext {
        segment,
        log,
        most_attempts: Some(3),
        expired_by: None,
        order: None,
        leases: &Leases::default(),
        clock: Clock {
            wall: NOW,
            monotonic: 0,
        },
        protocol: Protocol::default(),
    };
    let claim = StateCommand::Claim {
        claim: ClaimId(1),
        most: 10,
        until: NOW,
        failed_surplus: 0,
    };
    state.work_out(&claim, false, &context);
    let exhausted = state.exhausted(&context);
    assert!(exhausted.iter().all(|seq| state.pending().contains_key(seq)));
}

fn head(bytes: &[u8]) {
    let read = decode_head(COLUMN, bytes);
    if let Ok(head) = &read {
        let mut head = head.clone();
        let context = HeadContext {
            ring: u64::MAX,
            table: BodyTable(1),
            now: NOW,
            protocol: Protocol::default(),
        };
        let tenure = Tenure(u64::MAX);
        for reach in [Reach::Near, Reach::Far] {
            head.work_out(
                &HeadCommand::Open {
                    reach,
                    tenure,
                    table: None,
                },
                false,
                &context,
            );
        }
        head.work_out(&HeadCommand::Close(tenure), false, &context);
        assert!(
            head.serves(tenure) && head.before(Segment(u64::MAX), NOW).len() <= head.live().len() + 4_096
        );
    }
    is_same(bytes, read, encode_head);
}

fn ring(bytes: &[u8]) {
    let read = decode_ring(COLUMN, bytes);
    if let Ok(ring) = &read {
        let mut ring = ring.clone();
        let context = RingContext {
            now: NOW,
            protocol: Protocol::default(),
        };
        let open = ring.tables().iter().find_map(|(table, phase)| match phase {
            Phase::Open { life, .. } => Some(RingCommand::Roll(*table, *life)),
            _ => None,
        });
        let commands = ring.next().map(RingCommand::Add).into_iter().chain(open);
        for command in commands.chain([RingCommand::Begin(QueueId(1))]) {
            ring.work_out(&command, false, &context);
        }
    }
    is_same(bytes, read, encode_ring);
}

/// Tests the registry of queues: its static column, and the rows of its slots. Then deletes and creates a
/// queue.
fn registry(bytes: &[u8]) {
    let pieces = pieces(bytes);
    let Some((column, rows)) = pieces.split_first() else {
        return;
    };
    let rows = (0..).map(Place).zip(rows.iter().copied());
    let Ok(mut registry) = decode_registry(COLUMN, column, rows.clone()) else {
        return;
    };
    assert_eq!(encode_registry(&registry), *column);
    let written = registry.places().map(|(_, row)| encode_registry_row(row));
    assert!(written.eq(rows.map(|(_, row)| row.to_vec())));
    let context = RegistryContext {
        now: NOW,
        protocol: Protocol::default(),
    };
    let first = registry
        .queues()
        .next()
        .map(|(.., queue)| RegistryCommand::Delete(queue.id));
    let create = QueueName::new("name", "new").map(|name| RegistryCommand::Create {
        id: QueueId(1),
        name,
        options: QueueOptions::default(),
    });
    for command in first.into_iter().chain(create) {
        registry.work_out(&command, false, &context);
        registry.raise();
    }
    let rows: Vec<_> = registry
        .places()
        .map(|(place, row)| (place, encode_registry_row(row)))
        .collect();
    let rows = rows.iter().map(|(place, row)| (*place, &row[..]));
    let again = decode_registry(registry.version(), &encode_registry(&registry), rows);
    assert_eq!(again, Ok(registry));
}
