//! Order of values, which is Cassandra's. All code of Recto compares values with this module.
//!
//! | type | order |
//! |---|---|
//! | ascii, text, blob | by unsigned bytes; the empty value first |
//! | boolean | false, true |
//! | tinyint, smallint, int, bigint, varint, decimal, date, time, timestamp | by value |
//! | float, double | by value; -0 before 0, NaN last and equal to itself |
//! | timeuuid | by time, then the other eight bytes, each *signed* (CASSANDRA-8730) |
//! | uuid | by version, then version 1 by time, then by unsigned bytes |
//! | inet | by unsigned bytes, so `1.2.3.4` is directly before `102:304::` |
//!
//! Source: the subclasses of `AbstractType` in Apache Cassandra 5.0.

mod decimal;
pub(crate) mod sortable;

use std::cmp::Ordering;

use crate::Type;
use crate::cell::{DecimalCell, minimal_varint};

/// Compares two valid cells (encoded values) of an orderable type, ascending, like Cassandra.
///
/// Allocates memory only for decimals of different scales with more than 38 digits. If the bytes
/// are not cells of the type, the result is arbitrary. Cells that compare as equal have the same
/// [canonical form](crate::cell::canonical_key).
///
/// # Panics
/// If `ty` is not [orderable](Type::is_orderable).
pub fn compare(ty: &Type, left: &[u8], right: &[u8]) -> Ordering {
    match ty {
        // A date is encoded as an unsigned number, and a time is never negative. Their bytes
        // therefore sort like the values.
        Type::Ascii | Type::Text | Type::Blob | Type::Inet | Type::Date | Type::Time => left.cmp(right),
        Type::Boolean => (left != [0]).cmp(&(right != [0])),
        Type::TinyInt => by(left, right, i8::from_be_bytes),
        Type::SmallInt => by(left, right, i16::from_be_bytes),
        Type::Int => by(left, right, i32::from_be_bytes),
        Type::BigInt | Type::Timestamp => by(left, right, i64::from_be_bytes),
        Type::Varint => compare_varints(left, right),
        Type::Decimal => match (DecimalCell::parse(left), DecimalCell::parse(right)) {
            (Some(left), Some(right)) => decimal::compare(left, right),
            _ => left.cmp(right),
        },
        Type::Float => by(left, right, sortable::float),
        Type::Double => by(left, right, sortable::double),
        Type::TimeUuid => by(left, right, sortable::timeuuid),
        Type::Uuid => by(left, right, sortable::uuid),
        Type::Duration
        | Type::List(_)
        | Type::Set(_)
        | Type::Map(..)
        | Type::Tuple(_)
        | Type::Udt(_)
        | Type::Vector(..) => panic!("values of type {ty} have no order"),
    }
}

/// Compares two cells of `N` bytes by the values that `read` decodes.
fn by<const N: usize, T: Ord>(left: &[u8], right: &[u8], read: fn([u8; N]) -> T) -> Ordering {
    match (left.try_into(), right.try_into()) {
        (Ok(left), Ok(right)) => read(left).cmp(&read(right)),
        _ => left.cmp(right),
    }
}

/// Compares two big-endian two's complement integers of any length.
fn compare_varints(left: &[u8], right: &[u8]) -> Ordering {
    let (left, right) = (minimal_varint(left), minimal_varint(right));
    let negative = |bytes: &[u8]| bytes.first().is_some_and(|first| *first >= 0x80);
    match (negative(left), negative(right)) {
        (true, false) => Ordering::Less,
        (false, true) => Ordering::Greater,
        (false, false) => left.len().cmp(&right.len()).then_with(|| left.cmp(right)),
        (true, true) => right.len().cmp(&left.len()).then_with(|| left.cmp(right)),
    }
}
