//! Stored form of a range map, damaged or not, and the write that replaces it.

use std::sync::Arc;

use recto_model::table::ReadDirection;
use recto_model::{Bound, RowRef, Slice};
use recto_protocol::buckets::{Bucket, Directory, HeldBucket, Key, PieceRemains, Remains};
use recto_store::{Cas, CasCondition, Mutation, Operation, ReadOptions, RowAddress, Store};

use super::look;
use crate::copying::clustering_of;
use crate::directory::{
    COMPARED, REGULAR, START, STATICS, piece_cells, piece_of, remove_piece, shared_cells, undated,
};
use crate::error::Result;
use crate::limits::{MAX_REBUILT_PIECES, MAX_STEP_TIME, MAX_TORN_READS};
use crate::place::{PieceStore, Place};
use crate::tables::Tables;

/// Parts of a range map as the store has them. Some may be damaged or missing.
#[derive(Default)]
pub(super) struct Stored {
    pub(super) remains: Remains,
    /// Timestamp of the last change of each key range, in microseconds.
    pub(super) stamps: Vec<i64>,
}

impl PieceStore {
    /// Returns the stored parts of a range map by a serial read, or `None` if there are none.
    pub(super) async fn stored(&self, inner: &Arc<dyn Store>, place: &Place) -> Result<Option<Stored>> {
        'anew: for _ in 0..MAX_TORN_READS {
            let mut stored: Option<Stored> = None;
            let mut slice = Slice::from_start(
                &self.tables.directories,
                place.directory_partition(),
                MAX_REBUILT_PIECES,
            );
            loop {
                let asked = &slice;
                let read = look::asked(self, inner, |snapshot, options| {
                    let options = ReadOptions {
                        consistency: self.directory_options(true, MAX_STEP_TIME).consistency,
                        ..options
                    };
                    async move { snapshot.slice(asked, &options).await }
                });
                let read = read.await?;
                for (row, stamp) in read.rows.iter().zip(&read.stamps) {
                    let version = number(row, STATICS + usize::from(COMPARED));
                    let stored = stored.get_or_insert_with(|| Stored::begun(row, STATICS));
                    if stored.remains.version != version {
                        continue 'anew;
                    }
                    stored.add(row, *stamp);
                }
                match read.rows.iter().next_back().filter(|_| !read.exhausted) {
                    Some(last) => slice.from = Bound::After(clustering_of(&slice.table, last)),
                    None if stored.is_some() => return Ok(stored),
                    None => return self.without_pieces(inner, place).await,
                }
            }
        }
        // The range map changed during every read, so other processes use it. Report nothing,
        // because it is intact.
        Ok(None)
    }

    /// Reads the stored parts of a range map that has no key ranges, only cells for the whole
    /// partition.
    async fn without_pieces(&self, inner: &Arc<dyn Store>, place: &Place) -> Result<Option<Stored>> {
        let (own, partition) = (&self.tables.directories, &place.directory_partition());
        let statics = look::asked(self, inner, |snapshot, options| async move {
            snapshot.get_statics(own, partition, &options).await
        });
        let statics = statics.await?;
        let row = statics.rows.iter().next();
        Ok(row.map(|row| Stored::begun(row, 0)))
    }

    /// Returns the keys of the first and the last row of a bucket, or `None` if the bucket has no
    /// rows. For a time bucket, the first key is the start of its interval. For bucket 0 of a table
    /// with time buckets, both keys are the start of the partition.
    pub(super) async fn held(
        &self,
        inner: &Arc<dyn Store>,
        place: &Place,
        bucket: Bucket,
    ) -> Result<Option<HeldBucket>> {
        if place.pieced.times.is_some() && bucket == Bucket(0) {
            let (first, last) = (Key::new(), Key::new());
            return Ok(Some(HeldBucket { bucket, first, last }));
        }
        let mut ends = Vec::new();
        for shard in place.pieced.shards.all() {
            for direction in [ReadDirection::Forward, ReadDirection::Backward] {
                let slice = Slice {
                    direction,
                    ..Slice::from_start(&place.pieced.table, place.shard_partition(bucket, shard), 1)
                };
                let slice = &slice;
                let read = look::asked(self, inner, |snapshot, options| async move {
                    snapshot.slice(slice, &options).await
                });
                for row in read.await?.rows.iter() {
                    ends.push(place.key(&clustering_of(&place.pieced.table, row))?);
                }
            }
        }
        let last = ends.iter().max().cloned().unwrap_or_default();
        let Some(first) = ends.into_iter().min() else {
            return Ok(None);
        };
        let first = match &place.pieced.times {
            Some(times) => times.bucket_of(&first)?.start,
            None => first,
        };
        Ok(Some(HeldBucket { bucket, first, last }))
    }
}

impl Stored {
    /// Returns the stored data that all key ranges of a range map share, from the static cells of a
    /// row.
    fn begun(row: RowRef<'_>, statics: usize) -> Self {
        let remains = Remains {
            floor: row.get(statics).map(<[u8]>::to_vec),
            life_ms: number(row, statics + 1),
            longest_ms: number(row, statics + 2),
            next_bucket: number(row, statics + 3),
            version: number(row, statics + usize::from(COMPARED)),
            pieces: Vec::new(),
        };
        Self {
            remains,
            stamps: Vec::new(),
        }
    }

    fn add(&mut self, row: RowRef<'_>, stamp: i64) {
        // A row that has only static cells is not a key range, so skip it.
        let Some(start) = row.get(START) else { return };
        self.stamps.push(stamp);
        self.remains.pieces.push(PieceRemains {
            start: start.to_vec(),
            bucket: number(row, REGULAR),
            columns: piece_of(row),
        });
    }

    /// Removes key ranges whose start is not a key of the table. Returns the remaining parts, and the
    /// starts of the removed key ranges.
    pub(super) fn with_edges_of(&self, place: &Place) -> (Remains, Vec<Key>) {
        let mut remains = self.remains.clone();
        let is_edge = |piece: &PieceRemains| place.pieced.bound(&piece.start).is_ok();
        let gone = remains.pieces.iter().filter(|piece| !is_edge(piece));
        let gone = gone.map(|piece| piece.start.clone()).collect();
        remains.pieces.retain(is_edge);
        (remains, gone)
    }

    /// Returns the write that deletes the rows of removed key ranges, on the condition that the range map is
    /// unchanged. Returns `None` if the range map has no version.
    pub(super) fn removal(&self, tables: &Tables, place: &Place, starts: &[Key]) -> Option<Cas> {
        let version = u64::try_from(self.remains.version?).ok()?;
        let next = (version + 1).to_be_bytes();
        let mut mutations: Vec<Mutation> = starts.iter().map(remove_piece).collect();
        mutations.push(undated(Operation::PatchStatic {
            columns: vec![COMPARED],
            cells: std::iter::once(Some(&next[..])).collect(),
        }));
        Some(tables.only_if(place, version, mutations))
    }

    /// Returns the write that replaces the stored range map by `put`, on the condition that it is
    /// unchanged. Also returns the number of key ranges that the write changes.
    pub(super) fn change(
        &self,
        tables: &Tables,
        place: &Place,
        put: &Directory,
        gone: &[Key],
    ) -> (Cas, usize) {
        let (now, before) = (Remains::from(put), &self.remains.pieces);
        let is_as_it_was = |new: &PieceRemains| {
            let index = before.binary_search_by(|one| one.start.cmp(&new.start));
            index.is_ok_and(|index| before[index] == *new)
        };
        let pieces = put.spans().zip(&now.pieces);
        let pieces = pieces.filter(|(_, new)| !is_as_it_was(new));
        let mut mutations: Vec<Mutation> = pieces
            .map(|((span, piece), _)| {
                let cells = piece_cells(piece, span.end.as_ref());
                undated(Operation::Patch {
                    clustering: std::iter::once(Some(&piece.start[..])).collect(),
                    columns: (0..10).collect(),
                    cells: cells.iter().map(Option::as_deref).collect(),
                })
            })
            .collect();
        mutations.extend(gone.iter().map(remove_piece));
        let changed = mutations.len();
        mutations.push(undated(Operation::PatchStatic {
            columns: (0..5).collect(),
            cells: shared_cells(put).iter().map(Option::as_deref).collect(),
        }));
        let version = self.remains.version.map(|version| version.to_be_bytes().to_vec());
        let cas = Cas {
            table: Arc::clone(&tables.directories),
            partition: place.directory_partition(),
            conditions: vec![CasCondition {
                row: RowAddress::Static,
                column: COMPARED,
                expected: version,
            }],
            mutations,
        };
        (cas, changed)
    }
}

fn number(row: RowRef<'_>, column: usize) -> Option<i64> {
    Some(i64::from_be_bytes(row.get(column)?.try_into().ok()?))
}

/// Returns the encoded partition key from a row of the table of range maps. Returns `None` if the row
/// belongs to another table than `table`.
pub(super) fn encoded_of<'r>(row: RowRef<'r>, table: &str) -> Option<&'r [u8]> {
    (row.get(0) == Some(table.as_bytes())).then(|| row.get(1))?
}
