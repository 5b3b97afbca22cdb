//! Small repeatable generator of random numbers for tests: the same seed gives the same run.

/// `SplitMix64` random generator: repeatable, fast, good enough for tests, and unsuitable for secrets.
#[derive(Debug, Clone)]
pub(crate) struct Random(u64);

impl Random {
    /// Creates a generator. The same `seed` gives the same sequence of numbers.
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// Returns the next 64 random bits.
    pub(crate) fn bits(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut bits = self.0;
        bits = (bits ^ (bits >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        bits = (bits ^ (bits >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        bits ^ (bits >> 31)
    }

    /// Returns a random number below `end`, which must not be 0.
    pub(crate) fn below(&mut self, end: usize) -> usize {
        (self.bits() % end as u64) as usize
    }

    /// Returns true with the probability `rate`.
    pub(crate) fn chance(&mut self, rate: f64) -> bool {
        ((self.bits() >> 11) as f64) < rate * (1_u64 << 53) as f64
    }
}
