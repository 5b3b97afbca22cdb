//! Writers that put records, delete records, and write batches while nodes fail.

use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::time::{Duration, Instant};

use recto::{Error, ErrorKind};
use recto_testkit::generate::Rng;

use super::data::{COLLECTIONS, SLOTS, TENANTS, Tables, key_values};
use super::history::{History, Key, Outcome, State};

/// Maximum number of changes in one batch.
const BATCH_CHANGES: usize = 6;
/// Pause of a writer between two writes, which leaves processor time to other processes.
const PAUSE: Duration = Duration::from_millis(10);
/// Maximum time that a write may take beyond the timeouts of its attempts.
const GRACE: Duration = Duration::from_secs(2);
/// Default timeout of one attempt of a write. `ATTEMPTS` is the default maximum number of attempts.
const ATTEMPT_TIME: Duration = Duration::from_secs(10);
const ATTEMPTS: u32 = 3;

/// Writer of random changes. Each writer has its own slots, so that no two writers write the same
/// key.
pub(crate) struct Writer<'a> {
    pub(crate) tables: &'a Tables,
    pub(crate) history: &'a History,
    pub(crate) versions: &'a AtomicI64,
    /// Index of this writer among the `of` writers.
    pub(crate) index: i64,
    pub(crate) of: i64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum WriteMode {
    One,
    Logged,
    Each,
}

impl Writer<'_> {
    /// Writes random changes until `stop` is set.
    pub(crate) async fn write_until(&self, stop: &AtomicBool, mut random: Rng) {
        while !stop.load(Ordering::Relaxed) {
            self.write(&mut random).await;
            tokio::time::sleep(PAUSE).await;
        }
    }

    /// Stores a record in each slot of this writer, for each tenant and collection.
    pub(crate) async fn fill(&self) {
        for slot in (0..SLOTS).filter(|slot| slot % self.of == self.index) {
            let mut changes = Vec::new();
            for collection in 0..COLLECTIONS.len() {
                for tenant in 0..TENANTS {
                    let key = Key {
                        collection,
                        tenant,
                        slot,
                    };
                    changes.push((key, Some(self.version())));
                }
            }
            self.send(WriteMode::Logged, &changes).await;
        }
    }

    async fn write(&self, random: &mut Rng) {
        let how = match random.u8(..10) {
            0..=5 => WriteMode::One,
            6..=7 => WriteMode::Logged,
            _ => WriteMode::Each,
        };
        let count = if how == WriteMode::One {
            1
        } else {
            random.usize(2..=BATCH_CHANGES)
        };
        let mut changes: Vec<(Key, State)> = Vec::new();
        while changes.len() < count {
            let key = Key {
                collection: random.usize(..COLLECTIONS.len()),
                tenant: random.usize(..TENANTS),
                slot: random.i64(0..SLOTS / self.of) * self.of + self.index,
            };
            if changes.iter().all(|(other, _)| *other != key) {
                let state = (random.u8(..4) > 0).then(|| self.version());
                changes.push((key, state));
            }
        }
        self.send(how, &changes).await;
    }

    fn version(&self) -> i64 {
        self.versions.fetch_add(1, Ordering::Relaxed)
    }

    /// Sends changes, and records their outcome in the history.
    async fn send(&self, how: WriteMode, changes: &[(Key, State)]) {
        self.history.sent(changes);
        let clock = Instant::now();
        let sent = self.attempt(how, changes).await;
        let outcome = match &sent {
            Ok(()) => Outcome::Done,
            Err(error) => outcome_of(error),
        };
        self.history.ended(changes, outcome);
        assert!(
            clock.elapsed() < ATTEMPT_TIME * ATTEMPTS + GRACE,
            "a write outlived its time"
        );
    }

    async fn attempt(&self, how: WriteMode, changes: &[(Key, State)]) -> Result<(), Error> {
        if let (WriteMode::One, [(key, state)]) = (how, changes) {
            let collection = &self.tables.collections[key.collection];
            return match state {
                Some(version) => collection
                    .put(&self.tables.record(*key, *version))
                    .await
                    .map(drop),
                None => collection.delete(&key_values(*key)[..]).await.map(drop),
            };
        }
        let mut batch = self.tables.recto.batch();
        if how == WriteMode::Each {
            batch.each_for_itself();
        }
        for (key, state) in changes {
            let collection = &self.tables.collections[key.collection];
            match state {
                Some(version) => batch.put(collection, &self.tables.record(*key, *version)),
                None => batch.delete(collection, &key_values(*key)[..]),
            }
            .unwrap();
        }
        batch.commit().await
    }
}

/// Returns the outcome of a write that ended with this error.
pub(crate) fn outcome_of(error: &Error) -> Outcome {
    assert!(error.hint().is_some(), "no hint: {error:?}");
    match error.kind() {
        ErrorKind::OutcomeUnknown => Outcome::Unknown,
        ErrorKind::Unavailable | ErrorKind::Timeout => Outcome::NotDone,
        _ => panic!("{error:?}"),
    }
}
