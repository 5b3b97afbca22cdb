//! Rust types as fields: what `#[derive(Record)]` builds on.
//!
//! | CQL | Rust |
//! |---|---|
//! | boolean, tinyint, smallint, int, bigint | `bool`, `i8`, `i16`, `i32`, `i64` |
//! | float, double | `f32`, `f64` |
//! | text, ascii, blob | `String`, [`Ascii`], [`Blob`] |
//! | varint, decimal | `num_bigint::BigInt`, `bigdecimal::BigDecimal` |
//! | uuid, timeuuid | `uuid::Uuid`, [`TimeUuid`] |
//! | inet | `std::net::IpAddr` |
//! | date | [`Date`], `jiff::civil::Date` |
//! | time | [`Time`], `jiff::civil::Time` |
//! | timestamp | [`Timestamp`], `jiff::Timestamp` (whole milliseconds) |
//! | duration | [`CqlDuration`] |
//! | list, set, map | `Vec<T>`, `BTreeSet<T>`, `BTreeMap<K, V>` |
//! | tuple | tuples of one to six fields, each of which may be an `Option` |
//! | vector | `[T; N]` |
//!
//! `Option<T>` is a field that may be null. The bytes are those of [`cell`].

mod nested;
mod scalar;
mod time;
mod wrappers;

use crate::cell::{self, CellError};
use crate::{Type, Value};

pub use time::{CqlDuration, Date, InexactTime, Time, Timestamp};
pub use wrappers::{Ascii, Blob, NotAscii, NotTimeUuid, TimeUuid};

/// A Rust type that can be a field of a record.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be a field of a record",
    note = "fields are bool, i8 to i64, f32, f64, String, Blob, Uuid, TimeUuid, Timestamp, Date, Time, IpAddr, BigInt, BigDecimal, lists, sets, maps, tuples and arrays of them, and Options",
    note = "for bytes use `Blob`"
)]
pub trait FieldType: Sized {
    /// Whether the field may be null (true for `Option<T>` only).
    const NULLABLE: bool = false;

    /// The field's type in the schema.
    fn field_type() -> Type;

    /// Appends the cell's bytes to `out`; returns false, having appended nothing, for null.
    ///
    /// # Errors
    /// [`CellError`] for a value outside the type's domain, such as a time past midnight; nothing is
    /// appended then.
    fn write_cell(&self, out: &mut Vec<u8>) -> Result<bool, CellError>;

    /// The value of a cell; `None` is null.
    ///
    /// # Errors
    /// [`CellError`] for bytes that are not of the type, and for null where the type is not an
    /// `Option`.
    fn read_cell(cell: Option<&[u8]>) -> Result<Self, CellError>;

    /// The decoded value; `None` is null. What lists, sets, maps, tuples and arrays are made of.
    ///
    /// # Errors
    /// As [`write_cell`](Self::write_cell).
    fn to_value(&self) -> Result<Option<Value>, CellError> {
        let mut bytes = Vec::new();
        if !self.write_cell(&mut bytes)? {
            return Ok(None);
        }
        cell::decode(&Self::field_type(), &bytes).map(Some)
    }

    /// The Rust value of a decoded one.
    ///
    /// # Errors
    /// As [`read_cell`](Self::read_cell).
    fn from_value(value: Option<Value>) -> Result<Self, CellError> {
        let Some(value) = value else {
            return Self::read_cell(None);
        };
        let mut bytes = Vec::new();
        cell::encode(&Self::field_type(), &value, &mut bytes)?;
        Self::read_cell(Some(&bytes))
    }
}

/// A field type whose values have an order and are never null, so that it can be in a key,
/// a set, or be the key of a map.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be in a key, a set, or be the key of a map",
    label = "this must have an order and never be null",
    note = "Options, durations, lists, sets, maps, tuples and arrays cannot be key, partition or order fields"
)]
pub trait KeyType: FieldType {}

impl<T: FieldType> FieldType for Option<T> {
    const NULLABLE: bool = true;

    fn field_type() -> Type {
        T::field_type()
    }

    #[inline]
    fn write_cell(&self, out: &mut Vec<u8>) -> Result<bool, CellError> {
        self.as_ref().map_or(Ok(false), |value| value.write_cell(out))
    }

    #[inline]
    fn read_cell(cell: Option<&[u8]>) -> Result<Self, CellError> {
        match cell {
            None => Ok(None),
            Some(_) => T::read_cell(cell).map(Some),
        }
    }

    fn to_value(&self) -> Result<Option<Value>, CellError> {
        self.as_ref().map_or(Ok(None), T::to_value)
    }

    fn from_value(value: Option<Value>) -> Result<Self, CellError> {
        value.map(|value| T::from_value(Some(value))).transpose()
    }
}

/// The error for a cell that is null where the Rust type has no null.
#[cold]
fn null<T: FieldType>() -> CellError {
    malformed::<T>("null, which only an Option can be")
}

#[cold]
fn malformed<T: FieldType>(reason: &str) -> CellError {
    CellError::Malformed {
        type_name: T::field_type().to_string(),
        reason: reason.to_owned(),
    }
}
