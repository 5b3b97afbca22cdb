//! Rows that were found, each with the base row of its record where that was read.

use recto_model::{RowRef, RowSet};

/// Rows of a sort order.
#[derive(Debug)]
pub(crate) struct FoundRows {
    /// As they stand in the sort order, which says where they are in the order.
    pub(crate) rows: RowSet,
    /// Where they were joined with base rows, those, in the same order: what the records are. Boxed: most pages have none, and hold many of these while they are read.
    pub(crate) bases: Option<Box<RowSet>>,
}

impl FoundRows {
    pub(crate) fn len(&self) -> usize {
        self.rows.len()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    pub(super) fn push(&mut self, row: RowRef<'_>, base: Option<RowRef<'_>>) {
        self.rows.push_row(row);
        if let (Some(bases), Some(base)) = (&mut self.bases, base) {
            bases.push_row(base);
        }
    }

    pub(super) fn truncate(&mut self, rows: usize) {
        self.rows.truncate(rows);
        if let Some(bases) = &mut self.bases {
            bases.truncate(rows);
        }
    }

    /// Adds those rows of another that are at these places.
    pub(super) fn extend(&mut self, other: &Self, places: impl Iterator<Item = usize>) {
        for place in places {
            let base = other.bases.as_ref().map(|bases| bases.row(place));
            self.push(other.rows.row(place), base);
        }
    }
}
