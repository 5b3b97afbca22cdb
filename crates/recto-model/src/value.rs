//! Decoded values of CQL types.

use std::net::IpAddr;

use num_bigint::BigInt;
use uuid::Uuid;

use crate::decimals::BigDecimal;

/// Decoded value of a [`Type`](crate::Type).
///
/// Tools, filter literals and tests use decoded values. Frequently executed code uses
/// [cells](crate::cell), their encoded form. Null is the absence of a value (`Option<Value>`).
///
/// `==` compares the structure of values. Use [`order`](crate::order) to compare values as keys do:
/// it has other rules, for example for NaN and decimals.
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
    /// Decimal number of any size. Stored values keep their scale (number of digits after the
    /// point). Keys use the canonical scale.
    Decimal(BigDecimal),
    /// Floating-point number of 32 bits (IEEE 754).
    Float(f32),
    /// Floating-point number of 64 bits (IEEE 754).
    Double(f64),
    /// Days since 1970-01-01. CQL's encoded form is this number plus 2^31.
    Date(i32),
    /// Nanoseconds since midnight, 0 to `86_399_999_999_999`.
    Time(i64),
    /// Milliseconds since 1970-01-01T00:00:00Z.
    Timestamp(i64),
    /// UUID of version 1, which contains a time.
    TimeUuid(Uuid),
    /// Any UUID.
    Uuid(Uuid),
    /// An IPv4 or IPv6 address.
    Inet(IpAddr),
    /// Months, days and nanoseconds. All parts that are not zero have the same sign.
    Duration {
        /// Number of months, negative in a negative duration.
        months: i32,
        /// Number of days, negative in a negative duration.
        days: i32,
        /// Number of nanoseconds, negative in a negative duration.
        nanoseconds: i64,
    },
    /// A list, in the order of its elements.
    List(Vec<Value>),
    /// A set without duplicates, sorted by the order of its element type.
    Set(Vec<Value>),
    /// A map without duplicate keys, sorted by the order of its key type.
    Map(Vec<(Value, Value)>),
    /// Tuple with one entry for each element of its type. `None` is null.
    Tuple(Vec<Option<Value>>),
    /// Value of a user-defined type, with one entry for each field of the type, in order. `None` is
    /// null.
    Udt(Vec<Option<Value>>),
    /// Vector, with as many elements as its type requires.
    Vector(Vec<Value>),
}
