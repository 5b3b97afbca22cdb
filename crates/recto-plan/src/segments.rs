//! Conversion of ranges of values to segments: ranges of rows in clustering order.
//!
//! Cassandra compares tuples by value. A table sorts rows in clustering order, in which each column
//! ascends or descends. If all columns of a tuple have the same direction, a range of tuples is
//! therefore one contiguous segment. If directions differ, it is several segments.

use std::cmp::Ordering;

use recto_model::table::Direction;
use recto_model::{Bound, Cells, Table};

use crate::query::RangeEnd;
use crate::text::Operator;

/// Contiguous range of one partition: the rows between two edges, in clustering order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Segment {
    /// Edge at which the range starts.
    pub from: Bound,
    /// Edge at which the range ends.
    pub to: Bound,
}

impl Segment {
    /// Returns the range of all rows whose clustering cells begin with `prefix`.
    pub fn of_prefix(prefix: &Cells) -> Self {
        Self {
            from: Bound::Before(prefix.clone()),
            to: Bound::After(prefix.clone()),
        }
    }

    /// Returns whether the range cannot contain a row.
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

/// Returns the later of two edges in the table's clustering order.
pub(crate) fn later<'a>(left: &'a Bound, right: &'a Bound, table: &Table) -> &'a Bound {
    if left.compare(right, table) == Ordering::Less {
        right
    } else {
        left
    }
}

/// Returns the earlier of two edges in the table's clustering order.
pub(crate) fn earlier<'a>(left: &'a Bound, right: &'a Bound, table: &Table) -> &'a Bound {
    if left.compare(right, table) == Ordering::Greater {
        right
    } else {
        left
    }
}

/// Returns the non-empty intersections of each segment in `left` with each segment in `right`, in
/// clustering order.
pub(crate) fn intersect(left: &[Segment], right: &[Segment], table: &Table) -> Vec<Segment> {
    let mut pieces: Vec<Segment> = left
        .iter()
        .flat_map(|one| right.iter().filter_map(move |other| one.intersect(other, table)))
        .collect();
    pieces.sort_by(|one, other| one.from.compare(&other.from, table));
    pieces
}

/// Returns the segment of the rows that begin with `prefix` and whose next column is between
/// `lower` and `upper`.
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

/// Returns the segments (ranges of rows) that begin with `prefix` and whose next columns satisfy a
/// comparison with `values`, as tuples.
///
/// "Greater than (v1, v2)" means "x1 > v1, or x1 = v1 and x2 > v2". Each column therefore gives one
/// segment, before or after its value depending on the column's direction. Segments that touch are
/// joined, so columns of the same direction give one segment.
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

/// Returns `prefix` with one more cell.
pub(crate) fn with(prefix: &Cells, value: &[u8]) -> Cells {
    let mut cells = prefix.clone();
    cells.push(Some(value));
    cells
}
