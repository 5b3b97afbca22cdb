//! Cells: the bytes of one value, in the exact serialization of CQL's native protocol.
//!
//! All stores keep these bytes. One function can therefore decode values of every store, and a
//! transfer between stores copies bytes. Source: Apache Cassandra, `doc/native_protocol_v4.spec`
//! section 6, and CASSANDRA-18504 for vectors.
//!
//! | type | cell |
//! |---|---|
//! | ascii, text, blob | the bytes |
//! | boolean | one byte, 0 or 1 (any other byte reads as true) |
//! | tinyint, smallint, int, bigint, timestamp, time | big-endian two's complement |
//! | float, double | IEEE 754, big-endian |
//! | date | days since 1970-01-01 plus 2^31, four bytes |
//! | varint | big-endian two's complement of any length |
//! | decimal | four bytes of scale, then the unscaled value as a varint |
//! | uuid, timeuuid | the sixteen bytes |
//! | inet | four or sixteen bytes |
//! | duration | months, days, nanoseconds, each a zigzag varying-length integer |
//! | list, set | four bytes of count, then each element after four bytes of length |
//! | map | four bytes of count, then each key and each value in turn after four bytes of length |
//! | tuple, UDT | each field after four bytes of length, -1 for null; missing last fields are null |
//! | vector | the elements; each after a varying-length integer if elements do not have a fixed size |

mod decimal;
pub(crate) mod nested;
mod scalar;
mod vint;

use crate::json::JsonError;
use crate::types::with_article;
use crate::{Type, Value};

pub(crate) use decimal::{DecimalCell, minimal_varint, small_integer};
pub(crate) use scalar::{DOUBLE_NAN, FLOAT_NAN};

/// Maximum nesting depth of types. A list of lists of ints has depth 3.
pub const MAX_NESTING: usize = 32;

/// Maximum time of day: one nanosecond before midnight.
pub const MAX_TIME_NANOS: i64 = 86_399_999_999_999;

/// Error for bytes that are not a cell of a type, or for a value that does not have the type.
///
/// ```
/// use recto_model::cell::{CellError, decode};
/// use recto_model::Type;
///
/// assert!(matches!(decode(&Type::Int, &[1, 2]), Err(CellError::Malformed { .. })));
/// ```
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum CellError {
    /// The bytes are not a value of the type.
    #[error("not {}: {reason}", with_article(type_name))]
    Malformed {
        /// Name of the expected type.
        type_name: String,
        /// Description of the fault in the bytes.
        reason: String,
    },
    /// The value does not have the expected type.
    #[error("expected {}, found a value of another type", with_article(expected))]
    WrongType {
        /// Name of the expected type.
        expected: String,
    },
    /// The text is not a value of the expected type.
    #[error(transparent)]
    Text(#[from] JsonError),
}

impl CellError {
    #[cold]
    fn malformed(ty: &Type, reason: impl Into<String>) -> Self {
        Self::Malformed {
            type_name: ty.to_string(),
            reason: reason.into(),
        }
    }

    #[cold]
    fn wrong_type(ty: &Type) -> Self {
        Self::WrongType {
            expected: ty.to_string(),
        }
    }
}

/// Appends to `out` the cell of `value`, which must have the type `ty`. On error, appends nothing.
///
/// All NaN values have one encoding, so that values that are equal in order have equal keys. Sets
/// and maps are sorted by the [order](crate::order) of their element or key type, and duplicates in
/// a set are written once. If the element or key type has no order, the cell keeps the given
/// sequence.
///
/// # Errors
/// [`CellError::WrongType`] if the value has another type. [`CellError::Malformed`] if it is nested
/// deeper than [`MAX_NESTING`], or outside the domain of the type. Examples are text that is not
/// ASCII, a time past midnight, a duration of mixed signs, and a map with a key twice.
pub fn encode(ty: &Type, value: &Value, out: &mut Vec<u8>) -> Result<(), CellError> {
    let start = out.len();
    encode_at(ty, value, out, MAX_NESTING).inspect_err(|_| out.truncate(start))
}

/// Decodes a cell: returns the value of type `ty` that its bytes encode.
///
/// The function accepts any bytes. It never panics, and it allocates memory in proportion to the bytes.
///
/// # Errors
/// [`CellError::Malformed`] if the bytes are not a value of `ty`, if bytes are left over, or if the type is
/// nested deeper than [`MAX_NESTING`].
pub fn decode(ty: &Type, cell: &[u8]) -> Result<Value, CellError> {
    decode_at(ty, cell, MAX_NESTING)
}

/// Checks that `cell` encodes a value of `ty`, without decoding it. Allocates memory only for an
/// error.
///
/// # Errors
/// The errors of [`decode`].
pub fn validate(ty: &Type, cell: &[u8]) -> Result<(), CellError> {
    validate_at(ty, cell, MAX_NESTING)
}

/// Returns a cell in which empty fields of tuples and user-defined types are replaced by null. An
/// empty field has zero bytes although its type, such as int, has no empty value. Cassandra stores
/// such fields, and its drivers show them as null. Returns `None` if the cell has no such fields.
pub fn with_empty_fields_null(ty: &Type, cell: &[u8]) -> Option<Vec<u8>> {
    let mut lengths = Vec::new();
    // Ignore the error of a cell that ends within a value, because the decoder reports it.
    let _ = nested::find_empty_fields(ty, cell, 0, &mut lengths);
    if lengths.is_empty() {
        return None;
    }
    let mut cell = cell.to_vec();
    let null = nested::NULL_LENGTH.to_be_bytes();
    for length in lengths {
        cell[length..length + null.len()].copy_from_slice(&null);
    }
    Some(cell)
}

/// Appends the canonical form of `cell`, a valid cell of `ty`, to `out`. Keys use the canonical
/// form, so that equal values have equal keys. On error, appends nothing.
///
/// Decimals lose trailing zeros (zero has scale 0), and varints lose redundant leading bytes. NaN
/// and true have one form each. Cells of other types are copied. -0 and 0 have different forms, as
/// in Cassandra's order. Two cells of an orderable type have the same form exactly if they are
/// equal according to [`order::compare`].
///
/// [`order::compare`]: crate::order::compare
///
/// # Errors
/// The errors of [`decode`].
pub fn canonical_key(ty: &Type, cell: &[u8], out: &mut Vec<u8>) -> Result<(), CellError> {
    validate(ty, cell)?;
    match ty {
        Type::Decimal => DecimalCell::parse(cell)
            .ok_or_else(|| CellError::malformed(ty, decimal::TOO_SHORT))?
            .write_canonical(out),
        Type::Varint => out.extend_from_slice(minimal_varint(cell)),
        Type::Boolean => out.push(u8::from(cell != [0])),
        Type::Float => out.extend_from_slice(&scalar::canonical_float(cell).unwrap_or(FLOAT_NAN)),
        Type::Double => out.extend_from_slice(&scalar::canonical_double(cell).unwrap_or(DOUBLE_NAN)),
        _ => out.extend_from_slice(cell),
    }
    Ok(())
}

/// Returns the nesting depth that the parts of a value of `ty` may still have, or an error if the
/// depth is used up.
fn deeper(ty: &Type, depth_left: usize) -> Result<usize, CellError> {
    depth_left
        .checked_sub(1)
        .ok_or_else(|| CellError::malformed(ty, format!("types nest deeper than {MAX_NESTING}")))
}

fn encode_at(ty: &Type, value: &Value, out: &mut Vec<u8>, depth_left: usize) -> Result<(), CellError> {
    if ty.is_nested() {
        nested::encode(ty, value, out, deeper(ty, depth_left)?)
    } else {
        scalar::encode(ty, value, out)
    }
}

fn decode_at(ty: &Type, cell: &[u8], depth_left: usize) -> Result<Value, CellError> {
    if ty.is_nested() {
        nested::decode(ty, cell, deeper(ty, depth_left)?)
    } else {
        scalar::decode(ty, cell)
    }
}

#[inline]
fn validate_at(ty: &Type, cell: &[u8], depth_left: usize) -> Result<(), CellError> {
    if ty.is_nested() {
        nested::validate(ty, cell, deeper(ty, depth_left)?)
    } else {
        scalar::check(ty, cell).map_err(|reason| CellError::malformed(ty, reason))
    }
}
