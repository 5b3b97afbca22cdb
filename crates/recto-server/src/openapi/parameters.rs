//! Parameters in paths, queries and headers of the `OpenAPI` document. They come from the fields of
//! request structs.

use recto::schema::Collection;
use recto_api::description::{is_required, parameters_named};
use recto_api::operations::{Condition, Parameters, Requires};
use serde_json::{Map, Value as Json, json};

use super::types::{self, Side};
use crate::api::view_names;

/// Name of the struct whose fields are the parameters of all lists of records.
const OF_PAGES: &str = "PageRequest";
/// Parameters of lists whose allowed values are names in the collection.
const OF_COLLECTION: [&str; 2] = ["fields", "view"];

/// Collections for which an operation of the table is described.
#[derive(Debug)]
pub(super) struct Names<'a> {
    /// Collection of the operation; `None` for an operation that belongs to no collection.
    pub(super) collection: Option<&'a Collection>,
    /// Names of the collections that the token may write.
    pub(super) writable: Vec<&'a str>,
}

impl Names<'_> {
    /// Returns whether the collection meets a requirement. Without a collection, returns true, so
    /// that the operation has all of its replies and headers.
    pub(super) fn meet(&self, required: Requires) -> bool {
        self.collection
            .is_none_or(|collection| required.holds_for(collection))
    }

    /// Replaces the placeholder `{collection}` in a text by the name of the collection.
    pub(super) fn filled(&self, template: &str) -> String {
        match self.collection {
            Some(collection) => template.replace("{collection}", &collection.name),
            None => template.to_owned(),
        }
    }
}

/// Returns the parameters that several operations share, by name, as components of the document.
pub(super) fn shared() -> Map<String, Json> {
    let of_pages = parameters_named(OF_PAGES).iter();
    let of_pages = of_pages.filter(|(name, _)| !OF_COLLECTION.contains(&name.as_str()));
    let of_pages = of_pages.map(|(name, property)| in_query(name, property.clone(), false));
    of_pages
        .chain([if_none_match(), if_match()])
        .map(|parameter| {
            let name = parameter["name"].as_str().unwrap_or_default();
            (name.to_owned(), parameter)
        })
        .collect()
}

/// Returns the parameters that an operation has in its URL. `groups` names the structs of the
/// parameters.
pub(super) fn in_address(groups: &[Parameters], names: &Names<'_>) -> Vec<Json> {
    properties(groups)
        .map(|(group, name)| match group {
            OF_PAGES if !OF_COLLECTION.contains(&name) => reference(name),
            _ => in_query(name, property(group, name, names), is_required(group, name)),
        })
        .collect()
}

/// Returns the JSON Schema of a body that contains the parameters of an operation.
pub(super) fn in_body(groups: &[Parameters], names: &Names<'_>) -> Json {
    let properties = properties(groups).map(|(group, name)| {
        let mut property = property(group, name, names);
        if let Some(members) = property.as_object_mut() {
            members.remove(EXPLODE);
        }
        (name.to_owned(), property)
    });
    types::object(properties.collect(), &[])
}

/// Returns the names of an operation's parameters, each after the name of its struct.
fn properties(groups: &[Parameters]) -> impl Iterator<Item = (&'static str, &'static str)> {
    groups.iter().flat_map(|group| {
        let names = parameters_named(group.of).keys().map(String::as_str);
        let is_taken = |name: &&str| group.only.is_empty() || group.only.contains(name);
        names.filter(is_taken).map(|name| (group.of, name))
    })
}

/// Returns the JSON Schema of a parameter. If its values are names in the collection, such as names
/// of fields, lists the names.
fn property(group: &str, name: &str, names: &Names<'_>) -> Json {
    let mut property = parameters_named(group).get(name).cloned().unwrap_or_default();
    match (name, names.collection) {
        ("view", Some(collection)) => {
            property["enum"] = view_names(collection).into();
        }
        ("fields", Some(collection)) => {
            let fields = collection.fields.iter().map(|field| field.name.as_str());
            property["items"] = json!({ "enum": fields.collect::<Vec<_>>() });
        }
        ("collections", None) => {
            property["items"] = json!({ "enum": names.writable });
        }
        _ => {}
    }
    property
}

/// Member in the JSON Schema of a list that marks values separated by commas in a URL.
const EXPLODE: &str = "explode";

/// Returns a parameter in the query of a URL. A list whose values are not text is a JSON array
/// there.
fn in_query(name: &str, mut schema: Json, is_required: bool) -> Json {
    let mut parameter = json!({ "name": name, "in": "query" });
    if is_required {
        parameter["required"] = true.into();
    }
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

fn if_none_match() -> Json {
    json!({
        "name": "If-None-Match",
        "in": "header",
        "description": "`ETag` of an earlier reply: 304 if it has not changed since.",
        "schema": { "type": "string" },
    })
}

fn if_match() -> Json {
    json!({
        "name": "If-Match",
        "in": "header",
        "description": "Versions that the record or the queue may have: `ETag`s in quotes, separated by \
                        commas, or `*` for any. With another version, or if it does not exist, the reply is \
                        412.",
        "schema": { "type": "string" },
    })
}

/// Returns the request header of a condition, or a reference to it.
pub(super) fn of_condition(condition: Condition) -> Json {
    match condition {
        Condition::IfNoneMatch => reference("If-None-Match"),
        Condition::IfMatch(_) => reference("If-Match"),
        Condition::IfAbsent(_) => if_absent(),
    }
}

/// Returns the header `If-None-Match: *`, with which a request only creates a resource that does
/// not exist.
fn if_absent() -> Json {
    json!({
        "name": "If-None-Match",
        "in": "header",
        "description": "Create only: 412 if the record or queue exists.",
        "schema": { "type": "string", "pattern": "^[*]$" },
    })
}

/// Returns a reference to a parameter among the document's components.
fn reference(name: &str) -> Json {
    json!({ "$ref": format!("#/components/parameters/{name}") })
}

/// Returns the parameters for the key in a path: one for each key field, in order.
pub(super) fn key(collection: &Collection) -> Vec<Json> {
    let fields = collection.key.iter().filter_map(|name| collection.field(name));
    let parameters = fields.map(|(_, field)| {
        json!({
            "name": field.name,
            "in": "path",
            "required": true,
            "description": format!("Field of the key: a {}, percent-encoded separately.", field.ty),
            "schema": types::of_field(collection, field, Side::Path),
        })
    });
    parameters.collect()
}

/// Returns the placeholders for a key in a path, such as `{tenant},{id}`.
pub(super) fn key_template(collection: &Collection) -> String {
    let names: Vec<String> = collection.key.iter().map(|name| format!("{{{name}}}")).collect();
    names.join(",")
}
