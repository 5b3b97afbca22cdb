//! Plan of the rows that a split moves to other buckets.

use recto_protocol::buckets::Key;
use recto_store::PartitionCount;
use recto_store::read::ROW_OVERHEAD_BYTES;

use super::arrivals::{End, Trend};
use crate::tables::BucketSize;

/// Fraction of a bucket that a split moves if rows arrive everywhere: one part in this number. Moving a third costs
/// 0.52 moved bytes for each byte that ever arrives.
const SHARE: u64 = 3;
/// Maximum fraction of a bucket that a split moves in order to move all newest rows: one part in this number. The first
/// number applies if keys follow the order of arrival, the second one otherwise.
const CLEAR_SHARE: u64 = 4;
const OTHER_SHARE: u64 = 16;

impl BucketSize {
    /// Returns the size of a bucket in the unit of this limit.
    pub(crate) fn of(self, count: PartitionCount) -> u64 {
        match self {
            Self::Bytes(_) => count.bytes,
            Self::Rows(_) => count.rows,
        }
    }

    /// Returns the size of one row of `bytes` bytes in this unit.
    pub(super) fn of_row(self, bytes: u64) -> u64 {
        self.of(PartitionCount { rows: 1, bytes })
    }

    /// Returns the size of a row whose cells have `bytes` bytes in this unit.
    pub(crate) fn of_cells(self, bytes: u64) -> u64 {
        self.of_row(bytes + ROW_OVERHEAD_BYTES)
    }

    /// Returns the maximum size of a bucket.
    pub(crate) fn most(self) -> u64 {
        match self {
            Self::Bytes(most) | Self::Rows(most) => most.max(1),
        }
    }

    /// Returns the amount by which a bucket may exceed its planned size, so that a last row does not require another
    /// bucket.
    pub(super) fn room(self) -> u64 {
        match self {
            Self::Bytes(_) => self.due() / OTHER_SHARE,
            Self::Rows(_) => 0,
        }
    }

    /// Returns the size above which a bucket is split. A limit in bytes is reduced, because further bytes arrive before
    /// the split. A limit in rows is exact.
    pub(super) fn due(self) -> u64 {
        match self {
            Self::Bytes(bytes) => (bytes - bytes / 10).max(1),
            Self::Rows(rows) => rows.max(1),
        }
    }
}

/// Rows that a split moves, beginning at an end of the bucket.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Plan {
    pub(super) end: End,
    /// Minimum amount to move.
    least: u64,
    /// Rows beyond this key are moved, too, unless the amount exceeds `edge_most`.
    edge: Option<Key>,
    edge_most: u64,
    /// Amount to move otherwise.
    share: u64,
    /// Maximum size of the first new bucket, and of each further one.
    parts: [u64; 2],
}

impl Plan {
    /// Returns the plan of a split that moves the rows beyond an edge, towards this end.
    pub(super) fn towards(end: End) -> Self {
        Self {
            end,
            least: 0,
            edge: None,
            edge_most: 0,
            share: 0,
            parts: [0; 2],
        }
    }

    /// Returns the plan for a bucket that is too large.
    pub(super) fn new(size: BucketSize, count: PartitionCount, trend: Option<Trend>) -> Self {
        let trend = trend.unwrap_or(Trend {
            end: End::Last,
            edge: None,
            is_clear: false,
        });
        let (now, due) = (size.of(count), size.due());
        let share = now.div_ceil(SHARE);
        let wide = Self {
            end: trend.end,
            least: 0,
            edge: trend.edge,
            edge_most: now / if trend.is_clear { CLEAR_SHARE } else { OTHER_SHARE },
            share,
            parts: [due; 2],
        };
        if trend.is_clear {
            if now <= size.most() {
                return wide;
            }
            // The buckets behind the newest rows are as full as possible.
            let (newest, room) = ((now % due).max(1), size.room());
            return Self {
                least: now - due - room.min(now - due),
                parts: [newest + room, due],
                ..wide
            };
        }
        if now - share <= due {
            return wide;
        }
        let part = (due - due / SHARE).max(1);
        let least = now - part;
        let part = least.div_ceil(least.div_ceil(part)) + size.room();
        Self {
            least,
            parts: [part; 2],
            ..wide
        }
    }

    /// Returns whether enough rows are moved after the amount `moved`, if `next` is the next key.
    pub(super) fn is_enough(&self, moved: u64, next: &[u8]) -> bool {
        let is_beyond = match (&self.edge, self.end) {
            (None, _) => false,
            (Some(edge), End::Last) => next < edge.as_slice(),
            (Some(edge), End::First) => next > edge.as_slice(),
        };
        moved > 0
            && moved >= self.least
            && (moved >= self.share || (is_beyond && moved <= self.edge_most.max(self.least).max(1)))
    }

    /// Returns the maximum size of the new bucket with this index.
    pub(super) fn part(&self, number: usize) -> u64 {
        self.parts[number.min(1)]
    }
}
