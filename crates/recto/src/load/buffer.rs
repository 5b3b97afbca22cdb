//! Buffers of converted rows, which are sorted by key before they are written.
//!
//! A buffer holds a contiguous range of the file's rows. It stores the cells of each row once. For
//! every collection, it has an entry per row with the encoded key. Writes in key order make the
//! embedded store's tree fast, and collect the rows of a partition for Cassandra.

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

/// Size of a segment of a buffer in bytes, at which the next segment begins. Full segments are not
/// moved when a buffer grows.
const SEGMENT_BYTES: usize = 1 << 20;

/// Memory of a cell in bytes, in addition to its content: the position of the cell.
const SPAN_BYTES: usize = 8;

/// Memory in bytes of the mutation that writes a row, in addition to the row's cells.
const ROW_WRITE_OVERHEAD_BYTES: usize = 320;

/// Memory in bytes of a row that may be rejected: its [`RefusedRow`], and a reference to it for
/// sorting.
const REFUSED_ROW_BYTES: usize = size_of::<RefusedRow>() + size_of::<&RefusedRow>();

/// Position of a row in the loaded file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Origin {
    /// Index of the row among all rows of the file, from 0, without the header.
    pub(super) row: u64,
    /// Line of the file on which the row begins, from 1.
    pub(super) line: u64,
}

#[derive(Debug)]
struct Segment {
    rows: RowSet,
    origins: Vec<Origin>,
    /// Encoded keys of the segment's rows, for all collections.
    keys: Vec<u8>,
}

/// Element of the list by which the rows of one collection are sorted. It refers to a row and to
/// the row's encoded key.
#[derive(Debug, Clone, Copy)]
struct Entry {
    /// First 8 bytes of the row's encoded key, as a number. Most comparisons of keys need only
    /// these 8 bytes.
    prefix: u64,
    segment: u32,
    row: u32,
    key_start: u32,
    key_length: u32,
}

/// Row of the buffer that a collection rejected. The text of the row is created only when the
/// rejection is reported. Every row of a file may be rejected, and their texts would take too much
/// memory.
#[derive(Debug)]
pub(super) struct RefusedRow {
    pub(super) target: u32,
    segment: u32,
    row: u32,
    /// Reason of the rejection; `None` if another record with the key exists.
    reason: Option<Box<Reason>>,
}

impl RefusedRow {
    /// Returns the reason under which the rejection is counted, without details of the row.
    pub(super) fn class(&self) -> &str {
        self.reason.as_ref().map_or(CONFLICT, |reason| reason.class())
    }
}

/// Range of one collection's rows, in key order, which are written together.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Chunk {
    pub(super) target: usize,
    pub(super) start: usize,
    pub(super) end: usize,
    /// Memory of the writes of the chunk's rows, in bytes.
    pub(super) bytes: usize,
}

/// Limits by which rows are grouped into writes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct WriteSizes {
    /// Maximum memory of the writes of one chunk, in bytes.
    pub(super) chunk_bytes: usize,
    /// Maximum size in bytes of the write of one partition, as a store counts bytes for its limits.
    pub(super) partition_bytes: usize,
    /// Maximum number of rows in the write of one partition.
    pub(super) partition_rows: usize,
}

/// Converted rows of a contiguous range of the loaded file.
#[derive(Debug)]
pub(super) struct Buffer {
    width: usize,
    segments: Vec<Segment>,
    /// For each collection, the list by which its rows are sorted.
    entries: Vec<Vec<Entry>>,
    /// Rows that could not be read or converted to records of a collection, in the order of the file.
    pub(super) rejects: Vec<Reject>,
    reject_bytes: usize,
    /// Rejected rows: in collections whose records never change, rows that differ from another row
    /// with their key.
    pub(super) refused: Vec<RefusedRow>,
    /// Number of rows that the store may still reject, for which memory is reserved.
    refusable_rows: usize,
    /// Number of rows of each collection that were left out because another row of the buffer has their key.
    pub(super) met: Vec<RowsMet>,
    /// Number of rows of the file from its beginning to the end of the buffer.
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

    /// Returns the allocated memory of the buffer in bytes, without the reserve of the last
    /// segment.
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

    /// Returns the number of rows in the buffer, summed over all collections.
    pub(super) fn entries(&self) -> u64 {
        self.entries.iter().map(Vec::len).sum::<usize>() as u64
    }

    /// Returns the number of rows in the buffer for the collection with index `target`.
    pub(super) fn entries_of(&self, target: usize) -> usize {
        self.entries[target].len()
    }

    pub(super) fn reject(&mut self, reject: Reject) {
        self.reject_bytes += reject.byte_len();
        self.rejects.push(reject);
    }

    /// Returns the row set to which the cells of the next row are added. The row must then be finished or abandoned.
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
            .expect("a segment exists since a row was begun")
    }

    /// Returns the converted cells of the row that was added last.
    pub(super) fn made(&self) -> RowRef<'_> {
        let segment = self.segments.last().expect("a row exists since it was added");
        segment.rows.row(segment.rows.len() - 1)
    }

    /// Adds the last row of the buffer to a collection.
    ///
    /// # Errors
    /// A value of the row cannot be part of a key. Nothing is added.
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

    /// Ends the addition of a row: stores the position that the row has in the file.
    pub(super) fn finish_row(&mut self, origin: Origin) {
        self.last().origins.push(origin);
    }

    /// Removes the row that was added last, because all collections rejected it.
    pub(super) fn abandon_row(&mut self) {
        let segment = self.last();
        let rows = segment.rows.len();
        segment.rows.truncate(rows - 1);
    }

    /// Sorts the rows of each collection by key. Rows of one key stay in the order of the file.
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

    /// Keeps one row of each key in each collection. The last row remains if records replace each
    /// other. If records never change, the first row remains, and rows that differ from it are
    /// rejected. The rows must be [sorted](Self::sort).
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

    /// Returns the rejection by the store of the row at `index` in the sorted rows of a collection.
    /// If `reason` is `None`, another record with the row's key exists.
    pub(super) fn refuse(&self, target: usize, index: usize, reason: Option<Reason>) -> RefusedRow {
        refused(target, &self.entries[target][index], reason)
    }

    /// Returns all rows that were not stored, including the rows that the store rejected
    /// (`refused`), in the order of the file.
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

    /// Divides the rows of each collection into chunks of about `chunk_bytes` of memory.
    pub(super) fn chunks(&self, plan: &LoadPlan, sizes: WriteSizes) -> Vec<Chunk> {
        let mut chunks = Vec::new();
        for (target, entries) in self.entries.iter().enumerate() {
            let columns = plan.targets[target].slots.len();
            let viewed = plan.targets[target].core.viewed.as_ref();
            let views = viewed.map_or(0, |viewed| viewed.views.views().len());
            // If the collection has views, count the row, its entries, and the stored record, which
            // may be as large as the row.
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

    /// Returns the rows of a chunk (a range of one collection's rows) in key order, with their
    /// positions in the file.
    pub(super) fn rows(&self, chunk: Chunk) -> impl Iterator<Item = (RowRef<'_>, Origin)> {
        let entries = &self.entries[chunk.target][chunk.start..chunk.end];
        entries.iter().map(|entry| self.at(entry))
    }

    /// Returns the writes of a chunk (a range of rows) of a collection without views, in which each
    /// record is one row.
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

/// Returns the write timestamp of a row. The timestamps follow the order of the file, so the last
/// row of a key wins. Each row adds one microsecond. Loading a row takes longer, so the timestamps
/// do not stay ahead of the clock.
pub(super) fn stamp(base: Stamp, origin: Origin) -> Stamp {
    Stamp(
        base.0
            .saturating_add(i64::try_from(origin.row).unwrap_or(i64::MAX)),
    )
}

/// Returns the write of one row, so that the caller can check it against the limits of a store.
pub(super) fn single_write(target: &Target, row: RowRef<'_>) -> PartitionWrite {
    let loaded = Loaded { target, row };
    PartitionWrite {
        table: target.table.clone(),
        partition: mutation::partition(&target.core, &loaded),
        mutations: vec![mutation::put(&target.core, &loaded, Stamp(0), None)],
    }
}

/// Returns the size in bytes of the write of one row, as a store counts bytes for its limits.
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

/// Converted row, seen as a record of one collection.
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

    /// Returns a buffer of test rows with different notes, and with the keys that `id_of` returns.
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

    /// Checks that rejected rows take no more memory than the buffer counted. The rows differ from
    /// other rows with their key, in the file or in the store.
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
            // Allow twice the counted size, because the vector of rejected rows doubles when it
            // grows. The text has a reserve, too.
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
