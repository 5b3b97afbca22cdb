//! Budget of a page, and its actual cost.

use std::time::Duration;

use recto_api::pages::PageCost;
use recto_model::Environment;
use recto_store::{ColumnSet, PartitionWrite, ReadOptions, RowsRead};

/// Minimum number of rows, if there are more, that are read before the read yields to other tasks.
const ROWS_PER_TURN: u64 = 256;

/// Maximum number of stale rows of a view that a page removes. Later pages that meet the other stale rows remove them.
const MAX_STALE: usize = 64;
/// Maximum number of buckets that a page reports. Up to this number, the search for duplicates takes negligible time.
const MAX_BUCKETS_TOLD: usize = 1_024;

/// Budget of a page.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Budget {
    /// Maximum size of its rows, in bytes.
    pub(crate) bytes: u64,
    /// Maximum number of rows that are checked.
    pub(crate) scanned: u64,
    /// Maximum time.
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
    /// Returns this budget with a random row limit, for a client that must not learn the number of checked rows.
    pub(crate) fn blurred(self, environment: &Environment) -> Self {
        Self {
            scanned: blurred(self.scanned, environment),
            ..self
        }
    }
}

/// Returns a random limit between half of `limit` and `limit`. The caller draws a new limit for each use.
///
/// If rows are hidden from a client, a known limit reveals the exact number of hidden rows between two keys, because it
/// is either reached or not. A random limit reveals about as much as the duration of the response, and no key.
pub(crate) fn blurred(limit: u64, environment: &Environment) -> u64 {
    let half = limit / 2;
    (half + u64::from_le_bytes(environment.random()) % (limit - half + 1)).max(1)
}

/// Bucket from which rows were read: the number of the plan's source, and the number of the bucket in it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct AskedBucket {
    pub(crate) source: usize,
    pub(crate) number: u64,
}

/// Writes that remove stale rows of a view that a page met. Boxed, because most pages meet none, and the future of
/// every page would contain them.
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

    /// Returns the removals, if there are any.
    fn removals(self) -> Vec<PartitionWrite> {
        self.0.map(|removals| removals.0).unwrap_or_default()
    }
}

/// Used part of the budget, and cost, of one read of a page.
#[derive(Debug)]
pub(crate) struct Meter {
    budget: Budget,
    environment: Environment,
    started_nanos: u64,
    scanned: u64,
    kept_bytes: u64,
    cost: PageCost,
    /// Buckets in the order of the reads, each once.
    buckets: Vec<AskedBucket>,
    /// Number of base rows that were read for rows of a view. They do not count as checked rows.
    base_rows: u64,
    /// Number of rows that were read when the read last yielded to other tasks.
    rows_at_turn: u64,
    /// Columns that the read does not use.
    unseen: ColumnSet,
    stale: Stale,
}

impl Meter {
    pub(crate) fn new(budget: Budget, environment: Environment) -> Self {
        let started_nanos = environment.monotonic_nanos();
        Self::of(budget, environment, started_nanos)
    }

    /// Returns the meter of a concurrent read, which began when this read began.
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

    /// Returns the meter of a read that follows this read within its time, with a budget of its own.
    pub(crate) fn following(&self, budget: Budget, unseen: ColumnSet) -> Self {
        Self {
            unseen,
            ..Self::of(budget, self.environment.clone(), self.started_nanos)
        }
    }

    /// Allows as many bytes of rows again, because the caller has dropped the rows that were kept.
    pub(crate) fn start_chunk(&mut self) {
        self.kept_bytes = 0;
    }

    /// Yields to other tasks if this read has run long enough. An embedded store may read without ever waiting, so that
    /// a page of thousands of rows would block all other tasks of the thread.
    pub(crate) async fn take_turns(&mut self) {
        if self.cost.rows_read >= self.rows_at_turn + ROWS_PER_TURN {
            self.rows_at_turn = self.cost.rows_read;
            tokio::task::yield_now().await;
        }
    }

    /// Returns the options of the next read, or `None` if the time is over.
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

    /// Returns the number of rows that may still be checked.
    pub(crate) fn scan_left(&self) -> u64 {
        self.budget.scanned.saturating_sub(self.scanned)
    }

    /// Returns the number of rows that may still be read, whether they are checked or not.
    pub(crate) fn read_left(&self) -> u64 {
        self.budget.scanned.saturating_sub(self.cost.rows_read)
    }

    /// Returns the budget.
    pub(crate) fn budget(&self) -> Budget {
        self.budget
    }

    /// Counts a read of a source, without its round trips.
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

    /// Counts a read of one of several intersected views.
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

    /// Counts base rows that were read concurrently.
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

    /// Notes the write that removes a stale row of a view.
    pub(crate) fn note_stale(&mut self, removal: PartitionWrite) {
        self.stale.note(removal);
    }

    /// Returns the buckets from which rows were read, and the writes that remove the stale rows.
    pub(crate) fn into_findings(self) -> (Vec<AskedBucket>, Vec<PartitionWrite>) {
        (self.buckets, self.stale.removals())
    }

    /// Counts sequential round trips.
    pub(crate) fn count_round_trips(&mut self, round_trips: u32) {
        self.cost.round_trips += round_trips;
    }

    /// Counts a checked row.
    pub(crate) fn count_scanned(&mut self) {
        self.scanned += 1;
    }

    /// Counts a row that was kept. Returns whether the byte budget is used up.
    pub(crate) fn count_kept(&mut self, bytes: usize) -> bool {
        self.kept_bytes += bytes as u64;
        self.kept_bytes >= self.budget.bytes
    }

    /// Adds the cost of a read that followed.
    pub(crate) fn add_following(&mut self, following: Self) {
        let round_trips = self.cost.round_trips + following.cost.round_trips;
        self.add(following);
        self.cost.round_trips = round_trips;
    }

    /// Adds the cost of a read that ran concurrently.
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

    /// Returns the cost so far.
    pub(crate) fn cost(&self) -> PageCost {
        PageCost {
            rows_read: self.cost.rows_read + self.base_rows,
            buckets: u32::try_from(self.buckets.len()).unwrap_or(u32::MAX),
            time_micros: self.elapsed().as_micros() as u64,
            ..self.cost
        }
    }
}
