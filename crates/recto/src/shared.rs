//! What every handle on an open store shares.

use std::collections::BTreeMap;
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use recto_model::Environment;
use recto_plan::cursor::KeyRing;
use recto_store::{ReadOptions, Store, WriteOptions};

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
    /// The collections whose tables cannot serve them, as last looked at.
    problems: RwLock<Arc<BTreeMap<String, Problem>>>,
    request_timeout: Option<Duration>,
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
        options: &OpenOptions,
    ) -> Self {
        Self {
            keys: CursorKeys::new(Arc::clone(&store), environment.clone(), keys, options),
            stamps: Stamps::after(store.newest_stamp(), environment.clone()),
            pieces: options.pieces.clone().unwrap_or_else(|| Arc::new(Undivided)),
            store,
            environment,
            problems: RwLock::default(),
            request_timeout: options.request_timeout,
        }
    }

    /// The collections whose tables cannot serve them, as last looked at.
    pub(crate) fn problems(&self) -> Arc<BTreeMap<String, Problem>> {
        Arc::clone(&self.problems.read().unwrap_or_else(PoisonError::into_inner))
    }

    pub(crate) fn set_problems(&self, problems: BTreeMap<String, Problem>) {
        *self.problems.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(problems);
    }

    /// Refuses a collection whose table is gone or is not what the schema says.
    pub(crate) fn check_table(&self, collection: &str) -> Result<()> {
        self.problems()
            .get(collection)
            .map_or(Ok(()), |problem| Err(problem.error()))
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
