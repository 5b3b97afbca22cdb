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
//! | `plan` | what of a bucket goes elsewhere |
//! | `moving` | one transaction that moves rows |
//! | `cutting` | buckets are looked at, and cut |
//! | `list` | buckets as who looks after the store sees them |

mod arrivals;
mod cutting;
mod known;
mod list;
mod locks;
mod moment;
mod moving;
mod plan;
mod route;
mod whole;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use recto_buckets::{Directory, Key, Protocol};
use recto_model::{Environment, Table};
use recto_store::{ReadOptions, Snapshot, Store, TableOutcome};

pub use self::arrivals::Arrived;
pub use self::moment::Moment;
pub use self::route::Guard;
pub use crate::directory::Seek;
pub use crate::mend::Mended;

use self::known::Known;
use self::locks::Locks;
use self::whole::Whole;
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
    /// Bytes of rows that were moved.
    moved: Arc<AtomicU64>,
}

impl Transacted {
    /// Takes a store that nobody else writes to, and makes the table of directories if it is not there. There is one of these for a store in a
    /// process: two would not know of each other's cuts.
    ///
    /// # Errors
    /// The table cannot be made, or one of its name is there as another. The store has no transactions, or does not count
    /// partitions.
    pub async fn open(store: Arc<dyn Store>, environment: Environment) -> Result<Self> {
        let limits = store.limits();
        if !limits.transactions || !limits.counts_partitions {
            let message =
                "rows are moved by transactions only in stores that have them, and count partitions";
            return Err(PiecesError::new(PiecesErrorKind::InvalidArgument, message));
        }
        let open = Self {
            store,
            environment,
            tables: Tables::new(),
            protocol: Protocol::default(),
            locks: Arc::default(),
            known: Arc::default(),
            notices: Arc::default(),
            moved: Arc::default(),
        };
        let table = Table::clone(&open.tables.directories);
        match open.store.create_tables_once(&[table]).await? {
            TableOutcome::Done => Ok(open),
            TableOutcome::Unknown(error) => Err(error.into()),
        }
    }

    /// How many bytes of rows were moved since it was opened.
    pub fn moved_bytes(&self) -> u64 {
        self.moved.load(Ordering::Relaxed)
    }

    fn deadline(&self, time: Duration) -> Deadline {
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
        let is_first = first.is_none();
        match self.tables.read_window(snapshot, place, first, &options).await? {
            Window::Read(window) => Ok(window),
            Window::None if is_first => {
                let absent = Directory::absent(place.pieced.sampling, self.protocol);
                Ok(Directory {
                    // Nobody goes by copies here.
                    life_ms: self.protocol.long_life_ms,
                    longest_ms: self.protocol.long_life_ms,
                    ..absent
                })
            }
            // A snapshot stands still.
            Window::None | Window::Torn => Err(missing()),
        }
    }
}
