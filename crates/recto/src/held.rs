//! What the store holds, as every handle on it knows it.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, PoisonError, RwLock};

use crate::catalog::Recorded;
use crate::catalog::tables::Problem;
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
}

impl Holding {
    pub(crate) fn new(recorded: Recorded) -> Self {
        let held = Held {
            recorded,
            ..Held::default()
        };
        Self {
            version: AtomicU64::new(held.version),
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
