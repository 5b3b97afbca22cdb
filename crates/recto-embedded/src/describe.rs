//! How a slice is read, for people.

use std::fmt::Write as _;

use recto_model::table::ReadDirection;
use recto_model::{Slice, Table};

use crate::keys;

/// The key range of `slice`, in hexadecimal.
pub(crate) fn slice(slice: &Slice) -> String {
    let range = range(slice).unwrap_or_else(|error| format!("no range: {error}"));
    let way = match slice.direction {
        ReadDirection::Forward => "forwards",
        ReadDirection::Backward => "backwards",
    };
    format!(
        "{}: keys {range}, {way}, at most {} rows",
        slice.table.name(),
        slice.limit
    )
}

fn range(slice: &Slice) -> Result<String, recto_store::StoreError> {
    let table: &Table = &slice.table;
    let mut rows = Vec::new();
    keys::push_partition(table, &slice.partition, &mut rows)?;
    rows.push(keys::ROW);
    let from = keys::edge(table, &rows, &slice.from)?;
    let to = keys::edge(table, &rows, &slice.to)?;
    let mut text = String::from("[");
    push_hex(&from, &mut text);
    text.push_str(", ");
    push_hex(&to, &mut text);
    text.push(')');
    Ok(text)
}

fn push_hex(bytes: &[u8], text: &mut String) {
    for byte in bytes {
        let _ = write!(text, "{byte:02x}");
    }
}
