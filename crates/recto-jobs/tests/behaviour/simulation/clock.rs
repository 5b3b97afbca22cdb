//! The clocks and the randomness of one process, by a seed: they run with the time of sleeping tasks.

use std::sync::Mutex;

use recto_model::environment::Source;
use tokio::time::Instant;

/// When all begins, by a clock that is right: some day in 2026.
const START_MICROS: i64 = 1_767_225_600_000_000;

/// A small repeatable source of numbers: `SplitMix64`.
pub(crate) struct Random(Mutex<u64>);

impl Random {
    pub(crate) fn new(seed: u64) -> Self {
        Self(Mutex::new(seed))
    }

    pub(crate) fn bits(&self) -> u64 {
        let mut state = self.0.lock().unwrap();
        *state = state.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut bits = *state;
        bits = (bits ^ (bits >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        bits = (bits ^ (bits >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        bits ^ (bits >> 31)
    }

    /// A number below `end`, which is not 0.
    pub(crate) fn below(&self, end: u64) -> u64 {
        self.bits() % end
    }

    pub(crate) fn one_in(&self, times: u64) -> bool {
        self.below(times) == 0
    }
}

/// One process' clocks, as an environment's source.
pub(crate) struct Clocks {
    pub(crate) start: Instant,
    /// How far its wall clock is off.
    pub(crate) off_micros: i64,
    pub(crate) random: Random,
}

impl Source for Clocks {
    fn now_micros(&self) -> i64 {
        START_MICROS + self.off_micros + i64::try_from(self.start.elapsed().as_micros()).unwrap()
    }

    fn monotonic_nanos(&self) -> u64 {
        u64::try_from(self.start.elapsed().as_nanos()).unwrap()
    }

    fn fill_random(&self, bytes: &mut [u8]) {
        for chunk in bytes.chunks_mut(8) {
            chunk.copy_from_slice(&self.random.bits().to_be_bytes()[..chunk.len()]);
        }
    }
}
