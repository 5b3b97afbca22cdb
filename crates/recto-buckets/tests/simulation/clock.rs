//! Clocks and random numbers of one process, from a seed. The clocks follow the virtual time of the runtime, and differ
//! from those of other processes.

use std::sync::Mutex;
use std::time::Duration;

use recto_model::environment::Source;
use tokio::time::Instant;

/// Time at which each run starts, by an exact clock: a day in 2026, in microseconds.
const START_MICROS: i64 = 1_767_225_600_000_000;
/// Interval at which the clocks of a process stop.
const STANDSTILL_EVERY: Duration = Duration::from_secs(30);

/// Small reproducible source of random numbers: `SplitMix64`.
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

    /// Returns a number below `end`, which must not be 0.
    pub(crate) fn below(&self, end: u64) -> u64 {
        self.bits() % end
    }

    pub(crate) fn one_in(&self, times: u64) -> bool {
        self.below(times) == 0
    }

    pub(crate) fn millis(&self, end: u64) -> Duration {
        Duration::from_millis(self.below(end))
    }
}

/// Clocks of one process, as the source of an environment.
pub(crate) struct Clocks {
    pub(crate) start: Instant,
    /// Error of the wall clock, in microseconds. The field `set` has a time, and a further error from that
    /// time on.
    pub(crate) off_micros: i64,
    pub(crate) set: (Duration, i64),
    /// Duration for which the clocks stop in each interval.
    pub(crate) standstill: Duration,
    /// Speed of the clock by which the process waits, as a multiple of the real speed.
    pub(crate) speed: u64,
    pub(crate) random: Random,
}

impl Clocks {
    /// Returns clocks without errors.
    pub(crate) fn right(start: Instant, seed: u64) -> Self {
        Self {
            start,
            off_micros: 0,
            set: (Duration::MAX, 0),
            standstill: Duration::ZERO,
            speed: 1,
            random: Random::new(seed),
        }
    }

    /// Returns the time for which the clocks have run.
    fn elapsed(&self) -> Duration {
        let elapsed = self.start.elapsed();
        let rounds = elapsed.as_micros() / STANDSTILL_EVERY.as_micros();
        let into = elapsed.saturating_sub(STANDSTILL_EVERY * u32::try_from(rounds).unwrap());
        let runs = STANDSTILL_EVERY.saturating_sub(self.standstill);
        runs * u32::try_from(rounds).unwrap() + into.min(runs)
    }
}

impl Source for Clocks {
    fn now_micros(&self) -> i64 {
        let (when, by) = self.set;
        let set = if self.start.elapsed() < when { 0 } else { by };
        START_MICROS + self.off_micros + set + i64::try_from(self.elapsed().as_micros()).unwrap()
    }

    fn monotonic_nanos(&self) -> u64 {
        u64::try_from(self.elapsed().as_nanos()).unwrap()
    }

    fn continuous_nanos(&self) -> u64 {
        self.monotonic_nanos() * self.speed
    }

    fn fill_random(&self, bytes: &mut [u8]) {
        for chunk in bytes.chunks_mut(8) {
            chunk.copy_from_slice(&self.random.bits().to_be_bytes()[..chunk.len()]);
        }
    }
}
