//! Values as CQL literals, for people who paste a statement into cqlsh.

use std::fmt::Write as _;
use std::net::IpAddr;

use recto_model::{Type, Value, cell, json};

use crate::cql::{push_quoted, string_literal};

/// Number that CQL adds to the days since 1970 if a date is written as a number.
const DATE_EPOCH: i64 = 1 << 31;

/// Returns the literal of a cell. If the bytes are not valid for the type, returns a comment with
/// the error and `null`.
pub(crate) fn of_cell(ty: &Type, bytes: &[u8]) -> String {
    match cell::decode(ty, bytes) {
        Ok(value) => {
            let mut text = String::new();
            push(&mut text, ty, &value);
            text
        }
        Err(error) => format!("/* {error} */ null"),
    }
}

fn push(text: &mut String, ty: &Type, value: &Value) {
    match (ty, value) {
        (Type::List(element), Value::List(values)) | (Type::Vector(element, _), Value::Vector(values)) => {
            push_all(text, ['[', ']'], values, |text, value| push(text, element, value));
        }
        (Type::Set(element), Value::Set(values)) => {
            push_all(text, ['{', '}'], values, |text, value| push(text, element, value));
        }
        (Type::Map(key, value), Value::Map(entries)) => {
            push_all(text, ['{', '}'], entries, |text, entry| {
                push(text, key, &entry.0);
                text.push_str(": ");
                push(text, value, &entry.1);
            });
        }
        (Type::Tuple(types), Value::Tuple(values)) => {
            push_all(text, ['(', ')'], types.iter().zip(values), |text, (ty, value)| {
                push_nullable(text, ty, value.as_ref());
            });
        }
        (Type::Udt(udt), Value::Udt(values)) => {
            push_all(text, ['{', '}'], udt.fields.iter().zip(values), |text, field| {
                let ((name, ty), value) = field;
                push_quoted(text, name);
                text.push_str(": ");
                push_nullable(text, ty, value.as_ref());
            });
        }
        (_, scalar) => push_scalar(text, ty, scalar),
    }
}

fn push_all<T>(
    text: &mut String,
    [open, close]: [char; 2],
    values: impl IntoIterator<Item = T>,
    mut push: impl FnMut(&mut String, T),
) {
    text.push(open);
    for (index, value) in values.into_iter().enumerate() {
        if index > 0 {
            text.push_str(", ");
        }
        push(text, value);
    }
    text.push(close);
}

fn push_nullable(text: &mut String, ty: &Type, value: Option<&Value>) {
    match value {
        Some(value) => push(text, ty, value),
        None => text.push_str("null"),
    }
}

fn push_scalar(text: &mut String, ty: &Type, value: &Value) {
    let plain = json::to_text(ty, value);
    // CQL's calendar has the years 0001 to 9999, so write other times as numbers.
    let is_in_calendar = !plain.starts_with(['+', '-']) && !plain.starts_with("0000");
    match value {
        Value::Blob(bytes) => push_blob(text, bytes),
        // Java reads an IPv4-mapped IPv6 address as IPv4, and cannot read every exponent, so write
        // such values as functions of their bytes.
        Value::Inet(IpAddr::V6(address)) if address.to_ipv4_mapped().is_some() => {
            push_function(text, "blobAsInet", ty, value);
        }
        Value::Decimal(_) if plain.contains('E') => push_function(text, "blobAsDecimal", ty, value),
        Value::Date(days) if !is_in_calendar => {
            let _ = write!(text, "{}", i64::from(*days) + DATE_EPOCH);
        }
        Value::Timestamp(millis) if !is_in_calendar => {
            let _ = write!(text, "{millis}");
        }
        Value::Ascii(_)
        | Value::Text(_)
        | Value::Date(_)
        | Value::Time(_)
        | Value::Timestamp(_)
        | Value::Inet(_) => text.push_str(&string_literal(&plain)),
        _ => text.push_str(&plain),
    }
}

/// Writes a value that has no literal as a function of its bytes.
fn push_function(text: &mut String, function: &str, ty: &Type, value: &Value) {
    let mut bytes = Vec::new();
    // Ignore the result: the value was decoded from such bytes, so encoding it cannot fail.
    let _ = cell::encode(ty, value, &mut bytes);
    text.push_str(function);
    text.push('(');
    push_blob(text, &bytes);
    text.push(')');
}

fn push_blob(text: &mut String, bytes: &[u8]) {
    text.push_str("0x");
    for byte in bytes {
        let _ = write!(text, "{byte:02x}");
    }
}
