//! Records of a page as JSON text, for replies that contain the text unchanged.

use recto_model::schema::Field;
use recto_model::{RowRef, json};
use recto_plan::SortOrder;

use crate::core::{CollectionCore, damaged};
use crate::error::Result;
use crate::page::Page;

/// Approximate length of a cell's text per byte of the cell, from which the initial capacity of the
/// text follows.
const TEXT_BYTES_PER_BYTE: usize = 2;

/// Capacity in bytes for the parts of a reply that are not records, such as page tokens.
const REPLY_ROOM_BYTES: usize = 1 << 10;

/// Field of a record that is written as JSON.
struct Written<'c> {
    field: &'c Field,
    /// Name of the field as JSON text, with a comma before it. The first field of a record omits
    /// the comma.
    name: &'c [u8],
    /// Index of the field's column in the rows.
    column: usize,
}

/// Returns the page's records as a JSON array. Each record has the fields `asked`, or all fields if
/// `asked` is empty. Nulls are omitted.
pub(crate) fn records<T>(page: &Page<T>, asked: &[String]) -> Result<String> {
    let fields = fields(page.core(), page.sort_order(), asked);
    let names: usize = fields.iter().map(|field| field.name.len()).sum();
    let rows = page.rows();
    let room = TEXT_BYTES_PER_BYTE * rows.byte_len() + rows.len() * (names + 2) + REPLY_ROOM_BYTES;
    let mut text = Vec::with_capacity(room);
    text.push(b'[');
    for (index, row) in rows.iter().enumerate() {
        if index > 0 {
            text.push(b',');
        }
        record(page, &fields, row, &mut text)?;
    }
    text.push(b']');
    Ok(String::from_utf8(text).expect("JSON is written as UTF-8"))
}

fn fields<'c>(core: &'c CollectionCore, sort_order: &SortOrder, asked: &[String]) -> Vec<Written<'c>> {
    let fields = &core.definition.fields;
    let mut written = Vec::with_capacity(fields.len());
    let fields = fields.iter().zip(&core.field_names().0);
    for ((field, name), column) in fields.zip(&sort_order.column_of_field) {
        let is_asked = asked.is_empty() || asked.contains(&field.name);
        if let Some(column) = column.filter(|_| is_asked) {
            written.push(Written { field, name, column });
        }
    }
    written
}

fn record<T>(page: &Page<T>, fields: &[Written<'_>], row: RowRef<'_>, text: &mut Vec<u8>) -> Result<()> {
    let sort_order = page.sort_order();
    text.push(b'{');
    let mut is_first = true;
    for &Written { field, name, column } in fields {
        let Some(cell) = sort_order.cell(row, column) else {
            continue;
        };
        text.extend_from_slice(if is_first { &name[1..] } else { name });
        is_first = false;
        json::write_cell(&field.ty, cell, text)
            .map_err(|error| damaged(&page.core().definition, &field.name, &error))?;
    }
    text.push(b'}');
    Ok(())
}
