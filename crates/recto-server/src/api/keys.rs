//! Conversion of a record's key between texts in a path and values in JSON.

use std::sync::Arc;

use recto::schema::Collection;
use recto::session::{JsonRecord, json_of_text};
use recto::{DynamicRecord, Error};
use serde_json::Value as Json;
use serde_json::value::RawValue;

use crate::problem::Problem;

/// Converts a key from JSON values to texts, as a path has them. The values must have the types of
/// the key fields.
pub(super) fn texts_of(definition: &Arc<Collection>, values: &[&RawValue]) -> Result<Vec<String>, Problem> {
    let names = &definition.key;
    if names.len() != values.len() {
        return Err(wrong_count(definition, values.len()));
    }
    let members = names.iter().zip(values);
    let members = members.map(|(name, value)| format!("{}:{value}", Json::from(name.as_str())));
    let given = format!("{{{}}}", members.collect::<Vec<_>>().join(","));
    let read = DynamicRecord::from_json_text(Arc::clone(definition), &given)?.to_json();
    let text = |name: &String| match read.get(name) {
        Some(Json::String(text)) => Ok(text.clone()),
        Some(other) => Ok(other.to_string()),
        None => {
            let detail = format!("{name} is part of the key and cannot be null");
            Err(Problem::invalid_record(detail).with_field(name))
        }
    };
    names.iter().map(text).collect()
}

#[cold]
fn wrong_count(definition: &Collection, count: usize) -> Problem {
    let names = &definition.key;
    let detail = format!(
        "the key of {} has {} values, but the request has {count}",
        definition.name,
        names.len()
    );
    Problem::invalid_record(detail).with_hint(format!("its key is {}", names.join(", ")))
}

/// Converts a key from texts in a path to JSON fields.
///
/// # Errors
/// The number of texts is not the number of key fields.
fn fields_of(definition: &Collection, key: &[String]) -> Result<JsonRecord, Problem> {
    let names = &definition.key;
    if names.len() != key.len() {
        return Err(wrong_count(definition, key.len()));
    }
    let fields = names.iter().zip(key).filter_map(|(name, text)| {
        let (_, field) = definition.field(name)?;
        Some((name.clone(), json_of_text(&field.ty, text)))
    });
    Ok(fields.collect())
}

/// Adds the key fields of the request's path to a record.
///
/// # Errors
/// 409 if the record already has another key, as RFC 9110 (9.3.4) suggests.
pub(super) fn complete(
    definition: &Arc<Collection>,
    key: &[String],
    record: &mut JsonRecord,
) -> Result<(), Problem> {
    let of_address = check(definition, key, record)?;
    record.extend(of_address);
    Ok(())
}

/// Returns the fields of a patch including those that it sets to null, which `given` lacks.
pub(super) fn with_nulls(given: JsonRecord, patch: &Json) -> JsonRecord {
    let names = patch.as_object().into_iter().flat_map(JsonRecord::keys);
    let field = |name: &String| (name.clone(), given.get(name).cloned().unwrap_or_default());
    names.map(field).collect()
}

/// Removes the key fields from a patch, because the request's path already names the record.
///
/// # Errors
/// 409 if a key field differs from the path. 400 if a key field is null.
pub(super) fn strip(
    definition: &Arc<Collection>,
    key: &[String],
    patch: &mut JsonRecord,
) -> Result<(), Problem> {
    let of_address = check(definition, key, patch)?;
    for name in of_address.keys() {
        if patch.remove(name).is_some_and(|value| value.is_null()) {
            let detail = format!("{name} is part of the key and cannot be null");
            return Err(Problem::invalid_record(detail).with_field(name));
        }
    }
    Ok(())
}

/// Returns the key fields of a path. Fails if `record` has another value for a key field.
fn check(definition: &Arc<Collection>, key: &[String], record: &JsonRecord) -> Result<JsonRecord, Problem> {
    let of_address = fields_of(definition, key)?;
    let normal = |fields: &JsonRecord| -> Result<JsonRecord, Error> {
        Ok(DynamicRecord::from_json(Arc::clone(definition), fields)?.to_json())
    };
    let of_record: JsonRecord = of_address
        .keys()
        .filter_map(|name| {
            Some((
                name.clone(),
                record.get(name).filter(|value| !value.is_null())?.clone(),
            ))
        })
        .collect();
    let expected = normal(&of_address)?;
    for (name, value) in normal(&of_record)? {
        let wanted = &expected[&name];
        // Compare texts, because keys can differ although their numbers are equal, such as 0.0 and
        // -0.0.
        let (value, wanted) = (value.to_string(), wanted.to_string());
        if value != wanted {
            let detail = format!("{name} is {value} in the body, but {wanted} in the path");
            return Err(Problem::conflict(detail)
                .with_field(name)
                .with_hint("leave the key fields out of the body, or use the values of the path"));
        }
    }
    Ok(of_address)
}
