//! Scans of whole tables in steps, of which each can be read again.

use std::sync::Arc;

use futures::stream::{self, BoxStream, StreamExt};
use recto_model::{Environment, Table};
use recto_store::{ReadOptions, ScanPosition, ScanRead, Snapshot, TokenRange};

use crate::error::Result;
use crate::settle::patiently;

/// Number of ranges of a remote store's table that are read concurrently.
const RANGES_AT_ONCE: u32 = 8;
/// Memory of a place in bytes, without the position in it. It includes the free space of a growing list.
const PLACE_BYTES: u64 = 3 * size_of::<Place>() as u64 + 16;

/// Table that is scanned.
#[derive(Clone)]
pub(crate) struct Steps {
    pub(crate) snapshot: Arc<dyn Snapshot>,
    pub(crate) table: Arc<Table>,
    pub(crate) options: ReadOptions,
    /// Number of rows of one step.
    pub(crate) rows: u32,
    pub(crate) is_remote: bool,
    pub(crate) environment: Environment,
}

/// Beginning of a step.
#[derive(Debug, Clone)]
pub(crate) struct Place {
    range: Arc<TokenRange>,
    after: Option<ScanPosition>,
}

impl Place {
    /// Returns the beginning of the step after the one that was read from here.
    pub(super) fn next(&self, read: &ScanRead) -> Option<Self> {
        Some(Self {
            range: Arc::clone(&self.range),
            after: Some(read.next.clone()?),
        })
    }
}

/// Beginnings of steps, within a limit of memory.
pub(super) struct Places {
    kept: Vec<Place>,
    /// Free memory in bytes.
    left_bytes: u64,
}

/// Number of a place that is not stored.
const NOT_KEPT: u32 = u32::MAX;

impl Places {
    pub(super) fn new(memory_bytes: u64) -> Self {
        Self {
            kept: Vec::new(),
            left_bytes: memory_bytes,
        }
    }

    /// Stores a place if there is enough memory. Returns its number.
    pub(super) fn keep(&mut self, place: Place) -> u32 {
        let position_bytes = place.after.as_ref().map_or(0, |after| after.0.capacity() as u64);
        let number = u32::try_from(self.kept.len()).unwrap_or(NOT_KEPT);
        let left_bytes = self.left_bytes.checked_sub(PLACE_BYTES + position_bytes);
        let (Some(left_bytes), true) = (left_bytes, number != NOT_KEPT) else {
            // After the first place that is not stored, store no smaller place either, because the
            // stored places must be the first ones.
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

    /// Returns the place of a number.
    pub(super) fn of(&self, number: u32) -> Option<&Place> {
        self.kept.get(number as usize)
    }
}

impl Steps {
    /// Returns the number of concurrent reads. Concurrency has no benefit on a local store, which never waits.
    fn at_once(&self) -> u32 {
        if self.is_remote { RANGES_AT_ONCE } else { 1 }
    }

    /// Reads all rows in steps, each with its beginning.
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

    /// Reads the steps at these places again, each with its label.
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

    /// Reads the step at a place.
    pub(super) async fn at(&self, place: &Place) -> Result<ScanRead> {
        let (snapshot, after) = (&self.snapshot, place.after.as_ref());
        let read = async || {
            let read = snapshot.scan(&self.table, &place.range, after, self.rows, &self.options);
            Ok(read.await?)
        };
        patiently(&self.environment, read).await
    }
}
