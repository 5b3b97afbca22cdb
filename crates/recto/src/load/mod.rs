//! Loads of files into collections.
//!
//! One thread decompresses the file and splits it into records. A second thread converts the
//! records to rows, and sorts each buffer of rows by key. The load writes one buffer after another,
//! and records its progress after each. While the load writes one buffer, the second thread fills
//! the next one.
//!
//! | module | content |
//! |---|---|
//! | `source` | the file: format by its name, and decompression |
//! | `zip`, `zstd` | .zip and .zst files, behind the feature `full` |
//! | `records` | splitting of text into CSV records and lines |
//! | `plan` | fields of collections that the columns fill |
//! | `object` | splitting of a line of JSON into fields |
//! | `convert` | conversion of text and JSON to cells |
//! | `times` | dates and times in the forms of other programs |
//! | `literals` | literals of collections (lists, sets, maps) in the form of CQL |
//! | `rows` | conversion of records to rows and rejects |
//! | `buffer` | rows in key order, and their writes |
//! | `pipeline` | the two threads |
//! | `room` | splits of buckets (partitions of a table) before the load |
//! | `survey` | sample of a file's rows, from which `room` predicts the sizes of buckets |
//! | `write` | writes, repeated until their outcome is known |
//! | `whole` | creation of the writes of rows and of their entries in views |
//! | `part` | execution of the writes that `whole` creates |
//! | `changes` | rows that are written as separate changes |
//! | `rejects` | the reject file |
//! | `checkpoint` | progress of the load, kept in the store |
//!
//! **Guarantees for a resumed load.** A checkpoint is written durably, after the rows that it
//! counts are acknowledged and their rejects are synced to disk. Rows can be written relaxed:
//! acknowledged before they are on disk. The next checkpoint makes such rows durable. The write
//! timestamp of a row, in microseconds, is the timestamp of the load's beginning plus the index of
//! the row. This has three effects:
//!
//! - A repeated write of a row changes nothing.
//! - The last of several rows with one key wins.
//! - A later write by another client stays.
//!
//! For records that can change, this timestamp is the version.

mod buffer;
mod changes;
mod checkpoint;
mod convert;
#[cfg(feature = "fuzzing")]
pub(crate) mod fuzzing;
mod literals;
mod object;
mod part;
mod pipeline;
mod plan;
mod records;
mod rejects;
mod room;
mod rows;
mod source;
mod survey;
mod times;
mod whole;
mod write;
#[cfg(feature = "full")]
mod zip;
#[cfg(not(feature = "full"))]
#[path = "no_zip.rs"]
mod zip;
#[cfg(feature = "full")]
mod zstd;
#[cfg(not(feature = "full"))]
#[path = "no_zstd.rs"]
mod zstd;

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use futures::{StreamExt, TryStreamExt};
use recto_model::schema::WriteMode;
use recto_store::{Limits, Stamp};
use tokio::sync::Semaphore;
use tokio::time::{Interval, MissedTickBehavior};

use crate::core::CollectionCore;
use crate::error::{Error, ErrorKind, Result};
use crate::room::makes_room;
use crate::session::{LoadProgress, LoadReport, LoadRequest, Progress};
use buffer::{Buffer, RefusedRow, WriteSizes};
use checkpoint::{Checkpoint, State, Tally};
use pipeline::{Beginning, CancelOnDrop, Conversion, Counters, Deliveries, Delivery, blocking};
use plan::LoadPlan;
use records::Dialect;
use rejects::RejectFile;
use source::{Format, Source};
pub use source::{check_load_file, check_load_name, detect_load_ending};
use survey::Survey;
use write::ChunkWriter;

/// Default memory of a load for rows that are being sorted and written, in bytes.
pub(crate) const DEFAULT_BUFFER_BYTES: u64 = 256 << 20;

/// Minimum memory of a load in bytes. A request with a smaller value is rejected.
pub(crate) const MIN_BUFFER_BYTES: u64 = 64 << 10;

/// Maximum memory of a load in bytes. A request with a larger value is rejected.
pub(crate) const MAX_BUFFER_BYTES: u64 = 4 << 30;

/// Maximum number of concurrent calls to the store. One call is being committed, the next one
/// waits for the commit, and a third one is being prepared.
const CALLS_IN_FLIGHT: usize = 3;

/// Unit in which a load reserves memory for its calls to the store, in bytes.
const PAGE_BYTES: usize = 4 << 10;

/// Maximum memory of the rows of one call in bytes, unless a single row is larger.
const MAX_CHUNK_BYTES: usize = 16 << 20;

/// Maximum memory in bytes for the rows of a load that writes each row as a separate change. It is
/// small, so that a resumed load has to check few rows again.
const MAX_CHANGES_BUFFER_BYTES: u64 = 8 << 20;

/// Maximum memory of the rows of one call to a remote store, in bytes.
const MAX_REMOTE_CHUNK_BYTES: usize = 1 << 20;

/// Maximum size in bytes of one write to one partition of a local store. It is well below the limit
/// of the store.
const MAX_PARTITION_BYTES: usize = 1 << 20;

/// Maximum size in bytes of one write to one Cassandra partition. Cassandra warns of batches from 5
/// KiB on, and works best with small batches.
const MAX_REMOTE_PARTITION_BYTES: usize = 16 << 10;

/// Maximum number of rows in one write to one Cassandra partition.
const MAX_REMOTE_PARTITION_ROWS: usize = 50;

/// Interval between two progress reports of a load.
const PROGRESS_INTERVAL: Duration = Duration::from_millis(100);

/// Loads a file into collections of one store. Each row is stored in all of them.
///
/// Rows that a collection rejects are written to the reject file, and do not stop the load. An
/// interrupted load continues where it stopped. If the same load has finished before, it does
/// nothing, unless `request.again` is set.
///
/// # Errors
/// The file cannot be read or has an unsupported format, its columns do not fit, the reject file
/// cannot be written, or the store failed. Stored rows remain. Run the same load again to continue.
pub(crate) async fn load(
    collections: &[Arc<CollectionCore>],
    request: &LoadRequest,
    progress: Progress<'_, LoadProgress>,
) -> Result<LoadReport> {
    check_request(collections, request)?;
    collections.iter().try_for_each(|one| one.check_written_here())?;
    let (source, content) = find(request).await?;
    let counters = Arc::new(Counters::default());
    let (beginning, reading) =
        pipeline::read(Arc::clone(&source), Dialect::new(&request.csv), &counters).await?;
    let plan = Arc::new(plan_for(&beginning, collections, request)?);
    let rejects = RejectFile::new(
        request
            .rejects
            .clone()
            .unwrap_or_else(|| RejectFile::default_path(source.path(), plan.format)),
    );
    let checkpoint = Checkpoint::new(collections, request, source.path(), plan.format, &content);
    checkpoint.prepare().await?;
    let earlier = checkpoint.read().await?;
    if let Some(state) = earlier.as_ref().filter(|state| state.finished && !request.again) {
        return Ok(already_loaded(state, &plan, &rejects));
    }
    let made_bytes = earlier.as_ref().map(|state| state.reject_bytes);
    rejects.check_place(source.path(), made_bytes)?;
    let (mut state, rejects) = begin(earlier, collections, rejects).await?;
    checkpoint.write(&mut state).await?;

    let limits = collections[0].shared.store.limits();
    let mut buffer_bytes = request.buffer_bytes.unwrap_or(DEFAULT_BUFFER_BYTES);
    let mut written = collections.iter().map(|one| one.definition.writes);
    if !limits.transactions && written.any(|writes| writes == WriteMode::Update) {
        buffer_bytes = buffer_bytes.min(MAX_CHANGES_BUFFER_BYTES);
    }
    let sizes = Sizes::of(buffer_bytes, limits);
    let survey = makes_room(collections).then(|| Survey {
        source: Arc::clone(&source),
        plan: Arc::clone(&plan),
        limits,
        rows_done: state.rows,
        full_bytes: sizes.full_bytes,
    });
    let deliveries = pipeline::convert(
        reading,
        Conversion {
            plan: Arc::clone(&plan),
            limits,
            counters: Arc::clone(&counters),
            rows_done: state.rows,
            full_bytes: sizes.full_bytes,
            worth_bytes: sizes.worth_bytes,
        },
    )?;
    let writer = Arc::new(ChunkWriter {
        shared: Arc::clone(&collections[0].shared),
        plan: Arc::clone(&plan),
        sizes: sizes.write,
        options: collections[0].shared.load_options(write::WRITE_TIMEOUT, true),
        stamp: state.stamp,
    });
    let rows_resumed = state.rows;
    let mut load = Load {
        telling: Telling::new(progress, counters, source.bytes_total()),
        source,
        plan,
        checkpoint,
        writer,
        state,
        rejects: Some(rejects),
        bytes_done: 0,
    };
    if let Some(survey) = survey {
        load.make_room(survey).await?;
    }
    load.run(collections, deliveries).await?;
    let path = load.finish().await?;
    Ok(load.report(rows_resumed, path))
}

/// Opens the file of a request and verifies that a compressed file is complete. Returns the file
/// and the hash of its content.
async fn find(request: &LoadRequest) -> Result<(Arc<Source>, blake3::Hash)> {
    let guard = CancelOnDrop::default();
    let cancelled = guard.cancelled();
    let path = request.file.clone();
    blocking(move || {
        let source = Source::find(&path)?;
        let content = source.content_hash(&cancelled)?;
        source.check_whole(&cancelled)?;
        Ok((Arc::new(source), content))
    })
    .await
}

fn check_request(collections: &[Arc<CollectionCore>], request: &LoadRequest) -> Result<()> {
    let invalid = |message: String| Err(Error::new(ErrorKind::InvalidArgument, message));
    if collections.is_empty() {
        return invalid("the request names no collection to load into".to_owned());
    }
    for (index, collection) in collections.iter().enumerate() {
        let name = &collection.definition.name;
        if collections[..index]
            .iter()
            .any(|earlier| earlier.definition.name == *name)
        {
            return invalid(format!("collection {name} is named twice"));
        }
    }
    match request.buffer_bytes {
        Some(bytes) if !(MIN_BUFFER_BYTES..=MAX_BUFFER_BYTES).contains(&bytes) => invalid(format!(
            "a buffer has from {MIN_BUFFER_BYTES} to {MAX_BUFFER_BYTES} bytes, not {bytes}"
        )),
        _ => Ok(()),
    }
}

fn plan_for(
    beginning: &Beginning,
    collections: &[Arc<CollectionCore>],
    request: &LoadRequest,
) -> Result<LoadPlan> {
    match (beginning.format, &beginning.header) {
        (Format::Csv, Some((header, record))) => LoadPlan::csv(header, record, collections, request),
        _ => LoadPlan::ndjson(collections, request),
    }
}

/// Returns the state from which a load begins: the state of an interrupted load, or a new one.
async fn begin(
    earlier: Option<State>,
    collections: &[Arc<CollectionCore>],
    mut rejects: RejectFile,
) -> Result<(State, RejectFile)> {
    let shared = &collections[0].shared;
    let tables = checkpoint::tables_of(collections);
    let state = match earlier {
        None => return Ok((State::new(shared.stamps.next(), tables), rejects)),
        Some(state) if state.finished => {
            let stamp = shared.stamps.next().max(state.next_stamp());
            return Ok((state.anew(stamp, tables), rejects));
        }
        // A table was added after the earlier load, and it lacks the stored rows. Load all rows
        // again with their earlier timestamps, so that rows in the other tables stay as they are.
        Some(state) if !state.is_in(&tables) => return Ok((state.anew(state.stamp, tables), rejects)),
        Some(state) => state,
    };
    let length = state.reject_bytes;
    let (rejects, whole) = blocking(move || {
        let whole = rejects.resume(length)?;
        Ok((rejects, whole))
    })
    .await?;
    if whole {
        return Ok((state, rejects));
    }
    // The reject file is missing, so load all rows again to find the rejected rows. The stored rows
    // stay as they are, because they get their earlier timestamps again.
    Ok((state.anew(state.stamp, tables), rejects))
}

/// Division of a load's memory into buffers of rows and calls to the store.
struct Sizes {
    full_bytes: usize,
    worth_bytes: usize,
    write: WriteSizes,
}

impl Sizes {
    /// Divides the memory: two buffers of rows take three quarters, and calls to the store take the
    /// rest.
    fn of(buffer_bytes: u64, limits: Limits) -> Self {
        let all = usize::try_from(buffer_bytes).unwrap_or(usize::MAX);
        let full_bytes = all / 8 * 3;
        let chunk_bytes = all / 4 / CALLS_IN_FLIGHT;
        let write = if limits.remote {
            WriteSizes {
                chunk_bytes: chunk_bytes.min(MAX_REMOTE_CHUNK_BYTES),
                partition_bytes: MAX_REMOTE_PARTITION_BYTES.min(limits.mutation_bytes),
                partition_rows: MAX_REMOTE_PARTITION_ROWS,
            }
        } else {
            WriteSizes {
                chunk_bytes: chunk_bytes.min(MAX_CHUNK_BYTES),
                partition_bytes: MAX_PARTITION_BYTES.min(limits.mutation_bytes),
                partition_rows: usize::MAX,
            }
        };
        Self {
            full_bytes,
            worth_bytes: full_bytes / 6,
            write,
        }
    }
}

/// Reports the progress of a load, once in each [`PROGRESS_INTERVAL`].
struct Telling<'a> {
    progress: Progress<'a, LoadProgress>,
    ticks: Interval,
    counters: Arc<Counters>,
    bytes_total: u64,
}

impl<'a> Telling<'a> {
    fn new(progress: Progress<'a, LoadProgress>, counters: Arc<Counters>, bytes_total: u64) -> Self {
        let mut ticks = tokio::time::interval(PROGRESS_INTERVAL);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        Self {
            progress,
            ticks,
            counters,
            bytes_total,
        }
    }

    fn tell(&self, state: &State, bytes: u64) {
        let sum = |of: fn(&Tally) -> u64| state.tallies.iter().map(of).sum();
        (self.progress)(LoadProgress {
            rows_read: self.counters.rows_read.load(Ordering::Relaxed),
            rows_stored: sum(Tally::taken),
            rows_rejected: sum(|tally| tally.rejected),
            bytes_consumed: bytes.min(self.bytes_total),
            bytes_total: self.bytes_total,
        });
    }

    /// Waits for `work`, and reports progress while it runs.
    async fn during<T>(
        &mut self,
        state: &State,
        bytes: u64,
        work: impl Future<Output = Result<T>>,
    ) -> Result<T> {
        let mut work = std::pin::pin!(work);
        loop {
            tokio::select! {
                result = &mut work => return result,
                _ = self.ticks.tick() => self.tell(state, bytes),
            }
        }
    }
}

/// Memory that concurrent calls to the store share. A call that needs more than all of this memory
/// runs alone.
struct CallMemory {
    pages: Semaphore,
    all: u32,
}

impl CallMemory {
    fn new(bytes: usize) -> Self {
        let all = Self::pages_of(bytes).max(1);
        Self {
            pages: Semaphore::new(all as usize),
            all,
        }
    }

    fn pages_of(bytes: usize) -> u32 {
        u32::try_from(bytes / PAGE_BYTES).unwrap_or(u32::MAX)
    }

    /// Runs `work` once `bytes` of memory are free for it.
    async fn during<T>(&self, bytes: usize, work: impl Future<Output = T>) -> T {
        let pages = Self::pages_of(bytes).clamp(1, self.all);
        let _taken = self.pages.acquire_many(pages).await;
        work.await
    }
}

struct Load<'a> {
    telling: Telling<'a>,
    source: Arc<Source>,
    plan: Arc<LoadPlan>,
    checkpoint: Checkpoint,
    writer: Arc<ChunkWriter>,
    state: State,
    /// The reject file. `None` while a blocking task writes it.
    rejects: Option<RejectFile>,
    /// Number of bytes of the file, as stored on disk, up to the last row that `state` counts.
    bytes_done: u64,
}

impl Load<'_> {
    /// Splits buckets (partitions of a table) before the load, if a sample of the file's rows shows
    /// that they will become too large.
    async fn make_room(&mut self, survey: Survey) -> Result<()> {
        let writer = Arc::clone(&self.writer);
        let making = async {
            // Ignore errors here, because the load reports them when it reads the same rows.
            if let Ok(sampled) = survey.rows().await {
                drop(writer.make_room(&sampled).await);
            }
            Ok(())
        };
        self.telling.during(&self.state, self.bytes_done, making).await
    }

    async fn run(&mut self, collections: &[Arc<CollectionCore>], mut deliveries: Deliveries) -> Result<()> {
        loop {
            let next = deliveries.next();
            let Delivery {
                buffer,
                end,
                bytes_end,
            } = self.telling.during(&self.state, self.bytes_done, next).await?;
            let last_stamp = Stamp(self.state.stamp.0.saturating_add_unsigned(buffer.rows_end));
            collections[0].shared.stamps.skip_to(last_stamp);
            self.write(buffer, bytes_end).await?;
            match end {
                None => {}
                Some(Ok(())) => return Ok(()),
                Some(Err(error)) => return Err(error),
            }
        }
    }

    /// Stores the rows of a buffer, appends its rejected rows to the reject file, and writes a
    /// checkpoint.
    async fn write(&mut self, buffer: Arc<Buffer>, bytes_end: u64) -> Result<()> {
        let mut state = self.state.clone();
        let refused = self.write_rows(&buffer, bytes_end, &mut state).await?;
        for (tally, met) in state.tallies.iter_mut().zip(&buffer.met) {
            tally.replaced += met.replaced;
            tally.repeated += met.repeated;
        }
        for (target, reason) in buffer.rejects.iter().flat_map(|reject| &reject.reasons) {
            state.tallies[*target].reject(reason.class());
        }
        for row in buffer.refused.iter().chain(&refused) {
            state.tallies[row.target as usize].reject(row.class());
        }
        if !(buffer.rejects.is_empty() && buffer.refused.is_empty() && refused.is_empty()) {
            let file = self.rejects.take().ok_or_else(lost_reject_file)?;
            let append = append_rejects(file, Arc::clone(&self.plan), Arc::clone(&buffer), refused);
            let file = self.telling.during(&state, bytes_end, append).await?;
            state.reject_bytes = file.length();
            self.rejects = Some(file);
        }
        state.rows = buffer.rows_end;
        let told = state.clone();
        self.telling
            .during(&told, bytes_end, self.checkpoint.write(&mut state))
            .await?;
        self.state = state;
        self.bytes_done = bytes_end;
        Ok(())
    }

    /// Stores the rows of a buffer. Returns the rows that the store rejected.
    async fn write_rows(
        &mut self,
        buffer: &Arc<Buffer>,
        bytes_end: u64,
        state: &mut State,
    ) -> Result<Vec<RefusedRow>> {
        let Self { telling, writer, .. } = self;
        let mut refused = Vec::new();
        let (rows, mut rows_written) = (buffer.entries(), 0);
        let bytes_of_buffer = u128::from(bytes_end.saturating_sub(self.bytes_done));
        let mut bytes = self.bytes_done;
        let memory = CallMemory::new(CALLS_IN_FLIGHT * writer.sizes.chunk_bytes);
        let mut written = futures::stream::iter(buffer.chunks(&self.plan, writer.sizes))
            .map(|chunk| memory.during(chunk.bytes, writer.write(Arc::clone(buffer), chunk)))
            .buffer_unordered(CALLS_IN_FLIGHT);
        while let Some(chunk) = telling.during(state, bytes, written.try_next()).await? {
            state.tallies[chunk.target].add(&chunk.became);
            rows_written += chunk.became.taken() + chunk.refused.len() as u64;
            refused.extend(chunk.refused);
            // Count the stored share of this buffer as done, so that the remaining bytes predict
            // the remaining time.
            let share = bytes_of_buffer * u128::from(rows_written) / u128::from(rows.max(1));
            bytes = self.bytes_done + share as u64;
        }
        Ok(refused)
    }

    /// Renames the reject file to its final name, and records that the load is finished. Returns
    /// the final name; `None` if no row was rejected.
    async fn finish(&mut self) -> Result<Option<PathBuf>> {
        let source = Arc::clone(&self.source);
        let mut file = self.rejects.take().ok_or_else(lost_reject_file)?;
        let path = blocking(move || {
            source.check_unchanged()?;
            file.finish()
        })
        .await?;
        self.state.finished = true;
        self.checkpoint.write(&mut self.state).await?;
        self.telling.tell(&self.state, self.source.bytes_total());
        Ok(path)
    }

    fn report(&self, rows_resumed: u64, rejects: Option<PathBuf>) -> LoadReport {
        LoadReport {
            rejects,
            ..report(&self.state, &self.plan, rows_resumed)
        }
    }
}

/// Appends the rejected rows of a buffer to the reject file, in the order of the loaded file.
async fn append_rejects(
    mut file: RejectFile,
    plan: Arc<LoadPlan>,
    buffer: Arc<Buffer>,
    refused: Vec<RefusedRow>,
) -> Result<RejectFile> {
    blocking(move || {
        file.append(&plan, buffer.rejects_with(&plan, &refused))?;
        Ok(file)
    })
    .await
}

#[cold]
fn lost_reject_file() -> Error {
    Error::new(
        ErrorKind::Store,
        "the reject file of the load is missing after an earlier failure",
    )
    .with_hint("run the same load again to continue")
}

fn report(state: &State, plan: &LoadPlan, rows_resumed: u64) -> LoadReport {
    let targets = plan.targets.iter().zip(&state.tallies);
    LoadReport {
        rows_read: state.rows,
        rows_resumed,
        collections: targets
            .map(|(target, tally)| tally.report(target.name()))
            .collect(),
        rejects: None,
        already_loaded: false,
    }
}

/// Returns the report of a load that an earlier run has finished, with the results of that run.
fn already_loaded(state: &State, plan: &LoadPlan, rejects: &RejectFile) -> LoadReport {
    LoadReport {
        already_loaded: true,
        rejects: rejects.finished_path().filter(|_| state.reject_bytes > 0),
        ..report(state, plan, 0)
    }
}
