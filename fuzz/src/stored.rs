//! Data of the embedded store: rows and definitions of tables.

use recto_embedded::fuzzing;

use crate::memory::limited;

/// Memory limit of a row, as a multiple of its bytes: its cells and their lifetimes.
const MEMORY_FACTOR: usize = 1_024;

pub(crate) fn row(data: &[u8]) {
    limited(data.len(), MEMORY_FACTOR, || fuzzing::stored_row(data));
}

pub(crate) fn table(data: &[u8]) {
    limited(data.len(), MEMORY_FACTOR, || fuzzing::stored_table(data));
}
