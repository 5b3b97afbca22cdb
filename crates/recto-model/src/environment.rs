//! The one handle on time and randomness.
//!
//! Everything in Recto that needs either takes it from here, so that a test which controls the
//! handle replays a run from its seed.

use std::fmt;
use std::sync::Arc;

/// Time and randomness. Cheap to clone.
#[derive(Clone)]
pub struct Environment(Arc<dyn Source>);

/// What an [`Environment`] is made of.
pub trait Source: Send + Sync + 'static {
    /// Microseconds since 1970-01-01T00:00:00Z.
    fn now_micros(&self) -> i64;
    /// Nanoseconds since some fixed moment; never goes back.
    fn monotonic_nanos(&self) -> u64;
    /// Fills `bytes` with random bytes fit for nonces and keys.
    fn fill_random(&self, bytes: &mut [u8]);
}

impl Environment {
    /// An environment made of `source`.
    pub fn new(source: impl Source) -> Self {
        Self(Arc::new(source))
    }

    /// Microseconds since 1970-01-01T00:00:00Z.
    pub fn now_micros(&self) -> i64 {
        self.0.now_micros()
    }

    /// Nanoseconds since some fixed moment; never goes back.
    pub fn monotonic_nanos(&self) -> u64 {
        self.0.monotonic_nanos()
    }

    /// Random bytes fit for nonces and keys.
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
