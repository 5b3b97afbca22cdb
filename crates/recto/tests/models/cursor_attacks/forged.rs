//! Tests of cursors with altered bytes or altered text.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use recto::Recto;
use recto_plan::cursor::{CursorError, MAX_CURSOR_CHARACTERS};

use super::support::{events, refused, times};

/// Length in bytes of the part of a cursor before its encrypted content: version, key id and nonce.
const HEADER_BYTES: usize = 29;
const TAG_BYTES: usize = 16;

fn bytes_of(cursor: &str) -> Vec<u8> {
    URL_SAFE_NO_PAD.decode(cursor).unwrap()
}

fn text_of(bytes: &[u8]) -> String {
    URL_SAFE_NO_PAD.encode(bytes)
}

pub(crate) async fn every_flipped_bit_is_refused(recto: Recto) {
    let query = events(&recto, "flipped", 6).await;
    let cursor = query.clone().first(3).await.unwrap().cursor(2).to_string();
    let bytes = bytes_of(&cursor);
    for bit in 0..bytes.len() * 8 {
        let mut altered = bytes.clone();
        altered[bit / 8] ^= 1 << (bit % 8);
        let reason = refused(&query, &text_of(&altered)).await;
        match bit {
            0..8 => assert_eq!(reason, CursorError::UnknownFormat { version: altered[0] }),
            _ => assert_eq!(reason, CursorError::NotOurs, "bit {bit}"),
        }
    }
    // Change each bit of the encoded text, if the result is valid UTF-8.
    for bit in 0..cursor.len() * 8 {
        let mut altered = cursor.clone().into_bytes();
        altered[bit / 8] ^= 1 << (bit % 8);
        if let Ok(text) = String::from_utf8(altered) {
            refused(&query, &text).await;
        }
    }
    assert_eq!(times(&query.first(3).after(cursor).await.unwrap()), [2, 1, 0]);
}

pub(crate) async fn every_truncation_and_extension_is_refused(recto: Recto) {
    let query = events(&recto, "cut", 6).await;
    let cursor = query.clone().first(3).await.unwrap().cursor(2).to_string();
    let bytes = bytes_of(&cursor);
    for length in 1..cursor.len() {
        refused(&query, &cursor[..length]).await;
        refused(&query, &cursor[length..]).await;
    }
    for length in 1..bytes.len() {
        let reason = refused(&query, &text_of(&bytes[..length])).await;
        assert!(
            matches!(reason, CursorError::Truncated | CursorError::NotOurs),
            "{reason}"
        );
    }
    for at in 0..=bytes.len() {
        for more in [&[0][..], &[0xFF], &[0; 16], &bytes[..]] {
            let longer = [&bytes[..at], more, &bytes[at..]].concat();
            refused(&query, &text_of(&longer)).await;
        }
    }
    for more in [
        "A", "AA", "AAAA", "=", "==", " ", "\n", "\0", "é", "\u{202e}", &cursor,
    ] {
        refused(&query, &format!("{cursor}{more}")).await;
        refused(&query, &format!("{more}{cursor}")).await;
    }
}

/// Checks that a query rejects mixtures of two of its cursors: each mixture of header, content and
/// tag must be invalid.
pub(crate) async fn two_cursors_do_not_make_a_third(recto: Recto) {
    let query = events(&recto, "mixed", 6).await;
    let page = query.clone().first(4).await.unwrap();
    let pair = [
        bytes_of(page.cursor(0).as_str()),
        bytes_of(page.cursor(2).as_str()),
    ];
    assert_eq!(pair[0].len(), pair[1].len());
    let tag = pair[0].len() - TAG_BYTES;
    for mixture in 1..7 {
        let part = |index: usize| &pair[mixture >> index & 1];
        let mixed = [
            &part(0)[..HEADER_BYTES],
            &part(1)[HEADER_BYTES..tag],
            &part(2)[tag..],
        ]
        .concat();
        assert_eq!(refused(&query, &text_of(&mixed)).await, CursorError::NotOurs);
    }
}

pub(crate) async fn rejects_malformed_cursors(recto: Recto) {
    let query = events(&recto, "nonsense", 3).await;
    let long = "A".repeat(MAX_CURSOR_CHARACTERS + 1);
    let longest = format!("AQ{}", "A".repeat(MAX_CURSOR_CHARACTERS - 2));
    let texts = [
        "0",
        "null",
        "undefined",
        "not a cursor",
        "{\"stream\":\"nonsense\"}",
        "%00",
        "../../../etc/passwd",
        "' OR 1=1 --",
        "\u{0}",
        "\u{feff}",
        "🙂🙂🙂🙂",
        "AQ",
        "AQAAAAE",
        &long,
        &longest,
    ];
    for text in texts {
        refused(&query, text).await;
    }
    let empty = query.clone().after("").await.unwrap_err();
    assert!(empty.to_string().contains("empty"), "{empty}");
}
