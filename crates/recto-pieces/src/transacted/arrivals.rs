//! Number and arrival of the rows of a bucket. They determine the time of a check, and the place of a split.

use std::collections::VecDeque;

use recto_protocol::buckets::Key;
use recto_store::PartitionCount;

use super::room::UNCOUNTED;
use crate::limits::{MAX_ARRIVAL_KEY_BYTES, MAX_ARRIVALS};
use crate::tables::BucketSize;

/// Interval of arrivals: one in this number is remembered for longer.
const SPARSE: u64 = 64;
/// Minimum number of arrivals from which a trend is derived.
const FEWEST: usize = 4;
/// Tolerance of a trend: one in this number of the last arrivals may be outside the range of the others.
const STRAYS: usize = 8;
/// Growth after which a bucket that was left unchanged is checked again: one part in this number of the size at which
/// it is split.
const PATIENCE: u64 = 16;

/// Rows that one write puts into one bucket.
#[derive(Debug, Clone, Copy)]
pub struct Arrived<'k> {
    /// Least of their encoded keys.
    pub least: &'k [u8],
    /// Greatest of their encoded keys.
    pub most: &'k [u8],
    /// Number of rows, including rows that existed before.
    pub rows: u64,
    /// Number of bytes of their clustering and regular cells.
    pub bytes: u64,
}

/// End of a bucket.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum End {
    First,
    Last,
}

/// Place where rows arrive.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Trend {
    /// End at which rows arrive, if they arrive at an end.
    pub(super) end: End,
    /// Key: nearly all of the last arrivals are at this key or beyond it. `None`: unknown.
    pub(super) edge: Option<Key>,
    /// True if keys follow the order of arrival.
    pub(super) is_clear: bool,
}

/// Data about a bucket that is known without a request to the store.
#[derive(Debug, Clone, Default)]
pub(super) struct Fill {
    /// Upper limit of the content: the last count plus the arrivals since.
    count: PartitionCount,
    is_counted: bool,
    /// Arrivals since the start of the last count.
    since: PartitionCount,
    /// Size at the time when the bucket was left unchanged.
    left: u64,
    /// Amount of rows that are being written to the bucket.
    pub(super) coming: u64,
    arrivals: Arrivals,
}

#[derive(Debug, Clone, Default)]
struct Arrivals {
    count: u64,
    last: VecDeque<(Key, Key)>,
    sparse: VecDeque<(Key, Key)>,
}

impl Fill {
    /// Records a write.
    pub(super) fn add(&mut self, arrived: &Arrived<'_>) {
        let came = arrived.count();
        self.count = sum(self.count, came);
        self.since = sum(self.since, came);
        self.arrivals.add(arrived);
    }

    /// Returns whether the bucket is due for a check.
    pub(super) fn is_due(&self, size: BucketSize) -> bool {
        let (now, due) = (size.of(self.count), size.due());
        let has_grown = now > self.left.saturating_add(due / PATIENCE);
        let is_over = now > size.most() && self.left <= size.most();
        if !self.is_counted {
            // Most partitions always stay small.
            return now > size.most() / UNCOUNTED;
        }
        now > due && (has_grown || is_over)
    }

    /// Returns the size of the bucket, including rows that are being written.
    pub(super) fn now(&self, size: BucketSize) -> u64 {
        size.of(self.count).saturating_add(self.coming)
    }

    /// Returns whether the size is known, apart from expired rows.
    pub(super) fn is_counted(&self) -> bool {
        self.is_counted
    }

    /// Records the start of a count.
    pub(super) fn begin_count(&mut self) {
        self.since = PartitionCount::default();
    }

    /// Records the result of a count: the content at the start of the count, or a little later.
    pub(super) fn counted(&mut self, count: PartitionCount) {
        self.count = sum(count, self.since);
        self.is_counted = true;
        self.left = 0;
    }

    /// Records that the bucket is left unchanged.
    pub(super) fn left(&mut self, size: BucketSize) {
        self.left = size.of(self.count);
    }

    /// Returns the trend of the arrivals, or `None` if there are too few.
    pub(super) fn trend(&self) -> Option<Trend> {
        self.arrivals.trend()
    }

    /// Returns the initial data of a new bucket that receives the newest rows of this one.
    pub(super) fn heir(&self) -> Self {
        Self {
            arrivals: self.arrivals.clone(),
            ..Self::default()
        }
    }
}

fn sum(one: PartitionCount, other: PartitionCount) -> PartitionCount {
    PartitionCount {
        rows: one.rows.saturating_add(other.rows),
        bytes: one.bytes.saturating_add(other.bytes),
    }
}

impl Arrivals {
    fn add(&mut self, arrived: &Arrived<'_>) {
        let kept = |key: &[u8]| key[..key.len().min(MAX_ARRIVAL_KEY_BYTES)].to_vec();
        let keys = (kept(arrived.least), kept(arrived.most));
        if self.count.is_multiple_of(SPARSE) {
            push(&mut self.sparse, keys.clone());
        }
        push(&mut self.last, keys);
        self.count += 1;
    }

    fn trend(&self) -> Option<Trend> {
        if self.last.len() < FEWEST {
            return None;
        }
        let clear = clear_end(&self.last).or_else(|| clear_end(&self.sparse));
        let end = clear.unwrap_or_else(|| likely_end(&self.last));
        let is_strict = |earlier: &(Key, Key), later: &(Key, Key)| match end {
            End::Last => earlier.1 < later.0,
            End::First => later.1 < earlier.0,
        };
        let mut pairs = self.last.iter().zip(self.last.iter().skip(1));
        let strays = if pairs.all(|(earlier, later)| is_strict(earlier, later)) {
            self.last.len() - 1
        } else {
            self.last.len() / STRAYS
        };
        Some(Trend {
            end,
            edge: nth_from(end, &self.last, strays),
            is_clear: clear.is_some(),
        })
    }
}

fn push(keys: &mut VecDeque<(Key, Key)>, key: (Key, Key)) {
    if keys.len() >= MAX_ARRIVALS {
        keys.pop_front();
    }
    keys.push_back(key);
}

/// Returns the key beyond which all but `strays` arrivals are, towards `end`.
fn nth_from(end: End, arrivals: &VecDeque<(Key, Key)>, strays: usize) -> Option<Key> {
    let mut keys: Vec<&Key> = match end {
        End::Last => arrivals.iter().map(|(least, _)| least).collect(),
        End::First => arrivals.iter().map(|(_, most)| most).collect(),
    };
    keys.sort_unstable();
    if end == End::First {
        keys.reverse();
    }
    keys.get(strays).map(|key| (*key).clone())
}

/// Returns the end towards which keys move, if three quarters of all pairs agree.
fn clear_end(arrivals: &VecDeque<(Key, Key)>) -> Option<End> {
    if arrivals.len() < FEWEST {
        return None;
    }
    let (mut up, mut down, mut pairs) = (0, 0, 0);
    for (index, later) in arrivals.iter().enumerate() {
        for earlier in arrivals.iter().take(index) {
            pairs += 1;
            up += usize::from(earlier.0 < later.0);
            down += usize::from(later.1 < earlier.1);
        }
    }
    if up * 4 >= pairs * 3 {
        return Some(End::Last);
    }
    (down * 4 >= pairs * 3).then_some(End::First)
}

/// Returns the end towards which the later half of the arrivals is, relative to the earlier half.
fn likely_end(arrivals: &VecDeque<(Key, Key)>) -> End {
    let half = arrivals.len() / 2;
    let median = |some: Vec<&(Key, Key)>| {
        let mut keys: Vec<_> = some.into_iter().map(|(least, _)| least).collect();
        keys.sort_unstable();
        keys.get(keys.len() / 2).map(|key| (*key).clone())
    };
    let earlier = median(arrivals.iter().take(half).collect());
    let later = median(arrivals.iter().skip(half).collect());
    if later < earlier { End::First } else { End::Last }
}
