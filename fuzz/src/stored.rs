//! Targets for data of the embedded store: rows and definitions of tables.

use recto_embedded::fuzzing;

use crate::memory::limited;

/// Memory limit of parsing a row or a table, as a multiple of its bytes. A parsed row has cells and their
/// times to live.
const MEMORY_FACTOR: usize = 1_024;

pub(crate) fn row(data: &[u8]) {
    limited(data.len(), MEMORY_FACTOR, || fuzzing::stored_row(data));
}

pub(crate) fn table(data: &[u8]) {
    limited(data.len(), MEMORY_FACTOR, || fuzzing::stored_table(data));
}
