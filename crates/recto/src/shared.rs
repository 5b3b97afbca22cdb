//! What every handle on an open store shares.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use recto_model::Environment;
use recto_plan::cursor::KeyRing;
use recto_store::{ReadOptions, Store, WriteOptions};

use crate::catalog::Recorded;
use crate::catalog::tables::Problem;
use crate::error::Result;
use crate::keys::CursorKeys;
use crate::options::{OpenOptions, read_options, write_options};
use crate::paging::{Pieces, Undivided};
use crate::stamps::Stamps;

/// What every handle on one open store shares.
pub(crate) struct Shared {
    pub(crate) store: Arc<dyn Store>,
    pub(crate) environment: Environment,
    pub(crate) keys: CursorKeys,
    pub(crate) stamps: Stamps,
    /// Where the rows lie of partitions that are kept in pieces.
    pub(crate) pieces: Arc<dyn Pieces>,
    held: RwLock<Arc<Held>>,
    /// The version of `held`: what each query asks, without a lock.
    version: AtomicU64,
    request_timeout: Option<Duration>,
}

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

impl std::fmt::Debug for Shared {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Shared")
            .field("store", &self.store.describe())
            .finish_non_exhaustive()
    }
}

impl Shared {
    pub(crate) fn new(
        store: Arc<dyn Store>,
        environment: Environment,
        keys: KeyRing,
        recorded: Recorded,
        options: &OpenOptions,
    ) -> Self {
        let held = Held {
            recorded,
            ..Held::default()
        };
        Self {
            keys: CursorKeys::new(Arc::clone(&store), environment.clone(), keys, options),
            stamps: Stamps::after(store.newest_stamp(), environment.clone()),
            pieces: options.pieces.clone().unwrap_or_else(|| Arc::new(Undivided)),
            store,
            environment,
            version: AtomicU64::new(held.version),
            held: RwLock::new(Arc::new(held)),
            request_timeout: options.request_timeout,
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

    /// How to read.
    pub(crate) fn read_options(&self) -> ReadOptions {
        read_options(self.request_timeout)
    }

    /// How to write.
    pub(crate) fn write_options(&self) -> WriteOptions {
        write_options(self.request_timeout)
    }

    /// How to write rows of a load, where nobody waits for the single request, or (not relaxed) how far
    /// it is.
    pub(crate) fn load_options(&self, timeout: Duration, relaxed: bool) -> WriteOptions {
        WriteOptions {
            timeout: self.request_timeout.unwrap_or(timeout),
            relaxed,
            row_by_row: relaxed,
            ..WriteOptions::default()
        }
    }
}
