//! Record JSON: the mapping between values and JSON that HTTP, the command line and files use.
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
//! | blob | base64, the standard alphabet, padded; `\x` and hex digits on input |
//! | duration | ISO 8601: `"P1Y2M3DT4H5M6.5S"`, a negative one with `-` before it |
//! | list, set, tuple, vector | an array |
//! | map | an array of `[key, value]`; on input also an object, if the keys are text or ascii |
//! | UDT | an object; missing fields are null, unknown fields are rejected |
//!
//! Years before 0000 and after 9999 have a sign: `"+12026-01-01"`, `"-0044-03-15"`. Every date and every
//! timestamp has a text. Their ranges are 5.8 million and 292 million years in both directions.
//!
//! **Numbers** are converted exactly or rejected, based on their text: see [`from_json_text`]. An integer may
//! have a point or an exponent (`5.0`, `5e0`) if its value is an integer down to the last digit. With a point
//! or an exponent, it has at most 309 digits. A `decimal` keeps all its digits. A `float` or `double` becomes
//! the nearest value of its type. A [`serde_json::Value`] contains numbers with a point as doubles and has
//! lost their text. Therefore, [`from_json`] accepts such numbers only for `float` and `double`.

mod calendar;
mod duration;
mod number;
mod scalar;
mod source;
mod syntax;
mod text;

use serde_json::Value as Json;
use serde_json::value::RawValue;

use crate::types::UdtType;
use crate::{Type, Value, cell};

use source::{Level, Source};

pub use number::MAX_NUMBER_CHARS;
pub use source::Members;
pub use syntax::syntax_error;
pub use text::{write_cell, write_text};

/// Maximum number of characters of the user's input that an error message repeats.
const MAX_FOUND_CHARS: usize = 60;

/// Error for JSON that does not represent a value of the expected type.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("expected {expected}, found {found}")]
pub struct JsonError {
    /// Description of the accepted input, e.g. `a timestamp such as "2013-01-01T10:00:00Z"`.
    pub expected: String,
    /// Actual input, shortened. Inside a nested value, followed by the path to it: `"x" at
    /// [2].name`.
    pub found: String,
}

impl JsonError {
    #[cold]
    fn new(expected: impl Into<String>, found: &Level<'_>) -> Self {
        let found = match found {
            Level::Null => "null".to_owned(),
            Level::Bool(value) => value.to_string(),
            Level::Array(elements) => format!("an array of {}", elements.len()),
            Level::Object(_) => "an object".to_owned(),
            Level::Text(text) => return Self::of_text(expected, text),
            Level::Number(text) => shortened(text),
            Level::Double(text) => shortened(text),
            Level::Broken(what) => what.clone(),
        };
        Self {
            expected: expected.into(),
            found,
        }
    }

    #[cold]
    fn of_text(expected: impl Into<String>, text: &str) -> Self {
        Self {
            expected: expected.into(),
            // Show the text as JSON, so that control characters do not reach a terminal.
            found: Json::String(shortened(text)).to_string(),
        }
    }
}

fn shortened(text: &str) -> String {
    let mut shown: String = text.chars().take(MAX_FOUND_CHARS).collect();
    if shown.len() < text.len() {
        shown.push('…');
    }
    shown
}

/// Error inside a nested value, with the path to the wrong part, such as `[2].name`.
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
    /// Prepends `step`, which is `[2]` or `.name`, to the path of the error.
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

/// Converts `value`, which must have the type `ty`, to JSON. A nested value of another type becomes
/// null.
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

/// Parses JSON text as a value of type `ty`, or `None` for null. Numbers are converted exactly,
/// from their text.
///
/// Sets are returned sorted and without repeated elements, maps are returned sorted.
///
/// # Errors
/// The text is not JSON of a value of the type. The error contains the accepted input and the actual input.
///
/// ```
/// use recto_model::json::{from_json_text, to_json};
/// use recto_model::Type;
///
/// let exact = from_json_text(&Type::Decimal, "1000000000000000000.1")?.unwrap();
/// assert_eq!(to_json(&Type::Decimal, &exact), "1000000000000000000.1");
/// assert!(from_json_text(&Type::Int, "2147483647.0000001").is_err());
/// assert!(from_json_text(&Type::Int, "5.0")?.is_some());
/// # Ok::<(), recto_model::json::JsonError>(())
/// ```
pub fn from_json_text(ty: &Type, text: &str) -> Result<Option<Value>, JsonError> {
    let json: &RawValue = serde_json::from_str(text).map_err(|error| not_json(ty, &error))?;
    read_nullable(ty, Source::Text(json)).map_err(Nested::into_error)
}

/// Converts `json` to a value of type `ty`, or `None` for null. Unlike [`from_json_text`], it
/// accepts numbers with a point or an exponent only for `float` and `double`, because `serde_json`
/// has already rounded them to doubles.
///
/// # Errors
/// The errors of [`from_json_text`].
pub fn from_json(ty: &Type, json: &Json) -> Result<Option<Value>, JsonError> {
    read_nullable(ty, Source::Value(json)).map_err(Nested::into_error)
}

#[cold]
fn not_json(ty: &Type, error: &serde_json::Error) -> JsonError {
    JsonError {
        expected: format!("JSON of {}", ty.with_article()),
        found: format!("text that is not JSON: {}", syntax_error(error)),
    }
}

/// Converts JSON to a value of type `ty`. Null is an error.
fn read(ty: &Type, json: Source<'_>) -> Result<Value, Nested> {
    let level = json.level();
    match ty {
        Type::List(element) => {
            read_all(element, array(&level, || format!("an array ({ty})"))?).map(Value::List)
        }
        Type::Set(element) => {
            let values = read_all(element, array(&level, || format!("an array ({ty})"))?)?;
            sorted(ty, &Value::Set(values), &level)
        }
        Type::Map(key, value) => read_map(ty, key, value, &level),
        Type::Vector(element, dimension) => {
            let elements = array_of(&level, usize::from(*dimension), ty)?;
            read_all(element, elements).map(Value::Vector)
        }
        Type::Tuple(types) => {
            let elements = array_of(&level, types.len(), ty)?;
            let values = types.iter().zip(elements).enumerate();
            values
                .map(|(index, (ty, json))| {
                    read_nullable(ty, *json).map_err(|error| error.within(&format!("[{index}]")))
                })
                .collect::<Result<_, _>>()
                .map(Value::Tuple)
        }
        Type::Udt(udt) => read_udt(udt, &level),
        _ => Ok(scalar::from_json(ty, &level)?),
    }
}

fn read_nullable(ty: &Type, json: Source<'_>) -> Result<Option<Value>, Nested> {
    if json.is_null() {
        return Ok(None);
    }
    read(ty, json).map(Some)
}

/// Converts the elements of an array to values of type `ty`. A null element is an error.
fn read_all(ty: &Type, elements: &[Source<'_>]) -> Result<Vec<Value>, Nested> {
    let elements = elements.iter().enumerate();
    elements
        .map(|(index, json)| read_element(ty, *json).map_err(|error| error.within(&format!("[{index}]"))))
        .collect()
}

fn read_element(ty: &Type, json: Source<'_>) -> Result<Value, Nested> {
    if json.is_null() {
        return Err(JsonError::new(format!("a value of type {ty}"), &Level::Null).into());
    }
    read(ty, json)
}

fn array<'l, 'a>(
    json: &'l Level<'a>,
    expected: impl FnOnce() -> String,
) -> Result<&'l [Source<'a>], JsonError> {
    match json {
        Level::Array(elements) => Ok(elements),
        other => Err(JsonError::new(expected(), other)),
    }
}

fn array_of<'l, 'a>(json: &'l Level<'a>, length: usize, ty: &Type) -> Result<&'l [Source<'a>], JsonError> {
    let expected = || format!("an array of {length} ({ty})");
    let elements = array(json, expected)?;
    if elements.len() == length {
        Ok(elements)
    } else {
        Err(JsonError::new(expected(), json))
    }
}

fn read_map(ty: &Type, key: &Type, value: &Type, json: &Level<'_>) -> Result<Value, Nested> {
    if let (Type::Text | Type::Ascii, Level::Object(members)) = (key, json) {
        let members = members.iter();
        let values = members.map(|(name, json)| {
            let read = || Ok((scalar::from_text(key, name)?, read_element(value, *json)?));
            read().map_err(|error: Nested| error.within(&format!(".{name}")))
        });
        return sorted(ty, &Value::Map(values.collect::<Result<_, _>>()?), json);
    }
    let entries = array(json, || match key {
        Type::Text | Type::Ascii => format!("an object, or an array of [key, value] ({ty})"),
        _ => format!("an array of [key, value] ({ty})"),
    })?;
    let mut values = Vec::new();
    for (index, entry) in entries.iter().enumerate() {
        let pair = match entry.level() {
            Level::Array(pair) if pair.len() == 2 => {
                let key = read_element(key, pair[0]).map_err(|error| error.within("[0]"));
                key.and_then(|key| {
                    let value = read_element(value, pair[1]).map_err(|error| error.within("[1]"))?;
                    Ok((key, value))
                })
            }
            other => Err(JsonError::new(format!("[key, value] ({ty})"), &other).into()),
        };
        values.push(pair.map_err(|error| error.within(&format!("[{index}]")))?);
    }
    sorted(ty, &Value::Map(values), json)
}

/// Returns a set or map sorted and without duplicates, as its cell (encoded value) contains it.
fn sorted(ty: &Type, value: &Value, json: &Level<'_>) -> Result<Value, Nested> {
    let mut bytes = Vec::new();
    cell::encode(ty, value, &mut bytes)
        .and_then(|()| cell::decode(ty, &bytes))
        .map_err(|error| JsonError::new(format!("{} ({error})", ty.with_article()), json).into())
}

fn read_udt(udt: &UdtType, json: &Level<'_>) -> Result<Value, Nested> {
    let names = || {
        let names: Vec<&str> = udt.fields.iter().map(|(name, _)| name.as_str()).collect();
        names.join(", ")
    };
    let Level::Object(members) = json else {
        return Err(JsonError::new(format!("an object with {} ({})", names(), udt.name), json).into());
    };
    let unknown = members
        .iter()
        .find(|(member, _)| udt.fields.iter().all(|(name, _)| name != member));
    if let Some((unknown, _)) = unknown {
        return Err(
            JsonError::of_text(format!("only the fields {} of {}", names(), udt.name), unknown).into(),
        );
    }
    udt.fields
        .iter()
        .map(
            |(name, ty)| match members.iter().find(|(member, _)| member == name) {
                None => Ok(None),
                Some((_, json)) => {
                    read_nullable(ty, *json).map_err(|error| error.within(&format!(".{name}")))
                }
            },
        )
        .collect::<Result<_, _>>()
        .map(Value::Udt)
}

/// Parses text of a CSV cell, or of a string literal in a filter, as a value of type `ty`. A scalar
/// is written as in record JSON, without the quotes. A nested value is written as JSON.
///
/// # Errors
/// The errors of [`from_json`]. Null is rejected, because text always denotes a value.
pub fn from_text(ty: &Type, text: &str) -> Result<Value, JsonError> {
    if !ty.is_nested() {
        return scalar::from_text(ty, text);
    }
    let json: &RawValue = serde_json::from_str(text)
        .map_err(|_| JsonError::of_text(format!("JSON of {}", ty.with_article()), text))?;
    read_element(ty, Source::Text(json)).map_err(Nested::into_error)
}

/// Returns `value` as text for a CSV cell or a terminal, the inverse of [`from_text`].
pub fn to_text(ty: &Type, value: &Value) -> String {
    match to_json(ty, value) {
        Json::String(text) => text,
        other => other.to_string(),
    }
}
