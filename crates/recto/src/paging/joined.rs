//! Rows of a view joined with the base rows of their records: to look up fields that the view lacks, and to show no row
//! whose record stands elsewhere by now.
//!
//! A base row is read after the row of the view, never beside it: who changes a record writes its base row first, so that
//! what a view shows in between is known for what it is.

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

/// Says of rows of a view whether their records stand there.
pub(crate) trait Judge: Debug + Send + Sync {
    /// What is to be thought of a row of the view, by the base row that was read after it.
    ///
    /// # Errors
    /// The base row is damaged, or a newer release wrote it.
    fn judge(
        &self,
        row: RowRef<'_>,
        base: Option<RowRef<'_>>,
        read: BaseRead,
        now_micros: i64,
    ) -> Result<Verdict>;

    /// What removes a row that is stale; none if that is to be left to who compares the whole view.
    fn removal(&self, row: RowRef<'_>, now_micros: i64) -> Option<PartitionWrite>;
}

/// How the rows of a view are joined with base rows.
#[derive(Debug)]
pub(crate) struct Joining {
    definition: Arc<Collection>,
    base: Arc<SortOrder>,
    presence: Option<Presence>,
    /// For each key column of the base table, the view's column of the same field.
    key: Vec<usize>,
    /// Where views may be other than their base tables say.
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

    /// How many columns base rows have.
    pub(super) fn width(&self) -> usize {
        self.base.table.columns().len()
    }

    /// Whether a record may stand in the view twice.
    pub(super) fn may_repeat(&self) -> bool {
        self.judge.is_some()
    }

    /// The key of a row's record.
    pub(super) fn key(&self, row: RowRef<'_>) -> Cells {
        self.key.iter().map(|column| row.get(*column)).collect()
    }

    /// Whether a base row satisfies all conditions.
    pub(super) fn satisfies(&self, base: RowRef<'_>, query: &Query) -> bool {
        let cell = |field: usize| base.get(self.base.column_of_field[field]?);
        query.matches(&self.definition, cell)
    }

    /// For each row of the view, the base row that says that its record stands there; `None` if the time is over.
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
        // An entry is newer than what was read: the read missed a conditional write that is decided.
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

    /// What is to be thought of a row of the view; one that is stale is noted, to be removed.
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

    /// The base rows of some of the rows, side by side: one stage.
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

    /// Where the base row of a row's record is.
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
