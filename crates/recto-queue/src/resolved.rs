//! Which messages of a segment are done with: a bit each.

use crate::names::Seq;

const BITS: usize = 64;

/// Places of a segment. Only ever grows.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub struct Resolved {
    /// The last one is not 0.
    words: Vec<u64>,
}

impl Resolved {
    /// All of so many.
    pub fn all(count: Seq) -> Self {
        let mut all = Self::default();
        for seq in 0..count {
            all.add(seq);
        }
        all
    }

    /// Whether a place is among them.
    pub fn has(&self, seq: Seq) -> bool {
        let word = self.words.get(usize::from(seq) / BITS);
        word.is_some_and(|word| word >> (usize::from(seq) % BITS) & 1 == 1)
    }

    /// How many there are.
    pub fn count(&self) -> u32 {
        self.words.iter().map(|word| word.count_ones()).sum()
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
