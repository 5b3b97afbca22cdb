//! Plans: the slices of tables that answer a query, and the order of their rows.

use std::cmp::Ordering;
use std::sync::Arc;

use recto_api::explanation::{PlanShape, Shape};
use recto_model::table::{Direction, ReadDirection};
use recto_model::{Bound, Cells, RowRef, Slice, order};

use crate::cursor::{Position, QueryIdentity, Side};
use crate::filter_scan::ScanCondition;
use crate::query::Query;
use crate::sort_order::SortOrder;

/// Maximum number of sources of one plan. A source is a contiguous range of rows in one partition.
/// A plan has one source for each combination of the values in its lists, and more if tuple
/// comparisons divide the rows into ranges.
pub const MAX_SOURCES: usize = 128;

/// Maximum number of views that one plan intersects.
pub const MAX_INTERSECTED: usize = 8;

/// Column of a query's total order, with its direction.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct OrderTerm {
    /// Index of the column in the table of the sort order.
    pub column: usize,
    /// Direction of the column in the query's order.
    pub direction: Direction,
}

/// Source of a plan: a contiguous range of rows in one partition.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Source {
    /// Cells of the partition columns.
    pub partition: Cells,
    /// Cells of the leading clustering columns that the filter fixes by `=`.
    pub pinned: Cells,
    /// Start of the range, in clustering order.
    pub from: Bound,
    /// End of the range, in clustering order.
    pub to: Bound,
}

/// View whose rows a plan intersects with the rows of other views, because no view serves the query
/// alone.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Intersected {
    /// View with its table. One source (range of rows) of the plan belongs to this view.
    pub sort_order: Arc<SortOrder>,
    /// For each column of the plan's order, the index of the corresponding column in this view.
    pub columns: Vec<usize>,
    /// True if the query's order is the reverse of the clustering order of the view's table.
    pub reversed: bool,
    /// Columns after the leading columns of the view that the filter fixes by `=`, each with its
    /// fixed cell. A row with another cell in such a column does not match the query.
    pub constants: Vec<(usize, Vec<u8>)>,
    /// Conditions that this view's range of rows does not guarantee. The other views guarantee
    /// them.
    pub unserved: Vec<ScanCondition>,
    /// For each column of the first view, the index of the same column in this view. With this
    /// mapping, a row of this view can be checked and shown without the other views. `None` if this
    /// view lacks a column of the first view, or a field of the [`unserved`](Self::unserved)
    /// conditions.
    pub as_first: Option<Vec<usize>>,
}

impl Intersected {
    /// Returns whether a row of the view has the fixed cell in every column of `constants`. Other
    /// rows cannot match the query.
    pub fn accepts(&self, row: RowRef<'_>) -> bool {
        let is_it = |(column, cell): &(usize, Vec<u8>)| {
            let ty = self.sort_order.type_of(*column);
            row.get(*column)
                .is_some_and(|own| order::compare(ty, own, cell).is_eq())
        };
        self.constants.iter().all(is_it)
    }

    /// Returns the leading clustering cells of the rows at a position in `source`: the fixed cells
    /// and the values of the position, in column order. If `to_the_row` is true, the cells also
    /// include the fixed columns after the position's last value.
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

    /// Appends the fixed cells of the next columns to `cells`, up to the first column that the
    /// filter does not fix.
    fn add_constants(&self, cells: &mut Cells) {
        let partition_len = self.sort_order.partition_len();
        for (column, cell) in &self.constants {
            if *column == partition_len + cells.len() {
                cells.push(Some(cell));
            }
        }
    }

    /// Returns the next position at which rows can match the query, if `row` has a wrong cell in a
    /// column that the filter fixes. The position consists of the row's cells in the order columns
    /// before that column. The flag says whether `row` is before the matching rows that begin with
    /// these cells. Returns `None` if the row has all fixed cells.
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

/// Direction in which a page is read from its position, in the query's order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Travel {
    /// Toward the end of the query's order.
    Forward,
    /// Toward the beginning of the query's order.
    Backward,
}

/// Plan that answers a query: the ranges of rows to read, and the way to combine their rows into
/// the result.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Plan {
    /// Sort order (base table or view) that is read. If several views are intersected, it is the
    /// first view.
    pub sort_order: Arc<SortOrder>,
    /// Way to combine the rows of the sources (row ranges) into one sequence.
    pub shape: Shape,
    /// Total order of the query: all key columns that the filter does not fix to one value.
    pub order: Vec<OrderTerm>,
    /// True if the query's order is the reverse of the table's clustering order.
    pub reversed: bool,
    /// Ranges of rows to read. If the shape is [`Shape::Concat`], they are in the query's order.
    pub sources: Vec<Source>,
    /// If the shape is [`Shape::Intersect`], the view of each source, otherwise empty. The first
    /// view is `sort_order`, and the plan returns the rows of that view.
    pub views: Vec<Intersected>,
    /// Conditions that rows of the slices may not satisfy, so that Recto checks each row.
    pub filter_scan: Vec<ScanCondition>,
    /// Requested fields that the sort order lacks. They are read from the base table, for each row.
    pub looked_up: Vec<usize>,
    /// Query that the plan answers.
    pub query: Arc<Query>,
    /// Identity to which a cursor of this query is bound.
    pub identity: QueryIdentity,
}

impl Plan {
    /// Returns the shape of the plan, for an explanation.
    pub fn shape(&self) -> PlanShape {
        PlanShape {
            sources: self.shape,
            filter_scan: !self.filter_scan.is_empty(),
        }
    }

    /// Returns the slice of the source with index `source`, beyond the position `edge` in the
    /// direction of `travel`. Without `edge`, returns the whole source. Returns `None` if no row of
    /// the source can be beyond `edge`.
    ///
    /// The rows of the slice are in the order of travel. Only this function and its helpers handle backward
    /// reads.
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

    /// Returns the slice of a source between two positions of the query's order. A position of
    /// `None` stands for the start or the end of the source. Returns `None` if no row can be
    /// between the positions.
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

    /// Converts a position in the query's order to an edge (lower or upper end) in the clustering
    /// order of a source.
    ///
    /// The function compares the order's columns with the position's values, one after the other. In a column
    /// that the source fixes, all rows of the source have one value. If that value equals the position's
    /// value, the function continues with the next column. If that value comes later in the query's order
    /// than the position's value, all rows of the source are after the position. Otherwise all rows of the
    /// source are before the position.
    fn edge(&self, source: &Source, position: &Position) -> Bound {
        let mut cells = source.pinned.clone();
        let partition_len = self.sort_order.partition_len();
        let mut side = position.side;
        for (term, value) in self.order.iter().zip(position.values.iter()) {
            let value = value.expect("positions have key values, which are never null");
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

    /// Returns whether the plan reads the base row of each row: to look up fields, or because the view may no
    /// longer contain the record. In the second case, the base row is also checked against all conditions.
    pub fn reads_base(&self) -> bool {
        self.sort_order.is_verified || !self.looked_up.is_empty()
    }

    /// Returns the position before or after a row of the intersected view with the index `source`.
    pub fn position_in(&self, source: usize, row: RowRef<'_>, side: Side) -> Position {
        let columns = self.views[source].columns.iter();
        let values = columns.map(|column| row.get(*column)).collect();
        Position { values, side }
    }

    /// Returns the position of the next row that can match the query, in the intersected view with the index
    /// `source`. The position is beyond `row`, the last row that was read, in the direction of travel.
    pub fn position_beyond(&self, source: usize, row: RowRef<'_>, travel: Travel) -> Position {
        let (values, is_before) = self.views[source].beyond_other(row).unwrap_or_else(|| {
            let columns = self.views[source].columns.iter();
            let values = columns.map(|column| row.get(*column)).collect();
            // The row has all fixed cells, so continue directly beyond the row.
            (values, travel == Travel::Backward)
        });
        let side = if is_before { Side::Before } else { Side::After };
        Position { values, side }
    }

    /// Compares two positions in the query's order.
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
        // If the values of one position are a prefix of the other's, the shorter position covers
        // all rows that begin with its values. Its side says whether it is before or after these
        // rows.
        let sign = |side| if side == Side::Before { -1 } else { 1 };
        match one.len().cmp(&other.len()) {
            Ordering::Less => sign(left.side).cmp(&0),
            Ordering::Equal => sign(left.side).cmp(&sign(right.side)),
            Ordering::Greater => 0.cmp(&sign(right.side)),
        }
    }

    /// Compares rows of two intersected views in the query's order. Each argument is the index of
    /// the view and the row. Rows of the same record compare equal.
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

    /// Returns the position directly before or after a row, on the given `side`.
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

    /// Returns the names of the sort orders that are read: one name, or several if views are intersected.
    pub fn read_from(&self) -> Vec<&str> {
        if self.views.is_empty() {
            return vec![&self.sort_order.name];
        }
        let views = self.views.iter();
        views.map(|view| view.sort_order.name.as_str()).collect()
    }

    /// Returns whether one view serves the whole query: every row of its slices belongs to the result.
    pub fn is_served_by_one_view(&self) -> bool {
        self.filter_scan.is_empty() && self.views.is_empty()
    }

    /// Returns whether the plan has a condition that any row of its slices can fail. Such a plan may read
    /// many rows to find one result.
    pub fn rejects_many(&self) -> bool {
        !self.filter_scan.iter().all(ScanCondition::is_of_edges)
    }

    /// Returns whether a row satisfies the conditions that the slices do not already guarantee.
    pub fn accepts(&self, row: RowRef<'_>) -> bool {
        self.filter_scan
            .iter()
            .all(|filter_scan| filter_scan.matches(&self.sort_order, row))
    }
}

/// Returns the edge before or after all rows that begin with `cells`, in clustering order. `side`
/// refers to the query's order, and `reversed` says whether that order is the reverse of the
/// clustering order.
fn beside(cells: Cells, side: Side, reversed: bool) -> Bound {
    if (side == Side::Before) == reversed {
        Bound::After(cells)
    } else {
        Bound::Before(cells)
    }
}

/// Returns the part of a slice beyond one of its rows, in the direction of the read. `None` if that part
/// cannot contain a row.
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

/// Returns the part of a slice beyond an edge, in the direction of the read. `None` if that part cannot
/// contain a row.
fn beyond(mut slice: Slice, edge: Bound) -> Option<Slice> {
    let table = &slice.table;
    match slice.direction {
        ReadDirection::Forward if edge.compare(&slice.from, table).is_gt() => slice.from = edge,
        ReadDirection::Backward if edge.compare(&slice.to, table).is_lt() => slice.to = edge,
        _ => {}
    }
    slice.from.compare(&slice.to, table).is_lt().then_some(slice)
}
