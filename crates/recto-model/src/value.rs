//! One decoded value.

use std::net::IpAddr;

use num_bigint::BigInt;
use uuid::Uuid;

use crate::decimals::BigDecimal;

/// One value of a [`Type`](crate::Type), decoded.
///
/// Tools, filter literals and tests speak in values; the hot paths speak in [cells](crate::cell).
/// Null is the absence of a value (`Option<Value>`).
///
/// Equality here is structural; how values *compare* is [`order`](crate::order)'s.
///
/// ```
/// use recto_model::{Type, Value, json};
///
/// let value = json::from_text(&Type::Int, "7").unwrap();
/// assert_eq!(value, Value::Int(7));
/// assert_eq!(json::to_text(&Type::Int, &value), "7");
/// ```
#[derive(Debug, Clone, PartialEq)]
pub enum Value {
    /// 7-bit text.
    Ascii(String),
    /// UTF-8 text.
    Text(String),
    /// Bytes.
    Blob(Vec<u8>),
    /// True or false.
    Boolean(bool),
    /// 8 bits, signed.
    TinyInt(i8),
    /// 16 bits, signed.
    SmallInt(i16),
    /// 32 bits, signed.
    Int(i32),
    /// 64 bits, signed.
    BigInt(i64),
    /// Any whole number.
    Varint(BigInt),
    /// Any decimal number; its scale is kept in stored values and canonical in keys.
    Decimal(BigDecimal),
    /// 32-bit IEEE 754.
    Float(f32),
    /// 64-bit IEEE 754.
    Double(f64),
    /// Days since 1970-01-01 (CQL's wire form is this plus 2^31).
    Date(i32),
    /// Nanoseconds since midnight, 0 to `86_399_999_999_999`.
    Time(i64),
    /// Milliseconds since 1970-01-01T00:00:00Z.
    Timestamp(i64),
    /// A version 1 UUID.
    TimeUuid(Uuid),
    /// Any UUID.
    Uuid(Uuid),
    /// An IPv4 or IPv6 address.
    Inet(IpAddr),
    /// Months, days and nanoseconds, all of one sign.
    Duration {
        /// Months.
        months: i32,
        /// Days.
        days: i32,
        /// Nanoseconds.
        nanoseconds: i64,
    },
    /// A list, in its order.
    List(Vec<Value>),
    /// A set, sorted by its element type's order, without duplicates.
    Set(Vec<Value>),
    /// A map, sorted by its key type's order, without duplicate keys.
    Map(Vec<(Value, Value)>),
    /// A tuple: as many elements as the type has.
    Tuple(Vec<Option<Value>>),
    /// A UDT: as many fields as the type has, in its order.
    Udt(Vec<Option<Value>>),
    /// A vector: as many elements as the type has.
    Vector(Vec<Value>),
}
