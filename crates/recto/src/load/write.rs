//! Writes of chunks (ranges of a collection's rows), which are repeated until their outcome is
//! known.

use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt;
use futures::future::BoxFuture;
use recto_model::schema::WriteMode;
use recto_store::{Atomicity, RowsMet, Stamp, StoreError, StoreErrorKind, WriteOptions, WriteOutcome};

use super::buffer::{Buffer, Chunk, RefusedRow, WriteSizes};
use super::checkpoint::Tally;
use super::convert::Reason;
use super::part::WholePart;
use super::pipeline::blocking;
use super::plan::LoadPlan;
use super::whole::fields_added;
use crate::error::{Error, ErrorKind, Result};
use crate::settle::{Attempt, Policy, settle};
use crate::shared::{Shared, Writing};

/// Maximum time of one attempt to write, unless the store was opened with its own limit.
pub(super) const WRITE_TIMEOUT: Duration = Duration::from_secs(60);

/// Maximum number of repeated attempts to write the rows of a chunk, while other clients change the
/// records or the schema.
pub(super) const MAX_LOST: u32 = 100;

/// Reason of the rejection of a row that differs from an existing record with its key.
pub(super) const CONFLICT: &str = "another record with its key is there already";

/// Known outcome of a write: the store applied or rejected the write.
pub(super) enum Settled<T> {
    Done(T),
    Refused(StoreError),
}

/// Response of a store to one attempt of a write. The outcome of the attempt may be unknown.
pub(super) enum Answer<T> {
    Known(T),
    Unknown(StoreError),
    Refused(StoreError),
}

/// Result of one attempt of a write. The outer error stops the load. The inner error is an error of
/// the store, after which the attempt may be repeated.
pub(super) type RequestResult<T> = Result<Result<Answer<T>, StoreError>>;

impl From<WriteOutcome> for Answer<RowsMet> {
    fn from(outcome: WriteOutcome) -> Self {
        match outcome {
            WriteOutcome::Done => Self::Known(RowsMet::default()),
            WriteOutcome::Counted(met) => Self::Known(met),
            WriteOutcome::Conflict(number) => Self::Known(RowsMet {
                conflicts: vec![number],
                ..RowsMet::default()
            }),
            WriteOutcome::Unknown(error) => Self::Unknown(error),
            WriteOutcome::Refused(error) => Self::Refused(error),
        }
    }
}

/// Repeats a request until its outcome is known. Before each attempt, `check` decides whether the
/// request may be sent. Then `ask` creates and sends the request.
///
/// # Errors
/// The store failed, or the outcome was still unknown after the time of [`Policy::LOAD`].
pub(super) async fn until_settled<'a, T>(
    shared: &Shared,
    check: impl Fn() -> Result<()>,
    ask: impl Fn() -> BoxFuture<'a, RequestResult<T>>,
) -> Result<Settled<T>> {
    let attempt = |_| {
        let asked = check().map(|()| ask());
        async {
            let asked = match asked {
                Ok(asked) => asked,
                Err(error) => return Attempt::Failed(error),
            };
            match asked.await {
                Ok(Ok(Answer::Known(known))) => Attempt::Known(Settled::Done(known)),
                Ok(Ok(Answer::Refused(error))) if error.kind() == StoreErrorKind::Invalid => {
                    Attempt::Known(Settled::Refused(error))
                }
                Ok(Ok(Answer::Unknown(error))) => Attempt::Unknown(error),
                Ok(Err(error)) if passes(error.kind()) => Attempt::Failed(stopped(error, None)),
                Ok(Ok(Answer::Refused(error)) | Err(error)) => Attempt::Refused(stopped(error, None)),
                Err(error) => Attempt::Refused(error),
            }
        }
    };
    let settled = settle(&shared.environment, Policy::LOAD, attempt).await;
    settled.map_err(|unsettled| unsettled.or(|unknown| stopped(unknown, Some(ErrorKind::OutcomeUnknown))))
}

fn passes(kind: StoreErrorKind) -> bool {
    matches!(kind, StoreErrorKind::Unavailable | StoreErrorKind::Timeout)
}

/// Converts an error of the store to the error of a load that stops. Stored rows remain, and
/// running the same load again continues after them.
#[cold]
fn stopped(error: StoreError, kind: Option<ErrorKind>) -> Error {
    let hint = error.hint().map(|hint| format!("{hint}; ")).unwrap_or_default();
    let message = format!("the load stopped: {error}");
    let kind = kind.unwrap_or_else(|| Error::from(StoreError::new(error.kind(), "")).kind());
    Error::new(kind, message)
        .with_hint(format!("{hint}run the same load again to continue"))
        .with_source(error)
}

/// Writer of chunks (ranges of a collection's rows) to the store.
pub(super) struct ChunkWriter {
    pub(super) shared: Arc<Shared>,
    pub(super) plan: Arc<LoadPlan>,
    pub(super) sizes: WriteSizes,
    pub(super) options: WriteOptions,
    pub(super) stamp: Stamp,
}

/// Result of writing a chunk (a range of a collection's rows).
pub(super) struct Written {
    pub(super) target: usize,
    pub(super) became: Tally,
    /// Rows that the store rejected.
    pub(super) refused: Vec<RefusedRow>,
}

/// Result of writing a part of a chunk (a range of a collection's rows).
pub(super) enum Part {
    /// The rows were written to a collection without views. Counts the rows that met a stored row
    /// with their key.
    Met(RowsMet),
    Whole(Tally, Vec<RefusedRow>),
    /// Nothing was written, because the stored records are not as the write expected.
    Lost,
}

impl ChunkWriter {
    /// Writes a chunk, a range of a collection's rows. If the store rejects the chunk, writes its
    /// halves separately, and finally single rows. A rejected row does not prevent the writes of
    /// other rows.
    pub(super) async fn write(&self, buffer: Arc<Buffer>, chunk: Chunk) -> Result<Written> {
        let mut written = Written {
            target: chunk.target,
            became: Tally::default(),
            refused: Vec::new(),
        };
        let (mut left, mut lost) = (vec![chunk], 0);
        while let Some(chunk) = left.pop() {
            let rows = chunk.end - chunk.start;
            match self.write_part(&buffer, chunk, lost > 0).await? {
                Settled::Done(Part::Met(met)) => {
                    let became = &mut written.became;
                    became.replaced += met.replaced;
                    became.repeated += met.repeated;
                    became.stored += rows as u64 - met.replaced - met.repeated - met.conflicts.len() as u64;
                    let conflicts = met.conflicts.into_iter().map(|number| chunk.start + number);
                    let conflicts = conflicts.map(|row| buffer.refuse(chunk.target, row, None));
                    written.refused.extend(conflicts);
                }
                Settled::Done(Part::Whole(became, refused)) => {
                    written.became.add(&became);
                    written.refused.extend(refused);
                }
                Settled::Done(Part::Lost) if lost < MAX_LOST => {
                    lost += 1;
                    self.shared.look_for_schema().await?;
                    // Try the same rows once more. After that, write their halves, because a
                    // smaller write is less likely to meet a change by another client.
                    left.extend(if lost == 1 { vec![chunk] } else { halves(chunk) });
                }
                Settled::Done(Part::Lost) => return Err(busy()),
                Settled::Refused(error) if rows == 1 => {
                    let reason = Reason::with_details("refused by the store", &format!(": {error}"));
                    let refused = buffer.refuse(chunk.target, chunk.start, Some(reason));
                    written.refused.push(refused);
                }
                Settled::Refused(_) => left.extend(halves(chunk)),
            }
        }
        Ok(written)
    }

    async fn write_part(&self, buffer: &Arc<Buffer>, chunk: Chunk, looks: bool) -> Result<Settled<Part>> {
        // Hold the guard `writing` until the outcome is known, so that no view can be added which
        // this write does not maintain.
        loop {
            let mode = self.plan.targets[chunk.target].core.definition.writes;
            let mut writing = match mode {
                WriteMode::Update => self.shared.writing().await,
                WriteMode::Append | WriteMode::Overwrite => {
                    self.shared.writing_plainly(WRITE_TIMEOUT).await?
                }
            };
            let settled = self.send_part(buffer, chunk, looks, &writing).await?;
            let is_all = writing.is_all(&self.shared, WRITE_TIMEOUT).await?;
            writing.ended();
            if is_all {
                return Ok(settled);
            }
        }
    }

    async fn send_part(
        &self,
        buffer: &Arc<Buffer>,
        chunk: Chunk,
        looks: bool,
        writing: &Writing<'_>,
    ) -> Result<Settled<Part>> {
        let core = &self.plan.targets[chunk.target].core;
        let Some(viewed) = core.viewed_now()? else {
            return self.write_rows(buffer, chunk, writing).await;
        };
        if !core.knows_all_of(&viewed.table) {
            return Err(fields_added(core));
        }
        let part = WholePart {
            writer: self,
            buffer,
            chunk,
            viewed: &viewed,
            under_way: writing,
        };
        part.write(looks).boxed().await
    }

    async fn write_rows(
        &self,
        buffer: &Arc<Buffer>,
        chunk: Chunk,
        writing: &Writing<'_>,
    ) -> Result<Settled<Part>> {
        let ask = || self.send_rows(buffer, chunk).boxed();
        Ok(
            match until_settled(&self.shared, || writing.check_lease(), ask).await? {
                Settled::Done(met) => Settled::Done(Part::Met(met)),
                Settled::Refused(error) => Settled::Refused(error),
            },
        )
    }

    async fn send_rows(&self, buffer: &Arc<Buffer>, chunk: Chunk) -> RequestResult<RowsMet> {
        let (buffer, plan) = (Arc::clone(buffer), Arc::clone(&self.plan));
        let (sizes, stamp) = (self.sizes, self.stamp);
        // Create the writes again for each attempt, so that no copy of them takes
        // memory during a wait.
        let writes = blocking(move || Ok(buffer.writes(&plan, chunk, sizes, stamp))).await?;
        let sent = self
            .shared
            .store
            .write_many(writes, Atomicity::Each, self.options);
        Ok(sent.await.map(Answer::from))
    }
}

fn halves(chunk: Chunk) -> Vec<Chunk> {
    let middle = chunk.start + (chunk.end - chunk.start) / 2;
    let first = Chunk { end: middle, ..chunk };
    let second = Chunk {
        start: middle,
        ..chunk
    };
    // The caller takes chunks from the end, so the first half comes last.
    [second, first]
        .into_iter()
        .filter(|half| half.start < half.end)
        .collect()
}

#[cold]
pub(super) fn busy() -> Error {
    Error::new(
        ErrorKind::Timeout,
        "the load stopped: other writers keep changing the records that it writes",
    )
    .with_hint("run the same load again to continue")
}
