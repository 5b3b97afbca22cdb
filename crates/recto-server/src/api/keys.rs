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

/// The key text of record JSON; `None` for what no key value is written as.
pub(super) fn text_of(value: &Json) -> Option<String> {
    match value {
        Json::String(text) => Some(text.clone()),
        Json::Number(number) => Some(number_text(number)),
        Json::Bool(value) => Some(value.to_string()),
        _ => None,
    }
}

/// The largest whole number up to which a double holds all of them.
const MAX_WHOLE: f64 = 9_007_199_254_740_992.0;

/// 5.0 is JSON's way to write 5 too.
fn number_text(number: &Number) -> String {
    let text = number.to_string();
    let is_whole = number.is_f64() && number.as_f64().is_some_and(|value| value.abs() <= MAX_WHOLE);
    match text.strip_suffix(".0") {
        Some(whole) if is_whole && whole != "-0" => whole.to_owned(),
        _ => text,
    }
}

/// The fields of the key that texts name.
///
/// # Errors
/// There are more or fewer of them than key fields.
fn fields_of(definition: &Collection, key: &[String]) -> Result<JsonRecord, Problem> {
    let names = &definition.key;
    if names.len() != key.len() {
        let detail = format!(
            "the key of {} has {} values, {} were given",
            definition.name,
            names.len(),
            key.len()
        );
        return Err(Problem::invalid_record(detail).with_hint(format!("its key is {}", names.join(", "))));
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
        if value.to_string() != wanted.to_string() {
            let detail = format!("{name} is {value} in the body and {wanted} in the path");
            return Err(Problem::conflict(detail)
                .with_field(name)
                .with_hint("leave the key's fields out of the body, or give them as in the path"));
        }
    }
    record.extend(of_address);
    Ok(())
}
