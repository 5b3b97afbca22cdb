//! Budget of a page: limits of its bytes, rows and time. Also counts the actual cost.

use std::time::Duration;

use recto_api::pages::PageCost;
use recto_model::Environment;
use recto_store::{ColumnSet, PartitionWrite, ReadOptions, RowsRead};

/// Number of rows after which a read yields to other tasks.
const ROWS_PER_TURN: u64 = 256;

/// Maximum number of stale rows of a view (rows whose record has changed) that a page removes.
/// Further stale rows are removed by later pages that read them.
const MAX_STALE: usize = 64;
/// Maximum number of buckets that a page reports. The search for duplicates among so few buckets
/// takes negligible time.
const MAX_BUCKETS_TOLD: usize = 1_024;

/// Budget of a page. A page that uses it up ends early.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Budget {
    /// Maximum size of the page's rows, in bytes.
    pub(crate) bytes: u64,
    /// Maximum number of rows that are checked one by one.
    pub(crate) scanned: u64,
    /// Maximum time for reading the page.
    pub(crate) time: Duration,
}

impl Default for Budget {
    fn default() -> Self {
        Self {
            bytes: 4 << 20,
            scanned: 10_000,
            time: Duration::from_secs(5),
        }
    }
}

impl Budget {
    /// Returns this budget with a random row limit, for a client that must not learn the number of
    /// hidden rows.
    pub(crate) fn blurred(self, environment: &Environment) -> Self {
        Self {
            scanned: blurred(self.scanned, environment),
            ..self
        }
    }
}

/// Returns a random limit between half of `limit` and `limit`. The caller must request a new limit
/// for each use.
///
/// If rows are hidden from a client, a known limit would reveal the exact number of hidden rows
/// between two keys: the page ends early if and only if the limit is reached. A random limit
/// reveals about as much as the duration of the response, and no key.
pub(crate) fn blurred(limit: u64, environment: &Environment) -> u64 {
    let half = limit / 2;
    (half + u64::from_le_bytes(environment.random()) % (limit - half + 1)).max(1)
}

/// Bucket (partition of a table) from which rows were read: the index of the source in the plan,
/// and the id of the bucket.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct AskedBucket {
    pub(crate) source: usize,
    pub(crate) number: u64,
}

/// Writes that remove the stale rows of a view that a page found. Boxed, because most pages find
/// none, and otherwise the future of every page would contain the writes.
#[derive(Debug, Default)]
struct Stale(Option<Box<Removals>>);

#[derive(Debug, Default)]
struct Removals(Vec<PartitionWrite>);

impl Stale {
    fn note(&mut self, removal: PartitionWrite) {
        let Removals(removals) = &mut **self.0.get_or_insert_default();
        if removals.len() < MAX_STALE {
            removals.push(removal);
        }
    }

    /// Returns the writes that remove the stale rows of a view.
    fn removals(self) -> Vec<PartitionWrite> {
        self.0.map(|removals| removals.0).unwrap_or_default()
    }
}

/// Measures one read of a page: the used part of the budget, and the cost.
#[derive(Debug)]
pub(crate) struct Meter {
    budget: Budget,
    environment: Environment,
    started_nanos: u64,
    scanned: u64,
    kept_bytes: u64,
    cost: PageCost,
    /// Buckets from which rows were read, in the order of the reads, each once.
    buckets: Vec<AskedBucket>,
    /// Number of base rows that were read for rows of a view. They do not count against the budget.
    base_rows: u64,
    /// Number of rows that were read when the read last yielded to other tasks.
    rows_at_turn: u64,
    /// Columns that the caller does not need, so that the store may leave them out.
    unseen: ColumnSet,
    stale: Stale,
}

impl Meter {
    pub(crate) fn new(budget: Budget, environment: Environment) -> Self {
        let started_nanos = environment.monotonic_nanos();
        Self::of(budget, environment, started_nanos)
    }

    /// Returns a meter for a read that runs concurrently with this read. It has its own budget, and
    /// its time starts with this read.
    pub(crate) fn beside(&self) -> Self {
        Self::of(self.budget, self.environment.clone(), self.started_nanos)
    }

    fn of(budget: Budget, environment: Environment, started_nanos: u64) -> Self {
        Self {
            budget,
            environment,
            started_nanos,
            scanned: 0,
            kept_bytes: 0,
            cost: PageCost::default(),
            buckets: Vec::new(),
            base_rows: 0,
            rows_at_turn: 0,
            unseen: ColumnSet::new(),
            stale: Stale::default(),
        }
    }

    /// Returns a meter for a read that follows this read. It has the budget `budget`, and its time
    /// starts with this read.
    pub(crate) fn following(&self, budget: Budget, unseen: ColumnSet) -> Self {
        Self {
            unseen,
            ..Self::of(budget, self.environment.clone(), self.started_nanos)
        }
    }

    /// Resets the number of kept bytes, because the caller has dropped the rows that it kept.
    pub(crate) fn start_chunk(&mut self) {
        self.kept_bytes = 0;
    }

    /// Yields to other tasks after every [`ROWS_PER_TURN`] rows. An embedded store may read without
    /// ever waiting, so a page of thousands of rows would otherwise block all other tasks of the
    /// thread.
    pub(crate) async fn take_turns(&mut self) {
        if self.cost.rows_read >= self.rows_at_turn + ROWS_PER_TURN {
            self.rows_at_turn = self.cost.rows_read;
            tokio::task::yield_now().await;
        }
    }

    /// Returns the options of the next read, or `None` if the time of the page is over.
    pub(crate) fn read_options(&self) -> Option<ReadOptions> {
        let timeout = self.budget.time.checked_sub(self.elapsed())?;
        if timeout.is_zero() {
            return None;
        }
        let max_bytes = self.budget.bytes.saturating_sub(self.kept_bytes).max(1);
        Some(ReadOptions {
            timeout,
            max_bytes,
            unseen: self.unseen,
            ..ReadOptions::default()
        })
    }

    fn elapsed(&self) -> Duration {
        Duration::from_nanos(
            self.environment
                .monotonic_nanos()
                .saturating_sub(self.started_nanos),
        )
    }

    /// Returns the number of rows that may still be checked within the budget.
    pub(crate) fn scan_left(&self) -> u64 {
        self.budget.scanned.saturating_sub(self.scanned)
    }

    /// Returns the number of rows that may still be read, whether they are checked or not.
    pub(crate) fn read_left(&self) -> u64 {
        self.budget.scanned.saturating_sub(self.cost.rows_read)
    }

    /// Returns the budget of the read: its limits of bytes, rows and time.
    pub(crate) fn budget(&self) -> Budget {
        self.budget
    }

    /// Counts the cost of a read of a source, without its round trips.
    pub(crate) fn count_read(&mut self, source: usize, read: &RowsRead) {
        self.cost.rows_read += read.rows.len() as u64;
        self.cost.bytes_read += read.bytes;
        self.cost.statements += read.statements;
        self.cost.tombstones += read.tombstones;
        self.cost.directory_reads += read.buckets.directory_reads;
        for number in &read.buckets.asked {
            self.note_bucket(AskedBucket {
                source,
                number: *number,
            });
        }
    }

    /// Counts one seek: one read of a view in an intersection of views.
    pub(crate) fn count_seek(&mut self) {
        self.cost.seeks += 1;
    }

    fn note_bucket(&mut self, bucket: AskedBucket) {
        // Search backwards, because a read usually continues in the bucket that was added last.
        let is_told =
            self.buckets.len() >= MAX_BUCKETS_TOLD || self.buckets.iter().rev().any(|asked| *asked == bucket);
        if !is_told {
            self.buckets.push(bucket);
        }
    }

    /// Adds the cost of rows of the base table that were read concurrently.
    pub(crate) fn count_base_reads(&mut self, reads: &[RowsRead]) {
        for read in reads {
            self.base_rows += read.rows.len() as u64;
            self.cost.bytes_read += read.bytes;
            self.cost.statements += read.statements;
            self.cost.tombstones += read.tombstones;
            self.cost.directory_reads += read.buckets.directory_reads;
        }
        let most = reads.iter().map(|read| read.round_trips).max();
        self.count_round_trips(most.unwrap_or(0));
    }

    /// Stores the write that removes a stale row of a view: a row whose record has changed.
    pub(crate) fn note_stale(&mut self, removal: PartitionWrite) {
        self.stale.note(removal);
    }

    /// Returns the buckets from which rows were read, and the writes that remove the stale rows.
    pub(crate) fn into_findings(self) -> (Vec<AskedBucket>, Vec<PartitionWrite>) {
        (self.buckets, self.stale.removals())
    }

    /// Adds sequential network round trips to the cost of the read.
    pub(crate) fn count_round_trips(&mut self, round_trips: u32) {
        self.cost.round_trips += round_trips;
    }

    /// Counts a row that was checked against conditions.
    pub(crate) fn count_scanned(&mut self) {
        self.scanned += 1;
    }

    /// Counts a row that the page keeps. Returns whether the byte budget is used up.
    pub(crate) fn count_kept(&mut self, bytes: usize) -> bool {
        self.kept_bytes += bytes as u64;
        self.kept_bytes >= self.budget.bytes
    }

    /// Adds the cost of a read that followed this read.
    pub(crate) fn add_following(&mut self, following: Self) {
        let round_trips = self.cost.round_trips + following.cost.round_trips;
        self.add(following);
        self.cost.round_trips = round_trips;
    }

    /// Adds the cost of a read that ran concurrently with this read.
    pub(crate) fn add(&mut self, beside: Self) {
        for removal in beside.stale.removals() {
            self.stale.note(removal);
        }
        self.cost.rows_read += beside.cost.rows_read;
        self.base_rows += beside.base_rows;
        self.cost.bytes_read += beside.cost.bytes_read;
        self.cost.statements += beside.cost.statements;
        self.cost.tombstones += beside.cost.tombstones;
        self.cost.directory_reads += beside.cost.directory_reads;
        self.cost.seeks += beside.cost.seeks;
        for bucket in beside.buckets {
            self.note_bucket(bucket);
        }
        self.cost.round_trips = self.cost.round_trips.max(beside.cost.round_trips);
    }

    /// Returns the cost of the read so far.
    pub(crate) fn cost(&self) -> PageCost {
        PageCost {
            rows_read: self.cost.rows_read + self.base_rows,
            buckets: u32::try_from(self.buckets.len()).unwrap_or(u32::MAX),
            time_micros: self.elapsed().as_micros() as u64,
            ..self.cost
        }
    }
}
