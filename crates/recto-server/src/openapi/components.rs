//! Components of the `OpenAPI` document: schemas, parameters and responses to which operations refer.

use recto::schema::Schema;
use recto_api::description;
use serde_json::{Map, Value as Json, json};

use super::{parameters, responses, schemas};

/// Prefix of a reference to a component. The kind and the name of the component follow.
const PREFIX: &str = "#/components/";

/// Returns the components to which the paths of the document refer, directly or through other
/// components.
pub(super) fn of(paths: &Map<String, Json>, schema: &Schema) -> Map<String, Json> {
    let mut known = schemas::shared(schema);
    for collection in &schema.collections {
        known.extend(schemas::of_collection(collection));
    }
    let (parameters, responses) = (parameters::shared(), responses::shared());
    let mut found = Map::new();
    // Start with the schemas of all records, so that a token that may only export or write also
    // gets them.
    let records = schema
        .collections
        .iter()
        .map(|collection| collection.name.clone());
    let mut wanted: Vec<(String, String)> = records.map(|name| ("schemas".to_owned(), name)).collect();
    paths.values().for_each(|item| references(item, &mut wanted));
    while let Some((kind, name)) = wanted.pop() {
        let of_kind = found.entry(&kind).or_insert_with(|| json!({}));
        if of_kind.get(&name).is_some() {
            continue;
        }
        let component = match kind.as_str() {
            "parameters" => parameters.get(&name),
            "responses" => responses.get(&name),
            _ => known.get(&name).or_else(|| description::schema(&name)),
        };
        if let Some(component) = component {
            references(component, &mut wanted);
            let mut component = component.clone();
            if kind == "schemas" {
                remove_defaults(&mut component);
            }
            of_kind[&name] = component;
        }
    }
    found
}

/// Removes default values from a JSON Schema: client generators treat a member with a default as
/// required.
fn remove_defaults(schema: &mut Json) {
    match schema {
        Json::Object(members) => {
            if members.get("default").is_some_and(|default| !default.is_object()) {
                members.remove("default");
            }
            members.values_mut().for_each(remove_defaults);
        }
        Json::Array(elements) => elements.iter_mut().for_each(remove_defaults),
        _ => {}
    }
}

/// Adds the kind and name of every component to which a part of the document refers to `found`.
fn references(of: &Json, found: &mut Vec<(String, String)>) {
    match of {
        Json::Object(members) => {
            let target = members.get("$ref").and_then(Json::as_str);
            let target = target.and_then(|target| target.strip_prefix(PREFIX)?.split_once('/'));
            found.extend(target.map(|(kind, name)| (kind.to_owned(), name.to_owned())));
            members.values().for_each(|member| references(member, found));
        }
        Json::Array(elements) => elements.iter().for_each(|element| references(element, found)),
        _ => {}
    }
}
