//! Chunks to the store, repeated until their outcome is known.

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

/// How long one attempt may take, unless the store was opened with a limit of its own.
pub(super) const WRITE_TIMEOUT: Duration = Duration::from_secs(60);

/// How often rows of a chunk are written anew, because others changed them, or the schema, meanwhile.
pub(super) const MAX_LOST: u32 = 100;

/// Why a row of a collection whose records are never changed is rejected.
pub(super) const CONFLICT: &str = "another record with its key is there already";

/// How a write ended that has ended.
pub(super) enum Settled<T> {
    Done(T),
    Refused(StoreError),
}

/// What a store answered.
pub(super) enum Answer<T> {
    Known(T),
    Unknown(StoreError),
    Refused(StoreError),
}

/// How asking ended.
pub(super) type Asked<T> = Result<Result<Answer<T>, StoreError>>;

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

/// Asks the same of a store until it is done or refused. `ask` makes the request for each attempt, if `check` lets it be sent.
///
/// # Errors
/// The store failed, or still does not take it when [`Policy::LOAD`] says that it is enough.
pub(super) async fn until_settled<'a, T>(
    shared: &Shared,
    check: impl Fn() -> Result<()>,
    ask: impl Fn() -> BoxFuture<'a, Asked<T>>,
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
    pub(super) became: Tally,
    /// Rows that the store does not take.
    pub(super) refused: Vec<RefusedRow>,
}

/// What became of a part of a chunk.
pub(super) enum Part {
    /// The rows of a collection that has no views.
    Met(RowsMet),
    Whole(Tally, Vec<RefusedRow>),
    /// Nothing is written: what is there is not what was assumed.
    Lost,
}

impl ChunkWriter {
    /// Writes a chunk. Where the store refuses, the halves are written apart, down to the rows
    /// it does refuse: these do not stop the others.
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
                    // Of fewer records fewer are changed before they are written.
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
        // Until its outcome is known no view is added that this does not write.
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

    async fn send_rows(&self, buffer: &Arc<Buffer>, chunk: Chunk) -> Asked<RowsMet> {
        let (buffer, plan) = (Arc::clone(buffer), Arc::clone(&self.plan));
        let (sizes, stamp) = (self.sizes, self.stamp);
        // Made for each attempt, so that no copy is kept while it waits.
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
    // The last of them is written first.
    [second, first]
        .into_iter()
        .filter(|half| half.start < half.end)
        .collect()
}

#[cold]
pub(super) fn busy() -> Error {
    Error::new(
        ErrorKind::Timeout,
        "the load stopped: others change the records that it writes, all the time",
    )
    .with_hint("the same load again goes on where this one stopped")
}
