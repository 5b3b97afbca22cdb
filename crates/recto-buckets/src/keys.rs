//! Encoded clustering keys of a table: edges and spans in the order of its rows.

use recto_model::table::{ColumnKind, Direction};
use recto_model::{Bound, Cells, Column, RowRef, Table, key};
use recto_protocol::buckets::{Key, Span};

use crate::error::{PiecesError, PiecesErrorKind, Result};

/// Returns the encoded form of the first cells of a clustering key.
///
/// # Errors
/// The cells are not the first cells of a clustering key of the table.
pub(crate) fn key_of(table: &Table, clustering: RowRef<'_>) -> Result<Key> {
    // Most encoded keys are barely longer than their cells.
    let mut encoded = Key::with_capacity(clustering.byte_len() + 2 * clustering.len());
    key::encode_clustering(table, clustering, &mut encoded)?;
    Ok(encoded)
}

/// Returns the edge before all keys that begin with the cells that `edge` encodes.
///
/// # Errors
/// `Corrupt`: the bytes are not the beginning of a key.
pub(crate) fn bound_of(table: &Table, edge: &[u8]) -> Result<Bound> {
    let (mut rest, mut cells) = (edge, Cells::new());
    for column in table.clustering() {
        if rest.is_empty() {
            break;
        }
        let direction = direction_of(column);
        let decoded = cells.try_push_with(|out| key::decode(&column.ty, direction, &mut rest, out));
        decoded.map_err(|error| not_an_edge(table, &error.to_string()))?;
    }
    if !rest.is_empty() {
        return Err(not_an_edge(table, "bytes follow the key"));
    }
    Ok(Bound::Before(cells))
}

#[cold]
fn not_an_edge(table: &Table, reason: &str) -> PiecesError {
    let table = table.name();
    let message = format!("the edge of a key range in table {table} is not one of its keys: {reason}");
    PiecesError::new(PiecesErrorKind::Corrupt, message)
}

/// Returns the encoded form of an edge between rows, or `None` for the edge behind all keys.
///
/// # Errors
/// The cells of the edge are not the first cells of a clustering key of the table.
pub(crate) fn edge_of(table: &Table, bound: &Bound) -> Result<Option<Key>> {
    let mut encoded = key_of(table, bound.cells().as_row())?;
    let is_some = match bound {
        Bound::Before(_) => true,
        Bound::After(_) => key::prefix_successor(&mut encoded),
    };
    Ok(is_some.then_some(encoded))
}

/// Returns the keys between two edges, or `None` if the range is empty.
///
/// # Errors
/// The cells of an edge are not the first cells of a clustering key of the table.
pub(crate) fn span_of(table: &Table, from: &Bound, to: &Bound) -> Result<Option<Span>> {
    let end_of_all = |bound: &Bound| matches!(bound, Bound::After(cells) if cells.is_empty());
    if end_of_all(from) {
        return Ok(None);
    }
    let Some(start) = edge_of(table, from)? else {
        return Ok(None);
    };
    let end = if end_of_all(to) { None } else { edge_of(table, to)? };
    let is_some = end.as_ref().is_none_or(|end| start < *end);
    Ok(is_some.then_some(Span { start, end }))
}

/// Returns both edges of a span (a range of encoded keys) as bounds of a slice.
///
/// # Errors
/// `Corrupt`: an edge is not the beginning of a key.
pub(crate) fn bounds_of(table: &Table, span: &Span) -> Result<(Bound, Bound)> {
    let to = match &span.end {
        Some(end) => bound_of(table, end)?,
        None => Bound::end(),
    };
    Ok((bound_of(table, &span.start)?, to))
}

pub(crate) fn direction_of(column: &Column) -> Direction {
    match column.kind {
        ColumnKind::Clustering(direction) => direction,
        _ => Direction::Ascending,
    }
}
