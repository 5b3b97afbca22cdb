//! Buckets on a store that has transactions and counts the rows of its partitions. One process owns such a store.
//!
//! A write holds a shared lock on its partition from its routing until it is done. A split holds the lock exclusively,
//! and moves rows together with the change of the range map, in one transaction. So no split is ever half done, and no
//! task waits for range maps to expire. A range map that was read stays valid until this process changes it. A read
//! uses a snapshot and the range map as of this snapshot. `docs/design/buckets.md` gives the reasons.
//!
//! | module | content |
//! |---|---|
//! | `locks` | locks of writes and splits |
//! | `whole` | range map in memory |
//! | `known` | cached range maps, and the time since when each is valid |
//! | `route` | [`Guard`]: bucket of a row |
//! | `moment` | [`Moment`]: snapshot, and range maps as of the snapshot |
//! | `arrivals` | [`Arrived`]: arrival of rows in a bucket |
//! | `retaining` | removal of data below the retention bound |
//! | `times` | creation of time buckets before their rows arrive |
//! | `plan` | rows that a split moves |
//! | `moving` | one transaction that moves rows |
//! | `deciding` | commit of a change, after all earlier requests are decided |
//! | `parts` | edges for rows that are about to arrive |
//! | `ahead` | splits at these edges |
//! | `room` | room for rows before they are written |
//! | `cutting` | checks of grown buckets, and splits |
//! | `list` | buckets for an operator of the store |
//! | `mending` | repair of faults |
//! | `forgetting` | removal of the bucket data of a dropped table |

mod ahead;
mod arrivals;
mod cutting;
mod deciding;
mod forgetting;
mod known;
mod list;
mod locks;
mod mending;
mod moment;
mod moving;
mod parts;
mod plan;
mod retaining;
mod room;
mod route;
mod times;
mod whole;

use std::sync::Arc;
use std::time::Duration;

use recto_model::{Environment, Table};
use recto_protocol::buckets::{Directory, Key, Protocol};
use recto_store::{Limits, ReadOptions, Snapshot, Store, StoreErrorKind, TableOutcome, TableState};
use tokio::sync::OnceCell;

pub use self::arrivals::Arrived;
pub use self::moment::Moment;
pub(crate) use self::moment::{rest_of, seek_of};
pub(crate) use self::parts::Row;
pub use self::route::Guard;
pub use crate::directory::Seek;
pub use crate::mend::Mended;

use self::known::Known;
use self::locks::Locks;
pub(crate) use self::times::Missing;

use self::room::Wishes;
use self::whole::Whole;
use crate::counters::{BucketMetrics, Counters};
use crate::directory::{Window, missing};
use crate::error::{PiecesError, PiecesErrorKind, Result};
use crate::notices::Notices;
use crate::place::{Deadline, Place};
use crate::tables::Tables;

/// Store whose partitions are kept in buckets, and whose transactions move rows between buckets. Clones share their
/// caches.
#[derive(Clone)]
pub struct Transacted {
    store: Arc<dyn Store>,
    environment: Environment,
    tables: Tables,
    protocol: Protocol,
    locks: Arc<Locks>,
    known: Arc<Known>,
    notices: Arc<Notices>,
    wishes: Arc<Wishes>,
    counters: Arc<Counters>,
    /// True if the table of range maps existed at the first check.
    was_there: Arc<OnceCell<bool>>,
    /// Set when the table of range maps existed or was created after that.
    is_made: Arc<OnceCell<()>>,
}

impl Transacted {
    /// Opens the engine on a store that no other process writes to. Open only one engine for a store in a process,
    /// because two engines would not know of each other's splits. The first split creates the table of range maps, so a
    /// store that is only read stays unchanged.
    ///
    /// # Errors
    /// - A different table with the name of the table of range maps exists.
    /// - The store has no transactions, or does not count the rows of partitions.
    pub async fn open(store: Arc<dyn Store>, environment: Environment) -> Result<Self> {
        if !Self::suits(store.limits()) {
            let message =
                "key ranges with transactions need a store that has transactions and counts partitions";
            return Err(PiecesError::new(PiecesErrorKind::InvalidArgument, message));
        }
        let open = Self::over(store, environment);
        open.is_there().await?;
        Ok(open)
    }

    /// Returns whether the engine is suitable for a store with these limits.
    pub(crate) fn suits(limits: Limits) -> bool {
        limits.transactions && limits.counts_partitions
    }

    /// Returns the engine for a [suitable](Self::suits) store without accessing the store.
    pub(crate) fn over(store: Arc<dyn Store>, environment: Environment) -> Self {
        Self {
            store,
            environment,
            tables: Tables::new(),
            protocol: Protocol::default(),
            locks: Arc::default(),
            known: Arc::default(),
            notices: Arc::default(),
            wishes: Arc::default(),
            counters: Arc::default(),
            was_there: Arc::default(),
            is_made: Arc::default(),
        }
    }

    /// Returns whether range maps may exist. Only this process creates their table.
    ///
    /// # Errors
    /// A different table with its name exists, or the check fails.
    async fn is_there(&self) -> Result<bool> {
        if self.is_made.initialized() {
            return Ok(true);
        }
        let was_there = self.was_there.get_or_try_init(|| async {
            let asked = std::slice::from_ref(&*self.tables.directories);
            match self.store.compare_tables(asked).await?.pop() {
                Some(TableState::Missing) => Ok(false),
                Some(TableState::Other(difference)) => {
                    let message = format!("table recto_buckets has an unexpected form: {difference}");
                    Err(PiecesError::new(PiecesErrorKind::Corrupt, message)
                        .with_hint("rename the table, which another program created, or restore the store"))
                }
                Some(TableState::AsAsked) | None => Ok(true),
            }
        });
        let was_there = *was_there.await?;
        // Another task may have created the table meanwhile.
        Ok(was_there || self.is_made.initialized())
    }

    /// Creates the table of range maps if it is missing.
    ///
    /// # Errors
    /// The table cannot be created, usually because the store is read-only.
    async fn make(&self) -> Result<()> {
        let made = self.is_made.get_or_try_init(|| async {
            if self.is_there().await? {
                return Ok(());
            }
            let table = Table::clone(&self.tables.directories);
            match self.store.create_tables_once(&[table]).await? {
                TableOutcome::Done => Ok(()),
                TableOutcome::Unknown(error) => Err(error.into()),
            }
        });
        made.await.copied()
    }

    /// Returns the counters since the store was opened.
    pub fn metrics(&self) -> BucketMetrics {
        self.counters.metrics()
    }

    /// Returns the number of bytes of rows that were moved since the store was opened.
    pub fn moved_bytes(&self) -> u64 {
        self.counters.moved_bytes()
    }

    pub(crate) fn deadline(&self, time: Duration) -> Deadline {
        Deadline::after(&self.environment, time)
    }

    /// Returns the maximum duration of the next request.
    ///
    /// # Errors
    /// The deadline has passed.
    fn request_time(&self, deadline: Deadline) -> Result<Duration> {
        let time = deadline.request_time(&self.environment);
        time.ok_or_else(|| PiecesError::out_of_time(None))
    }

    /// Returns the complete range map of a partition as of a snapshot.
    async fn read_whole(&self, snapshot: &dyn Snapshot, place: &Place, deadline: Deadline) -> Result<Whole> {
        let (mut windows, mut first) = (Vec::new(), None);
        loop {
            let window = self.read_window(snapshot, place, first, deadline).await?;
            let end = window.end.clone();
            windows.push(Arc::new(window));
            match end {
                Some(end) => first = Some(end),
                None => return Whole::new(windows).ok_or_else(missing),
            }
        }
    }

    /// Returns the window of a range map that begins at this edge.
    async fn read_window(
        &self,
        snapshot: &dyn Snapshot,
        place: &Place,
        first: Option<Key>,
        deadline: Deadline,
    ) -> Result<Directory> {
        let options = ReadOptions {
            timeout: self.request_time(deadline)?,
            ..ReadOptions::default()
        };
        self.counters.read_directory();
        let is_first = first.is_none();
        if is_first && !self.has_directory(snapshot, place, &options).await? {
            return Ok(self.absent(place));
        }
        match self.tables.read_window(snapshot, place, first, &options).await? {
            Window::Read(window) => Ok(window),
            // A snapshot does not change during the read.
            Window::None | Window::Torn => Err(missing()),
        }
    }

    /// Returns whether a partition has a range map in a snapshot. Most partitions have none, and this check needs no
    /// wait.
    async fn has_directory(
        &self,
        snapshot: &dyn Snapshot,
        place: &Place,
        options: &ReadOptions,
    ) -> Result<bool> {
        if !self.is_there().await? {
            return Ok(false);
        }
        let partition = place.directory_partition();
        let statics = snapshot.get_statics(&self.tables.directories, &partition, options);
        match statics.await {
            Ok(statics) => Ok(!statics.rows.is_empty()),
            // The snapshot is older than the table of range maps.
            Err(error) if error.kind() == StoreErrorKind::Table => Ok(false),
            Err(error) => Err(error.into()),
        }
    }

    /// Returns the range map of a partition that has no stored range map.
    fn absent(&self, place: &Place) -> Directory {
        Directory {
            // No task uses range maps that expire.
            life_ms: self.protocol.long_life_ms,
            longest_ms: self.protocol.long_life_ms,
            ..Directory::absent(place.pieced.sampling, self.protocol)
        }
    }
}
