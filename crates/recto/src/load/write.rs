//! Chunks to the store, repeated until their outcome is known.

use std::sync::Arc;
use std::time::Duration;

use recto_model::Environment;
use recto_store::{
    Atomicity, PartitionWrite, RowsMet, Stamp, Store, StoreError, StoreErrorKind, WriteOptions, WriteOutcome,
};

use super::buffer::{Buffer, Chunk, RefusedRow, WriteSizes};
use super::convert::Reason;
use super::pipeline::blocking;
use super::plan::Plan;
use crate::error::{Error, ErrorKind, Result};

/// For how long after it first failed a write is asked for again whose outcome is unknown, or that could
/// not be sent: for nodes that are away, or busy with themselves.
const MAX_FAILING: Duration = Duration::from_secs(30);

/// How long to wait before the second attempt; each further wait is twice as long.
const FIRST_WAIT: Duration = Duration::from_millis(100);

/// The longest wait before an attempt.
const MAX_WAIT: Duration = Duration::from_secs(2);

/// How long one attempt may take, unless the store was opened with a limit of its own.
pub(super) const WRITE_TIMEOUT: Duration = Duration::from_secs(60);

/// Why a row of a collection whose records are never changed is rejected.
pub(super) const CONFLICT: &str = "another record with its key is there already";

/// How a write ended that has ended.
pub(super) enum Settled {
    Done(RowsMet),
    Refused(StoreError),
}

/// Asks for the same writes until they are done or refused.
///
/// # Errors
/// The store failed, or still does not take it after [`MAX_FAILING`].
pub(super) async fn until_settled<F>(
    store: &Arc<dyn Store>,
    environment: &Environment,
    atomicity: Atomicity,
    options: WriteOptions,
    writes: impl Fn() -> F,
) -> Result<Settled>
where
    F: Future<Output = Result<Vec<PartitionWrite>>>,
{
    let mut wait = FIRST_WAIT;
    let mut failing_since_nanos = None;
    loop {
        let failure = match store.write_many(writes().await?, atomicity, options).await {
            Ok(WriteOutcome::Done) => return Ok(Settled::Done(RowsMet::default())),
            Ok(WriteOutcome::Counted(met)) => return Ok(Settled::Done(met)),
            Ok(WriteOutcome::Conflict(number)) => {
                let conflicts = vec![number];
                return Ok(Settled::Done(RowsMet {
                    conflicts,
                    ..RowsMet::default()
                }));
            }
            Ok(WriteOutcome::Refused(error)) if error.kind() == StoreErrorKind::Invalid => {
                return Ok(Settled::Refused(error));
            }
            Ok(WriteOutcome::Unknown(error)) => (error, Some(ErrorKind::OutcomeUnknown)),
            Err(error) if passes(error.kind()) => (error, None),
            Ok(WriteOutcome::Refused(error)) | Err(error) => return Err(stopped(error, None)),
        };
        let now_nanos = environment.monotonic_nanos();
        let since_nanos = *failing_since_nanos.get_or_insert(now_nanos);
        if Duration::from_nanos(now_nanos.saturating_sub(since_nanos)) >= MAX_FAILING {
            return Err(stopped(failure.0, failure.1));
        }
        tokio::time::sleep(wait).await;
        wait = MAX_WAIT.min(wait * 2);
    }
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
    pub(super) store: Arc<dyn Store>,
    pub(super) environment: Environment,
    pub(super) plan: Arc<Plan>,
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
            let (store, environment) = (&self.store, &self.environment);
            let outcome = until_settled(store, environment, Atomicity::Each, self.options, || {
                self.make(&buffer, chunk)
            })
            .await?;
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
