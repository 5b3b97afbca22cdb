//! JSON Schemas for the types of fields.

use recto::Type;
use recto::schema::{Collection, Field};
use serde_json::{Map, Value as Json, json};

use super::patterns;

/// Largest double whose shortest decimal text parses to a finite 32-bit float.
const MAX_FLOAT: f64 = 3.402_823_567_797_336_6e38;

/// Place where a value is written, which determines the forms that the JSON Schema allows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Side {
    /// In a reply: only the form that Recto writes.
    Stored,
    /// In a request: all forms that Recto reads.
    Given,
    /// In a path: the text form.
    Path,
}

/// Returns the JSON Schema of the values of a type.
pub(super) fn schema(ty: &Type, side: Side) -> Json {
    match ty {
        Type::List(element) | Type::Set(element) => {
            json!({ "type": "array", "items": schema(element, side) })
        }
        Type::Vector(element, dimension) => json!({
            "type": "array",
            "items": schema(element, side),
            "minItems": dimension,
            "maxItems": dimension,
        }),
        Type::Map(key, value) => map(key, value, side),
        Type::Tuple(types) => {
            let elements: Vec<Json> = types.iter().map(|ty| nullable(schema(ty, side))).collect();
            tuple(&elements)
        }
        Type::Udt(udt) => {
            let fields = udt.fields.iter();
            let fields = fields.map(|(name, ty)| (name.clone(), nullable(schema(ty, side))));
            object(fields.collect(), &[])
        }
        scalar => of_scalar(scalar, side),
    }
}

/// Returns the JSON Schema of a map: an array of pairs. In a request, a map with text keys may be
/// an object.
fn map(key: &Type, value: &Type, side: Side) -> Json {
    let pairs = json!({
        "type": "array",
        "items": tuple(&[schema(key, side), schema(value, side)]),
        "description": "An array of [key, value].",
    });
    match (key, side) {
        (Type::Text | Type::Ascii, Side::Given) => {
            let object = json!({
                "type": "object",
                "propertyNames": schema(key, side),
                "additionalProperties": schema(value, side),
            });
            json!({ "anyOf": [pairs, object] })
        }
        _ => pairs,
    }
}

/// Returns the JSON Schema of a field. If the partition has one field, the field cannot be empty,
/// because Cassandra has no empty partition keys.
pub(super) fn of_field(collection: &Collection, field: &Field, side: Side) -> Json {
    let mut schema = schema(&field.ty, side);
    let partition = collection.base().partition;
    let is_alone = partition.len() == 1 && partition[0] == field.name;
    if is_alone && matches!(field.ty, Type::Ascii | Type::Text | Type::Blob) {
        schema["minLength"] = 1.into();
    }
    schema
}

fn of_scalar(ty: &Type, side: Side) -> Json {
    let text = |pattern: &str| json!({ "type": "string", "pattern": pattern });
    match ty {
        Type::Ascii => text(patterns::ASCII),
        Type::Text => json!({ "type": "string" }),
        Type::Blob => {
            let base64 =
                json!({ "type": "string", "contentEncoding": "base64", "pattern": patterns::BASE64 });
            match side {
                Side::Given => json!({ "anyOf": [base64, text(patterns::HEX)] }),
                Side::Stored | Side::Path => base64,
            }
        }
        Type::Boolean => json!({ "type": "boolean" }),
        Type::TinyInt => whole(i8::MIN, i8::MAX),
        Type::SmallInt => whole(i16::MIN, i16::MAX),
        Type::Int => whole(i32::MIN, i32::MAX),
        Type::BigInt => or_number(text(&patterns::bigint()), whole(i64::MIN, i64::MAX), side),
        Type::Varint if side == Side::Stored => text(patterns::WHOLE_STORED),
        Type::Varint => or_number(text(patterns::WHOLE_GIVEN), json!({ "type": "integer" }), side),
        Type::Decimal => or_number(text(patterns::DECIMAL), json!({ "type": "number" }), side),
        Type::Float => floating(Some(MAX_FLOAT)),
        Type::Double => floating(None),
        Type::Date => json!({
            "type": "string",
            "format": "date",
            "description": "Years before 0000 and after 9999 have a sign.",
        }),
        Type::Time if side == Side::Stored => text(patterns::TIME_STORED),
        Type::Time => text(patterns::TIME_GIVEN),
        Type::Timestamp => json!({
            "type": "string",
            "format": "date-time",
            "pattern": patterns::TIMESTAMP,
            "description": "Whole milliseconds; years before 0000 and after 9999 have a sign.",
        }),
        Type::TimeUuid => text(patterns::TIMEUUID),
        Type::Uuid => json!({ "type": "string", "format": "uuid", "pattern": patterns::UUID }),
        Type::Inet => json!({
            "anyOf": [{ "type": "string", "format": "ipv4" }, { "type": "string", "format": "ipv6" }],
        }),
        Type::Duration => text(&patterns::duration()),
        // Return an empty JSON Schema for types that contain types, which the caller handles.
        _ => json!({}),
    }
}

fn whole<T: Into<i64>>(minimum: T, maximum: T) -> Json {
    json!({ "type": "integer", "minimum": minimum.into(), "maximum": maximum.into() })
}

/// Returns the JSON Schema of a number that replies have as text. A request may also have a JSON
/// number, of which Recto reads all digits.
fn or_number(text: Json, number: Json, side: Side) -> Json {
    match side {
        Side::Given => json!({ "anyOf": [text, number] }),
        Side::Stored | Side::Path => text,
    }
}

fn floating(limit: Option<f64>) -> Json {
    let number = match limit {
        None => json!({ "type": "number" }),
        Some(limit) => {
            json!({ "type": "number", "minimum": -limit, "maximum": limit })
        }
    };
    json!({ "anyOf": [number, { "enum": ["NaN", "Infinity", "-Infinity"] }] })
}

/// Returns the JSON Schema of an array with exactly the given elements. `items` repeats the types
/// for client generators that do not support `prefixItems`.
pub(super) fn tuple(elements: &[Json]) -> Json {
    let mut kinds: Vec<Json> = Vec::new();
    for element in elements {
        if !kinds.contains(element) {
            kinds.push(element.clone());
        }
    }
    let items = match kinds.len() {
        1 => kinds.remove(0),
        _ => json!({ "anyOf": kinds }),
    };
    json!({
        "type": "array",
        "prefixItems": elements,
        "items": items,
        "minItems": elements.len(),
        "maxItems": elements.len(),
    })
}

/// Returns the JSON Schema of an object that has only the given members.
pub(super) fn object(properties: Map<String, Json>, required: &[&str]) -> Json {
    let mut schema = json!({
        "type": "object",
        "properties": properties,
        "additionalProperties": false,
    });
    if !required.is_empty() {
        schema["required"] = required.into();
    }
    schema
}

/// Returns the JSON Schema of a value or null. Client generators support null as a second type or a
/// second choice, but not as a third choice.
pub(super) fn nullable(mut schema: Json) -> Json {
    let of_type = if schema.get("anyOf").is_some() {
        &mut schema["anyOf"][0]["type"]
    } else {
        &mut schema["type"]
    };
    if of_type.is_string() {
        *of_type = json!([of_type, "null"]);
        return schema;
    }
    if let Some(members) = schema.as_object_mut() {
        members.retain(|_, value| !value.is_null());
    }
    json!({ "anyOf": [schema, { "type": "null" }] })
}
