//! Byte-comparable keys: encoded values (components) whose byte order is the order of
//! [`order`](crate::order), inverted for descending columns. `docs/format.md` describes the format.
//! Users' stores contain keys, so the format has a version, and tests compare it with golden
//! vectors.
//!
//! A component has no header: its type and direction determine where it ends. The cells in a key
//! are [canonical](crate::cell::canonical_key), so equal values have equal keys.

mod decimal;
mod reader;
mod text;
mod varint;

use crate::cell::{self, CellError};
use crate::order::sortable;
use crate::table::ColumnKind;
use crate::{Direction, RowRef, Table, Type};
use reader::Reader;

/// Version of the encoding of keys. A golden file has keys of each version, which must never change.
pub const KEY_FORMAT_VERSION: u8 = 1;

/// Maximum length of one key column's cell (encoded value), in bytes. Cassandra stores this length
/// in 16 bits.
pub const MAX_KEY_PART_BYTES: usize = 65_535;

/// Error for bytes that are not a key, or for a cell that cannot be in a key.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum KeyError {
    /// The cell or the encoded bytes do not have the type.
    #[error("not a key component of type {type_name}: {reason}")]
    Malformed {
        /// Name of the component's type.
        type_name: String,
        /// Description of the fault in the bytes.
        reason: String,
    },
    /// A key part is null.
    #[error("a key part is null")]
    Null,
    /// A key part is too long.
    #[error("a key part of type {type_name} has {length} bytes; at most {MAX_KEY_PART_BYTES} fit a key")]
    TooLong {
        /// Name of the component's type.
        type_name: String,
        /// Length of the cell, in bytes.
        length: usize,
    },
    /// The number of values given for a key differs from the number of key columns of the table.
    #[error("a key has {found} parts, but the table has {expected} key columns")]
    WrongLength {
        /// Number of key columns of the table.
        expected: usize,
        /// Number of values that were given.
        found: usize,
    },
}

impl KeyError {
    #[cold]
    fn malformed(ty: &Type, reason: &str) -> Self {
        Self::Malformed {
            type_name: ty.to_string(),
            reason: reason.to_owned(),
        }
    }
}

impl From<CellError> for KeyError {
    #[cold]
    fn from(error: CellError) -> Self {
        match error {
            CellError::Malformed { type_name, reason } => Self::Malformed { type_name, reason },
            CellError::WrongType { expected } => Self::Malformed {
                type_name: expected,
                reason: "a value of another type".to_owned(),
            },
            CellError::Text(error) => Self::Malformed {
                type_name: "the field".to_owned(),
                reason: error.to_string(),
            },
        }
    }
}

/// Appends `cell` to `out` as a key component: bytes that sort like the values, reversed if
/// `direction` is descending. On error, appends nothing.
///
/// Components are self-delimiting: no component is a prefix of another component of the same type
/// and direction.
///
/// # Errors
/// [`KeyError::Malformed`] if the cell does not have the type, or if the type has no order.
/// [`KeyError::TooLong`] if the cell is longer than [`MAX_KEY_PART_BYTES`].
pub fn encode(ty: &Type, direction: Direction, cell: &[u8], out: &mut Vec<u8>) -> Result<(), KeyError> {
    if cell.len() > MAX_KEY_PART_BYTES {
        return Err(KeyError::TooLong {
            type_name: ty.to_string(),
            length: cell.len(),
        });
    }
    cell::validate(ty, cell)?;
    let start = out.len();
    if let Err(reason) = encode_ascending(ty, cell, out) {
        out.truncate(start);
        return Err(KeyError::malformed(ty, reason));
    }
    if direction == Direction::Descending {
        invert(&mut out[start..]);
    }
    Ok(())
}

/// Inverts every bit of `bytes`, which reverses their byte order.
#[inline]
fn invert(bytes: &mut [u8]) {
    for byte in bytes {
        *byte = !*byte;
    }
}

/// Reason why bytes are not a key component. The public functions add the type to the error.
type Reason = &'static str;

/// Appends the key component of a valid cell for an ascending column.
#[inline]
fn encode_ascending(ty: &Type, cell: &[u8], out: &mut Vec<u8>) -> Result<(), Reason> {
    match ty {
        Type::Ascii | Type::Text | Type::Blob => text::encode(cell, out),
        Type::Boolean => out.push(u8::from(cell != [0])),
        Type::TinyInt | Type::SmallInt | Type::Int | Type::BigInt | Type::Timestamp => {
            let start = out.len();
            out.extend_from_slice(cell);
            out[start] ^= SIGN_BIT;
        }
        Type::Date | Type::Time => out.extend_from_slice(cell),
        Type::Varint => varint::encode(cell, out),
        Type::Decimal => decimal::encode(cell, out)?,
        Type::Float => out.extend_from_slice(&sortable::float(fixed(cell)?).to_be_bytes()),
        Type::Double => out.extend_from_slice(&sortable::double(fixed(cell)?).to_be_bytes()),
        Type::TimeUuid => out.extend_from_slice(&sortable::timeuuid(fixed(cell)?).to_be_bytes()),
        Type::Uuid => out.extend_from_slice(&sortable::uuid(fixed(cell)?).to_be_bytes()),
        Type::Inet => encode_inet(cell, out),
        _ => return Err(NO_ORDER),
    }
    Ok(())
}

const NO_ORDER: Reason = "values of this type have no order";

/// First bit of a signed number in two's complement. A key contains it inverted, so that negative
/// numbers sort first.
const SIGN_BIT: u8 = 0x80;

/// Byte after the first four bytes of an IP address in a key: 0 after an IPv4 address, 1 within an
/// IPv6 address. Cassandra compares addresses as bytes, so an IPv4 address sorts before the IPv6
/// addresses that begin with its four bytes.
const INET_ENDS: u8 = 0;
const INET_GOES_ON: u8 = 1;

fn fixed<const N: usize>(cell: &[u8]) -> Result<[u8; N], Reason> {
    cell.try_into().map_err(|_| "of another length")
}

fn encode_inet(cell: &[u8], out: &mut Vec<u8>) {
    let (head, tail) = cell.split_at(4);
    out.extend_from_slice(head);
    out.push(if tail.is_empty() { INET_ENDS } else { INET_GOES_ON });
    out.extend_from_slice(tail);
}

/// Decodes the key component at the front of `bytes`, appends its cell to `out`, and removes the
/// component from `bytes`.
///
/// The function accepts any bytes. On error, `bytes` and `out` are unchanged.
///
/// # Errors
/// [`KeyError::Malformed`] if the bytes do not begin with a component of the type that [`encode`] could have
/// written, or if the type has no order.
pub fn decode(ty: &Type, direction: Direction, bytes: &mut &[u8], out: &mut Vec<u8>) -> Result<(), KeyError> {
    let mut reader = Reader::new(bytes, direction);
    let start = out.len();
    match decode_component(ty, &mut reader, out) {
        Ok(()) if out.len() - start <= MAX_KEY_PART_BYTES => {
            *bytes = reader.rest();
            Ok(())
        }
        outcome => {
            let reason = outcome.err().unwrap_or("longer than a key part may be");
            out.truncate(start);
            Err(KeyError::malformed(ty, reason))
        }
    }
}

#[inline]
fn decode_component(ty: &Type, reader: &mut Reader<'_>, out: &mut Vec<u8>) -> Result<(), Reason> {
    match ty {
        Type::Blob => text::decode(reader, out)?,
        Type::Text => {
            let start = out.len();
            text::decode(reader, out)?;
            std::str::from_utf8(&out[start..]).map_err(|_| "not UTF-8")?;
        }
        Type::Ascii => {
            let start = out.len();
            text::decode(reader, out)?;
            if !out[start..].is_ascii() {
                return Err("a byte above 0x7F");
            }
        }
        Type::Boolean => match reader.byte()? {
            value @ (0 | 1) => out.push(value),
            _ => return Err("neither 0 nor 1"),
        },
        Type::TinyInt => decode_signed::<1>(reader, out)?,
        Type::SmallInt => decode_signed::<2>(reader, out)?,
        Type::Int => decode_signed::<4>(reader, out)?,
        Type::BigInt | Type::Timestamp => decode_signed::<8>(reader, out)?,
        Type::Date => out.extend_from_slice(&reader.array::<4>()?),
        Type::Time => {
            let time = reader.array::<8>()?;
            if !(0..=cell::MAX_TIME_NANOS).contains(&i64::from_be_bytes(time)) {
                return Err("not between midnight and midnight");
            }
            out.extend_from_slice(&time);
        }
        Type::Varint => varint::decode(reader, out)?,
        Type::Decimal => decimal::decode(reader, out)?,
        Type::Float => decode_float(reader, out)?,
        Type::Double => decode_double(reader, out)?,
        Type::TimeUuid => {
            let uuid = sortable::timeuuid_cell(u128::from_be_bytes(reader.array()?));
            if uuid[6] >> 4 != 1 {
                return Err("a UUID of a version other than 1");
            }
            out.extend_from_slice(&uuid);
        }
        Type::Uuid => out.extend_from_slice(&sortable::uuid_cell(u128::from_be_bytes(reader.array()?))),
        Type::Inet => decode_inet(reader, out)?,
        _ => return Err(NO_ORDER),
    }
    Ok(())
}

#[inline]
fn decode_signed<const N: usize>(reader: &mut Reader<'_>, out: &mut Vec<u8>) -> Result<(), Reason> {
    let mut number = reader.array::<N>()?;
    number[0] ^= SIGN_BIT;
    out.extend_from_slice(&number);
    Ok(())
}

fn decode_float(reader: &mut Reader<'_>, out: &mut Vec<u8>) -> Result<(), Reason> {
    let sortable = u32::from_be_bytes(reader.array()?);
    let cell = sortable::float_cell(sortable);
    if sortable::float(cell) != sortable {
        return Err("a NaN in another form");
    }
    out.extend_from_slice(&cell);
    Ok(())
}

fn decode_double(reader: &mut Reader<'_>, out: &mut Vec<u8>) -> Result<(), Reason> {
    let sortable = u64::from_be_bytes(reader.array()?);
    let cell = sortable::double_cell(sortable);
    if sortable::double(cell) != sortable {
        return Err("a NaN in another form");
    }
    out.extend_from_slice(&cell);
    Ok(())
}

fn decode_inet(reader: &mut Reader<'_>, out: &mut Vec<u8>) -> Result<(), Reason> {
    let head = reader.array::<4>()?;
    let mark = reader.byte()?;
    out.extend_from_slice(&head);
    match mark {
        INET_ENDS => {}
        INET_GOES_ON => out.extend_from_slice(&reader.array::<12>()?),
        _ => return Err("an address of neither four nor sixteen bytes"),
    }
    Ok(())
}

/// Appends the key components of `partition`, which contains the cells of all partition columns of
/// `table`. On error, appends nothing.
///
/// # Errors
/// The errors of [`encode`]. [`KeyError::Null`] if a cell is null. [`KeyError::WrongLength`] if the number of
/// cells differs from the number of partition columns.
pub fn encode_partition(table: &Table, partition: RowRef<'_>, out: &mut Vec<u8>) -> Result<(), KeyError> {
    let columns = table.partition();
    if partition.len() != columns.len() {
        return Err(KeyError::WrongLength {
            expected: columns.len(),
            found: partition.len(),
        });
    }
    let start = out.len();
    for (column, cell) in columns.iter().zip(partition.iter()) {
        let appended = cell
            .ok_or(KeyError::Null)
            .and_then(|cell| encode(&column.ty, Direction::Ascending, cell, out));
        if let Err(error) = appended {
            out.truncate(start);
            return Err(error);
        }
    }
    Ok(())
}

/// Appends the key components of `clustering`, which contains the cells of the first clustering
/// columns of `table`. Each component has the direction of its column. On error, appends nothing.
///
/// # Errors
/// The errors of [`encode`]. [`KeyError::Null`] if a cell is null. [`KeyError::WrongLength`] if there are
/// more cells than clustering columns.
pub fn encode_clustering(table: &Table, clustering: RowRef<'_>, out: &mut Vec<u8>) -> Result<(), KeyError> {
    let columns = table.clustering();
    if clustering.len() > columns.len() {
        return Err(KeyError::WrongLength {
            expected: columns.len(),
            found: clustering.len(),
        });
    }
    let start = out.len();
    for (column, cell) in columns.iter().zip(clustering.iter()) {
        let direction = match column.kind {
            ColumnKind::Clustering(direction) => direction,
            _ => Direction::Ascending,
        };
        let appended = cell
            .ok_or(KeyError::Null)
            .and_then(|cell| encode(&column.ty, direction, cell, out));
        if let Err(error) = appended {
            out.truncate(start);
            return Err(error);
        }
    }
    Ok(())
}

/// Replaces `key` by the smallest byte string that is greater than every string that starts with
/// `key`. Returns false if no such string exists, because all bytes are 0xFF or `key` is empty.
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
