//! The records of a page as JSON text, for pages that are passed on.

use recto_model::schema::Collection;
use recto_model::{RowRef, json};
use recto_plan::Arrangement;

use crate::core::{CollectionCore, damaged};
use crate::error::Result;
use crate::page::Page;

/// How many times longer a cell's text is than its bytes, about: room is set aside for that.
const TEXT_BYTES_PER_BYTE: usize = 2;

/// What every record's text repeats: `"name":` of each field of a collection.
#[derive(Debug)]
pub(crate) struct FieldNames(Vec<String>);

impl FieldNames {
    pub(crate) fn new(definition: &Collection) -> Self {
        let text = |name: &str| {
            let mut text = String::with_capacity(name.len() + 3);
            json::write_text(name, &mut text);
            text.push(':');
            text
        };
        Self(definition.fields.iter().map(|field| text(&field.name)).collect())
    }
}

/// A field to write: which it is, and its column in the rows.
type Written = (usize, usize);

/// The page's records as a JSON array, with the fields asked for; all of them if none is named. Nulls are
/// left out.
pub(crate) fn records<T>(page: &Page<T>, asked: &[String]) -> Result<String> {
    let (core, arrangement) = (page.core(), page.arrangement());
    let fields = fields(core, arrangement, asked);
    let names: usize = fields
        .iter()
        .map(|&(field, _)| core.field_names.0[field].len() + 1)
        .sum();
    let rows = page.rows();
    let room = TEXT_BYTES_PER_BYTE * rows.byte_len() + rows.len() * (names + 2) + 2;
    let mut text = String::with_capacity(room);
    text.push('[');
    for (index, row) in rows.iter().enumerate() {
        if index > 0 {
            text.push(',');
        }
        record(core, &fields, row, &mut text)?;
    }
    text.push(']');
    Ok(text)
}

fn fields(core: &CollectionCore, arrangement: &Arrangement, asked: &[String]) -> Vec<Written> {
    let fields = core.definition.fields.iter().enumerate();
    let fields = fields.filter(|(_, field)| asked.is_empty() || asked.contains(&field.name));
    fields
        .filter_map(|(index, _)| Some((index, arrangement.column_of_field[index]?)))
        .collect()
}

fn record(core: &CollectionCore, fields: &[Written], row: RowRef<'_>, text: &mut String) -> Result<()> {
    let start = text.len();
    for &(field, column) in fields {
        let Some(cell) = row.get(column) else {
            continue;
        };
        text.push(if text.len() == start { '{' } else { ',' });
        text.push_str(&core.field_names.0[field]);
        let definition = &core.definition.fields[field];
        json::write_cell(&definition.ty, cell, text)
            .map_err(|error| damaged(&core.definition.name, &definition.name, &error))?;
    }
    if text.len() == start {
        text.push('{');
    }
    text.push('}');
    Ok(())
}
