//! Fills new views from the existing records.

use std::sync::Arc;

use futures::FutureExt;
use futures::future::BoxFuture;
use futures::stream::{self, StreamExt, TryStreamExt};
use recto_protocol::views::ViewNumber;
use recto_store::{ReadOptions, ScanRead};
use tokio::sync::Mutex;

use super::Build;
use crate::beside::{Sent, ViewComparer, send};
use crate::core::CollectionCore;
use crate::covered::{Covered, MAX_PIECES, Piece};
use crate::error::Result;
use crate::pace::Pace;
use crate::session::ViewProgress;
use crate::verify::undisturbed;
use crate::writes::{MAX_LOOKS, busy};

/// Maximum number of records for which one step writes entries. Writes may wait for a step, which takes some
/// milliseconds.
const STEP_ROWS: u32 = 1_000;
/// Number of ranges of the base table that are filled concurrently.
const PARALLEL: usize = 4;

/// Work that fills the new views of one collection. All writers must already maintain the views, so that no
/// record is missed.
pub(super) struct Fill<'a> {
    build: &'a Build<'a>,
    core: Arc<CollectionCore>,
    views: Vec<ViewComparer>,
    kept: Covered<'a>,
    telling: Mutex<Telling>,
}

/// Progress of all ranges together, and the rate limit that they share.
struct Telling {
    progress: ViewProgress,
    pace: Pace,
}

impl<'a> Fill<'a> {
    pub(super) fn new(build: &'a Build<'a>, core: Arc<CollectionCore>, numbers: &[u64]) -> Self {
        let shared = build.shared;
        let views = numbers
            .iter()
            .filter_map(|number| ViewComparer::new(&core, ViewNumber(*number)));
        Self {
            views: views.collect(),
            kept: Covered::filling(shared, &core.definition.name, numbers),
            telling: Mutex::new(Telling {
                progress: build.told(&core.definition.name, numbers, "filling"),
                pace: Pace::new(build.options.rows_per_second, &shared.environment),
            }),
            build,
            core,
        }
    }

    /// Reads the base table and writes the entries of its records. Continues at the recorded positions, or
    /// begins at the start.
    pub(super) async fn run(&self) -> Result<()> {
        let pieces = self.pieces().await?;
        self.telling.lock().await.progress.rows = pieces.iter().map(|piece| piece.rows).sum();
        let left = pieces.into_iter().filter(|piece| !piece.is_done);
        let filled: Vec<BoxFuture<'_, Result<()>>> = left.map(|piece| self.fill(piece).boxed()).collect();
        stream::iter(filled)
            .buffer_unordered(PARALLEL)
            .try_collect()
            .await
    }

    async fn pieces(&self) -> Result<Vec<Piece>> {
        self.kept.prepare().await?;
        let pieces = self.kept.read().await?;
        if !pieces.is_empty() {
            return Ok(pieces);
        }
        let store = &self.build.shared.store;
        // A local store reads ranges one after another, so several ranges would save no time. One range also
        // avoids the search for the ends of ranges, which scans all keys.
        let asked = if store.limits().remote { MAX_PIECES / 2 } else { 1 };
        let pieces = Covered::split(&*store.snapshot()?, &self.core.base().table, asked).await?;
        self.kept.begin(&pieces).await?;
        Ok(pieces)
    }

    async fn fill(&self, mut piece: Piece) -> Result<()> {
        while !piece.is_done {
            let rows = self.step(&mut piece).await?;
            let wait = {
                let mut telling = self.telling.lock().await;
                telling.progress.rows += rows;
                (self.build.progress)(telling.progress.clone());
                telling.pace.after(rows, &self.build.shared.environment)
            };
            tokio::time::sleep(wait).await;
        }
        Ok(())
    }

    /// Writes the entries of the next records of a range. Returns the number of rows that were read.
    async fn step(&self, piece: &mut Piece) -> Result<u64> {
        for _ in 0..MAX_LOOKS {
            let Some(read) = self.copy(piece).await? else {
                continue;
            };
            let rows = read.rows.len() as u64;
            piece.rows += rows;
            piece.is_done = read.next.is_none();
            piece.after = read.next.or_else(|| piece.after.take());
            // The durable write of the progress also makes the entries of this step durable.
            self.kept.put(std::slice::from_ref(piece)).await?;
            return Ok(rows);
        }
        Err(busy("the buckets of a view"))
    }

    /// Reads the next records of a range and writes their entries. Returns `None` if rows of the view moved
    /// to other buckets during the writes, so that the caller must try again.
    async fn copy(&self, piece: &Piece) -> Result<Option<ScanRead>> {
        let shared = self.build.shared;
        let undisturbed = undisturbed(shared).await?;
        let looked_nanos = shared.environment.monotonic_nanos();
        let snapshot = shared.store.snapshot()?;
        let options = ReadOptions {
            stamps: true,
            ..shared.read_options()
        };
        let rows = self.telling.lock().await.pace.step_rows(STEP_ROWS);
        let (table, after) = (&self.core.base().table, piece.after.as_ref());
        let read = snapshot.scan(table, &piece.range, after, rows, &options).await?;
        drop(snapshot);
        let writes = self.writes(&read)?;
        let sent = send(shared, writes, true, Some(looked_nanos)).await?;
        drop(undisturbed);
        Ok((sent == Sent::Written).then_some(read))
    }

    fn writes(&self, read: &ScanRead) -> Result<Vec<recto_store::PartitionWrite>> {
        let mut writes = Vec::new();
        for (index, row) in read.rows.iter().enumerate() {
            let Some(first) = self.views.first() else { break };
            let written = first.written(&read.stamps, &read.ends_in_seconds, index);
            let Some(row) = first.row(row, written)? else {
                continue;
            };
            writes.extend(self.views.iter().filter_map(|view| view.put(&row)));
        }
        Ok(writes)
    }
}
