//! Target for checkpoint tokens of comparisons of views: their text, their encryption, and the parser of
//! their content.

use recto::fuzzing;
use recto_plan::{place_token, scan_token};

use crate::cursor::{self, STORE, environment, flipped, identity, ring};
use crate::memory::limited;

pub(crate) const WORDS: &[&str] = &[
    "\"version\":1,",
    "\"generation\":",
    "\"mends\":true,",
    "\"begun_at_seconds\":",
    "\"views\":[",
    "{\"number\":1,\"next\":null,\"found\":",
    "\"next\":\"80000000000000000000000000000000\",",
    "{\"collection\":\"c\",\"view\":\"v\",\"records\":1,\"entries\":1,",
    "\"missing\":0,\"orphan\":0,\"differing\":0,\"examples\":[",
    "\"mended\":18446744073709551615,",
    "{\"kind\":\"missing\",\"key\":\"(7)\",\"outcome\":\"mended\"}",
    "],",
    "]}}]}",
    "null",
    "\\u0000",
    "1e3",
    "-1",
    "UAE",
];

/// Memory limit of opening a token, as a multiple of the length of its text.
const TEXT_FACTOR: usize = 4;
/// Memory limit of parsing the content, as a multiple of its size. It includes writing and parsing it again.
const MEMORY_FACTOR: usize = 64;

/// Runs the case that the first byte selects, on the remaining bytes.
pub(crate) fn run(data: &[u8]) {
    let Some((kind, rest)) = data.split_first() else {
        return;
    };
    match kind % 3 {
        0 => text(rest),
        1 => sealed(rest),
        _ => limited(rest.len(), MEMORY_FACTOR, || fuzzing::place(rest)),
    }
}

/// Checks that opening any text as a checkpoint token fails, because no key encrypted the text.
fn text(bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes);
    let opened = limited(text.len(), TEXT_FACTOR, || {
        place_token::open(&ring(), &environment(), &text)
    });
    let error = opened.expect_err("a text nobody sealed opens nothing");
    assert!(!error.to_string().is_empty());
}

/// Checks an encrypted checkpoint token. It opens unchanged, but not as another kind of token, and not after
/// a change of one bit.
fn sealed(bytes: &[u8]) {
    let Some(([at, bit], place @ [_, ..])) = bytes.split_first_chunk() else {
        return;
    };
    let (ring, environment, identity) = (ring(), environment(), identity());
    let token =
        place_token::seal(&ring, &environment, place).expect("inputs are shorter than a token may be");
    let opened = limited(token.len(), TEXT_FACTOR, || {
        place_token::open(&ring, &environment, &token)
    });
    assert_eq!(opened.as_deref(), Ok(place));
    cursor::open(&ring, &environment, &token, &identity).expect_err("a place is no cursor");
    scan_token::open(&ring, &environment, &token, &identity, STORE).expect_err("a place is no resume token");
    place_token::open(&ring, &environment, &flipped(&token, *at, *bit))
        .expect_err("a token with one bit flipped does not open");
}
