//! Estimates the number of rows of a slice, and finds the row of a given rank. Uses the content of each bucket instead
//! of reading the rows.
//!
//! On a store that counts rows, only buckets that are requested in part are read, so the result is exact. On other
//! stores, the result is estimated from samples (`survey`). A slice with few rows is read completely.

use std::sync::Arc;

use recto_model::table::ReadDirection;
use recto_model::{Bound, Cells, RowRef, Slice};
use recto_protocol::buckets::{Piece, Span};
use recto_store::{ReadOptions, RowEstimate, RowsRead, StoreError, StoreErrorKind};

use super::snapshot::BucketedSnapshot;
use super::tables::Bucketed;
use crate::limits::{MAX_COUNTED_PIECES, MAX_EXACT_ROWS, MAX_STEPPED_ROWS};
use crate::place::Place;
use crate::samples::Dated;
use crate::shards;
use crate::survey::{Look, Survey};
use crate::transacted::{Moment, Seek, Transacted};

/// Slice whose rows are counted or estimated.
pub(super) struct Estimating<'e> {
    pub(super) snapshot: &'e BucketedSnapshot,
    pub(super) bucketed: &'e Bucketed,
    pub(super) slice: &'e Slice,
    pub(super) options: &'e ReadOptions,
}

/// Content of a slice, on a store that does not count rows.
enum Found {
    Nothing,
    Rows(RowsRead),
    Survey(Arc<Place>, Survey),
}

/// Part of a slice in one bucket.
struct Part {
    slice: recto_protocol::buckets::Slice,
    rows: u64,
}

/// Result of reading rows one after the other.
struct Walked {
    rows: u64,
    /// Clustering key of the row at which the read ended, if there is one.
    last: Option<Cells>,
    /// Clustering key of the last row before it.
    before: Option<Cells>,
}

impl Estimating<'_> {
    pub(super) async fn rows(&self) -> Result<RowEstimate, StoreError> {
        if let Some((engine, moment)) = self.counting() {
            let parts = self.parts(engine, moment).await?;
            let rows = parts.iter().map(|part| part.rows).sum();
            return Ok(RowEstimate { rows, variance: 0 });
        }
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

    /// Returns the clustering key of the row with `rank` preceding rows.
    pub(super) async fn row_at(&self, rank: u64) -> Result<Option<Cells>, StoreError> {
        if let Some((engine, moment)) = self.counting() {
            let mut left = rank;
            for part in self.parts(engine, moment).await? {
                if left < part.rows {
                    return Ok(self.walk(&part.slice, left).await?.last);
                }
                left -= part.rows;
            }
            return Ok(None);
        }
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
        let walked = self.walk(&part, left).await?;
        Ok(walked.last.or(walked.before))
    }

    /// Returns the content of the slice, on a store that does not count rows: all rows if there are few rows in few key
    /// ranges, else an estimate from samples.
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

    /// Returns the engine that counts rows, and the snapshot for it.
    fn counting(&self) -> Option<(&Transacted, &Moment)> {
        let engine = self.snapshot.store.transacted()?;
        Some((engine, self.snapshot.moment.as_ref()?))
    }

    /// Returns the parts of the slice in the direction of the read, each with its number of rows. Reads the buckets
    /// that the slice covers in part. The store counts the others.
    async fn parts(&self, engine: &Transacted, moment: &Moment) -> Result<Vec<Part>, StoreError> {
        let place = Place::new(&self.bucketed.pieced, self.slice.partition.clone())?;
        let pieces = self.pieces(&place, engine, moment).await?;
        let spans: Vec<(Span, Piece)> = pieces
            .iter()
            .map(|(span, piece, _)| (span.clone(), piece.clone()))
            .collect();
        let deadline = engine.deadline(self.options.timeout);
        let figures = engine
            .figures(&**moment.snapshot(), &place, &spans, deadline)
            .await?;
        let mut parts = Vec::with_capacity(pieces.len());
        for ((span, piece, is_whole), figures) in pieces.into_iter().zip(figures) {
            let slice = recto_protocol::buckets::Slice {
                bucket: piece.roles.read,
                span,
            };
            let rows = if is_whole {
                figures.rows
            } else {
                self.walk(&slice, u64::MAX).await?.rows
            };
            parts.push(Part { slice, rows });
        }
        if self.is_backward() {
            parts.reverse();
        }
        Ok(parts)
    }

    /// Returns the key ranges that the slice overlaps, the common part of each, and whether this is the whole key
    /// range.
    async fn pieces(
        &self,
        place: &Place,
        engine: &Transacted,
        moment: &Moment,
    ) -> Result<Vec<(Span, Piece, bool)>, StoreError> {
        let mut found = Vec::new();
        let mut rest = self.bucketed.pieced.span(&self.slice.from, &self.slice.to)?;
        while let Some(wanted) = rest.take() {
            let seek = Seek::At(wanted.start.clone());
            let window = engine
                .directory(moment, place, &seek, self.options.timeout)
                .await?;
            let common = window.spans().filter_map(|(span, piece)| {
                let common = span.common(&wanted)?;
                let is_whole = common == span;
                Some((common, piece.clone(), is_whole))
            });
            found.extend(common);
            if found.len() > MAX_COUNTED_PIECES {
                let message = format!("the rows are in more than {MAX_COUNTED_PIECES} buckets");
                let error = StoreError::new(StoreErrorKind::Invalid, message);
                return Err(error.with_hint("count fewer rows, or use larger buckets"));
            }
            rest = window.rest(&wanted);
        }
        Ok(found)
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

    /// Reads rows of a part until a row has `rank` preceding rows.
    async fn walk(&self, part: &recto_protocol::buckets::Slice, rank: u64) -> Result<Walked, StoreError> {
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
                return Ok(Walked {
                    rows: rank,
                    last: Some(key_of(read.rows.row(wanted))),
                    before,
                });
            }
            rows += read.rows.len() as u64;
            let last = read.rows.iter().next_back().map(key_of);
            before = last.clone().or(before);
            match (read.exhausted, last) {
                (false, Some(last)) if slice.direction == ReadDirection::Forward => {
                    slice.from = Bound::After(last);
                }
                (false, Some(last)) => slice.to = Bound::Before(last),
                _ => {
                    return Ok(Walked {
                        rows,
                        last: None,
                        before,
                    });
                }
            }
        }
    }
}
