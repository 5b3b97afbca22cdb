//! Random values of the types that can be sorted.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use bigdecimal::BigDecimal;
use num_bigint::BigInt;
use recto_model::cell::MAX_TIME_NANOS;
use recto_model::{Type, Value, cell, extremes};
use uuid::Uuid;

use super::Rng;

/// Maximum size of a random value, in bytes. The values of a key must together fit into the 64 KiB
/// of a Cassandra key.
const MAX_CELL_BYTES: usize = 600;

/// Returns a random value of a sortable type: one of the least or greatest values of the type, or a
/// neighbor of such a value.
///
/// # Panics
/// If the type has no order.
pub fn value(rng: &mut Rng, ty: &Type) -> Value {
    let mut values = extremes::values(ty);
    values.retain(|value| {
        let mut bytes = Vec::new();
        cell::encode(ty, value, &mut bytes).is_ok() && bytes.len() <= MAX_CELL_BYTES
    });
    let value = values.swap_remove(rng.usize(0..values.len()));
    if rng.u8(0..3) == 0 {
        neighbour(rng, &value)
    } else {
        value
    }
}

/// Returns a value of the same type that is close to `value` in the sort order.
pub fn neighbour(rng: &mut Rng, value: &Value) -> Value {
    let up = rng.bool();
    let step = if up { 1_i64 } else { -1 };
    match value {
        Value::Ascii(text) => Value::Ascii(near_text(rng, text, &['\0', 'a', '\u{7f}'])),
        Value::Text(text) => Value::Text(near_text(rng, text, &['\0', 'a', 'é', '\u{d7ff}', '\u{10ffff}'])),
        Value::Blob(bytes) => {
            let mut bytes = bytes.clone();
            if up || bytes.is_empty() {
                bytes.push([0, 1, 0x80, 0xFF][rng.usize(0..4)]);
            } else {
                bytes.pop();
            }
            Value::Blob(bytes)
        }
        Value::Boolean(value) => Value::Boolean(!value),
        Value::TinyInt(value) => Value::TinyInt(value.wrapping_add(step as i8)),
        Value::SmallInt(value) => Value::SmallInt(value.wrapping_add(step as i16)),
        Value::Int(value) => Value::Int(value.wrapping_add(step as i32)),
        Value::BigInt(value) => Value::BigInt(value.wrapping_add(step)),
        Value::Timestamp(value) => Value::Timestamp(value.wrapping_add(step)),
        Value::Date(value) => Value::Date(value.wrapping_add(step as i32)),
        Value::Time(value) => Value::Time((value + step).clamp(0, MAX_TIME_NANOS)),
        Value::Varint(value) => Value::Varint(value + BigInt::from(step)),
        Value::Decimal(value) => Value::Decimal(near_decimal(rng, value)),
        Value::Float(value) => Value::Float(if up { value.next_up() } else { value.next_down() }),
        Value::Double(value) => Value::Double(if up { value.next_up() } else { value.next_down() }),
        // `near_uuid` does not change the byte with the version, so the UUID keeps its version.
        Value::TimeUuid(uuid) => Value::TimeUuid(near_uuid(rng, *uuid)),
        Value::Uuid(uuid) => Value::Uuid(near_uuid(rng, *uuid)),
        Value::Inet(IpAddr::V4(address)) => {
            Value::Inet(Ipv4Addr::from(address.to_bits().wrapping_add_signed(step as i32)).into())
        }
        Value::Inet(IpAddr::V6(address)) => {
            Value::Inet(Ipv6Addr::from(address.to_bits().wrapping_add_signed(step.into())).into())
        }
        other => panic!("{other:?} is of no order type"),
    }
}

fn near_text(rng: &mut Rng, text: &str, more: &[char]) -> String {
    let mut text = text.to_owned();
    if rng.bool() || text.is_empty() {
        text.push(more[rng.usize(0..more.len())]);
    } else {
        text.pop();
    }
    text
}

/// Returns a decimal close to `value`: with one more digit, unless it already has too many.
fn near_decimal(rng: &mut Rng, value: &BigDecimal) -> BigDecimal {
    let (digits, scale) = value.as_bigint_and_exponent();
    if (-10_000..10_000).contains(&scale) && digits.bits() < 1_000 {
        BigDecimal::new(digits * 10 + rng.i32(-9..=9), scale + 1)
    } else {
        BigDecimal::new(digits + rng.i32(-1..=1), scale)
    }
}

fn near_uuid(rng: &mut Rng, uuid: Uuid) -> Uuid {
    let mut bytes = *uuid.as_bytes();
    let places = [0, 1, 3, 4, 5, 7, 8, 9, 15];
    let place = places[rng.usize(0..places.len())];
    bytes[place] ^= 1 << rng.u8(0..8);
    Uuid::from_bytes(bytes)
}
