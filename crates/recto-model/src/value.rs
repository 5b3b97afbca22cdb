//! Decoded values.

use std::net::IpAddr;

use num_bigint::BigInt;
use uuid::Uuid;

use crate::decimals::BigDecimal;

/// A decoded value of a [`Type`](crate::Type).
///
/// Tools, filter literals and tests use values. The hot paths use [cells](crate::cell). Null is the
/// absence of a value (`Option<Value>`).
///
/// Equality here is structural. [`order`](crate::order) defines how values *compare*.
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
    /// Text with ASCII characters only.
    Ascii(String),
    /// UTF-8 text.
    Text(String),
    /// Bytes.
    Blob(Vec<u8>),
    /// True or false.
    Boolean(bool),
    /// Signed integer of 8 bits.
    TinyInt(i8),
    /// Signed integer of 16 bits.
    SmallInt(i16),
    /// Signed integer of 32 bits.
    Int(i32),
    /// Signed integer of 64 bits.
    BigInt(i64),
    /// Integer of any size.
    Varint(BigInt),
    /// Any decimal number. Stored values keep their scale; keys use the canonical scale.
    Decimal(BigDecimal),
    /// Floating-point number of 32 bits (IEEE 754).
    Float(f32),
    /// Floating-point number of 64 bits (IEEE 754).
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
        /// Number of months.
        months: i32,
        /// Number of days.
        days: i32,
        /// Number of nanoseconds.
        nanoseconds: i64,
    },
    /// A list, in the order of its elements.
    List(Vec<Value>),
    /// A set without duplicates, sorted by the order of its element type.
    Set(Vec<Value>),
    /// A map without duplicate keys, sorted by the order of its key type.
    Map(Vec<(Value, Value)>),
    /// A tuple, with the number of elements that its type has.
    Tuple(Vec<Option<Value>>),
    /// A UDT value, with the fields of its type in their order.
    Udt(Vec<Option<Value>>),
    /// A vector, with the number of elements that its type has.
    Vector(Vec<Value>),
}
