//! Bitmap of the resolved messages (never received again) of a segment.

use crate::queues::names::Seq;

const BITS: usize = 64;

/// Set of the positions of resolved messages (never received again) in a segment. It only grows.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub struct Resolved {
    /// Words of the bitmap, lowest position first. The last word is not 0.
    words: Vec<u64>,
}

/// Empty set of resolved messages, for segments that have none.
pub(crate) static NONE: Resolved = Resolved { words: Vec::new() };

impl Resolved {
    /// Returns whether the message at a position is resolved.
    pub fn has(&self, seq: Seq) -> bool {
        let word = self.words.get(usize::from(seq) / BITS);
        word.is_some_and(|word| word >> (usize::from(seq) % BITS) & 1 == 1)
    }

    /// Returns the number of resolved messages.
    pub fn count(&self) -> u32 {
        self.words.iter().map(|word| word.count_ones()).sum()
    }

    /// Returns the positions below `count` that are not in the set, ascending.
    pub(crate) fn missing(&self, count: Seq) -> impl Iterator<Item = Seq> {
        let words = usize::from(count).div_ceil(BITS);
        let missing = (0..words).flat_map(|index| {
            let mut missing = !self.words.get(index).copied().unwrap_or(0);
            std::iter::from_fn(move || {
                let bit = missing.trailing_zeros() as usize;
                // Clear the lowest set bit, whose position is returned.
                missing &= missing.wrapping_sub(1);
                (bit < BITS).then_some((index * BITS + bit) as Seq)
            })
        });
        missing.take_while(move |seq| *seq < count)
    }

    pub(crate) fn add(&mut self, seq: Seq) {
        let index = usize::from(seq) / BITS;
        if self.words.len() <= index {
            self.words.resize(index + 1, 0);
        }
        self.words[index] |= 1 << (usize::from(seq) % BITS);
    }

    /// Returns the words of the bitmap, without zeros at the end. Position 0 is the lowest bit of
    /// the first word.
    pub(crate) fn words(&self) -> &[u64] {
        &self.words
    }

    /// Creates the set from the words of a bitmap; `None` if the last word is 0.
    pub(crate) fn from_words(words: Vec<u64>) -> Option<Self> {
        words
            .last()
            .is_none_or(|last| *last != 0)
            .then_some(Self { words })
    }
}
