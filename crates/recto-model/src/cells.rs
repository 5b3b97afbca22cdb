//! Rows as cells in one buffer.

/// Where a cell's bytes lie in its buffer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Span {
    start: u32,
    length: u32,
}

/// The length that stands for null.
const NULL: u32 = u32::MAX;

/// The most bytes of a buffer of cells, so that no place in it, and no length, needs more than 32 bits. Whoever
/// fills one has a limit of its own, far below: a row or a key has at most 16 MiB, a read stops after some.
pub const MAX_BUFFER_BYTES: usize = u32::MAX as usize - 1;

/// Checks a buffer that has grown. A place that did not fit would be another cell's bytes.
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

    /// Where the bytes lie that were appended to a buffer from `start` on.
    #[inline]
    fn appended(start: usize, data: &[u8]) -> Self {
        check_buffer(data);
        Self::within(start, data.len() - start)
    }

    /// `start` and `length` of bytes in a buffer that was checked.
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

/// A sequence of cells, each null or the bytes of one value (see [`cell`](crate::cell)), in one
/// buffer: a key, a part of a key, a whole row.
///
/// # Panics
/// When they have more than [`MAX_BUFFER_BYTES`].
#[derive(Debug, Clone, Default)]
pub struct Cells {
    data: Vec<u8>,
    spans: Vec<Span>,
}

impl Cells {
    /// No cells.
    pub fn new() -> Self {
        Self::default()
    }

    /// No cells, with room for `cells` cells of `bytes` bytes together.
    pub fn with_capacity(cells: usize, bytes: usize) -> Self {
        Self {
            data: Vec::with_capacity(bytes),
            spans: Vec::with_capacity(cells),
        }
    }

    /// Appends a cell.
    pub fn push(&mut self, cell: Option<&[u8]>) {
        match cell {
            None => self.spans.push(Span::NULL),
            Some(bytes) => self.push_with(|data| data.extend_from_slice(bytes)),
        }
    }

    /// Appends the cell that `write` writes at the end of the buffer it is given.
    pub fn push_with(&mut self, write: impl FnOnce(&mut Vec<u8>)) {
        let start = self.data.len();
        write(&mut self.data);
        self.spans.push(Span::appended(start, &self.data));
    }

    /// As [`push_with`](Self::push_with), for a writer that can fail; on error nothing is appended.
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

    /// The same cells behind one that is null. No bytes are moved.
    #[must_use]
    pub fn with_null_first(mut self) -> Self {
        self.spans.insert(0, Span::NULL);
        self
    }

    /// Drops all cells after the first `count`. The buffer keeps its bytes.
    pub fn truncate(&mut self, count: usize) {
        self.spans.truncate(count);
    }

    /// How many cells there are.
    pub fn len(&self) -> usize {
        self.spans.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.spans.is_empty()
    }

    /// The cell at `index`; `None` if null.
    ///
    /// # Panics
    /// If there is no such cell.
    pub fn get(&self, index: usize) -> Option<&[u8]> {
        self.spans[index].slice(&self.data)
    }

    /// All cells as a row.
    pub fn as_row(&self) -> RowRef<'_> {
        RowRef {
            data: &self.data,
            spans: &self.spans,
        }
    }

    /// The cells in order.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = Option<&[u8]>> + '_ {
        self.as_row().iter()
    }

    /// The bytes of all cells together.
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

/// One row, borrowed: cells in the order of its table's columns or of whatever made it.
#[derive(Debug, Clone, Copy)]
pub struct RowRef<'a> {
    data: &'a [u8],
    spans: &'a [Span],
}

impl<'a> RowRef<'a> {
    /// How many cells the row has.
    pub fn len(&self) -> usize {
        self.spans.len()
    }

    /// Whether it has none.
    pub fn is_empty(&self) -> bool {
        self.spans.is_empty()
    }

    /// The cell at `index`; `None` if null.
    ///
    /// # Panics
    /// If there is no such cell.
    #[inline]
    pub fn get(&self, index: usize) -> Option<&'a [u8]> {
        self.spans[index].slice(self.data)
    }

    /// The cells in order.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = Option<&'a [u8]>> + use<'a> {
        let data = self.data;
        self.spans.iter().map(move |span| span.slice(data))
    }

    /// The bytes of all cells together.
    pub fn byte_len(&self) -> usize {
        self.spans
            .iter()
            .filter(|span| span.length != NULL)
            .map(|span| span.length as usize)
            .sum()
    }

    /// The row with its own buffer.
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

/// Rows of equal width in one buffer: three allocations, however many rows.
///
/// # Panics
/// When they have more than [`MAX_BUFFER_BYTES`].
#[derive(Debug, Clone, Default)]
pub struct RowSet {
    width: usize,
    data: Vec<u8>,
    spans: Vec<Span>,
    /// How many rows there are that have no cells, where rows have none.
    without_cells: usize,
}

impl RowSet {
    /// No rows, of `width` cells each.
    pub fn new(width: usize) -> Self {
        Self {
            width,
            data: Vec::new(),
            spans: Vec::new(),
            without_cells: 0,
        }
    }

    /// No rows of `width` cells each, with room for `rows` rows of `row_bytes` bytes.
    pub fn with_capacity(width: usize, rows: usize, row_bytes: usize) -> Self {
        Self {
            width,
            data: Vec::with_capacity(rows * row_bytes),
            spans: Vec::with_capacity(rows * width),
            without_cells: 0,
        }
    }

    /// Makes room for so many more rows, of `bytes` bytes together.
    pub fn reserve(&mut self, rows: usize, bytes: usize) {
        self.data.reserve(bytes);
        self.spans.reserve(rows * self.width);
    }

    /// Cells per row.
    pub fn width(&self) -> usize {
        self.width
    }

    /// How many whole rows there are.
    pub fn len(&self) -> usize {
        self.spans
            .len()
            .checked_div(self.width)
            .unwrap_or(self.without_cells)
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The bytes the rows take.
    pub fn byte_len(&self) -> usize {
        self.data.len()
    }

    /// The row at `index`.
    ///
    /// # Panics
    /// If there is no such row.
    #[inline]
    pub fn row(&self, index: usize) -> RowRef<'_> {
        let start = index * self.width;
        RowRef {
            data: &self.data,
            spans: &self.spans[start..start + self.width],
        }
    }

    /// The rows in order.
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = RowRef<'_>> + ExactSizeIterator {
        (0..self.len()).map(|index| self.row(index))
    }

    /// The same rows with these of their columns only, in this order. The bytes of the others stay in the buffer.
    ///
    /// # Panics
    /// If there is no such column.
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
    /// If its width is another.
    pub fn push_row(&mut self, row: RowRef<'_>) {
        assert_eq!(
            row.len(),
            self.width,
            "a row has as many cells as its set is wide"
        );
        for cell in row.iter() {
            self.push_cell(cell);
        }
        self.without_cells += usize::from(self.width == 0);
    }

    /// Appends one cell of the row being built; `width` cells make a row.
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

    /// Appends the cell that `write` writes at the end of the buffer it is given; on error
    /// nothing is appended.
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

    /// Appends `bytes` to the buffer without making a cell; returns where they start, for
    /// [`push_span`](Self::push_span). For stores that copy a stored row whole.
    #[inline]
    pub fn push_bytes(&mut self, bytes: &[u8]) -> usize {
        let start = self.data.len();
        self.data.extend_from_slice(bytes);
        check_buffer(&self.data);
        start
    }

    /// Appends a cell that lies at `start..start + length` of the buffer already.
    ///
    /// # Panics
    /// If it does not lie in the buffer.
    #[inline]
    pub fn push_span(&mut self, start: usize, length: usize) {
        assert!(start + length <= self.data.len(), "a cell lies in its buffer");
        self.spans.push(Span::within(start, length));
    }

    /// Drops all rows after the first `rows`, and any half-built row.
    pub fn truncate(&mut self, rows: usize) {
        self.spans.truncate(rows * self.width);
        self.without_cells = self.without_cells.min(rows);
    }

    /// Drops the cells of a row that was begun and not finished.
    pub fn abandon_row(&mut self) {
        let whole = self.len();
        self.truncate(whole);
    }

    /// Reverses the order of the rows. Linear in cells; no bytes are moved.
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
