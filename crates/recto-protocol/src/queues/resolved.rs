//! Which messages of a segment are done with: a bit each.

use crate::queues::names::Seq;

const BITS: usize = 64;

/// Places of a segment. Only ever grows.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub struct Resolved {
    /// The last one is not 0.
    words: Vec<u64>,
}

/// Of a segment of which nothing is done with.
pub(crate) static NONE: Resolved = Resolved { words: Vec::new() };

impl Resolved {
    /// Whether a place is among them.
    pub fn has(&self, seq: Seq) -> bool {
        let word = self.words.get(usize::from(seq) / BITS);
        word.is_some_and(|word| word >> (usize::from(seq) % BITS) & 1 == 1)
    }

    /// How many there are.
    pub fn count(&self) -> u32 {
        self.words.iter().map(|word| word.count_ones()).sum()
    }

    /// Places below so many that are not among them, in order. Words that are full are passed over.
    pub(crate) fn missing(&self, count: Seq) -> impl Iterator<Item = Seq> {
        let words = usize::from(count).div_ceil(BITS);
        let missing = (0..words).flat_map(|index| {
            let mut missing = !self.words.get(index).copied().unwrap_or(0);
            std::iter::from_fn(move || {
                let bit = missing.trailing_zeros() as usize;
                // The lowest one is taken.
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

    /// The words, the first places in the first one's lowest bits, without those at the end that are 0.
    pub(crate) fn words(&self) -> &[u64] {
        &self.words
    }

    /// From such words.
    pub(crate) fn from_words(words: Vec<u64>) -> Option<Self> {
        words
            .last()
            .is_none_or(|last| *last != 0)
            .then_some(Self { words })
    }
}
