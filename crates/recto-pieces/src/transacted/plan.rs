//! What of a bucket goes elsewhere when it is cut.

use recto_protocol::buckets::Key;
use recto_store::PartitionCount;
use recto_store::read::ROW_OVERHEAD_BYTES;

use super::arrivals::{End, Trend};
use crate::tables::BucketSize;

/// What share of a bucket goes that gets rows everywhere: a third costs 0.52 bytes for each byte that ever comes.
const SHARE: u64 = 3;
/// What goes at most so that all is gone that came last: where keys run with arrival, and else.
const CLEAR_SHARE: u64 = 4;
const OTHER_SHARE: u64 = 16;

impl BucketSize {
    /// How large a bucket is.
    pub(crate) fn of(self, count: PartitionCount) -> u64 {
        match self {
            Self::Bytes(_) => count.bytes,
            Self::Rows(_) => count.rows,
        }
    }

    /// How much of it one row is.
    pub(super) fn of_row(self, bytes: u64) -> u64 {
        self.of(PartitionCount { rows: 1, bytes })
    }

    /// How much of it a row is whose cells have so many bytes.
    pub(crate) fn of_cells(self, bytes: u64) -> u64 {
        self.of_row(bytes + ROW_OVERHEAD_BYTES)
    }

    /// How large it may be.
    pub(crate) fn most(self) -> u64 {
        match self {
            Self::Bytes(most) | Self::Rows(most) => most.max(1),
        }
    }

    /// How much more than planned goes into a bucket, so that a last row does not need another one.
    pub(super) fn room(self) -> u64 {
        match self {
            Self::Bytes(_) => self.due() / OTHER_SHARE,
            Self::Rows(_) => 0,
        }
    }

    /// It is cut when it is larger than this: bytes come while it is noticed, and rows are exact.
    pub(super) fn due(self) -> u64 {
        match self {
            Self::Bytes(bytes) => (bytes - bytes / 10).max(1),
            Self::Rows(rows) => rows.max(1),
        }
    }
}

/// What goes, from an end of the bucket on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Plan {
    pub(super) end: End,
    /// So much at least.
    least: u64,
    /// And what lies beyond this key, if that is not more than `edge_most`.
    edge: Option<Key>,
    edge_most: u64,
    /// Else so much.
    share: u64,
    /// How much goes into the first of the new buckets at most, and into each other one.
    parts: [u64; 2],
}

impl Plan {
    /// That what lies beyond an edge goes, towards this end.
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

    /// What goes of a bucket that is too large.
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
            // Those behind the newest rows are as full as they may be.
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

    /// Whether enough is gone, when so much is, and this is the next key.
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

    /// How much goes into a new bucket at most, the so-manieth one.
    pub(super) fn part(&self, number: usize) -> u64 {
        self.parts[number.min(1)]
    }
}
