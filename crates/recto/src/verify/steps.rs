//! Scans of whole tables in steps (reads of bounded size). Each step can be read again later.

use std::sync::Arc;

use futures::stream::{self, BoxStream, StreamExt};
use recto_model::{Environment, Table};
use recto_store::{ReadOptions, ScanPosition, ScanRead, Snapshot, TokenRange};

use crate::error::Result;
use crate::settle::patiently;

/// Number of token ranges of a remote store's table that are read concurrently.
const RANGES_AT_ONCE: u32 = 8;
/// Memory in bytes of a stored place (position of a scan step), without the variable-length
/// position of the store. It includes the free space of a growing list.
const PLACE_BYTES: u64 = 3 * size_of::<Place>() as u64 + 16;

/// Scan of a whole table in steps: reads of bounded size, which can be repeated.
#[derive(Clone)]
pub(crate) struct Steps {
    pub(crate) snapshot: Arc<dyn Snapshot>,
    pub(crate) table: Arc<Table>,
    pub(crate) options: ReadOptions,
    /// Maximum number of rows of one step.
    pub(crate) rows: u32,
    pub(crate) is_remote: bool,
    pub(crate) environment: Environment,
}

/// Place: the position in a table at which a step begins.
#[derive(Debug, Clone)]
pub(crate) struct Place {
    range: Arc<TokenRange>,
    after: Option<ScanPosition>,
}

impl Place {
    /// Returns the place (position) of the next scan step, after the step that was read from this
    /// place. Returns `None` at the end of the range.
    pub(super) fn next(&self, read: &ScanRead) -> Option<Self> {
        Some(Self {
            range: Arc::clone(&self.range),
            after: Some(read.next.clone()?),
        })
    }
}

/// Stored places (positions at which scan steps begin), within a limit of memory.
pub(super) struct Places {
    kept: Vec<Place>,
    /// Memory in bytes that is still free for further places.
    left_bytes: u64,
}

/// Index that stands for a place (position of a scan step) that is not stored.
const NOT_KEPT: u32 = u32::MAX;

impl Places {
    pub(super) fn new(memory_bytes: u64) -> Self {
        Self {
            kept: Vec::new(),
            left_bytes: memory_bytes,
        }
    }

    /// Stores a place if there is enough memory. Returns its index among the stored places, or
    /// [`NOT_KEPT`].
    pub(super) fn keep(&mut self, place: Place) -> u32 {
        let position_bytes = place.after.as_ref().map_or(0, |after| after.0.capacity() as u64);
        let number = u32::try_from(self.kept.len()).unwrap_or(NOT_KEPT);
        let left_bytes = self.left_bytes.checked_sub(PLACE_BYTES + position_bytes);
        let (Some(left_bytes), true) = (left_bytes, number != NOT_KEPT) else {
            // After the first place that does not fit, store no smaller place either, because the
            // stored places must be the first places of the scan.
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

    /// Returns the stored place with this index; `None` if it is not stored.
    pub(super) fn of(&self, number: u32) -> Option<&Place> {
        self.kept.get(number as usize)
    }
}

impl Steps {
    /// Returns the number of token ranges of the table that are read concurrently. It is 1 for a
    /// local store, because a local store never waits.
    fn at_once(&self) -> u32 {
        if self.is_remote { RANGES_AT_ONCE } else { 1 }
    }

    /// Reads all rows of the table in steps. Returns each step with the place (position) where it
    /// begins.
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

    /// Reads the steps at the given places (positions of scan steps) again. Returns each step with
    /// its place and the value that was passed with the place.
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

    /// Reads the step that begins at a place, and retries after transient errors.
    pub(super) async fn at(&self, place: &Place) -> Result<ScanRead> {
        let (snapshot, after) = (&self.snapshot, place.after.as_ref());
        let read = async || {
            let read = snapshot.scan(&self.table, &place.range, after, self.rows, &self.options);
            Ok(read.await?)
        };
        patiently(&self.environment, read).await
    }
}
