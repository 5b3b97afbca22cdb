//! Division of a slice into statements: the ranges (pieces) that Cassandra can read with one
//! statement each.
//!
//! A slice is contiguous in *clustering order*. CQL compares tuples of clustering columns by
//! *value*, ascending, regardless of the table's directions. Therefore one tuple bound describes a
//! contiguous range only over columns of the same direction (a *run*). A bound that covers several
//! runs becomes several pieces: after `(b0, c0)` under `b DESC, c ASC` is `b = b0 AND c > c0`, then
//! `b < b0`.
//!
//! These functions are pure: they know tables and bounds, but neither CQL text nor a connection.

use std::ops::Range;

use recto_model::{Bound, Cells, Direction, Table, order};

/// Part of a slice that one statement can read: the rows whose leading clustering columns equal
/// `pinned` and whose following columns are between two tuples, compared by value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Piece {
    /// Values of the leading clustering columns, each bound by `=`.
    pub pinned: Cells,
    /// Lower bound of the following columns, by value; `None` if they have no lower bound.
    pub lower: Option<TupleBound>,
    /// Upper bound of the following columns, by value; `None` if they have no upper bound.
    pub upper: Option<TupleBound>,
}

/// One end of a piece: a tuple over the clustering columns that follow the pinned columns.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TupleBound {
    /// Values of the tuple; at least one.
    pub cells: Cells,
    /// True if rows that begin with the tuple belong to the piece.
    pub inclusive: bool,
}

/// Returns the pieces that together hold the rows between `from` and `to`, in clustering order.
/// Returns none if `from` is not before `to`.
///
/// To read the slice in clustering order, read the pieces from first to last, each in clustering
/// order. To read it backward, read them from last to first, each reversed. If all columns of the
/// bounds have one direction, there is one piece. Each further run of same-direction columns that a
/// bound covers adds one piece. Fewer pieces are not possible, because a statement accepts one
/// lower and one upper tuple.
pub fn pieces(table: &Table, from: &Bound, to: &Bound) -> Vec<Piece> {
    if from.compare(to, table).is_ge() {
        return Vec::new();
    }
    let common = common_prefix(table, from.cells(), to.cells());
    let runs = runs(table, common);
    let from_segments = segments(&runs, from.cells().len());
    let to_segments = segments(&runs, to.cells().len());
    // Decide for each bound whether the rows that begin with its cells belong to the slice.
    let from_inclusive = matches!(from, Bound::Before(_));
    let to_inclusive = matches!(to, Bound::After(_));
    let mut pieces = Vec::with_capacity(from_segments.len() + to_segments.len());

    // Add the rows after `from` that share a prefix with it, run by run, the longest prefix first.
    for (index, segment) in from_segments.iter().enumerate().skip(1).rev() {
        let last = index + 1 == from_segments.len();
        pieces.push(Piece::new(
            table,
            range_of(from.cells(), 0..segment.start),
            Some(edge(from, segment, last && from_inclusive)),
            None,
        ));
    }
    // Add the rows between the two bounds, on the first run in which the bounds differ.
    pieces.push(Piece::new(
        table,
        range_of(from.cells(), 0..common),
        from_segments
            .first()
            .map(|segment| edge(from, segment, from_segments.len() == 1 && from_inclusive)),
        to_segments
            .first()
            .map(|segment| edge(to, segment, to_segments.len() == 1 && to_inclusive)),
    ));
    // Add the rows before `to` that share a prefix with it, run by run, the longest prefix last.
    for (index, segment) in to_segments.iter().enumerate().skip(1) {
        let last = index + 1 == to_segments.len();
        pieces.push(Piece::new(
            table,
            range_of(to.cells(), 0..segment.start),
            None,
            Some(edge(to, segment, last && to_inclusive)),
        ));
    }
    pieces
}

impl Piece {
    /// Returns the piece with the rows that begin with `pinned`, after `after` and before `before`
    /// in clustering order.
    fn new(table: &Table, pinned: Cells, after: Option<TupleBound>, before: Option<TupleBound>) -> Self {
        let ascending = table
            .clustering()
            .get(pinned.len())
            .is_none_or(|_| table.clustering_direction(pinned.len()) == Direction::Ascending);
        let (lower, upper) = if ascending {
            (after, before)
        } else {
            (before, after)
        };
        Self { pinned, lower, upper }
    }
}

/// Returns the part of `bound` over the columns of `segment` as a tuple. `takes_in` is true if the
/// bound ends with this segment and includes the rows that begin with its cells. Otherwise rows
/// that begin with the tuple do not belong to the piece.
fn edge(bound: &Bound, segment: &Range<usize>, takes_in: bool) -> TupleBound {
    TupleBound {
        cells: range_of(bound.cells(), segment.clone()),
        inclusive: takes_in,
    }
}

/// Returns the number of leading cells that are equal in `left` and `right`.
fn common_prefix(table: &Table, left: &Cells, right: &Cells) -> usize {
    table
        .clustering()
        .iter()
        .zip(left.iter().zip(right.iter()))
        .take_while(|(column, (left, right))| match (left, right) {
            (Some(left), Some(right)) => order::compare(&column.ty, left, right).is_eq(),
            _ => false,
        })
        .count()
}

/// Returns the runs (adjacent clustering columns of the same direction) from column `start` on.
fn runs(table: &Table, start: usize) -> Vec<Range<usize>> {
    let mut runs: Vec<Range<usize>> = Vec::new();
    for column in start..table.clustering().len() {
        match runs.last_mut() {
            Some(run) if table.clustering_direction(run.start) == table.clustering_direction(column) => {
                run.end = column + 1;
            }
            _ => runs.push(column..column + 1),
        }
    }
    runs
}

/// Returns the parts of `runs` that a bound of `length` cells covers.
fn segments(runs: &[Range<usize>], length: usize) -> Vec<Range<usize>> {
    runs.iter()
        .filter(|run| run.start < length)
        .map(|run| run.start..run.end.min(length))
        .collect()
}

fn range_of(cells: &Cells, range: Range<usize>) -> Cells {
    range.map(|index| cells.get(index)).collect()
}
