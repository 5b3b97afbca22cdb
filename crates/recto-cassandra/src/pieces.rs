//! Slices as Cassandra can read them: which statements together give the rows between two bounds.
//!
//! A slice is contiguous in *clustering order*. CQL compares tuples of clustering columns by
//! *value*, ascending, whatever the table's directions are. So one tuple bound is contiguous only
//! over columns of one direction (a *run*), and a bound that reaches over several runs becomes
//! several pieces: after `(b0, c0)` under `b DESC, c ASC` is `b = b0 AND c > c0`, then `b < b0`.
//!
//! Pure: knows tables and bounds, and neither CQL text nor a connection.

use std::ops::Range;

use recto_model::{Bound, Cells, Direction, Table, order};

/// One statement's share of a slice: the rows whose leading clustering columns equal `pinned` and
/// whose following columns lie between two tuples, compared by value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Piece {
    /// The values of the leading clustering columns, each bound by `=`.
    pub pinned: Cells,
    /// The tuple the following columns must exceed, by value.
    pub lower: Option<TupleBound>,
    /// The tuple the following columns must stay below, by value.
    pub upper: Option<TupleBound>,
}

/// One end of a piece: a tuple over the clustering columns that follow the pinned ones.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TupleBound {
    /// The tuple's values; at least one.
    pub cells: Cells,
    /// Whether rows that begin with the tuple belong to the piece.
    pub inclusive: bool,
}

/// The pieces that together hold the rows between `from` and `to`, in clustering order; none if
/// `from` does not lie before `to`.
///
/// Reading them one after the other, each in clustering order, gives the slice in clustering
/// order; reading them last to first, each reversed, gives it backwards. There is one piece where
/// the columns that the bounds reach over have one direction, and one more for each further run of
/// same-direction columns that a bound reaches into: none of these can be had with fewer, as a
/// statement takes one lower and one upper tuple.
pub fn pieces(table: &Table, from: &Bound, to: &Bound) -> Vec<Piece> {
    if from.compare(to, table).is_ge() {
        return Vec::new();
    }
    let common = common_prefix(table, from.cells(), to.cells());
    let runs = runs(table, common);
    let from_segments = segments(&runs, from.cells().len());
    let to_segments = segments(&runs, to.cells().len());
    // Whether the rows that begin with a bound's own cells belong to the slice.
    let from_inclusive = matches!(from, Bound::Before(_));
    let to_inclusive = matches!(to, Bound::After(_));
    let mut pieces = Vec::with_capacity(from_segments.len() + to_segments.len());

    // What lies after `from` within its own later runs, nearest to it first.
    for (index, segment) in from_segments.iter().enumerate().skip(1).rev() {
        let last = index + 1 == from_segments.len();
        pieces.push(Piece::new(
            table,
            range_of(from.cells(), 0..segment.start),
            Some(edge(from, segment, last && from_inclusive)),
            None,
        ));
    }
    // Between the two, on the first run in which they differ.
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
    // What lies before `to` within its own later runs, nearest to it last.
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
    /// The rows that begin with `pinned`, after `after` and before `before` in clustering order.
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

/// The tuple of `bound` over the columns of `segment`. Rows that begin with it belong to the piece
/// only if the bound ends there and takes in the rows that begin with its cells (`takes_in`).
fn edge(bound: &Bound, segment: &Range<usize>, takes_in: bool) -> TupleBound {
    TupleBound {
        cells: range_of(bound.cells(), segment.clone()),
        inclusive: takes_in,
    }
}

/// How many leading cells both have and hold equal.
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

/// The runs of same-direction clustering columns from column `start` on.
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

/// The parts of `runs` that a bound of `length` cells reaches over.
fn segments(runs: &[Range<usize>], length: usize) -> Vec<Range<usize>> {
    runs.iter()
        .filter(|run| run.start < length)
        .map(|run| run.start..run.end.min(length))
        .collect()
}

fn range_of(cells: &Cells, range: Range<usize>) -> Cells {
    range.map(|index| cells.get(index)).collect()
}
