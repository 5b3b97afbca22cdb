//! What the store holds, as every handle on it knows it.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, PoisonError, RwLock};

use recto_model::Environment;
use recto_protocol::views::building::CATALOG_MICROS;

use crate::catalog::tables::Problem;
use crate::catalog::{Catalog, Recorded};
use crate::error::Result;

/// What the store holds, as it was last looked at or changed.
#[derive(Debug, Clone, Default)]
pub(crate) struct Held {
    /// Counts what was held.
    pub(crate) version: u64,
    pub(crate) recorded: Recorded,
    /// The collections whose tables cannot serve them.
    pub(crate) problems: Arc<BTreeMap<String, Problem>>,
}

impl Held {
    /// Refuses a collection whose table is gone or is not what the schema says.
    pub(crate) fn check_table(&self, collection: &str) -> Result<()> {
        self.problems
            .get(collection)
            .map_or(Ok(()), |problem| Err(problem.error()))
    }
}

/// Where that stands, for all who ask and change it.
#[derive(Debug)]
pub(crate) struct Holding {
    held: RwLock<Arc<Held>>,
    /// The version of `held`: what each query asks, without a lock.
    version: AtomicU64,
    /// When the catalog was last asked for it, by the clock that counts suspension.
    asked_nanos: AtomicU64,
}

impl Holding {
    /// What was recorded when the catalog was asked at that time.
    pub(crate) fn new(recorded: Recorded, asked_nanos: u64) -> Self {
        let held = Held {
            recorded,
            ..Held::default()
        };
        Self {
            version: AtomicU64::new(held.version),
            asked_nanos: AtomicU64::new(asked_nanos),
            held: RwLock::new(Arc::new(held)),
        }
    }

    /// What the store holds, as last looked at.
    pub(crate) fn held(&self) -> Arc<Held> {
        Arc::clone(&self.held.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// Which version of [`held`](Self::held) there is.
    pub(crate) fn version(&self) -> u64 {
        self.version.load(Ordering::Acquire)
    }

    /// Asks the catalog whether another schema was recorded since, and takes it over.
    ///
    /// # Errors
    /// The catalog cannot be read.
    pub(crate) async fn look(&self, catalog: &Catalog<'_>, environment: &Environment) -> Result<()> {
        let asked_nanos = environment.continuous_nanos();
        let generation = self.held().recorded.generation;
        if let Some(recorded) = catalog.known_schema_other_than(generation).await? {
            self.hold_newer(recorded);
        }
        self.was_asked(asked_nanos);
        Ok(())
    }

    /// The catalog was asked then, and what it said is held.
    pub(crate) fn was_asked(&self, asked_nanos: u64) {
        self.asked_nanos.fetch_max(asked_nanos, Ordering::AcqRel);
    }

    /// Whether views may not be read any more by what is held: others may have changed it, and it was asked for so long ago
    /// that one that was dropped since may not be written any more.
    pub(crate) fn is_old(&self, environment: &Environment) -> bool {
        let age_nanos = environment
            .continuous_nanos()
            .saturating_sub(self.asked_nanos.load(Ordering::Acquire));
        age_nanos / 1_000 >= CATALOG_MICROS.unsigned_abs()
    }

    /// Takes over a schema, if `take` says so of the one there is and it is another. Whether it was.
    pub(crate) fn hold_schema(&self, recorded: Recorded, take: impl FnOnce(&Recorded) -> bool) -> bool {
        self.hold(|held| {
            let is_taken = held.recorded != recorded && take(&held.recorded);
            if is_taken {
                held.recorded = recorded;
            }
            is_taken
        })
    }

    /// Takes over a schema that is newer: this process may have applied another meanwhile. Whether it was.
    pub(crate) fn hold_newer(&self, recorded: Recorded) -> bool {
        let generation = recorded.generation;
        self.hold_schema(recorded, |current| generation > current.generation)
    }

    pub(crate) fn hold_problems(&self, problems: BTreeMap<String, Problem>) {
        self.hold(|held| {
            let are_others = *held.problems != problems;
            if are_others {
                held.problems = Arc::new(problems);
            }
            are_others
        });
    }

    /// Changes what is held, by a function that says whether it did.
    fn hold(&self, change: impl FnOnce(&mut Held) -> bool) -> bool {
        let mut current = self.held.write().unwrap_or_else(PoisonError::into_inner);
        let mut held = Held::clone(&current);
        let is_changed = change(&mut held);
        if is_changed {
            held.version += 1;
            self.version.store(held.version, Ordering::Release);
            *current = Arc::new(held);
        }
        is_changed
    }
}
