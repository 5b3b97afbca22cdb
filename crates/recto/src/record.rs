//! Records as Rust types, and records without a Rust type, which tools read and write.

use std::sync::Arc;

use recto_model::record::{NO_COLUMN, Record, RecordError};
use recto_model::schema::Collection;
use recto_model::{Cells, RowRef, Type, Value, cell, json};
use recto_plan::SortOrder;
use recto_plan::bind::no_field_hint;
use serde_json::error::Category;

use crate::core::CollectionCore;
use crate::error::{Error, ErrorKind, Part, Result};
use crate::session::JsonRecord;

/// Record of a collection whose fields are known only at run time. The record has a value or null for each
/// field.
///
/// ```
/// # use recto::{OpenOptions, Record, Recto};
/// # #[derive(Debug, Clone, PartialEq, Record)]
/// # #[record(collection = "events", key = ["day", "id"], partition = ["day"], order = ["id"], writes = "append")]
/// # struct Event { day: String, id: i64, kind: String }
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> recto::Result<()> {
/// # let folder = tempfile::tempdir().unwrap();
/// # let store = Recto::open_with(folder.path().join("store"), OpenOptions::new().create()).await?;
/// # store.apply(&recto::schema_of([Event::collection()])).await?;
/// # let events = store.collection::<Event>()?;
/// # let event = |id| Event { day: "mon".into(), id, kind: if id % 9 == 0 { "alarm" } else { "tick" }.into() };
/// # events.put_all(&(0..60).map(event).collect::<Vec<_>>()).await?;
/// use recto::{DynamicRecord, Value};
///
/// let events = store.dynamic("events")?;
/// let mut event = DynamicRecord::new(events.definition());
/// event.set("day", Some(Value::Text("tue".into())))?;
/// event.set("id", Some(Value::BigInt(1)))?;
/// event.set("kind", Some(Value::Text("tick".into())))?;
/// events.put(&event).await?;
/// assert_eq!(events.get(("tue", 1)).await?.unwrap().get("kind"), event.get("kind"));
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone, PartialEq)]
pub struct DynamicRecord {
    definition: Arc<Collection>,
    values: Vec<Option<Value>>,
}

impl DynamicRecord {
    /// Returns a record whose fields are all null.
    pub fn new(definition: Arc<Collection>) -> Self {
        let values = vec![None; definition.fields.len()];
        Self { definition, values }
    }

    /// Returns the collection of the record.
    pub fn collection(&self) -> &Collection {
        &self.definition
    }

    /// Returns the value of a field, or `None` if the field is null or does not exist.
    pub fn get(&self, field: &str) -> Option<&Value> {
        let (index, _) = self.definition.field(field)?;
        self.values[index].as_ref()
    }

    /// Returns all values, in the order of the collection's fields.
    pub fn values(&self) -> &[Option<Value>] {
        &self.values
    }

    /// Sets a field to a value, or to null (`None`).
    ///
    /// # Errors
    /// The field does not exist, or the value does not have the field's type.
    pub fn set(&mut self, field: &str, value: Option<Value>) -> Result<()> {
        let (index, definition) = self
            .definition
            .field(field)
            .ok_or_else(|| no_field(ErrorKind::InvalidRecord, &self.definition, field))?;
        if let Some(value) = &value {
            cell::encode(&definition.ty, value, &mut Vec::new()).map_err(|error| {
                Error::new(ErrorKind::InvalidRecord, format!("{field}: {error}")).with_field(field)
            })?;
        }
        self.values[index] = value;
        Ok(())
    }

    /// Parses the text of a JSON object as a record. A missing field is null. Unknown fields and
    /// duplicate fields are rejected. A number is rejected if the field cannot represent it
    /// exactly; only `float` and `double` fields round to their nearest value.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidRecord`]. If exactly one field is wrong, the error names it.
    ///
    /// ```
    /// use recto::{DynamicRecord, Record};
    ///
    /// #[derive(Record)]
    /// #[record(collection = "accounts", key = ["id"], writes = "overwrite")]
    /// struct Account {
    ///     id: i64,
    ///     name: Option<String>,
    /// }
    ///
    /// let definition = std::sync::Arc::new(Account::collection());
    /// let read = |text| DynamicRecord::from_json_text(definition.clone(), text);
    /// assert_eq!(read(r#"{"id": 9007199254740993}"#)?.to_json()["id"], "9007199254740993");
    /// assert_eq!(read(r#"{"id": 1.0000000000000000001}"#).unwrap_err().field(), Some("id"));
    /// # Ok::<(), recto::Error>(())
    /// ```
    pub fn from_json_text(definition: Arc<Collection>, text: &str) -> Result<Self> {
        let invalid = |message: String| Error::new(ErrorKind::InvalidRecord, message);
        let members = json::Members::read(text).map_err(|error| {
            let message = match error.classify() {
                Category::Data => "the record is not a JSON object".to_owned(),
                _ => format!(
                    "the record is not JSON: column {}: {}",
                    error.column(),
                    json::syntax_error(&error)
                ),
            };
            invalid(message).with_hint("write a record as a JSON object: {\"field\": value}")
        })?;
        if let Some(name) = members.twice {
            return Err(invalid(format!("{name} occurs twice")).with_field(name));
        }
        let mut record = Self::new(definition);
        for (name, value) in members.members {
            record.read_field(&name, |ty| json::from_json_text(ty, value.get()))?;
        }
        Ok(record)
    }

    /// Converts a JSON object to a record, as [`from_json_text`](Self::from_json_text) does, except for
    /// numbers with a point or an exponent. [`serde_json::Value`] stores such numbers as doubles, so only
    /// `float` and `double` fields accept them. For a `decimal` field, use a string.
    pub fn from_json(definition: Arc<Collection>, record: &JsonRecord) -> Result<Self> {
        let mut parsed = Self::new(definition);
        for (name, value) in record {
            parsed.read_field(name, |ty| json::from_json(ty, value))?;
        }
        Ok(parsed)
    }

    fn read_field(
        &mut self,
        name: &str,
        read: impl FnOnce(&Type) -> std::result::Result<Option<Value>, json::JsonError>,
    ) -> Result<()> {
        let (index, field) = self
            .definition
            .field(name)
            .ok_or_else(|| no_field(ErrorKind::InvalidRecord, &self.definition, name))?;
        self.values[index] = read(&field.ty).map_err(|error| {
            Error::new(ErrorKind::InvalidRecord, format!("{name}: {error}")).with_field(name)
        })?;
        Ok(())
    }

    /// Returns the record as JSON, without null fields.
    pub fn to_json(&self) -> JsonRecord {
        let fields = self.definition.fields.iter().zip(&self.values);
        fields
            .filter_map(|(field, value)| {
                value
                    .as_ref()
                    .map(|value| (field.name.clone(), json::to_json(&field.ty, value)))
            })
            .collect()
    }

    /// Returns the named fields of the record as JSON without nulls, or all fields if `fields` is empty.
    pub(crate) fn to_json_of(&self, fields: &[String]) -> JsonRecord {
        let mut json = self.to_json();
        if !fields.is_empty() {
            json.retain(|name, _| fields.iter().any(|field| field == name));
        }
        json
    }

    /// Returns the state of the collection without fields that were added after the record was created. If
    /// the record is written, such fields stay unchanged. Rejects a record of another collection.
    pub(crate) fn known_to(&self, core: Arc<CollectionCore>) -> Result<Arc<CollectionCore>> {
        if self.definition == core.definition {
            return Ok(core);
        }
        core.of_earlier(&self.definition).ok_or_else(|| {
            Error::new(
                ErrorKind::InvalidRecord,
                format!(
                    "the record has an old or different definition of collection {}, not the present \
                     definition of {}",
                    self.definition.name, core.definition.name
                ),
            )
            .with_hint("create records with the present definition of the collection")
        })
    }

    pub(crate) fn read(core: &CollectionCore, sort_order: &SortOrder, row: RowRef<'_>) -> Result<Self> {
        Self::read_fields(core, sort_order, row, &[])
    }

    /// Reads the fields `names` of a row, or all fields if `names` is empty. Other fields are not decoded, so
    /// their values may be damaged.
    pub(crate) fn read_fields(
        core: &CollectionCore,
        sort_order: &SortOrder,
        row: RowRef<'_>,
        names: &[String],
    ) -> Result<Self> {
        let fields = core.definition.fields.iter().enumerate();
        let values = fields
            .map(|(index, field)| {
                let is_asked = names.is_empty() || names.contains(&field.name);
                let value = is_asked.then(|| core.value(sort_order, row, index));
                value.transpose().map(Option::flatten)
            })
            .collect::<Result<_>>()?;
        Ok(Self {
            definition: Arc::clone(&core.definition),
            values,
        })
    }
}

/// Decodes a row as a record of a Rust type.
pub(crate) fn decode_typed<T: Record>(
    core: &CollectionCore,
    sort_order: &SortOrder,
    row: RowRef<'_>,
) -> Result<T> {
    let columns = core.columns_in(sort_order);
    let read = if sort_order.derives_nulls() {
        let is_null = |column: u16| sort_order.cell(row, usize::from(column)).is_none();
        let columns = columns.iter().map(|&column| match column {
            NO_COLUMN => NO_COLUMN,
            column if is_null(column) => NO_COLUMN,
            column => column,
        });
        T::read(row, &columns.collect::<Vec<_>>())
    } else {
        T::read(row, columns)
    };
    read.map_err(|error| unreadable(core, sort_order, row, error))
}

/// Decodes a row as a record of a Rust type. An unreadable record becomes an inner error, so that the caller
/// can read the other records.
#[expect(clippy::unnecessary_wraps, reason = "the type of the function is `Decode`")]
pub(crate) fn decode_each<T: Record>(
    core: &CollectionCore,
    sort_order: &SortOrder,
    row: RowRef<'_>,
) -> Result<Result<T>> {
    Ok(decode_typed(core, sort_order, row))
}

/// Returns the error for a row that cannot be decoded as a record type. If the cell is a valid value of the
/// field's type in the schema, the error blames the record type. Otherwise it reports a damaged row.
#[cold]
fn unreadable(core: &CollectionCore, sort_order: &SortOrder, row: RowRef<'_>, error: RecordError) -> Error {
    let field = error.field();
    let index = core.definition.field(field).map(|(index, _)| index);
    let is_sound = index.is_some_and(|index| core.value(sort_order, row, index).is_ok());
    let key = core.key_texts(sort_order, row);
    let name = &core.definition.name;
    let (kind, what, hint) = if is_sound {
        let hint = "use a record type that can hold such values, or change the record; `each_result()` of a \
                    query or a scan reads the other records";
        (ErrorKind::Unreadable, "cannot be read", hint)
    } else {
        (
            ErrorKind::Corrupt,
            "is damaged",
            "run a check of the store, which finds every damaged row",
        )
    };
    Error::new(
        kind,
        format!("record ({}) of {name} {what}: {error}", key.join(", ")),
    )
    .with_field(field)
    .with_key(key)
    .with_hint(hint)
    .with_source(error)
}

/// Function that checks whether a record type can represent a cell of a field. The index counts the
/// collection's fields; `None` is null.
pub(crate) type CheckCell = fn(&CollectionCore, field: usize, Option<&[u8]>) -> Result<(), RecordError>;

pub(crate) fn check_typed<T: Record>(
    core: &CollectionCore,
    field: usize,
    cell: Option<&[u8]>,
) -> Result<(), RecordError> {
    core.places[field].map_or(Ok(()), |place| T::check_cell(place, cell))
}

pub(crate) fn no_field(kind: ErrorKind, definition: &Collection, name: &str) -> Error {
    Error::new(
        kind,
        format!("collection {} has no field {name}", definition.name),
    )
    .with_field(name)
    .with_hint(no_field_hint(definition, name))
}

/// Rejects a list with names that are not fields of the collection.
pub(crate) fn check_fields(definition: &Collection, fields: &[String]) -> Result<()> {
    match fields.iter().find(|name| definition.field(name).is_none()) {
        None => Ok(()),
        Some(unknown) => Err(no_field(ErrorKind::InvalidQuery, definition, unknown).with_part(Part::Fields)),
    }
}

/// Returns the cells of a record in the column order of the base table. `write_field` appends the cell of a
/// field, or returns false for null. Cells of the key must not be null, and get their canonical form.
pub(crate) fn row_of(
    core: &CollectionCore,
    mut write_field: impl FnMut(usize, &mut Vec<u8>) -> Result<bool, cell::CellError>,
) -> Result<Cells> {
    let sort_order = core.base();
    let key_len = sort_order.table.key_len();
    let mut cells = Cells::with_capacity(sort_order.holds.len(), 128);
    let mut bytes = Vec::new();
    for (column, field) in sort_order.fields() {
        let definition = &core.definition.fields[field];
        let invalid = |error: cell::CellError| {
            Error::new(ErrorKind::InvalidRecord, format!("{}: {error}", definition.name))
                .with_field(&definition.name)
        };
        bytes.clear();
        if !write_field(field, &mut bytes).map_err(invalid)? {
            if column < key_len {
                return Err(Error::new(
                    ErrorKind::InvalidRecord,
                    format!(
                        "{} is part of the key of {} and cannot be null",
                        definition.name, core.definition.name
                    ),
                )
                .with_field(&definition.name));
            }
            cells.push(None);
        } else if column < key_len {
            cells
                .try_push_with(|out| cell::canonical_key(&definition.ty, &bytes, out))
                .map_err(invalid)?;
        } else {
            cells.push(Some(&bytes));
        }
    }
    Ok(cells)
}
