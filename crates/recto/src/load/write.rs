//! Chunks to the store, repeated until their outcome is known.

use std::sync::Arc;
use std::time::Duration;

use recto_store::{
    Atomicity, PartitionWrite, RowsMet, Stamp, StoreError, StoreErrorKind, WriteOptions, WriteOutcome,
};

use super::buffer::{Buffer, Chunk, RefusedRow, WriteSizes};
use super::convert::Reason;
use super::pipeline::blocking;
use super::plan::LoadPlan;
use crate::error::{Error, ErrorKind, Result};
use crate::settle::{Attempt, Policy, settle};
use crate::shared::Shared;

/// How long one attempt may take, unless the store was opened with a limit of its own.
pub(super) const WRITE_TIMEOUT: Duration = Duration::from_secs(60);

/// Why a row of a collection whose records are never changed is rejected.
pub(super) const CONFLICT: &str = "another record with its key is there already";

/// How a write ended that has ended.
pub(super) enum Settled {
    Done(RowsMet),
    Refused(StoreError),
}

/// Asks for the same writes until they are done or refused. `writes` makes them for each attempt.
///
/// # Errors
/// The store failed, or still does not take them when [`Policy::LOAD`] says that it is enough.
pub(super) async fn until_settled<F>(
    shared: &Shared,
    options: WriteOptions,
    writes: impl Fn() -> F,
) -> Result<Settled>
where
    F: Future<Output = Result<Vec<PartitionWrite>>>,
{
    let attempt = |_| {
        let writes = writes();
        async {
            let writes = match writes.await {
                Ok(writes) => writes,
                Err(error) => return Attempt::Refused(error),
            };
            match shared.store.write_many(writes, Atomicity::Each, options).await {
                Ok(WriteOutcome::Done) => Attempt::Known(Settled::Done(RowsMet::default())),
                Ok(WriteOutcome::Counted(met)) => Attempt::Known(Settled::Done(met)),
                Ok(WriteOutcome::Conflict(number)) => Attempt::Known(Settled::Done(RowsMet {
                    conflicts: vec![number],
                    ..RowsMet::default()
                })),
                Ok(WriteOutcome::Refused(error)) if error.kind() == StoreErrorKind::Invalid => {
                    Attempt::Known(Settled::Refused(error))
                }
                Ok(WriteOutcome::Unknown(error)) => Attempt::Unknown(error),
                Err(error) if passes(error.kind()) => Attempt::Failed(stopped(error, None)),
                Ok(WriteOutcome::Refused(error)) | Err(error) => Attempt::Refused(stopped(error, None)),
            }
        }
    };
    let settled = settle(&shared.environment, Policy::LOAD, attempt).await;
    settled.map_err(|unsettled| unsettled.or(|unknown| stopped(unknown, Some(ErrorKind::OutcomeUnknown))))
}

fn passes(kind: StoreErrorKind) -> bool {
    matches!(kind, StoreErrorKind::Unavailable | StoreErrorKind::Timeout)
}

/// The error of a load that stops; what is stored stays, and the same load goes on from there.
#[cold]
fn stopped(error: StoreError, kind: Option<ErrorKind>) -> Error {
    let hint = error.hint().map(|hint| format!("{hint}; ")).unwrap_or_default();
    let message = format!("the load stopped: {error}");
    let kind = kind.unwrap_or_else(|| Error::from(StoreError::new(error.kind(), "")).kind());
    Error::new(kind, message)
        .with_hint(format!(
            "{hint}the same load again goes on where this one stopped"
        ))
        .with_source(error)
}

/// What chunks are written with.
pub(super) struct ChunkWriter {
    pub(super) shared: Arc<Shared>,
    pub(super) plan: Arc<LoadPlan>,
    pub(super) sizes: WriteSizes,
    pub(super) options: WriteOptions,
    pub(super) stamp: Stamp,
}

/// What became of a chunk.
pub(super) struct Written {
    pub(super) target: usize,
    /// Rows of which there was no record, as far as the store tells.
    pub(super) stored: u64,
    /// Rows that took the place of another record.
    pub(super) replaced: u64,
    /// Rows whose record was there.
    pub(super) repeated: u64,
    /// Rows that the store does not take.
    pub(super) refused: Vec<RefusedRow>,
}

impl ChunkWriter {
    /// Writes a chunk. Where the store refuses, the halves are written apart, down to the rows
    /// it does refuse: these do not stop the others.
    pub(super) async fn write(&self, buffer: Arc<Buffer>, chunk: Chunk) -> Result<Written> {
        let mut written = Written {
            target: chunk.target,
            stored: 0,
            replaced: 0,
            repeated: 0,
            refused: Vec::new(),
        };
        let mut left = vec![chunk];
        while let Some(chunk) = left.pop() {
            let made = || self.make(&buffer, chunk);
            let outcome = until_settled(&self.shared, self.options, made).await?;
            let rows = chunk.end - chunk.start;
            match outcome {
                Settled::Done(met) => {
                    written.replaced += met.replaced;
                    written.repeated += met.repeated;
                    written.stored += rows as u64 - met.replaced - met.repeated - met.conflicts.len() as u64;
                    let conflicts = met.conflicts.into_iter().map(|number| chunk.start + number);
                    let conflicts = conflicts.map(|row| buffer.refuse(chunk.target, row, None));
                    written.refused.extend(conflicts);
                }
                Settled::Refused(error) if rows == 1 => {
                    let reason = Reason::with_details("refused by the store", &format!(": {error}"));
                    let refused = buffer.refuse(chunk.target, chunk.start, Some(reason));
                    written.refused.push(refused);
                }
                Settled::Refused(_) => {
                    let middle = chunk.start + rows / 2;
                    left.push(Chunk {
                        start: middle,
                        ..chunk
                    });
                    left.push(Chunk { end: middle, ..chunk });
                }
            }
        }
        Ok(written)
    }

    /// What the store is asked for; made for each attempt, so that no copy is kept while it waits.
    async fn make(&self, buffer: &Arc<Buffer>, chunk: Chunk) -> Result<Vec<PartitionWrite>> {
        let (buffer, plan, sizes, stamp) =
            (Arc::clone(buffer), Arc::clone(&self.plan), self.sizes, self.stamp);
        blocking(move || Ok(buffer.writes(&plan, chunk, sizes, stamp))).await
    }
}
