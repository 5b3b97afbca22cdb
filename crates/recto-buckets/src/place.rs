//! Handle of a store whose partitions are kept in buckets, and one partition as a query names it.

use std::ops::Deref;
use std::sync::Arc;
use std::time::Duration;

use recto_model::{Cells, Environment, Slice, Table};
use recto_protocol::buckets::{Bucket, Clock, Key, Protocol, Shard};
use recto_store::{
    Atomicity, ConsistencyLevel, PartitionWrite, ReadOptions, RowsRead, Stamp, Store, StoreError,
    TableOutcome, WriteOptions, WriteOutcome,
};
use tokio::sync::Semaphore;

use crate::copies::Copies;
use crate::counters::{BucketMetrics, Counters};
use crate::error::{PiecesError, PiecesErrorKind, Result};
use crate::joins::JoinPauses;
use crate::limits::{MAX_COPIES_AT_ONCE, MAX_DIRECTORIES_AT_ONCE, MAX_PAUSE, MAX_REQUEST_TIME};
use crate::loading::Loads;
use crate::notices::Notices;
use crate::registry::Registered;
use crate::shards::Roots;
use crate::tables::{PiecedTable, Tables, bucket_partition};

/// Approximate pause before the first retry of a request. The pause doubles before each further retry.
const FIRST_PAUSE: Duration = Duration::from_millis(4);

/// Source of write timestamps: each is greater than all earlier timestamps of this process.
pub type Stamps = Arc<dyn Fn() -> Stamp + Send + Sync>;

/// A store whose partitions are kept in buckets, with its cached range maps and its queue of
/// partitions to split. Clones share the cache and the queue.
#[derive(Clone)]
pub struct PieceStore(Arc<Kept>);

/// State that the clones of a [`PieceStore`] share. Each row write holds a clone, so a clone costs
/// only one reference count.
#[derive(Clone)]
pub struct Kept {
    pub(crate) store: Arc<dyn Store>,
    pub(crate) environment: Environment,
    pub(crate) stamps: Stamps,
    pub(crate) tables: Tables,
    pub(crate) protocol: Protocol,
    pub(crate) copies: Arc<Copies>,
    /// Time buckets that, as this process knows, have an entry in the registry.
    pub(crate) registered: Arc<Registered>,
    pub(crate) notices: Arc<Notices>,
    pub(crate) pauses: Arc<JoinPauses>,
    pub(crate) loads: Arc<Loads>,
    pub(crate) roots: Arc<Roots>,
    /// Semaphore that limits the concurrent reads of range maps.
    pub(crate) reading: Arc<Semaphore>,
    pub(crate) counters: Arc<Counters>,
    /// Semaphore that limits the concurrent requests that copy rows.
    pub(crate) copying: Arc<Semaphore>,
}

/// A partition as a query names it, of a table whose partitions are kept in buckets.
#[derive(Clone)]
pub struct Partition {
    pub(crate) pieces: PieceStore,
    pub(crate) place: Arc<Place>,
}

/// Identity of a partition as a query names it: its table and its key.
#[derive(Debug)]
pub struct Place {
    pub(crate) pieced: Arc<PiecedTable>,
    /// Partition key as a query names it, without the column of the bucket.
    pub(crate) partition: Cells,
    pub(crate) id: PlaceId,
}

/// Identity of a partition: the name of its table, and its encoded key.
pub(crate) type PlaceId = Arc<(String, Vec<u8>)>;

/// Time on the monotonic clock at which a request gives up.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Deadline {
    monotonic_nanos: u64,
}

/// Write that the store did not confirm, with its error.
#[derive(Debug)]
pub(crate) struct Undone {
    pub(crate) error: PiecesError,
    /// True if the store may have done the write, or may do it later.
    pub(crate) may_be_done: bool,
}

impl Deref for PieceStore {
    type Target = Kept;

    fn deref(&self) -> &Kept {
        &self.0
    }
}

impl PieceStore {
    /// Opens the engine on a store and creates the tables of range maps, samples, sums and time
    /// buckets if they are missing. `stamps` supplies the write timestamps of rows when they are
    /// sent.
    ///
    /// # Errors
    /// - A table cannot be created, or a different table with its name exists.
    /// - The store has transactions. This engine is for stores without them.
    /// - The store's consistency levels do not guarantee that every reader sees decided conditional
    ///   writes.
    pub async fn open(store: Arc<dyn Store>, environment: Environment, stamps: Stamps) -> Result<Self> {
        if store.limits().transactions {
            let message = "key ranges without transactions need a store without transactions";
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
            pauses: Arc::default(),
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

    /// Returns the counters of this process since the store was opened.
    pub fn metrics(&self) -> BucketMetrics {
        self.counters.metrics()
    }

    /// Returns this store with another protocol. All processes must use the same protocol.
    #[cfg(feature = "testing")]
    #[must_use]
    pub fn with_protocol(self, protocol: Protocol) -> Self {
        let kept = Kept::clone(&self);
        Self(Arc::new(Kept { protocol, ..kept }))
    }

    /// Returns the partition of a table that a query names. `partition` has the cells of its key,
    /// without the bucket.
    ///
    /// # Errors
    /// The key is not a partition key of the table, or it is too long for a partition that is kept
    /// in buckets.
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

    /// Returns the current readings of the clock since boot and of the wall clock.
    pub(crate) fn clock(&self) -> Clock {
        Clock {
            boot_ms: self.environment.continuous_nanos() / 1_000_000,
            wall_ms: self.environment.now_micros().div_euclid(1_000),
        }
    }

    /// Returns the deadline that lies `time` from now.
    pub(crate) fn deadline(&self, time: Duration) -> Deadline {
        Deadline::after(&self.environment, time)
    }

    /// Returns the maximum duration of the next request, or `None` if the deadline has passed.
    pub(crate) fn request_time(&self, deadline: Deadline) -> Option<Duration> {
        deadline.request_time(&self.environment)
    }

    /// Repeats a request until it succeeds, or fails with an error that a retry cannot fix. `ask` sends
    /// the request. Its argument is the maximum duration of the attempt.
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

    /// Reads a slice, and retries the read until the store answers.
    pub(crate) async fn read_slice(
        &self,
        slice: &Slice,
        options: ReadOptions,
        deadline: Deadline,
    ) -> Result<RowsRead> {
        self.again(deadline, |timeout| async move {
            let options = ReadOptions { timeout, ..options };
            Ok(self.store.snapshot()?.slice(slice, &options).await?)
        })
        .await
    }

    /// Writes to one partition at the given timestamps, and retries until the write is done.
    pub(crate) async fn write(
        &self,
        write: PartitionWrite,
        deadline: Deadline,
    ) -> std::result::Result<(), Undone> {
        self.write_together(vec![write], (Atomicity::Each, WriteOptions::default()), deadline)
            .await
    }

    /// Writes to several partitions at the given timestamps, and retries until the writes are done.
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

    /// Sends a write whose timestamps are already set, and retries until it is done. `send` sends the
    /// write. Its argument is the maximum duration of the attempt.
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
                        PiecesError::new(PiecesErrorKind::Conflict, "a row with this key exists already");
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

    /// Pauses after `attempts` failed attempts. The pause grows with each attempt and is random, so
    /// that processes do not retry in lockstep.
    pub(crate) async fn pause(&self, attempts: u32) {
        let longest = FIRST_PAUSE
            .saturating_mul(1 << attempts.saturating_sub(1).min(16))
            .min(MAX_PAUSE);
        tokio::time::sleep(longest.mul_f64(0.5 + self.drawn() / 2.0)).await;
    }

    /// Returns a random number from 0 to 1, both included.
    pub(crate) fn drawn(&self) -> f64 {
        f64::from(u32::from_be_bytes(self.environment.random())) / f64::from(u32::MAX)
    }

    /// Returns the options for reads of a range map. An ordinary read sees each change of a range map that
    /// was acknowledged before the read began. A process that splits a bucket needs a serial read
    /// (`is_serial`), which also sees unacknowledged changes.
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
    /// Returns the identity of a partition of a table. `partition` has the cells of its key,
    /// without the bucket.
    ///
    /// # Errors
    /// The key is not a partition key of the table.
    pub fn new(pieced: &Arc<PiecedTable>, partition: Cells) -> Result<Self> {
        let id = Arc::new((pieced.table.name().to_owned(), pieced.partition_key(&partition)?));
        Ok(Self {
            pieced: Arc::clone(pieced),
            partition,
            id,
        })
    }

    /// Returns the partition key under which the store has a bucket that has no shards.
    pub(crate) fn bucket_partition(&self, bucket: Bucket) -> Cells {
        bucket_partition(&self.partition, bucket)
    }

    /// Returns the partition key under which the store has a shard of a bucket.
    pub(crate) fn shard_partition(&self, bucket: Bucket, shard: Shard) -> Cells {
        self.pieced.shard_partition(self.bucket_partition(bucket), shard)
    }

    /// Returns the partition key of the range map of this partition in the table of range maps.
    pub(crate) fn directory_partition(&self) -> Cells {
        let (table, partition) = &*self.id;
        [table.as_bytes(), partition].into_iter().map(Some).collect()
    }

    /// Returns the partition key of a bucket's samples (stored keys and sizes of some rows) in the
    /// table of samples.
    pub(crate) fn samples_partition(&self, bucket: Bucket) -> Cells {
        let ((table, partition), bucket) = (&*self.id, bucket.0.to_be_bytes());
        [table.as_bytes(), partition, &bucket]
            .into_iter()
            .map(Some)
            .collect()
    }

    /// Returns the encoded key of a row.
    ///
    /// # Errors
    /// The cells are not a clustering key of the table.
    pub(crate) fn key(&self, clustering: &Cells) -> Result<Key> {
        // Most encoded keys are barely longer than their cells, so this capacity rarely grows.
        let mut encoded = Key::with_capacity(clustering.byte_len() + 2 * clustering.len());
        self.pieced.push_key(clustering, &mut encoded)?;
        Ok(encoded)
    }
}

impl Deadline {
    /// Returns the deadline that lies `time` from now.
    pub(crate) fn after(environment: &Environment, time: Duration) -> Self {
        let nanos = u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
        Self {
            monotonic_nanos: environment.monotonic_nanos().saturating_add(nanos),
        }
    }

    pub(crate) fn left(self, environment: &Environment) -> Duration {
        let now_nanos = environment.monotonic_nanos();
        Duration::from_nanos(self.monotonic_nanos.saturating_sub(now_nanos))
    }

    /// Returns the maximum duration of the next request, or `None` if the deadline has passed.
    pub(crate) fn request_time(self, environment: &Environment) -> Option<Duration> {
        let left = self.left(environment).min(MAX_REQUEST_TIME);
        (!left.is_zero()).then_some(left)
    }
}

impl Undone {
    /// Returns the error to report to the caller of a failed write. The error says whether the
    /// write may be done.
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
