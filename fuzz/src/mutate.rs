//! Random mutation of inputs, reproducible by a seed.

use crate::corpus::MAX_INPUT_BYTES;

/// Maximum number of changes in one mutation of an input.
const MAX_CHANGES: usize = 8;
/// Maximum number of bytes that one change inserts, copies or removes.
const MAX_PIECE_BYTES: usize = 64;

/// Byte values at which lengths and counts have limits.
const EDGES: [u8; 10] = [0, 1, 0x7e, 0x7f, 0x80, 0x81, 0xfe, 0xff, b'0', b'\n'];

/// Reproducible random generator (`SplitMix64`, for which every seed is good).
#[derive(Debug, Clone)]
pub struct Draws(u64);

impl Draws {
    /// Creates the generator for a seed.
    pub fn new(seed: u64) -> Self {
        Self(seed)
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// Returns a random number below `end`, which must not be 0.
    pub fn below(&mut self, end: usize) -> usize {
        (self.next() % end as u64) as usize
    }

    fn byte(&mut self) -> u8 {
        if self.below(4) == 0 {
            EDGES[self.below(EDGES.len())]
        } else {
            self.next() as u8
        }
    }

    /// Returns a random range of at most [`MAX_PIECE_BYTES`] bytes within `length` bytes.
    fn piece(&mut self, length: usize) -> std::ops::Range<usize> {
        let start = self.below(length + 1);
        let longest = (length - start).min(MAX_PIECE_BYTES);
        start..start + self.below(longest + 1)
    }
}

/// Changes `input` at random. It may insert parts of `other` and `words`. The result has at most
/// [`MAX_INPUT_BYTES`].
pub fn mutate(input: &mut Vec<u8>, other: &[u8], words: &[&str], draws: &mut Draws) {
    for _ in 0..=draws.below(MAX_CHANGES) {
        change(input, other, words, draws);
    }
    input.truncate(MAX_INPUT_BYTES);
}

fn change(input: &mut Vec<u8>, other: &[u8], words: &[&str], draws: &mut Draws) {
    let at = draws.below(input.len() + 1);
    match draws.below(8) {
        0 if at < input.len() => input[at] ^= 1 << draws.below(8),
        1 if at < input.len() => input[at] = draws.byte(),
        2 if at < input.len() => input[at] = input[at].wrapping_add((draws.below(9) as u8).wrapping_sub(4)),
        3 => {
            let piece = draws.piece(input.len());
            input.drain(piece);
        }
        4 => {
            let copied = input[draws.piece(input.len())].to_vec();
            insert(input, at, &copied);
        }
        5 => {
            let piece = draws.piece(other.len());
            insert(input, at, &other[piece]);
        }
        6 if !words.is_empty() => insert(input, at, words[draws.below(words.len())].as_bytes()),
        _ => {
            let byte = draws.byte();
            insert(input, at, &[byte]);
        }
    }
}

fn insert(input: &mut Vec<u8>, at: usize, piece: &[u8]) {
    input.splice(at..at, piece.iter().copied());
}
