//! Buckets in a store that has transactions, and counts its partitions: one process has it.
//!
//! Who writes to a partition shares a lock with others who do, from where it is routed until that is done. Who cuts it has the lock
//! alone, and moves rows together with what says where they lie, in one transaction. So nothing is ever half done, nobody waits
//! for copies to end, and a directory that was read stays known until this process changes it. Who reads goes by a
//! snapshot, and by the directory as it was then. Why it is so stands in `docs/design/buckets.md`.
//!
//! | module | holds |
//! |---|---|
//! | `locks` | who writes, and who cuts |
//! | `whole` | a directory in memory |
//! | `known` | those that are known, and since when |
//! | `route` | [`Guard`]: which bucket takes a row |
//! | `moment` | [`Moment`]: a snapshot, and directories as they were then |
//! | `arrivals` | [`Arrived`]: how rows came into a bucket |
//! | `retaining` | what is not kept any more goes |
//! | `times` | buckets by time are made before rows come |
//! | `plan` | what of a bucket goes elsewhere |
//! | `moving` | one transaction that moves rows |
//! | `deciding` | it is done, or what is in doubt is decided |
//! | `parts` | where a bucket is cut before rows come |
//! | `ahead` | it is cut there |
//! | `room` | room for rows before they are written |
//! | `cutting` | buckets are looked at, and cut |
//! | `list` | buckets as who looks after the store sees them |
//! | `mending` | what is wrong is put right |
//! | `forgetting` | what goes with a table |

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

/// A store whose partitions are kept in pieces, which are moved by transactions. Clones share what is known.
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
    /// Whether the table of directories was there when it was first looked for.
    was_there: Arc<OnceCell<bool>>,
    /// It was there, or was made since.
    is_made: Arc<OnceCell<()>>,
}

impl Transacted {
    /// Takes a store that nobody else writes to. There is one of these for a store in a process: two would not know of each other's cuts.
    /// The table of directories is made with the first cut, so that a store that is only read is taken as it is.
    ///
    /// # Errors
    /// Another table of its name is there. The store has no transactions, or does not count partitions.
    pub async fn open(store: Arc<dyn Store>, environment: Environment) -> Result<Self> {
        if !Self::suits(store.limits()) {
            let message =
                "rows are moved by transactions only in stores that have them, and count partitions";
            return Err(PiecesError::new(PiecesErrorKind::InvalidArgument, message));
        }
        let open = Self::over(store, environment);
        open.is_there().await?;
        Ok(open)
    }

    /// Whether it is for a store with these limits.
    pub(crate) fn suits(limits: Limits) -> bool {
        limits.transactions && limits.counts_partitions
    }

    /// Of a store that it [suits](Self::suits), and that is not looked at yet.
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

    /// Whether there may be directories. Nobody else makes their table.
    ///
    /// # Errors
    /// Another table of its name is there; or it cannot be looked.
    async fn is_there(&self) -> Result<bool> {
        if self.is_made.initialized() {
            return Ok(true);
        }
        let was_there = self.was_there.get_or_try_init(|| async {
            let asked = std::slice::from_ref(&*self.tables.directories);
            match self.store.compare_tables(asked).await?.pop() {
                Some(TableState::Missing) => Ok(false),
                Some(TableState::Other(difference)) => {
                    let message =
                        format!("table recto_buckets is another one than it should be: {difference}");
                    Err(PiecesError::new(PiecesErrorKind::Corrupt, message)
                        .with_hint("something else than Recto made it: rename it, or restore the store"))
                }
                Some(TableState::AsAsked) | None => Ok(true),
            }
        });
        let was_there = *was_there.await?;
        // It may have been made meanwhile.
        Ok(was_there || self.is_made.initialized())
    }

    /// Makes the table of directories, if it is not there.
    ///
    /// # Errors
    /// It cannot be made: the store is only read, as a rule.
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

    /// What was done since it was opened.
    pub fn metrics(&self) -> BucketMetrics {
        self.counters.metrics()
    }

    /// How many bytes of rows were moved since it was opened.
    pub fn moved_bytes(&self) -> u64 {
        self.counters.moved_bytes()
    }

    pub(crate) fn deadline(&self, time: Duration) -> Deadline {
        Deadline::after(&self.environment, time)
    }

    /// How long the next request may take.
    ///
    /// # Errors
    /// The time is over.
    fn request_time(&self, deadline: Deadline) -> Result<Duration> {
        let time = deadline.request_time(&self.environment);
        time.ok_or_else(|| PiecesError::out_of_time(None))
    }

    /// The whole directory of a partition, as it was in a snapshot.
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

    /// The pieces of a directory from one that begins at this edge, as many as a window has.
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
            // A snapshot stands still.
            Window::None | Window::Torn => Err(missing()),
        }
    }

    /// Whether a partition has a directory in a snapshot: most have none, and that is read at once.
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
            // The snapshot is of before it was made.
            Err(error) if error.kind() == StoreErrorKind::Table => Ok(false),
            Err(error) => Err(error.into()),
        }
    }

    /// The directory of a partition that has none.
    fn absent(&self, place: &Place) -> Directory {
        Directory {
            // Nobody goes by copies here.
            life_ms: self.protocol.long_life_ms,
            longest_ms: self.protocol.long_life_ms,
            ..Directory::absent(place.pieced.sampling, self.protocol)
        }
    }
}
