//! Tests of resume tokens of scans: an encrypted token opens only if it is unaltered and used for
//! its own scan. No other text opens, and no cursor opens as a resume token.
#![allow(clippy::unwrap_used)]

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use proptest::prelude::*;
use recto_model::golden::bytes_of_hex;
use recto_model::{Cells, Environment};
use recto_plan::Travel;
use recto_plan::cursor::{
    self, CursorError, CursorName, Fingerprint, KeyRing, Position, QueryIdentity, Side, key_id,
};
use recto_plan::scan_token::{
    MAX_SCAN_TOKEN_CHARACTERS, ScanProgress, ScanRange, ScanTokenError, open, seal,
};

const STORE: &str = "embedded";

fn environment() -> Environment {
    Environment::seeded(3, 1_000_000_000)
}

fn ring() -> KeyRing {
    let mut ring = KeyRing::new(1, std::array::from_fn(|index| index as u8));
    ring.add(0xA1B2_C3D4, std::array::from_fn(|index| 255 - index as u8))
        .unwrap();
    ring
}

fn identity() -> QueryIdentity {
    QueryIdentity {
        collection: Fingerprint::from_bytes([0x11; 16]),
        order: Fingerprint::from_bytes([0x22; 16]),
        query: Fingerprint::from_bytes([0x33; 16]),
    }
}

fn ranges() -> ScanProgress {
    let range = |start: &[u8], end: &[u8], after: Option<&[u8]>| ScanRange {
        start: start.to_vec(),
        end: end.to_vec(),
        after: after.map(<[u8]>::to_vec),
    };
    ScanProgress::Ranges {
        store: STORE.to_owned(),
        ranges: vec![range(b"", b"m", Some(b"c")), range(b"m", b"", None)],
    }
}

fn position() -> ScanProgress {
    ScanProgress::Position(Position {
        values: [Some(&b"acme"[..]), None].into_iter().collect(),
        side: Side::After,
    })
}

fn sealed(progress: &ScanProgress) -> String {
    seal(&ring(), &environment(), &identity(), progress, None).unwrap()
}

fn opened(text: &str) -> Result<ScanProgress, ScanTokenError> {
    open(&ring(), &environment(), text, &identity(), STORE)
}

fn refusal(text: &str) -> ScanTokenError {
    let error = opened(text).expect_err(text);
    assert!(!error.hint().is_empty());
    error
}

fn bytes_of(text: &str) -> Vec<u8> {
    URL_SAFE_NO_PAD.decode(text).unwrap()
}

fn text_of(bytes: &[u8]) -> String {
    URL_SAFE_NO_PAD.encode(bytes)
}

#[test]
fn opens_sealed_tokens() {
    for progress in [ranges(), position()] {
        let text = sealed(&progress);
        assert_eq!(opened(&text).unwrap(), progress);
        assert_eq!(key_id(&text), Some(1));
        assert!(!text.contains('='));
    }
}

#[test]
fn every_flipped_bit_is_noticed() {
    for progress in [ranges(), position()] {
        let text = sealed(&progress);
        let bytes = bytes_of(&text);
        for bit in 0..bytes.len() * 8 {
            let mut altered = bytes.clone();
            altered[bit / 8] ^= 1 << (bit % 8);
            let expected = match bit {
                0..8 => ScanTokenError::NotOfScan,
                8..16 => ScanTokenError::UnknownFormat { version: altered[1] },
                _ => ScanTokenError::NotOurs,
            };
            assert_eq!(refusal(&text_of(&altered)), expected, "bit {bit}");
        }
        for bit in 0..text.len() * 8 {
            let mut altered = text.as_bytes().to_vec();
            altered[bit / 8] ^= 1 << (bit % 8);
            if let Ok(text) = String::from_utf8(altered) {
                refusal(&text);
            }
        }
    }
}

#[test]
fn cut_and_extended_tokens_are_noticed() {
    let text = sealed(&ranges());
    let bytes = bytes_of(&text);
    for length in 0..text.len() {
        refusal(&text[..length]);
        refusal(&text[text.len() - length..]);
    }
    for length in 0..bytes.len() {
        refusal(&text_of(&bytes[..length]));
        let longer = [&bytes[..length], &[0; 256], &bytes[length..]].concat();
        refusal(&text_of(&longer));
    }
    for extension in ["A", "AAAA", "=", " ", "\n", "é", &text] {
        refusal(&format!("{text}{extension}"));
        refusal(&format!("{extension}{text}"));
    }
}

#[test]
fn cursors_and_tokens_do_not_open_as_one_another() {
    let ScanProgress::Position(position) = position() else {
        unreachable!()
    };
    let (ring, environment) = (ring(), environment());
    let travel = Travel::Forward;
    let page = cursor::seal(&ring, &environment, &identity(), &position, travel, None, None).unwrap();
    let token = sealed(&ScanProgress::Position(position));
    assert_eq!(refusal(page.as_str()), ScanTokenError::NotOfScan);
    let as_cursor = |text: &str| cursor::open(&ring, &environment, text).unwrap_err();
    assert_eq!(as_cursor(&token), CursorError::OfScan);
    assert!(!CursorError::OfScan.hint(CursorName::Cursor).is_empty());
    // Give each kind of text the first bytes of the other kind. These bytes are authenticated, so
    // the result does not open.
    let (page, token) = (bytes_of(page.as_str()), bytes_of(&token));
    let as_token = [&b"R\x01"[..], &page[1..]].concat();
    assert!(matches!(
        refusal(&text_of(&as_token)),
        ScanTokenError::NotOurs | ScanTokenError::Truncated
    ));
    let as_page = [&[1], &token[2..]].concat();
    assert_eq!(as_cursor(&text_of(&as_page)), CursorError::NotOurs);
}

#[test]
fn tokens_made_before_they_were_sealed_are_refused_clearly() {
    let mut old = vec![1, 0, 0, 0, 6];
    old.extend_from_slice(b"events\0\0\0\0\0\0\0\0\0");
    let check = blake3::hash(&old);
    old.extend_from_slice(&check.as_bytes()[..8]);
    let error = refusal(&text_of(&old));
    assert_eq!(error, ScanTokenError::NotOfScan);
    assert!(error.hint().contains("unencrypted tokens of old releases"));
}

#[test]
fn another_scan_is_told_which() {
    let other = Fingerprint::from_bytes([9; 16]);
    let as_other = |change: &dyn Fn(&mut QueryIdentity), store: &str, progress: &ScanProgress| {
        let mut identity = identity();
        change(&mut identity);
        open(&ring(), &environment(), &sealed(progress), &identity, store)
    };
    for progress in [ranges(), position()] {
        let refused = |change: &dyn Fn(&mut QueryIdentity)| as_other(change, STORE, &progress).unwrap_err();
        assert_eq!(
            refused(&|identity| identity.collection = other),
            ScanTokenError::OtherCollection
        );
        assert_eq!(
            refused(&|identity| identity.order = other),
            ScanTokenError::OtherSortOrder
        );
        assert_eq!(
            refused(&|identity| identity.query = other),
            ScanTokenError::OtherFilter
        );
    }
    assert_eq!(
        as_other(&|_| (), "cassandra", &ranges()),
        Err(ScanTokenError::OtherStore)
    );
    assert_eq!(as_other(&|_| (), "cassandra", &position()), Ok(position()));
}

#[test]
fn a_token_expires_and_its_key_is_retired() {
    let (environment, mut ring) = (environment(), ring());
    let of = |ring: &KeyRing, seconds| seal(ring, &environment, &identity(), &ranges(), seconds).unwrap();
    let open = |ring: &KeyRing, text: &str| open_at(ring, &Environment::seeded(1, 1_000_000_000), text).err();
    assert_eq!(open(&ring, &of(&ring, Some(1_001))), None);
    assert_eq!(
        open(&ring, &of(&ring, Some(1_000))),
        Some(ScanTokenError::Expired {
            expired_at_seconds: 1_000
        })
    );
    let old = of(&ring, None);
    ring.rotate(&environment).unwrap();
    assert_eq!(open(&ring, &old), None);
    ring.retire(0);
    assert_eq!(open(&ring, &old), Some(ScanTokenError::NotOurs));
}

fn open_at(ring: &KeyRing, environment: &Environment, text: &str) -> Result<ScanProgress, ScanTokenError> {
    open(ring, environment, text, &identity(), STORE)
}

/// Checks that the length of a token does not reveal the exact length of the keys in it.
#[test]
fn lengths_are_rounded_up() {
    let of = |length: usize| {
        let ScanProgress::Ranges { store, mut ranges } = ranges() else {
            unreachable!()
        };
        ranges[0].after = Some(vec![7; length]);
        sealed(&ScanProgress::Ranges { store, ranges }).len()
    };
    let mut lengths: Vec<usize> = (0..1_000).map(of).collect();
    lengths.dedup();
    assert_eq!(lengths.len(), 5, "{lengths:?}");
}

#[test]
fn the_largest_scan_fits_and_a_larger_one_is_refused() {
    let of = |count: usize, bytes: usize| {
        let range = ScanRange {
            start: Vec::new(),
            end: vec![1; bytes],
            after: Some(vec![2; bytes]),
        };
        let progress = ScanProgress::Ranges {
            store: STORE.to_owned(),
            ranges: vec![range; count],
        };
        (
            seal(&ring(), &environment(), &identity(), &progress, None),
            progress,
        )
    };
    // A row's key has two parts of 65,535 bytes. In the stores' own encoding, each byte may take
    // two bytes.
    let (text, progress) = of(16, 4 * 65_535);
    let text = text.unwrap();
    assert!(text.len() <= MAX_SCAN_TOKEN_CHARACTERS);
    assert_eq!(opened(&text).unwrap(), progress);
    let (refused, _) = of(64, 4 * 65_535);
    assert!(matches!(refused, Err(ScanTokenError::TooLarge { .. })));
    assert!(matches!(
        refusal(&"A".repeat(MAX_SCAN_TOKEN_CHARACTERS + 1)),
        ScanTokenError::TooLong { .. }
    ));
}

fn hex(text: &str) -> Option<Vec<u8>> {
    match text {
        "null" => None,
        "-" => Some(Vec::new()),
        text => Some(bytes_of_hex(text)),
    }
}

fn golden_progress(what: &str, text: &str) -> ScanProgress {
    if let "before" | "after" = what {
        let cells: Vec<Option<Vec<u8>>> = text.split(',').map(hex).collect();
        return ScanProgress::Position(Position {
            values: cells.iter().map(Option::as_deref).collect(),
            side: if what == "after" {
                Side::After
            } else {
                Side::Before
            },
        });
    }
    let range = |text: &str| {
        let parts: Vec<_> = text.split(':').map(hex).collect();
        ScanRange {
            start: parts[0].clone().unwrap(),
            end: parts[1].clone().unwrap(),
            after: parts[2].clone(),
        }
    };
    ScanProgress::Ranges {
        store: what.to_owned(),
        ranges: text
            .split(',')
            .filter(|text| *text != "none")
            .map(range)
            .collect(),
    }
}

/// Checks that tokens of format 1 open. A program written only from docs/format.md created the
/// golden tokens.
#[test]
fn tokens_of_every_version_open() {
    let golden = include_str!("../golden/scan-token-v1.txt");
    let mut count = 0;
    for line in golden.lines().filter(|line| !line.starts_with('#')) {
        let [key, _nonce, what, progress, expires, text] = line.split(' ').collect::<Vec<_>>()[..] else {
            panic!("{line}");
        };
        let expected = golden_progress(what, progress);
        let found = open(&ring(), &environment(), text, &identity(), what).unwrap();
        assert_eq!(found, expected, "{line}");
        assert_eq!(key_id(text).map(|id| id.to_string()).as_deref(), Some(key));
        // Encrypt the decrypted content again with the same key. The same length shows that `open`
        // read all parts of the token.
        let expires = expires.parse().ok();
        let again = seal(&ring(), &environment(), &identity(), &found, expires).unwrap();
        assert_eq!(again.len(), text.len());
        count += 1;
    }
    assert_eq!(count, 7);
}

fn cells() -> impl Strategy<Value = Cells> {
    let cell = prop::option::of(prop::collection::vec(any::<u8>(), 0..300));
    prop::collection::vec(cell, 0..6).prop_map(|cells| cells.iter().map(Option::as_deref).collect())
}

fn progress() -> impl Strategy<Value = ScanProgress> {
    let bytes = || prop::collection::vec(any::<u8>(), 0..300);
    let range = (bytes(), bytes(), prop::option::of(bytes()));
    let range = range.prop_map(|(start, end, after)| ScanRange { start, end, after });
    prop_oneof![
        prop::collection::vec(range, 0..9).prop_map(|ranges| ScanProgress::Ranges {
            store: STORE.to_owned(),
            ranges
        }),
        (cells(), any::<bool>()).prop_map(|(values, is_after)| {
            let side = if is_after { Side::After } else { Side::Before };
            ScanProgress::Position(Position { values, side })
        }),
    ]
}

proptest! {
    #[test]
    fn any_progress_survives(progress in progress(), expires in prop::option::of(2_000..u64::MAX)) {
        let text = seal(&ring(), &environment(), &identity(), &progress, expires).unwrap();
        prop_assert_eq!(opened(&text).unwrap(), progress);
    }
}
