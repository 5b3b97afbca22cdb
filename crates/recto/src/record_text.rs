//! Records as JSON text, for pages that are passed on.

use recto_model::{RowRef, json};
use recto_plan::Arrangement;

use crate::core::{CollectionCore, damaged};
use crate::error::Result;

/// A record's fields as JSON text, nulls left out.
pub(crate) struct RecordText {
    /// `"name":value` of each field, one after the other.
    text: String,
    /// For each field that is not null: which it is, and where its text begins.
    fields: Vec<(usize, usize)>,
    names: std::sync::Arc<recto_model::schema::Collection>,
}

impl RecordText {
    pub(crate) fn read(core: &CollectionCore, arrangement: &Arrangement, row: RowRef<'_>) -> Result<Self> {
        let definition = &core.definition;
        let mut record = Self {
            text: String::with_capacity(2 * row.byte_len() + 16 * definition.fields.len()),
            fields: Vec::with_capacity(definition.fields.len()),
            names: std::sync::Arc::clone(definition),
        };
        for (index, field) in definition.fields.iter().enumerate() {
            let cell = arrangement.column_of_field[index].and_then(|column| row.get(column));
            let Some(cell) = cell else {
                continue;
            };
            record.fields.push((index, record.text.len()));
            json::write_text(&field.name, &mut record.text);
            record.text.push(':');
            json::write_cell(&field.ty, cell, &mut record.text)
                .map_err(|error| damaged(&definition.name, &field.name, &error))?;
        }
        Ok(record)
    }

    /// Appends the object to an array that was begun, with the fields named; all of them if none is.
    pub(crate) fn append(&self, asked: &[String], array: &mut String) {
        if !array.ends_with('[') {
            array.push(',');
        }
        array.push('{');
        let mut is_first = true;
        for (place, &(field, start)) in self.fields.iter().enumerate() {
            let name = &self.names.fields[field].name;
            if !asked.is_empty() && !asked.contains(name) {
                continue;
            }
            if !is_first {
                array.push(',');
            }
            is_first = false;
            let end = self.fields.get(place + 1).map_or(self.text.len(), |next| next.1);
            array.push_str(&self.text[start..end]);
        }
        array.push('}');
    }
}
