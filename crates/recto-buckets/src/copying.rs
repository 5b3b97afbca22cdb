//! Copies rows from one bucket to another, and deletes them in the old bucket. A row is copied as a whole
//! with its timestamp, its remaining lifetime and its sample.

use std::sync::Arc;

use futures::stream::{self, StreamExt, TryStreamExt};
use recto_model::{Bound, Cells, RowRef, Slice, Table};
use recto_protocol::buckets::{Bucket, Copying, Key, Sampling, Shard, Span};
use recto_store::{Mutation, Operation, PartitionWrite, ReadOptions, RowsRead, Stamp};

use crate::error::{PiecesError, PiecesErrorKind, Result};
use crate::holding::bytes_of;
use crate::limits::{
    MAX_COPIED_ROW_BYTES, MAX_COPIED_ROWS, MAX_COPIES_AT_ONCE, MAX_COUNTED_KEYS, MAX_STEP_TIME,
};
use crate::place::{PieceStore, Place, Undone};
use crate::samples::{self, Became};
use crate::tables::mutation;

/// Maximum number of bytes that a mutation is assumed to have in addition to its cells.
const MUTATION_BYTES: usize = 256;

/// Timestamp of a copied row whose own timestamp is unknown: another program wrote it, and all of its cells are null.
/// At this timestamp, the row replaces no other row, and revives no deleted row.
const UNKNOWN_STAMP: Stamp = Stamp(1);

/// Writes that copy a row from one bucket to another: the row, and its sample (stored key and size)
/// if it has one.
struct Copied {
    row: Mutation,
    sample: Option<Mutation>,
    bytes: usize,
}

impl PieceStore {
    /// Returns the partition with the stored definition of its table. The stored definition
    /// includes columns that other processes added, so that rows are copied with all columns.
    ///
    /// # Errors
    /// - The table does not exist, or has columns of types that Recto does not know.
    /// - The store did not answer in time.
    pub(crate) async fn as_stored(&self, place: &Place) -> Result<Place> {
        let tables = self.again(self.deadline(MAX_STEP_TIME), |_| async {
            Ok(self.store.list_tables().await?)
        });
        let name = place.pieced.table.name();
        let stored = tables.await?.into_iter().find(|table| table.name() == name);
        let Some(stored) = stored else {
            let message = format!("table {name} does not exist, or has columns of unknown types");
            return Err(PiecesError::new(PiecesErrorKind::Store, message));
        };
        Ok(Place {
            pieced: Arc::new(place.pieced.with_columns_of(&stored)?),
            partition: place.partition.clone(),
            id: Arc::clone(&place.id),
        })
    }

    /// Copies all rows of a span (range of keys) in small portions, so that other tasks run in
    /// between. `place` must come from [`as_stored`](Self::as_stored).
    ///
    /// # Errors
    /// Some rows cannot be read or written in time.
    pub(crate) async fn copy(&self, place: &Place, copying: &Copying, sampling: Sampling) -> Result<()> {
        let shards = place.pieced.shards.all();
        let copied: Vec<_> = shards
            .map(|shard| self.copy_shard(place, (copying, shard), sampling))
            .collect();
        let copied = stream::iter(copied).buffer_unordered(MAX_COPIES_AT_ONCE);
        copied.try_collect().await
    }

    async fn copy_shard(
        &self,
        place: &Place,
        (copying, shard): (&Copying, Shard),
        sampling: Sampling,
    ) -> Result<()> {
        let mut slice = slice_of(place, (copying.from, shard), &copying.span)?;
        loop {
            // Ignore the result: only a closed semaphore returns an error, and this one is never
            // closed.
            let _turn = self.copying.acquire().await;
            let read = self.read_rows(&slice).await?;
            self.put_rows(place, (copying.to, shard), sampling, &read).await?;
            self.counters.moved(read.bytes);
            let last = read.rows.iter().next_back();
            match last.filter(|_| !read.exhausted) {
                Some(last) => slice.from = Bound::After(clustering_of(&place.pieced.table, last)),
                None => return Ok(()),
            }
            tokio::task::yield_now().await;
        }
    }

    /// Returns the sorted keys of all rows of a bucket within a span (range of keys), or `None` if
    /// there are more than [`MAX_COUNTED_KEYS`].
    ///
    /// # Errors
    /// The rows cannot be read in time.
    pub(crate) async fn keys(&self, place: &Place, bucket: Bucket, span: &Span) -> Result<Option<Vec<Key>>> {
        let mut keys = Vec::new();
        for shard in place.pieced.shards.all() {
            let mut slice = slice_of(place, (bucket, shard), span)?;
            loop {
                let _turn = self.copying.acquire().await;
                let read = self.read_rows(&slice).await?;
                for row in read.rows.iter() {
                    keys.push(place.key(&clustering_of(&place.pieced.table, row))?);
                }
                if keys.len() > MAX_COUNTED_KEYS {
                    return Ok(None);
                }
                let last = read.rows.iter().next_back();
                match last.filter(|_| !read.exhausted) {
                    Some(last) => slice.from = Bound::After(clustering_of(&place.pieced.table, last)),
                    None => break,
                }
                tokio::task::yield_now().await;
            }
        }
        // Sort, because the keys are ordered only within each shard.
        keys.sort();
        Ok(Some(keys))
    }

    pub(crate) async fn read_rows(&self, slice: &Slice) -> Result<RowsRead> {
        let options = ReadOptions {
            stamps: true,
            max_bytes: MAX_COPIED_ROW_BYTES,
            ..ReadOptions::default()
        };
        self.read_slice(slice, options, self.deadline(MAX_STEP_TIME))
            .await
    }

    /// Writes copies of rows. Writes their samples (stored keys and sizes of some rows) first. Each
    /// request has as many rows as its size allows.
    async fn put_rows(
        &self,
        place: &Place,
        to: (Bucket, Shard),
        sampling: Sampling,
        read: &RowsRead,
    ) -> Result<()> {
        let times = read.stamps.iter().zip(&read.ends_in_seconds);
        let most = self.store.limits().mutation_bytes / 2;
        let (mut copied, mut bytes) = (Vec::new(), 0);
        for (row, (stamp, ends)) in read.rows.iter().zip(times) {
            let one = copied_row(place, row, Stamp(*stamp), *ends, sampling)?;
            if bytes + one.bytes > most && !copied.is_empty() {
                self.put(place, to, std::mem::take(&mut copied)).await?;
                bytes = 0;
            }
            bytes += one.bytes;
            copied.push(one);
        }
        self.put(place, to, copied).await
    }

    async fn put(&self, place: &Place, to: (Bucket, Shard), copied: Vec<Copied>) -> Result<()> {
        let (mut rows, mut samples) = (Vec::new(), Vec::new());
        for one in copied {
            rows.push(one.row);
            samples.extend(one.sample);
        }
        if !samples.is_empty() {
            self.write_step(self.samples_write(place, to.0, samples)).await?;
        }
        if rows.is_empty() {
            return Ok(());
        }
        self.write_step(rows_write(place, to, rows)).await
    }

    /// Deletes the rows and the samples (stored keys and sizes of some rows) of a bucket within a
    /// range of keys. No process reads these keys from this bucket.
    ///
    /// # Errors
    /// The deletion was not confirmed in time.
    pub(crate) async fn delete(&self, place: &Place, bucket: Bucket, span: &Span) -> Result<()> {
        self.delete_at(place, (bucket, span), (self.stamps)()).await
    }

    /// Deletes the rows and the samples of a bucket within a span (range of keys), at the write
    /// timestamp `stamp`.
    ///
    /// # Errors
    /// The deletion was not confirmed in time.
    pub(crate) async fn delete_at(
        &self,
        place: &Place,
        (bucket, span): (Bucket, &Span),
        stamp: Stamp,
    ) -> Result<()> {
        let (from, to) = place.pieced.bounds(span)?;
        let rows = mutation(Operation::DeleteRange { from, to }, stamp, None);
        let edge = |key: &[u8]| Bound::Before(std::iter::once(Some(key)).collect());
        let range = Operation::DeleteRange {
            from: edge(&span.start),
            to: span.end.as_deref().map_or(Bound::end(), edge),
        };
        let samples = mutation(range, stamp, None);
        for shard in place.pieced.shards.all() {
            self.write_step(rows_write(place, (bucket, shard), vec![rows.clone()]))
                .await?;
        }
        self.write_step(self.samples_write(place, bucket, vec![samples]))
            .await
    }

    /// Sends a write of a step of a split, and retries it until it is done.
    pub(crate) async fn write_step(&self, write: PartitionWrite) -> Result<()> {
        let written = self.write(write, self.deadline(MAX_STEP_TIME)).await;
        written.map_err(|Undone { error, .. }| error)
    }
}

/// Returns a slice of a shard of a bucket within a span (range of keys), limited to the number of
/// rows of one request.
pub(crate) fn slice_of(place: &Place, (bucket, shard): (Bucket, Shard), span: &Span) -> Result<Slice> {
    let (from, to) = place.pieced.bounds(span)?;
    Ok(Slice {
        from,
        to,
        ..Slice::from_start(
            &place.pieced.table,
            place.shard_partition(bucket, shard),
            MAX_COPIED_ROWS,
        )
    })
}

fn rows_write(place: &Place, (bucket, shard): (Bucket, Shard), mutations: Vec<Mutation>) -> PartitionWrite {
    PartitionWrite {
        table: Arc::clone(&place.pieced.table),
        partition: place.shard_partition(bucket, shard),
        mutations,
    }
}

/// Returns the clustering cells of a row of a table.
pub(crate) fn clustering_of(table: &Table, row: RowRef<'_>) -> Cells {
    let clustering = table.partition().len()..table.key_len();
    clustering.map(|column| row.get(column)).collect()
}

fn copied_row(
    place: &Place,
    row: RowRef<'_>,
    stamp: Stamp,
    ttl_seconds: Option<u32>,
    sampling: Sampling,
) -> Result<Copied> {
    let pieced = &place.pieced;
    let stamp = if stamp.0 == 0 { UNKNOWN_STAMP } else { stamp };
    let (clustering, cells) = whole_row(&pieced.table, row, stamp)?;
    let bytes = bytes_of(pieced, row);
    let key = pieced.key(clustering.as_row())?;
    let sample = samples::change(&key, Became::Put(bytes), sampling, stamp, ttl_seconds);
    let sample_bytes = sample.as_ref().map_or(0, |_| key.len());
    let bytes = cells.byte_len() + clustering.byte_len() + sample_bytes + MUTATION_BYTES;
    let row = put_of(clustering, cells, stamp, ttl_seconds);
    Ok(Copied { row, sample, bytes })
}

/// Returns the clustering cells and the regular cells of a row of a table.
///
/// # Errors
/// The timestamp of the row is unknown, because another program wrote it.
pub(crate) fn whole_row(table: &Table, row: RowRef<'_>, stamp: Stamp) -> Result<(Cells, Cells)> {
    if stamp.0 == 0 {
        let message = format!("a row of table {} is empty", table.name());
        return Err(PiecesError::new(PiecesErrorKind::Corrupt, message)
            .with_hint("delete the row, or restore the table: another program wrote to it"));
    }
    let all = table.columns().len();
    let regular = all - table.regular().len()..all;
    let cells = regular.map(|column| row.get(column)).collect();
    Ok((clustering_of(table, row), cells))
}

/// Returns the mutation that writes a row as a whole.
pub(crate) fn put_of(clustering: Cells, cells: Cells, stamp: Stamp, ttl_seconds: Option<u32>) -> Mutation {
    let put = Operation::Put {
        clustering,
        cells,
        // Replace the whole row, so that columns which are null in `cells` become null.
        replace: true,
    };
    mutation(put, stamp, ttl_seconds)
}
