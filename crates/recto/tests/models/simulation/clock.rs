//! Clocks and random numbers of one simulated process, which a seed determines. The clocks follow
//! the virtual time in which tasks sleep.

use std::sync::Mutex;
use std::sync::atomic::{AtomicI64, Ordering};

use recto_model::environment::Source;
use tokio::time::Instant;

/// Time of a correct clock at the start of a simulation: a day in 2026, in microseconds since 1970.
const START_MICROS: i64 = 1_767_225_600_000_000;

/// Small repeatable random generator: `SplitMix64`.
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

/// Clocks of one process.
pub(crate) struct Clock {
    start: Instant,
    /// Microseconds by which the wall clock is ahead of a correct clock.
    off_micros: AtomicI64,
    random: Random,
    /// Nanoseconds for which the monotonic clock stood still.
    stood_still_nanos: Mutex<u64>,
}

impl Clock {
    pub(crate) fn new(start: Instant, off_micros: i64, seed: u64) -> Self {
        Self {
            start,
            off_micros: AtomicI64::new(off_micros),
            random: Random::new(seed),
            stood_still_nanos: Mutex::default(),
        }
    }

    /// Sets the monotonic clock back by `nanos`, as if it had stood still.
    pub(crate) fn lose(&self, nanos: u64) {
        *self.stood_still_nanos.lock().unwrap() += nanos;
    }

    /// Moves the wall clock forward by `micros`.
    pub(crate) fn jump(&self, micros: i64) {
        self.off_micros.fetch_add(micros, Ordering::Relaxed);
    }

    fn elapsed_nanos(&self) -> u64 {
        u64::try_from(self.start.elapsed().as_nanos()).unwrap()
    }
}

/// A [`Clock`] as the source of an environment.
pub(crate) struct Clocks(pub(crate) std::sync::Arc<Clock>);

impl Source for Clocks {
    fn now_micros(&self) -> i64 {
        START_MICROS
            + self.0.off_micros.load(Ordering::Relaxed)
            + i64::try_from(self.0.elapsed_nanos() / 1_000).unwrap()
    }

    fn monotonic_nanos(&self) -> u64 {
        self.0.elapsed_nanos()
    }

    fn continuous_nanos(&self) -> u64 {
        let lost = *self.0.stood_still_nanos.lock().unwrap();
        self.0.elapsed_nanos().saturating_sub(lost)
    }

    fn fill_random(&self, bytes: &mut [u8]) {
        for chunk in bytes.chunks_mut(8) {
            chunk.copy_from_slice(&self.0.random.bits().to_le_bytes()[..chunk.len()]);
        }
    }
}
