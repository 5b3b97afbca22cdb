//! The only source of time and randomness in Recto.
//!
//! All code of Recto that needs time or randomness gets it from this module. A test can therefore
//! control both, and replay a run from its seed.

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, LazyLock};
#[cfg(feature = "suspended-time")]
use std::time::Duration;
use std::time::{Instant, SystemTime, UNIX_EPOCH};

/// Source of time and randomness for all code of Recto. Cloning is cheap.
///
/// ```
/// use recto_model::Environment;
///
/// // Of one seed, the same: for tests that replay.
/// let (one, other) = (Environment::seeded(7, 0), Environment::seeded(7, 0));
/// assert_eq!(one.random::<8>(), other.random::<8>());
/// assert!(Environment::system().now_micros() > 0);
/// ```
#[derive(Clone)]
pub struct Environment(Arc<dyn Source>);

/// Clock and random generator behind an [`Environment`]. Tests implement it to control time and
/// randomness.
pub trait Source: Send + Sync + 'static {
    /// Returns the time of the wall clock, in microseconds since 1970-01-01T00:00:00Z.
    fn now_micros(&self) -> i64;
    /// Returns the time of the monotonic clock: nanoseconds since a fixed moment. The result never decreases.
    fn monotonic_nanos(&self) -> u64;
    /// Returns the nanoseconds since a fixed moment, from a clock that also advances while the
    /// machine is suspended. The default implementation uses [`monotonic_nanos`](Self::monotonic_nanos), which is
    /// correct only if the machine is never suspended.
    fn continuous_nanos(&self) -> u64 {
        self.monotonic_nanos()
    }
    /// Fills `bytes` with random bytes that are suitable for nonces and keys.
    fn fill_random(&self, bytes: &mut [u8]);
}

impl Environment {
    /// Returns an environment that takes all times and random bytes from `source`.
    pub fn new(source: impl Source) -> Self {
        Self(Arc::new(source))
    }

    /// Returns an environment that uses the clocks of the machine and the randomness of its operating system.
    ///
    /// # Panics
    /// The functions that return random bytes panic if the operating system provides none. No other source is
    /// suitable for nonces and keys.
    pub fn system() -> Self {
        Self::new(System)
    }

    /// Returns an environment for tests. The seed determines its random bytes and the start its
    /// clock, so that a run can be replayed.
    ///
    /// The wall clock starts at `start_micros`. Each reading of either clock advances both by
    /// [`SEEDED_STEP_MICROS`]. The random bytes are the extendable output of BLAKE3, keyed by the seed, with
    /// one stream for each call. Calls in the same order return the same bytes.
    pub fn seeded(seed: u64, start_micros: i64) -> Self {
        Self::new(Seeded {
            key: blake3::derive_key("recto 2026 seeded environment", &seed.to_le_bytes()),
            start_micros,
            steps: AtomicU64::new(0),
            draws: AtomicU64::new(0),
        })
    }

    /// Returns the time of the wall clock, in microseconds since 1970-01-01T00:00:00Z.
    pub fn now_micros(&self) -> i64 {
        self.0.now_micros()
    }

    /// Returns the time of the wall clock, in seconds since 1970-01-01T00:00:00Z. Returns 0 before that time.
    pub fn now_seconds(&self) -> u64 {
        u64::try_from(self.now_micros() / 1_000_000).unwrap_or(0)
    }

    /// Returns the time of the monotonic clock: nanoseconds since a fixed moment. The result never decreases.
    pub fn monotonic_nanos(&self) -> u64 {
        self.0.monotonic_nanos()
    }

    /// Returns the nanoseconds since a fixed moment, including time for which the machine was
    /// suspended. The result never decreases. Use it for periods that must end when other processes
    /// consider them ended, such as a lease. Suspended time is included on Linux, Android and
    /// Apple's systems with the feature `suspended-time`. Otherwise, the clock may stop while the
    /// machine is suspended.
    pub fn continuous_nanos(&self) -> u64 {
        self.0.continuous_nanos()
    }

    /// Returns random bytes that are suitable for nonces and keys.
    pub fn random<const N: usize>(&self) -> [u8; N] {
        let mut bytes = [0; N];
        self.0.fill_random(&mut bytes);
        bytes
    }
}

impl fmt::Debug for Environment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Environment")
    }
}

/// Start of the monotonic clock: the first use of the clock in this process.
static MONOTONIC_START: LazyLock<Instant> = LazyLock::new(Instant::now);

/// Clock that advances while the machine is suspended. On Apple's systems, `CLOCK_MONOTONIC` does,
/// while the standard library uses `CLOCK_UPTIME_RAW`, which stops.
#[cfg(all(feature = "suspended-time", any(target_os = "linux", target_os = "android")))]
const CONTINUOUS: rustix::time::ClockId = rustix::time::ClockId::Boottime;
#[cfg(all(feature = "suspended-time", target_vendor = "apple"))]
const CONTINUOUS: rustix::time::ClockId = rustix::time::ClockId::Monotonic;

struct System;

impl Source for System {
    fn now_micros(&self) -> i64 {
        // If the clock is set to a time before 1970, return a negative time instead of an error.
        match SystemTime::now().duration_since(UNIX_EPOCH) {
            Ok(since) => i64::try_from(since.as_micros()).unwrap_or(i64::MAX),
            Err(before) => i64::try_from(before.duration().as_micros()).map_or(i64::MIN, |micros| -micros),
        }
    }

    fn monotonic_nanos(&self) -> u64 {
        u64::try_from(MONOTONIC_START.elapsed().as_nanos()).unwrap_or(u64::MAX)
    }

    #[cfg(all(
        feature = "suspended-time",
        any(target_os = "linux", target_os = "android", target_vendor = "apple")
    ))]
    fn continuous_nanos(&self) -> u64 {
        let now = rustix::time::clock_gettime(CONTINUOUS);
        let now = Duration::try_from(now).expect("a clock that counts from a start is not negative");
        u64::try_from(now.as_nanos()).unwrap_or(u64::MAX)
    }

    fn fill_random(&self, bytes: &mut [u8]) {
        getrandom::fill(bytes)
            .expect("the operating system gives random bytes; nothing else is fit for keys");
    }
}

/// Microseconds by which each reading of a clock of a [seeded](Environment::seeded) environment advances both
/// of its clocks.
pub const SEEDED_STEP_MICROS: u64 = 1;

struct Seeded {
    key: [u8; 32],
    start_micros: i64,
    steps: AtomicU64,
    draws: AtomicU64,
}

impl Source for Seeded {
    fn now_micros(&self) -> i64 {
        let steps = self.steps.fetch_add(1, Ordering::Relaxed);
        self.start_micros
            .saturating_add_unsigned(steps.saturating_mul(SEEDED_STEP_MICROS))
    }

    fn monotonic_nanos(&self) -> u64 {
        let steps = self.steps.fetch_add(1, Ordering::Relaxed);
        steps.saturating_mul(SEEDED_STEP_MICROS).saturating_mul(1_000)
    }

    fn fill_random(&self, bytes: &mut [u8]) {
        let draw = self.draws.fetch_add(1, Ordering::Relaxed);
        blake3::Hasher::new_keyed(&self.key)
            .update(&draw.to_le_bytes())
            .finalize_xof()
            .fill(bytes);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_replays_and_another_differs() {
        let run = |seed| {
            let environment = Environment::seeded(seed, 1_000);
            (
                environment.now_micros(),
                environment.random::<40>(),
                environment.monotonic_nanos(),
                environment.random::<40>(),
                environment.now_micros(),
            )
        };
        assert_eq!(run(7), run(7));
        assert_ne!(run(7).1, run(8).1);
        assert_ne!(run(7).1, run(7).3);
        let tested = Environment::seeded(7, 0);
        assert!(tested.continuous_nanos() < tested.monotonic_nanos());
        assert_eq!((run(7).0, run(7).2, run(7).4), (1_000, 1_000, 1_002));
    }

    #[test]
    fn the_system_moves_forward() {
        let environment = Environment::system();
        let before = environment.monotonic_nanos();
        assert!(environment.now_micros() > 1_700_000_000_000_000);
        assert!(environment.monotonic_nanos() >= before);
        let before = environment.continuous_nanos();
        std::thread::sleep(Duration::from_millis(2));
        let passed = environment.continuous_nanos() - before;
        assert!(passed >= 2_000_000, "{passed} ns passed");
        assert_ne!(environment.random::<16>(), environment.random::<16>());
    }
}
