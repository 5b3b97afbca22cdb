//! Policy that decides when and at which keys a bucket is split.
//!
//! Keys may follow the order of arrival, such as times and sequences. Then the bucket is split
//! *ahead*: at the key that the newest rows will have reached when the split is done, so that few
//! rows have to be copied. Otherwise the bucket is split at its samples, into parts of equal size.

use crate::buckets::limits::MAX_CUT_EDGES;
use crate::buckets::names::Key;
use crate::buckets::sampling::{Sample, Sampling};

/// Number of samples at which a bucket is always split, as a multiple of the target number of
/// samples.
pub const FULL: f64 = 1.5;
/// Maximum number of samples in each part of a split bucket, in quarters of the target number. The
/// last quarter is for rows that arrive late.
const PART_QUARTERS: usize = 3;
/// Minimum share of successive arrivals whose keys move in one direction, for keys to count as
/// following the order of arrival.
const IN_ORDER: f64 = 0.9;
/// Minimum number of arrivals needed to predict the position of the newest rows.
const MIN_ARRIVALS: usize = 4;

/// Measured growth of a bucket, which determines when the bucket is split.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Growth {
    /// Target number of sampled rows in a bucket.
    pub samples: u32,
    /// Bytes of rows that arrive in the bucket per second.
    pub bytes_per_second: f64,
    /// Expected duration of a split, in seconds.
    pub lead_seconds: f64,
}

/// Decision whether a growing bucket is split now.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Due {
    /// Do not split the bucket.
    No,
    /// The bucket will be full by the time a split is done. Split it ahead of its newest rows if
    /// keys follow the order of arrival.
    Ahead,
    /// The bucket is full. Split it at its samples.
    Now,
}

impl Growth {
    /// Decides whether a bucket with this number of samples (sampled rows) is split now, split
    /// ahead of its newest rows, or not split.
    pub fn due(&self, sampling: Sampling, samples: usize) -> Due {
        let unit = sampling.unit as f64;
        let wanted = f64::from(self.samples);
        let coming = self.bytes_per_second * self.lead_seconds / unit;
        if samples as f64 >= FULL * wanted {
            Due::Now
        } else if samples as f64 + coming >= wanted {
            Due::Ahead
        } else {
            Due::No
        }
    }

    /// Returns whether the bucket will soon be split again: an eighth of a full bucket arrives
    /// during one split. Cached range maps of such a partition keep their short lifetime.
    pub fn is_hot(&self, sampling: Sampling) -> bool {
        let bucket = f64::from(self.samples) * sampling.unit as f64;
        self.bytes_per_second * self.lead_seconds > bucket / 8.0
    }

    /// Returns the keys at which a bucket is split into parts of about equal bytes, ascending.
    /// Returns no keys if all samples have the same key, or if there are too few samples.
    pub fn quantiles(&self, samples: &[Sample]) -> Vec<Key> {
        let there: Vec<_> = samples.iter().filter(|sample| !sample.is_gone).collect();
        let most = (self.samples as usize * PART_QUARTERS / 4).max(1);
        let parts = there.len().div_ceil(most).min(MAX_CUT_EDGES + 1);
        // Each sample represents about the same number of bytes, so parts with equal numbers of
        // samples have about equal bytes.
        let edges = (1..parts).filter_map(|part| there.get(part * there.len() / parts));
        let mut edges: Vec<Key> = edges.map(|sample| sample.key.clone()).collect();
        edges.dedup();
        edges.retain(|edge| there.first().is_some_and(|first| first.key < *edge));
        edges
    }
}

/// Arrival of a row, with its key as a number: the first sort column, if that is a number or a
/// time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Arrival {
    /// Time of arrival, in milliseconds since 1970.
    pub at_ms: i64,
    /// Key of the row as a number: its first sort column.
    pub position: i64,
}

/// Predicts the key position of the newest rows after `after_ms` milliseconds, from the last
/// arrivals. Returns `None` if keys do not follow the order of arrival, or do not move.
pub fn position_ahead(arrivals: &[Arrival], after_ms: i64) -> Option<i64> {
    let mut arrivals = arrivals.to_vec();
    arrivals.sort_unstable();
    let (first, last) = (arrivals.first()?, arrivals.last()?);
    let pairs = arrivals
        .len()
        .checked_sub(1)
        .filter(|_| arrivals.len() >= MIN_ARRIVALS)?;
    let rises = arrivals
        .windows(2)
        .filter(|pair| pair[0].position <= pair[1].position);
    let falls = arrivals
        .windows(2)
        .filter(|pair| pair[0].position >= pair[1].position);
    let (rises, falls) = (rises.count(), falls.count());
    let is_in_order = rises.max(falls) as f64 >= IN_ORDER * pairs as f64;
    let moved = i128::from(last.position) - i128::from(first.position);
    let took_ms = i128::from(last.at_ms) - i128::from(first.at_ms);
    if !is_in_order || moved == 0 || took_ms == 0 {
        return None;
    }
    let furthest = arrivals.iter().map(|arrival| arrival.position);
    let furthest = if rises > falls {
        furthest.max()
    } else {
        furthest.min()
    }?;
    let ahead = i128::from(furthest) + moved * i128::from(after_ms) / took_ms;
    i64::try_from(ahead).ok()
}
