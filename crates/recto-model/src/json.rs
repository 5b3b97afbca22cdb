//! Record JSON: one mapping between values and JSON for HTTP, command line and files.
//!
//! | type | JSON |
//! |---|---|
//! | ascii, text | a string |
//! | boolean | `true` or `false` |
//! | tinyint, smallint, int | a whole number (`5`; `5.0` is the same number) |
//! | float, double | a number, or `"NaN"`, `"Infinity"`, `"-Infinity"` |
//! | bigint, varint, decimal | a string of digits; a number on input |
//! | date | `"2013-01-31"` |
//! | time | `"10:00:00.000000000"`; one to nine digits of fraction or none on input |
//! | timestamp | `"2013-01-31T10:00:00.000Z"`; any offset, and up to three digits that are not zero, on input |
//! | uuid, timeuuid | `"01234567-89ab-4def-8123-456789abcdef"` |
//! | inet | `"192.0.2.1"`, `"2001:db8::1"` (RFC 5952) |
//! | blob | base64, the standard alphabet, padded |
//! | duration | ISO 8601: `"P1Y2M3DT4H5M6.5S"`, a negative one with `-` before it |
//! | list, set, tuple, vector | an array |
//! | map | an array of `[key, value]` |
//! | UDT | an object; fields not named are null, unknown ones are refused |
//!
//! Years before 0000 and after 9999 carry a sign: `"+12026-01-01"`, `"-0044-03-15"`. The whole of a
//! date and of a timestamp has its text, 5.8 and 292 million years either way.
//!
//! **Numbers.** JSON's numbers reach Recto as 64-bit whole numbers or doubles. A `bigint` or
//! `varint` takes a number that is whole and held exactly (up to 2^64, or 2^53 with a point or
//! exponent). A `decimal` takes one whose shortest form has at most 15 digits, which is then what
//! was written if that had no more than 15 digits itself. Everything else must be a string: longer
//! numbers are refused, not rounded. A `float` or `double` takes the nearest value.

mod calendar;
mod duration;
mod number;
mod scalar;
mod text;

use serde_json::Value as Json;

use crate::types::UdtType;
use crate::{Type, Value, cell};

pub use number::MAX_NUMBER_CHARS;
pub use text::{write_cell, write_text};

/// How much of what was found an error repeats.
const MAX_FOUND_CHARS: usize = 60;

/// Why JSON is not a value of a type.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("expected {expected}, found {found}")]
pub struct JsonError {
    /// What the type takes, e.g. `a timestamp such as "2013-01-01T10:00:00Z"`.
    pub expected: String,
    /// What stood there, shortened; inside nested values, also where: `"x" at [2].name`.
    pub found: String,
}

impl JsonError {
    #[cold]
    fn new(expected: impl Into<String>, found: &Json) -> Self {
        let found = match found {
            Json::Null => "null".to_owned(),
            Json::Array(elements) => format!("an array of {}", elements.len()),
            Json::Object(_) => "an object".to_owned(),
            Json::String(text) => return Self::of_text(expected, text),
            scalar => scalar.to_string(),
        };
        Self {
            expected: expected.into(),
            found,
        }
    }

    #[cold]
    fn of_text(expected: impl Into<String>, text: &str) -> Self {
        let mut shown: String = text.chars().take(MAX_FOUND_CHARS).collect();
        if shown.len() < text.len() {
            shown.push('…');
        }
        Self {
            expected: expected.into(),
            // As JSON writes it, so that control characters do not reach a terminal.
            found: Json::String(shown).to_string(),
        }
    }
}

/// An error inside a nested value, with the way to it.
struct Nested {
    error: JsonError,
    path: String,
}

impl From<JsonError> for Nested {
    fn from(error: JsonError) -> Self {
        Self {
            error,
            path: String::new(),
        }
    }
}

impl Nested {
    /// The error as seen from outside `step`: `[2]` or `.name`.
    fn within(mut self, step: &str) -> Self {
        self.path.insert_str(0, step);
        self
    }

    fn into_error(mut self) -> JsonError {
        if !self.path.is_empty() {
            self.error.found = format!("{} at {}", self.error.found, self.path);
        }
        self.error
    }
}

/// The JSON of `value`, which must be of type `ty`; a nested value of another type becomes null.
pub fn to_json(ty: &Type, value: &Value) -> Json {
    let array =
        |element: &Type, values: &[Value]| values.iter().map(|value| to_json(element, value)).collect();
    match (ty, value) {
        (Type::List(element), Value::List(values))
        | (Type::Set(element), Value::Set(values))
        | (Type::Vector(element, _), Value::Vector(values)) => array(element, values),
        (Type::Map(key, value), Value::Map(entries)) => entries
            .iter()
            .map(|entry| Json::Array(vec![to_json(key, &entry.0), to_json(value, &entry.1)]))
            .collect(),
        (Type::Tuple(types), Value::Tuple(values)) => types
            .iter()
            .zip(values)
            .map(|(ty, value)| nullable_to_json(ty, value.as_ref()))
            .collect(),
        (Type::Udt(udt), Value::Udt(values)) => udt
            .fields
            .iter()
            .zip(values)
            .map(|((name, ty), value)| (name.clone(), nullable_to_json(ty, value.as_ref())))
            .collect(),
        (_, scalar) => scalar::to_json(scalar),
    }
}

fn nullable_to_json(ty: &Type, value: Option<&Value>) -> Json {
    value.map_or(Json::Null, |value| to_json(ty, value))
}

/// The value of `json`; `None` for null.
///
/// Sets come back sorted and without repeated elements, maps sorted.
///
/// # Errors
/// If it is not JSON of a value of the type: what the type takes, and what stood there.
pub fn from_json(ty: &Type, json: &Json) -> Result<Option<Value>, JsonError> {
    match json {
        Json::Null => Ok(None),
        json => read(ty, json).map(Some).map_err(Nested::into_error),
    }
}

/// The value of JSON that is not null.
fn read(ty: &Type, json: &Json) -> Result<Value, Nested> {
    match ty {
        Type::List(element) => {
            read_all(element, array(json, || format!("an array ({ty})"))?).map(Value::List)
        }
        Type::Set(element) => {
            let values = read_all(element, array(json, || format!("an array ({ty})"))?)?;
            sorted(ty, &Value::Set(values), json)
        }
        Type::Map(key, value) => read_map(ty, key, value, json),
        Type::Vector(element, dimension) => {
            let elements = array_of(json, usize::from(*dimension), ty)?;
            read_all(element, elements).map(Value::Vector)
        }
        Type::Tuple(types) => {
            let elements = array_of(json, types.len(), ty)?;
            let values = types.iter().zip(elements).enumerate();
            values
                .map(|(index, (ty, json))| {
                    read_nullable(ty, json).map_err(|error| error.within(&format!("[{index}]")))
                })
                .collect::<Result<_, _>>()
                .map(Value::Tuple)
        }
        Type::Udt(udt) => read_udt(udt, json),
        _ => Ok(scalar::from_json(ty, json)?),
    }
}

fn read_nullable(ty: &Type, json: &Json) -> Result<Option<Value>, Nested> {
    match json {
        Json::Null => Ok(None),
        json => read(ty, json).map(Some),
    }
}

/// Elements that may not be null.
fn read_all(ty: &Type, elements: &[Json]) -> Result<Vec<Value>, Nested> {
    let elements = elements.iter().enumerate();
    elements
        .map(|(index, json)| read_element(ty, json).map_err(|error| error.within(&format!("[{index}]"))))
        .collect()
}

fn read_element(ty: &Type, json: &Json) -> Result<Value, Nested> {
    match json {
        Json::Null => Err(JsonError::new(format!("a value of type {ty}"), json).into()),
        json => read(ty, json),
    }
}

fn array(json: &Json, expected: impl FnOnce() -> String) -> Result<&[Json], JsonError> {
    match json {
        Json::Array(elements) => Ok(elements),
        other => Err(JsonError::new(expected(), other)),
    }
}

fn array_of<'a>(json: &'a Json, length: usize, ty: &Type) -> Result<&'a [Json], JsonError> {
    let expected = || format!("an array of {length} ({ty})");
    let elements = array(json, expected)?;
    if elements.len() == length {
        Ok(elements)
    } else {
        Err(JsonError::new(expected(), json))
    }
}

fn read_map(ty: &Type, key: &Type, value: &Type, json: &Json) -> Result<Value, Nested> {
    let entries = array(json, || format!("an array of [key, value] ({ty})"))?;
    let mut values = Vec::new();
    for (index, entry) in entries.iter().enumerate() {
        let pair = match entry {
            Json::Array(pair) if pair.len() == 2 => {
                let key = read_element(key, &pair[0]).map_err(|error| error.within("[0]"));
                key.and_then(|key| {
                    let value = read_element(value, &pair[1]).map_err(|error| error.within("[1]"))?;
                    Ok((key, value))
                })
            }
            other => Err(JsonError::new(format!("[key, value] ({ty})"), other).into()),
        };
        values.push(pair.map_err(|error| error.within(&format!("[{index}]")))?);
    }
    sorted(ty, &Value::Map(values), json)
}

/// A set or map as its cell has it: sorted, nothing twice.
fn sorted(ty: &Type, value: &Value, json: &Json) -> Result<Value, Nested> {
    let mut bytes = Vec::new();
    cell::encode(ty, value, &mut bytes)
        .and_then(|()| cell::decode(ty, &bytes))
        .map_err(|error| JsonError::new(format!("a {ty} ({error})"), json).into())
}

fn read_udt(udt: &UdtType, json: &Json) -> Result<Value, Nested> {
    let names = || {
        let names: Vec<&str> = udt.fields.iter().map(|(name, _)| name.as_str()).collect();
        names.join(", ")
    };
    let Json::Object(object) = json else {
        return Err(JsonError::new(format!("an object with {} ({})", names(), udt.name), json).into());
    };
    let unknown = object
        .keys()
        .find(|key| udt.fields.iter().all(|(name, _)| name != *key));
    if let Some(unknown) = unknown {
        return Err(
            JsonError::of_text(format!("only the fields {} of {}", names(), udt.name), unknown).into(),
        );
    }
    udt.fields
        .iter()
        .map(|(name, ty)| match object.get(name) {
            None => Ok(None),
            Some(json) => read_nullable(ty, json).map_err(|error| error.within(&format!(".{name}"))),
        })
        .collect::<Result<_, _>>()
        .map(Value::Udt)
}

fn is_nested(ty: &Type) -> bool {
    matches!(
        ty,
        Type::List(_) | Type::Set(_) | Type::Map(..) | Type::Tuple(_) | Type::Udt(_) | Type::Vector(..)
    )
}

/// The value that `text` writes for `ty`: what stands in a CSV cell or a filter's string literal.
/// Scalars as in record JSON without the quotes; nested values as JSON.
///
/// # Errors
/// As [`from_json`]; null is refused, since text always writes a value.
pub fn from_text(ty: &Type, text: &str) -> Result<Value, JsonError> {
    if !is_nested(ty) {
        return scalar::from_text(ty, text);
    }
    let json: Json =
        serde_json::from_str(text).map_err(|_| JsonError::of_text(format!("JSON of a {ty}"), text))?;
    read_element(ty, &json).map_err(Nested::into_error)
}

/// The text of `value`: what a CSV cell or a terminal table shows. The inverse of [`from_text`].
pub fn to_text(ty: &Type, value: &Value) -> String {
    match to_json(ty, value) {
        Json::String(text) => text,
        other => other.to_string(),
    }
}
