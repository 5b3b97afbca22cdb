//! Partitions in pieces, which the tests cut themselves: no release does yet.

use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, LazyLock, Mutex};

use async_trait::async_trait;
use recto::store::{ReadOptions, Snapshot, StoreError};
use recto::{Found, Pieces};
use recto_model::table::ReadDirection;
use recto_model::{Bound, Cells, Slice, Table};
use recto_plan::plan::Piece;
use recto_plan::segments::Segment;

/// The most cuts of one partition.
const MAX_CUTS: usize = 5;
/// The most pieces that are told of at a time.
const MAX_WINDOW: usize = 2;

/// A partition of a table.
type Partition = (Arc<Table>, Cells);

/// Where partitions are cut: each between rows that are written to it first, once and for all.
#[derive(Debug, Default)]
pub(crate) struct Cuts {
    /// The cuts of a partition of a table, in clustering order.
    by_partition: Mutex<HashMap<Partition, Vec<Bound>>>,
    /// How many rows each piece has; none for as many as it happens to be.
    every: Option<usize>,
    /// How many pieces were asked for.
    pub(crate) found: AtomicUsize,
}

/// The cuts of all tables of one name and columns, whichever store they are of.
static SHARED: LazyLock<Arc<Cuts>> = LazyLock::new(Arc::default);

impl Cuts {
    pub(crate) fn shared() -> Arc<Self> {
        Arc::clone(&SHARED)
    }

    /// Cuts of as many rows each, one told of at a time.
    pub(crate) fn every(rows: usize) -> Self {
        Self {
            every: Some(rows),
            ..Self::default()
        }
    }

    /// Cuts a partition that is not cut yet, between rows of these clustering keys.
    pub(crate) fn cut(&self, table: &Arc<Table>, partition: &Cells, rows: &[Cells]) {
        let mut by_partition = self.by_partition.lock().unwrap();
        let place = (Arc::clone(table), partition.clone());
        by_partition.entry(place).or_insert_with(|| match self.every {
            Some(every) => even_cuts(table, rows, every),
            None => drawn_cuts(table, rows),
        });
    }

    /// The pieces of a partition, in clustering order.
    fn pieces(&self, table: &Arc<Table>, partition: &Cells) -> Vec<Piece> {
        let by_partition = self.by_partition.lock().unwrap();
        let cuts = by_partition.get(&(Arc::clone(table), partition.clone()));
        let cuts = cuts.map_or(&[][..], Vec::as_slice);
        let mut edges = vec![Bound::start()];
        edges.extend(cuts.iter().cloned());
        edges.push(Bound::end());
        let pieces = (0..).zip(edges.windows(2));
        let piece = |(index, edges): (i64, &[Bound])| Piece {
            // Numbers say nothing of the order.
            hidden: Cells::from_iter([Some((index * 5 % 7).to_be_bytes().as_slice())]),
            rows: Segment {
                from: edges[0].clone(),
                to: edges[1].clone(),
            },
        };
        pieces.map(piece).collect()
    }

    /// The hidden cells of the piece that a row lies in.
    pub(crate) fn hidden(&self, table: &Arc<Table>, partition: &Cells, row: &Cells) -> Cells {
        let place = Bound::Before(row.clone());
        let pieces = self.pieces(table, partition);
        let mut pieces = pieces.into_iter();
        let is_in = |piece: &Piece| piece.rows.to.compare(&place, table).is_gt();
        pieces.find(is_in).unwrap().hidden
    }
}

#[async_trait]
impl Pieces for Cuts {
    async fn find(&self, _: &Arc<dyn Snapshot>, slice: &Slice, _: &ReadOptions) -> Result<Found, StoreError> {
        tokio::task::yield_now().await;
        let mut pieces = self.pieces(&slice.table, &slice.partition);
        if slice.direction == ReadDirection::Backward {
            pieces.reverse();
        }
        pieces.retain(|piece| piece.slice(slice).is_some());
        let window = match self.every {
            Some(_) => 1,
            None => 1 + hash(&slice.from) as usize % MAX_WINDOW,
        };
        pieces.truncate(window);
        self.found.fetch_add(pieces.len(), Ordering::SeqCst);
        Ok(Found {
            pieces,
            ..Found::default()
        })
    }
}

fn even_cuts(table: &Table, rows: &[Cells], every: usize) -> Vec<Bound> {
    let mut rows = rows.to_vec();
    rows.sort_by(|one, other| table.compare_clustering(one, other));
    rows.chunks(every)
        .skip(1)
        .map(|piece| Bound::Before(piece[0].clone()))
        .collect()
}

/// Cuts at rows, and at what rows begin with: pieces may be empty.
fn drawn_cuts(table: &Table, rows: &[Cells]) -> Vec<Bound> {
    let mut random = hash(&rows);
    let mut draw = |below: usize| {
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (random >> 33) as usize % below
    };
    let mut cuts = Vec::new();
    for _ in 0..rows.len().min(MAX_CUTS) {
        let row = &rows[draw(rows.len())];
        let cells = row.iter().take(1 + draw(row.len())).collect();
        cuts.push(if draw(2) == 0 {
            Bound::Before(cells)
        } else {
            Bound::After(cells)
        });
    }
    cuts.sort_by(|one, other| one.compare(other, table));
    cuts.dedup_by(|one, other| one.compare(other, table).is_eq());
    cuts
}

fn hash(what: &impl Hash) -> u64 {
    let mut hasher = DefaultHasher::new();
    what.hash(&mut hasher);
    hasher.finish()
}
