//! When a bucket is cut, and where.
//!
//! Where keys run with arrival (times, sequences, history that is imported in order) it is cut *ahead*, at the key that the newest
//! rows will have reached when the cut is done: nothing is there to copy. Else it is cut at its samples, into parts of as
//! much each.

use crate::buckets::limits::MAX_CUT_EDGES;
use crate::buckets::names::Key;
use crate::buckets::sampling::{Sample, Sampling};

/// At how many times as many samples as a bucket is to have it is cut wherever its rows lie.
pub const FULL: f64 = 1.5;
/// Of the samples that a bucket is to have, how many quarters each part has at most that it is cut into: room is left for
/// what comes late.
const PART_QUARTERS: usize = 3;
/// Of arrivals, how many come behind the one before at least, where keys run with arrival.
const IN_ORDER: f64 = 0.9;
/// Fewer arrivals say nothing of what comes.
const MIN_ARRIVALS: usize = 4;

/// What is known of a bucket that grows.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Growth {
    /// How many samples a bucket is to have.
    pub samples: u32,
    /// Bytes that come in a second.
    pub bytes_per_second: f64,
    /// How many seconds a cut takes.
    pub lead_seconds: f64,
}

/// What is to be done about a bucket.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Due {
    /// Nothing.
    No,
    /// It will be full when a cut is done: it is cut ahead, if keys run with arrival.
    Ahead,
    /// It is full: it is cut at its samples.
    Now,
}

impl Growth {
    /// What is to be done about a bucket of so many samples.
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

    /// Whether it will be cut again so soon that copies of its directory stay short-lived: an eighth of a bucket comes while
    /// a cut is made.
    pub fn is_hot(&self, sampling: Sampling) -> bool {
        let bucket = f64::from(self.samples) * sampling.unit as f64;
        self.bytes_per_second * self.lead_seconds > bucket / 8.0
    }

    /// At which keys a bucket of these samples is cut, into parts of as many bytes each. They are in the order of their keys. None:
    /// they lie at one key, or are too few.
    pub fn quantiles(&self, samples: &[Sample]) -> Vec<Key> {
        let there: Vec<_> = samples.iter().filter(|sample| !sample.is_gone).collect();
        let most = (self.samples as usize * PART_QUARTERS / 4).max(1);
        let parts = there.len().div_ceil(most).min(MAX_CUT_EDGES + 1);
        // Each stands for as many bytes, but for small rows, which do for fewer.
        let edges = (1..parts).filter_map(|part| there.get(part * there.len() / parts));
        let mut edges: Vec<Key> = edges.map(|sample| sample.key.clone()).collect();
        edges.dedup();
        edges.retain(|edge| there.first().is_some_and(|first| first.key < *edge));
        edges
    }
}

/// Where the key of a row lies among others, as a number: of the order's first column, if that is a number or a time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Arrival {
    /// When it came.
    pub at_ms: i64,
    /// Where it lies.
    pub position: i64,
}

/// Where the newest rows will be after so long; none if keys do not run with arrival, or do not move. `arrivals` are the last ones.
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
