//! What the embedded store holds: rows and definitions of tables.

use recto_embedded::fuzzing;

use crate::memory::limited;

/// How many times its bytes a row may take: its cells with their lives.
const MEMORY_FACTOR: usize = 1_024;

pub(crate) fn row(data: &[u8]) {
    limited(data.len(), MEMORY_FACTOR, || fuzzing::stored_row(data));
}

pub(crate) fn table(data: &[u8]) {
    limited(data.len(), MEMORY_FACTOR, || fuzzing::stored_table(data));
}
