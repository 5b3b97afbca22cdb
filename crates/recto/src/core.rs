//! A collection of an open store, as every handle on it knows it.

use std::sync::{Arc, OnceLock};

use recto_model::schema::{Collection, Schema, WriteMode};
use recto_model::{Cells, RowRef, Table, Value, cell, json};
use recto_plan::Arrangement;

use crate::error::{Error, ErrorKind, Result};
use crate::planned::PlanCache;
use crate::shared::Shared;

/// A collection of an open store.
#[derive(Debug)]
pub(crate) struct CollectionCore {
    pub(crate) shared: Arc<Shared>,
    pub(crate) definition: Arc<Collection>,
    /// The schema it is of.
    pub(crate) schema: Arc<Schema>,
    pub(crate) arrangements: Vec<Arc<Arrangement>>,
    /// The base table as puts name it.
    pub(crate) written: Arc<Table>,
    /// For each field of the record type, in its order, its column in the base table.
    pub(crate) columns: Vec<u16>,
    /// For each field, where it stands in the record type: a type may declare fields in another order
    /// than the one they were added to the collection in, and not know all of them.
    pub(crate) places: Vec<Option<usize>>,
    /// The fields' names as JSON text, once a page was asked for as text.
    field_names: OnceLock<FieldNames>,
    pub(crate) plans: PlanCache,
}

impl CollectionCore {
    pub(crate) fn new(shared: Arc<Shared>, schema: Arc<Schema>, definition: Arc<Collection>) -> Self {
        let base = Arrangement::base(&definition);
        let columns = base
            .column_of_field
            .iter()
            .map(|column| column.expect("a base table holds every field") as u16)
            .collect();
        let places = (0..definition.fields.len()).map(Some).collect();
        Self {
            field_names: OnceLock::new(),
            plans: PlanCache::default(),
            shared,
            definition,
            schema,
            written: Arc::clone(&base.table),
            arrangements: vec![Arc::new(base)],
            columns,
            places,
        }
    }

    /// The collection for a record type with these of its fields, in this order.
    pub(crate) fn for_fields(mut self, names: &[&str]) -> Self {
        let fields = &self.definition.fields;
        let field_of = |name: &&str| fields.iter().position(|field| field.name == **name);
        let field_of: Vec<usize> = names.iter().filter_map(field_of).collect();
        debug_assert_eq!(field_of.len(), names.len(), "the fields were compared");
        self.columns = field_of.iter().map(|&field| self.columns[field]).collect();
        self.places = vec![None; fields.len()];
        for (place, &field) in field_of.iter().enumerate() {
            self.places[field] = Some(place);
        }
        if !self.replaces() {
            self.written = self.table_as_known();
        }
        self
    }

    /// The base table as it was when the record type had all its fields: without the columns after the last one
    /// that the type knows. An insert that does not name them leaves them out of what makes a record the same.
    fn table_as_known(&self) -> Arc<Table> {
        let table = &self.base().table;
        let last = self
            .columns
            .iter()
            .max()
            .map_or(0, |&column| usize::from(column) + 1);
        let known = last.max(table.key_len());
        if known == table.columns().len() {
            return Arc::clone(table);
        }
        let columns = table.columns()[..known].to_vec();
        let known = Table::new(table.name(), columns, table.options());
        known.map_or_else(|_| Arc::clone(table), Arc::new)
    }

    /// The regular columns that the record type knows, as indexes into them; `None` if it knows all.
    pub(crate) fn known_columns(&self) -> Option<Vec<u16>> {
        if self.places.iter().all(Option::is_some) {
            return None;
        }
        let key_len = self.base().table.key_len() as u16;
        let mut known: Vec<u16> = self
            .columns
            .iter()
            .filter_map(|one| one.checked_sub(key_len))
            .collect();
        known.sort_unstable();
        Some(known)
    }

    /// The fields' names as JSON text.
    pub(crate) fn field_names(&self) -> &FieldNames {
        self.field_names.get_or_init(|| FieldNames::new(&self.definition))
    }

    /// The base table's arrangement.
    pub(crate) fn base(&self) -> &Arc<Arrangement> {
        &self.arrangements[0]
    }

    /// Whether a put replaces the whole row (or leaves what it does not name).
    pub(crate) fn replaces(&self) -> bool {
        self.definition.writes != WriteMode::Append
    }

    /// The value of a field of a row of an arrangement's table.
    pub(crate) fn value(
        &self,
        arrangement: &Arrangement,
        row: RowRef<'_>,
        field: usize,
    ) -> Result<Option<Value>> {
        let Some(column) = arrangement.column_of_field[field] else {
            return Ok(None);
        };
        let definition = &self.definition.fields[field];
        row.get(column)
            .map(|bytes| cell::decode(&definition.ty, bytes))
            .transpose()
            .map_err(|error| damaged(&self.definition.name, &definition.name, &error))
    }

    /// The key of a row, for people: the text of each of its values, in the key's order.
    pub(crate) fn key_text(&self, partition: &Cells, clustering: &Cells) -> String {
        let base = self.base();
        let texts = self.definition.key.iter().filter_map(|name| {
            let (field, definition) = self.definition.field(name)?;
            let column = base.column_of_field[field]?;
            let cell = match column.checked_sub(partition.len()) {
                None => partition.get(column),
                Some(column) => clustering.get(column),
            };
            let value = cell::decode(&definition.ty, cell?).ok()?;
            Some(json::to_text(&definition.ty, &value))
        });
        format!("({})", texts.collect::<Vec<_>>().join(", "))
    }
}

/// The error of a stored cell that does not decode.
pub(crate) fn damaged(collection: &str, field: &str, error: &cell::CellError) -> Error {
    Error::new(
        ErrorKind::Corrupt,
        format!("a stored {field} of collection {collection} is damaged: {error}"),
    )
    .with_field(field)
    .with_hint("a check of the store finds every damaged row")
}

/// What every record's text repeats: `,"name":` of each field of a collection.
#[derive(Debug)]
pub(crate) struct FieldNames(pub(crate) Vec<String>);

impl FieldNames {
    pub(crate) fn new(definition: &Collection) -> Self {
        let text = |name: &str| {
            let mut text = String::with_capacity(name.len() + r#","":"#.len());
            text.push(',');
            json::write_text(name, &mut text);
            text.push(':');
            text
        };
        Self(definition.fields.iter().map(|field| text(&field.name)).collect())
    }
}
