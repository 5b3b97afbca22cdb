//! Values that are sent to and received from Cassandra. Recto's cells already are the bytes of the
//! protocol, so they are copied unchanged.

use std::borrow::Borrow;

use recto_model::{Cells, Type};
use scylla::frame::response::result::{CollectionType, ColumnSpec, ColumnType, NativeType};
use scylla::serialize::SerializationError;
use scylla::serialize::row::{RowSerializationContext, SerializeRow};
use scylla::serialize::writers::RowWriter;

/// Value of one bind marker of a statement.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Slot {
    /// Bytes at `start..end` of the buffer.
    Bytes { start: usize, end: usize },
    /// Null: deletes the existing value.
    Null,
    /// Not set: keeps the existing value.
    Unset,
}

/// Values of the bind markers of one statement, in one buffer, in order.
#[derive(Debug, Clone, Default)]
pub(crate) struct Values {
    data: Vec<u8>,
    slots: Vec<Slot>,
}

impl Values {
    pub(crate) fn push(&mut self, cell: Option<&[u8]>) {
        let slot = match cell {
            None => Slot::Null,
            Some(bytes) => {
                let start = self.data.len();
                self.data.extend_from_slice(bytes);
                Slot::Bytes {
                    start,
                    end: self.data.len(),
                }
            }
        };
        self.slots.push(slot);
    }

    pub(crate) fn push_unset(&mut self) {
        self.slots.push(Slot::Unset);
    }

    /// Removes the value of the last bind marker.
    pub(crate) fn pop(&mut self) {
        if let Some(Slot::Bytes { start, .. }) = self.slots.pop() {
            self.data.truncate(start);
        }
    }

    pub(crate) fn push_int(&mut self, value: i32) {
        self.push(Some(&value.to_be_bytes()));
    }

    pub(crate) fn push_bigint(&mut self, value: i64) {
        self.push(Some(&value.to_be_bytes()));
    }

    /// Adds one value: a CQL list of `cells`, none of which is null.
    pub(crate) fn push_list<'a>(&mut self, cells: impl ExactSizeIterator<Item = &'a [u8]>) {
        let start = self.data.len();
        self.data.extend_from_slice(&count(cells.len()));
        cells.for_each(|cell| push_element(&mut self.data, cell));
        let end = self.data.len();
        self.slots.push(Slot::Bytes { start, end });
    }

    /// Returns the values in the order of the bind markers: `None` for a marker that is not set,
    /// `Some(None)` for null.
    pub(crate) fn iter(&self) -> impl Iterator<Item = Option<Option<&[u8]>>> {
        self.slots.iter().map(|slot| match *slot {
            Slot::Bytes { start, end } => Some(Some(&self.data[start..end])),
            Slot::Null => Some(None),
            Slot::Unset => None,
        })
    }
}

/// Returns the cells of a key, encoded as a CQL tuple.
pub(crate) fn tuple(key: &Cells) -> Vec<u8> {
    let mut tuple = Vec::with_capacity(key.byte_len() + size_of::<i32>() * key.len());
    let cells = key.iter().map(Option::unwrap_or_default);
    cells.for_each(|cell| push_element(&mut tuple, cell));
    tuple
}

/// Appends an element of a CQL list or tuple: its length, then its bytes.
fn push_element(out: &mut Vec<u8>, cell: &[u8]) {
    out.extend_from_slice(&count(cell.len()));
    out.extend_from_slice(cell);
}

fn count(length: usize) -> [u8; size_of::<i32>()] {
    i32::try_from(length).unwrap_or(i32::MAX).to_be_bytes()
}

/// Error if the number of values differs from the number of bind markers, which is a defect of this crate.
#[derive(Debug, thiserror::Error)]
#[error("the statement has {markers} bind markers, but {values} values")]
struct WrongValueCount {
    markers: usize,
    values: usize,
}

impl SerializeRow for Values {
    fn serialize(
        &self,
        context: &RowSerializationContext<'_>,
        writer: &mut RowWriter<'_>,
    ) -> Result<(), SerializationError> {
        if context.columns().len() != self.slots.len() {
            return Err(SerializationError::new(WrongValueCount {
                markers: context.columns().len(),
                values: self.slots.len(),
            }));
        }
        for value in self.iter() {
            let cell = writer.make_cell_writer();
            match value {
                Some(Some(bytes)) => {
                    cell.set_value(bytes).map_err(SerializationError::new)?;
                }
                Some(None) => {
                    cell.set_null();
                }
                None => {
                    cell.set_unset();
                }
            }
        }
        Ok(())
    }

    fn is_empty(&self) -> bool {
        self.slots.is_empty()
    }
}

/// Error for a response that cannot be read as rows of cells.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ReadValuesError {
    /// The types or the number of the columns differ from the requested ones.
    #[error("column {column} is a {found}, not a {expected}")]
    Columns {
        column: String,
        found: String,
        expected: String,
    },
    /// The frame ends within its rows.
    #[error("the rows of a reply end too early")]
    Truncated,
    /// The driver could not decode the frame.
    #[error(transparent)]
    Frame(Box<dyn std::error::Error + Send + Sync>),
}

impl ReadValuesError {
    /// Returns the error for a frame that the driver could not decode.
    pub(crate) fn frame(error: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> Self {
        Self::Frame(error.into())
    }
}

/// Checks that the columns `specs` (bind markers or result columns) have the types `types`.
pub(crate) fn check_columns<T: Borrow<Type>>(
    specs: &[ColumnSpec<'_>],
    types: &[T],
) -> Result<(), ReadValuesError> {
    if specs.len() != types.len() {
        return Err(ReadValuesError::Columns {
            column: "count".to_owned(),
            found: specs.len().to_string(),
            expected: types.len().to_string(),
        });
    }
    for (spec, ty) in specs.iter().zip(types) {
        let ty = ty.borrow();
        if !is_type(spec.typ(), ty) {
            return Err(ReadValuesError::Columns {
                column: spec.name().to_owned(),
                found: format!("{:?}", spec.typ()),
                expected: ty.to_string(),
            });
        }
    }
    Ok(())
}

/// Returns whether a column of Cassandra's type `column` contains cells of `ty`.
fn is_type(column: &ColumnType<'_>, ty: &Type) -> bool {
    match (column, ty) {
        (ColumnType::Native(native), _) => native_type(native).as_ref() == Some(ty),
        (ColumnType::Collection { typ, .. }, _) => match (typ, ty) {
            (CollectionType::List(element), Type::List(expected))
            | (CollectionType::Set(element), Type::Set(expected)) => is_type(element, expected),
            (CollectionType::Map(key, value), Type::Map(expected_key, expected_value)) => {
                is_type(key, expected_key) && is_type(value, expected_value)
            }
            _ => false,
        },
        (ColumnType::Vector { typ, dimensions }, Type::Vector(element, dimension)) => {
            dimensions == dimension && is_type(typ, element)
        }
        (ColumnType::Tuple(elements), Type::Tuple(expected)) => {
            elements.len() == expected.len()
                && elements
                    .iter()
                    .zip(expected)
                    .all(|(element, expected)| is_type(element, expected))
        }
        (ColumnType::UserDefinedType { definition, .. }, Type::Udt(udt)) => {
            definition.name == udt.name
                && definition.field_types.len() == udt.fields.len()
                && definition.field_types.iter().zip(&udt.fields).all(
                    |((name, field), (expected_name, expected))| {
                        name == expected_name && is_type(field, expected)
                    },
                )
        }
        _ => false,
    }
}

/// Returns Recto's type of a native CQL type; `None` if Recto does not support it.
fn native_type(native: &NativeType) -> Option<Type> {
    Some(match native {
        NativeType::Ascii => Type::Ascii,
        NativeType::Boolean => Type::Boolean,
        NativeType::Blob => Type::Blob,
        NativeType::Date => Type::Date,
        NativeType::Decimal => Type::Decimal,
        NativeType::Double => Type::Double,
        NativeType::Duration => Type::Duration,
        NativeType::Float => Type::Float,
        NativeType::Int => Type::Int,
        NativeType::BigInt | NativeType::Counter => Type::BigInt,
        NativeType::Text => Type::Text,
        NativeType::Timestamp => Type::Timestamp,
        NativeType::Inet => Type::Inet,
        NativeType::SmallInt => Type::SmallInt,
        NativeType::TinyInt => Type::TinyInt,
        NativeType::Time => Type::Time,
        NativeType::Timeuuid => Type::TimeUuid,
        NativeType::Uuid => Type::Uuid,
        NativeType::Varint => Type::Varint,
        _ => return None,
    })
}
