//! What a page may cost, and what it did cost.

use std::time::Duration;

use recto_api::pages::PageCost;
use recto_model::Environment;
use recto_store::{PartitionWrite, ReadOptions, RowsRead};

/// How many rows are read in one turn at least, if there are more, before other tasks have theirs.
const ROWS_PER_TURN: u64 = 256;

/// The most stale rows of a view that a page sees to. Others are seen to by those who meet them next.
const MAX_STALE: usize = 64;
/// The most buckets that a page tells of: so many are told apart in no time worth speaking of.
const MAX_BUCKETS_TOLD: usize = 1_024;

/// What a page may cost.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Budget {
    /// Bytes of its rows.
    pub(crate) bytes: u64,
    /// Rows looked at.
    pub(crate) scanned: u64,
    /// Time.
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
    /// A budget that nobody can count by, for who may not know how many rows are looked at.
    pub(crate) fn blurred(self, environment: &Environment) -> Self {
        Self {
            scanned: blurred(self.scanned, environment),
            ..self
        }
    }
}

/// A limit drawn between half of `limit` and the whole, anew for each use.
///
/// Where rows are hidden from who asks, a limit that is known tells exactly how many of them lie between two
/// keys: it is reached or not. Of one that is drawn it tells about what the time tells that the answer
/// takes, and no key.
pub(crate) fn blurred(limit: u64, environment: &Environment) -> u64 {
    let half = limit / 2;
    (half + u64::from_le_bytes(environment.random()) % (limit - half + 1)).max(1)
}

/// A bucket that was asked for rows: of which of the plan's sources, and its number there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct AskedBucket {
    pub(crate) source: usize,
    pub(crate) number: u64,
}

/// What removes rows of a view that a page met and that are stale. Boxed: most pages meet none, and every page's future
/// would hold it.
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

    /// The removals, if there are any.
    fn removals(self) -> Vec<PartitionWrite> {
        self.0.map(|removals| removals.0).unwrap_or_default()
    }
}

/// What one read of a page has used of its budget, and what it has cost.
#[derive(Debug)]
pub(crate) struct Meter {
    budget: Budget,
    environment: Environment,
    started_nanos: u64,
    scanned: u64,
    kept_bytes: u64,
    cost: PageCost,
    /// In this order, each once.
    buckets: Vec<AskedBucket>,
    /// Base rows read for rows of a view, which are not looked at for themselves.
    base_rows: u64,
    /// How many rows were read when other tasks last had their turn.
    rows_at_turn: u64,
    stale: Stale,
}

impl Meter {
    pub(crate) fn new(budget: Budget, environment: Environment) -> Self {
        let started_nanos = environment.monotonic_nanos();
        Self::of(budget, environment, started_nanos)
    }

    /// Of a read beside this one, which began when this one did.
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
            stale: Stale::default(),
        }
    }

    /// Lets other tasks have their turn, if this read has had a long one: a store may read without ever
    /// waiting, and a page of thousands of rows would hold the thread that all others wait for.
    pub(crate) async fn take_turns(&mut self) {
        if self.cost.rows_read >= self.rows_at_turn + ROWS_PER_TURN {
            self.rows_at_turn = self.cost.rows_read;
            tokio::task::yield_now().await;
        }
    }

    /// How to read now; `None` if the time is over.
    pub(crate) fn read_options(&self) -> Option<ReadOptions> {
        let timeout = self.budget.time.checked_sub(self.elapsed())?;
        if timeout.is_zero() {
            return None;
        }
        let max_bytes = self.budget.bytes.saturating_sub(self.kept_bytes).max(1);
        Some(ReadOptions {
            timeout,
            max_bytes,
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

    /// How many more rows may be looked at.
    pub(crate) fn scan_left(&self) -> u64 {
        self.budget.scanned.saturating_sub(self.scanned)
    }

    /// How many more rows may be read, looked at or not.
    pub(crate) fn read_left(&self) -> u64 {
        self.budget.scanned.saturating_sub(self.cost.rows_read)
    }

    /// The budget it is of.
    pub(crate) fn budget(&self) -> Budget {
        self.budget
    }

    /// Counts a read of a source that waited for nothing else.
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

    /// Counts a read of one of the views that are intersected.
    pub(crate) fn count_seek(&mut self) {
        self.cost.seeks += 1;
    }

    fn note_bucket(&mut self, bucket: AskedBucket) {
        // The last ones first: who reads on does so where it was.
        let is_told =
            self.buckets.len() >= MAX_BUCKETS_TOLD || self.buckets.iter().rev().any(|asked| *asked == bucket);
        if !is_told {
            self.buckets.push(bucket);
        }
    }

    /// Counts base rows that were read side by side.
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

    /// Notes what removes a row of a view that is stale.
    pub(crate) fn note_stale(&mut self, removal: PartitionWrite) {
        self.stale.note(removal);
    }

    /// The buckets that were asked for rows, and what removes the stale rows that were met.
    pub(crate) fn into_findings(self) -> (Vec<AskedBucket>, Vec<PartitionWrite>) {
        (self.buckets, self.stale.removals())
    }

    /// Counts sequential round trips.
    pub(crate) fn count_round_trips(&mut self, round_trips: u32) {
        self.cost.round_trips += round_trips;
    }

    /// Counts a row looked at.
    pub(crate) fn count_scanned(&mut self) {
        self.scanned += 1;
    }

    /// Counts a row kept; true if the bytes are used up.
    pub(crate) fn count_kept(&mut self, bytes: usize) -> bool {
        self.kept_bytes += bytes as u64;
        self.kept_bytes >= self.budget.bytes
    }

    /// Adds the cost of a read that ran beside this one.
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

    /// What it has cost by now.
    pub(crate) fn cost(&self) -> PageCost {
        PageCost {
            rows_read: self.cost.rows_read + self.base_rows,
            buckets: u32::try_from(self.buckets.len()).unwrap_or(u32::MAX),
            time_micros: self.elapsed().as_micros() as u64,
            ..self.cost
        }
    }
}
