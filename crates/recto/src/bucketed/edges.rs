//! Conversion of bucket bounds and partition keys to JSON and back.

use recto_model::schema::{Collection, Derivation, Field, Holds};
use recto_model::table::Direction;
use recto_model::{Cells, cell, json};
use recto_plan::query::{Constraint, Query};
use recto_plan::{SortOrder, bind};
use serde_json::Value as Json;
use serde_json::value::RawValue;

use crate::error::{Error, ErrorKind, Part, Result};
use crate::session::JsonRecord;

/// Converts the bounds of buckets and the partition keys of one sort order (base table or view) to JSON and
/// back.
pub(super) struct Edges<'a> {
    pub(super) definition: &'a Collection,
    pub(super) sort_order: &'a SortOrder,
}

impl Edges<'_> {
    /// Returns the partition key whose fields the filter fixes to one value each. Ignores all other
    /// conditions of the filter.
    ///
    /// # Errors
    /// The text is not a filter of the collection, or does not fix each field of the partition key to one value.
    pub(super) fn partition_of(&self, filter: &str) -> Result<Cells> {
        let conditions = bind::conditions(self.definition, filter)?;
        let query = Query::new(self.definition, &conditions, &[])?;
        let (mut cells, mut missing) = (Cells::new(), Vec::new());
        for column in 0..self.sort_order.partition_len() {
            let field = self.sort_order.field_of(column);
            match field.and_then(|field| query.constraint(field)) {
                Some(Constraint::In(values)) if values.len() == 1 => {
                    cells.push(values.first().map(Vec::as_slice));
                }
                _ => missing.push(self.sort_order.name_of(column).to_owned()),
            }
        }
        if missing.is_empty() {
            return Ok(cells);
        }
        let message = format!(
            "the filter does not fix one partition: it lacks {}",
            missing.join(", ")
        );
        Err(Error::new(ErrorKind::InvalidQuery, message)
            .with_part(Part::Filter)
            .with_hint(format!(
                "add conditions with = to the filter: {} = …",
                missing.join(" = … AND ")
            ))
            .with_missing_partition_fields(missing))
    }

    /// Returns the values of a partition key as JSON, by field name.
    pub(super) fn partition(&self, partition: &Cells) -> Result<JsonRecord> {
        let columns = partition.iter().enumerate();
        let fields = columns.map(|(column, cell)| {
            let name = self.sort_order.name_of(column).to_owned();
            Ok((name, self.json(column, cell)?))
        });
        fields.collect()
    }

    /// Returns the fields by which rows are ordered. The prefix `-` means descending.
    pub(super) fn order(&self) -> Vec<String> {
        let columns = self.sort_order.partition_len()..self.sort_order.table.key_len();
        let fields = columns.filter(|column| self.sort_order.sorted_by(*column).is_some());
        let named = fields.map(|column| {
            let name = self.sort_order.shown_sort_of(column);
            match self.sort_order.direction(column) {
                Direction::Ascending => name.into_owned(),
                Direction::Descending => format!("-{name}"),
            }
        });
        named.collect()
    }

    /// Converts a bound of a bucket to JSON: the values of the order fields. A bound may have values for only
    /// the first columns of the order.
    pub(super) fn edge(&self, edge: &Cells) -> Result<Vec<Json>> {
        let (mut values, mut is_null) = (Vec::new(), false);
        for (index, cell) in edge.iter().enumerate() {
            let column = self.sort_order.partition_len() + index;
            match self.sort_order.holds[column] {
                Holds::Derived(_, Derivation::IsNull) => {
                    is_null = cell == self.sort_order.derived(column, None).as_deref();
                }
                // Omit a sort key, because the text from which it was derived is the next cell.
                Holds::Derived(_, Derivation::SortKey(_)) => {}
                Holds::Hidden => break,
                _ if std::mem::take(&mut is_null) => values.push(Json::Null),
                _ => values.push(self.json(column, cell)?),
            }
        }
        Ok(values)
    }

    fn json(&self, column: usize, cell: Option<&[u8]>) -> Result<Json> {
        let ty = self.sort_order.type_of(column);
        let Some(cell) = cell else {
            return Ok(Json::Null);
        };
        let value = cell::decode(ty, cell).map_err(|error| {
            let message = format!("an edge of a bucket has a value that is not {ty}");
            Error::new(ErrorKind::Corrupt, message).with_source(error)
        })?;
        Ok(json::to_json(ty, &value))
    }

    /// Parses a JSON array of positions, at most `most`. Each position is an array of order values,
    /// which become the first cells of a clustering key. A position ends before its first null.
    ///
    /// # Errors
    /// The text is not a JSON array of arrays, or has too many positions. A value does not match the type of
    /// its field.
    pub(super) fn places(&self, text: &str, most: usize) -> Result<Vec<Cells>> {
        let places: Vec<Vec<&RawValue>> = serde_json::from_str(text).map_err(|error| {
            wrong("at must be a JSON array of positions, each an array of order values").with_source(error)
        })?;
        if places.len() > most {
            return Err(wrong(format!(
                "at has {} positions; at most {most} are allowed",
                places.len()
            )));
        }
        places.iter().map(|values| self.place(values)).collect()
    }

    fn place(&self, values: &[&RawValue]) -> Result<Cells> {
        let order = self.order();
        if values.len() > order.len() {
            let message = format!(
                "a position has {} values, but the order is {}",
                values.len(),
                order.join(", ")
            );
            return Err(wrong(message));
        }
        let (mut cells, mut values) = (Cells::new(), values.iter());
        for column in self.sort_order.partition_len()..self.sort_order.table.key_len() {
            match self.sort_order.holds[column] {
                Holds::Derived(_, Derivation::IsNull) => {
                    let Some(next) = values.as_slice().first() else {
                        break;
                    };
                    let is_null = next.get() == "null";
                    let cell = self.sort_order.derived(column, (!is_null).then_some(&[]));
                    cells.push(cell.as_deref());
                }
                Holds::Hidden => break,
                Holds::Derived(field, derivation) if !derivation.replaces_field() => {
                    let Some(value) = values.as_slice().first() else {
                        break;
                    };
                    let Some(bytes) = self.cell(field, value)? else {
                        break;
                    };
                    let derived = self.sort_order.derived(column, Some(&bytes));
                    cells.push(derived.as_deref());
                }
                Holds::Derived(field, _) | Holds::Field(field) => {
                    let Some(value) = values.next() else { break };
                    let Some(bytes) = self.cell(field, value)? else {
                        break;
                    };
                    let derived = self.sort_order.derived(column, Some(&bytes));
                    cells.push(Some(derived.as_deref().unwrap_or(&bytes)));
                }
            }
        }
        Ok(cells)
    }

    /// Encodes the JSON value of the field at index `field` as a cell. Returns `None` for null.
    fn cell(&self, field: usize, value: &RawValue) -> Result<Option<Vec<u8>>> {
        let Field { name, ty } = &self.definition.fields[field];
        let refused = |error: String| wrong(format!("{name}: {error}"));
        let value = json::from_json_text(ty, value.get()).map_err(|error| refused(error.to_string()))?;
        let Some(value) = value else {
            return Ok(None);
        };
        let mut bytes = Vec::new();
        cell::encode(ty, &value, &mut bytes).map_err(|error| refused(error.to_string()))?;
        Ok(Some(bytes))
    }
}

#[cold]
fn wrong(message: impl Into<String>) -> Error {
    Error::new(ErrorKind::InvalidQuery, message).with_part(Part::From)
}
