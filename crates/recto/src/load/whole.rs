//! Creates the writes of rows with their entries in views, and counts the results.

use std::sync::Arc;

use recto_model::{Cells, RowRef};
use recto_protocol::views::change::RowOf;
use recto_protocol::views::collection::KeyCells;
use recto_protocol::views::{
    Arranged, Change, Entry, Misfit, Request, Version, ViewedCollection, transaction,
};
use recto_store::{Cas, Limits, PartitionWrite, Stamp};

use super::buffer::{Buffer, Chunk, Loaded, RefusedRow, stamp};
use super::checkpoint::Tally;
use super::convert::Reason;
use super::plan::Target;
use crate::catalog::Recorded;
use crate::core::CollectionCore;
use crate::entries::EntryWrites;
use crate::error::{Error, ErrorKind, Result};
use crate::viewed::Viewed;
use crate::writes::mutation::{self, BaseRow as _};
use crate::writes::{Transacting, does_not_fit, refusal_of};

/// Row of the base table that stores a record.
pub(super) type StoredRow = RowOf<ViewedCollection>;

/// Writes of a chunk's rows, and the counts that become valid when the writes are applied.
#[derive(Debug, Default)]
pub(super) struct Whole {
    /// Conditions under which the store applies the writes: the stored records have not changed.
    /// Empty for collections whose records never change.
    pub(super) conditions: Vec<Cas>,
    pub(super) writes: Vec<PartitionWrite>,
    /// For each written row, the index in `writes` after its last write.
    pub(super) row_ends: Vec<usize>,
    pub(super) became: Tally,
    /// Rows of the chunk that are rejected and not written, with the reasons.
    pub(super) refused: Vec<RefusedRow>,
}

impl Whole {
    /// Takes the writes in batches of whole rows. A batch has at most `max_bytes` bytes and `max_rows` rows, unless a
    /// single row is larger.
    pub(super) fn take_batches(&mut self, max_bytes: usize, max_rows: usize) -> Vec<Vec<PartitionWrite>> {
        let mut writes = std::mem::take(&mut self.writes).into_iter();
        let (mut batches, mut batch) = (Vec::new(), Vec::new());
        let (mut done, mut rows, mut bytes) = (0, 0, 0);
        for end in &self.row_ends {
            let row: Vec<PartitionWrite> = writes.by_ref().take(end - done).collect();
            let row_bytes: usize = row.iter().map(PartitionWrite::byte_len).sum();
            if rows > 0 && (rows == max_rows || bytes + row_bytes > max_bytes) {
                batches.push(std::mem::take(&mut batch));
                (rows, bytes) = (0, 0);
            }
            batch.extend(row);
            (done, rows, bytes) = (*end, rows + 1, bytes + row_bytes);
        }
        if rows > 0 {
            batches.push(batch);
        }
        batches
    }
}

/// Result of writing one row of the file to a collection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum RowResult {
    Stored,
    Replaced,
    Repeated,
    /// The row is not written, because another record with its key exists.
    Conflicts,
}

/// Parameters for the creation of the writes of rows in a collection with views.
pub(super) struct Writing<'a> {
    target: &'a Target,
    viewed: &'a Viewed,
    /// Name of each view in reports; `None` for a view that reports do not name.
    names: Vec<Option<&'a str>>,
    limits: Limits,
    now: i64,
}

/// Row of the file as a record of a collection, with its entries in views.
pub(super) struct Row<'a> {
    pub(super) loaded: Loaded<'a>,
    /// Cells of the record in the order of the collection's fields.
    pub(super) record: Cells,
    entries: Vec<Entry<KeyCells, Cells>>,
    pub(super) stamp: Stamp,
}

impl<'a> Writing<'a> {
    /// Creates the parameters for writes. `recorded` provides the names of the views.
    pub(super) fn new(target: &'a Target, viewed: &'a Viewed, recorded: &'a Recorded, now: i64) -> Self {
        let views = viewed.views.views().iter();
        Self {
            names: views
                .map(|view| recorded.views.told_name(view.number().0))
                .collect(),
            target,
            viewed,
            limits: target.core.shared.store.limits(),
            now,
        }
    }

    /// Returns the writes of a chunk, a range of a collection's rows. `base` is the write timestamp
    /// of the first row of the file. `there` has the stored record of each row; without it, the
    /// records are assumed not to exist.
    pub(super) fn writes(
        &self,
        buffer: &Buffer,
        chunk: Chunk,
        base: Stamp,
        there: Option<&[Option<StoredRow>]>,
    ) -> Result<Whole> {
        let mut whole = Whole::default();
        let rows = buffer.rows(chunk);
        for (number, (row, origin)) in rows.enumerate() {
            let row = self.row(row, stamp(base, origin));
            let there = there.and_then(|there| there[number].as_ref());
            let index = chunk.start + number;
            match self.add(&row, there, &mut whole) {
                Ok(RowResult::Conflicts) => whole.refused.push(buffer.refuse(chunk.target, index, None)),
                Ok(becomes) => self.count(&row, becomes, &mut whole.became),
                Err(error) if matches!(error.kind(), ErrorKind::LimitExceeded | ErrorKind::InvalidRecord) => {
                    let reason = Reason::general(error.message());
                    whole
                        .refused
                        .push(buffer.refuse(chunk.target, index, Some(reason)));
                }
                Err(error) => return Err(error),
            }
            if whole.row_ends.last().copied().unwrap_or(0) < whole.writes.len() {
                whole.row_ends.push(whole.writes.len());
            }
        }
        Ok(whole)
    }

    pub(super) fn row(&self, row: RowRef<'a>, stamp: Stamp) -> Row<'a> {
        let loaded = Loaded {
            target: self.target,
            row,
        };
        let columns = &self.target.core.base().column_of_field;
        let cell = |column: &Option<usize>| column.and_then(|column| loaded.cell(column));
        let record: Cells = columns.iter().map(cell).collect();
        Row {
            entries: self.viewed.views.entries(&record),
            loaded,
            record,
            stamp,
        }
    }

    /// Adds the writes of a row to `whole`, and returns the result of the row.
    fn add(&self, row: &Row<'_>, there: Option<&StoredRow>, whole: &mut Whole) -> Result<RowResult> {
        let core = &self.target.core;
        if self.viewed.base.is_some() {
            return self.add_change(row, there, whole);
        }
        if row.entries.len() < self.viewed.views.views().len()
            && let Some(misfit) = self.new_misfit(row, there)
        {
            return Err(does_not_fit(core, misfit));
        }
        let becomes = row.becomes(there, self.now);
        let stamp = match (core.replaces(), becomes) {
            (false, RowResult::Replaced) => return Ok(RowResult::Conflicts),
            // If records never change, a repeated put keeps the stored timestamp, because entries
            // with another timestamp would conflict.
            (false, _) => there.map_or(row.stamp, |there| Stamp(there.version.0)),
            (true, _) => row.stamp,
        };
        self.put(row, stamp, &mut whole.writes);
        Ok(becomes)
    }

    /// Returns a misfit that a row would create: a view or constraint that cannot store the new
    /// record. Returns `None` if the stored record already is a misfit of the same view or
    /// constraint.
    fn new_misfit(&self, row: &Row<'_>, there: Option<&StoredRow>) -> Option<Misfit> {
        let there = there.and_then(|there| there.record_at(self.now));
        self.viewed.views.new_misfit(there, &row.record)
    }

    /// Appends to `writes` the writes that store the row and its entries in views.
    fn put(&self, row: &Row<'_>, stamp: Stamp, writes: &mut Vec<PartitionWrite>) {
        let core = &self.target.core;
        writes.push(PartitionWrite {
            table: Arc::clone(&core.written),
            partition: mutation::partition(core, &row.loaded),
            mutations: vec![mutation::put(core, &row.loaded, stamp, None)],
        });
        let entries = EntryWrites::new(self.limits);
        writes.extend(row.entries.iter().filter_map(|entry| {
            let view = self.viewed.views.view(entry.key.view)?;
            let version = Version(stamp.0);
            if core.replaces() {
                entries.put(view, entry, version, None)
            } else {
                EntryWrites::insert(view, entry, version, None)
            }
        }));
    }

    /// Adds the writes of a row in a collection whose records change. The writes also remove the
    /// entries that the stored record has in views.
    fn add_change(&self, row: &Row<'_>, there: Option<&StoredRow>, whole: &mut Whole) -> Result<RowResult> {
        let (core, becomes) = (&self.target.core, row.becomes(there, self.now));
        let Some(base) = &self.viewed.base else {
            return Ok(becomes);
        };
        if row.stays(there, becomes) {
            return Ok(becomes);
        }
        let key = mutation::partition(core, &row.loaded);
        let asked = Request {
            change: Change::Put {
                record: row.record.clone(),
                expires_at: None,
            },
            if_version: None,
        };
        let change = transaction(&asked, there, &self.viewed.views, self.now, Version(row.stamp.0))
            .map_err(|refusal| refusal_of(core, &key, refusal))?;
        let transacting = Transacting {
            core,
            viewed: self.viewed,
            base,
            key: &key,
        };
        whole.writes.extend(transacting.writes(&change, self.now)?);
        whole.conditions.push(transacting.condition(change.expected));
        Ok(becomes)
    }

    pub(super) fn count(&self, row: &Row<'_>, becomes: RowResult, tally: &mut Tally) {
        match becomes {
            RowResult::Stored => tally.stored += 1,
            RowResult::Replaced => tally.replaced += 1,
            RowResult::Repeated => tally.repeated += 1,
            RowResult::Conflicts => {}
        }
        let views = self.viewed.views.views().iter().zip(&self.names);
        for (view, name) in views {
            let has_entry = || row.entries.iter().any(|entry| entry.key.view == view.number());
            if let Some(name) = name {
                tally.count_in_view(name, has_entry());
            }
        }
    }
}

impl Row<'_> {
    /// Returns the result that writing the row over the stored record `there` has.
    pub(super) fn becomes(&self, there: Option<&StoredRow>, now: i64) -> RowResult {
        let record = there.and_then(|there| Some((there, there.record_at(now)?)));
        match record {
            None => RowResult::Stored,
            // An earlier attempt of this load wrote the stored record, so the row counts as stored.
            Some((there, _)) if there.version.0 == self.stamp.0 => RowResult::Stored,
            Some((_, record)) if *record == self.record => RowResult::Repeated,
            Some(_) => RowResult::Replaced,
        }
    }

    /// Returns whether a row needs no write, in a collection whose records change. Either an
    /// earlier attempt of the load or a later change wrote the stored record, or the record is
    /// equal and has no TTL.
    pub(super) fn stays(&self, there: Option<&StoredRow>, becomes: RowResult) -> bool {
        there.is_some_and(|there| {
            there.version.0 >= self.stamp.0 || (becomes == RowResult::Repeated && there.expires_at.is_none())
        })
    }
}

/// Returns the error that fields were added to the collection during its load. The load does not
/// know the values of the added fields.
#[cold]
pub(super) fn fields_added(core: &CollectionCore) -> Error {
    Error::new(
        ErrorKind::SchemaMismatch,
        format!(
            "fields were added to {} while a file was loaded into it",
            core.definition.name
        ),
    )
    .with_hint("run the same load again to continue; stored rows are kept")
}
