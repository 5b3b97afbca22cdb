//! Cells: the bytes of one value, exactly as CQL's native protocol serializes it.
//!
//! Both stores hold these bytes, so that a value read from either decodes in one place and a move
//! between them copies bytes. Source: Apache Cassandra, `doc/native_protocol_v4.spec` section 6
//! and, for vectors, CASSANDRA-18504.

use crate::{Type, Value};

/// Why bytes are not a cell of a type, or a value not of a type.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum CellError {
    /// The bytes are not a value of the type.
    #[error("not a {type_name}: {reason}")]
    Malformed {
        /// The type that was expected.
        type_name: String,
        /// What is wrong with the bytes.
        reason: String,
    },
    /// The value is of another type.
    #[error("expected a {expected}, found a value of another type")]
    WrongType {
        /// The type that was expected.
        expected: String,
    },
}

/// Appends the cell of `value`, which must be of type `ty`, to `out`.
///
/// NaN is written in one form, so that what is equal in order is one key.
///
/// # Errors
/// [`CellError::WrongType`] if the value is of another type; [`CellError::Malformed`] if it is out of
/// the type's domain (text that is not ASCII, a time past midnight, a duration of mixed signs).
pub fn encode(ty: &Type, value: &Value, out: &mut Vec<u8>) -> Result<(), CellError> {
    let _ = (ty, value, out);
    todo!()
}

/// The value of a cell.
///
/// # Errors
/// [`CellError::Malformed`] if the bytes are not a value of `ty`.
pub fn decode(ty: &Type, cell: &[u8]) -> Result<Value, CellError> {
    let _ = (ty, cell);
    todo!()
}

/// Checks that `cell` is a value of `ty` without building it.
pub fn validate(ty: &Type, cell: &[u8]) -> Result<(), CellError> {
    decode(ty, cell).map(drop)
}

/// Rewrites `cell`, a valid cell of `ty`, into the one form that keys use, appended to `out`:
/// decimals without trailing zeros, one NaN; other types as they are.
pub fn canonical_key(ty: &Type, cell: &[u8], out: &mut Vec<u8>) -> Result<(), CellError> {
    let _ = (ty, cell, out);
    todo!()
}
