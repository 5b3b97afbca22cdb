//! Comparison of one view with the records of its collection. Reads single entries (rows of the view) and
//! records, and writes entries that match their records.

use std::sync::Arc;

use recto_model::schema::Holds;
use recto_model::{Cells, RowRef, Table};
use recto_protocol::views::collection::{KeyCells, ViewTable};
use recto_protocol::views::row::Micros;
use recto_protocol::views::{
    Change, Entry, EntryOutcome, Mend, Request, Row, Seen, Version, ViewNumber, fill_until,
};
use recto_store::{
    Atomicity, ConsistencyLevel, PartitionWrite, PointRead, ReadOptions, RowsRead, Snapshot, StoreErrorKind,
    WriteOptions, WriteOutcome,
};

use crate::core::CollectionCore;
use crate::entries::EntryWrites;
use crate::error::{Error, ErrorKind, Result};
use crate::partition_store::PartitionStore;
use crate::settle::{Attempt, Policy, settle};
use crate::shared::Shared;
use crate::viewed::{Viewed, Written};

/// Position of a row: its table, its partition, and its clustering key.
type RowPosition<'t> = (&'t Arc<Table>, Cells, Cells);

/// Row of the base table: a record, its version and its expiry time.
pub(crate) type RecordRow = Row<Cells, KeyCells>;

/// Compares the entries (rows) of one view with the records of the base table, and creates the writes that
/// repair entries.
#[derive(Debug, Clone)]
pub(crate) struct ViewComparer {
    pub(crate) core: Arc<CollectionCore>,
    viewed: Arc<Viewed>,
    pub(crate) view: ViewTable,
    writes: EntryWrites,
}

/// Entry (row of a view) that a read found, with its write timestamp and expiry time.
#[derive(Debug)]
pub(crate) struct StoredEntry {
    pub(crate) seen: Seen<KeyCells, Cells>,
    pub(crate) written: Written,
}

impl ViewComparer {
    /// Returns the comparer of the view with the id `number`. Returns `None` if writes of the collection
    /// maintain no such view.
    pub(crate) fn new(core: &Arc<CollectionCore>, number: ViewNumber) -> Option<Self> {
        let viewed = core.viewed.clone()?;
        let view = viewed.views.view(number)?.clone();
        Some(Self {
            writes: EntryWrites::new(core.shared.store.limits()),
            core: Arc::clone(core),
            viewed,
            view,
        })
    }

    /// Returns the base table, which stores the records.
    pub(crate) fn base(&self) -> &Arc<Table> {
        &self.core.base().table
    }

    /// Returns whether records store their versions. Without a stored version, a read derives the version
    /// from the timestamps of the cells. A derived version can be older than the last write, because a null
    /// has no timestamp.
    pub(crate) fn has_versions(&self) -> bool {
        self.viewed.base.is_some()
    }

    /// Returns whether an entry or its record is below the retention bound of its table (rows below the bound
    /// are deleted). Rows are deleted bucket by bucket, and each table has its own bound. So a missing entry
    /// or record is then no fault.
    pub(crate) fn is_late(&self, entry: &KeyCells) -> Result<bool> {
        let Some((store, places)) = self.kept_for_a_time(entry) else {
            return Ok(false);
        };
        for (table, _, clustering) in &places {
            if store.is_late(table, clustering)? {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Returns whether [`is_late`](Self::is_late) is true, or the entry or its record is below the stored
    /// retention bound of its table. A process with a fast clock may have raised the stored bound further.
    pub(crate) async fn is_hidden(&self, entry: &KeyCells) -> Result<bool> {
        let Some((store, places)) = self.kept_for_a_time(entry) else {
            return Ok(false);
        };
        let time = self.core.shared.read_options().timeout;
        for (table, partition, clustering) in places {
            if store.is_hidden(table, (partition, &clustering), time).await? {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Returns the positions of an entry and of its record. Returns `None` if neither the view's table nor
    /// the base table has a retention bound (rows below the bound are deleted).
    fn kept_for_a_time(&self, entry: &KeyCells) -> Option<(&PartitionStore, [RowPosition<'_>; 2])> {
        let (view, base) = (self.view.table(), self.base());
        let is_kept = |table: &Table| {
            table
                .options()
                .buckets
                .is_some_and(|buckets| buckets.keep.is_some())
        };
        let store = self.core.shared.partitions.as_ref()?;
        if !is_kept(view) && !is_kept(base) {
            return None;
        }
        let (partition, clustering) = entry.in_table(view)?;
        let record = self.key_of_entry(entry);
        let (of_view, of_base) = (
            (view, partition, clustering),
            (base, record.partition, record.clustering),
        );
        Some((store, [of_view, of_base]))
    }

    /// Returns whether the store is a cluster. A cluster has other writers, and keeps tombstones (markers of
    /// deleted rows).
    pub(crate) fn is_remote(&self) -> bool {
        self.core.shared.store.limits().remote
    }

    /// Returns the record that a row of the base table stores, or `None` if there is no such row.
    pub(crate) fn row(&self, row: RowRef<'_>, written: Written) -> Result<Option<RecordRow>> {
        self.viewed.row(row, written)
    }

    /// Returns the entry that the view should have for a record. Returns `None` if the record has no entry.
    pub(crate) fn entry(&self, row: &RecordRow) -> Option<Entry<KeyCells, Cells>> {
        self.outcome(row)?.into_entry()
    }

    /// Derives the entry of a record, or the reason why the record has none. Returns `None` if there is no
    /// record.
    pub(crate) fn outcome(&self, row: &RecordRow) -> Option<EntryOutcome<KeyCells, Cells>> {
        self.viewed
            .views
            .outcome(self.view.number(), row.record.as_ref()?)
    }

    /// Returns the definitions of the collection's views, from which entries are derived.
    pub(crate) fn schema(&self) -> &recto_protocol::views::ViewedCollection {
        &self.viewed.views
    }

    /// Returns the write that puts the entry of a record into the view. Returns `None` if the record has no
    /// entry, or has expired.
    pub(crate) fn put(&self, row: &RecordRow) -> Option<PartitionWrite> {
        let now = self.core.shared.environment.now_micros();
        let number = self.view.number();
        let mend = fill_until(row, self.entries_until(row), number, &self.viewed.views, now)?;
        let Mend::Put {
            entry,
            version,
            ttl_seconds,
        } = mend
        else {
            return None;
        };
        self.writes.put(&self.view, &entry, version, ttl_seconds)
    }

    /// Returns the write that puts the entry of a record, with `stamp` as write timestamp instead of the
    /// record's version.
    pub(crate) fn put_at(&self, row: &RecordRow, stamp: Micros) -> Option<PartitionWrite> {
        let mut write = self.put(row)?;
        let behind = stamp - row.version.0;
        for mutation in &mut write.mutations {
            mutation.stamp = mutation.stamp.map(|own| recto_store::Stamp(own.0 + behind));
        }
        Some(write)
    }

    /// Returns the write that removes the entry with the given key, at the write timestamp `stamp`.
    pub(crate) fn remove(&self, key: &KeyCells, stamp: Micros) -> Option<PartitionWrite> {
        EntryWrites::remove(&self.view, key, Version(stamp))
    }

    /// Raises the version of a record above its previous version and above `above`. The fields of the record
    /// stay unchanged. The writer puts the record's entries again with the new version. If versions are
    /// the write timestamps of entries, only this method gives entries a newer timestamp. Returns the new
    /// version, or `None` if the change is rejected.
    pub(crate) async fn raise(&self, key: &RecordKey, above: Version) -> Result<Option<Version>> {
        let (core, raise) = (&self.core, Change::Raise(above));
        let (shared, name) = (&core.shared, &core.definition.name);
        let asked = Request {
            change: raise,
            if_version: None,
        };
        let time = shared.write_options().timeout;
        let raised = shared
            .writer
            .change(name, core.key_of(&key.partition), asked, time);
        Ok(raised.await?.ok().map(|changed| changed.version))
    }

    /// Returns the time at which the entries of a record expire. With stored versions on a cluster, the
    /// entries expire later than the record, because the clocks of several machines decide when the record
    /// expires.
    fn entries_until(&self, row: &RecordRow) -> Option<Micros> {
        if self.has_versions() && self.is_remote() {
            row.entries_until()
        } else {
            row.expires_at
        }
    }

    /// Reads the entry with the given key of the view.
    pub(crate) async fn read_entry(
        &self,
        snapshot: &dyn Snapshot,
        key: &KeyCells,
    ) -> Result<Option<StoredEntry>> {
        let Some(read) = self.read_of_entry(key) else {
            return Ok(None);
        };
        let found = snapshot.get(&read, &self.read_options(false)).await?;
        Ok(self.found_entry(&found))
    }

    /// Reads a record to decide about a write. On a cluster, a read of records with stored versions is
    /// serial, so the result has every decided conditional write.
    pub(crate) async fn read_record(
        &self,
        snapshot: &dyn Snapshot,
        key: &RecordKey,
    ) -> Result<Option<RecordRow>> {
        let found = snapshot
            .get(&self.read_of_record(key), &self.read_options(true))
            .await?;
        self.found_record(&found)
    }

    /// Reads the entries with the given keys of the view, in the order of `keys`. Sends as few requests as
    /// possible.
    pub(crate) async fn read_entries(
        &self,
        snapshot: &dyn Snapshot,
        keys: &[&KeyCells],
    ) -> Result<Vec<Option<StoredEntry>>> {
        let reads: Vec<_> = keys.iter().map(|key| self.read_of_entry(key)).collect();
        let present: Vec<PointRead> = reads.iter().flatten().cloned().collect();
        let found = snapshot.get_many(&present, &self.read_options(false)).await?;
        let mut found = found.iter();
        let entry = |read: &Option<PointRead>| {
            read.as_ref()?;
            self.found_entry(found.next()?)
        };
        Ok(reads.iter().map(entry).collect())
    }

    /// Reads records, in the order of `keys`. Sends as few requests as possible. The result may lack a
    /// conditional write that is under way.
    pub(crate) async fn read_records(
        &self,
        snapshot: &dyn Snapshot,
        keys: &[&RecordKey],
    ) -> Result<Vec<Option<RecordRow>>> {
        let reads: Vec<_> = keys.iter().map(|key| self.read_of_record(key)).collect();
        let found = snapshot.get_many(&reads, &self.read_options(false)).await?;
        found.iter().map(|found| self.found_record(found)).collect()
    }

    /// Returns the read of the entry with the given key. Returns `None` if `key` does not fit the view's
    /// table.
    fn read_of_entry(&self, key: &KeyCells) -> Option<PointRead> {
        let (partition, clustering) = key.in_table(self.view.table())?;
        Some(PointRead {
            table: Arc::clone(self.view.table()),
            partition,
            clustering,
        })
    }

    fn read_of_record(&self, key: &RecordKey) -> PointRead {
        PointRead {
            table: Arc::clone(self.base()),
            partition: key.partition.clone(),
            clustering: key.clustering.clone(),
        }
    }

    fn found_entry(&self, found: &RowsRead) -> Option<StoredEntry> {
        let written = self.written(&found.stamps, &found.ends_in_seconds, 0);
        let row = found.rows.iter().next()?;
        let seen = self.view.seen(row).or_else(|| self.view.unversioned(row))?;
        Some(StoredEntry { seen, written })
    }

    fn found_record(&self, found: &RowsRead) -> Result<Option<RecordRow>> {
        let written = self.written(&found.stamps, &found.ends_in_seconds, 0);
        match found.rows.iter().next() {
            Some(row) => self.row(row, written),
            None => Ok(None),
        }
    }

    /// Returns the write timestamp and the expiry time of the row at index `row` of a read.
    pub(crate) fn written(&self, stamps: &[Micros], ends: &[Option<u32>], row: usize) -> Written {
        let now = self.core.shared.environment.now_micros();
        let ends = ends.get(row).copied().flatten();
        Written {
            stamp: stamps.get(row).copied().unwrap_or(0),
            ends_at: ends.map(|seconds| now.saturating_add(i64::from(seconds) * 1_000_000)),
        }
    }

    /// Returns the options of a read. `decides` is true if the result of the read decides a write. On a
    /// cluster, such a read of records with stored versions is serial, because a quorum read may miss a
    /// decided conditional write.
    fn read_options(&self, decides: bool) -> ReadOptions {
        let shared = &self.core.shared;
        let is_serial = decides && self.has_versions() && self.is_remote();
        ReadOptions {
            consistency: is_serial.then_some(ConsistencyLevel::Serial),
            stamps: true,
            ..shared.read_options()
        }
    }

    /// Returns the key of the record that a row of the base table stores.
    pub(crate) fn key_of_row(&self, row: RowRef<'_>) -> RecordKey {
        let (table, cells) = (self.base(), |range: std::ops::Range<usize>| {
            range.map(|column| row.get(column)).collect()
        });
        let partition = table.partition().len();
        RecordKey {
            partition: cells(0..partition),
            clustering: cells(partition..table.key_len()),
        }
    }

    /// Returns the key of the record from which an entry was derived.
    pub(crate) fn key_of_entry(&self, entry: &KeyCells) -> RecordKey {
        let holds = self.view.holds();
        let cells: Vec<&[u8]> = entry.cells().collect();
        let cell = |held: &Holds| {
            let column = holds.iter().position(|one| one == held)?;
            cells.get(column).copied()
        };
        let table = self.base();
        let base = &self.core.base().holds[..table.key_len()];
        let (partition, clustering) = base.split_at(table.partition().len());
        RecordKey {
            partition: partition.iter().map(cell).collect(),
            clustering: clustering.iter().map(cell).collect(),
        }
    }

    /// Returns the key of a record as text for messages.
    pub(crate) fn key_text(&self, key: &RecordKey) -> String {
        self.core.key_text(&key.partition, &key.clustering)
    }
}

/// Key of a record, as cells (encoded values) of the base table's partition and clustering columns.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct RecordKey {
    partition: Cells,
    clustering: Cells,
}

/// Outcome of a request that writes rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use]
pub(crate) enum Sent {
    Written,
    /// Rows moved to other buckets after the caller read the records. The caller must read the records and
    /// write again.
    Moved,
    /// Nothing was written. In a collection whose records never change, a row with the same key and other
    /// content exists.
    Conflicts,
}

/// Writes rows, each in its own atomic write, and retries until they are written. If `relaxed` is true, the
/// rows become durable with the next durable write. `looked_nanos` is the start of the caller's read of the
/// records, in nanoseconds of the monotonic clock.
///
/// # Errors
/// The store failed, or still rejects the writes when [`Policy::LOAD`] ends the retries.
pub(crate) async fn send(
    shared: &Shared,
    writes: Vec<PartitionWrite>,
    relaxed: bool,
    looked_nanos: Option<u64>,
) -> Result<Sent> {
    let options = WriteOptions {
        relaxed,
        looked_nanos,
        ..shared.write_options()
    };
    match send_if(shared, writes, options, || Ok(())).await? {
        Sent::Conflicts => Err(Error::new(
            ErrorKind::Store,
            "the store mistook an entry for one of its own records",
        )),
        sent => Ok(sent),
    }
}

/// Writes rows, each in its own atomic write, and retries until they are written. Each attempt first runs
/// `check`, and sends the rows only if `check` succeeds.
///
/// # Errors
/// The errors of [`send`]. Or `check` still fails when the retries end.
pub(crate) async fn send_if(
    shared: &Shared,
    writes: Vec<PartitionWrite>,
    options: WriteOptions,
    check: impl Fn() -> Result<()>,
) -> Result<Sent> {
    if writes.is_empty() {
        return Ok(Sent::Written);
    }
    let attempt = |_| async {
        if let Err(error) = check() {
            return Attempt::Failed(error);
        }
        let sent = shared
            .store
            .write_many(writes.clone(), Atomicity::Each, options)
            .await;
        match sent {
            Ok(WriteOutcome::Done | WriteOutcome::Counted(_)) => Attempt::Known(Sent::Written),
            Ok(WriteOutcome::Unknown(error)) | Err(error) if error.kind() == StoreErrorKind::Moved => {
                Attempt::Known(Sent::Moved)
            }
            Ok(WriteOutcome::Unknown(error)) => Attempt::Unknown(error),
            Ok(WriteOutcome::Conflict(_)) => Attempt::Known(Sent::Conflicts),
            Err(error)
                if matches!(
                    error.kind(),
                    StoreErrorKind::Unavailable | StoreErrorKind::Timeout
                ) =>
            {
                Attempt::Failed(error.into())
            }
            Ok(WriteOutcome::Refused(error)) | Err(error) => Attempt::Refused(error.into()),
        }
    };
    let settled = settle(&shared.environment, Policy::LOAD, attempt).await;
    settled.map_err(|unsettled| {
        unsettled.or(|unknown| {
            Error::new(ErrorKind::OutcomeUnknown, "the rows may have been written")
                .with_hint("run the command again to continue it")
                .with_source(unknown)
        })
    })
}
