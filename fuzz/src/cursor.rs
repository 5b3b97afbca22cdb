//! Target for cursors and resume tokens of scans: their text, and their content inside the encryption. Also
//! stored keys.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use chacha20poly1305::aead::Aead;
use chacha20poly1305::aead::Payload;
use chacha20poly1305::{KeyInit, XChaCha20Poly1305, XNonce};
use recto_model::{Cells, Environment};
use recto_plan::Travel;
use recto_plan::cursor::{
    CursorError, CursorName, Fingerprint, KeyRing, OpenedCursor, Position, QueryIdentity, Side, seal,
};
use recto_plan::scan_token;

use crate::memory::limited;

const KEY: [u8; 32] = [7; 32];
const KEY_ID: u32 = 5;
/// Kind of the scanned store, which resume tokens contain.
pub(crate) const STORE: &str = "memory";
const NONCE: [u8; 24] = [9; 24];
/// Memory limit of opening a cursor, as a multiple of the length of its text. It is enough for its bytes, its
/// cells, and the position of each cell.
const MEMORY_FACTOR: usize = 32;

/// Lowest first byte of inputs that test resume tokens of scans. Lower bytes select cursors and stored keys.
const SCAN_TOKENS: u8 = 0xF0;

/// Runs the case that the first byte selects, on the remaining bytes.
pub(crate) fn run(data: &[u8]) {
    let Some((kind, rest)) = data.split_first() else {
        return;
    };
    match (kind, kind % 4) {
        (SCAN_TOKENS.., 0 | 1) => scan_text(rest),
        (SCAN_TOKENS.., _) => scan_content(rest),
        (_, 0) => text(rest),
        (_, 1) => content(rest),
        (_, 2) => position(rest),
        _ => stored_keys(rest),
    }
}

pub(crate) fn environment() -> Environment {
    Environment::seeded(1, 1_000_000_000)
}

pub(crate) fn ring() -> KeyRing {
    KeyRing::new(KEY_ID, KEY)
}

pub(crate) fn identity() -> QueryIdentity {
    QueryIdentity {
        collection: Fingerprint::from_bytes([1; 16]),
        order: Fingerprint::from_bytes([2; 16]),
        query: Fingerprint::from_bytes([3; 16]),
    }
}

pub(crate) fn open(
    ring: &KeyRing,
    environment: &Environment,
    text: &str,
    identity: &QueryIdentity,
) -> Result<OpenedCursor, CursorError> {
    recto_plan::cursor::open(ring, environment, text)?.bind(identity, || identity.clone())
}

/// Checks that opening any text as a cursor fails, because no key encrypted the text.
fn text(bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes);
    let opened = limited(text.len(), 4, || {
        open(&ring(), &environment(), &text, &identity())
    });
    let error = opened.expect_err("a text nobody sealed opens nothing");
    assert!(!error.hint(CursorName::Cursor).is_empty());
    assert!(!error.to_string().is_empty());
}

/// Opens a correctly encrypted cursor with any content, which a later or a faulty release could create.
fn content(bytes: &[u8]) {
    let identity = identity();
    let fingerprints = [identity.collection, identity.order, identity.query];
    let front = bytes.len().min(2);
    let mut plain = bytes[..front].to_vec();
    for fingerprint in fingerprints {
        plain.extend_from_slice(fingerprint.as_bytes());
    }
    plain.extend_from_slice(&bytes[front..]);
    let text = sealed_by_hand(&[1], &plain);
    let opened = limited(text.len(), MEMORY_FACTOR, || {
        open(&ring(), &environment(), &text, &identity)
    });
    if let Ok(opened) = opened {
        opens_again(&opened);
    }
}

fn sealed_by_hand(prefix: &[u8], plain: &[u8]) -> String {
    let mut bytes = prefix.to_vec();
    bytes.extend_from_slice(&KEY_ID.to_be_bytes());
    bytes.extend_from_slice(&NONCE);
    let payload = Payload {
        msg: plain,
        aad: &bytes,
    };
    let sealed = XChaCha20Poly1305::new(&KEY.into())
        .encrypt(&XNonce::from(NONCE), payload)
        .expect("the cipher accepts up to 256 GiB");
    bytes.extend_from_slice(&sealed);
    URL_SAFE_NO_PAD.encode(bytes)
}

/// Checks that an opened cursor does not change when it is encrypted and opened again.
fn opens_again(opened: &OpenedCursor) {
    let hint = opened.bucket_hint.as_deref();
    let again = seal(
        &ring(),
        &environment(),
        &identity(),
        &opened.position,
        opened.travel,
        hint,
        None,
    )
    .expect("what came out of a cursor fits in one");
    let again = open(&ring(), &environment(), again.as_str(), &identity()).expect("it was just sealed");
    assert_eq!(&again, opened);
}

/// Checks that a cursor with any position opens unchanged, and that it does not open after a change of one
/// bit.
fn position(bytes: &[u8]) {
    let Some(([flags, at, bit], mut rest)) = bytes.split_first_chunk() else {
        return;
    };
    let mut values = Cells::new();
    while let Some((length, after)) = rest.split_first() {
        if *length == u8::MAX {
            values.push(None);
            rest = after;
            continue;
        }
        let (cell, after) = after.split_at(after.len().min(usize::from(*length)));
        values.push(Some(cell));
        rest = after;
    }
    let side = if flags & 1 == 0 { Side::Before } else { Side::After };
    let travel = if flags & 2 == 0 {
        Travel::Forward
    } else {
        Travel::Backward
    };
    let hint = (flags & 4 != 0).then_some(&bytes[..3]);
    let position = Position { values, side };
    let Ok(cursor) = seal(
        &ring(),
        &environment(),
        &identity(),
        &position,
        travel,
        hint,
        None,
    ) else {
        return;
    };
    let opened = open(&ring(), &environment(), cursor.as_str(), &identity()).expect("it was just sealed");
    assert_eq!((&opened.position, opened.travel), (&position, travel));
    assert_eq!(opened.bucket_hint.as_deref(), hint);
    let altered = flipped(cursor.as_str(), *at, *bit);
    open(&ring(), &environment(), &altered, &identity())
        .expect_err("a cursor with one bit flipped does not open");
}

/// Returns an encrypted text with one flipped bit. `at` and `bit` select the bit.
pub(crate) fn flipped(sealed: &str, at: u8, bit: u8) -> String {
    let mut bytes = URL_SAFE_NO_PAD
        .decode(sealed)
        .expect("a sealed text is base64url");
    let at = usize::from(at) * bytes.len() / 256;
    bytes[at] ^= 1 << (bit % 8);
    URL_SAFE_NO_PAD.encode(bytes)
}

/// Checks that opening any text as a resume token fails, because no key encrypted the text.
fn scan_text(bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes);
    let opened = limited(text.len(), 4, || {
        scan_token::open(&ring(), &environment(), &text, &identity(), STORE)
    });
    let error = opened.expect_err("a text nobody sealed opens nothing");
    assert!(!error.hint().is_empty());
    assert!(!error.to_string().is_empty());
}

/// Opens a correctly encrypted resume token with any content. Checks that the token does not change when it
/// is encrypted and opened again, and that it does not open as a cursor.
fn scan_content(bytes: &[u8]) {
    let identity = identity();
    let front = bytes.len().min(2);
    let mut plain = bytes[..front].to_vec();
    for fingerprint in [identity.collection, identity.order, identity.query] {
        plain.extend_from_slice(fingerprint.as_bytes());
    }
    plain.extend_from_slice(&bytes[front..]);
    plain.resize(plain.len().next_multiple_of(256), 0);
    let text = sealed_by_hand(b"R\x01", &plain);
    open(&ring(), &environment(), &text, &identity).expect_err("a resume token is no cursor");
    let again = |text: &str| scan_token::open(&ring(), &environment(), text, &identity, STORE);
    let opened = limited(text.len(), MEMORY_FACTOR, || again(&text));
    if let Ok(progress) = opened {
        let sealed = scan_token::seal(&ring(), &environment(), &identity, &progress, None);
        let sealed = sealed.expect("what came out of a token fits in one");
        assert_eq!(again(&sealed).expect("it was just sealed"), progress);
    }
}

/// Parses stored keys that have a valid checksum. Checks that they are the same after they are written and
/// parsed again.
fn stored_keys(bytes: &[u8]) {
    assert!(KeyRing::from_bytes(bytes).is_err() || bytes.len() > 14);
    let mut stored = bytes.to_vec();
    stored.extend_from_slice(&blake3::hash(bytes).as_bytes()[..8]);
    if let Ok(ring) = limited(stored.len(), 8, || KeyRing::from_bytes(&stored)) {
        let again = KeyRing::from_bytes(&ring.to_bytes()).expect("it was just written");
        assert_eq!(again.to_bytes(), ring.to_bytes());
        assert!(ring.ids().any(|id| id == ring.active_id()));
        assert!(!format!("{ring:?}").contains("key: ["));
    }
}
