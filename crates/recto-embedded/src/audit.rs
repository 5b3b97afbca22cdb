//! Comparison of the counts of a table's partitions with its rows.

use std::sync::Arc;

use recto_store::{PartitionCount, StoreError};
use redb::{Range, ReadableTableMetadata as _};

use crate::blocks::Tell;
use crate::catalog::StoredTable;
use crate::counts::{Counted, Counter, decode};
use crate::damage::damaged;
use crate::error::engine;
use crate::row::StoredRow;
use crate::scan::partition_of;
use crate::state::State;

type Bytes = &'static [u8];

/// Comparison of counts with rows. The caller passes the rows in key order.
pub(crate) struct Audit<'a> {
    counts: &'a StoredTable,
    counter: Counter<'a>,
    entries: Range<'static, Bytes, Bytes>,
    /// Number of entries according to the engine. `found` is the number of entries that were read.
    expected: u64,
    found: u64,
    /// Next counted partition, and its count unless that is damaged.
    next: Option<(Vec<u8>, Option<PartitionCount>)>,
    table: &'a StoredTable,
    /// True if a row of the current partition is damaged. The count may include it or not.
    is_damaged: bool,
}

impl<'a> Audit<'a> {
    /// Starts the comparison of the rows of `table` with its `counts`.
    pub(crate) fn begin(
        state: &State,
        table: &'a StoredTable,
        counts: &'a Arc<StoredTable>,
        tell: Tell<'_>,
    ) -> Result<Self, StoreError> {
        let open = state.open_counts(counts)?;
        let mut audit = Self {
            counts,
            counter: Counter::new(table),
            entries: open.rows.range::<&[u8]>(..).map_err(engine)?,
            expected: open.rows.len().map_err(engine)?,
            found: 0,
            next: None,
            table,
            is_damaged: false,
        };
        audit.advance(tell)?;
        Ok(audit)
    }

    /// Reads the next entry.
    fn advance(&mut self, tell: Tell<'_>) -> Result<(), StoreError> {
        self.next = None;
        let Some(entry) = self.entries.next() else {
            return Ok(());
        };
        let (key, value) = entry.map_err(engine)?;
        let key = key.value();
        self.found += 1;
        let count = decode(self.counts.key_checksum(key), value.value());
        if let Err(damage) = count {
            tell(key, damaged(self.counts, key, damage).to_string());
        }
        self.next = Some((key.to_vec(), count.ok()));
        Ok(())
    }

    /// Handles the next row, which may be damaged.
    pub(crate) fn row(&mut self, key: &[u8], value: &[u8], tell: Tell<'_>) -> Result<(), StoreError> {
        let Ok(partition) = partition_of(self.table, key) else {
            self.is_damaged = true;
            return Ok(());
        };
        if let Some(done) = self.counter.enter(partition) {
            self.compare(&done, tell)?;
            self.is_damaged = false;
        }
        let counted = StoredRow::open(self.table.key_checksum(key), value)
            .ok()
            .and_then(|row| self.counter.add(key, &row).ok());
        self.is_damaged |= counted.is_none();
        Ok(())
    }

    fn compare(&mut self, (partition, count): &Counted, tell: Tell<'_>) -> Result<(), StoreError> {
        while self.next.as_ref().is_some_and(|(next, _)| next < partition) {
            self.superfluous(tell)?;
        }
        let found = count;
        match &self.next {
            Some((next, count)) if next == partition => {
                if let Some(count) = count.filter(|count| !self.is_damaged && count != found) {
                    let what = format!(
                        "the count of the partition is {} rows with {} bytes, but it has {} rows with {} \
                         bytes",
                        count.rows, count.bytes, found.rows, found.bytes
                    );
                    tell(partition, what);
                }
                self.advance(tell)
            }
            _ if found.rows > 0 && !self.is_damaged => {
                let what = format!("the partition has {} rows, but no count", found.rows);
                tell(partition, what);
                Ok(())
            }
            _ => Ok(()),
        }
    }

    /// Reports that the partition of the next entry has no rows.
    fn superfluous(&mut self, tell: Tell<'_>) -> Result<(), StoreError> {
        if let Some((key, Some(count))) = &self.next {
            let what = format!(
                "the count of the partition is {} rows, but it has none",
                count.rows
            );
            tell(key, what);
        }
        self.advance(tell)
    }

    /// Ends the comparison after the last row of the table.
    pub(crate) fn finish(mut self, tell: Tell<'_>) -> Result<(), StoreError> {
        let counter = std::mem::replace(&mut self.counter, Counter::new(self.table));
        if let Some(last) = counter.finish() {
            self.compare(&last, tell)?;
        }
        while self.next.is_some() {
            self.superfluous(tell)?;
        }
        if self.found != self.expected {
            let (expected, found) = (self.expected, self.found);
            tell(
                &[],
                format!("the table should have {expected} counts, but has {found}"),
            );
        }
        Ok(())
    }
}
