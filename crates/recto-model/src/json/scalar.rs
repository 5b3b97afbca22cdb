//! Conversion of values that contain no other values from and to JSON and text.

use std::net::IpAddr;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Number, Value as Json};
use uuid::Uuid;

use super::source::Level;
use super::{JsonError, calendar, duration, number};
use crate::{Type, Value};

/// Length of the text of a UUID.
const UUID_CHARS: usize = 36;

/// Converts a scalar to JSON. Returns null for nested values.
pub(super) fn to_json(value: &Value) -> Json {
    let text = match value {
        Value::Boolean(value) => return Json::Bool(*value),
        Value::TinyInt(value) => return (*value).into(),
        Value::SmallInt(value) => return (*value).into(),
        Value::Int(value) => return (*value).into(),
        Value::Float(value) => return float(number::float_as_double(*value)),
        Value::Double(value) => return float(*value),
        Value::Ascii(text) | Value::Text(text) => text.clone(),
        Value::Blob(bytes) => STANDARD.encode(bytes),
        Value::BigInt(value) => value.to_string(),
        Value::Varint(value) => value.to_string(),
        Value::Decimal(value) => number::decimal_text(value),
        Value::Date(days) => calendar::date_text(*days),
        Value::Time(nanos) => calendar::time_text(*nanos),
        Value::Timestamp(millis) => calendar::timestamp_text(*millis),
        Value::TimeUuid(uuid) | Value::Uuid(uuid) => uuid.hyphenated().to_string(),
        Value::Inet(address) => address.to_string(),
        Value::Duration {
            months,
            days,
            nanoseconds,
        } => duration::text(*months, *days, *nanoseconds),
        Value::List(_)
        | Value::Set(_)
        | Value::Map(_)
        | Value::Tuple(_)
        | Value::Udt(_)
        | Value::Vector(_) => return Json::Null,
    };
    Json::String(text)
}

fn float(value: f64) -> Json {
    Number::from_f64(value).map_or_else(
        || Json::String(number::special_text(value).to_owned()),
        Json::Number,
    )
}

/// Returns a description of the input that a scalar type accepts, for errors.
pub(super) fn expected(ty: &Type) -> String {
    match ty {
        Type::Ascii => "text of ASCII letters only",
        Type::Text => "text",
        Type::Blob => "a blob in base64 such as \"3q2+7w==\", or in hex such as \"\\\\xdeadbeef\"",
        Type::Boolean => "true or false",
        Type::TinyInt => "a tinyint, a whole number from -128 to 127",
        Type::SmallInt => "a smallint, a whole number from -32768 to 32767",
        Type::Int => "an int, a whole number from -2147483648 to 2147483647",
        Type::BigInt => "a bigint such as \"42\", a whole number of 64 bits",
        Type::Varint => "a varint such as \"42\", a whole number",
        Type::Decimal => "a decimal such as \"12.50\"",
        Type::Float => "a float such as 1.5, or \"NaN\", \"Infinity\", \"-Infinity\"",
        Type::Double => "a double such as 1.5, or \"NaN\", \"Infinity\", \"-Infinity\"",
        Type::Date => "a date such as \"2013-01-31\"",
        Type::Time => "a time such as \"10:00:00.000000000\"",
        Type::Timestamp => "a timestamp such as \"2013-01-31T10:00:00Z\"",
        Type::TimeUuid => "a version 1 UUID such as \"2a92d750-d8dc-11e6-a2de-cf8ecd4cf053\"",
        Type::Uuid => "a UUID such as \"cc520882-9507-44fb-8fc9-b349ecdee658\"",
        Type::Inet => "an address such as \"192.0.2.1\" or \"2001:db8::1\"",
        Type::Duration => "an ISO 8601 duration such as \"P1Y2M3DT4H5M6.5S\"",
        _ => return format!("a value of type {ty}"),
    }
    .to_owned()
}

/// Converts JSON to a value of the scalar type `ty`. Null is an error.
pub(super) fn from_json(ty: &Type, json: &Level<'_>) -> Result<Value, JsonError> {
    let value = match (ty, json) {
        (Type::Boolean, Level::Bool(value)) => Some(Value::Boolean(*value)),
        (_, Level::Number(text)) => from_number(ty, text),
        (Type::Float | Type::Double, Level::Double(text)) => from_number(ty, text),
        (ty, Level::Double(_)) if is_exact(ty) => {
            let expected = format!(
                "{}; a number with a decimal point is a double in a serde_json::Value, so use a string, or \
                 give the record as text",
                expected(ty)
            );
            return Err(JsonError::new(expected, json));
        }
        (Type::Float, Level::Text(text)) => number::special_float(text).map(Value::Float),
        (Type::Double, Level::Text(text)) => number::special_double(text).map(Value::Double),
        (Type::Boolean | Type::TinyInt | Type::SmallInt | Type::Int, Level::Text(_)) => None,
        (_, Level::Text(text)) => return from_text(ty, text),
        _ => None,
    };
    value.ok_or_else(|| JsonError::new(expected(ty), json))
}

/// Returns whether the type accepts numbers and stores them exactly, so that rounded numbers must
/// be rejected.
fn is_exact(ty: &Type) -> bool {
    matches!(
        ty,
        Type::TinyInt | Type::SmallInt | Type::Int | Type::BigInt | Type::Varint | Type::Decimal
    )
}

/// Converts the text of a JSON number to a value of the scalar type `ty`, or returns `None`.
fn from_number(ty: &Type, text: &str) -> Option<Value> {
    match ty {
        Type::TinyInt => number::whole(text)?.parse().ok().map(Value::TinyInt),
        Type::SmallInt => number::whole(text)?.parse().ok().map(Value::SmallInt),
        Type::Int => number::whole(text)?.parse().ok().map(Value::Int),
        Type::BigInt => number::whole(text)?.parse().ok().map(Value::BigInt),
        Type::Varint => number::parse_varint(&number::whole(text)?).map(Value::Varint),
        Type::Decimal => number::parse_decimal(text).map(Value::Decimal),
        Type::Float => number::parse_float(text).map(Value::Float),
        Type::Double => number::parse_double(text).map(Value::Double),
        _ => None,
    }
}

/// Parses text as a value of the scalar type `ty`.
pub(super) fn from_text(ty: &Type, text: &str) -> Result<Value, JsonError> {
    let value = match ty {
        Type::Text => Some(Value::Text(text.to_owned())),
        Type::Ascii => text.is_ascii().then(|| Value::Ascii(text.to_owned())),
        Type::Blob => parse_blob(text).map(Value::Blob),
        Type::Boolean => text.parse().ok().map(Value::Boolean),
        Type::TinyInt => text.parse().ok().map(Value::TinyInt),
        Type::SmallInt => text.parse().ok().map(Value::SmallInt),
        Type::Int => text.parse().ok().map(Value::Int),
        Type::BigInt => text.parse().ok().map(Value::BigInt),
        Type::Varint => number::parse_varint(text).map(Value::Varint),
        Type::Decimal => number::parse_decimal(text).map(Value::Decimal),
        Type::Float => number::special_float(text)
            .or_else(|| number::parse_float(text))
            .map(Value::Float),
        Type::Double => number::special_double(text)
            .or_else(|| number::parse_double(text))
            .map(Value::Double),
        Type::Date => calendar::parse_date(text).map(Value::Date),
        Type::Time => calendar::parse_time(text).map(Value::Time),
        Type::Timestamp => {
            return calendar::parse_timestamp(text)
                .map(Value::Timestamp)
                .map_err(|expected| JsonError::of_text(expected, text));
        }
        Type::TimeUuid => parse_uuid(text)
            .filter(|uuid| uuid.get_version_num() == 1)
            .map(Value::TimeUuid),
        Type::Uuid => parse_uuid(text).map(Value::Uuid),
        Type::Inet => text.parse::<IpAddr>().ok().map(Value::Inet),
        Type::Duration => duration::parse(text).map(|(months, days, nanoseconds)| Value::Duration {
            months,
            days,
            nanoseconds,
        }),
        _ => None,
    };
    value.ok_or_else(|| JsonError::of_text(expected(ty), text))
}

/// Parses a UUID in its standard form, in lower or upper case. Rejects braces, URNs and digits
/// without hyphens.
fn parse_uuid(text: &str) -> Option<Uuid> {
    Uuid::try_parse(text).ok().filter(|_| text.len() == UUID_CHARS)
}

/// Parses base64, or `\x` and hex digits. `0x` does not introduce hex, because it could also begin base64:
/// one in 4,096 blobs begins with `0x` in base64.
fn parse_blob(text: &str) -> Option<Vec<u8>> {
    let Some(hex) = text.strip_prefix("\\x") else {
        return STANDARD.decode(text).ok();
    };
    let digit = |digit: &u8| char::from(*digit).to_digit(16).map(|digit| digit as u8);
    let (pairs, rest) = hex.as_bytes().as_chunks::<2>();
    let bytes = pairs
        .iter()
        .map(|[high, low]| Some(digit(high)? << 4 | digit(low)?));
    if rest.is_empty() { bytes.collect() } else { None }
}
