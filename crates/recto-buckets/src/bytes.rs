//! Byte encoding of positions: each value is preceded by its length.

use recto_model::Cells;

pub(crate) fn write_bytes(bytes: &[u8], to: &mut Vec<u8>) {
    to.extend((bytes.len() as u32).to_be_bytes());
    to.extend(bytes);
}

/// Writes the cells of a key, none of which is null.
pub(crate) fn write_cells(cells: &Cells, to: &mut Vec<u8>) {
    to.extend((cells.len() as u32).to_be_bytes());
    cells
        .iter()
        .for_each(|cell| write_bytes(cell.unwrap_or_default(), to));
}

pub(crate) fn take<'b>(from: &mut &'b [u8], count: usize) -> Option<&'b [u8]> {
    let (taken, rest) = from.split_at_checked(count)?;
    *from = rest;
    Some(taken)
}

pub(crate) fn read_length(from: &mut &[u8]) -> Option<usize> {
    let length = take(from, 4)?.try_into().ok()?;
    usize::try_from(u32::from_be_bytes(length)).ok()
}

pub(crate) fn read_bytes<'b>(from: &mut &'b [u8]) -> Option<&'b [u8]> {
    let length = read_length(from)?;
    take(from, length)
}

pub(crate) fn read_cells(from: &mut &[u8]) -> Option<Cells> {
    let mut cells = Cells::new();
    for _ in 0..read_length(from)? {
        cells.push(Some(read_bytes(from)?));
    }
    Some(cells)
}
