//! Scans of tables that are kept in buckets. A scan returns each partition once, when it meets
//! bucket 0 of the partition. It reads the rows of the partition as pages do. A scan of the stored
//! rows would miss or repeat rows of key ranges that are being split.

use std::collections::VecDeque;

use futures::stream::{self, StreamExt, TryStreamExt};
use recto_model::{Bound, Cells, RowSet, Slice};
use recto_store::{ReadOptions, RowsRead, ScanPosition, ScanRead, StoreError, StoreErrorKind, TokenRange};

use super::snapshot::BucketedSnapshot;
use super::tables::Bucketed;
use crate::bytes::{read_bytes, read_cells, read_length, take, write_bytes, write_cells};
use crate::limits::MAX_SCANNED_PARTITIONS;
use crate::shards;

/// Version of the encoding of a scan position.
const POSITION_VERSION: u8 = 1;

pub(super) struct Scan<'s> {
    pub(super) snapshot: &'s BucketedSnapshot,
    pub(super) bucketed: &'s Bucketed,
    pub(super) range: &'s TokenRange,
    pub(super) options: &'s ReadOptions,
}

/// Position of a scan: the partitions to read next, and the position in the store for finding more
/// partitions.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
struct Position {
    /// Partitions that the scan has found but not yet read.
    waiting: VecDeque<Cells>,
    /// Clustering key of the last row that was read from the first waiting partition. `None`: no
    /// row of it was read.
    behind: Option<Cells>,
    /// Position in the store from which the scan finds further partitions.
    met: Met,
}

#[derive(Debug, Clone, PartialEq, Eq, Default)]
enum Met {
    #[default]
    None,
    UpTo(ScanPosition),
    All,
}

impl Scan<'_> {
    /// Returns the keys of partitions, each of them once. A scan of the store meets at most `limit`
    /// stored partitions.
    pub(super) async fn partitions(
        &self,
        after: Option<&ScanPosition>,
        limit: u32,
    ) -> Result<ScanRead, StoreError> {
        let (table, inner) = (self.bucketed.pieced.table(), &self.snapshot.inner);
        let read = inner
            .scan_partitions(table, self.range, after, limit, self.options)
            .await?;
        let keys = self.bucketed.logical.partition().len();
        let mut roots = RowSet::new(keys);
        for row in read.rows.iter() {
            if self.bucketed.pieced.is_met_in(row) {
                let partition: Cells = (0..keys).map(|column| row.get(column)).collect();
                roots.push_row(partition.as_row());
            }
        }
        Ok(ScanRead { rows: roots, ..read })
    }

    /// Returns at most `limit` rows, and the position from which the scan continues.
    pub(super) async fn rows(
        &self,
        after: Option<&ScanPosition>,
        limit: u32,
    ) -> Result<ScanRead, StoreError> {
        let mut at = match after {
            Some(position) => Position::read(&position.0).ok_or_else(damaged)?,
            None => Position::default(),
        };
        let mut read = ScanRead {
            rows: RowSet::new(self.bucketed.logical.columns().len()),
            ..ScanRead::default()
        };
        while read.rows.len() < limit as usize
            && (read.bytes < self.options.max_bytes || read.rows.is_empty())
        {
            if !at.waiting.is_empty() {
                self.read_waiting(&mut at, &mut read, limit).await?;
            } else if !self.meet(&mut at).await? {
                return Ok(read);
            }
        }
        if !(at.waiting.is_empty() && at.met == Met::All) {
            read.next = Some(ScanPosition(at.written()));
        }
        Ok(read)
    }

    /// Finds the next partitions to read. Returns whether more partitions may follow.
    async fn meet(&self, at: &mut Position) -> Result<bool, StoreError> {
        let after = match &at.met {
            Met::None => None,
            Met::UpTo(position) => Some(position.clone()),
            Met::All => return Ok(false),
        };
        // Request the maximum number, because most results may be further buckets of partitions that were
        // already found.
        let met = self.partitions(after.as_ref(), MAX_SCANNED_PARTITIONS).await?;
        at.waiting = met.rows.iter().map(|row| row.to_cells()).collect();
        at.met = met.next.map_or(Met::All, Met::UpTo);
        Ok(true)
    }

    /// Reads waiting partitions concurrently. Requests from each partition as many rows as the
    /// result still lacks.
    async fn read_waiting(
        &self,
        at: &mut Position,
        read: &mut ScanRead,
        limit: u32,
    ) -> Result<(), StoreError> {
        let missing = limit - read.rows.len() as u32;
        let options = ReadOptions {
            max_bytes: self.options.max_bytes.saturating_sub(read.bytes).max(1),
            ..*self.options
        };
        // A partition that was read in part has more rows, so read it alone. The sizes of other
        // partitions are unknown, and most are small, so read several concurrently.
        let side_by_side = shards::at_once(&self.bucketed.pieced, at.waiting.len());
        let at_once = if at.behind.is_some() { 1 } else { side_by_side };
        let slices = at.waiting.iter().take(at_once).map(|partition| Slice {
            from: at.behind.clone().map_or_else(Bound::start, Bound::After),
            ..Slice::from_start(&self.bucketed.logical, partition.clone(), missing)
        });
        let slices: Vec<Slice> = slices.collect();
        let asked: Vec<_> = slices
            .iter()
            .map(|slice| self.snapshot.rows(self.bucketed, slice, &options))
            .collect();
        let mut answers = stream::iter(asked).buffered(at_once);
        while let Some(answer) = answers.try_next().await? {
            if !self.take(at, read, answer, limit) {
                break;
            }
        }
        Ok(())
    }

    /// Adds the rows of the first waiting partition. Returns whether there is room for more rows.
    fn take(&self, at: &mut Position, read: &mut ScanRead, answer: RowsRead, limit: u32) -> bool {
        let room = limit as usize - read.rows.len();
        let table = &self.bucketed.logical;
        let mut last = None;
        for row in answer.rows.iter().take(room) {
            read.rows.push_row(row);
            last = Some(row);
        }
        let is_whole = answer.exhausted && answer.rows.len() <= room;
        if is_whole {
            at.waiting.pop_front();
            at.behind = None;
        } else if let Some(last) = last {
            let clustering = table.partition().len()..table.key_len();
            at.behind = Some(clustering.map(|column| last.get(column)).collect());
        }
        read.bytes += answer.bytes;
        read.stamps.extend(answer.stamps.into_iter().take(room));
        read.ends_in_seconds
            .extend(answer.ends_in_seconds.into_iter().take(room));
        is_whole && read.rows.len() < limit as usize && read.bytes < self.options.max_bytes
    }
}

impl Position {
    fn written(&self) -> Vec<u8> {
        let mut to = vec![POSITION_VERSION];
        match &self.met {
            Met::None => to.push(0),
            Met::All => to.push(1),
            Met::UpTo(position) => {
                to.push(2);
                write_bytes(&position.0, &mut to);
            }
        }
        to.extend((self.waiting.len() as u32).to_be_bytes());
        self.waiting
            .iter()
            .for_each(|partition| write_cells(partition, &mut to));
        match &self.behind {
            None => to.push(0),
            Some(behind) => {
                to.push(1);
                write_cells(behind, &mut to);
            }
        }
        to
    }

    fn read(mut from: &[u8]) -> Option<Self> {
        let from = &mut from;
        if take(from, 1)? != [POSITION_VERSION] {
            return None;
        }
        let met = match take(from, 1)? {
            [0] => Met::None,
            [1] => Met::All,
            [2] => Met::UpTo(ScanPosition(read_bytes(from)?.to_vec())),
            _ => return None,
        };
        let waiting = (0..read_length(from)?).map(|_| read_cells(from));
        let waiting = waiting.collect::<Option<VecDeque<_>>>()?;
        let behind = match take(from, 1)? {
            [0] => None,
            [1] => Some(read_cells(from)?),
            _ => return None,
        };
        from.is_empty().then_some(Self { waiting, behind, met })
    }
}

#[cold]
fn damaged() -> StoreError {
    StoreError::new(StoreErrorKind::Invalid, "the position of a scan is damaged")
        .with_hint("begin the scan again")
}

#[cfg(test)]
mod tests {
    use recto_model::golden::bytes_of_hex;

    use super::*;

    fn cells_of(text: &str) -> Cells {
        let cells: Vec<Vec<u8>> = text
            .split('.')
            .map(|cell| bytes_of_hex(cell.trim_start_matches('-')))
            .collect();
        cells.iter().map(|cell| Some(&cell[..])).collect()
    }

    #[test]
    fn positions_are_written_as_ever() {
        let lines = include_str!("golden/position-v1.txt").lines();
        let mut count = 0;
        for line in lines.filter(|line| !line.starts_with('#')) {
            let parts: Vec<&str> = line.split("; ").collect();
            let [met, waiting, behind, bytes] = parts.try_into().expect("there are four");
            let position = Position {
                met: match met {
                    "none" => Met::None,
                    "all" => Met::All,
                    "-" => Met::UpTo(ScanPosition(Vec::new())),
                    hex => Met::UpTo(ScanPosition(bytes_of_hex(hex))),
                },
                waiting: match waiting {
                    "none" => VecDeque::new(),
                    all => all.split(' ').map(cells_of).collect(),
                },
                behind: (behind != "none").then(|| cells_of(behind)),
            };
            let bytes = bytes_of_hex(bytes);
            assert_eq!(position.written(), bytes, "{line}");
            assert_eq!(Position::read(&bytes), Some(position));
            for end in 0..bytes.len() {
                assert_eq!(Position::read(&bytes[..end]), None, "{end} bytes of {line}");
            }
            count += 1;
        }
        assert_eq!(count, 5);
        assert_eq!(Position::read(&[2, 0, 0, 0, 0, 0, 0]), None);
    }
}
