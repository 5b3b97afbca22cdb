//! Converted rows, gathered and put into key order before they are written.
//!
//! A buffer holds a contiguous range of the file's rows, each row's cells once, and for every
//! collection an entry per row with its encoded key. Writing in key order is what makes the
//! embedded store's tree fast, and gathers a partition's rows for Cassandra.

use recto_model::{Cells, RowRef, RowSet, key};
use recto_store::check::{CELL_OVERHEAD_BYTES, MUTATION_OVERHEAD_BYTES};
use recto_store::{Mutation, Operation, PartitionWrite, RowsMet, Stamp};

use super::convert::Reason;
use super::plan::{Plan, Target};
use super::rejects::Reject;
use super::rows::row_text;
use super::write::CONFLICT;

/// How much a piece of a buffer holds. Pieces of this size are not moved as a buffer grows.
const SEGMENT_BYTES: usize = 1 << 20;

/// What a cell is counted with beside its bytes: where it lies.
const SPAN_BYTES: usize = 8;

/// What a row being written is counted with beside its cells: the mutation around them.
const ROW_WRITE_OVERHEAD_BYTES: usize = 320;

/// Where a row of the file stands in it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Origin {
    /// Its number among the rows, from 0, without the header.
    pub(super) row: u64,
    /// The line it begins on, from 1.
    pub(super) line: u64,
}

#[derive(Debug)]
struct Segment {
    rows: RowSet,
    origins: Vec<Origin>,
    /// Encoded keys of its rows, of all collections.
    keys: Vec<u8>,
}

/// A row of one collection.
#[derive(Debug, Clone, Copy)]
struct Entry {
    /// The first bytes of its key, so that sorting seldom looks further.
    prefix: u64,
    segment: u32,
    row: u32,
    key_start: u32,
    key_length: u32,
}

/// A range of one collection's rows, in key order.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Chunk {
    pub(super) target: usize,
    pub(super) start: usize,
    pub(super) end: usize,
    /// The memory of its rows' writes.
    pub(super) bytes: usize,
}

/// How rows are grouped for writing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct WriteSizes {
    /// The memory of one call's rows.
    pub(super) chunk_bytes: usize,
    /// The bytes of one partition's write, as a store counts them.
    pub(super) partition_bytes: usize,
    /// The rows of one partition's write.
    pub(super) partition_rows: usize,
}

/// Rows of a contiguous range of the file.
#[derive(Debug)]
pub(super) struct Buffer {
    width: usize,
    segments: Vec<Segment>,
    /// Per collection.
    entries: Vec<Vec<Entry>>,
    pub(super) rejects: Vec<Reject>,
    reject_bytes: usize,
    /// Per collection, how many rows were left out because another row of the buffer has their key.
    pub(super) met: Vec<RowsMet>,
    /// How many rows of the file there are up to its end.
    pub(super) rows_end: u64,
}

impl Buffer {
    pub(super) fn new(plan: &Plan) -> Self {
        Self {
            width: plan.slots.len(),
            segments: Vec::new(),
            entries: vec![Vec::new(); plan.targets.len()],
            rejects: Vec::new(),
            reject_bytes: 0,
            met: vec![RowsMet::default(); plan.targets.len()],
            rows_end: 0,
        }
    }

    /// The memory it takes, as allocated but for what a segment has in reserve.
    pub(super) fn byte_len(&self) -> usize {
        let entries: usize = self.entries.iter().map(Vec::capacity).sum();
        let last = self
            .segments
            .last()
            .map_or(0, |segment| segment_bytes(self.width, segment));
        let whole = self.segments.len().saturating_sub(1) * SEGMENT_BYTES;
        whole + last + entries * size_of::<Entry>() + self.reject_bytes
    }

    /// How many rows it has, all collections together.
    pub(super) fn entries(&self) -> u64 {
        self.entries.iter().map(Vec::len).sum::<usize>() as u64
    }

    pub(super) fn reject(&mut self, reject: Reject) {
        self.reject_bytes += reject.byte_len();
        self.rejects.push(reject);
    }

    /// The row being made; its cells are pushed, and then it is finished or abandoned.
    pub(super) fn row(&mut self) -> &mut RowSet {
        let full = self
            .segments
            .last()
            .is_none_or(|segment| segment_bytes(self.width, segment) >= SEGMENT_BYTES);
        if full {
            self.segments.push(Segment {
                rows: RowSet::new(self.width),
                origins: Vec::new(),
                keys: Vec::new(),
            });
        }
        &mut self.last().rows
    }

    fn last(&mut self) -> &mut Segment {
        self.segments
            .last_mut()
            .expect("a row was begun, which makes a segment")
    }

    /// The cells of the row that was made last.
    pub(super) fn made(&self) -> RowRef<'_> {
        let segment = self.segments.last().expect("a row was made");
        segment.rows.row(segment.rows.len() - 1)
    }

    /// Adds the row made last to a collection.
    ///
    /// # Errors
    /// A part of its key cannot be one, and why; then nothing is added.
    pub(super) fn add(&mut self, target: usize, plan: &Target) -> Result<(), key::KeyError> {
        let number = self.segments.len() as u32 - 1;
        let Segment { rows, keys, .. } = self.last();
        let row_number = rows.len() - 1;
        let row = rows.row(row_number);
        let start = keys.len();
        if let Err(error) = encode_key(plan, row, keys) {
            keys.truncate(start);
            return Err(error);
        }
        let entry = Entry {
            prefix: prefix(&keys[start..]),
            segment: number,
            row: row_number as u32,
            key_start: start as u32,
            key_length: (keys.len() - start) as u32,
        };
        self.entries[target].push(entry);
        Ok(())
    }

    /// Says where the row made last stands in the file.
    pub(super) fn finish_row(&mut self, origin: Origin) {
        self.last().origins.push(origin);
    }

    /// Takes the row made last back; no collection has it.
    pub(super) fn abandon_row(&mut self) {
        let segment = self.last();
        let rows = segment.rows.len();
        segment.rows.truncate(rows - 1);
    }

    /// Puts each collection's rows into key order; rows of one key stay in the file's.
    pub(super) fn sort(&mut self) {
        for index in 0..self.entries.len() {
            let mut entries = std::mem::take(&mut self.entries[index]);
            entries.sort_unstable_by(|left, right| {
                left.prefix
                    .cmp(&right.prefix)
                    .then_with(|| self.key(left).cmp(self.key(right)))
                    .then_with(|| (left.segment, left.row).cmp(&(right.segment, right.row)))
            });
            self.entries[index] = entries;
        }
    }

    /// Leaves of the rows with one key one: the last, where records take each other's place; the
    /// first where they are never changed, and those that are not the same are rejected. They
    /// are [sorted](Self::sort).
    pub(super) fn keep_one_of_each_key(&mut self, plan: &Plan) {
        for (index, target) in plan.targets.iter().enumerate() {
            let entries = std::mem::take(&mut self.entries[index]);
            let mut kept: Vec<Entry> = Vec::with_capacity(entries.len());
            for entry in entries {
                let Some(earlier) = kept
                    .last_mut()
                    .filter(|earlier| self.have_one_key(earlier, &entry))
                else {
                    kept.push(entry);
                    continue;
                };
                let (row, origin) = self.at(&entry);
                if target.is_same(self.at(earlier).0, row) {
                    self.met[index].repeated += 1;
                } else if target.core.replaces() {
                    *earlier = entry;
                    self.met[index].replaced += 1;
                } else {
                    let reason = Reason::general(CONFLICT.to_owned());
                    let reject = Reject {
                        origin,
                        content: row_text(plan, target, row).into(),
                        readable: true,
                        reasons: vec![(index, reason)],
                    };
                    self.rejects.push(reject);
                }
            }
            self.entries[index] = kept;
        }
    }

    fn have_one_key(&self, left: &Entry, right: &Entry) -> bool {
        left.prefix == right.prefix && self.key(left) == self.key(right)
    }

    fn key(&self, entry: &Entry) -> &[u8] {
        let start = entry.key_start as usize;
        &self.segments[entry.segment as usize].keys[start..start + entry.key_length as usize]
    }

    fn at(&self, entry: &Entry) -> (RowRef<'_>, Origin) {
        let segment = &self.segments[entry.segment as usize];
        (
            segment.rows.row(entry.row as usize),
            segment.origins[entry.row as usize],
        )
    }

    /// The cells of a row of a chunk, and where it stands in the file.
    pub(super) fn get(&self, target: usize, index: usize) -> (RowRef<'_>, Origin) {
        self.at(&self.entries[target][index])
    }

    /// All rows in pieces of about `chunk_bytes` of memory, collection by collection.
    pub(super) fn chunks(&self, plan: &Plan, sizes: WriteSizes) -> Vec<Chunk> {
        let mut chunks = Vec::new();
        for (target, entries) in self.entries.iter().enumerate() {
            let columns = plan.targets[target].slots.len();
            let (mut start, mut bytes) = (0, 0);
            for (index, entry) in entries.iter().enumerate() {
                let (row, _) = self.at(entry);
                bytes += row.byte_len() + columns * SPAN_BYTES + ROW_WRITE_OVERHEAD_BYTES;
                if bytes >= sizes.chunk_bytes || index + 1 == entries.len() {
                    chunks.push(Chunk {
                        target,
                        start,
                        end: index + 1,
                        bytes,
                    });
                    (start, bytes) = (index + 1, 0);
                }
            }
        }
        chunks
    }

    /// What a store is asked to write for a chunk.
    pub(super) fn writes(
        &self,
        plan: &Plan,
        chunk: Chunk,
        sizes: WriteSizes,
        base: Stamp,
    ) -> Vec<PartitionWrite> {
        let target = &plan.targets[chunk.target];
        let mut writes: Vec<PartitionWrite> = Vec::new();
        let mut bytes = 0;
        for entry in &self.entries[chunk.target][chunk.start..chunk.end] {
            let (row, origin) = self.at(entry);
            let mutation = mutation(target, row, stamp(base, origin));
            let mutation_bytes = store_bytes(target, row);
            bytes += mutation_bytes;
            match writes.last_mut() {
                Some(write)
                    if bytes <= sizes.partition_bytes
                        && write.mutations.len() < sizes.partition_rows
                        && same_partition(target, &write.partition, row) =>
                {
                    write.mutations.push(mutation);
                }
                _ => {
                    bytes = mutation_bytes;
                    writes.push(PartitionWrite {
                        table: target.table.clone(),
                        partition: cells(target, row, 0..target.table.partition().len()),
                        mutations: vec![mutation],
                    });
                }
            }
        }
        writes
    }
}

/// When a row counts as written. Rows of one key stand in the file's order: the last one wins. A
/// row takes longer than a microsecond, so that no stamp is ahead of the clock for long.
pub(super) fn stamp(base: Stamp, origin: Origin) -> Stamp {
    Stamp(
        base.0
            .saturating_add(i64::try_from(origin.row).unwrap_or(i64::MAX)),
    )
}

/// A row as one write, to be checked against a store's limits.
pub(super) fn single_write(target: &Target, row: RowRef<'_>) -> PartitionWrite {
    PartitionWrite {
        table: target.table.clone(),
        partition: cells(target, row, 0..target.table.partition().len()),
        mutations: vec![mutation(target, row, Stamp(0))],
    }
}

/// The bytes of a row's write, as a store counts them.
pub(super) fn store_bytes(target: &Target, row: RowRef<'_>) -> usize {
    row.byte_len() + target.slots.len() * CELL_OVERHEAD_BYTES + MUTATION_OVERHEAD_BYTES
}

fn segment_bytes(width: usize, segment: &Segment) -> usize {
    let rows = segment.rows.len();
    segment.rows.byte_len() + rows * (width * SPAN_BYTES + size_of::<Origin>()) + segment.keys.len()
}

fn prefix(key: &[u8]) -> u64 {
    let mut bytes = [0; 8];
    let length = key.len().min(8);
    bytes[..length].copy_from_slice(&key[..length]);
    u64::from_be_bytes(bytes)
}

fn encode_key(target: &Target, row: RowRef<'_>, out: &mut Vec<u8>) -> Result<(), key::KeyError> {
    for (index, column) in target.table.columns()[..target.table.key_len()]
        .iter()
        .enumerate()
    {
        let cell = target.cell(row, index).ok_or(key::KeyError::Null)?;
        key::encode(&column.ty, target.core.base().direction(index), cell, out)?;
    }
    Ok(())
}

fn cells(target: &Target, row: RowRef<'_>, columns: std::ops::Range<usize>) -> Cells {
    let bytes = columns
        .clone()
        .filter_map(|column| target.cell(row, column))
        .map(<[u8]>::len)
        .sum();
    let mut cells = Cells::with_capacity(columns.len(), bytes);
    for column in columns {
        cells.push(target.cell(row, column));
    }
    cells
}

fn same_partition(target: &Target, partition: &Cells, row: RowRef<'_>) -> bool {
    partition
        .iter()
        .enumerate()
        .all(|(column, cell)| cell == target.cell(row, column))
}

fn mutation(target: &Target, row: RowRef<'_>, stamp: Stamp) -> Mutation {
    let table = &target.table;
    Mutation {
        operation: Operation::Put {
            clustering: cells(target, row, table.partition().len()..table.key_len()),
            cells: cells(target, row, table.key_len()..table.columns().len()),
            replace: target.core.replaces(),
        },
        stamp: Some(stamp),
        ttl_seconds: None,
    }
}
