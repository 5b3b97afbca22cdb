//! Encoding of the position of a check, from which a later check can continue: `docs/format.md`,
//! "Buckets".

use recto_model::Cells;
use recto_protocol::buckets::Key;
use recto_store::{ScanPosition, StoreError, StoreErrorKind};

use crate::bytes::{read_bytes, read_cells, take, write_bytes, write_cells};

/// Version of the encoding of the position of a check.
const POSITION_VERSION: u8 = 2;
/// Oldest readable version. Its bytes are the same. Its stage of buckets found time buckets without a registry entry. A
/// check that continues in the stage of rows looks for them again.
const READABLE_SINCE: u8 = 1;

/// Stage of a consistency check of buckets, with its number in a position.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) enum Stage {
    /// Checks the range maps.
    #[default]
    Directories = 0,
    /// Checks the entries of the registry of time buckets.
    Registry = 5,
    /// Checks the existing buckets, and finds those that no range map names.
    Buckets = 1,
    /// Checks all stored rows, their samples (stored keys and sizes of some rows), and the registry entries of their
    /// time buckets.
    Rows = 2,
    /// Checks the samples (stored keys and sizes of some rows) of buckets without rows.
    Samples = 3,
    /// The check is complete.
    Over = 4,
}

/// Stages in the order of a check.
const STAGES: [Stage; 6] = [
    Stage::Directories,
    Stage::Registry,
    Stage::Buckets,
    Stage::Rows,
    Stage::Samples,
    Stage::Over,
];

/// Position from which another check of buckets can continue.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct Position {
    pub(super) stage: Stage,
    /// Position within the stage. `None`: the beginning of the stage.
    pub(super) after: Option<Next>,
}

/// Position within a stage of a check of buckets.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Next {
    pub(super) scan: ScanPosition,
    /// Bucket whose rows the check has read only in part. `None`: the position is between two
    /// buckets.
    pub(super) open: Option<Open>,
}

/// Bucket whose rows a check has read only in part.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Open {
    /// Partition key of the bucket in the store.
    pub(super) partition: Cells,
    /// Key of the last row that was read from the bucket.
    pub(super) last: Key,
    /// Number of rows of the bucket that were read so far. `bytes` is the number of bytes of these
    /// rows.
    pub(super) rows: u64,
    pub(super) bytes: u64,
}

impl Stage {
    /// Returns the stage that follows this stage of the check.
    pub(super) fn next(self) -> Self {
        let mut following = STAGES.into_iter().skip_while(|stage| *stage != self);
        following.nth(1).unwrap_or(Self::Over)
    }

    /// Returns the position of a check at the beginning of the stage `self`.
    pub(super) fn begun(self) -> Position {
        Position {
            stage: self,
            after: None,
        }
    }
}

impl Position {
    pub(super) fn written(&self) -> Vec<u8> {
        let mut to = vec![POSITION_VERSION, self.stage as u8];
        let Some(next) = &self.after else {
            to.push(0);
            return to;
        };
        to.push(if next.open.is_some() { 2 } else { 1 });
        write_bytes(&next.scan.0, &mut to);
        if let Some(open) = &next.open {
            write_cells(&open.partition, &mut to);
            write_bytes(&open.last, &mut to);
            to.extend(open.rows.to_be_bytes());
            to.extend(open.bytes.to_be_bytes());
        }
        to
    }

    /// Decodes the position of a check. Returns `None` if the bytes are not a position of this
    /// release.
    pub(super) fn read(mut from: &[u8]) -> Option<Self> {
        let from = &mut from;
        let [READABLE_SINCE..=POSITION_VERSION] = take(from, 1)? else {
            return None;
        };
        let number = take(from, 1)?[0];
        let stage = STAGES.into_iter().find(|stage| *stage as u8 == number)?;
        let has_open = match take(from, 1)? {
            [0] => return from.is_empty().then_some(Self { stage, after: None }),
            [1] => false,
            [2] => true,
            _ => return None,
        };
        let mut next = Next {
            scan: ScanPosition(read_bytes(from)?.to_vec()),
            open: None,
        };
        if has_open {
            next.open = Some(Open {
                partition: read_cells(from)?,
                last: read_bytes(from)?.to_vec(),
                rows: u64::from_be_bytes(take(from, 8)?.try_into().ok()?),
                bytes: u64::from_be_bytes(take(from, 8)?.try_into().ok()?),
            });
        }
        let after = Some(next);
        from.is_empty().then_some(Self { stage, after })
    }
}

#[cold]
pub(super) fn damaged() -> StoreError {
    StoreError::new(
        StoreErrorKind::Invalid,
        "the position of a check of buckets is damaged",
    )
    .with_hint("begin the check again")
}

#[cfg(test)]
mod tests {
    use recto_model::golden::bytes_of_hex;

    use super::*;

    #[test]
    fn positions_are_written_as_ever() {
        let cells: Cells = [Some(&b"s"[..]), Some(&[0, 0, 0, 0, 0, 0, 0, 7])]
            .into_iter()
            .collect();
        let scan = ScanPosition(vec![9, 8]);
        let open = Open {
            partition: cells,
            last: b"key".to_vec(),
            rows: 3,
            bytes: 500,
        };
        let next = |open| {
            Some(Next {
                scan: scan.clone(),
                open,
            })
        };
        let positions = [
            Stage::Directories.begun(),
            Stage::Buckets.begun(),
            Position {
                stage: Stage::Rows,
                after: next(Some(open)),
            },
            Position {
                stage: Stage::Samples,
                after: next(None),
            },
            Stage::Over.begun(),
            Position {
                stage: Stage::Registry,
                after: next(None),
            },
        ];
        let lines = include_str!("golden/position-v2.txt").lines();
        let lines: Vec<Vec<u8>> = lines.map(bytes_of_hex).collect();
        assert_eq!(positions.each_ref().map(Position::written).to_vec(), lines);
        for (position, bytes) in positions.into_iter().zip(&lines) {
            assert_eq!(Position::read(bytes), Some(position));
            for end in 0..bytes.len() {
                assert_eq!(Position::read(&bytes[..end]), None);
            }
        }
        let earlier = include_str!("golden/position-v1.txt").lines().map(bytes_of_hex);
        for (earlier, now) in earlier.zip(&lines) {
            assert_eq!(Position::read(&earlier), Position::read(now));
        }
        assert_eq!(Position::read(&[3, 0, 0]), None, "a newer release's");
    }
}
