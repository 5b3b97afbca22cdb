//! How rows came into a bucket, and how many there are: by what a bucket is looked at, and where it is cut.

use std::collections::VecDeque;

use recto_protocol::buckets::Key;
use recto_store::PartitionCount;

use super::room::UNCOUNTED;
use crate::limits::{MAX_ARRIVAL_KEY_BYTES, MAX_ARRIVALS};
use crate::tables::BucketSize;

/// Of so many arrivals one is remembered for longer.
const SPARSE: u64 = 64;
/// From so many arrivals on it is said whether keys run with arrival.
const FEWEST: usize = 4;
/// Of the last arrivals one in so many may be elsewhere than the others.
const STRAYS: usize = 8;
/// Of so many parts of what a bucket is cut at, one has to come before one that was left is looked at again.
const PATIENCE: u64 = 16;

/// Rows that one write puts into one bucket.
#[derive(Debug, Clone, Copy)]
pub struct Arrived<'k> {
    /// The least of their encoded keys.
    pub least: &'k [u8],
    /// The greatest.
    pub most: &'k [u8],
    /// How many there are, those that were there already included.
    pub rows: u64,
    /// Bytes of their clustering and regular cells.
    pub bytes: u64,
}

/// An end of a bucket.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum End {
    First,
    Last,
}

/// Where rows come in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Trend {
    /// At this end, if anywhere.
    pub(super) end: End,
    /// Nearly all that came last lies at this key or beyond; none: it is not known.
    pub(super) edge: Option<Key>,
    /// Whether keys run with arrival.
    pub(super) is_clear: bool,
}

/// What is known of a bucket without asking the store.
#[derive(Debug, Clone, Default)]
pub(super) struct Fill {
    /// What was counted, and what came since: no less than there is.
    count: PartitionCount,
    is_counted: bool,
    /// What came since somebody began to count.
    since: PartitionCount,
    /// How large it was when it was left so.
    left: u64,
    /// How much is being written to it now.
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
    /// Takes account of a write.
    pub(super) fn add(&mut self, arrived: &Arrived<'_>) {
        let came = arrived.count();
        self.count = sum(self.count, came);
        self.since = sum(self.since, came);
        self.arrivals.add(arrived);
    }

    /// Whether it is to be looked at.
    pub(super) fn is_due(&self, size: BucketSize) -> bool {
        let (now, due) = (size.of(self.count), size.due());
        let has_grown = now > self.left.saturating_add(due / PATIENCE);
        let is_over = now > size.most() && self.left <= size.most();
        if !self.is_counted {
            // Most partitions are small for ever.
            return now > size.most() / UNCOUNTED;
        }
        now > due && (has_grown || is_over)
    }

    /// How large it is, with what is being written to it.
    pub(super) fn now(&self, size: BucketSize) -> u64 {
        size.of(self.count).saturating_add(self.coming)
    }

    /// Whether that is known, but for what has ended.
    pub(super) fn is_counted(&self) -> bool {
        self.is_counted
    }

    /// Somebody begins to count it.
    pub(super) fn begin_count(&mut self) {
        self.since = PartitionCount::default();
    }

    /// So much there was when it was counted, or a little later.
    pub(super) fn counted(&mut self, count: PartitionCount) {
        self.count = sum(count, self.since);
        self.is_counted = true;
        self.left = 0;
    }

    /// It is left as it is.
    pub(super) fn left(&mut self, size: BucketSize) {
        self.left = size.of(self.count);
    }

    /// Where rows come in; none: too few came to say.
    pub(super) fn trend(&self) -> Option<Trend> {
        self.arrivals.trend()
    }

    /// What is known of a bucket that gets what the newest rows of this one were.
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

/// The key that all but so many arrivals lie beyond, towards this end.
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

/// Towards which end keys run, if three quarters of all pairs say so.
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

/// Towards which end the later half lies of the earlier one.
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
