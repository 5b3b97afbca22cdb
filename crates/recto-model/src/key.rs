//! Byte-comparable keys: encoded components whose byte order is the order of [`order`](crate::order),
//! inverted for descending columns. The format is drawn in `docs/format.md`; it is on people's
//! disks, so it has a version and golden vectors.

use crate::{Direction, RowRef, Table, Type};

/// The version of the key format.
pub const KEY_FORMAT_VERSION: u8 = 1;

/// Why bytes are not a key, or a cell cannot be in one.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum KeyError {
    /// The cell or the encoded bytes are not of the type.
    #[error("not a key component of type {type_name}: {reason}")]
    Malformed {
        /// The component's type.
        type_name: String,
        /// What is wrong.
        reason: String,
    },
    /// A key part is null.
    #[error("a key part is null")]
    Null,
}

/// Appends the byte-comparable form of `cell` to `out`. Self-delimiting: no component's form is a
/// prefix of another's of the same type and direction.
pub fn encode(ty: &Type, direction: Direction, cell: &[u8], out: &mut Vec<u8>) -> Result<(), KeyError> {
    let _ = (ty, direction, cell, out);
    todo!()
}

/// Takes one component off the front of `bytes` and appends its cell to `out`.
pub fn decode(ty: &Type, direction: Direction, bytes: &mut &[u8], out: &mut Vec<u8>) -> Result<(), KeyError> {
    let _ = (ty, direction, bytes, out);
    todo!()
}

/// Appends the components of `partition`, the cells of all of `table`'s partition columns.
pub fn encode_partition(table: &Table, partition: RowRef<'_>, out: &mut Vec<u8>) -> Result<(), KeyError> {
    let _ = (table, partition, out);
    todo!()
}

/// Appends the components of `clustering`, the cells of a prefix of `table`'s clustering columns,
/// each in its column's direction.
pub fn encode_clustering(table: &Table, clustering: RowRef<'_>, out: &mut Vec<u8>) -> Result<(), KeyError> {
    let _ = (table, clustering, out);
    todo!()
}

/// Turns `key` into the smallest byte string greater than every string that starts with it; false
/// if there is none (all bytes 0xFF, or empty).
pub fn prefix_successor(key: &mut Vec<u8>) -> bool {
    while let Some(last) = key.last_mut() {
        if *last < 0xFF {
            *last += 1;
            return true;
        }
        key.pop();
    }
    false
}
