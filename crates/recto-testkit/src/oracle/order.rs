//! Second, simple implementation of the order in which Cassandra sorts values.
//!
//! This module does not use [`recto_model::order`], so that both implementations are independent.
//! `vectors/order-cassandra-5.0.txt` has the order of a real Cassandra, and a test compares this module with it.

use std::cmp::Ordering;
use std::net::IpAddr;

use bigdecimal::BigDecimal;
use num_bigint::Sign;
use recto_model::{Type, Value, cell};
use uuid::Uuid;

/// Compares two values of one sortable type, ascending.
///
/// # Panics
/// If the values have different types, or a type without order.
pub fn compare(left: &Value, right: &Value) -> Ordering {
    match (left, right) {
        (Value::Ascii(left), Value::Ascii(right)) | (Value::Text(left), Value::Text(right)) => {
            left.as_bytes().cmp(right.as_bytes())
        }
        (Value::Blob(left), Value::Blob(right)) => left.cmp(right),
        (Value::Boolean(left), Value::Boolean(right)) => left.cmp(right),
        (Value::TinyInt(left), Value::TinyInt(right)) => left.cmp(right),
        (Value::SmallInt(left), Value::SmallInt(right)) => left.cmp(right),
        (Value::Int(left), Value::Int(right)) | (Value::Date(left), Value::Date(right)) => left.cmp(right),
        (Value::BigInt(left), Value::BigInt(right))
        | (Value::Time(left), Value::Time(right))
        | (Value::Timestamp(left), Value::Timestamp(right)) => left.cmp(right),
        (Value::Varint(left), Value::Varint(right)) => left.cmp(right),
        (Value::Decimal(left), Value::Decimal(right)) => compare_decimals(left, right),
        (Value::Float(left), Value::Float(right)) => compare_doubles((*left).into(), (*right).into()),
        (Value::Double(left), Value::Double(right)) => compare_doubles(*left, *right),
        (Value::TimeUuid(left), Value::TimeUuid(right)) => time_of(*left)
            .cmp(&time_of(*right))
            .then_with(|| signed_rest(*left).cmp(&signed_rest(*right))),
        (Value::Uuid(left), Value::Uuid(right)) => compare_uuids(*left, *right),
        (Value::Inet(left), Value::Inet(right)) => address_bytes(*left).cmp(&address_bytes(*right)),
        (left, right) => panic!("{left:?} and {right:?} have no order between them"),
    }
}

/// Returns whether two values of a type are the same. Sortable values are the same if they compare
/// as equal. Other values must have equal bytes.
pub fn same(ty: &Type, left: &Value, right: &Value) -> bool {
    if ty.is_orderable() {
        compare(left, right).is_eq()
    } else {
        bytes(ty, left) == bytes(ty, right)
    }
}

/// Returns the encoded bytes of a value, as both stores contain it.
pub(super) fn bytes(ty: &Type, value: &Value) -> Vec<u8> {
    let mut bytes = Vec::new();
    cell::encode(ty, value, &mut bytes).expect("tests make values of their type only");
    bytes
}

/// Compares as Java's `Double.compare` does: -0.0 is less than 0.0, and NaN is greater than all
/// other values. It also compares floats, because converting a float to a double keeps the order.
fn compare_doubles(left: f64, right: f64) -> Ordering {
    match (left.is_nan(), right.is_nan()) {
        (true, true) => Ordering::Equal,
        (true, false) => Ordering::Greater,
        (false, true) => Ordering::Less,
        (false, false) if left < right => Ordering::Less,
        (false, false) if left > right => Ordering::Greater,
        // These values can differ only in the sign of zero, so compare the signs.
        (false, false) => right.is_sign_negative().cmp(&left.is_sign_negative()),
    }
}

/// Compares decimals by the position of their first digit, and then by their digits. It computes no
/// power of ten, because an exponent can exceed 2,000,000,000.
fn compare_decimals(left: &BigDecimal, right: &BigDecimal) -> Ordering {
    let (left_digits, left_scale) = left.as_bigint_and_exponent();
    let (right_digits, right_scale) = right.as_bigint_and_exponent();
    let (left_sign, right_sign) = (left_digits.sign(), right_digits.sign());
    if left_sign != right_sign || left_sign == Sign::NoSign {
        return left_sign.cmp(&right_sign);
    }
    let digits = |number: &num_bigint::BigInt| number.magnitude().to_string();
    let (left_text, right_text) = (digits(&left_digits), digits(&right_digits));
    let place = |text: &str, scale: i64| i128::try_from(text.len()).unwrap_or(i128::MAX) - i128::from(scale);
    let significant = |text: &str| text.trim_end_matches('0').to_owned();
    let magnitude = place(&left_text, left_scale)
        .cmp(&place(&right_text, right_scale))
        .then_with(|| significant(&left_text).cmp(&significant(&right_text)));
    if left_sign == Sign::Minus {
        magnitude.reverse()
    } else {
        magnitude
    }
}

/// Returns the 60-bit time of a version 1 UUID, which the UUID stores in three fields.
fn time_of(uuid: Uuid) -> u64 {
    let (low, middle, high_and_version, _) = uuid.as_fields();
    u64::from(high_and_version & 0x0FFF) << 48 | u64::from(middle) << 32 | u64::from(low)
}

/// Returns the last eight bytes of a UUID as signed bytes, because Cassandra's `TimeUUIDType`
/// compares them so (CASSANDRA-8730).
fn signed_rest(uuid: Uuid) -> Vec<i8> {
    uuid.as_bytes()[8..]
        .iter()
        .map(|byte| byte.cast_signed())
        .collect()
}

/// Compares UUIDs as Cassandra's `UUIDType` does: by version, then for version 1 by time, then by
/// unsigned bytes.
fn compare_uuids(left: Uuid, right: Uuid) -> Ordering {
    let version = |uuid: Uuid| uuid.as_bytes()[6] >> 4;
    let by_version = version(left).cmp(&version(right));
    if by_version.is_ne() {
        return by_version;
    }
    let by_time = if version(left) == 1 {
        time_of(left).cmp(&time_of(right))
    } else {
        Ordering::Equal
    };
    by_time.then_with(|| left.as_bytes().cmp(right.as_bytes()))
}

fn address_bytes(address: IpAddr) -> Vec<u8> {
    match address {
        IpAddr::V4(address) => address.octets().to_vec(),
        IpAddr::V6(address) => address.octets().to_vec(),
    }
}
