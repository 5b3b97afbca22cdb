//! Rows of a response, read from the received frame.
//!
//! The driver parses rows cell by cell, to convert cells to values. Recto needs the cells
//! unchanged: it finds the end of a row by the lengths of its cells, and copies the row whole. (A
//! row of the protocol is a sequence of cells. Each cell has four bytes of length, negative for
//! null, followed by that number of bytes: CQL binary protocol version 4, sections 3 and 4.2.5.2.)

use std::borrow::Cow;

use recto_model::cell::with_empty_fields_null;
use recto_model::{Column, RowSet};
use recto_store::{StoreError, StoreErrorKind};
use scylla::deserialize::row::ColumnIterator;
use scylla::response::query_result::QueryRowsResult;

use crate::cql::{EmptyCell, Request};
use crate::escape::added_bytes;
use crate::values::{ReadValuesError, check_columns};

/// Number of bytes that encode the length of a cell.
const LENGTH_BYTES: usize = 4;

/// Position of a cell in the bytes of its row: offset and length.
#[derive(Debug, Clone, Copy)]
struct Place {
    start: usize,
    length: usize,
}

/// Source of a cell of a result row: the response, or a known value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum CellFrom {
    /// The cell is in the next column of the response.
    Answer,
    /// Bytes that are already in the buffer of the result, such as those of a known partition key.
    Buffer { start: usize, length: usize },
    /// No source: the column was not requested, and the cell becomes null.
    Nowhere,
}

/// One row of a response.
#[derive(Debug)]
pub(crate) struct AnswerRow<'a> {
    /// Bytes of the row: its cells with their lengths.
    bytes: &'a [u8],
    /// Position of each cell; `None` for a null cell.
    places: &'a [Option<Place>],
}

impl<'a> AnswerRow<'a> {
    /// Returns the cell of a column; `None` if it is null.
    ///
    /// # Panics
    /// If the column does not exist.
    pub(crate) fn get(&self, column: usize) -> Option<&'a [u8]> {
        let Place { start, length } = self.places[column]?;
        Some(&self.bytes[start..start + length])
    }

    /// Returns all cells of the row; `None` for a null cell.
    pub(crate) fn iter(&self) -> impl Iterator<Item = Option<&'a [u8]>> {
        (0..self.places.len()).map(|column| self.get(column))
    }

    /// Appends a row to `rows` that consists of the first `width` cells.
    pub(crate) fn push_to(&self, rows: &mut RowSet, width: usize) {
        self.push_among(rows, width, std::iter::repeat_n(CellFrom::Answer, width));
    }

    /// Appends a row to `rows`. `cells` names the source of each cell. The first `answered` cells are those
    /// of the reply, in order.
    pub(crate) fn push_among(
        &self,
        rows: &mut RowSet,
        answered: usize,
        cells: impl IntoIterator<Item = CellFrom>,
    ) {
        let places = &self.places[..answered];
        let last = places.iter().flatten().next_back();
        let end = last.map_or(0, |place| place.start + place.length);
        let row = rows.push_bytes(&self.bytes[..end]);
        let mut places = places.iter();
        for cell in cells {
            let place = match cell {
                CellFrom::Answer => places
                    .next()
                    .copied()
                    .flatten()
                    .map(|place| (row + place.start, place.length)),
                CellFrom::Buffer { start, length } => Some((start, length)),
                CellFrom::Nowhere => None,
            };
            match place {
                Some((start, length)) => rows.push_span(start, length),
                None => rows.push_cell(None),
            }
        }
    }
}

/// Checks that the columns of `result` are those that `request` expects, then calls `each` with
/// every row, except for rows that the request omits.
///
/// # Errors
/// The columns differ, a row of an attached table has an empty cell in its key, or `each` fails.
pub(crate) fn each_row(
    result: &QueryRowsResult,
    request: &Request<'_>,
    mut each: impl FnMut(&AnswerRow<'_>) -> Result<(), StoreError>,
) -> Result<(), StoreError> {
    let types = &request.result_types;
    check_columns(result.column_specs().as_slice(), types)?;
    let bytes = bytes_of(result, types.len())?;
    let mut rest = &*bytes;
    let mut places = Vec::with_capacity(types.len());
    let columns = types.iter().zip(&request.empty_cells).enumerate();
    let nested: Vec<_> = columns.filter(|(_, (ty, _))| ty.is_nested()).collect();
    for _ in 0..result.rows_num() {
        places.clear();
        let length = measure(rest, types.len(), &mut places).ok_or(ReadValuesError::Truncated)?;
        let (row, following) = rest.split_at(length);
        rest = following;
        if let Some(Some(place)) = places.first_mut().filter(|_| request.has_escaped_partition) {
            place.length -= added_bytes(&row[place.start..place.start + place.length]);
        }
        let mut is_left_out = false;
        for (place, empty) in places.iter_mut().zip(&request.empty_cells) {
            if place.is_some_and(|place| place.length == 0) {
                match empty {
                    EmptyCell::Value => {}
                    EmptyCell::Null => *place = None,
                    EmptyCell::LeftOut => is_left_out = true,
                    EmptyCell::Unordered(column) => return Err(empty_in_key(column)),
                }
            }
        }
        if is_left_out {
            continue;
        }
        let mut row = Cow::Borrowed(row);
        for (column, (ty, _)) in &nested {
            let Some(Place { start, length }) = places[*column] else {
                continue;
            };
            if let Some(cell) = with_empty_fields_null(ty, &row[start..start + length]) {
                row.to_mut()[start..start + length].copy_from_slice(&cell);
            }
        }
        each(&AnswerRow {
            bytes: &row,
            places: &places,
        })?;
    }
    Ok(())
}

#[cold]
fn empty_in_key(column: &Column) -> StoreError {
    StoreError::new(
        StoreErrorKind::Invalid,
        format!(
            "a row has an empty value (no bytes) in column {} of its key, and Recto does not support an \
             empty {}",
            column.name, column.ty
        ),
    )
    .with_hint(format!(
        "exclude such rows with a condition on {}, for example `{} >= ` the lowest value; or delete them",
        column.name, column.name
    ))
}

/// Finds the cells of the row at the start of `bytes`, and returns the size of the row in bytes.
/// Returns `None` if `bytes` ends within the row.
fn measure(bytes: &[u8], columns: usize, places: &mut Vec<Option<Place>>) -> Option<usize> {
    let mut start = 0;
    for _ in 0..columns {
        let length = i32::from_be_bytes(*bytes.get(start..)?.first_chunk()?);
        start += LENGTH_BYTES;
        let Ok(length) = usize::try_from(length) else {
            places.push(None);
            continue;
        };
        if length > bytes.len() - start {
            return None;
        }
        places.push(Some(Place { start, length }));
        start += length;
    }
    Some(start)
}

/// Returns the bytes of all rows. The driver exposes these bytes only through a cell. This function
/// therefore takes the first cell that is not null, and computes where the rows begin in the frame.
fn bytes_of(result: &QueryRowsResult, columns: usize) -> Result<Cow<'_, [u8]>, ReadValuesError> {
    let rows = result
        .rows::<ColumnIterator<'_, '_>>()
        .map_err(ReadValuesError::frame)?;
    let mut nulls = 0;
    for row in rows {
        for column in row.map_err(ReadValuesError::frame)? {
            let Some(cell) = column.map_err(ReadValuesError::frame)?.slice else {
                nulls += 1;
                continue;
            };
            let frame: &[u8] = cell.as_original_frame_bytes();
            let offset = cell.as_slice().as_ptr().addr().checked_sub(frame.as_ptr().addr());
            let start = offset.and_then(|offset| offset.checked_sub((nulls + 1) * LENGTH_BYTES));
            let rows = start.and_then(|start| frame.get(start..));
            return rows.map(Cow::Borrowed).ok_or(ReadValuesError::Truncated);
        }
    }
    // All cells are null and have no bytes, so build the rows here: they consist of lengths only.
    Ok(Cow::Owned(vec![0xFF; result.rows_num() * columns * LENGTH_BYTES]))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cells(bytes: &[u8], columns: usize) -> Option<(usize, Vec<Option<Vec<u8>>>)> {
        let mut places = Vec::new();
        let length = measure(bytes, columns, &mut places)?;
        let row = AnswerRow {
            bytes: &bytes[..length],
            places: &places,
        };
        Some((length, row.iter().map(|cell| cell.map(<[u8]>::to_vec)).collect()))
    }

    #[test]
    fn a_row_is_measured_by_its_cells() {
        let bytes = [0, 0, 0, 2, 7, 8, 0xFF, 0xFF, 0xFF, 0xFF, 0, 0, 0, 0, 9, 9];
        let found = vec![Some(vec![7, 8]), None, Some(vec![])];
        assert_eq!(cells(&bytes, 3), Some((14, found)));
        assert_eq!(cells(&bytes, 0), Some((0, vec![])));
    }

    #[test]
    fn a_row_that_is_cut_anywhere_is_found_to_be() {
        let bytes = [0, 0, 0, 2, 7, 8, 0, 0, 0, 1, 9];
        assert!(cells(&bytes, 2).is_some());
        for length in 0..bytes.len() {
            assert_eq!(cells(&bytes[..length], 2), None, "{length} bytes");
        }
        let long = [0x7F, 0xFF, 0xFF, 0xFF, 1];
        assert_eq!(cells(&long, 1), None);
    }

    #[test]
    fn a_row_is_pushed_without_what_lies_beyond_the_wanted_cells() {
        let bytes = [0, 0, 0, 1, 5, 0xFF, 0xFF, 0xFF, 0xFF, 0, 0, 0, 3, 1, 2, 3];
        let mut places = Vec::new();
        measure(&bytes, 3, &mut places).expect("the row is whole");
        let row = AnswerRow {
            bytes: &bytes,
            places: &places,
        };
        let mut rows = RowSet::new(2);
        row.push_to(&mut rows, 2);
        row.push_to(&mut rows, 2);
        assert_eq!(rows.byte_len(), 10);
        for pushed in rows.iter() {
            assert_eq!(pushed.iter().collect::<Vec<_>>(), [Some(&[5][..]), None]);
        }
    }
}
