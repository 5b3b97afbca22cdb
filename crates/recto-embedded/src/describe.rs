//! Readable description of the read of a slice.

use recto_model::table::ReadDirection;
use recto_model::{Bound, Cells, Column, Slice, cell, json};

/// Returns a description of the keys of `slice`, by their values: the keys of a partition between two edges.
pub(crate) fn slice(slice: &Slice) -> String {
    let table = &slice.table;
    let way = match slice.direction {
        ReadDirection::Forward => "forwards",
        ReadDirection::Backward => "backwards",
    };
    let edge = |bound: &Bound| edge(table.clustering(), bound);
    let range = match (edge(&slice.from), edge(&slice.to)) {
        (None, None) => "all of them".to_owned(),
        (Some(from), None) => format!("from {from}"),
        (None, Some(to)) => format!("up to {to}"),
        (Some(from), Some(to)) => format!("from {from} up to {to}"),
    };
    format!(
        "{}: keys that begin with {}, {range}, {way}, at most {} rows",
        table.name(),
        values(table.partition(), &slice.partition),
        slice.limit
    )
}

/// Describes an edge of a slice to users, as `before (…)` or `after (…)` with the values of the key. `None`:
/// the edge is at the start or end of the partition.
fn edge(columns: &[Column], bound: &Bound) -> Option<String> {
    let cells = bound.cells();
    let side = match bound {
        Bound::Before(_) => "before",
        Bound::After(_) => "after",
    };
    (!cells.is_empty()).then(|| format!("{side} {}", values(columns, cells)))
}

fn values(columns: &[Column], cells: &Cells) -> String {
    let texts = columns.iter().zip(cells.iter()).map(|(column, cell)| {
        let value = cell.and_then(|cell| cell::decode(&column.ty, cell).ok());
        value.map_or_else(
            || "?".to_owned(),
            |value| json::to_json(&column.ty, &value).to_string(),
        )
    });
    format!("({})", texts.collect::<Vec<_>>().join(", "))
}
