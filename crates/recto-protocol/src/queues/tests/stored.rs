//! Tests of the stored forms of queues. Checks that formats never change, and that invalid bytes
//! are an error.

use proptest::prelude::*;
use recto_model::golden::bytes_of_hex;

use crate::queues::ring::{Owner, Phase};
use crate::queues::rows::Rows;
use crate::queues::stored::{
    Receipt, StoredError, decode_head, decode_log, decode_log_header, decode_log_row, decode_registry,
    decode_registry_row, decode_ring, decode_state, encode_head, encode_log_header, encode_log_row,
    encode_ring, encode_state,
};
use crate::queues::{
    Address, BodyTable, Chunk, ClaimId, Entry, Fingerprint, Head, Life, Live, Log, LogRow, MessageId, Origin,
    Pending, Place, QueueId, Reach, Received, RegisterNumber, Resolved, Resting, Ring, Segment, Seq, Shard,
    Standing, State, Target, Tenure,
};

/// Version of a cell, from its own column. Any value is valid in these tests.
pub(super) const VERSION: u64 = 77;

pub(super) fn lines(golden: &'static str) -> impl Iterator<Item = Vec<&'static str>> {
    let lines = golden.lines().filter(|line| !line.starts_with('#'));
    lines.map(|line| line.split("; ").collect())
}

pub(super) fn number<N: std::str::FromStr>(text: &str) -> N {
    let number = text.parse().ok();
    number.expect("a number")
}

pub(super) fn hex(text: &str) -> u128 {
    u128::from_str_radix(text, 16).expect("hexadecimal digits")
}

/// Returns the text of a field in a golden file; `None` if the field is `-`.
pub(super) fn optional(text: &str) -> Option<&str> {
    (text != "-").then_some(text)
}

fn address(place: &str, shard: &str) -> Address {
    Address {
        place: Place(number(place)),
        shard: Shard(number(shard)),
    }
}

/// Returns the parts of a field in a golden file; `-` is an empty list.
pub(super) fn each(text: &str, between: char) -> Vec<&str> {
    optional(text).map_or_else(Vec::new, |text| text.split(between).collect())
}

fn golden_row(text: &str) -> Entry {
    let parts: Vec<_> = text.split(',').collect();
    let fingerprint = |text| optional(text).map(|text| Fingerprint(hex(text)));
    let origin = |text: &str| {
        let parts: Vec<_> = text.split('/').collect();
        Origin {
            address: address(parts[0], parts[1]),
            segment: Segment(number(parts[2])),
            seq: number(parts[3]),
        }
    };
    let received = |text: &str| {
        let parts: Vec<_> = text.split('/').collect();
        Received {
            attempts: number(parts[0]),
            first: number(parts[1]),
            until: number(parts[2]),
        }
    };
    Entry {
        id: MessageId(hex(parts[0])),
        index: number(parts[1]),
        size: number(parts[2]),
        sent: number(parts[3]),
        not_before: number(parts[4]),
        group: fingerprint(parts[5]),
        deduplication: fingerprint(parts[6]),
        origin: optional(parts[7]).map(origin),
        received: parts.get(8).and_then(|text| optional(text)).map(received),
        arrived: parts.get(9).map(|text| number(text)),
    }
}

fn golden_rows() -> Vec<(Segment, LogRow, Vec<u8>)> {
    let rows = lines(include_str!("golden/log-v1.txt")).chain(lines(include_str!("golden/log-v2.txt")));
    let rows = rows.filter(|line| line[0] == "row");
    let row = |line: Vec<&str>| {
        let row = LogRow {
            chunk: Chunk(hex(line[2])),
            entries: line[3].split(' ').map(golden_row).collect(),
        };
        (Segment(number(line[1])), row, bytes_of_hex(line[4]))
    };
    rows.map(row).collect()
}

fn golden_states() -> Vec<(State, Vec<u8>)> {
    let standing = |text: &str| match text {
        "claimed" => Standing::Claimed,
        "waiting" => Standing::Waiting,
        target => {
            let parts: Vec<_> = target.split('/').collect();
            Standing::Leaving(Target {
                address: address(parts[0], parts[1]),
                segment: Segment(number(parts[2])),
                chunk: Chunk(hex(parts[3])),
            })
        }
    };
    let pending = |text: &str| {
        let parts: Vec<_> = text.split(',').collect();
        let pending = Pending {
            attempts: number(parts[1]),
            first_received: number(parts[2]),
            claim: ClaimId(hex(parts[3])),
            until: number(parts[4]),
            standing: standing(parts[5]),
        };
        let (first, last) = parts[0].split_once("..").unwrap_or((parts[0], parts[0]));
        (number::<Seq>(first)..=number(last)).map(move |seq| (seq, pending))
    };
    let state = |line: Vec<&str>| {
        let mut resolved = Resolved::default();
        for seq in each(line[1], ',') {
            resolved.add(number(seq));
        }
        let state = State {
            version: VERSION,
            segment: Segment(number(line[0])),
            resolved,
            pending: each(line[2], ' ').into_iter().flat_map(pending).collect(),
        };
        (state, bytes_of_hex(line[3]))
    };
    let lines = lines(include_str!("golden/state-v1.txt")).chain(lines(include_str!("golden/state-v2.txt")));
    lines.map(state).collect()
}

fn golden_heads() -> Vec<(Head, Vec<u8>)> {
    let live = |text: &str| {
        let parts: Vec<_> = text.split(',').collect();
        let live = Live {
            register: RegisterNumber(number(parts[1])),
            table: BodyTable(number(parts[2])),
            reach: if parts[3] == "far" {
                Reach::Far
            } else {
                Reach::Near
            },
            count: optional(parts[4]).map(number),
        };
        (Segment(number(parts[0])), live)
    };
    let resting = |text: &str| {
        let parts: Vec<_> = text.split(',').collect();
        Resting {
            register: RegisterNumber(number(parts[0])),
            segment: Segment(number(parts[1])),
            since: number(parts[2]),
        }
    };
    let head = |line: Vec<&str>| {
        let head = Head {
            version: VERSION,
            ring: number(line[0]),
            tenure: Tenure(number(line[1])),
            last: Segment(number(line[2])),
            registers: number(line[3]),
            live: each(line[4], ' ').into_iter().map(live).collect(),
            resting: each(line[5], ' ').into_iter().map(resting).collect(),
        };
        (head, bytes_of_hex(line[6]))
    };
    lines(include_str!("golden/head-v1.txt")).map(head).collect()
}

fn golden_rings() -> Vec<(Ring, Vec<u8>)> {
    let table = |text: &str| {
        let parts: Vec<_> = text.split(',').collect();
        let since = || number(parts[2]);
        let life = || Life(number(parts[3]));
        let phase = match parts[1] {
            "free" => Phase::Free,
            "retired" => Phase::Retired,
            "open" => Phase::Open {
                since: since(),
                life: life(),
            },
            "closing" => Phase::Closing {
                since: since(),
                life: life(),
            },
            "unit" => Phase::Unit {
                unit: QueueId(hex(parts[4])),
                since: since(),
                life: life(),
            },
            "closed" => Phase::Closed {
                since: since(),
                life: life(),
            },
            _ => Phase::Emptying {
                owner: Owner(hex(parts[4])),
                since: since(),
                life: life(),
            },
        };
        (BodyTable(number(parts[0])), phase)
    };
    let ring = |line: Vec<&str>| {
        let ring = Ring {
            version: VERSION,
            last: BodyTable(number(line[0])),
            tables: each(line[1], ' ').into_iter().map(table).collect(),
        };
        (ring, bytes_of_hex(line[2]))
    };
    lines(include_str!("golden/ring-v1.txt")).map(ring).collect()
}

fn golden_receipts() -> Vec<(Receipt, Vec<u8>)> {
    let receipt = |line: Vec<&str>| {
        let receipt = Receipt {
            address: address(line[0], line[1]),
            tenure: Tenure(number(line[2])),
            segment: Segment(number(line[3])),
            seq: number(line[4]),
            claim: ClaimId(hex(line[5])),
        };
        (receipt, bytes_of_hex(line[6]))
    };
    lines(include_str!("golden/receipt-v1.txt"))
        .map(receipt)
        .collect()
}

#[test]
fn reads_and_writes_each_golden_version() {
    let logs = lines(include_str!("golden/log-v1.txt")).filter(|line| line[0] == "log");
    for line in logs {
        // The golden file has only the header of the log, so make up rows that match its counts.
        let entry = |size| Entry {
            size,
            ..golden_row("00,0,0,0,0,-,-,-")
        };
        let (messages, count): (Seq, Seq) = (number(line[2]), number(line[3]));
        let row = |number: Seq| {
            // Each row has one message, except the last, which has all remaining messages.
            let is_last = number + 1 == count;
            let entries = vec![entry(1); usize::from(if is_last { messages - number } else { 1 })];
            let row = LogRow {
                chunk: Chunk(number.into()),
                entries: entries.into(),
            };
            (number, row)
        };
        let log = Log {
            version: VERSION,
            segment: Segment(number(line[1])),
            bytes: number(line[4]),
            is_sealed: line[5] == "1",
            rows: (0..count).map(row).collect(),
        };
        let bytes = bytes_of_hex(line[6]);
        assert_eq!(encode_log_header(&log), bytes);
        let rows: Vec<_> = log
            .rows
            .iter()
            .map(|(_, row)| encode_log_row(log.segment, row))
            .collect();
        let rows = (0..).zip(rows.iter().map(|row| &row[..]));
        assert_eq!(decode_whole(VERSION, &bytes, rows), Ok(log.clone()));
    }
    for (segment, row, bytes) in golden_rows() {
        assert_eq!(encode_log_row(segment, &row), bytes);
        assert_eq!(decode_log_row(&bytes), Ok((segment, row)));
    }
    for (state, bytes) in golden_states() {
        assert_eq!(encode_state(&state), bytes);
        assert_eq!(decode_state(VERSION, &bytes), Ok(state));
    }
    for (head, bytes) in golden_heads() {
        assert_eq!(encode_head(&head), bytes);
        assert_eq!(decode_head(VERSION, &bytes), Ok(head));
    }
    for (ring, bytes) in golden_rings() {
        assert_eq!(encode_ring(&ring), bytes);
        assert_eq!(decode_ring(VERSION, &bytes), Ok(ring));
    }
    for (receipt, bytes) in golden_receipts() {
        assert_eq!(receipt.encode(), bytes);
        assert_eq!(Receipt::decode(&bytes), Ok(receipt));
    }
    let counts = (
        golden_rows().len(),
        golden_states().len(),
        golden_heads().len(),
        golden_rings().len(),
        golden_receipts().len(),
    );
    assert_eq!(counts, (5, 5, 3, 4, 3));
}

/// Decodes a log without an earlier value of the log.
fn decode_whole<'b>(
    version: u64,
    bytes: &[u8],
    rows: impl IntoIterator<Item = (Seq, &'b [u8])>,
) -> Result<Log, StoredError> {
    decode_log(decode_log_header(version, bytes)?, &Log::absent(), rows)
}

/// Checks that the bytes are invalid, or that the decoded value is encoded as the same bytes.
fn is_strict(bytes: &[u8]) -> Result<(), TestCaseError> {
    if let Ok(log) = decode_whole(VERSION, bytes, []) {
        prop_assert_eq!(encode_log_header(&log), bytes);
    }
    if let Ok((segment, row)) = decode_log_row(bytes) {
        prop_assert_eq!(encode_log_row(segment, &row), bytes);
    }
    if let Ok(state) = decode_state(VERSION, bytes) {
        prop_assert_eq!(encode_state(&state), bytes);
    }
    if let Ok(head) = decode_head(VERSION, bytes) {
        prop_assert_eq!(encode_head(&head), bytes);
    }
    if let Ok(ring) = decode_ring(VERSION, bytes) {
        prop_assert_eq!(encode_ring(&ring), bytes);
    }
    Ok(())
}

#[test]
fn detects_truncated_extended_and_altered_bytes() -> Result<(), TestCaseError> {
    let rows = golden_rows().into_iter().map(|(.., bytes)| bytes);
    let states = golden_states().into_iter().map(|(_, bytes)| bytes);
    let heads = golden_heads().into_iter().map(|(_, bytes)| bytes);
    let rings = golden_rings().into_iter().map(|(_, bytes)| bytes);
    for bytes in rows.chain(states).chain(heads).chain(rings) {
        // Truncate and alter long bytes only at some positions, to keep the test short.
        let step = 1 + bytes.len() / 1_024;
        for length in (0..bytes.len()).step_by(step) {
            is_strict(&bytes[..length])?;
        }
        let longer = [&bytes[..], &[0]].concat();
        assert!(decode_head(1, &longer).is_err() && decode_state(1, &longer).is_err());
        assert!(decode_log_row(&longer).is_err() && decode_ring(1, &longer).is_err());
        // Try other format versions here, because no single bit flip turns version 1 into 2.
        for version in 0..=3 {
            is_strict(&[&[version], &bytes[1..]].concat())?;
        }
        for bit in (0..bytes.len() * 8).step_by(step) {
            let mut altered = bytes.clone();
            altered[bit / 8] ^= 1 << (bit % 8);
            is_strict(&altered)?;
        }
    }
    Ok(())
}

#[test]
fn a_receipt_of_which_a_bit_is_flipped_is_refused() {
    for (_, bytes) in golden_receipts() {
        for bit in 0..bytes.len() * 8 {
            let mut altered = bytes.clone();
            altered[bit / 8] ^= 1 << (bit % 8);
            let error = Receipt::decode(&altered).expect_err("it was altered");
            assert!(!error.hint().is_empty() && !error.to_string().is_empty());
        }
        for length in 0..bytes.len() {
            assert!(Receipt::decode(&bytes[..length]).is_err());
        }
        let error = Receipt::decode(&[&bytes[..], &[0]].concat()).expect_err("bytes follow");
        assert!(error.hint().contains("receipt"));
    }
}

#[test]
fn other_versions_are_refused() {
    for version in [4, 255] {
        let bytes = [version; 80];
        let errors = [
            decode_whole(1, &bytes, []).map(|_| ()),
            decode_log_row(&bytes).map(|_| ()),
            decode_state(1, &bytes).map(|_| ()),
            decode_head(1, &bytes).map(|_| ()),
            decode_ring(1, &bytes).map(|_| ()),
            decode_registry(1, &bytes, []).map(|_| ()),
            decode_registry_row(&bytes).map(|_| ()),
            Receipt::decode(&bytes).map(|_| ()),
        ];
        for error in errors {
            let error = error.expect_err("another version");
            assert!(matches!(error, StoredError::UnknownVersion { version: said, .. } if said == version));
            assert!(error.hint().contains("newer release"));
        }
    }
    assert!(matches!(
        decode_head(1, &[0; 40]),
        Err(StoredError::Damaged { .. })
    ));
}

#[test]
fn a_logs_rows_follow_each_other_and_are_its_own() {
    let row = |count: usize| LogRow {
        chunk: Chunk(1),
        entries: vec![golden_row("00,0,1,0,0,-,-,-"); count].into(),
    };
    let log = Log {
        version: VERSION,
        segment: Segment(9),
        bytes: 5,
        is_sealed: false,
        rows: Rows::from_iter([(0, row(2)), (2, row(3))]),
    };
    let bytes = encode_log_header(&log);
    let (two, three) = (
        encode_log_row(Segment(9), &row(2)),
        encode_log_row(Segment(9), &row(3)),
    );
    let old = encode_log_row(Segment(8), &row(4));
    let decoded = decode_whole(VERSION, &bytes, [(0, &two[..]), (1, &three)]);
    assert_eq!(decoded, Ok(log));
    for rows in [
        vec![(0, &two[..])],
        vec![(0, &three[..]), (1, &three)],
        vec![(0, &two[..]), (1, &two)],
        vec![(0, &two[..]), (2, &three)],
        vec![(0, &two[..]), (1, &old)],
        vec![(0, &two[..]), (1, &three), (2, &old)],
        vec![(0, &two[..]), (1, &three[..9])],
    ] {
        assert!(matches!(
            decode_whole(VERSION, &bytes, rows),
            Err(StoredError::Damaged { .. })
        ));
    }
}

#[test]
fn only_rows_that_a_copy_does_not_have_are_needed() {
    let row = |chunk: u128, count: usize| LogRow {
        chunk: Chunk(chunk),
        entries: vec![golden_row("00,0,1,0,0,-,-,-"); count].into(),
    };
    let log = |version, segment, rows: &[(Seq, LogRow)]| Log {
        version,
        segment: Segment(segment),
        bytes: 0,
        is_sealed: false,
        rows: rows.iter().cloned().collect(),
    };
    let (first, second) = ((0, row(1, 2)), (2, row(2, 3)));
    let newest = log(VERSION, 9, &[first.clone(), second.clone()]);
    let header = decode_log_header(VERSION, &encode_log_header(&newest)).expect("a header");
    let (two, three) = (
        encode_log_row(Segment(9), &first.1),
        encode_log_row(Segment(9), &second.1),
    );
    let (all, last) = ([(0, &two[..]), (1, &three)], [(1, &three[..])]);
    for (copy, from) in [
        (log(VERSION - 1, 9, std::slice::from_ref(&first)), 1),
        (newest.clone(), 2),
        (Log::absent(), 0),
        // All rows are needed if the known log belongs to another segment, or is newer than the
        // header.
        (log(VERSION - 1, 8, &[(0, row(7, 2))]), 0),
        (log(VERSION + 1, 9, std::slice::from_ref(&first)), 0),
    ] {
        assert_eq!(header.needed_from(&copy), from);
        let rows = all.into_iter().filter(|(number, _)| *number >= from);
        assert_eq!(decode_log(header, &copy, rows), Ok(newest.clone()));
        let is_enough = decode_log(header, &copy, last).is_ok();
        assert_eq!(is_enough, from == 1, "of {from} on");
    }
}

#[test]
fn numbers_that_nobody_counted_to_are_refused() {
    let damaged = |error| matches!(error, StoredError::Damaged { .. });
    let most = crate::queues::limits::MAX_VERSION;
    let head = encode_head(&Head::absent());
    let state = encode_state(&State::absent());
    let ring = encode_ring(&Ring::absent());
    let mut log = Log::absent();
    let bytes = encode_log_header(&log);
    assert!(decode_head(most - 1, &head).is_ok() && decode_state(most - 1, &state).is_ok());
    assert!(decode_ring(most - 1, &ring).is_ok() && decode_whole(most - 1, &bytes, []).is_ok());
    for version in [most, u64::MAX] {
        assert!(decode_head(version, &head).is_err_and(damaged));
        assert!(decode_state(version, &state).is_err_and(damaged));
        assert!(decode_ring(version, &ring).is_err_and(damaged));
        assert!(decode_whole(version, &bytes, []).is_err_and(damaged));
    }
    for bytes in [crate::queues::limits::MAX_SEGMENT_BYTES + 1, u64::MAX] {
        log.bytes = bytes;
        assert!(decode_whole(VERSION, &encode_log_header(&log), []).is_err_and(damaged));
    }
}

fn states() -> impl Strategy<Value = State> {
    let standing = prop_oneof![
        Just(Standing::Claimed),
        Just(Standing::Waiting),
        any::<(u32, u16, u64, u128)>().prop_map(|(place, shard, segment, chunk)| {
            Standing::Leaving(Target {
                address: Address {
                    place: Place(place),
                    shard: Shard(shard),
                },
                segment: Segment(segment),
                chunk: Chunk(chunk),
            })
        }),
    ];
    let pending = (any::<(u16, i64, u128, i64)>(), standing);
    let pending = pending.prop_map(|((attempts, first_received, claim, until), standing)| Pending {
        attempts,
        first_received,
        claim: ClaimId(claim),
        until,
        standing,
    });
    let resolved = proptest::collection::vec(0..4096_u16, 0..20);
    let many = proptest::collection::vec(pending.clone(), 1_000..1_100);
    let many = (many, 1..4_u16).prop_map(|(all, step)| {
        let places = (0..4096_u16).step_by(step.into());
        places.zip(all).collect()
    });
    let pending = prop_oneof![
        7 => proptest::collection::btree_map(0..4096_u16, pending, 0..5),
        1 => many,
    ];
    (any::<u64>(), resolved, pending).prop_map(|(segment, places, pending)| {
        let mut resolved = Resolved::default();
        for seq in places {
            resolved.add(seq);
        }
        State {
            version: VERSION,
            segment: Segment(segment),
            pending: pending
                .into_iter()
                .filter(|(seq, _)| !resolved.has(*seq))
                .collect(),
            resolved,
        }
    })
}

proptest! {
    #[test]
    fn any_bytes_are_refused_or_read(
        version in 0..3_u8,
        rest in proptest::collection::vec(prop_oneof![Just(0_u8), 0..9_u8, any::<u8>()], 0..90),
    ) {
        is_strict(&rest)?;
        is_strict(&[&[version][..], &rest].concat())?;
        prop_assert!(Receipt::decode(&rest).is_err());
    }

    #[test]
    fn decodes_encoded_values(state in states(), claim in any::<(u32, u16, u64, u64, u16, u128)>()) {
        let bytes = encode_state(&state);
        prop_assert_eq!(decode_state(VERSION, &bytes), Ok(state));
        let (place, shard, tenure, segment, seq, claim) = claim;
        let receipt = Receipt {
            address: Address {
                place: Place(place),
                shard: Shard(shard),
            },
            tenure: Tenure(tenure),
            segment: Segment(segment),
            seq,
            claim: ClaimId(claim),
        };
        prop_assert_eq!(Receipt::decode(&receipt.encode()), Ok(receipt));
    }
}
