//! Rows as sequences of cells (encoded values). All cells of a sequence, or of several rows, share
//! one buffer.

/// Position of a cell's bytes in a buffer of cells.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Span {
    start: u32,
    length: u32,
}

/// Value of a span's length that stands for a null cell.
const NULL: u32 = u32::MAX;

/// Maximum size of a buffer of cells in bytes, so that every offset and every length fits into 32 bits. The
/// callers that fill a buffer have much lower limits: a row or a key has at most 16 MiB, and a read has a
/// byte limit.
pub const MAX_BUFFER_BYTES: usize = u32::MAX as usize - 1;

/// Panics if a buffer has grown beyond [`MAX_BUFFER_BYTES`]. A truncated 32-bit offset would point
/// to the bytes of another cell.
#[inline]
fn check_buffer(data: &[u8]) {
    assert!(
        data.len() <= MAX_BUFFER_BYTES,
        "cells in one buffer have at most MAX_BUFFER_BYTES bytes, 4 GiB"
    );
}

impl Span {
    const NULL: Self = Self {
        start: 0,
        length: NULL,
    };

    /// Returns the span from offset `start` to the end of `data`, the buffer to which the bytes
    /// were appended.
    #[inline]
    fn appended(start: usize, data: &[u8]) -> Self {
        check_buffer(data);
        Self::within(start, data.len() - start)
    }

    /// Returns a span in a buffer whose size is already known to be at most [`MAX_BUFFER_BYTES`].
    #[inline]
    fn within(start: usize, length: usize) -> Self {
        Self {
            start: start as u32,
            length: length as u32,
        }
    }

    #[inline]
    fn slice(self, data: &[u8]) -> Option<&[u8]> {
        if self.length == NULL {
            return None;
        }
        let start = self.start as usize;
        Some(&data[start..start + self.length as usize])
    }
}

/// Sequence of cells in one buffer: a key, a part of a key, or a whole row. Each cell is null or contains the
/// bytes of one value (see [`cell`](crate::cell)).
///
/// # Panics
/// Functions that append cells panic if the buffer exceeds [`MAX_BUFFER_BYTES`].
#[derive(Debug, Clone, Default)]
pub struct Cells {
    data: Vec<u8>,
    spans: Vec<Span>,
}

impl Cells {
    /// Returns a sequence without cells.
    pub fn new() -> Self {
        Self::default()
    }

    /// Returns an empty sequence with capacity for `cells` cells of `bytes` bytes in total.
    pub fn with_capacity(cells: usize, bytes: usize) -> Self {
        Self {
            data: Vec::with_capacity(bytes),
            spans: Vec::with_capacity(cells),
        }
    }

    /// Appends a cell (encoded value). `None` is null.
    pub fn push(&mut self, cell: Option<&[u8]>) {
        match cell {
            None => self.spans.push(Span::NULL),
            Some(bytes) => self.push_with(|data| data.extend_from_slice(bytes)),
        }
    }

    /// Appends a cell. `write` appends the bytes of the cell to the given buffer.
    pub fn push_with(&mut self, write: impl FnOnce(&mut Vec<u8>)) {
        let start = self.data.len();
        write(&mut self.data);
        self.spans.push(Span::appended(start, &self.data));
    }

    /// Appends a cell whose bytes `write` appends to the given buffer. On error, appends nothing.
    pub fn try_push_with<E>(&mut self, write: impl FnOnce(&mut Vec<u8>) -> Result<(), E>) -> Result<(), E> {
        let start = self.data.len();
        if let Err(error) = write(&mut self.data) {
            self.data.truncate(start);
            return Err(error);
        }
        self.spans.push(Span::appended(start, &self.data));
        Ok(())
    }

    /// Appends all cells of `row`.
    pub fn extend(&mut self, row: RowRef<'_>) {
        for cell in row.iter() {
            self.push(cell);
        }
    }

    /// Inserts a null cell before all cells. Moves no bytes of the buffer.
    #[must_use]
    pub fn with_null_first(mut self) -> Self {
        self.spans.insert(0, Span::NULL);
        self
    }

    /// Removes all cells after the first `count`. Their bytes stay in the buffer.
    pub fn truncate(&mut self, count: usize) {
        self.spans.truncate(count);
    }

    /// Returns the number of cells.
    pub fn len(&self) -> usize {
        self.spans.len()
    }

    /// Returns whether there are no cells.
    pub fn is_empty(&self) -> bool {
        self.spans.is_empty()
    }

    /// Returns the cell at `index`, or `None` if the cell is null.
    ///
    /// # Panics
    /// If `index` is not less than the number of cells.
    pub fn get(&self, index: usize) -> Option<&[u8]> {
        self.spans[index].slice(&self.data)
    }

    /// Returns all cells as a row.
    pub fn as_row(&self) -> RowRef<'_> {
        RowRef {
            data: &self.data,
            spans: &self.spans,
        }
    }

    /// Returns the cells in order.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = Option<&[u8]>> + '_ {
        self.as_row().iter()
    }

    /// Returns the total number of bytes of the cells, without their positions.
    pub fn byte_len(&self) -> usize {
        self.as_row().byte_len()
    }
}

impl PartialEq for Cells {
    fn eq(&self, other: &Self) -> bool {
        self.as_row() == other.as_row()
    }
}

impl Eq for Cells {}

impl std::hash::Hash for Cells {
    fn hash<H: std::hash::Hasher>(&self, state: &mut H) {
        for cell in self.iter() {
            cell.hash(state);
        }
    }
}

impl<'a> FromIterator<Option<&'a [u8]>> for Cells {
    fn from_iter<I: IntoIterator<Item = Option<&'a [u8]>>>(iter: I) -> Self {
        let mut cells = Cells::new();
        for cell in iter {
            cells.push(cell);
        }
        cells
    }
}

/// Borrowed row: cells in the order of the table's columns, or in the order in which they were appended.
#[derive(Debug, Clone, Copy)]
pub struct RowRef<'a> {
    data: &'a [u8],
    spans: &'a [Span],
}

impl<'a> RowRef<'a> {
    /// Returns the number of cells of the row.
    pub fn len(&self) -> usize {
        self.spans.len()
    }

    /// Returns whether the row has no cells.
    pub fn is_empty(&self) -> bool {
        self.spans.is_empty()
    }

    /// Returns the cell at `index`, or `None` if the cell is null.
    ///
    /// # Panics
    /// If `index` is not less than the number of cells.
    #[inline]
    pub fn get(&self, index: usize) -> Option<&'a [u8]> {
        self.spans[index].slice(self.data)
    }

    /// Returns the cells in order.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = Option<&'a [u8]>> + use<'a> {
        let data = self.data;
        self.spans.iter().map(move |span| span.slice(data))
    }

    /// Returns the total number of bytes of the row's cells.
    pub fn byte_len(&self) -> usize {
        self.spans
            .iter()
            .filter(|span| span.length != NULL)
            .map(|span| span.length as usize)
            .sum()
    }

    /// Copies the cells of the row into a new buffer.
    pub fn to_cells(&self) -> Cells {
        self.iter().collect()
    }
}

impl PartialEq for RowRef<'_> {
    fn eq(&self, other: &Self) -> bool {
        self.len() == other.len() && self.iter().eq(other.iter())
    }
}

impl Eq for RowRef<'_> {}

/// Rows with the same number of cells, in one buffer. A set needs two allocations for any number of
/// rows.
///
/// # Panics
/// Functions that append cells panic if the buffer exceeds [`MAX_BUFFER_BYTES`].
#[derive(Debug, Clone, Default)]
pub struct RowSet {
    width: usize,
    data: Vec<u8>,
    spans: Vec<Span>,
    /// Number of rows if `width` is 0, otherwise 0. Without cells, the number of cells does not
    /// tell it.
    without_cells: usize,
}

impl RowSet {
    /// Returns a set without rows, for rows of `width` cells.
    pub fn new(width: usize) -> Self {
        Self {
            width,
            data: Vec::new(),
            spans: Vec::new(),
            without_cells: 0,
        }
    }

    /// Returns a set without rows, for rows of `width` cells, with capacity for `rows` rows of `row_bytes`
    /// bytes each.
    pub fn with_capacity(width: usize, rows: usize, row_bytes: usize) -> Self {
        Self {
            width,
            data: Vec::with_capacity(rows * row_bytes),
            spans: Vec::with_capacity(rows * width),
            without_cells: 0,
        }
    }

    /// Reserves capacity for `rows` additional rows of `bytes` bytes in total.
    pub fn reserve(&mut self, rows: usize, bytes: usize) {
        self.data.reserve(bytes);
        self.spans.reserve(rows * self.width);
    }

    /// Returns the number of cells of each row.
    pub fn width(&self) -> usize {
        self.width
    }

    /// Returns the number of complete rows. A row whose last cells are not appended yet does not
    /// count.
    pub fn len(&self) -> usize {
        self.spans
            .len()
            .checked_div(self.width)
            .unwrap_or(self.without_cells)
    }

    /// Returns whether there are no rows.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the number of bytes of the buffer, including bytes of removed cells.
    pub fn byte_len(&self) -> usize {
        self.data.len()
    }

    /// Returns the row at `index`.
    ///
    /// # Panics
    /// If `index` is not less than the number of rows.
    #[inline]
    pub fn row(&self, index: usize) -> RowRef<'_> {
        let start = index * self.width;
        RowRef {
            data: &self.data,
            spans: &self.spans[start..start + self.width],
        }
    }

    /// Returns the rows in order.
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = RowRef<'_>> + ExactSizeIterator {
        (0..self.len()).map(|index| self.row(index))
    }

    /// Keeps only the given columns of each row, in the given order. The bytes of the other columns
    /// stay in the buffer.
    ///
    /// # Panics
    /// If a column index is not less than the width.
    #[must_use]
    pub fn with_columns(self, columns: &[usize]) -> Self {
        let mut spans = Vec::with_capacity(self.len() * columns.len());
        for row in self.spans.chunks_exact(self.width.max(1)) {
            spans.extend(columns.iter().map(|column| row[*column]));
        }
        Self {
            without_cells: if columns.is_empty() { self.len() } else { 0 },
            width: columns.len(),
            data: self.data,
            spans,
        }
    }

    /// Appends a row.
    ///
    /// # Panics
    /// If the row does not have `width` cells.
    pub fn push_row(&mut self, row: RowRef<'_>) {
        assert_eq!(
            row.len(),
            self.width,
            "a row must have as many cells as the rows of its set"
        );
        for cell in row.iter() {
            self.push_cell(cell);
        }
        self.without_cells += usize::from(self.width == 0);
    }

    /// Appends one cell to the last, incomplete row. A row is complete when it has `width` cells.
    #[inline]
    pub fn push_cell(&mut self, cell: Option<&[u8]>) {
        match cell {
            None => self.spans.push(Span::NULL),
            Some(bytes) => {
                let start = self.data.len();
                self.data.extend_from_slice(bytes);
                self.spans.push(Span::appended(start, &self.data));
            }
        }
    }

    /// Appends one cell to the last, incomplete row. `write` appends the bytes of the cell to the
    /// given buffer. On error, appends nothing.
    pub fn try_push_cell_with<E>(
        &mut self,
        write: impl FnOnce(&mut Vec<u8>) -> Result<(), E>,
    ) -> Result<(), E> {
        let start = self.data.len();
        if let Err(error) = write(&mut self.data) {
            self.data.truncate(start);
            return Err(error);
        }
        self.spans.push(Span::appended(start, &self.data));
        Ok(())
    }

    /// Appends `bytes` to the buffer without creating a cell. Returns their offset, for
    /// [`push_span`](Self::push_span). Stores use it to copy a stored row as a whole.
    #[inline]
    pub fn push_bytes(&mut self, bytes: &[u8]) -> usize {
        let start = self.data.len();
        self.data.extend_from_slice(bytes);
        check_buffer(&self.data);
        start
    }

    /// Appends a cell whose bytes are already in the buffer, at `start..start + length`.
    ///
    /// # Panics
    /// If the range is not inside the buffer.
    #[inline]
    pub fn push_span(&mut self, start: usize, length: usize) {
        assert!(
            start + length <= self.data.len(),
            "a cell must be inside its buffer"
        );
        self.spans.push(Span::within(start, length));
    }

    /// Removes all rows after the first `rows`, and the cells of an incomplete row.
    pub fn truncate(&mut self, rows: usize) {
        self.spans.truncate(rows * self.width);
        self.without_cells = self.without_cells.min(rows);
    }

    /// Removes the cells of an incomplete row.
    pub fn abandon_row(&mut self) {
        let whole = self.len();
        self.truncate(whole);
    }

    /// Reverses the order of the rows in time linear in the number of cells. Moves no bytes.
    pub fn reverse(&mut self) {
        let (width, rows) = (self.width, self.len());
        for front in 0..rows / 2 {
            let back = rows - 1 - front;
            for cell in 0..width {
                self.spans.swap(front * width + cell, back * width + cell);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_without_cells_are_counted() {
        let mut rows = RowSet::new(0);
        assert!(rows.is_empty());
        (0..3).for_each(|_| rows.push_row(Cells::new().as_row()));
        rows.truncate(2);
        rows.reverse();
        assert_eq!((rows.len(), rows.iter().count()), (2, 2));
        let mut wider = RowSet::new(1);
        wider.push_row([Some(b"a".as_slice())].into_iter().collect::<Cells>().as_row());
        assert_eq!(wider.with_columns(&[]).len(), 1);
    }

    #[test]
    fn a_place_at_the_bound_fits() {
        let span = Span::within(MAX_BUFFER_BYTES, MAX_BUFFER_BYTES);
        assert_eq!(span.start as usize, MAX_BUFFER_BYTES);
        assert_eq!(span.length as usize, MAX_BUFFER_BYTES);
        assert_ne!(span.length, NULL);
    }

    #[test]
    fn rows_keep_cells_and_reverse() {
        let mut rows = RowSet::new(2);
        rows.push_cell(Some(b"a"));
        rows.push_cell(None);
        rows.push_cell(Some(b""));
        rows.push_cell(Some(b"bc"));
        rows.push_cell(Some(b"half"));
        rows.abandon_row();
        assert_eq!(rows.len(), 2);
        rows.reverse();
        assert_eq!(rows.row(0).get(0), Some(&b""[..]));
        assert_eq!(rows.row(1).get(1), None);
        assert_eq!(rows.row(0).to_cells().get(1), Some(&b"bc"[..]));
    }
}
