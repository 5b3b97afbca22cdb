//! Converted rows, gathered and put into key order before they are written.
//!
//! A buffer holds a contiguous range of the file's rows, each row's cells once, and for every
//! collection an entry per row with its encoded key. Writing in key order is what makes the
//! embedded store's tree fast, and gathers a partition's rows for Cassandra.

use std::borrow::Cow;

use recto_model::{Cells, RowRef, RowSet, key};
use recto_store::check::{CELL_OVERHEAD_BYTES, MAX_TRANSACTION_WRITES, MUTATION_OVERHEAD_BYTES};
use recto_store::{PartitionWrite, RowsMet, Stamp};

use super::convert::Reason;
use super::plan::{LoadPlan, Target};
use super::rejects::Reject;
use super::rows::row_text;
use super::write::CONFLICT;
use crate::writes::mutation::{self, BaseRow};

/// How much a piece of a buffer holds. Pieces of this size are not moved as a buffer grows.
const SEGMENT_BYTES: usize = 1 << 20;

/// What a cell is counted with beside its bytes: where it lies.
const SPAN_BYTES: usize = 8;

/// What a row being written is counted with beside its cells: the mutation around them.
const ROW_WRITE_OVERHEAD_BYTES: usize = 320;

/// What a row is counted with that may be refused: it is noted, and put into order among the others.
const REFUSED_ROW_BYTES: usize = size_of::<RefusedRow>() + size_of::<&RefusedRow>();

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

/// A row of the buffer that a collection did not take. Its text is made only when it is told of: a file may
/// have nothing but such rows.
#[derive(Debug)]
pub(super) struct RefusedRow {
    pub(super) target: u32,
    segment: u32,
    row: u32,
    /// Absent: another record with its key is there.
    reason: Option<Box<Reason>>,
}

impl RefusedRow {
    /// What it is counted under.
    pub(super) fn class(&self) -> &str {
        self.reason.as_ref().map_or(CONFLICT, |reason| reason.class())
    }
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
    /// Rows that could not be read, or made into rows of a collection, in the file's order.
    pub(super) rejects: Vec<Reject>,
    reject_bytes: usize,
    /// Rows that differ from another one with their key, where records are never changed.
    pub(super) refused: Vec<RefusedRow>,
    /// Of how many rows the store may say so.
    refusable_rows: usize,
    /// Per collection, how many rows were left out because another row of the buffer has their key.
    pub(super) met: Vec<RowsMet>,
    /// How many rows of the file there are up to its end.
    pub(super) rows_end: u64,
}

impl Buffer {
    pub(super) fn new(plan: &LoadPlan) -> Self {
        Self {
            width: plan.slots.len(),
            segments: Vec::new(),
            entries: vec![Vec::new(); plan.targets.len()],
            rejects: Vec::new(),
            reject_bytes: 0,
            refused: Vec::new(),
            refusable_rows: 0,
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
        let refused = self.refusable_rows * REFUSED_ROW_BYTES;
        whole + last + entries * size_of::<Entry>() + refused + self.reject_bytes
    }

    /// How many rows it has, all collections together.
    pub(super) fn entries(&self) -> u64 {
        self.entries.iter().map(Vec::len).sum::<usize>() as u64
    }

    /// How many rows of a collection it has.
    pub(super) fn entries_of(&self, target: usize) -> usize {
        self.entries[target].len()
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
        self.refusable_rows += usize::from(!plan.core.replaces() || plan.core.viewed.is_some());
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
    pub(super) fn keep_one_of_each_key(&mut self, plan: &LoadPlan) {
        for (index, target) in plan.targets.iter().enumerate() {
            let mut entries = std::mem::take(&mut self.entries[index]);
            let mut kept = 0_usize;
            for at in 0..entries.len() {
                let entry = entries[at];
                let Some(earlier) = kept
                    .checked_sub(1)
                    .map(|last| entries[last])
                    .filter(|earlier| self.have_one_key(earlier, &entry))
                else {
                    entries[kept] = entry;
                    kept += 1;
                    continue;
                };
                if target.is_same(self.at(&earlier).0, self.at(&entry).0) {
                    self.met[index].repeated += 1;
                } else if target.core.replaces() {
                    entries[kept - 1] = entry;
                    self.met[index].replaced += 1;
                } else {
                    self.refused.push(refused(index, &entry, None));
                }
            }
            entries.truncate(kept);
            self.entries[index] = entries;
        }
    }

    /// A row of a chunk as one that the store did not take; without a reason, because another record with
    /// its key is there.
    pub(super) fn refuse(&self, target: usize, index: usize, reason: Option<Reason>) -> RefusedRow {
        refused(target, &self.entries[target][index], reason)
    }

    /// All rows that were not taken, `refused` by the store among them, in the file's order.
    pub(super) fn rejects_with<'a>(
        &'a self,
        plan: &'a LoadPlan,
        refused: &'a [RefusedRow],
    ) -> impl Iterator<Item = Cow<'a, Reject>> {
        let place = |row: &RefusedRow| (self.origin(row), Some(row.target as usize));
        let mut rows: Vec<&RefusedRow> = self.refused.iter().chain(refused).collect();
        rows.sort_unstable_by_key(|row| place(row));
        let (mut rows, mut rejects) = (rows.into_iter().peekable(), self.rejects.iter().peekable());
        std::iter::from_fn(move || {
            let row_is_next = match (rows.peek(), rejects.peek()) {
                (Some(row), Some(reject)) => place(row) < reject.place(),
                (row, _) => row.is_some(),
            };
            if row_is_next {
                rows.next().map(|row| Cow::Owned(self.reject_of(plan, row)))
            } else {
                rejects.next().map(Cow::Borrowed)
            }
        })
    }

    fn origin(&self, row: &RefusedRow) -> Origin {
        self.segments[row.segment as usize].origins[row.row as usize]
    }

    fn reject_of(&self, plan: &LoadPlan, row: &RefusedRow) -> Reject {
        let target = row.target as usize;
        let cells = self.segments[row.segment as usize].rows.row(row.row as usize);
        let reason = row.reason.as_deref().cloned();
        Reject {
            origin: self.origin(row),
            content: row_text(plan, &plan.targets[target], cells).into(),
            readable: true,
            reasons: vec![(target, reason.unwrap_or_else(|| Reason::general(CONFLICT)))],
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

    /// All rows in pieces of about `chunk_bytes` of memory, collection by collection.
    pub(super) fn chunks(&self, plan: &LoadPlan, sizes: WriteSizes) -> Vec<Chunk> {
        let mut chunks = Vec::new();
        for (target, entries) in self.entries.iter().enumerate() {
            let columns = plan.targets[target].slots.len();
            let viewed = plan.targets[target].core.viewed.as_ref();
            let views = viewed.map_or(0, |viewed| viewed.views.views().len());
            // What is there of a record may be as much again.
            let copies = if viewed.is_some() { views + 2 } else { 1 };
            let most_rows = MAX_TRANSACTION_WRITES / (2 * views + 2);
            let (mut start, mut bytes) = (0, 0);
            for (index, entry) in entries.iter().enumerate() {
                let (row, _) = self.at(entry);
                bytes += copies * (row.byte_len() + columns * SPAN_BYTES + ROW_WRITE_OVERHEAD_BYTES);
                let is_full = bytes >= sizes.chunk_bytes || index + 1 - start >= most_rows;
                if is_full || index + 1 == entries.len() {
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

    /// The rows of a chunk.
    pub(super) fn rows(&self, chunk: Chunk) -> impl Iterator<Item = (RowRef<'_>, Origin)> {
        let entries = &self.entries[chunk.target][chunk.start..chunk.end];
        entries.iter().map(|entry| self.at(entry))
    }

    /// What a store is asked to write for a chunk of a collection whose records have one row each.
    pub(super) fn writes(
        &self,
        plan: &LoadPlan,
        chunk: Chunk,
        sizes: WriteSizes,
        base: Stamp,
    ) -> Vec<PartitionWrite> {
        let target = &plan.targets[chunk.target];
        let mut writes: Vec<PartitionWrite> = Vec::new();
        let mut bytes = 0;
        for (row, origin) in self.rows(chunk) {
            let loaded = Loaded { target, row };
            let mutation = mutation::put(&target.core, &loaded, stamp(base, origin), None);
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
                        partition: mutation::partition(&target.core, &loaded),
                        mutations: vec![mutation],
                    });
                }
            }
        }
        writes
    }
}

fn refused(target: usize, entry: &Entry, reason: Option<Reason>) -> RefusedRow {
    RefusedRow {
        target: target as u32,
        segment: entry.segment,
        row: entry.row,
        reason: reason.map(Box::new),
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
    let loaded = Loaded { target, row };
    PartitionWrite {
        table: target.table.clone(),
        partition: mutation::partition(&target.core, &loaded),
        mutations: vec![mutation::put(&target.core, &loaded, Stamp(0), None)],
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

fn same_partition(target: &Target, partition: &Cells, row: RowRef<'_>) -> bool {
    partition
        .iter()
        .enumerate()
        .all(|(column, cell)| cell == target.cell(row, column))
}

/// A converted row as a record of a collection.
pub(super) struct Loaded<'a> {
    pub(super) target: &'a Target,
    pub(super) row: RowRef<'a>,
}

impl BaseRow for Loaded<'_> {
    fn cell(&self, column: usize) -> Option<&[u8]> {
        self.target.cell(self.row, column)
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use std::sync::Arc;

    use recto_model::Environment;
    use recto_model::schema::Schema;
    use recto_store::memory::MemoryStore;

    use super::super::records::{Dialect, Splitter};
    use super::super::rejects::RejectFile;
    use super::super::rows::Converter;
    use super::super::source::Format;
    use super::*;
    use crate::session::LoadRequest;
    use crate::{OpenOptions, Recto};

    const SCHEMA: &str = r#"
[collection.events]
fields = { day = "text", id = "int", note = "text" }
key = ["day", "id"]
partition = ["day"]
writes = "append"
"#;
    const ROWS: usize = 4_000;

    /// A buffer of rows, each with a note of its own; every key `id_of` gives.
    fn filled(plan: &Arc<LoadPlan>, recto: &Recto, id_of: impl Fn(usize) -> usize) -> Buffer {
        let note = "n".repeat(1_000);
        let text: String = (0..ROWS)
            .map(|number| format!("mon,{},{number}{note}\n", id_of(number)))
            .collect();
        let mut converter = Converter::new(Arc::clone(plan), recto.store().limits());
        let (mut buffer, mut row) = (Buffer::new(plan), 0);
        let (mut splitter, mut input) = (Splitter::new(Format::Csv, Dialect::default()), text.as_bytes());
        while let Some(batch) = splitter.next_batch(&mut input).unwrap() {
            for record in &batch.records {
                assert_eq!(converter.convert(&batch.text, record, row, &mut buffer), 0);
                row += 1;
            }
        }
        assert_eq!(row, ROWS as u64);
        buffer
    }

    /// Rows that differ from others with their key, in the file or in the store, may be all there are: noting
    /// and telling them takes no more than they were counted with, and a piece of text.
    #[tokio::test]
    async fn refused_rows_take_the_memory_they_are_counted_with() {
        let store = Arc::new(MemoryStore::new(Environment::system()));
        let recto = Recto::with_store(store, OpenOptions::new()).await.unwrap();
        recto.apply(&Schema::parse(SCHEMA).unwrap()).await.unwrap();
        let core = recto.core("events").unwrap();
        let mut splitter = Splitter::new(Format::Csv, Dialect::default());
        let header = splitter.next_batch(&mut &b"day,id,note\n"[..]).unwrap().unwrap();
        let request = LoadRequest::default();
        let plan = LoadPlan::csv(b"day,id,note", &header.records[0], &[core], &request).unwrap();
        let plan = Arc::new(plan);
        let folder = tempfile::tempdir().unwrap();
        for (name, refused) in [("one key", ROWS - 1), ("keys that are there", ROWS)] {
            let mut buffer = filled(&plan, &recto, |number| if refused < ROWS { 1 } else { number });
            let counted = ROWS * REFUSED_ROW_BYTES;
            let whole = buffer.byte_len();
            assert!(whole > ROWS * 1_000 + counted, "{whole}");
            let path = folder.path().join(name);
            let mut file = RejectFile::new(path.clone());
            let taken = allocation_counter::measure(|| {
                buffer.sort();
                buffer.keep_one_of_each_key(&plan);
                let by_store = match refused {
                    ROWS => (0..ROWS).map(|index| buffer.refuse(0, index, None)).collect(),
                    _ => Vec::new(),
                };
                file.append(&plan, buffer.rejects_with(&plan, &by_store)).unwrap();
            });
            // The vector of refused rows doubles as it grows; a piece of text has reserve, too.
            let most = 2 * counted + (256 << 10);
            assert!(taken.bytes_max < most as u64, "{name}: {taken:?}, {most}");
            assert!(buffer.byte_len() <= whole);
            file.finish().unwrap();
            #[cfg(unix)]
            {
                let metadata = std::fs::metadata(&path).unwrap();
                let mode = std::os::unix::fs::PermissionsExt::mode(&metadata.permissions());
                assert_eq!(mode & 0o777, 0o600, "rejected rows are as private as stored ones");
            }
            let text = std::fs::read_to_string(path).unwrap();
            let numbers = text.lines().skip(1).map(|line| line.split(',').next().unwrap());
            let numbers: Vec<usize> = numbers.map(|number| number.parse().unwrap()).collect();
            let first = ROWS + 1 - refused;
            assert_eq!(numbers, (first..=ROWS).collect::<Vec<_>>(), "{name}");
        }
    }
}
