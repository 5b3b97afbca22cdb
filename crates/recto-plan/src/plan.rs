//! Plans: which slices of which table answer a query, and in which order their rows are given.

use std::cmp::Ordering;
use std::sync::Arc;

use recto_api::explanation::{PlanShape, Shape};
use recto_model::table::{Direction, ReadDirection};
use recto_model::{Bound, Cells, RowRef, Slice, order};

use crate::cursor::{Position, QueryIdentity, Side};
use crate::filter_scan::ScanCondition;
use crate::query::Query;
use crate::sort_order::SortOrder;

/// The most sources one plan may read: the products of all IN lists and split ranges.
pub const MAX_SOURCES: usize = 128;

/// The most views that one plan intersects.
pub const MAX_INTERSECTED: usize = 8;

/// A column of the query's order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct OrderTerm {
    /// The column of the sort order's table.
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

/// One of the views that a plan intersects.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Intersected {
    /// The view.
    pub sort_order: Arc<SortOrder>,
    /// For each term of the plan's order, the view's column.
    pub columns: Vec<usize>,
    /// Whether the query's order runs against the clustering order of its table.
    pub reversed: bool,
    /// The columns among and after those that the filter pins, though the view does not begin with them: rows with other cells there are
    /// none of the query's.
    pub constants: Vec<(usize, Vec<u8>)>,
    /// The conditions that it does not serve: the other views do.
    pub unserved: Vec<ScanCondition>,
    /// If its rows have the fields of these conditions, and all columns of the first view's: where they have each of those. So they can be
    /// judged, and shown, without the other views.
    pub as_first: Option<Vec<usize>>,
}

impl Intersected {
    /// Whether a row of the view can be one of the query's.
    pub fn accepts(&self, row: RowRef<'_>) -> bool {
        let is_it = |(column, cell): &(usize, Vec<u8>)| {
            let ty = self.sort_order.type_of(*column);
            row.get(*column)
                .is_some_and(|own| order::compare(ty, own, cell).is_eq())
        };
        self.constants.iter().all(is_it)
    }

    /// Where a position lies in its piece: clustering cells that rows at the position begin with. Where `to_the_row`, those
    /// too that the filter pins behind the last of them.
    fn cells_at(&self, source: &Source, position: &Position, to_the_row: bool) -> Cells {
        let mut cells = source.pinned.clone();
        for value in position.values.iter() {
            self.add_constants(&mut cells);
            cells.push(value);
        }
        if to_the_row {
            self.add_constants(&mut cells);
        }
        cells
    }

    /// Adds the cells of the next columns, as long as the filter pins them.
    fn add_constants(&self, cells: &mut Cells) {
        let partition_len = self.sort_order.partition_len();
        for (column, cell) in &self.constants {
            if *column == partition_len + cells.len() {
                cells.push(Some(cell));
            }
        }
    }

    /// Where the next row of the query's can be, beyond one that has another cell in one of the columns that the filter pins: values
    /// of the first terms of the order, and whether the row stands before what it looks for among those that begin with them.
    fn beyond_other(&self, row: RowRef<'_>) -> Option<(Cells, bool)> {
        let (column, ordering) = self.constants.iter().find_map(|(column, cell)| {
            let ordering = order::compare(self.sort_order.type_of(*column), row.get(*column)?, cell);
            ordering.is_ne().then_some((*column, ordering))
        })?;
        let ordering = self.sort_order.direction(column).apply(ordering);
        let first = self.columns.iter().take_while(|one| **one < column);
        let values = first.map(|column| row.get(*column)).collect();
        Some((values, ordering.is_lt() != self.reversed))
    }
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
    /// The sort order that is read.
    pub sort_order: Arc<SortOrder>,
    /// How its sources make one sequence.
    pub shape: Shape,
    /// The query's total order: every key column that the filter does not pin to one value.
    pub order: Vec<OrderTerm>,
    /// Whether the query's order runs against the table's clustering order.
    pub reversed: bool,
    /// What is read; in the query's order where the shape is [`Shape::Concat`].
    pub sources: Vec<Source>,
    /// Where the shape is [`Shape::Intersect`], the view of each source: the first is the sort order, whose rows are given.
    pub views: Vec<Intersected>,
    /// What is checked row by row.
    pub filter_scan: Vec<ScanCondition>,
    /// The fields that are asked for and that the sort order lacks: they are read from the base table, row by row.
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
            filter_scan: !self.filter_scan.is_empty(),
        }
    }

    /// The slice of a source that lies beyond `edge` in the direction of `travel`, or all of it
    /// without an edge; `None` if nothing of it does.
    ///
    /// This and the functions beside it are the one place where going backwards is done: whoever reads the slice
    /// gets rows in the order of travel.
    pub fn slice(&self, source: usize, edge: Option<&Position>, travel: Travel, limit: u32) -> Option<Slice> {
        let view = self.views.get(source);
        let source = &self.sources[source];
        let reversed = view.map_or(self.reversed, |view| view.reversed);
        let with_clustering_order = (travel == Travel::Forward) != reversed;
        let sort_order = view.map_or(&self.sort_order, |view| &view.sort_order);
        let whole = Slice {
            table: Arc::clone(&sort_order.table),
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
        match (edge, view) {
            (None, _) => Some(whole),
            (Some(position), None) => beyond(whole, self.edge(source, position)),
            (Some(position), Some(view)) => {
                let to_the_row = (position.side == Side::Before) == (travel == Travel::Forward);
                let cells = view.cells_at(source, position, to_the_row);
                beyond(whole, beside(cells, position.side, reversed))
            }
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
        let partition_len = self.sort_order.partition_len();
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
            let ordering = order::compare(self.sort_order.type_of(term.column), constant, value);
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
        beside(cells, side, self.reversed)
    }

    /// Whether the base row of each row is read after it: to look fields up, or because the row may be none of the
    /// view's any more. Then all conditions are asked of the base row, too.
    pub fn reads_base(&self) -> bool {
        self.sort_order.is_verified || !self.looked_up.is_empty()
    }

    /// The position of a row of one of the views that are intersected.
    pub fn position_in(&self, source: usize, row: RowRef<'_>, side: Side) -> Position {
        let columns = self.views[source].columns.iter();
        let values = columns.map(|column| row.get(*column)).collect();
        Position { values, side }
    }

    /// Where the next row of the query's can be in one of the views that are intersected, beyond a row that was read, in the
    /// direction of travel.
    pub fn position_beyond(&self, source: usize, row: RowRef<'_>, travel: Travel) -> Position {
        let (values, is_before) = self.views[source].beyond_other(row).unwrap_or_else(|| {
            let columns = self.views[source].columns.iter();
            let values = columns.map(|column| row.get(*column)).collect();
            // It is where it looks for itself, and is passed.
            (values, travel == Travel::Backward)
        });
        let side = if is_before { Side::Before } else { Side::After };
        Position { values, side }
    }

    /// Compares positions in the query's order.
    pub fn compare_positions(&self, left: &Position, right: &Position) -> Ordering {
        let (one, other) = (&left.values, &right.values);
        for ((term, left), right) in self.order.iter().zip(one.iter()).zip(other.iter()) {
            let (Some(left), Some(right)) = (left, right) else {
                continue;
            };
            let ordering = order::compare(self.sort_order.type_of(term.column), left, right);
            if ordering.is_ne() {
                return term.direction.apply(ordering);
            }
        }
        // Of two that begin alike the shorter stands before all that begins so, or after it.
        let sign = |side| if side == Side::Before { -1 } else { 1 };
        match one.len().cmp(&other.len()) {
            Ordering::Less => sign(left.side).cmp(&0),
            Ordering::Equal => sign(left.side).cmp(&sign(right.side)),
            Ordering::Greater => 0.cmp(&sign(right.side)),
        }
    }

    /// Compares rows of two of the views that are intersected, in the query's order: equal are those of one record.
    pub fn compare_in(&self, left: (usize, RowRef<'_>), right: (usize, RowRef<'_>)) -> Ordering {
        let (one, other) = (&self.views[left.0].columns, &self.views[right.0].columns);
        for ((term, left_column), right_column) in self.order.iter().zip(one).zip(other) {
            let (Some(left), Some(right)) = (left.1.get(*left_column), right.1.get(*right_column)) else {
                continue;
            };
            let ordering = order::compare(self.sort_order.type_of(term.column), left, right);
            if ordering.is_ne() {
                return term.direction.apply(ordering);
            }
        }
        Ordering::Equal
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
            let ordering = order::compare(self.sort_order.type_of(term.column), one, other);
            if ordering.is_ne() {
                return term.direction.apply(ordering);
            }
        }
        Ordering::Equal
    }

    /// The names of the sort orders that are read: one, or several where they are intersected.
    pub fn read_from(&self) -> Vec<&str> {
        if self.views.is_empty() {
            return vec![&self.sort_order.name];
        }
        let views = self.views.iter();
        views.map(|view| view.sort_order.name.as_str()).collect()
    }

    /// Whether conditions are checked row by row that any row may fail.
    pub fn rejects_many(&self) -> bool {
        !self.filter_scan.iter().all(ScanCondition::is_of_edges)
    }

    /// Whether a row satisfies the conditions that its source does not already guarantee.
    pub fn accepts(&self, row: RowRef<'_>) -> bool {
        self.filter_scan
            .iter()
            .all(|filter_scan| filter_scan.matches(&self.sort_order, row))
    }
}

/// The edge on one side of all rows that begin with some clustering cells, in the query's order, which may run against the
/// table's.
fn beside(cells: Cells, side: Side, reversed: bool) -> Bound {
    if (side == Side::Before) == reversed {
        Bound::After(cells)
    } else {
        Bound::Before(cells)
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
