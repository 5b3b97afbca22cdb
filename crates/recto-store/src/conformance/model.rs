//! Expected results of reads, computed from a list of rows and the order of values.

use std::cmp::Ordering;
use std::sync::Arc;

use recto_model::table::ReadDirection;
use recto_model::{Bound, Cells, Slice, Table, order};

/// Expected rows of a table, from which tests compute the expected results of reads.
pub(crate) struct Model {
    table: Arc<Table>,
    rows: Vec<Cells>,
}

impl Model {
    pub(crate) fn new(table: &Arc<Table>) -> Self {
        Self {
            table: table.clone(),
            rows: Vec::new(),
        }
    }

    /// Puts a whole row, and replaces a row with the same key.
    pub(crate) fn put(&mut self, row: Cells) {
        assert_eq!(row.len(), self.table.columns().len());
        self.rows
            .retain(|there| (0..self.table.key_len()).any(|index| there.get(index) != row.get(index)));
        self.rows.push(row);
    }

    /// Returns all rows, in the order in which they were put.
    pub(crate) fn rows(&self) -> &[Cells] {
        &self.rows
    }

    /// Keeps the rows for which `keep` returns true.
    pub(crate) fn retain(&mut self, keep: impl FnMut(&Cells) -> bool) {
        self.rows.retain(keep);
    }

    /// Returns all rows of the slice in its direction, without its limit.
    pub(crate) fn slice(&self, slice: &Slice) -> Vec<&Cells> {
        let mut rows: Vec<&Cells> = self
            .rows
            .iter()
            .filter(|row| self.is_in(row, &slice.partition))
            .filter(|row| !self.lies_before(row, &slice.from) && self.lies_before(row, &slice.to))
            .collect();
        rows.sort_by(|left, right| self.compare(left, right));
        if slice.direction == ReadDirection::Backward {
            rows.reverse();
        }
        rows
    }

    /// Returns whether `row` is in `partition`.
    pub(crate) fn is_in(&self, row: &Cells, partition: &Cells) -> bool {
        (0..self.table.partition().len()).all(|index| row.get(index) == partition.get(index))
    }

    /// Returns whether `row` is before the edge `bound` of a slice.
    pub(crate) fn lies_before(&self, row: &Cells, bound: &Bound) -> bool {
        for (index, cell) in bound.cells().iter().enumerate() {
            match self.compare_column(index, self.clustering(row, index), cell) {
                Ordering::Less => return true,
                Ordering::Greater => return false,
                Ordering::Equal => {}
            }
        }
        matches!(bound, Bound::After(_))
    }

    fn compare(&self, left: &Cells, right: &Cells) -> Ordering {
        (0..self.table.clustering().len())
            .map(|index| {
                self.compare_column(index, self.clustering(left, index), self.clustering(right, index))
            })
            .find(|ordering| ordering.is_ne())
            .unwrap_or(Ordering::Equal)
    }

    fn clustering<'a>(&self, row: &'a Cells, index: usize) -> Option<&'a [u8]> {
        row.get(self.table.partition().len() + index)
    }

    fn compare_column(&self, index: usize, left: Option<&[u8]>, right: Option<&[u8]>) -> Ordering {
        let left = left.expect("key cells are not null");
        let right = right.expect("key cells are not null");
        let ascending = order::compare(&self.table.clustering()[index].ty, left, right);
        self.table.clustering_direction(index).apply(ascending)
    }
}
