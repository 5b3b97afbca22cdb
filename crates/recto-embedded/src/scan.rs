//! Scans of whole tables, in key order.

use std::ops::Bound;

use recto_model::Table;
use recto_model::table::ReadDirection;
use recto_store::{ReadOptions, ScanPosition, ScanRead, StoreError, StoreErrorKind, TokenRange};

use crate::catalog::StoredTable;
use crate::clock::{Deadline, Now};
use crate::damage::damaged;
use crate::error::{corrupt, engine};
use crate::keys;
use crate::read::{Collector, take_statics};
use crate::row::{Damage, StoredRow};
use crate::state::{OpenTable, State};
use crate::walk::{Walk, verify};

/// Maximum number of ranges into which a table is split.
pub const MAX_PIECES: u32 = 4_096;

/// Splits a table into ranges with about the same number of rows. This reads all keys once, which takes much less time
/// than the scan of the ranges.
pub(crate) fn token_ranges(state: &State, table: &Table, pieces: u32) -> Result<Vec<TokenRange>, StoreError> {
    use redb::ReadableTableMetadata as _;
    let open = state.open(table)?;
    let pieces = u64::from(pieces.clamp(1, MAX_PIECES));
    let rows = open.rows.len().map_err(engine)?;
    let step = rows.div_ceil(pieces).max(1);
    let mut splits = vec![Vec::new()];
    if pieces > 1 {
        let mut count = 0;
        let mut walk = Walk::begin(&open, Bound::Unbounded, ReadDirection::Forward)?;
        while let Some((key, _)) = walk.next()? {
            if count > 0 && count % step == 0 {
                splits.push(key.to_vec());
            }
            count += 1;
        }
        if count != rows {
            return Err(corrupt(format!(
                "table {} should have {rows} rows, but has {count}",
                table.name()
            )));
        }
    }
    splits.push(Vec::new());
    let ranges = splits.windows(2).map(|pair| TokenRange {
        start: pair[0].clone(),
        end: pair[1].clone(),
    });
    Ok(ranges.collect())
}

/// Returns rows of a range, from its start or after a position. A position is the key of the last row that was read.
pub(crate) fn scan(
    state: &State,
    table: &Table,
    range: &TokenRange,
    after: Option<&ScanPosition>,
    limit: u32,
    options: &ReadOptions,
) -> Result<ScanRead, StoreError> {
    if limit == 0 {
        return Err(StoreError::new(
            StoreErrorKind::Invalid,
            "the limit of a scan must not be 0",
        ));
    }
    let deadline = Deadline::new(&state.environment, options.timeout)?;
    let open = state.open(table)?;
    let mut scan = Scan {
        open: &open,
        collector: Collector::new(&open.stored, table, &state.environment, limit, options.stamps),
        now: Now::new(&state.environment),
        deadline,
        statics_only: false,
    };
    let lower = match after {
        Some(position) => Bound::Excluded(position.0.as_slice()),
        None if range.start.is_empty() => Bound::Unbounded,
        None => Bound::Included(range.start.as_slice()),
    };
    let upper = if range.end.is_empty() {
        Bound::Unbounded
    } else {
        Bound::Excluded(range.end.as_slice())
    };
    let next = scan.run(lower, upper, limit, options.max_bytes)?;
    let (stamps, ends_in_seconds) = scan.collector.take_lives();
    Ok(ScanRead {
        bytes: scan.collector.bytes,
        stamps,
        ends_in_seconds,
        rows: scan.collector.rows,
        next: next.map(ScanPosition),
    })
}

struct Scan<'a> {
    open: &'a OpenTable,
    collector: Collector<'a>,
    now: Now<'a>,
    deadline: Deadline<'a>,
    /// True if the current partition has static cells, and no row of it was read so far.
    statics_only: bool,
}

impl Scan<'_> {
    /// Reads rows until the end of the range or the limit. If the limit ended the read, returns the last key
    /// that was read.
    fn run(
        &mut self,
        lower: Bound<&[u8]>,
        upper: Bound<&[u8]>,
        limit: u32,
        max_bytes: u64,
    ) -> Result<Option<Vec<u8>>, StoreError> {
        let open = self.open;
        let mut last = Vec::new();
        let mut walk = Walk::begin(open, lower, ReadDirection::Forward)?;
        while let Some((key, value)) = walk.next()? {
            // A damaged key may only seem to be beyond the range, so verify its checksum before it
            // ends the range.
            if matches!(upper, Bound::Excluded(end) if key >= end) {
                verify(&open.stored, key, value)?;
                break;
            }
            self.deadline.visit()?;
            if !self.collector.is_inside(key) {
                self.end_partition();
                if self.is_full(limit, max_bytes) {
                    return Ok(Some(last));
                }
                self.begin_partition(key)?;
            }
            self.take(key, value)?;
            last.clear();
            last.extend_from_slice(key);
            if self.is_full(limit, max_bytes) {
                return Ok(Some(last));
            }
        }
        // The range may end between a partition's static row and its rows, so look for rows of the
        // partition beyond the range.
        if self.statics_only && self.has_rows()? {
            self.statics_only = false;
        }
        self.end_partition();
        Ok(None)
    }

    fn is_full(&self, limit: u32, max_bytes: u64) -> bool {
        let rows = self.collector.rows.len();
        rows >= limit as usize || (rows > 0 && self.collector.bytes >= max_bytes)
    }

    /// Makes the partition of `key` the current one. Reads its static row if `key` is after that row.
    fn begin_partition(&mut self, key: &[u8]) -> Result<(), StoreError> {
        let prefix = partition_of(&self.open.stored, key)?;
        self.collector.enter(prefix)?;
        let has_statics = !self.open.stored.definition.statics().is_empty();
        if has_statics && key[prefix.len()] == keys::ROW {
            let mut statics = prefix.to_vec();
            statics.push(keys::STATIC);
            take_statics(self.open, &statics, &mut self.collector)?;
        }
        Ok(())
    }

    fn take(&mut self, key: &[u8], value: &[u8]) -> Result<(), StoreError> {
        if key.starts_with(self.collector.rows_prefix()) {
            if self.collector.push(key, value)? {
                self.statics_only = false;
            }
        } else {
            self.statics_only = self.collector.set_statics(key, value)?;
        }
        Ok(())
    }

    fn end_partition(&mut self) {
        if std::mem::take(&mut self.statics_only) {
            self.collector.push_statics_only();
        }
    }

    /// Returns whether the current partition has a row, inside or outside the range.
    fn has_rows(&mut self) -> Result<bool, StoreError> {
        let from = self.collector.rows_prefix().to_vec();
        let table = &self.open.stored;
        let mut walk = Walk::begin(self.open, Bound::Included(&from), ReadDirection::Forward)?;
        while let Some((key, value)) = walk.next()? {
            self.deadline.visit()?;
            let damage = |damage| damaged(table, key, damage);
            let stored = StoredRow::open(table.key_checksum(key), value).map_err(damage)?;
            if !key.starts_with(&from) {
                return Ok(false);
            }
            if !stored.is_gone(self.now.seconds()).map_err(damage)? {
                return Ok(true);
            }
        }
        Ok(false)
    }
}

/// Returns the encoded partition key with which `key` begins.
pub(crate) fn partition_of<'k>(table: &StoredTable, key: &'k [u8]) -> Result<&'k [u8], StoreError> {
    let mut rest = key;
    let mut scratch = Vec::new();
    for column in table.definition.partition() {
        scratch.clear();
        recto_model::key::decode(&column.ty, keys::direction(column), &mut rest, &mut scratch)
            .map_err(|error| damaged(table, key, Damage::Layout).with_source(error))?;
    }
    match rest.first() {
        Some(&(keys::STATIC | keys::ROW)) => Ok(&key[..key.len() - rest.len()]),
        _ => Err(damaged(table, key, Damage::Layout)),
    }
}
