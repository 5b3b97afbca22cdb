//! How many rows a slice has, and which row stands so far from its beginning: by what each bucket holds, and not by reading them.
//!
//! Where the store counts, a bucket that is asked for in part is read, and all others are not: so it is exact. Elsewhere samples
//! say it, which are a few rows of each bucket. What a slice has few rows of is read whole.

use std::sync::Arc;

use futures::stream::{self, StreamExt, TryStreamExt};
use recto_buckets::{Directory, Figures, Key, Piece, Sampling, Span};
use recto_model::table::ReadDirection;
use recto_model::{Bound, Cells, RowRef, Slice};
use recto_store::{ReadOptions, RowEstimate, StoreError, StoreErrorKind};

use super::snapshot::BucketedSnapshot;
use super::tables::Bucketed;
use crate::limits::{MAX_ESTIMATED_PIECES, MAX_EXACT_ROWS, MAX_PIECES_AT_ONCE, MAX_STEPPED_ROWS};
use crate::place::{Deadline, Place};
use crate::samples::Dated;
use crate::transacted::{Moment, Seek, Transacted};

/// Rows that are asked how many they are.
pub(super) struct Estimating<'e> {
    pub(super) snapshot: &'e BucketedSnapshot,
    pub(super) bucketed: &'e Bucketed,
    pub(super) slice: &'e Slice,
    pub(super) options: &'e ReadOptions,
}

/// What of a slice lies in one bucket.
struct Part {
    slice: recto_buckets::Slice,
    sampling: Sampling,
    rows: u64,
    variance: u64,
    /// Those of the rows that are sampled, where that is how they are counted.
    samples: Vec<Dated>,
}

/// How far rows were walked.
struct Walked {
    rows: u64,
    /// The clustering key of the row at which the walk was to end.
    last: Option<Cells>,
}

impl Estimating<'_> {
    pub(super) async fn rows(&self) -> Result<RowEstimate, StoreError> {
        if let Some(rows) = self.few_rows().await? {
            return Ok(RowEstimate { rows, variance: 0 });
        }
        let parts = self.parts().await?.into_iter();
        Ok(parts.fold(RowEstimate::default(), |all, part| RowEstimate {
            rows: all.rows.saturating_add(part.rows),
            variance: all.variance.saturating_add(part.variance),
        }))
    }

    /// The clustering key of the row that so many stand before.
    pub(super) async fn row_at(&self, rank: u64) -> Result<Option<Cells>, StoreError> {
        let mut before = 0_u64;
        for part in self.parts().await? {
            let left = rank.saturating_sub(before);
            before = before.saturating_add(part.rows);
            if before <= rank {
                continue;
            }
            if let Some(key) = self.sampled(&part, left)? {
                return Ok(Some(key));
            }
            return Ok(self.walk(&part.slice, left).await?.last);
        }
        Ok(None)
    }

    /// Exactly how many rows there are, if that is so few that they are read where nobody counts.
    async fn few_rows(&self) -> Result<Option<u64>, StoreError> {
        if self.counting().is_some() {
            return Ok(None);
        }
        let few = Slice {
            limit: MAX_EXACT_ROWS,
            ..self.slice.clone()
        };
        let read = self.snapshot.rows(self.bucketed, &few, self.options).await?;
        Ok(read.exhausted.then_some(read.rows.len() as u64))
    }

    /// What counts, and when that is.
    fn counting(&self) -> Option<(&Transacted, &Moment)> {
        let engine = self.snapshot.store.transacted()?;
        Some((engine, self.snapshot.moment.as_ref()?))
    }

    /// The parts of the slice, in the direction that it is read in, each with how many rows it has.
    async fn parts(&self) -> Result<Vec<Part>, StoreError> {
        let place = Place::new(&self.bucketed.pieced, self.slice.partition.clone())?;
        let pieces = self.pieces(&place).await?;
        let mut parts = match self.counting() {
            Some((engine, moment)) => self.counted(&place, pieces, engine, moment).await?,
            None => self.estimated(&place, pieces).await?,
        };
        if self.slice.direction == ReadDirection::Backward {
            parts.reverse();
        }
        Ok(parts)
    }

    /// The pieces that the slice lies in: of each what the two have in common, and whether that is all of it.
    async fn pieces(&self, place: &Place) -> Result<Vec<(Span, Piece, bool)>, StoreError> {
        let mut found = Vec::new();
        let mut rest = self.bucketed.pieced.span(&self.slice.from, &self.slice.to)?;
        while let Some(wanted) = rest.take() {
            let window = self.window(place, wanted.start.clone()).await?;
            let common = window.spans().filter_map(|(span, piece)| {
                let common = span.common(&wanted)?;
                let is_whole = common == span;
                Some((common, piece.clone(), is_whole))
            });
            found.extend(common);
            if found.len() > MAX_ESTIMATED_PIECES {
                let message = format!("the rows lie in more than {MAX_ESTIMATED_PIECES} buckets");
                let error = StoreError::new(StoreErrorKind::Invalid, message);
                return Err(error.with_hint("ask for fewer of them, or keep them in larger buckets"));
            }
            rest = window.rest(&wanted);
        }
        Ok(found)
    }

    async fn window(&self, place: &Place, start: Key) -> Result<Arc<Directory>, StoreError> {
        let seek = Seek::At(start);
        if let Some((engine, moment)) = self.counting() {
            return Ok(engine
                .directory(moment, place, &seek, self.options.timeout)
                .await?);
        }
        let pieces = self.snapshot.store.pieces().await?;
        let deadline = pieces.deadline(self.options.timeout);
        let read = pieces.read_directory(place, &seek, false, deadline).await?;
        Ok(Arc::new(read))
    }

    /// Pieces that are there in part are read, the others are counted by the store.
    async fn counted(
        &self,
        place: &Place,
        pieces: Vec<(Span, Piece, bool)>,
        engine: &Transacted,
        moment: &Moment,
    ) -> Result<Vec<Part>, StoreError> {
        let spans: Vec<(Span, Piece)> = pieces
            .iter()
            .map(|(span, piece, _)| (span.clone(), piece.clone()))
            .collect();
        let figures = engine
            .figures(
                &**moment.snapshot(),
                place,
                &spans,
                engine.deadline(self.options.timeout),
            )
            .await?;
        let mut parts = Vec::with_capacity(pieces.len());
        for ((span, piece, is_whole), figures) in pieces.into_iter().zip(figures) {
            let mut part = Part::new(span, &piece, figures, Vec::new());
            if !is_whole {
                part.rows = self.walk(&part.slice, u64::MAX).await?.rows;
            }
            parts.push(part);
        }
        Ok(parts)
    }

    /// Pieces, or parts of them, have as many rows as their samples say.
    async fn estimated(
        &self,
        place: &Place,
        pieces: Vec<(Span, Piece, bool)>,
    ) -> Result<Vec<Part>, StoreError> {
        let store = self.snapshot.store.pieces().await?;
        let deadline: Deadline = store.deadline(self.options.timeout);
        let looks = pieces.into_iter().map(|(span, piece, _)| async move {
            let read = store.samples(place, piece.roles.read, &span, deadline).await?;
            let figures = piece.sampling.estimate(read.iter().map(|dated| &dated.sample));
            Ok::<_, StoreError>(Part::new(span, &piece, figures, read))
        });
        let looks: Vec<_> = looks.collect();
        stream::iter(looks)
            .buffered(MAX_PIECES_AT_ONCE)
            .try_collect()
            .await
    }

    /// The sampled row of a part before which so many rows stand, about; none: it has no samples.
    fn sampled(&self, part: &Part, rank: u64) -> Result<Option<Cells>, StoreError> {
        let is_backward = self.slice.direction == ReadDirection::Backward;
        let mut samples: Vec<&Dated> = part.samples.iter().collect();
        if is_backward {
            samples.reverse();
        }
        let (mut before, mut found) = (0.0, None);
        for Dated { sample, .. } in samples {
            found = Some(&sample.key);
            before += part.sampling.rows_for(sample.bytes);
            #[expect(clippy::cast_precision_loss, reason = "it is an estimate")]
            if before > rank as f64 {
                break;
            }
        }
        let bound = found.map(|key| self.bucketed.pieced.bound(key)).transpose()?;
        Ok(bound.map(|bound| bound.cells().clone()))
    }

    /// Reads rows of a part until one has so many before it.
    async fn walk(&self, part: &recto_buckets::Slice, rank: u64) -> Result<Walked, StoreError> {
        let mut slice = self
            .bucketed
            .pieced
            .slice_of(self.slice, part, MAX_STEPPED_ROWS)?;
        let key = self.bucketed.pieced.table().partition().len()..self.bucketed.pieced.table().key_len();
        let key_of = |row: RowRef<'_>| -> Cells { key.clone().map(|column| row.get(column)).collect() };
        let mut rows = 0_u64;
        loop {
            let read = self.snapshot.inner.slice(&slice, self.options).await?;
            let wanted = usize::try_from(rank - rows).unwrap_or(usize::MAX);
            if wanted < read.rows.len() {
                return Ok(Walked {
                    rows: rank,
                    last: Some(key_of(read.rows.row(wanted))),
                });
            }
            rows += read.rows.len() as u64;
            let last = read.rows.iter().next_back().map(key_of);
            match (read.exhausted, last) {
                (false, Some(last)) if slice.direction == ReadDirection::Forward => {
                    slice.from = Bound::After(last);
                }
                (false, Some(last)) => slice.to = Bound::Before(last),
                _ => return Ok(Walked { rows, last: None }),
            }
        }
    }
}

impl Part {
    fn new(span: Span, piece: &Piece, figures: Figures, samples: Vec<Dated>) -> Self {
        Self {
            slice: recto_buckets::Slice {
                bucket: piece.roles.read,
                span,
            },
            sampling: piece.sampling,
            rows: figures.rows,
            variance: figures.rows_variance,
            samples,
        }
    }
}
