//! Rows that a read found, each with the base row of its record if base rows were read.

use recto_model::{RowRef, RowSet};

/// Rows of a sort order's table that belong to a page.
#[derive(Debug)]
pub(crate) struct FoundRows {
    /// Rows as the table of the sort order stores them. They determine positions in the order.
    pub(crate) rows: RowSet,
    /// Base rows of the records of `rows`, in the order of `rows`; `None` if the rows were not
    /// joined with base rows. They contain the fields of the records. Boxed, because most pages
    /// have no base rows.
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

    /// Appends the rows of `other` at the indexes `places`.
    pub(super) fn extend(&mut self, other: &Self, places: impl Iterator<Item = usize>) {
        for place in places {
            let base = other.bases.as_ref().map(|bases| bases.row(place));
            self.push(other.rows.row(place), base);
        }
    }
}
