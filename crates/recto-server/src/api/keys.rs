//! Key text beside record JSON.

use std::sync::Arc;

use recto::schema::Collection;
use recto::session::JsonRecord;
use recto::{DynamicRecord, Error, Type};
use serde_json::{Number, Value as Json};

use crate::problem::Problem;

/// The record JSON that key text stands for. Text that is no value of its type stays text, which the
/// engine refuses in its own words.
fn json_of(ty: &Type, text: &str) -> Json {
    let read = match ty {
        Type::Boolean => text.parse().ok().map(Json::Bool),
        Type::TinyInt | Type::SmallInt | Type::Int => text.parse::<i64>().ok().map(Json::from),
        Type::Float | Type::Double => text.parse().ok().and_then(Number::from_f64).map(Json::Number),
        _ => None,
    };
    read.unwrap_or_else(|| text.into())
}

/// The key texts of values in record JSON, which are of the key fields' types.
pub(super) fn texts_of(definition: &Arc<Collection>, values: &[Json]) -> Result<Vec<String>, Problem> {
    let names = &definition.key;
    if names.len() != values.len() {
        return Err(wrong_count(definition, values.len()));
    }
    let given: JsonRecord = names.iter().cloned().zip(values.iter().cloned()).collect();
    let read = DynamicRecord::from_json(Arc::clone(definition), &given)?.to_json();
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
        "the key of {} has {} values, {count} were given",
        definition.name,
        names.len()
    );
    Problem::invalid_record(detail).with_hint(format!("its key is {}", names.join(", ")))
}

/// The fields of the key that texts name.
///
/// # Errors
/// There are more or fewer of them than key fields.
fn fields_of(definition: &Collection, key: &[String]) -> Result<JsonRecord, Problem> {
    let names = &definition.key;
    if names.len() != key.len() {
        return Err(wrong_count(definition, key.len()));
    }
    let fields = names.iter().zip(key).filter_map(|(name, text)| {
        let (_, field) = definition.field(name)?;
        Some((name.clone(), json_of(&field.ty, text)))
    });
    Ok(fields.collect())
}

/// Completes a record with the key of its address.
///
/// # Errors
/// The record has another key: 409, as RFC 9110 (9.3.4) suggests.
pub(super) fn complete(
    definition: &Arc<Collection>,
    key: &[String],
    record: &mut JsonRecord,
) -> Result<(), Problem> {
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
        // As text: numbers that are equal and not the same, 0.0 and -0.0, are different keys.
        let (value, wanted) = (value.to_string(), wanted.to_string());
        if value != wanted {
            let detail = format!("{name} is {value} in the body and {wanted} in the path");
            return Err(Problem::conflict(detail)
                .with_field(name)
                .with_hint("leave the key's fields out of the body, or give them as in the path"));
        }
    }
    record.extend(of_address);
    Ok(())
}
