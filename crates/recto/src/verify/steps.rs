//! A whole table, step by step, and each of its steps once more.

use std::sync::Arc;

use futures::stream::{self, BoxStream, StreamExt};
use recto_model::Table;
use recto_store::{ReadOptions, ScanPosition, ScanRead, Snapshot, TokenRange};

use crate::error::Result;

/// Ranges of a remote store that are read side by side.
const PARALLEL: u32 = 8;

/// A table that is read.
#[derive(Clone)]
pub(super) struct Steps {
    pub(super) snapshot: Arc<dyn Snapshot>,
    pub(super) table: Arc<Table>,
    pub(super) options: ReadOptions,
    /// Rows of one step.
    pub(super) rows: u32,
    pub(super) is_remote: bool,
}

/// Where a step begins.
#[derive(Debug, Clone)]
pub(super) struct Place {
    range: Arc<TokenRange>,
    after: Option<ScanPosition>,
}

impl Steps {
    /// All rows, each step with where it begins.
    pub(super) async fn all(&self) -> Result<BoxStream<'static, Result<(Place, ScanRead)>>> {
        // One after the other they gain nothing where nothing is waited for.
        let pieces = if self.is_remote { PARALLEL } else { 1 };
        let ranges = self.snapshot.token_ranges(&self.table, pieces).await?;
        let ranges = ranges.into_iter().map(|range| {
            let first = Place {
                range: Arc::new(range),
                after: None,
            };
            let steps = self.clone();
            stream::try_unfold(Some(first), move |place| {
                let steps = steps.clone();
                async move {
                    let Some(place) = place else { return Ok(None) };
                    let read = steps.at(&place).await?;
                    let next = read.next.clone().map(|after| Place {
                        range: Arc::clone(&place.range),
                        after: Some(after),
                    });
                    Ok(Some(((place, read), next)))
                }
            })
            .boxed()
        });
        let ranges: Vec<_> = ranges.collect();
        Ok(stream::iter(ranges)
            .flatten_unordered(Some(pieces as usize))
            .boxed())
    }

    /// The rows from a place.
    pub(super) async fn at(&self, place: &Place) -> Result<ScanRead> {
        let (snapshot, after) = (&self.snapshot, place.after.as_ref());
        let read = snapshot.scan(&self.table, &place.range, after, self.rows, &self.options);
        Ok(read.await?)
    }
}
