//! Clocks that run ten times as fast as real time, so that visibility timeouts and rotation intervals end
//! soon.

use std::time::Duration;

use recto_model::Environment;
use recto_model::environment::Source;

const TIMES: u32 = 10;

/// Returns an environment with fast clocks. Processes with the same `from_micros` have the same time.
pub(crate) fn environment(from_micros: i64) -> Environment {
    Environment::new(Fast {
        from_micros,
        right: Environment::system(),
    })
}

/// Returns the real duration of a duration on the fast clocks.
pub(crate) fn in_truth(time: Duration) -> Duration {
    time / TIMES
}

struct Fast {
    from_micros: i64,
    right: Environment,
}

impl Source for Fast {
    fn now_micros(&self) -> i64 {
        self.from_micros + (self.right.now_micros() - self.from_micros) * i64::from(TIMES)
    }

    fn monotonic_nanos(&self) -> u64 {
        self.right.monotonic_nanos() * u64::from(TIMES)
    }

    fn continuous_nanos(&self) -> u64 {
        self.right.continuous_nanos() * u64::from(TIMES)
    }

    fn fill_random(&self, bytes: &mut [u8]) {
        for chunk in bytes.chunks_mut(16) {
            let drawn = self.right.random::<16>();
            chunk.copy_from_slice(&drawn[..chunk.len()]);
        }
    }
}
