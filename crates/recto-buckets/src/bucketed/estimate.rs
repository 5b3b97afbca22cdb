//! Estimates the number of rows of a slice, and finds the row of a given rank.
//!
//! The estimate comes from samples of the buckets (module `survey`), so that the rows need not be read.
//! A slice with few rows is read completely.

use std::sync::Arc;

use recto_model::table::ReadDirection;
use recto_model::{Bound, Cells, RowRef, Slice};
use recto_store::{ReadOptions, RowEstimate, RowsRead, StoreError};

use super::snapshot::BucketedSnapshot;
use super::tables::Bucketed;
use crate::limits::{MAX_EXACT_ROWS, MAX_STEPPED_ROWS};
use crate::place::Place;
use crate::samples::Dated;
use crate::shards;
use crate::survey::{Look, Survey};

/// Slice of a table in buckets whose rows are counted or estimated.
pub(super) struct Estimating<'e> {
    pub(super) snapshot: &'e BucketedSnapshot,
    pub(super) bucketed: &'e Bucketed,
    pub(super) slice: &'e Slice,
    pub(super) options: &'e ReadOptions,
}

/// Rows of a slice, or an estimate of their number.
enum Found {
    Nothing,
    Rows(RowsRead),
    Survey(Arc<Place>, Survey),
}

impl Estimating<'_> {
    pub(super) async fn rows(&self) -> Result<RowEstimate, StoreError> {
        Ok(match self.found().await? {
            Found::Nothing => RowEstimate::default(),
            Found::Rows(read) => RowEstimate {
                rows: read.rows.len() as u64,
                variance: 0,
            },
            Found::Survey(_, survey) => RowEstimate {
                rows: survey.figures.rows,
                variance: survey.figures.rows_variance,
            },
        })
    }

    /// Returns the clustering key of the row that has `rank` rows before it in the slice.
    pub(super) async fn row_at(&self, rank: u64) -> Result<Option<Cells>, StoreError> {
        let (place, survey) = match self.found().await? {
            Found::Nothing => return Ok(None),
            Found::Rows(read) => {
                let at = usize::try_from(rank).ok().filter(|at| *at < read.rows.len());
                return Ok(at.map(|at| self.key_of(read.rows.row(at), self.slice.table.partition().len())));
            }
            Found::Survey(place, survey) => (place, survey),
        };
        let store = self.snapshot.store.pieces().await?;
        let (is_backward, deadline) = (self.is_backward(), store.deadline(self.options.timeout));
        let found = store
            .piece_at(&place, survey, is_backward, rank, deadline)
            .await?;
        let Some((look, left)) = found else {
            return Ok(None);
        };
        if let Some(key) = self.sampled(&look, left)? {
            return Ok(Some(key));
        }
        let part = recto_protocol::buckets::Slice {
            bucket: look.piece.roles.read,
            span: look.span,
        };
        self.walk(&part, left).await
    }

    /// Returns the content of the slice. Reads all rows if the slice has few rows in few key
    /// ranges. Otherwise estimates the number of rows from samples.
    async fn found(&self) -> Result<Found, StoreError> {
        let place = Arc::new(Place::new(&self.bucketed.pieced, self.slice.partition.clone())?);
        let Some(span) = self.bucketed.pieced.span(&self.slice.from, &self.slice.to)? else {
            return Ok(Found::Nothing);
        };
        let store = self.snapshot.store.pieces().await?;
        let deadline = store.deadline(self.options.timeout);
        let Some(layout) = store.layout(&place, &span, deadline).await? else {
            return Ok(Found::Nothing);
        };
        if layout.is_short() {
            let few = Slice {
                limit: MAX_EXACT_ROWS,
                ..self.slice.clone()
            };
            let read = self.snapshot.rows(self.bucketed, &few, self.options).await?;
            if read.exhausted {
                return Ok(Found::Rows(read));
            }
        }
        let survey = store.survey(&place, layout, deadline).await?;
        Ok(Found::Survey(place, survey))
    }

    fn is_backward(&self) -> bool {
        self.slice.direction == ReadDirection::Backward
    }

    /// Returns the clustering key of the sampled row with the estimated rank `rank` in a key range. Returns `None` if
    /// the key range has no samples.
    fn sampled(&self, look: &Look, rank: u64) -> Result<Option<Cells>, StoreError> {
        let mut samples: Vec<&Dated> = look.samples.iter().collect();
        if self.is_backward() {
            samples.reverse();
        }
        let (mut before, mut found) = (0.0, None);
        for Dated { sample, .. } in samples {
            found = Some(&sample.key);
            before += look.piece.sampling.rows_for(sample.bytes);
            #[expect(clippy::cast_precision_loss, reason = "it is an estimate")]
            if before > rank as f64 {
                break;
            }
        }
        let bound = found.map(|key| self.bucketed.pieced.bound(key)).transpose()?;
        Ok(bound.map(|bound| bound.cells().clone()))
    }

    /// Returns the clustering key of a row whose first `partition` cells are the partition key.
    fn key_of(&self, row: RowRef<'_>, partition: usize) -> Cells {
        let key = partition..partition + self.slice.table.clustering().len();
        key.map(|column| row.get(column)).collect()
    }

    /// Reads rows of a part of the slice until `rank` rows precede a row. Returns the clustering key of
    /// that row. If the part has fewer rows, returns the key of its last row.
    async fn walk(
        &self,
        part: &recto_protocol::buckets::Slice,
        rank: u64,
    ) -> Result<Option<Cells>, StoreError> {
        let mut slice = self
            .bucketed
            .pieced
            .slice_of(self.slice, part, MAX_STEPPED_ROWS)?;
        let partition = self.bucketed.pieced.table().partition().len();
        let key_of = |row: RowRef<'_>| self.key_of(row, partition);
        let (mut rows, mut before) = (0_u64, None);
        loop {
            let read =
                shards::slice(&*self.snapshot.inner, &self.bucketed.pieced, &slice, self.options).await?;
            let wanted = usize::try_from(rank - rows).unwrap_or(usize::MAX);
            if wanted < read.rows.len() {
                return Ok(Some(key_of(read.rows.row(wanted))));
            }
            rows += read.rows.len() as u64;
            let last = read.rows.iter().next_back().map(key_of);
            before = last.clone().or(before);
            match (read.exhausted, last) {
                (false, Some(last)) if slice.direction == ReadDirection::Forward => {
                    slice.from = Bound::After(last);
                }
                (false, Some(last)) => slice.to = Bound::Before(last),
                _ => return Ok(before),
            }
        }
    }
}
