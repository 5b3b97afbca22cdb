//! Cache of the schema of a store, which all handles of the store share.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, PoisonError, RwLock};

use recto_model::Environment;
use recto_protocol::views::building::CATALOG_MICROS;

use crate::catalog::tables::Problem;
use crate::catalog::{Catalog, Recorded};
use crate::error::Result;

/// Schema of a store, as this process last read or changed it.
#[derive(Debug, Clone, Default)]
pub(crate) struct Held {
    /// Number of changes of the cached schema since the store was opened.
    pub(crate) version: u64,
    pub(crate) recorded: Recorded,
    /// Collections that are unavailable because a table is missing or differs from the schema, by name, with
    /// the reason.
    pub(crate) problems: Arc<BTreeMap<String, Problem>>,
}

impl Held {
    /// Rejects a collection whose table is missing or differs from the schema.
    pub(crate) fn check_table(&self, collection: &str) -> Result<()> {
        self.problems
            .get(collection)
            .map_or(Ok(()), |problem| Err(problem.error()))
    }
}

/// Cache of a store's schema, which threads read and change concurrently.
#[derive(Debug)]
pub(crate) struct Holding {
    held: RwLock<Arc<Held>>,
    /// Version of the schema in `held`. Each query reads the version without a lock.
    version: AtomicU64,
    /// Time of the last read of the catalog, in nanoseconds of a clock that continues while the machine is
    /// suspended.
    asked_nanos: AtomicU64,
}

impl Holding {
    /// Creates the cache from a schema that was read from the catalog at the time `asked_nanos`.
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

    /// Returns the cached schema.
    pub(crate) fn held(&self) -> Arc<Held> {
        Arc::clone(&self.held.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// Returns the version of the cached schema.
    pub(crate) fn version(&self) -> u64 {
        self.version.load(Ordering::Acquire)
    }

    /// Checks whether the catalog has another schema than the cache, and caches that schema if it is newer.
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

    /// Records that the cache is as new as the catalog was at the time `asked_nanos`, in nanoseconds of the
    /// continuous clock.
    pub(crate) fn was_asked(&self, asked_nanos: u64) {
        self.asked_nanos.fetch_max(asked_nanos, Ordering::AcqRel);
    }

    /// Returns whether the cached schema is too old to read views by it. Another process may have
    /// dropped a view since the last check of the catalog. Writers may then no longer maintain this
    /// view.
    pub(crate) fn is_old(&self, environment: &Environment) -> bool {
        let age_nanos = environment
            .continuous_nanos()
            .saturating_sub(self.asked_nanos.load(Ordering::Acquire));
        age_nanos / 1_000 >= CATALOG_MICROS.unsigned_abs()
    }

    /// Caches `recorded` if it differs from the cached schema and `take` accepts the replacement. `take`
    /// receives the cached schema. Returns whether the cache changed.
    pub(crate) fn hold_schema(&self, recorded: Recorded, take: impl FnOnce(&Recorded) -> bool) -> bool {
        self.hold(|held| {
            let is_taken = held.recorded != recorded && take(&held.recorded);
            if is_taken {
                held.recorded = recorded;
            }
            is_taken
        })
    }

    /// Caches `recorded` if its generation is newer than the generation of the cached schema. This process
    /// may have applied a newer schema while it read `recorded`. Returns whether the cache changed.
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

    /// Passes a copy of the cache to `change`, and stores the copy if `change` returns true.
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
