//! The store of pieces, and one partition of it as a query names it.

use std::ops::Deref;
use std::sync::Arc;
use std::time::Duration;

use recto_model::{Cells, Environment, Table};
use recto_protocol::buckets::{Bucket, Clock, Key, Protocol, Shard};
use recto_store::{
    Atomicity, ConsistencyLevel, PartitionWrite, ReadOptions, Stamp, Store, StoreError, TableOutcome,
    WriteOptions, WriteOutcome,
};
use tokio::sync::Semaphore;

use crate::copies::Copies;
use crate::counters::{BucketMetrics, Counters};
use crate::error::{PiecesError, PiecesErrorKind, Result};
use crate::limits::{MAX_COPIES_AT_ONCE, MAX_DIRECTORIES_AT_ONCE, MAX_PAUSE, MAX_REQUEST_TIME};
use crate::loading::Loads;
use crate::notices::Notices;
use crate::registry::Registered;
use crate::shards::Roots;
use crate::tables::{PiecedTable, Tables, bucket_partition};

/// About how long to wait before a request is sent for the second time; each further wait is twice as long.
const FIRST_PAUSE: Duration = Duration::from_millis(4);

/// Gives stamps that rise: each is greater than all that this process gave before.
pub type Stamps = Arc<dyn Fn() -> Stamp + Send + Sync>;

/// A store whose partitions are kept in pieces: what is known of their directories, and what is noticed of them. Clones
/// share it.
#[derive(Clone)]
pub struct PieceStore(Arc<Kept>);

/// What clones of a [`PieceStore`] share: each row on its way has one, so that they are made of one counter.
#[derive(Clone)]
pub struct Kept {
    pub(crate) store: Arc<dyn Store>,
    pub(crate) environment: Environment,
    pub(crate) stamps: Stamps,
    pub(crate) tables: Tables,
    pub(crate) protocol: Protocol,
    pub(crate) copies: Arc<Copies>,
    /// Buckets by time.
    pub(crate) registered: Arc<Registered>,
    pub(crate) notices: Arc<Notices>,
    pub(crate) loads: Arc<Loads>,
    pub(crate) roots: Arc<Roots>,
    /// Who reads directories.
    pub(crate) reading: Arc<Semaphore>,
    pub(crate) counters: Arc<Counters>,
    /// Who copies rows.
    pub(crate) copying: Arc<Semaphore>,
}

/// A partition as a query names it: of a table whose partitions are kept in pieces.
#[derive(Clone)]
pub struct Partition {
    pub(crate) pieces: PieceStore,
    pub(crate) place: Arc<Place>,
}

/// Which partition it is, as a query names it.
#[derive(Debug)]
pub struct Place {
    pub(crate) pieced: Arc<PiecedTable>,
    /// Its key, without the bucket.
    pub(crate) partition: Cells,
    pub(crate) id: PlaceId,
}

/// The table's name, and the encoded key of the partition.
pub(crate) type PlaceId = Arc<(String, Vec<u8>)>;

/// Until when somebody waits.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Deadline {
    monotonic_nanos: u64,
}

/// A write that is not known to be done.
#[derive(Debug)]
pub(crate) struct Undone {
    pub(crate) error: PiecesError,
    /// Whether it may be, now or later.
    pub(crate) may_be_done: bool,
}

impl Deref for PieceStore {
    type Target = Kept;

    fn deref(&self) -> &Kept {
        &self.0
    }
}

impl PieceStore {
    /// Takes a store, whose conditional writes decide, and makes the tables of directories, samples and sums if they are not there.
    /// Rows get their `stamps` when they are sent.
    ///
    /// # Errors
    /// A table cannot be made, or one of its name is there as another. The store's snapshots stand still: this is for stores
    /// without transactions. Its consistency levels are such that not everybody sees what was decided.
    pub async fn open(store: Arc<dyn Store>, environment: Environment, stamps: Stamps) -> Result<Self> {
        if store.limits().transactions {
            let message = "partitions are kept in pieces only in stores without transactions";
            return Err(PiecesError::new(PiecesErrorKind::InvalidArgument, message));
        }
        store.check_decisions()?;
        let open = Self(Arc::new(Kept {
            store,
            environment,
            stamps,
            tables: Tables::new(),
            protocol: Protocol::default(),
            copies: Arc::default(),
            registered: Arc::default(),
            notices: Arc::default(),
            loads: Arc::default(),
            roots: Arc::default(),
            reading: Arc::new(Semaphore::new(MAX_DIRECTORIES_AT_ONCE)),
            counters: Arc::default(),
            copying: Arc::new(Semaphore::new(MAX_COPIES_AT_ONCE)),
        }));
        let tables = [
            &open.tables.directories,
            &open.tables.samples,
            &open.tables.sums,
            &open.tables.times,
        ];
        let tables = tables.map(|table| Table::clone(table));
        let deadline = open.deadline(MAX_REQUEST_TIME);
        open.again(deadline, |_| async {
            match open.store.create_tables_once(&tables).await? {
                TableOutcome::Done => Ok(()),
                TableOutcome::Unknown(error) => Err(error.into()),
            }
        })
        .await?;
        Ok(open)
    }

    /// What was done since it was opened.
    pub fn metrics(&self) -> BucketMetrics {
        self.counters.metrics()
    }

    /// The same by another protocol, which must be that of all processes.
    #[cfg(feature = "testing")]
    #[must_use]
    pub fn with_protocol(self, protocol: Protocol) -> Self {
        let kept = Kept::clone(&self);
        Self(Arc::new(Kept { protocol, ..kept }))
    }

    /// A partition of a table, by the cells of its key without the bucket.
    ///
    /// # Errors
    /// It is none of the table's, or its key is too long for one that is kept in pieces.
    pub fn partition(&self, pieced: &Arc<PiecedTable>, partition: Cells) -> Result<Partition> {
        let place = Place::new(pieced, partition)?;
        let limits = self.store.limits();
        limits.check_partition(&self.tables.samples, &place.samples_partition(Bucket(0)))?;
        limits.check_partition(&pieced.table, &place.shard_partition(Bucket(0), Shard(0)))?;
        Ok(Partition {
            pieces: self.clone(),
            place: Arc::new(place),
        })
    }

    /// What the clocks show.
    pub(crate) fn clock(&self) -> Clock {
        Clock {
            boot_ms: self.environment.continuous_nanos() / 1_000_000,
            wall_ms: self.environment.now_micros().div_euclid(1_000),
        }
    }

    /// So long from now.
    pub(crate) fn deadline(&self, time: Duration) -> Deadline {
        Deadline::after(&self.environment, time)
    }

    /// How long the next request may take; none: the time is over.
    pub(crate) fn request_time(&self, deadline: Deadline) -> Option<Duration> {
        deadline.request_time(&self.environment)
    }

    /// Asks until it is answered, or fails so that asking again is of no use. Each time it is told how long it may take.
    pub(crate) async fn again<T, F>(
        &self,
        deadline: Deadline,
        mut ask: impl FnMut(Duration) -> F,
    ) -> Result<T>
    where
        F: Future<Output = Result<T>>,
    {
        let (mut attempt, mut last) = (1, None);
        loop {
            let Some(time) = self.request_time(deadline) else {
                return Err(PiecesError::out_of_time(last));
            };
            match ask(time).await {
                Err(error) if error.is_passing() => last = Some(error),
                answer => return answer,
            }
            self.pause(attempt).await;
            attempt += 1;
        }
    }

    /// Writes to one partition, at the stamps it has, until it is done.
    pub(crate) async fn write(
        &self,
        write: PartitionWrite,
        deadline: Deadline,
    ) -> std::result::Result<(), Undone> {
        self.write_together(vec![write], (Atomicity::Each, WriteOptions::default()), deadline)
            .await
    }

    /// Writes to several partitions, at the stamps they have, until it is done.
    pub(crate) async fn write_together(
        &self,
        writes: Vec<PartitionWrite>,
        (atomicity, options): (Atomicity, WriteOptions),
        deadline: Deadline,
    ) -> std::result::Result<(), Undone> {
        self.write_again(deadline, |timeout| {
            let options = WriteOptions { timeout, ..options };
            let writes = writes.as_slice();
            async move {
                match writes {
                    [one] => self.store.write(one.clone(), options).await,
                    _ => self.store.write_many(writes.to_vec(), atomicity, options).await,
                }
            }
        })
        .await
    }

    /// Sends a write, which has its stamps, until it is done. Each time it is told how long it may take.
    pub(crate) async fn write_again<F>(
        &self,
        deadline: Deadline,
        send: impl Fn(Duration) -> F,
    ) -> std::result::Result<(), Undone>
    where
        F: Future<Output = std::result::Result<WriteOutcome, StoreError>>,
    {
        let (mut attempt, mut may_be_done, mut last) = (1, false, None);
        loop {
            let Some(timeout) = self.request_time(deadline) else {
                let error = PiecesError::out_of_time(last);
                return Err(Undone { error, may_be_done });
            };
            let error: PiecesError = match send(timeout).await {
                Ok(WriteOutcome::Done | WriteOutcome::Counted(_)) => return Ok(()),
                Ok(WriteOutcome::Unknown(error)) => {
                    may_be_done = true;
                    error.into()
                }
                Ok(WriteOutcome::Conflict(_)) => {
                    let error =
                        PiecesError::new(PiecesErrorKind::Conflict, "another row of this key is there");
                    return Err(Undone { error, may_be_done });
                }
                Ok(WriteOutcome::Refused(error)) | Err(error) => {
                    let error = PiecesError::from(error);
                    if !error.is_passing() {
                        return Err(Undone { error, may_be_done });
                    }
                    error
                }
            };
            last = Some(error);
            self.pause(attempt).await;
            attempt += 1;
        }
    }

    /// Waits before an attempt that follows so many: longer each time, and never for just as long as others do.
    pub(crate) async fn pause(&self, attempts: u32) {
        let longest = FIRST_PAUSE
            .saturating_mul(1 << attempts.saturating_sub(1).min(16))
            .min(MAX_PAUSE);
        tokio::time::sleep(longest.mul_f64(0.5 + self.drawn() / 2.0)).await;
    }

    /// A number from 0 to 1, drawn.
    pub(crate) fn drawn(&self) -> f64 {
        f64::from(u32::from_be_bytes(self.environment.random())) / f64::from(u32::MAX)
    }

    /// How directories are read by whoever does not cut: nobody misses what was decided before it was asked, once its
    /// decision was answered.
    pub(crate) fn directory_options(&self, is_serial: bool, timeout: Duration) -> ReadOptions {
        let serial = self.store.serial_consistency();
        let consistency = match serial {
            _ if is_serial => serial,
            Some(ConsistencyLevel::LocalSerial) => Some(ConsistencyLevel::LocalQuorum),
            Some(_) => Some(ConsistencyLevel::Quorum),
            None => None,
        };
        ReadOptions {
            consistency,
            timeout,
            ..ReadOptions::default()
        }
    }
}

impl Place {
    /// A partition of a table, by the cells of its key without the bucket.
    ///
    /// # Errors
    /// It is none of the table's.
    pub fn new(pieced: &Arc<PiecedTable>, partition: Cells) -> Result<Self> {
        let id = Arc::new((pieced.table.name().to_owned(), pieced.partition_key(&partition)?));
        Ok(Self {
            pieced: Arc::clone(pieced),
            partition,
            id,
        })
    }

    /// The partition of the store that is a bucket of it, which has no shards.
    pub(crate) fn bucket_partition(&self, bucket: Bucket) -> Cells {
        bucket_partition(&self.partition, bucket)
    }

    /// The partition of the store that is a shard of a bucket of it.
    pub(crate) fn shard_partition(&self, bucket: Bucket, shard: Shard) -> Cells {
        self.pieced.shard_partition(self.bucket_partition(bucket), shard)
    }

    /// The partition of its directory.
    pub(crate) fn directory_partition(&self) -> Cells {
        let (table, partition) = &*self.id;
        [table.as_bytes(), partition].into_iter().map(Some).collect()
    }

    /// The partition of a bucket's samples.
    pub(crate) fn samples_partition(&self, bucket: Bucket) -> Cells {
        let ((table, partition), bucket) = (&*self.id, bucket.0.to_be_bytes());
        [table.as_bytes(), partition, &bucket]
            .into_iter()
            .map(Some)
            .collect()
    }

    /// The encoded key of a row.
    ///
    /// # Errors
    /// It is none of the table's.
    pub(crate) fn key(&self, clustering: &Cells) -> Result<Key> {
        // Most keys are hardly longer than their cells.
        let mut encoded = Key::with_capacity(clustering.byte_len() + 2 * clustering.len());
        self.pieced.push_key(clustering, &mut encoded)?;
        Ok(encoded)
    }
}

impl Deadline {
    /// So long from now.
    pub(crate) fn after(environment: &Environment, time: Duration) -> Self {
        let nanos = u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
        Self {
            monotonic_nanos: environment.monotonic_nanos().saturating_add(nanos),
        }
    }

    /// How long it is until then.
    pub(crate) fn left(self, environment: &Environment) -> Duration {
        let now_nanos = environment.monotonic_nanos();
        Duration::from_nanos(self.monotonic_nanos.saturating_sub(now_nanos))
    }

    /// How long the next request may take; none: the time is over.
    pub(crate) fn request_time(self, environment: &Environment) -> Option<Duration> {
        let left = self.left(environment).min(MAX_REQUEST_TIME);
        (!left.is_zero()).then_some(left)
    }
}

impl Undone {
    /// To who asked for the write.
    pub(crate) fn told(self) -> PiecesError {
        if self.may_be_done {
            self.error.in_doubt()
        } else {
            self.error
        }
    }
}

impl From<StoreError> for Undone {
    fn from(error: StoreError) -> Self {
        Self {
            error: error.into(),
            may_be_done: false,
        }
    }
}
