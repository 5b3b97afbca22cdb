//! Environment with virtual time and repeatable pseudorandom numbers, and a store in memory that uses it.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use recto::schema::Schema;
use recto::store::Limits;
use recto::store::memory::{DEFAULT_LIMITS, MemoryStore};
use recto::{Environment, OpenOptions, Recto};
use recto_model::environment::Source;

/// Source of virtual time, in which tasks sleep, and of repeatable pseudorandom numbers.
struct Clocks {
    start: tokio::time::Instant,
    drawn: AtomicU64,
}

impl Source for Clocks {
    fn now_micros(&self) -> i64 {
        1_767_225_600_000_000 + i64::try_from(self.start.elapsed().as_micros()).unwrap()
    }

    fn monotonic_nanos(&self) -> u64 {
        u64::try_from(self.start.elapsed().as_nanos()).unwrap()
    }

    fn fill_random(&self, bytes: &mut [u8]) {
        for chunk in bytes.chunks_mut(8) {
            let mut drawn = self.drawn.fetch_add(0x9E37_79B9_7F4A_7C15, Ordering::Relaxed);
            drawn = (drawn ^ (drawn >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
            drawn = (drawn ^ (drawn >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
            drawn ^= drawn >> 31;
            for (byte, drawn) in chunk.iter_mut().zip(drawn.to_be_bytes()) {
                *byte = drawn;
            }
        }
    }
}

/// Returns an environment whose clocks show the virtual time of the test's runtime. `seed` selects the random numbers.
pub(crate) fn environment(seed: u64) -> Environment {
    Environment::new(Clocks {
        start: tokio::time::Instant::now(),
        drawn: AtomicU64::new(seed.wrapping_mul(0xD1B5_4A32_D192_ED03)),
    })
}

/// Opens a store in memory that has the limits of Cassandra, and applies a schema.
pub(crate) async fn open_as_cassandra(environment: &Environment, schema: &Schema) -> Recto {
    let limits = Limits {
        remote: true,
        leaves_tombstones: true,
        sees_conflicts: false,
        transactions: false,
        ..DEFAULT_LIMITS
    };
    let store = MemoryStore::with_limits(environment.clone(), limits);
    let options = OpenOptions::new().environment(environment.clone());
    let recto = Recto::with_store(Arc::new(store), options).await.unwrap();
    recto.apply(schema).await.unwrap();
    recto
}
