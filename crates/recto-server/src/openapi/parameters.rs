//! Parameters in paths, queries and headers. Those of a request are the fields of its struct.

use recto::MAX_TTL_SECONDS;
use recto::schema::Collection;
use recto::session::PageRequest;
use recto_api::description::parameters_of;
use serde_json::{Map, Value as Json, json};

use super::types::{self, Side};
use crate::api::view_names;

/// Parameters of pages whose values depend on the collection.
const OF_COLLECTION: [&str; 2] = ["fields", "view"];

/// The parameters that operations refer to, by name.
pub(super) fn shared() -> Map<String, Json> {
    let of_pages = parameters_of::<PageRequest>().iter();
    let of_pages = of_pages.filter(|(name, _)| !OF_COLLECTION.contains(&name.as_str()));
    let of_pages = of_pages.map(|(name, property)| in_query(name, property.clone()));
    of_pages
        .chain([if_none_match(), if_match()])
        .map(|parameter| {
            (
                parameter["name"].as_str().unwrap_or_default().to_owned(),
                parameter,
            )
        })
        .collect()
}

/// Returns the parameters of a page of a collection.
pub(super) fn of_page(collection: &Collection) -> Vec<Json> {
    let names = parameters_of::<PageRequest>().keys();
    let parameter = |name: &String| {
        if OF_COLLECTION.contains(&name.as_str()) {
            named::<PageRequest>(collection, name)
        } else {
            reference(name)
        }
    };
    names.map(parameter).collect()
}

/// Returns the parameters of a request about a collection.
pub(super) fn of_request<T>(collection: &Collection) -> Vec<Json> {
    let names = parameters_of::<T>().keys();
    names.map(|name| named::<T>(collection, name)).collect()
}

/// Returns one parameter of a request about a collection.
pub(super) fn named<T>(collection: &Collection, name: &str) -> Json {
    in_query(name, property::<T>(collection, name))
}

/// Returns the parameters of a request as the properties of a JSON body.
pub(super) fn in_body<T>(collection: &Collection) -> Map<String, Json> {
    let names = parameters_of::<T>().keys();
    let property = |name: &String| {
        let mut property = property::<T>(collection, name);
        if let Some(members) = property.as_object_mut() {
            members.remove(EXPLODE);
        }
        (name.clone(), property)
    };
    names.map(property).collect()
}

/// Returns the JSON Schema of a parameter, with the names that the collection has.
fn property<T>(collection: &Collection, name: &str) -> Json {
    let mut property = parameters_of::<T>().get(name).cloned().unwrap_or_default();
    match name {
        "view" => {
            property["enum"] = view_names(collection).into();
        }
        "fields" => {
            let names = collection.fields.iter().map(|field| field.name.as_str());
            property["items"] = json!({ "enum": names.collect::<Vec<_>>() });
        }
        "ttl_seconds" => {
            property["minimum"] = 1.into();
            property["maximum"] = MAX_TTL_SECONDS.into();
        }
        _ => {}
    }
    property
}

/// Property of a list that an address joins by commas.
const EXPLODE: &str = "explode";

/// Returns a parameter of an address. A list of values that are no text is JSON there.
pub(super) fn in_query(name: &str, mut schema: Json) -> Json {
    let mut parameter = json!({ "name": name, "in": "query" });
    let has_values = schema["type"] == "array"
        && schema["items"]["type"] != "string"
        && schema["items"].get("enum").is_none();
    if let Some(members) = schema.as_object_mut() {
        if let Some(description) = members.remove("description") {
            parameter["description"] = description;
        }
        if let Some(explode) = members.remove(EXPLODE) {
            parameter["style"] = "form".into();
            parameter[EXPLODE] = explode;
        }
    }
    parameter["schema"] = if has_values {
        json!({ "type": "string" })
    } else {
        schema
    };
    parameter
}

/// How long a record lives.
pub(super) fn ttl() -> Json {
    json!({ "type": "integer", "minimum": 1, "maximum": MAX_TTL_SECONDS })
}

fn if_none_match() -> Json {
    json!({
        "name": "If-None-Match",
        "in": "header",
        "description": "An `ETag` of an earlier answer: 304 if it is still the same.",
        "schema": { "type": "string" },
    })
}

fn if_match() -> Json {
    json!({
        "name": "If-Match",
        "in": "header",
        "description": "The versions that the record or the queue may be of, as `ETag`s in quotes and separated by commas, or `*`: \
             412 if it is of another, or is not there.",
        "schema": { "type": "string" },
    })
}

/// That a write is an insert.
pub(super) fn if_absent() -> Json {
    json!({
        "name": "If-None-Match",
        "in": "header",
        "description": "It is made: 412 if there is one.",
        "schema": { "const": "*" },
    })
}

/// A reference to a parameter of the document.
pub(super) fn reference(name: &str) -> Json {
    json!({ "$ref": format!("#/components/parameters/{name}") })
}

/// The key's fields in the path, in the key's order.
pub(super) fn key(collection: &Collection) -> Vec<Json> {
    let fields = collection.key.iter().filter_map(|name| collection.field(name));
    let parameters = fields.map(|(_, field)| {
        json!({
            "name": field.name,
            "in": "path",
            "required": true,
            "description": format!("Of the key: a {}, percent-encoded by itself.", field.ty),
            "schema": types::of_field(collection, field, Side::Path),
        })
    });
    parameters.collect()
}

/// The key in a path template.
pub(super) fn key_template(collection: &Collection) -> String {
    let names: Vec<String> = collection.key.iter().map(|name| format!("{{{name}}}")).collect();
    names.join(",")
}
