//! Writes of plain changes (changes without a condition on a version): rows of base tables and
//! entries of views.

use std::collections::HashMap;
use std::sync::Arc;

use recto_model::{Cells, Table};
use recto_protocol::views::collection::KeyCells;
use recto_protocol::views::{Arranged, Entry, EntryKey, FieldCells, Version};
use recto_store::{Limits, PartitionWrite, Stamp};

use super::ground::{Ground, Stored, is_by_key_only};
use super::{Pending, RowChange};
use crate::entries::EntryWrites;
use crate::viewed::Viewed;

/// Writes of plain changes, grouped by partition, with the origin of each mutation (change of a row).
#[derive(Debug, Default)]
pub(super) struct Plain {
    pub(super) writes: Vec<PartitionWrite>,
    /// For each write in `writes`, the origin of each of its mutations.
    pub(super) of: Vec<Vec<MutationOrigin>>,
}

/// Origin of a mutation (change of a row): the change of the batch that requires it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum MutationOrigin {
    /// The mutation writes the record of the change at this index in the batch.
    Record(usize),
    /// The mutation writes a view entry of the change at this index in the batch.
    Entry(usize),
}

impl MutationOrigin {
    /// Returns the index in the batch of the change that requires the mutation.
    pub(super) fn change(self) -> usize {
        match self {
            Self::Record(change) | Self::Entry(change) => change,
        }
    }
}

/// Position of a record: table, partition and clustering cells.
type Place = (String, Cells, Cells);

/// Collects the writes of plain changes, with one write for each partition.
pub(super) struct Gathering<'c> {
    pending: &'c [Pending],
    ground: &'c Ground,
    entries: EntryWrites,
    limits: Limits,
    plain: Plain,
    /// For each partition, the index of its write. The key is the name of the table, its number of columns,
    /// and the partition.
    by_partition: HashMap<(&'c str, usize, Cells), usize>,
    /// View entries of records that the batch puts. A later change of the batch may delete the same record,
    /// and must then delete these entries.
    put_before: HashMap<Place, Vec<EntryKey<KeyCells>>>,
}

impl<'c> Gathering<'c> {
    pub(super) fn new(pending: &'c [Pending], ground: &'c Ground, limits: Limits) -> Self {
        Self {
            pending,
            ground,
            entries: EntryWrites::new(limits),
            limits,
            plain: Plain::default(),
            by_partition: HashMap::new(),
            put_before: HashMap::new(),
        }
    }

    /// Returns the writes of the changes at a range of indexes of the batch.
    pub(super) fn writes_of(mut self, changes: std::ops::Range<usize>) -> Plain {
        for number in changes {
            let pending = &self.pending[number];
            let stamp = pending.stamp.expect("the value is present until it is sent");
            match &pending.change {
                RowChange::Put { cells, ttl_seconds } => self.put(number, cells, stamp, *ttl_seconds),
                RowChange::Delete { key } => self.delete(number, key, stamp),
            }
        }
        self.plain
    }

    fn put(&mut self, number: usize, cells: &Cells, stamp: Stamp, ttl_seconds: Option<u32>) {
        let (pending, ground) = (&self.pending[number], self.ground);
        let stored = ground.stored(number);
        // If the store detects conflicts, a repeated put keeps the stored timestamp, because
        // entries with another timestamp would conflict.
        let stamp = stored
            .filter(|_| self.limits.sees_conflicts)
            .and_then(|stored| stored.stamp)
            .map_or(stamp, Stamp);
        self.add_record(number, stamp);
        let Some(viewed) = ground.viewed(number) else {
            return;
        };
        let record = known_record(pending, cells, viewed, stored);
        let entries = viewed.views.entries(&record);
        for entry in &entries {
            self.add_entry(number, viewed, entry, (Version(stamp.0), ttl_seconds));
        }
        if is_deleted_by_its_record(pending, viewed) {
            let keys = entries.into_iter().map(|entry| entry.key);
            self.put_before.entry(pending.place()).or_default().extend(keys);
        }
    }

    fn delete(&mut self, number: usize, key: &Cells, stamp: Stamp) {
        let (pending, ground) = (&self.pending[number], self.ground);
        let Some(viewed) = ground.viewed(number) else {
            return self.add_record(number, stamp);
        };
        let (was_read, stored) = (ground.has_read(number), ground.stored(number));
        let mut keys = match stored {
            Some(stored) => viewed.views.keys(&stored.record),
            None if was_read => Vec::new(),
            None => viewed.views.keys(&pending.core.record_of(key)),
        };
        let before = is_deleted_by_its_record(pending, viewed)
            .then(|| self.put_before.remove(&pending.place()))
            .flatten();
        let is_there = stored.is_some() || before.is_some();
        keys.extend(before.into_iter().flatten());
        // In a store with transactions, do not delete a record that the read did not find, and that the batch
        // has not put before. The deletion could hit a record that another writer inserts after the read. The
        // view entries of that record are unknown, so they would stay. A store without transactions always gets
        // the deletion, which also hides earlier writes that are applied later.
        if !was_read || is_there || !self.limits.transactions {
            self.add_record(number, stamp);
        }
        for key in keys {
            let view = viewed.views.view(key.view);
            let write = view.and_then(|view| EntryWrites::remove(view, &key.key, Version(stamp.0)));
            self.add(
                MutationOrigin::Entry(number),
                view.map(|view| &**view.table()),
                write,
            );
        }
    }

    fn add_record(&mut self, number: usize, stamp: Stamp) {
        let pending = &self.pending[number];
        let write = PartitionWrite {
            table: Arc::clone(&pending.core.written),
            partition: pending.partition(),
            mutations: vec![pending.mutation(stamp)],
        };
        self.add(
            MutationOrigin::Record(number),
            Some(&pending.core.written),
            Some(write),
        );
    }

    fn add_entry(
        &mut self,
        number: usize,
        viewed: &'c Viewed,
        entry: &Entry<KeyCells, Cells>,
        (version, ttl_seconds): (Version, Option<u32>),
    ) {
        let Some(view) = viewed.views.view(entry.key.view) else {
            return;
        };
        let core = &self.pending[number].core;
        let is_known = |field| core.knows(field);
        let write = if !core.replaces() {
            EntryWrites::insert(view, entry, version, ttl_seconds)
        } else if core.knows_all_of(&viewed.table) {
            self.entries.put(view, entry, version, ttl_seconds)
        } else {
            EntryWrites::patch(view, entry, version, (ttl_seconds, is_known))
        };
        self.add(MutationOrigin::Entry(number), Some(view.table()), write);
    }

    fn add(&mut self, of: MutationOrigin, table: Option<&'c Table>, write: Option<PartitionWrite>) {
        let (Some(table), Some(write)) = (table, write) else {
            return;
        };
        let next = self.plain.writes.len();
        let place = (table.name(), table.columns().len(), write.partition.clone());
        let index = *self.by_partition.entry(place).or_insert(next);
        let of = std::iter::repeat_n(of, write.mutations.len());
        if index == next {
            self.plain.of.push(of.collect());
            self.plain.writes.push(write);
        } else {
            self.plain.of[index].extend(of);
            self.plain.writes[index].mutations.extend(write.mutations);
        }
    }
}

/// Returns whether entries of a record can be deleted only with the stored record, because their positions
/// depend on fields outside the key.
fn is_deleted_by_its_record(pending: &Pending, viewed: &Viewed) -> bool {
    !pending.core.replaces() && !is_by_key_only(&pending.core, viewed)
}

/// Returns the record of a put, from which its entries are derived. Fields that the record type does not know
/// get the stored values.
fn known_record(pending: &Pending, cells: &Cells, viewed: &Viewed, stored: Option<&Stored>) -> Cells {
    let record = pending.core.record_of(cells);
    let Some(stored) = stored else {
        return record;
    };
    let fields: Vec<usize> = (0..record.len())
        .filter(|field| pending.core.knows(*field))
        .collect();
    let known = FieldCells {
        cells: fields.iter().map(|&field| record.get(field)).collect(),
        fields,
    };
    viewed.views.patched(&stored.record, &known)
}

/// Returns whether a put would change the stored record, in the fields that the record type knows.
pub(super) fn is_another(pending: &Pending, stored: &Stored) -> bool {
    let record = match &pending.change {
        RowChange::Put { cells, .. } => pending.core.record_of(cells),
        RowChange::Delete { .. } => return false,
    };
    let mut known = (0..record.len()).filter(|field| pending.core.knows(*field));
    known.any(|field| stored.record.get(field) != record.get(field))
}
