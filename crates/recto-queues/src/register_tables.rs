//! Storage of three kinds of versioned cells (rows changed by compare-and-set) in their tables:
//! heads (manifests of shards), and the logs and states of segments. Also collects the data with
//! which commands to these cells are evaluated.

pub(crate) mod registry;
pub(crate) mod ring;

use std::collections::HashMap;
use std::sync::{Arc, Mutex, OnceLock, PoisonError, Weak};

use async_trait::async_trait;
use recto_model::{Bound, Cells, RowRef, Slice, Table};
use recto_protocol::queues::{
    Action, Address, BodyTable, Chunk, Event, Head, HeadContext, Leases, Log, LogContext, Order, Recent,
    Register, RegisterNumber, Round, Segment, Seq, State, StateContext, Version, expired_by, stored,
};
use recto_store::{Cas, CasCondition, Mutation, Operation, PointRead, RowAddress, Snapshot};

use crate::affinity::Conflicts;
use crate::body_format::Body;
use crate::cas_loop::{CasLoop, RegisterBackend, RegisterWrite};
use crate::context::QueueContext;
use crate::error::{QueueError, QueueErrorKind, Result};
use crate::idle_segments::IdleSegments;
use crate::options::NewestOptions;
use crate::tables::{
    COMPARED, CONTENT, body_partition, head_partition, mutation, register_partition, row_clustering,
};

/// Maximum number of rows that one read of a segment's log returns: more than a log has.
const MAX_LOG_ROWS: u32 = recto_protocol::queues::limits::MAX_SEGMENT_MESSAGES as u32 + 1;

/// Maximum number of reads of a log. A log is read again if its header and its rows are from
/// different times.
const MAX_LOG_READS: u32 = 3;

/// Storage of a shard's head (manifest), for its compare-and-set loop.
pub(crate) struct ManifestBackend {
    pub(crate) context: QueueContext,
    pub(crate) address: Address,
}

/// Storage of a live segment's log (list of the sent messages), for its compare-and-set loop.
pub(crate) struct LogBackend {
    pub(crate) context: QueueContext,
    pub(crate) address: Address,
    pub(crate) segment: Segment,
    pub(crate) register: RegisterNumber,
    /// Deduplication ids of the earlier segments of the shard. The first append of a message with a
    /// deduplication id reads these ids.
    pub(crate) recent: OnceLock<Recent>,
    /// Bodies of appends that are in progress. On a store with transactions, the write that appends
    /// the log rows also stores these bodies. The callers that wait for the appends own the bodies.
    pub(crate) bodies: Mutex<HashMap<Chunk, Vec<Weak<[Body]>>>>,
    /// Counters of conditional writes in the shard that failed because another process wrote first.
    pub(crate) conflicts: Arc<Conflicts>,
}

/// Storage of a live segment's state (which messages are resolved, claimed or moving), for its
/// compare-and-set loop.
pub(crate) struct ClaimsBackend {
    pub(crate) context: QueueContext,
    pub(crate) address: Address,
    pub(crate) segment: Segment,
    pub(crate) register: RegisterNumber,
    pub(crate) log: Arc<CasLoop<LogBackend>>,
    pub(crate) leases: Arc<Mutex<Leases>>,
    pub(crate) options: Arc<NewestOptions>,
    /// Groups of an ordered queue whose messages in the segment must wait for earlier segments, as
    /// the last poll found.
    pub(crate) order: Mutex<Option<Arc<Order>>>,
    /// Segments that polls and maintenance skip because their messages need no work yet.
    pub(crate) idle_segments: Arc<IdleSegments>,
    /// Counters of conditional writes in the shard that failed because another process wrote first.
    pub(crate) conflicts: Arc<Conflicts>,
}

#[async_trait]
impl RegisterBackend for ManifestBackend {
    type Register = Head;

    fn context(&self) -> &QueueContext {
        &self.context
    }

    fn step(&self, round: &mut Round<Head>, event: Event<Head>) -> Vec<Action<Head>> {
        let (ring, table) = self.context.ring.open_table();
        let context = HeadContext {
            ring,
            table,
            now: self.context.environment.now_micros(),
            protocol: self.context.protocol,
        };
        round.step(event, &context)
    }

    async fn read(&self, _: Option<Head>) -> Result<Head> {
        let (table, partition) = (&self.context.tables.heads, head_partition(self.address));
        let read = read_row(&self.context, table, partition, stored::decode_head).await?;
        Ok(read.unwrap_or_else(Head::absent))
    }

    /// Returns the request that replaces the head (shard manifest) `before` by `put`. On a store
    /// with transactions, the request also deletes the bodies of segments that `put` no longer
    /// lists.
    fn write_request(&self, before: &Head, put: &Head) -> RegisterWrite {
        let tables = &self.context.tables;
        let gone = before.live().iter().filter(|(segment, live)| {
            let is_stored = live.table == BodyTable(0) && !self.context.has_ring();
            is_stored && !put.live().contains_key(segment)
        });
        let delete = |(segment, _): (&Segment, _)| {
            tables.delete_bodies(BodyTable(0), body_partition(self.address, *segment))
        };
        let partition = head_partition(self.address);
        let (before, put, bytes) = (before.version(), put.version(), stored::encode_head(put));
        RegisterWrite {
            cas: replace_row(&tables.heads, partition, before, put, &bytes),
            plain: gone.map(delete).collect(),
        }
    }
}

#[async_trait]
impl RegisterBackend for LogBackend {
    type Register = Log;

    fn context(&self) -> &QueueContext {
        &self.context
    }

    fn step(&self, round: &mut Round<Log>, event: Event<Log>) -> Vec<Action<Log>> {
        let none = Recent::new();
        let context = LogContext {
            segment: self.segment,
            recent: self.recent.get().unwrap_or(&none),
            protocol: self.context.protocol,
        };
        round.step(event, &context)
    }

    async fn read(&self, copy: Option<Log>) -> Result<Log> {
        let copy = copy.unwrap_or_else(Log::absent);
        read_log(&self.context, self.address, self.register, &copy).await
    }

    fn count_conflict(&self) {
        self.conflicts.appends.add(1);
    }

    fn write_request(&self, before: &Log, put: &Log) -> RegisterWrite {
        let rows = put.rows_since(before);
        let tables = &self.context.tables;
        let bodies = self.bodies.lock().unwrap_or_else(PoisonError::into_inner);
        let mut plain = Vec::new();
        let mut mutations = vec![put_header(put.version(), &stored::encode_log_header(put))];
        for (number, row) in rows {
            let entries = stored::encode_log_row(self.segment, row);
            let put = Operation::Put {
                clustering: row_clustering(number),
                cells: std::iter::once(Some(&entries[..])).collect(),
                replace: true,
            };
            mutations.push(mutation(put, None));
            let mut waiting = bodies.get(&row.chunk).into_iter().flatten();
            if let Some(bodies) = waiting.find_map(Weak::upgrade) {
                let own = row.entries.iter().filter_map(|entry| {
                    let body = bodies.get(usize::from(entry.index))?;
                    Some((entry.index, body.as_bytes()))
                });
                let partition = body_partition(self.address, self.segment);
                plain.push(tables.put_bodies(BodyTable(0), partition, row.chunk, own));
            }
        }
        let cas = Cas {
            table: Arc::clone(&tables.logs),
            partition: register_partition(self.address, self.register),
            conditions: vec![condition(RowAddress::Static, before.version())],
            mutations,
        };
        RegisterWrite { cas, plain }
    }
}

#[async_trait]
impl RegisterBackend for ClaimsBackend {
    type Register = State;

    fn context(&self) -> &QueueContext {
        &self.context
    }

    fn step(&self, round: &mut Round<State>, event: Event<State>) -> Vec<Action<State>> {
        // Any command may make a message available earlier, so forget the time until which polls skip the
        // segment.
        self.idle_segments.forget(self.segment);
        self.with_context(|context| round.step(event, context))
    }

    async fn read(&self, _: Option<State>) -> Result<State> {
        let table = &self.context.tables.states;
        let partition = register_partition(self.address, self.register);
        let read = read_row(&self.context, table, partition, stored::decode_state).await?;
        Ok(read.unwrap_or_else(State::absent))
    }

    fn count_conflict(&self) {
        self.conflicts.claims.add(1);
    }

    fn write_request(&self, before: &State, put: &State) -> RegisterWrite {
        let table = &self.context.tables.states;
        let partition = register_partition(self.address, self.register);
        let (before, put, bytes) = (before.version(), put.version(), stored::encode_state(put));
        RegisterWrite {
            cas: replace_row(table, partition, before, put, &bytes),
            plain: Vec::new(),
        }
    }
}

impl ClaimsBackend {
    /// Calls `work` with the data that the state needs to evaluate claims, such as the log and the time.
    pub(crate) fn with_context<T>(&self, work: impl FnOnce(&StateContext<'_>) -> T) -> T {
        let absent = Log::absent();
        let order = self.order.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let options = self.options.get();
        let clock = self.context.clock();
        let expired_by = options
            .retention_seconds
            .filter(|retention| self.context.may_expire(*retention))
            .map(|retention| expired_by(retention, clock.wall));
        self.log.with_cached(|log| {
            let leases = self.leases.lock().unwrap_or_else(PoisonError::into_inner);
            work(&StateContext {
                segment: self.segment,
                log: log.unwrap_or(&absent),
                most_attempts: options.dead_letters.map(|dead_letters| dead_letters.attempts),
                expired_by,
                order: order.as_deref(),
                leases: &leases,
                clock,
                protocol: self.context.protocol,
            })
        })
    }
}

/// Reads the log in a versioned cell (row changed by compare-and-set), even if another segment uses
/// the cell now. Reads only rows that `copy` lacks.
pub(crate) async fn read_log(
    context: &QueueContext,
    address: Address,
    register: RegisterNumber,
    copy: &Log,
) -> Result<Log> {
    let mut read = 1;
    loop {
        match read_log_once(context, address, register, copy).await {
            // Read again: another segment may have begun to use the versioned cell between the reads of the
            // header and of the rows.
            Err(error) if error.kind() == QueueErrorKind::Corrupt && read < MAX_LOG_READS => read += 1,
            read => return read,
        }
    }
}

async fn read_log_once(
    context: &QueueContext,
    address: Address,
    register: RegisterNumber,
    copy: &Log,
) -> Result<Log> {
    let table = &context.tables.logs;
    let (options, partition) = (context.read_options(), register_partition(address, register));
    let snapshot = context.store.snapshot()?;
    let Some((version, content)) = read_header(context, &*snapshot, table, &partition).await? else {
        return Ok(Log::absent());
    };
    let header = stored::decode_log_header(version, &content)?;
    if header.needed_from(copy) == header.rows() {
        // The cached copy of the log has all rows, so no row has to be read.
        return Ok(stored::decode_log(header, copy, [])?);
    }
    // Read no rows behind the last row of the header. They may have been appended since, or may be
    // from earlier segments with this versioned cell.
    let mut slice = Slice {
        from: Bound::Before(row_clustering(header.needed_from(copy))),
        to: Bound::Before(row_clustering(header.rows())),
        ..Slice::from_start(table, partition, MAX_LOG_ROWS)
    };
    let column = table.columns().len() - 1;
    let row = |row: RowRef<'_>| {
        let number = row.get(table.partition().len())?;
        let number = i32::from_be_bytes(number.try_into().ok()?);
        Some((Seq::try_from(number).ok()?, row.get(column)?.to_vec()))
    };
    let mut rows = Vec::new();
    loop {
        let read = snapshot.slice(&slice, &options).await?;
        let read_rows: Option<Vec<_>> = read.rows.iter().map(row).collect();
        rows.extend(read_rows.ok_or_else(|| damaged(table))?);
        match rows.last() {
            Some((last, _)) if !read.exhausted => slice.from = Bound::After(row_clustering(*last)),
            _ => break,
        }
    }
    let rows = rows.iter().map(|(number, row)| (*number, &row[..]));
    Ok(stored::decode_log(header, copy, rows)?)
}

/// Reads the header of a versioned cell (row changed by compare-and-set) that has several rows: its
/// version, and the content of the static column. Returns `None` if the cell was never written.
pub(crate) async fn read_header(
    context: &QueueContext,
    snapshot: &dyn Snapshot,
    table: &Arc<Table>,
    partition: &Cells,
) -> Result<Option<(Version, Vec<u8>)>> {
    let options = context.read_options();
    let read = context
        .retry_unknown_table(|| snapshot.get_statics(table, partition, &options))
        .await?;
    let row = read.rows.iter().next();
    row.map(|row| header_at(row, 0, table)).transpose()
}

/// Returns the version and the content of a versioned cell (row changed by compare-and-set) from
/// the static columns of a row.
pub(crate) fn header_of(row: RowRef<'_>, table: &Table) -> Result<(Version, Vec<u8>)> {
    header_at(row, table.key_len(), table)
}

fn header_at(row: RowRef<'_>, first: usize, table: &Table) -> Result<(Version, Vec<u8>)> {
    let cell = |column: u16| row.get(first + usize::from(column));
    match (cell(COMPARED).and_then(as_version), cell(CONTENT)) {
        (Some(version), Some(content)) => Ok((version, content.to_vec())),
        _ => Err(damaged(table)),
    }
}

/// Returns the mutation that writes the header of a versioned cell (row changed by
/// compare-and-set): its version and content.
pub(crate) fn put_header(version: Version, content: &[u8]) -> Mutation {
    let put = Operation::PatchStatic {
        columns: vec![COMPARED, CONTENT],
        cells: [&version.to_be_bytes()[..], content]
            .into_iter()
            .map(Some)
            .collect(),
    };
    mutation(put, None)
}

/// Reads a versioned cell (row changed by compare-and-set) that is stored in a single row.
async fn read_row<R>(
    context: &QueueContext,
    table: &Arc<Table>,
    partition: Cells,
    decode: fn(Version, &[u8]) -> std::result::Result<R, recto_protocol::queues::StoredError>,
) -> Result<Option<R>> {
    let read = PointRead {
        table: Arc::clone(table),
        partition,
        clustering: Cells::new(),
    };
    let found = context
        .store
        .snapshot()?
        .get(&read, &context.read_options())
        .await?;
    let Some(row) = found.rows.iter().next() else {
        return Ok(None);
    };
    let first = table.key_len();
    let cell = |column: u16| row.get(first + usize::from(column));
    match (cell(COMPARED).and_then(as_version), cell(CONTENT)) {
        (Some(version), Some(content)) => Ok(Some(decode(version, content)?)),
        _ => Err(damaged(table)),
    }
}

fn replace_row(table: &Arc<Table>, partition: Cells, before: Version, put: Version, content: &[u8]) -> Cas {
    let put = Operation::Put {
        clustering: Cells::new(),
        cells: [content, &put.to_be_bytes()[..]].into_iter().map(Some).collect(),
        replace: true,
    };
    Cas {
        table: Arc::clone(table),
        partition,
        conditions: vec![condition(RowAddress::Row(Cells::new()), before)],
        mutations: vec![mutation(put, None)],
    }
}

/// Returns the condition that the cell still has the version `before`. Version 0 means that the cell was
/// never written.
pub(crate) fn condition(row: RowAddress, before: Version) -> CasCondition {
    CasCondition {
        row,
        column: COMPARED,
        expected: (before > 0).then(|| before.to_be_bytes().to_vec()),
    }
}

pub(crate) fn as_version(cell: &[u8]) -> Option<Version> {
    cell.try_into().ok().map(Version::from_be_bytes)
}

pub(crate) fn damaged(table: &Table) -> QueueError {
    let message = format!("a row of table {} is damaged: cells are missing", table.name());
    QueueError::new(QueueErrorKind::Corrupt, message).with_hint(
        "restore this table from a backup, or delete the queue: another program wrote to the table",
    )
}
