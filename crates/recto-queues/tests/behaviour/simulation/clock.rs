//! Clocks and random numbers of one simulated process, from a seed. The clocks follow the virtual time of the
//! runtime.

use std::sync::Mutex;

use recto_model::environment::Source;
use tokio::time::Instant;

/// Start of a simulation by an exact clock: a day in 2026, in microseconds since 1970.
const START_MICROS: i64 = 1_767_225_600_000_000;

/// Reproducible generator of random numbers: `SplitMix64`.
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

    /// Returns a random number below `end`, which must not be 0.
    pub(crate) fn below(&self, end: u64) -> u64 {
        self.bits() % end
    }

    pub(crate) fn one_in(&self, times: u64) -> bool {
        self.below(times) == 0
    }
}

/// Clocks of one simulated process, for its `Environment`.
pub(crate) struct Clocks {
    pub(crate) start: Instant,
    /// Difference of the process's wall clock from the exact clock, in microseconds.
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
