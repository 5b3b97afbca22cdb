//! Buckets for an operator of a store, with their content as the store counts it.

use recto_model::Cells;
use recto_protocol::buckets::{Figures, Piece, Span};
use recto_store::read::MAX_COUNTED_PARTITIONS;
use recto_store::{ReadOptions, Snapshot};

use super::Transacted;
use crate::directory::Seek;
use crate::error::Result;
use crate::limits::{MAX_LISTED_PIECES, MAX_STEP_TIME};
use crate::list::{Chosen, Listing, Summary};
use crate::place::{Deadline, Place};

impl Transacted {
    /// Lists key ranges from a position on, at most [`MAX_LISTED_PIECES`], as of one snapshot. Their content is exact.
    /// Expired rows count until they are overwritten.
    ///
    /// # Errors
    /// The store cannot be read in time, or the range map is damaged.
    pub async fn list(&self, place: &Place, seek: Seek, most: usize) -> Result<Listing> {
        let deadline = self.deadline(MAX_STEP_TIME);
        let most = most.clamp(1, MAX_LISTED_PIECES);
        let moment = self.snapshot()?;
        let (mut chosen, mut next) = (Chosen::default(), Some(seek));
        while let Some(seek) = next {
            let time = deadline.left(&self.environment);
            let window = self.directory(&moment, place, &seek, time).await?;
            next = chosen.take(&window, &seek, most);
        }
        let figures = self
            .figures(&**moment.snapshot(), place, &chosen.pieces, deadline)
            .await?;
        chosen.listed(&place.pieced, figures)
    }

    /// Summarizes the partition as of one snapshot.
    ///
    /// # Errors
    /// As for [`list`](Self::list).
    pub async fn summary(&self, place: &Place) -> Result<Summary> {
        let deadline = self.deadline(MAX_STEP_TIME);
        let snapshot = self.store.snapshot()?;
        let whole = self.read_whole(&*snapshot, place, deadline).await?;
        let pieces: Vec<(Span, Piece)> = whole
            .all()
            .map(|piece| (Span::default(), piece.clone()))
            .collect();
        let figures = self.figures(&*snapshot, place, &pieces, deadline).await?;
        let mut summary = Summary::new();
        summary.add(&pieces, &figures, &mut None, place.pieced.size);
        Ok(summary)
    }

    /// Returns the counted content of the buckets of key ranges. Each key range has its own bucket.
    pub(crate) async fn figures(
        &self,
        snapshot: &dyn Snapshot,
        place: &Place,
        pieces: &[(Span, Piece)],
        deadline: Deadline,
    ) -> Result<Vec<Figures>> {
        // Counts are stored in the order of buckets, and the store reads adjacent counts together.
        let mut order: Vec<usize> = (0..pieces.len()).collect();
        order.sort_unstable_by_key(|at| pieces[*at].1.roles.read);
        let mut figures = vec![Figures::default(); pieces.len()];
        for some in order.chunks(MAX_COUNTED_PARTITIONS) {
            let partitions = some
                .iter()
                .map(|at| place.bucket_partition(pieces[*at].1.roles.read));
            let partitions: Vec<Cells> = partitions.collect();
            let options = ReadOptions {
                timeout: self.request_time(deadline)?,
                ..ReadOptions::default()
            };
            let counts = snapshot
                .count_partitions(&place.pieced.table, &partitions, &options)
                .await?;
            for (at, count) in some.iter().zip(counts) {
                figures[*at] = Figures {
                    rows: count.rows,
                    bytes: count.bytes,
                    ..Figures::default()
                };
            }
        }
        Ok(figures)
    }
}
