//! Joins rows of a view with the base rows of their records. The join reads fields that the view
//! lacks. It also omits stale rows, whose record has another position by now.
//!
//! The base row is always read after the row of the view. A writer that changes a record writes the
//! base row first, so the base row shows whether the row of the view is current.

use std::fmt::Debug;
use std::sync::Arc;

use recto_model::schema::Collection;
use recto_model::{Cells, RowRef, RowSet};
use recto_plan::{Query, SortOrder};
use recto_protocol::views::{BaseRead, Verdict};
use recto_store::{ConsistencyLevel, PartitionWrite, PointRead, ReadOptions, RowsRead, Snapshot};

use super::budget::Meter;
use super::rest::in_time;
use crate::error::Result;
use crate::present::Presence;

/// Decides whether rows of a view match their records.
pub(crate) trait Judge: Debug + Send + Sync {
    /// Compares a row of the view with the base row, which was read after it.
    ///
    /// # Errors
    /// The base row is damaged, or was written by a newer release.
    fn judge(
        &self,
        row: RowRef<'_>,
        base: Option<RowRef<'_>>,
        read: BaseRead,
        now_micros: i64,
    ) -> Result<Verdict>;

    /// Returns the write that removes a stale row of the view. Returns nothing if only a comparison
    /// of the whole view may remove it.
    fn removal(&self, row: RowRef<'_>, now_micros: i64) -> Option<PartitionWrite>;
}

/// Join of the rows of a view with the base rows of their records.
#[derive(Debug)]
pub(crate) struct Joining {
    definition: Arc<Collection>,
    base: Arc<SortOrder>,
    presence: Option<Presence>,
    /// For each key column of the base table, the index of the view's column that stores the same
    /// field.
    key: Vec<usize>,
    /// Judge of the view's rows. `None` if the view always matches its base table.
    judge: Option<Arc<dyn Judge>>,
}

impl Joining {
    pub(crate) fn new(
        definition: Arc<Collection>,
        base: Arc<SortOrder>,
        view: &SortOrder,
        judge: Option<Arc<dyn Judge>>,
    ) -> Self {
        let key_columns = base.fields().take(base.table.key_len());
        Self {
            definition,
            presence: Presence::of(&base),
            key: key_columns
                .filter_map(|(_, field)| view.column_of_field[field])
                .collect(),
            base,
            judge,
        }
    }

    /// Returns the number of columns of a base row.
    pub(super) fn width(&self) -> usize {
        self.base.table.columns().len()
    }

    /// Returns whether the view may contain two rows of one record.
    pub(super) fn may_repeat(&self) -> bool {
        self.judge.is_some()
    }

    /// Returns the key of the record that a row of the view belongs to.
    pub(super) fn key(&self, row: RowRef<'_>) -> Cells {
        self.key.iter().map(|column| row.get(*column)).collect()
    }

    /// Returns whether a base row satisfies all conditions of a query.
    pub(super) fn satisfies(&self, base: RowRef<'_>, query: &Query) -> bool {
        let cell = |field: usize| base.get(self.base.column_of_field[field]?);
        query.matches(&self.definition, cell)
    }

    /// Returns, for each row of the view, the base row that confirms it, or nothing if the row is
    /// not confirmed. Returns `None` if the time of the page is over.
    pub(super) async fn base_rows(
        &self,
        snapshot: &Arc<dyn Snapshot>,
        rows: &RowSet,
        now_micros: i64,
        meter: &mut Meter,
    ) -> Result<Option<Vec<Option<RowsRead>>>> {
        let all: Vec<usize> = (0..rows.len()).collect();
        let Some(reads) = self.read(snapshot, rows, &all, BaseRead::Quorum, meter).await? else {
            return Ok(None);
        };
        let mut found: Vec<Option<RowsRead>> = Vec::with_capacity(rows.len());
        let mut unknown = Vec::new();
        for (index, read) in reads.into_iter().enumerate() {
            let verdict = self.verdict(rows.row(index), &read, BaseRead::Quorum, now_micros, meter)?;
            if verdict == Verdict::Unknown {
                unknown.push(index);
            }
            found.push((verdict == Verdict::True).then_some(read));
        }
        if unknown.is_empty() {
            return Ok(Some(found));
        }
        // An unknown verdict means that the entry is newer than its base row. The quorum read
        // missed a decided conditional write, so read serially.
        let Some(reads) = self
            .read(snapshot, rows, &unknown, BaseRead::Serial, meter)
            .await?
        else {
            return Ok(None);
        };
        for (index, read) in unknown.into_iter().zip(reads) {
            let verdict = self.verdict(rows.row(index), &read, BaseRead::Serial, now_micros, meter)?;
            found[index] = (verdict == Verdict::True).then_some(read);
        }
        Ok(Some(found))
    }

    /// Returns the verdict on a row of the view. Records the removal of a stale row in the meter.
    fn verdict(
        &self,
        row: RowRef<'_>,
        read: &RowsRead,
        how: BaseRead,
        now_micros: i64,
        meter: &mut Meter,
    ) -> Result<Verdict> {
        let base = read.rows.iter().next();
        if let Some(judge) = &self.judge {
            let verdict = judge.judge(row, base, how, now_micros)?;
            if verdict == Verdict::Stale
                && let Some(removal) = judge.removal(row, now_micros)
            {
                meter.note_stale(removal);
            }
            return Ok(verdict);
        }
        let is_there = match (base, self.presence) {
            (Some(base), Some(presence)) => presence.has(base, now_micros)?,
            (base, _) => base.is_some(),
        };
        Ok(if is_there { Verdict::True } else { Verdict::Stale })
    }

    /// Reads the base rows of the rows with the indexes `which` in `rows`, concurrently. Returns
    /// `None` if the time of the page is over.
    async fn read(
        &self,
        snapshot: &Arc<dyn Snapshot>,
        rows: &RowSet,
        which: &[usize],
        how: BaseRead,
        meter: &mut Meter,
    ) -> Result<Option<Vec<RowsRead>>> {
        let points = which.iter().map(|index| self.point(rows.row(*index)));
        let points: Vec<PointRead> = points.collect();
        let read = |options: ReadOptions| {
            let consistency = match how {
                BaseRead::Quorum => options.consistency,
                BaseRead::Serial => Some(ConsistencyLevel::Serial),
            };
            let options = ReadOptions {
                consistency,
                ..options
            };
            async move { snapshot.get_many(&points, &options).await }
        };
        let Some(reads) = in_time(read, u64::MAX, meter).await? else {
            return Ok(None);
        };
        meter.count_base_reads(&reads);
        Ok(Some(reads))
    }

    /// Returns the request that reads the base row of a view's row.
    fn point(&self, row: RowRef<'_>) -> PointRead {
        let partition_len = self.base.partition_len();
        let cells = |columns: &[usize]| columns.iter().map(|column| row.get(*column)).collect();
        PointRead {
            table: Arc::clone(&self.base.table),
            partition: cells(&self.key[..partition_len]),
            clustering: cells(&self.key[partition_len..]),
        }
    }
}
