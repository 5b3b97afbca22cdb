//! The records of a page as JSON text, for pages that are passed on.

use recto_model::schema::Field;
use recto_model::{RowRef, json};
use recto_plan::SortOrder;

use crate::core::{CollectionCore, damaged};
use crate::error::Result;
use crate::page::Page;

/// How many times longer a cell's text is than its bytes, about: room is set aside for that.
const TEXT_BYTES_PER_BYTE: usize = 2;

/// Room for what a reply holds beside its records: its tokens, for one.
const REPLY_ROOM_BYTES: usize = 1 << 10;

/// A field to write.
struct Written<'c> {
    field: &'c Field,
    /// Its name as it stands in every record but at its beginning, where it has no comma.
    name: &'c [u8],
    /// Its column in the rows.
    column: usize,
}

/// The page's records as a JSON array, with the fields asked for; all of them if none is named. Nulls are
/// left out.
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
