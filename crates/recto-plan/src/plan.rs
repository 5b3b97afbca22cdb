//! Plans: which slices of which table answer a query, and in which order their rows are given.

use std::cmp::Ordering;
use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use recto_model::table::{Direction, ReadDirection};
use recto_model::{Bound, Cells, RowRef, Slice, order};

use crate::arrangement::Arrangement;
use crate::cursor::{Position, QueryIdentity, Side};
use crate::query::Query;
use crate::residual::Residual;

/// The most sources one plan may read: the products of all IN lists and split ranges.
pub const MAX_SOURCES: usize = 128;

/// How a plan's sources make one sequence of rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Shape {
    /// No row can match.
    Empty,
    /// One source.
    Scan,
    /// Sources one after the other: none reaches into the next.
    Concat,
    /// Sources merged row by row.
    Merge,
}

impl Shape {
    const ALL: [Self; 4] = [Self::Empty, Self::Scan, Self::Concat, Self::Merge];

    /// As `explain` names it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Empty => "empty",
            Self::Scan => "scan",
            Self::Concat => "concat",
            Self::Merge => "merge",
        }
    }
}

/// How a page is found, as far as what it costs depends on it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct PlanShape {
    /// How its sources make one sequence of rows.
    pub sources: Shape,
    /// Whether rows are checked one by one.
    pub residual: bool,
}

/// What stands behind the name of a shape where rows are checked one by one.
const RESIDUAL: &str = " + residual";

/// As `explain` names it: `merge + residual`.
impl fmt::Display for PlanShape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.sources.name())?;
        f.write_str(if self.residual { RESIDUAL } else { "" })
    }
}

/// Reads what `Display` writes.
impl FromStr for PlanShape {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let checked = text.strip_suffix(RESIDUAL);
        let name = checked.unwrap_or(text);
        let sources = Shape::ALL.into_iter().find(|shape| shape.name() == name);
        Ok(Self {
            sources: sources.ok_or("a shape is empty, scan, concat or merge")?,
            residual: checked.is_some(),
        })
    }
}

/// A column of the query's order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct OrderTerm {
    /// The column of the arrangement's table.
    pub column: usize,
    /// Its direction in the query's order.
    pub direction: Direction,
}

/// One contiguous piece of one partition.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Source {
    /// The cells of the partition columns that hold fields.
    pub partition: Cells,
    /// The cells of the leading clustering columns that the filter pins.
    pub pinned: Cells,
    /// Where it begins, in clustering order.
    pub from: Bound,
    /// Where it ends, in clustering order.
    pub to: Bound,
}

/// Which way a page is read from its position, in the query's order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Travel {
    /// Towards the end.
    Forward,
    /// Towards the beginning.
    Backward,
}

/// How a query is answered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Plan {
    /// The arrangement that is read.
    pub arrangement: Arc<Arrangement>,
    /// How its sources make one sequence.
    pub shape: Shape,
    /// The query's total order: every key column that the filter does not pin to one value.
    pub order: Vec<OrderTerm>,
    /// Whether the query's order runs against the table's clustering order.
    pub reversed: bool,
    /// What is read; in the query's order where the shape is [`Shape::Concat`].
    pub sources: Vec<Source>,
    /// What is checked row by row.
    pub residual: Vec<Residual>,
    /// The fields that are asked for and that the arrangement lacks: they are read from the base table, row by row.
    pub looked_up: Vec<usize>,
    /// What is asked.
    pub query: Arc<Query>,
    /// What a cursor of this query is bound to.
    pub identity: QueryIdentity,
}

impl Plan {
    /// How its pages are found.
    pub fn shape(&self) -> PlanShape {
        PlanShape {
            sources: self.shape,
            residual: !self.residual.is_empty(),
        }
    }

    /// The slice of a source that lies beyond `edge` in the direction of `travel`, or all of it
    /// without an edge; `None` if nothing of it does.
    ///
    /// This and the functions beside it are the one place where going backwards is done: whoever reads the slice
    /// gets rows in the order of travel.
    pub fn slice(&self, source: usize, edge: Option<&Position>, travel: Travel, limit: u32) -> Option<Slice> {
        let source = &self.sources[source];
        let with_clustering_order = (travel == Travel::Forward) != self.reversed;
        let whole = Slice {
            table: Arc::clone(&self.arrangement.table),
            partition: source.partition.clone(),
            from: source.from.clone(),
            to: source.to.clone(),
            direction: if with_clustering_order {
                ReadDirection::Forward
            } else {
                ReadDirection::Backward
            },
            limit,
        };
        match edge {
            Some(position) => beyond(whole, self.edge(source, position)),
            None => Some(whole),
        }
    }

    /// What of a source lies between two positions of the query's order, in that order; none of them: the end. `None` if nothing does.
    pub fn slice_between(
        &self,
        source: usize,
        from: Option<&Position>,
        to: Option<&Position>,
    ) -> Option<Slice> {
        let behind = self.slice(source, from, Travel::Forward, 1)?;
        let before = self.slice(source, to, Travel::Backward, 1)?;
        let (from, to) = match behind.direction {
            ReadDirection::Forward => (behind.from, before.to),
            ReadDirection::Backward => (before.from, behind.to),
        };
        let is_some = from.compare(&to, &behind.table).is_lt();
        is_some.then_some(Slice { from, to, ..behind })
    }

    /// Where a position of the query's order lies within a source, as an edge in clustering order.
    ///
    /// The order's columns are walked together with the position's values. A column that the
    /// source pins has one value there: where it equals the position's, the walk goes on; where it
    /// lies beyond, all the source's rows that agreed so far lie after the position; else before.
    fn edge(&self, source: &Source, position: &Position) -> Bound {
        let mut cells = source.pinned.clone();
        let partition_len = self.arrangement.partition_len();
        let mut side = position.side;
        for (term, value) in self.order.iter().zip(position.values.iter()) {
            let value = value.expect("positions hold key values, which are never null");
            let constant = match term.column.checked_sub(partition_len) {
                None => source.partition.get(term.column),
                Some(index) if index < source.pinned.len() => source.pinned.get(index),
                Some(_) => None,
            };
            let Some(constant) = constant else {
                cells.push(Some(value));
                continue;
            };
            let ordering = order::compare(self.arrangement.type_of(term.column), constant, value);
            match term.direction.apply(ordering) {
                Ordering::Equal => {}
                Ordering::Greater => {
                    side = Side::Before;
                    break;
                }
                Ordering::Less => {
                    side = Side::After;
                    break;
                }
            }
        }
        if (side == Side::Before) == self.reversed {
            Bound::After(cells)
        } else {
            Bound::Before(cells)
        }
    }

    /// Whether the base row of each row is read after it: to look fields up, or because the row may be none of the
    /// view's any more. Then all conditions are asked of the base row, too.
    pub fn reads_base(&self) -> bool {
        self.arrangement.is_verified || !self.looked_up.is_empty()
    }

    /// The position of a row: the edge before or after it.
    pub fn position(&self, row: RowRef<'_>, side: Side) -> Position {
        let values = self.order.iter().map(|term| row.get(term.column)).collect();
        Position { values, side }
    }

    /// Compares two rows in the query's order.
    pub fn compare_rows(&self, left: RowRef<'_>, right: RowRef<'_>) -> Ordering {
        for term in &self.order {
            let (Some(one), Some(other)) = (left.get(term.column), right.get(term.column)) else {
                continue;
            };
            let ordering = order::compare(self.arrangement.type_of(term.column), one, other);
            if ordering.is_ne() {
                return term.direction.apply(ordering);
            }
        }
        Ordering::Equal
    }

    /// Whether conditions are checked row by row that any row may fail.
    pub fn rejects_many(&self) -> bool {
        !self.residual.iter().all(Residual::is_of_edges)
    }

    /// Whether a row satisfies the conditions that its source does not already guarantee.
    pub fn accepts(&self, row: RowRef<'_>) -> bool {
        self.residual
            .iter()
            .all(|residual| residual.matches(&self.arrangement, row))
    }
}

/// What of a slice lies beyond a row of it, in the direction it is read in.
pub fn beyond_row(slice: Slice, row: RowRef<'_>) -> Option<Slice> {
    let table = &slice.table;
    let clustering = table.partition().len()..table.key_len();
    let cells: Cells = clustering.map(|column| row.get(column)).collect();
    let edge = match slice.direction {
        ReadDirection::Forward => Bound::After(cells),
        ReadDirection::Backward => Bound::Before(cells),
    };
    beyond(slice, edge)
}

/// What of a slice lies beyond an edge, in the direction it is read in; `None` if nothing does.
fn beyond(mut slice: Slice, edge: Bound) -> Option<Slice> {
    let table = &slice.table;
    match slice.direction {
        ReadDirection::Forward if edge.compare(&slice.from, table).is_gt() => slice.from = edge,
        ReadDirection::Backward if edge.compare(&slice.to, table).is_lt() => slice.to = edge,
        _ => {}
    }
    slice.from.compare(&slice.to, table).is_lt().then_some(slice)
}
