//! Rust types that can be fields of a record. `#[derive(Record)]` uses this module.
//!
//! | CQL | Rust |
//! |---|---|
//! | boolean, tinyint, smallint, int, bigint | `bool`, `i8`, `i16`, `i32`, `i64` |
//! | float, double | `f32`, `f64` |
//! | text, ascii, blob | `String`, [`Ascii`], [`Blob`] |
//! | varint, decimal | `num_bigint::BigInt`, `bigdecimal::BigDecimal` |
//! | uuid, timeuuid | `uuid::Uuid`, [`TimeUuid`] |
//! | inet | `std::net::IpAddr` |
//! | date | [`Date`], `jiff::civil::Date`, `chrono::NaiveDate`, `time::Date` |
//! | time | [`Time`], `jiff::civil::Time`, `chrono::NaiveTime`, `time::Time` |
//! | timestamp | [`Timestamp`], `jiff::Timestamp`, `chrono::DateTime<Utc>` |
//! | timestamp (crate `time`) | `time::OffsetDateTime`, `time::UtcDateTime` |
//! | duration | [`CqlDuration`] |
//! | list, set, map | `Vec<T>`, `BTreeSet<T>` or `HashSet<T>`, `BTreeMap<K, V>` or `HashMap<K, V>` |
//! | tuple | tuples of one to six fields, each of which may be an `Option` |
//! | vector | `[T; N]`, [`Vector<T, N>`](Vector) on the heap |
//! | text | [`Json<T>`](Json), of any type that serde reads and writes |
//!
//! `Option<T>` is a field that may be null. `#[derive(FieldType)]` implements fields for enums, and for
//! structs with one field. The types of the crates chrono and time need the features `chrono` and `time`.
//! Timestamps have milliseconds: [`Timestamp`] describes the conversion of finer times. The bytes of a field
//! are a [`cell`].

/// Implements `FieldType` for Rust types by conversion to and from another field type, such as
/// `Timestamp`.
macro_rules! converted {
    ($($native:ty => $newtype:ident;)*) => {$(
        impl FieldType for $native {
            fn field_type() -> Type {
                $newtype::field_type()
            }

            #[inline]
            fn write_cell(&self, out: &mut Vec<u8>) -> Result<bool, CellError> {
                $newtype::try_from(*self)
                    .map_err(|error| malformed::<Self>(&error.to_string()))?
                    .write_cell(out)
            }

            #[inline]
            fn read_cell(cell: Option<&[u8]>) -> Result<Self, CellError> {
                <$native>::try_from($newtype::read_cell(cell)?)
                    .map_err(|error| malformed::<Self>(&error.to_string()))
            }
        }

        impl KeyType for $native {}
    )*};
}

#[cfg(feature = "chrono")]
mod chrono;
mod json;
mod nested;
mod scalar;
mod text;
mod time;
#[cfg(feature = "time")]
mod time_crate;
mod wrappers;

use crate::cell::{self, CellError};
use crate::{Type, Value};

pub use json::Json;
pub use nested::Vector;
pub use time::{CqlDuration, Date, OutOfRange, Time, Timestamp};
pub use wrappers::{Ascii, Blob, NotAscii, NotTimeUuid, TimeUuid};

/// Rust type that can be a field of a record. It defines the CQL type, and the conversion of values
/// to cells (encoded values) and back.
///
/// The [module](self) lists the implementations. `#[derive(FieldType)]` of the crate `recto`
/// implements the trait for enums of names and for structs with one value. [`Json`] is a field of
/// any value that serde can write. An implementation by hand should delegate to an existing field
/// type. The cell is then a valid value of the CQL type for every other program:
///
/// ```
/// use recto_model::Type;
/// use recto_model::cell::CellError;
/// use recto_model::native::FieldType;
///
/// /// Degrees, stored as hundredths.
/// #[derive(Debug, PartialEq)]
/// struct Temperature(f64);
///
/// impl FieldType for Temperature {
///     fn field_type() -> Type {
///         i32::field_type()
///     }
///
///     fn write_cell(&self, out: &mut Vec<u8>) -> Result<bool, CellError> {
///         ((self.0 * 100.0).round() as i32).write_cell(out)
///     }
///
///     fn read_cell(cell: Option<&[u8]>) -> Result<Self, CellError> {
///         i32::read_cell(cell).map(|hundredths| Self(f64::from(hundredths) / 100.0))
///     }
/// }
///
/// let mut cell = Vec::new();
/// assert!(Temperature(21.5).write_cell(&mut cell)?);
/// assert_eq!(Temperature::read_cell(Some(&cell))?, Temperature(21.5));
/// assert!(Temperature::read_cell(None).is_err()); // null is an Option's
/// # Ok::<(), CellError>(())
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be a field of a record",
    note = "fields can be bool, i8 to i64, f32, f64, String, Blob, Uuid, TimeUuid, Timestamp, Date, Time, \
            IpAddr, BigInt, BigDecimal, lists, sets, maps, tuples and arrays of them, and Options",
    note = "an enum of names or a struct with one field can derive it: `#[derive(recto::FieldType)]`",
    note = "use `recto::types::Json` for types of serde, and `recto::types::Blob` for bytes; types of chrono \
            and time need the features `chrono` and `time` of recto"
)]
pub trait FieldType: Sized {
    /// True if the field may be null. Only `Option<T>` sets it.
    const NULLABLE: bool = false;

    /// Returns the field's type in the schema.
    fn field_type() -> Type;

    /// Appends the bytes of the value's cell to `out`. For null, appends nothing and returns false.
    ///
    /// # Errors
    /// [`CellError`] for a value outside the domain of the type, such as a time past midnight. On
    /// error, nothing is appended.
    fn write_cell(&self, out: &mut Vec<u8>) -> Result<bool, CellError>;

    /// Decodes a cell (encoded value). `None` is null.
    ///
    /// # Errors
    /// [`CellError`] for bytes that do not have the type, and for null if the type is not an `Option`.
    fn read_cell(cell: Option<&[u8]>) -> Result<Self, CellError>;

    /// Returns the value in decoded form, as tools and filters use it, or `None` for null.
    /// # Errors
    /// The errors of [`write_cell`](Self::write_cell).
    fn to_value(&self) -> Result<Option<Value>, CellError> {
        let mut bytes = Vec::new();
        if !self.write_cell(&mut bytes)? {
            return Ok(None);
        }
        cell::decode(&Self::field_type(), &bytes).map(Some)
    }

    /// Converts a decoded value to the Rust type. `None` is null.
    ///
    /// # Errors
    /// The errors of [`read_cell`](Self::read_cell).
    fn from_value(value: Option<Value>) -> Result<Self, CellError> {
        let Some(value) = value else {
            return Self::read_cell(None);
        };
        let mut bytes = Vec::new();
        cell::encode(&Self::field_type(), &value, &mut bytes)?;
        Self::read_cell(Some(&bytes))
    }
}

/// Field type that can be in a key or a set, or be the key of a map: its values have an order and
/// are never null.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be in a key or a set, or be the key of a map",
    label = "this type must have an order and no null",
    note = "Options, durations, lists, sets, maps, tuples and arrays cannot be key, partition or order fields"
)]
pub trait KeyType: FieldType {}

/// Field type that can be in the partition or order of a view, or in a unique constraint: its
/// values have an order, and may be null.
#[diagnostic::on_unimplemented(
    message = "`{Self}` has no order",
    label = "this type must have an order",
    note = "durations, lists, sets, maps, tuples and arrays cannot be partition, order or unique fields"
)]
pub trait OrderType: FieldType {}

impl<T: KeyType> OrderType for T {}

impl<T: KeyType> OrderType for Option<T> {}

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

/// Returns the error for a null cell that is read as a Rust type other than `Option`.
#[cold]
fn null<T: FieldType>() -> CellError {
    malformed::<T>("null, which only an Option can hold")
}

#[cold]
fn malformed<T: FieldType>(reason: &str) -> CellError {
    CellError::Malformed {
        type_name: T::field_type().to_string(),
        reason: reason.to_owned(),
    }
}

/// Returns the error for a cell that contains no variant name of an enum. The derived
/// [`FieldType::read_cell`] calls this function.
#[doc(hidden)]
#[cold]
pub fn no_variant(type_name: &str, cell: Option<&[u8]>, names: &[&str]) -> CellError {
    let reason = match cell {
        None => "null, which only an Option can hold".to_owned(),
        Some(cell) => {
            let text = String::from_utf8_lossy(cell);
            let shown: String = text.chars().take(MAX_SHOWN_CHARS).collect();
            format!("{shown:?} is not one of {}", names.join(", "))
        }
    };
    CellError::Malformed {
        type_name: type_name.to_owned(),
        reason,
    }
}

/// Maximum number of characters of a stored text that an error message repeats.
const MAX_SHOWN_CHARS: usize = 60;

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use std::fmt::Debug;

    use super::*;

    #[cfg_attr(not(any(feature = "chrono", feature = "time")), allow(dead_code))]
    pub(super) fn check_round_trip<T: FieldType + PartialEq + Debug>(values: &[T]) {
        for value in values {
            let mut cell = Vec::new();
            assert!(value.write_cell(&mut cell).unwrap());
            assert_eq!(T::read_cell(Some(&cell)).as_ref(), Ok(value));
        }
    }

    /// Checks that converting a CQL date or timestamp outside the range of a Rust type causes an
    /// error, not a panic.
    #[cfg_attr(not(any(feature = "chrono", feature = "time")), allow(dead_code))]
    pub(super) fn check_ends<D: FieldType, T: FieldType, M: FieldType>() {
        for days in [i32::MIN, i32::MAX] {
            assert!(D::from_value(Some(Value::Date(days))).is_err());
        }
        for nanos in [0, cell::MAX_TIME_NANOS] {
            let time = T::from_value(Some(Value::Time(nanos))).unwrap();
            assert_eq!(time.to_value(), Ok(Some(Value::Time(nanos))));
        }
        for millis in [i64::MIN, i64::MAX] {
            assert!(M::from_value(Some(Value::Timestamp(millis))).is_err());
        }
    }

    #[test]
    fn text_is_that_of_record_json() {
        let timestamp: Timestamp = "2013-01-31T10:00:00+01:00".parse().unwrap();
        assert_eq!(format!("{timestamp:>26}"), "  2013-01-31T09:00:00.000Z");
        assert_eq!("3q2+7w==".parse::<Blob>().unwrap().to_string(), "3q2+7w==");
        assert_eq!(Time(-1).to_string(), "(out of range)");
        assert!("é".parse::<Ascii>().is_err());
        assert!(
            "cc520882-9507-44fb-8fc9-b349ecdee658"
                .parse::<TimeUuid>()
                .is_err()
        );
        assert!("2013-02-30".parse::<Date>().is_err());
    }

    /// Checks that `write_cell` returns the same bytes as encoding the decoded value, and that
    /// `read_cell` returns the original value.
    fn check_elements<T: FieldType + PartialEq + Debug>(value: &T) {
        let (mut direct, mut decoded) = (vec![7], vec![7]);
        assert!(value.write_cell(&mut direct).unwrap());
        cell::encode(
            &T::field_type(),
            &value.to_value().unwrap().unwrap(),
            &mut decoded,
        )
        .unwrap();
        assert_eq!(direct, decoded);
        assert_eq!(T::read_cell(Some(&direct[1..])).as_ref(), Ok(value));
        assert!(T::read_cell(Some(&direct[1..direct.len() - 1])).is_err());
    }

    #[test]
    fn lists_and_vectors_lie_as_their_values_do() {
        check_elements(&vec![1_i32, -1, i32::MAX]);
        check_elements(&vec![vec![String::from("日本"), String::new()], vec![]]);
        check_elements(&[0.5_f32, -0.0, f32::MAX]);
        check_elements(&[String::from("a"), "b".repeat(300)]);
        check_elements(&[[1_i16, 2], [3, 4]]);
        check_elements(&Vector::<f32, 3>::try_from(vec![1.0, 2.0, 3.0]).unwrap());
        check_elements(&vec![(Some(1_i32), None::<String>)]);
        let mut out = vec![7];
        assert!(vec![Some(1_i32), None].write_cell(&mut out).is_err());
        assert_eq!(out, [7], "nothing is appended");
        assert!(<[i32; 2]>::read_cell(Some(&[0; 12])).is_err());
    }

    #[test]
    fn times_between_milliseconds_become_the_one_before() {
        for (nanos, millis) in [(1_999_999, 1), (-1, -1), (-1_000_000, -1), (-1_000_001, -2)] {
            let time = jiff::Timestamp::from_nanosecond(nanos).unwrap();
            assert_eq!(time.to_value(), Ok(Some(Value::Timestamp(millis))));
            let time = std::time::SystemTime::UNIX_EPOCH;
            let distance = std::time::Duration::from_nanos(nanos.unsigned_abs() as u64);
            let time = if nanos < 0 {
                time - distance
            } else {
                time + distance
            };
            assert_eq!(Timestamp::try_from(time), Ok(Timestamp(millis)));
        }
    }
}
