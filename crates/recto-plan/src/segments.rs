//! Ranges of values as pieces of clustering order.
//!
//! Cassandra compares tuples by value, and a table keeps rows in clustering order, whose columns
//! may ascend and descend. A range of values is therefore one contiguous piece of clustering order
//! where directions do not mix, and several where they do (10-pages, "Planning onto CQL").

use std::cmp::Ordering;

use recto_model::table::Direction;
use recto_model::{Bound, Cells, Table};

use crate::query::RangeEnd;
use crate::text::Operator;

/// A contiguous piece of one partition: the rows between two edges, in clustering order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Segment {
    /// Where it begins.
    pub from: Bound,
    /// Where it ends.
    pub to: Bound,
}

impl Segment {
    /// All rows that begin with `prefix`.
    pub fn of_prefix(prefix: &Cells) -> Self {
        Self {
            from: Bound::Before(prefix.clone()),
            to: Bound::After(prefix.clone()),
        }
    }

    /// Whether no row can lie in it.
    pub fn is_empty(&self, table: &Table) -> bool {
        self.from.compare(&self.to, table).is_ge()
    }

    fn intersect(&self, other: &Self, table: &Table) -> Option<Self> {
        let from = later(&self.from, &other.from, table);
        let to = earlier(&self.to, &other.to, table);
        let segment = Self {
            from: from.clone(),
            to: to.clone(),
        };
        (!segment.is_empty(table)).then_some(segment)
    }
}

/// The later of two edges.
pub(crate) fn later<'a>(left: &'a Bound, right: &'a Bound, table: &Table) -> &'a Bound {
    if left.compare(right, table) == Ordering::Less {
        right
    } else {
        left
    }
}

/// The earlier of two edges.
pub(crate) fn earlier<'a>(left: &'a Bound, right: &'a Bound, table: &Table) -> &'a Bound {
    if left.compare(right, table) == Ordering::Greater {
        right
    } else {
        left
    }
}

/// The rows in both lists of pieces, in clustering order.
pub(crate) fn intersect(left: &[Segment], right: &[Segment], table: &Table) -> Vec<Segment> {
    let mut pieces: Vec<Segment> = left
        .iter()
        .flat_map(|one| right.iter().filter_map(move |other| one.intersect(other, table)))
        .collect();
    pieces.sort_by(|one, other| one.from.compare(&other.from, table));
    pieces
}

/// The piece of `prefix`'s rows whose next column lies between two ends.
pub(crate) fn of_range(
    table: &Table,
    prefix: &Cells,
    lower: Option<&RangeEnd>,
    upper: Option<&RangeEnd>,
) -> Segment {
    let (first, last) = match table.clustering_direction(prefix.len()) {
        Direction::Ascending => (lower, upper),
        Direction::Descending => (upper, lower),
    };
    let from = first.map_or_else(
        || Bound::Before(prefix.clone()),
        |end| edge(!end.inclusive, with(prefix, &end.value)),
    );
    let to = last.map_or_else(
        || Bound::After(prefix.clone()),
        |end| edge(end.inclusive, with(prefix, &end.value)),
    );
    Segment { from, to }
}

/// The pieces of `prefix`'s rows whose next columns compare as `operator` to `values`, by value.
///
/// "Greater than (v1, v2)" is "x1 > v1" and, within x1 = v1, "x2 > v2": one piece per column, each
/// on the side that its column's direction puts it. Pieces that touch are joined, so that uniform
/// directions give one piece.
pub(crate) fn of_tuple(
    table: &Table,
    prefix: &Cells,
    operator: Operator,
    values: &[Vec<u8>],
) -> Vec<Segment> {
    let greater = matches!(operator, Operator::Greater | Operator::GreaterOrEqual);
    let mut pieces = Vec::with_capacity(values.len() + 1);
    let mut group = prefix.clone();
    for value in values {
        let ascending = table.clustering_direction(group.len()) == Direction::Ascending;
        let inner = with(&group, value);
        pieces.push(if greater == ascending {
            Segment {
                from: Bound::After(inner.clone()),
                to: Bound::After(group),
            }
        } else {
            Segment {
                from: Bound::Before(group),
                to: Bound::Before(inner.clone()),
            }
        });
        group = inner;
    }
    if matches!(
        operator,
        Operator::GreaterOrEqual | Operator::LessOrEqual | Operator::Equal
    ) {
        pieces.push(Segment::of_prefix(&group));
    }
    pieces.sort_by(|one, other| one.from.compare(&other.from, table));
    join_touching(pieces, table)
}

fn join_touching(pieces: Vec<Segment>, table: &Table) -> Vec<Segment> {
    let mut joined: Vec<Segment> = Vec::with_capacity(pieces.len());
    for piece in pieces {
        match joined.last_mut() {
            Some(last) if last.to.compare(&piece.from, table).is_eq() => last.to = piece.to,
            _ => joined.push(piece),
        }
    }
    joined
}

fn edge(after: bool, cells: Cells) -> Bound {
    if after {
        Bound::After(cells)
    } else {
        Bound::Before(cells)
    }
}

/// `prefix` with one more cell.
pub(crate) fn with(prefix: &Cells, value: &[u8]) -> Cells {
    let mut cells = prefix.clone();
    cells.push(Some(value));
    cells
}
