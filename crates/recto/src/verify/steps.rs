//! A whole table, step by step, and each of its steps once more.

use std::sync::Arc;

use futures::stream::{self, BoxStream, StreamExt};
use recto_model::{Environment, Table};
use recto_store::{ReadOptions, ScanPosition, ScanRead, Snapshot, TokenRange};

use crate::error::Result;
use crate::settle::patiently;

/// Ranges of a table of a remote store that are read side by side.
const RANGES_AT_ONCE: u32 = 8;
/// What a place takes beside the position in it, with the room that a list keeps free while it grows.
const PLACE_BYTES: u64 = 3 * size_of::<Place>() as u64 + 16;

/// A table that is read.
#[derive(Clone)]
pub(crate) struct Steps {
    pub(crate) snapshot: Arc<dyn Snapshot>,
    pub(crate) table: Arc<Table>,
    pub(crate) options: ReadOptions,
    /// Rows of one step.
    pub(crate) rows: u32,
    pub(crate) is_remote: bool,
    pub(crate) environment: Environment,
}

/// Where a step begins.
#[derive(Debug, Clone)]
pub(crate) struct Place {
    range: Arc<TokenRange>,
    after: Option<ScanPosition>,
}

impl Place {
    /// Where the step after the one that was read from here begins.
    pub(super) fn next(&self, read: &ScanRead) -> Option<Self> {
        Some(Self {
            range: Arc::clone(&self.range),
            after: Some(read.next.clone()?),
        })
    }
}

/// Where steps begin, as many as there is memory for.
pub(super) struct Places {
    kept: Vec<Place>,
    /// How many bytes more there are.
    left_bytes: u64,
}

/// The number of a place that is not kept.
const NOT_KEPT: u32 = u32::MAX;

impl Places {
    pub(super) fn new(memory_bytes: u64) -> Self {
        Self {
            kept: Vec::new(),
            left_bytes: memory_bytes,
        }
    }

    /// Keeps a place, if there is room; its number.
    pub(super) fn keep(&mut self, place: Place) -> u32 {
        let position_bytes = place.after.as_ref().map_or(0, |after| after.0.capacity() as u64);
        let number = u32::try_from(self.kept.len()).unwrap_or(NOT_KEPT);
        let left_bytes = self.left_bytes.checked_sub(PLACE_BYTES + position_bytes);
        let (Some(left_bytes), true) = (left_bytes, number != NOT_KEPT) else {
            // None that is smaller either: all that come later are behind it.
            self.left_bytes = 0;
            return NOT_KEPT;
        };
        self.left_bytes = left_bytes;
        self.kept.push(place);
        number
    }

    pub(super) fn count(&self) -> usize {
        self.kept.len()
    }

    /// The place of a number.
    pub(super) fn of(&self, number: u32) -> Option<&Place> {
        self.kept.get(number as usize)
    }
}

impl Steps {
    /// How much is read side by side. Where nothing is waited for that gains nothing.
    fn at_once(&self) -> u32 {
        if self.is_remote { RANGES_AT_ONCE } else { 1 }
    }

    /// All rows, each step with where it begins.
    pub(crate) async fn all(&self) -> Result<BoxStream<'static, Result<(Place, ScanRead)>>> {
        let ranges = self.snapshot.token_ranges(&self.table, self.at_once()).await?;
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
                    let next = place.next(&read);
                    Ok(Some(((place, read), next)))
                }
            })
            .boxed()
        });
        let ranges: Vec<_> = ranges.collect();
        Ok(stream::iter(ranges)
            .flatten_unordered(Some(self.at_once() as usize))
            .boxed())
    }

    /// The rows from each of these places once more, each with what it is told by.
    pub(super) fn again<T: Send + 'static>(
        &self,
        places: Vec<(T, Place)>,
    ) -> BoxStream<'static, Result<(T, Place, ScanRead)>> {
        let (steps, at_once) = (self.clone(), self.at_once() as usize);
        let reads = stream::iter(places).map(move |(told_by, place)| {
            let steps = steps.clone();
            async move {
                let read = steps.at(&place).await?;
                Ok((told_by, place, read))
            }
        });
        reads.buffer_unordered(at_once).boxed()
    }

    /// The rows from a place.
    pub(super) async fn at(&self, place: &Place) -> Result<ScanRead> {
        let (snapshot, after) = (&self.snapshot, place.after.as_ref());
        let read = async || {
            let read = snapshot.scan(&self.table, &place.range, after, self.rows, &self.options);
            Ok(read.await?)
        };
        patiently(&self.environment, read).await
    }
}
