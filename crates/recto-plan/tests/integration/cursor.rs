//! Tests of cursors: an encrypted cursor opens only if it is unaltered and used for its own query,
//! and no other text opens.
#![allow(clippy::unwrap_used)]

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use proptest::prelude::*;
use recto_model::environment::Source;
use recto_model::golden::bytes_of_hex;
use recto_model::{Cells, Environment};
use recto_plan::Travel;
use recto_plan::cursor::{
    Cursor, CursorError, CursorName, Fingerprint, KeyRing, KeyRingError, MAX_CURSOR_CHARACTERS, MAX_KEYS,
    OpenedCursor, Position, QueryIdentity, Side, key_id, seal,
};

/// Environment with a controlled clock, and random bytes that differ between calls.
#[derive(Clone, Default)]
struct Controlled {
    now_micros: Arc<AtomicI64>,
    draws: Arc<AtomicU64>,
}

impl Source for Controlled {
    fn now_micros(&self) -> i64 {
        self.now_micros.load(Ordering::Relaxed)
    }

    fn monotonic_nanos(&self) -> u64 {
        0
    }

    fn fill_random(&self, bytes: &mut [u8]) {
        let draw = self.draws.fetch_add(1, Ordering::Relaxed).to_le_bytes();
        blake3::Hasher::new().update(&draw).finalize_xof().fill(bytes);
    }
}

fn environment() -> Environment {
    Environment::new(Controlled::default())
}

fn identity() -> QueryIdentity {
    QueryIdentity {
        collection: Fingerprint::of(&[b"tasks"]),
        order: Fingerprint::of(&[b"by_due"]),
        query: Fingerprint::of(&[b"status", b"open"]),
    }
}

fn position() -> Position {
    Position {
        values: [Some(&b"open"[..]), Some(&[0, 0, 0, 7]), None, Some(b"")]
            .into_iter()
            .collect(),
        side: Side::After,
    }
}

fn sealed(ring: &KeyRing) -> Cursor {
    seal(
        ring,
        &environment(),
        &identity(),
        &position(),
        Travel::Forward,
        None,
        None,
    )
    .unwrap()
}

fn open(
    ring: &KeyRing,
    environment: &Environment,
    text: &str,
    identity: &QueryIdentity,
) -> Result<OpenedCursor, CursorError> {
    recto_plan::cursor::open(ring, environment, text)?.bind(identity, || identity.clone())
}

fn refusal(ring: &KeyRing, text: &str) -> CursorError {
    let error = open(ring, &environment(), text, &identity()).expect_err(text);
    assert_eq!(error.to_string(), error.message(CursorName::Cursor));
    for name in [CursorName::PageToken, CursorName::RowToken] {
        // Messages about a page token or a row token must not contain the word "cursor".
        let (message, hint) = (error.message(name), error.hint(name));
        assert!(!hint.is_empty() && !message.contains("cursor") && !hint.contains("cursor"));
    }
    error
}

#[test]
fn a_sealed_position_opens() {
    let (environment, ring) = (environment(), KeyRing::generate(&environment()));
    for side in [Side::Before, Side::After] {
        for bucket in [None, Some(&b""[..]), Some(&b"2024-05"[..])] {
            for expiry in [None, Some(u64::MAX)] {
                let position = Position { side, ..position() };
                let cursor = seal(
                    &ring,
                    &environment,
                    &identity(),
                    &position,
                    Travel::Backward,
                    bucket,
                    expiry,
                )
                .unwrap();
                let opened = open(&ring, &environment, cursor.as_str(), &identity()).unwrap();
                assert_eq!(opened.position, position);
                assert_eq!(opened.travel, Travel::Backward);
                assert_eq!(opened.bucket_hint.as_deref(), bucket);
            }
        }
    }
    assert_ne!(
        seal(
            &ring,
            &environment,
            &identity(),
            &position(),
            Travel::Forward,
            None,
            None
        ),
        seal(
            &ring,
            &environment,
            &identity(),
            &position(),
            Travel::Forward,
            None,
            None
        ),
        "each seal has its own nonce"
    );
}

#[test]
fn another_query_is_told_which() {
    let ring = KeyRing::generate(&environment());
    let cursor = sealed(&ring);
    let other = Fingerprint::of(&[b"other"]);
    let open_as =
        |identity: QueryIdentity| open(&ring, &environment(), cursor.as_str(), &identity).unwrap_err();
    assert_eq!(
        open_as(QueryIdentity {
            collection: other,
            ..identity()
        }),
        CursorError::OtherCollection
    );
    assert_eq!(
        open_as(QueryIdentity {
            order: other,
            ..identity()
        }),
        CursorError::OtherSortOrder
    );
    assert_eq!(
        open_as(QueryIdentity {
            query: other,
            ..identity()
        }),
        CursorError::OtherQuery
    );
}

#[test]
fn an_expired_cursor_says_so_only_if_it_is_authentic() {
    let source = Controlled::default();
    let environment = Environment::new(source.clone());
    let ring = KeyRing::generate(&environment);
    let cursor = seal(
        &ring,
        &environment,
        &identity(),
        &position(),
        Travel::Forward,
        None,
        Some(100),
    )
    .unwrap();
    let open = |text: &str| open(&ring, &environment, text, &identity());
    for now_micros in [-5_000_000, 0, 99_999_999] {
        source.now_micros.store(now_micros, Ordering::Relaxed);
        open(cursor.as_str()).unwrap();
    }
    for now_micros in [100_000_000, i64::MAX] {
        source.now_micros.store(now_micros, Ordering::Relaxed);
        assert_eq!(
            open(cursor.as_str()),
            Err(CursorError::Expired {
                expired_at_seconds: 100
            })
        );
    }
    let mut bytes = URL_SAFE_NO_PAD.decode(cursor.as_str()).unwrap();
    *bytes.last_mut().unwrap() ^= 1;
    assert_eq!(open(&URL_SAFE_NO_PAD.encode(bytes)), Err(CursorError::NotOurs));
}

#[test]
fn every_flipped_bit_is_noticed() {
    let ring = KeyRing::generate(&environment());
    let cursor = sealed(&ring);
    let bytes = URL_SAFE_NO_PAD.decode(cursor.as_str()).unwrap();
    for bit in 0..bytes.len() * 8 {
        let mut altered = bytes.clone();
        altered[bit / 8] ^= 1 << (bit % 8);
        let error = refusal(&ring, &URL_SAFE_NO_PAD.encode(&altered));
        if bit < 8 {
            assert_eq!(error, CursorError::UnknownFormat { version: altered[0] });
        } else {
            assert_eq!(error, CursorError::NotOurs, "bit {bit}");
        }
    }
    // Also flip every bit of every character of the encoded text, if the result is valid UTF-8.
    for bit in 0..cursor.as_str().len() * 8 {
        let mut altered = cursor.as_str().as_bytes().to_vec();
        altered[bit / 8] ^= 1 << (bit % 8);
        if let Ok(text) = String::from_utf8(altered) {
            refusal(&ring, &text);
        }
    }
}

#[test]
fn cut_and_extended_cursors_are_noticed() {
    let ring = KeyRing::generate(&environment());
    let cursor = sealed(&ring);
    let (text, bytes) = (cursor.as_str(), URL_SAFE_NO_PAD.decode(cursor.as_str()).unwrap());
    for length in 0..text.len() {
        refusal(&ring, &text[..length]);
        refusal(&ring, &text[text.len() - length..]);
    }
    for length in 0..bytes.len() {
        refusal(&ring, &URL_SAFE_NO_PAD.encode(&bytes[..length]));
    }
    for extension in ["A", "AA", "AAAA", "=", "==", " ", "\n", "é", "\0"] {
        refusal(&ring, &format!("{text}{extension}"));
        refusal(&ring, &format!("{extension}{text}"));
    }
    refusal(&ring, &format!("{text}{text}"));
}

#[test]
fn texts_that_are_no_cursors() {
    let ring = KeyRing::generate(&environment());
    let text = sealed(&ring).into_string();
    assert_eq!(refusal(&ring, ""), CursorError::Empty);
    assert_eq!(refusal(&ring, "A"), CursorError::Truncated);
    assert_eq!(refusal(&ring, "AQ"), CursorError::Truncated);
    assert_eq!(refusal(&ring, &text[..40]), CursorError::Truncated);
    assert_eq!(
        refusal(&ring, "hello world"),
        CursorError::NotBase64 { position: 6 }
    );
    assert_eq!(
        refusal(&ring, "eyJpZCI6NX0"),
        CursorError::UnknownFormat { version: b'{' }
    );
    // The decoder accepts only the alphabet of base64url.
    for wrong in ['+', '/', '=', '.', '%'] {
        let altered = format!("{}{wrong}{}", &text[..9], &text[10..]);
        assert_eq!(refusal(&ring, &altered), CursorError::NotBase64 { position: 10 });
    }
    let long = "A".repeat(MAX_CURSOR_CHARACTERS + 1);
    assert_eq!(
        refusal(&ring, &long),
        CursorError::TooLong {
            characters: long.len()
        }
    );
    refusal(&ring, &long[1..]);
    refusal(&ring, &format!("AQ{}", &long[3..]));
}

/// Checks that each cursor has exactly one text: text with nonzero unused bits at the end of its
/// base64 is rejected.
#[test]
fn spare_bits_are_refused() {
    let ring = KeyRing::generate(&environment());
    let mut found = 0;
    for length in 0..3 {
        let mut position = position();
        position.values.push(Some(&vec![1; length]));
        let cursor = seal(
            &ring,
            &environment(),
            &identity(),
            &position,
            Travel::Forward,
            None,
            None,
        )
        .unwrap();
        let text = cursor.as_str();
        let spare = match text.len() % 4 {
            2 => 4,
            3 => 2,
            _ => continue,
        };
        found += 1;
        let alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
        let last = alphabet.find(text.chars().last().unwrap()).unwrap();
        for bits in 1..1 << spare {
            let other = &alphabet[last + bits..=last + bits];
            let altered = format!("{}{other}", &text[..text.len() - 1]);
            assert_eq!(
                refusal(&ring, &altered),
                CursorError::NotBase64 { position: text.len() }
            );
        }
    }
    assert_eq!(found, 2);
}

#[test]
fn another_ring_does_not_open() {
    let environment = environment();
    let (ring, other) = (KeyRing::generate(&environment), KeyRing::generate(&environment));
    assert_eq!(ring.active_id(), other.active_id());
    let cursor = sealed(&ring);
    assert_eq!(refusal(&other, cursor.as_str()), CursorError::NotOurs);
    // A key with the same secret but another id does not open the cursor, because the id is
    // authenticated.
    let renamed = KeyRing::new(9, [5; 32]);
    let cursor = sealed(&KeyRing::new(8, [5; 32]));
    assert_eq!(refusal(&renamed, cursor.as_str()), CursorError::NotOurs);
}

#[test]
fn keys_rotate() {
    let environment = environment();
    let mut ring = KeyRing::generate(&environment);
    let before = ring.clone();
    let old = sealed(&ring);
    assert_eq!(ring.rotate(&environment).unwrap(), 2);
    let new = sealed(&ring);
    open(&ring, &environment, old.as_str(), &identity()).unwrap();
    open(&ring, &environment, new.as_str(), &identity()).unwrap();
    assert_eq!(refusal(&before, new.as_str()), CursorError::NotOurs);
    assert_eq!(ring.remove(2), Err(KeyRingError::Active { id: 2 }));
    ring.remove(1).unwrap();
    assert_eq!(refusal(&ring, old.as_str()), CursorError::NotOurs);
    open(&ring, &environment, new.as_str(), &identity()).unwrap();
    assert_eq!(ring.remove(1), Err(KeyRingError::UnknownKey { id: 1 }));
    assert_eq!(ring.activate(1), Err(KeyRingError::UnknownKey { id: 1 }));
    assert_eq!(ring.add(2, [0; 32]), Err(KeyRingError::DuplicateKey { id: 2 }));
}

#[test]
fn rings_are_bounded_and_find_free_ids() {
    let environment = environment();
    let mut ring = KeyRing::new(u32::MAX, [1; 32]);
    for expected in 1..MAX_KEYS {
        assert_eq!(ring.rotate(&environment).unwrap() as usize, expected);
    }
    assert_eq!(ring.rotate(&environment), Err(KeyRingError::Full));
    assert_eq!(ring.active_id() as usize, MAX_KEYS - 1);
    ring.remove(3).unwrap();
    assert_eq!(ring.rotate(&environment), Ok(3));
}

#[test]
fn rings_are_stored_and_damage_is_noticed() {
    let environment = environment();
    let mut ring = KeyRing::generate(&environment);
    ring.rotate(&environment).unwrap();
    ring.rotate(&environment).unwrap();
    ring.activate(2).unwrap();
    let bytes = ring.to_bytes();
    let read = KeyRing::from_bytes(&bytes).unwrap();
    assert_eq!(read.to_bytes(), bytes);
    assert_eq!(read.active_id(), 2);
    open(&read, &environment, sealed(&ring).as_str(), &identity()).unwrap();
    for length in 0..bytes.len() {
        KeyRing::from_bytes(&bytes[..length]).unwrap_err();
    }
    for bit in 0..bytes.len() * 8 {
        let mut altered = bytes.to_vec();
        altered[bit / 8] ^= 1 << (bit % 8);
        KeyRing::from_bytes(&altered).unwrap_err();
    }
}

#[test]
fn keys_are_not_printed() {
    let ring = KeyRing::new(77, [0xab; 32]);
    assert_eq!(format!("{ring:?}"), "KeyRing { active: 77, ids: [77], .. }");
}

#[test]
fn large_positions_open_and_larger_ones_are_refused() {
    let (environment, ring) = (environment(), KeyRing::generate(&environment()));
    // Use the largest key that Cassandra accepts: 64 KiB of partition key and 64 KiB of clustering
    // columns.
    let largest = Position {
        values: [Some(&vec![3; 65_535][..]), Some(&vec![4; 65_535][..])]
            .into_iter()
            .collect(),
        side: Side::Before,
    };
    let cursor = seal(
        &ring,
        &environment,
        &identity(),
        &largest,
        Travel::Forward,
        Some(&[1; 64]),
        Some(u64::MAX),
    )
    .unwrap();
    let opened = open(&ring, &environment, cursor.as_str(), &identity()).unwrap();
    assert_eq!(opened.position, largest);
    let of = |length: usize| Position {
        values: std::iter::once(Some(&vec![0; length][..])).collect(),
        side: Side::Before,
    };
    let sealed = |length: usize| {
        seal(
            &ring,
            &environment,
            &identity(),
            &of(length),
            Travel::Forward,
            None,
            None,
        )
    };
    let room = MAX_CURSOR_CHARACTERS / 4 * 3 - (29 + 16 + 51 + 3);
    assert_eq!(sealed(room).unwrap().as_str().len(), MAX_CURSOR_CHARACTERS);
    open(&ring, &environment, sealed(room).unwrap().as_str(), &identity()).unwrap();
    assert_eq!(
        sealed(room + 1),
        Err(CursorError::PositionTooLarge {
            bytes: MAX_CURSOR_CHARACTERS / 4 * 3 + 1
        })
    );
}

#[test]
fn fingerprints_tell_parts_apart_and_stay() {
    assert_ne!(Fingerprint::of(&[b"ab", b"c"]), Fingerprint::of(&[b"a", b"bc"]));
    assert_ne!(Fingerprint::of(&[b"a", b""]), Fingerprint::of(&[b"a"]));
    // The computation must never change, because existing cursors of users contain these
    // fingerprints.
    let by_hand = blake3::hash(b"\x05\0\0\0\0\0\0\0tasks\x01\0\0\0\0\0\0\0x");
    assert_eq!(
        Fingerprint::of(&[b"tasks", b"x"]).as_bytes(),
        &by_hand.as_bytes()[..16]
    );
}

/// Environment that returns the given bytes as random bytes, to create a cursor with a known nonce.
struct Fixed(Vec<u8>);

impl Source for Fixed {
    fn now_micros(&self) -> i64 {
        0
    }

    fn monotonic_nanos(&self) -> u64 {
        0
    }

    fn fill_random(&self, bytes: &mut [u8]) {
        bytes.copy_from_slice(&self.0);
    }
}

/// Checks that this release opens cursors of every version, and creates cursors of the last
/// version. Other code than Recto's created the golden files from the description of the format.
#[test]
fn cursors_of_every_version_keep_opening() {
    cursors_keep_opening(include_str!("../golden/cursor-v1.txt"), false);
    cursors_keep_opening(include_str!("../golden/cursor-v2.txt"), true);
}

fn cursors_keep_opening(golden: &str, is_sealed_so: bool) {
    let mut ring = KeyRing::new(1, std::array::from_fn(|at| at as u8));
    ring.add(0xA1B2_C3D4, std::array::from_fn(|at| 255 - at as u8))
        .unwrap();
    let identity = QueryIdentity {
        collection: Fingerprint::from_bytes([0x11; 16]),
        order: Fingerprint::from_bytes([0x22; 16]),
        query: Fingerprint::from_bytes([0x33; 16]),
    };
    let mut count = 0;
    for line in golden
        .lines()
        .filter(|line| !line.is_empty() && !line.starts_with('#'))
    {
        let [key, nonce, side, cells, hint, expiry, text] = line.split(' ').collect::<Vec<_>>()[..] else {
            panic!("{line}");
        };
        let mut values = Cells::new();
        for cell in cells.split(',').filter(|cell| *cell != "none") {
            let cell = (cell != "null").then(|| bytes_of_hex(cell));
            values.push(cell.as_deref());
        }
        let (side, travel) = match side.split_once('/') {
            Some((side, "backward")) => (side, Travel::Backward),
            _ => (side, Travel::Forward),
        };
        let side = if side == "after" {
            Side::After
        } else {
            Side::Before
        };
        let position = Position { values, side };
        let hint = (hint != "-").then(|| bytes_of_hex(hint));
        let expiry = expiry.parse::<u64>().ok();
        let environment = Environment::new(Fixed(bytes_of_hex(nonce)));
        let opened = open(&ring, &environment, text, &identity).unwrap();
        assert_eq!(opened.position, position, "{line}");
        assert_eq!(opened.travel, travel, "{line}");
        assert_eq!(opened.bucket_hint, hint, "{line}");
        ring.activate(key.parse().unwrap()).unwrap();
        let sealed = seal(
            &ring,
            &environment,
            &identity,
            &position,
            travel,
            hint.as_deref(),
            expiry,
        )
        .unwrap();
        assert_eq!(sealed.as_str() == text, is_sealed_so, "{line}");
        count += 1;
    }
    assert!(count >= 6);
}

/// Checks that Recto reads stored keys of every version, and writes keys of the current version
/// byte for byte. Other code than Recto's created the golden files from the description of the
/// format.
#[test]
fn stored_keys_of_every_version_keep_opening() {
    let files = [
        include_str!("../golden/cursor-keys-v1.txt"),
        include_str!("../golden/cursor-keys-v2.txt"),
    ];
    let made_at = [None, Some(1_767_225_600)];
    for (file, newest_made_at) in files.iter().zip(made_at) {
        let line = file.lines().find(|line| !line.starts_with('#')).unwrap();
        let ring = KeyRing::from_bytes(&bytes_of_hex(line)).unwrap();
        let described: Vec<_> = ring
            .describe()
            .map(|key| (key.id, key.created_at_seconds, key.active))
            .collect();
        assert_eq!(described, [(1, None, false), (0xA1B2_C3D4, newest_made_at, true)]);
        // The stored keys open the golden cursors of version 1, which were encrypted with these
        // keys.
        let golden = include_str!("../golden/cursor-v1.txt");
        let identity = QueryIdentity {
            collection: Fingerprint::from_bytes([0x11; 16]),
            order: Fingerprint::from_bytes([0x22; 16]),
            query: Fingerprint::from_bytes([0x33; 16]),
        };
        for line in golden.lines().filter(|line| !line.starts_with('#')) {
            let text = line.split(' ').next_back().unwrap();
            open(&ring, &environment(), text, &identity).unwrap();
        }
    }
    let newest = bytes_of_hex(files[1].lines().last().unwrap());
    assert_eq!(*KeyRing::from_bytes(&newest).unwrap().to_bytes(), newest);
    for version in [0, 3, 255] {
        let mut later = newest.clone();
        later[0] = version;
        assert_eq!(
            KeyRing::from_bytes(&later).unwrap_err(),
            KeyRingError::UnknownVersion { version }
        );
    }
}

#[test]
fn retiring_keeps_the_newest_and_the_active_one() {
    let environment = environment();
    let mut ring = KeyRing::generate(&environment);
    for _ in 0..5 {
        ring.rotate(&environment).unwrap();
    }
    let ids = |ring: &KeyRing| ring.ids().collect::<Vec<_>>();
    ring.retire(3);
    assert_eq!((ids(&ring), ring.active_id()), (vec![3, 4, 5, 6], 6));
    ring.retire(9);
    assert_eq!(ids(&ring), [3, 4, 5, 6]);
    ring.activate(4).unwrap();
    ring.retire(1);
    assert_eq!((ids(&ring), ring.active_id()), (vec![6, 4], 4));
    ring.retire(0);
    assert_eq!((ids(&ring), ring.active_id()), (vec![4], 4));
    // The key ring reuses the id 5, because the highest existing id is 4.
    assert_eq!(ring.rotate(&environment).unwrap(), 5);
}

#[test]
fn a_cursor_names_its_key() {
    let text = sealed(&KeyRing::new(0xA1B2_C3D4, [1; 32])).into_string();
    assert_eq!(key_id(&text), Some(0xA1B2_C3D4));
    assert_eq!(key_id(&text[..8]), Some(0xA1B2_C3D4));
    for no_cursor in [
        "",
        "AQAAAAE",
        "AgAAAAEA",
        "AQ=AAAEA",
        "{\"a\": 1}",
        "ééééé",
        "AQAAAAé",
    ] {
        assert_eq!(key_id(no_cursor), None, "{no_cursor}");
    }
}

/// Checks that every attempt to open a cursor reads the clock exactly once, before the cursor is
/// authenticated. The duration therefore does not reveal what is wrong with a cursor.
#[test]
fn every_cursor_reads_the_clock_once() {
    #[derive(Clone, Default)]
    struct Counted(Arc<AtomicU64>);
    impl Source for Counted {
        fn now_micros(&self) -> i64 {
            self.0.fetch_add(1, Ordering::Relaxed);
            500_000_000
        }
        fn monotonic_nanos(&self) -> u64 {
            0
        }
        fn fill_random(&self, bytes: &mut [u8]) {
            bytes.fill(3);
        }
    }
    let counted = Counted::default();
    let environment = Environment::new(counted.clone());
    let ring = KeyRing::new(1, [5; 32]);
    let seal = |expiry| {
        seal(
            &ring,
            &environment,
            &identity(),
            &position(),
            Travel::Forward,
            None,
            expiry,
        )
        .unwrap()
    };
    for cursor in [seal(None), seal(Some(501)), seal(Some(100))] {
        let bytes = URL_SAFE_NO_PAD.decode(cursor.as_str()).unwrap();
        for bit in 8..bytes.len() * 8 {
            let mut altered = bytes.clone();
            altered[bit / 8] ^= 1 << (bit % 8);
            let text = URL_SAFE_NO_PAD.encode(altered);
            assert_eq!(
                open(&ring, &environment, &text, &identity()),
                Err(CursorError::NotOurs)
            );
            assert_eq!(counted.0.swap(0, Ordering::Relaxed), 1, "bit {bit}");
        }
        let _ = open(&ring, &environment, cursor.as_str(), &identity());
        assert_eq!(counted.0.swap(0, Ordering::Relaxed), 1);
    }
}

fn positions() -> impl Strategy<Value = Position> {
    let cell = prop_oneof![
        Just(None),
        prop::collection::vec(any::<u8>(), 0..20).prop_map(Some),
        prop::collection::vec(any::<u8>(), 100..400).prop_map(Some),
    ];
    (prop::collection::vec(cell, 0..6), any::<bool>()).prop_map(|(cells, after)| Position {
        values: cells.iter().map(Option::as_deref).collect(),
        side: if after { Side::After } else { Side::Before },
    })
}

proptest! {
    #[test]
    fn any_position_opens_as_it_was_sealed(
        position in positions(),
        hint in prop::option::of(prop::collection::vec(any::<u8>(), 0..200)),
        expiry in prop::option::of(1..u64::MAX),
        backward in any::<bool>(),
    ) {
        let travel = if backward { Travel::Backward } else { Travel::Forward };
        let (environment, ring) = (environment(), KeyRing::generate(&environment()));
        let cursor = seal(&ring, &environment, &identity(), &position, travel, hint.as_deref(), expiry).unwrap();
        prop_assert!(cursor.as_str().bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_'));
        let opened = open(&ring, &environment, cursor.as_str(), &identity()).unwrap();
        prop_assert_eq!(opened.position, position);
        prop_assert_eq!(opened.travel, travel);
        prop_assert_eq!(opened.bucket_hint, hint);
    }

    #[test]
    fn any_text_is_refused(text in any::<String>()) {
        refusal(&KeyRing::new(1, [1; 32]), &text);
    }

    #[test]
    fn any_bytes_are_refused(bytes in prop::collection::vec(any::<u8>(), 0..300), with_header in any::<bool>()) {
        let mut bytes = bytes;
        if with_header {
            bytes.splice(0..0, [1, 0, 0, 0, 1]);
        }
        refusal(&KeyRing::new(1, [1; 32]), &URL_SAFE_NO_PAD.encode(bytes));
    }

    #[test]
    fn any_piece_replaced_is_noticed(
        position in positions(),
        at in any::<prop::sample::Index>(),
        removed in 0..4_usize,
        put in prop::collection::vec(any::<u8>(), 0..4),
    ) {
        let ring = KeyRing::generate(&environment());
        let cursor = seal(&ring, &environment(), &identity(), &position, Travel::Forward, None, None).unwrap();
        let original = URL_SAFE_NO_PAD.decode(cursor.as_str()).unwrap();
        let mut altered = original.clone();
        let start = at.index(altered.len() + 1);
        let end = (start + removed).min(altered.len());
        altered.splice(start..end, put);
        if altered != original {
            refusal(&ring, &URL_SAFE_NO_PAD.encode(altered));
        }
    }

    #[test]
    fn any_stored_ring_is_read_or_refused(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        prop_assert!(KeyRing::from_bytes(&bytes).is_err());
    }
}
