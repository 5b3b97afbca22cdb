//! Stored form of a range map, damaged or not, and the write that replaces it.

use recto_model::{Bound, RowRef, Slice};
use recto_protocol::buckets::{Directory, Key, PieceRemains, Remains};
use recto_store::{Cas, Mutation, Operation, ReadOptions};

use crate::copying::clustering_of;
use crate::directory::{
    COMPARED, REGULAR, START, STATICS, piece_cells, piece_of, remove_piece, shared_cells, undated,
};
use crate::error::{PiecesError, PiecesErrorKind, Result};
use crate::limits::{MAX_REBUILT_PIECES, MAX_STEP_TIME, MAX_TORN_READS};
use crate::place::{PieceStore, Place};
use crate::tables::Tables;

/// Parts of a range map as the store has them. Some may be damaged or missing.
#[derive(Default)]
pub(super) struct Stored {
    pub(super) remains: Remains,
    /// Timestamp of the last change of each key range, in microseconds.
    pub(super) stamps: Vec<i64>,
    /// True if the store has any part.
    pub(super) is_there: bool,
}

impl PieceStore {
    /// Returns the stored parts of a range map by a serial read.
    pub(super) async fn read_stored_parts(&self, place: &Place) -> Result<Stored> {
        for _ in 0..MAX_TORN_READS {
            if let Some(stored) = self.read_parts_once(place).await? {
                return Ok(stored);
            }
        }
        let message = "a range map of buckets changed during each read";
        Err(PiecesError::new(PiecesErrorKind::Unavailable, message))
    }

    /// Returns `None` if the range map changed during the read.
    async fn read_parts_once(&self, place: &Place) -> Result<Option<Stored>> {
        let own = &self.tables.directories;
        let mut slice = Slice::from_start(own, place.directory_partition(), MAX_REBUILT_PIECES);
        let mut stored = Stored::default();
        let options = ReadOptions {
            stamps: true,
            ..self.directory_options(true, MAX_STEP_TIME)
        };
        loop {
            let deadline = self.deadline(MAX_STEP_TIME);
            let read = self.read_slice(&slice, options, deadline).await?;
            for (row, stamp) in read.rows.iter().zip(&read.stamps) {
                if !stored.add(row, *stamp) {
                    return Ok(None);
                }
            }
            match read.rows.iter().next_back().filter(|_| !read.exhausted) {
                Some(last) => slice.from = Bound::After(clustering_of(&slice.table, last)),
                None => break,
            }
        }
        if !stored.is_there {
            // A range map without key ranges may still have cells for the whole partition.
            let partition = &place.directory_partition();
            let statics = self.again(self.deadline(MAX_STEP_TIME), |timeout| async move {
                let options = ReadOptions { timeout, ..options };
                let snapshot = self.store.snapshot()?;
                Ok(snapshot.get_statics(own, partition, &options).await?)
            });
            if let Some(row) = statics.await?.rows.iter().next() {
                stored.begin(row, 0);
            }
        }
        Ok(Some(stored))
    }
}

impl Stored {
    /// Reads the data that all key ranges share from the static cells of a row.
    fn begin(&mut self, row: RowRef<'_>, statics: usize) {
        self.is_there = true;
        self.remains.floor = row.get(statics).map(<[u8]>::to_vec);
        self.remains.life_ms = number(row, statics + 1);
        self.remains.longest_ms = number(row, statics + 2);
        self.remains.next_bucket = number(row, statics + 3);
        self.remains.version = number(row, statics + usize::from(COMPARED));
    }

    /// Adds a key range. Returns false if it has another version than the key ranges before it.
    fn add(&mut self, row: RowRef<'_>, stamp: i64) -> bool {
        if !self.is_there {
            self.begin(row, STATICS);
        }
        // A row that has only static cells is not a key range, so skip it.
        if let Some(start) = row.get(START) {
            self.stamps.push(stamp);
            self.remains.pieces.push(PieceRemains {
                start: start.to_vec(),
                bucket: number(row, REGULAR),
                columns: piece_of(row),
            });
        }
        self.remains.version == number(row, STATICS + usize::from(COMPARED))
    }

    /// Returns the stored range map, or an error if it is damaged.
    pub(super) fn directory(&self, place: &Place) -> Result<Directory> {
        let directory = self.remains.directory()?;
        for piece in &directory.pieces {
            place.pieced.bound(&piece.start)?;
        }
        Ok(directory)
    }

    /// Removes key ranges whose start is not a key of the table. Returns the remaining parts, and the
    /// starts of the removed key ranges.
    pub(super) fn with_edges_of(&self, place: &Place) -> (Remains, Vec<Key>) {
        let mut remains = self.remains.clone();
        let is_edge = |piece: &PieceRemains| place.pieced.bound(&piece.start).is_ok();
        let gone = remains.pieces.extract_if(.., |piece| !is_edge(piece));
        let gone = gone.map(|piece| piece.start).collect();
        (remains, gone)
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
        let mut cas = tables.only_if(place, 0, mutations);
        // Compare the version as it is stored, because it may be damaged.
        let version = self.remains.version.map(i64::to_be_bytes);
        cas.conditions[0].expected = version.map(|version| version.to_vec());
        (cas, changed)
    }
}

/// Returns the write that deletes the rows of removed key ranges from an undamaged range map.
pub(super) fn removal(tables: &Tables, place: &Place, directory: &Directory, starts: &[Key]) -> Cas {
    let next = (directory.version + 1).to_be_bytes();
    let mut mutations: Vec<Mutation> = starts.iter().map(remove_piece).collect();
    mutations.push(undated(Operation::PatchStatic {
        columns: vec![COMPARED],
        cells: std::iter::once(Some(&next[..])).collect(),
    }));
    tables.only_if(place, directory.version, mutations)
}

fn number(row: RowRef<'_>, column: usize) -> Option<i64> {
    Some(i64::from_be_bytes(row.get(column)?.try_into().ok()?))
}
