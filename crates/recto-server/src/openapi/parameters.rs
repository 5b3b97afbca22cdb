//! Parameters in paths, queries and headers. The parameters of a request are the fields of its struct.

use recto::schema::Collection;
use recto_api::description::{is_required, parameters_named};
use recto_api::operations::{Condition, Parameters, Requires};
use serde_json::{Map, Value as Json, json};

use super::types::{self, Side};
use crate::api::view_names;

/// Name of the struct with the parameters that all lists have.
const OF_PAGES: &str = "PageRequest";
/// Parameters of pages whose possible values depend on the collection.
const OF_COLLECTION: [&str; 2] = ["fields", "view"];

/// Names of collections that replace the placeholders in an operation of the table.
#[derive(Debug)]
pub(super) struct Names<'a> {
    /// Collection. `None` for an operation on no collection.
    pub(super) collection: Option<&'a Collection>,
    /// Names of the collections that the token may write.
    pub(super) writable: Vec<&'a str>,
}

impl Names<'_> {
    /// Returns whether the collection meets a requirement. Returns true without a collection, so
    /// that an operation on no collection has all of its replies and headers.
    pub(super) fn meet(&self, required: Requires) -> bool {
        self.collection
            .is_none_or(|collection| required.holds_for(collection))
    }

    /// Replaces the placeholder for the collection in a text of the table.
    pub(super) fn filled(&self, template: &str) -> String {
        match self.collection {
            Some(collection) => template.replace("{collection}", &collection.name),
            None => template.to_owned(),
        }
    }
}

/// Returns the parameters that several operations share, by name.
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

/// Returns the parameters that an operation has in its address. `groups` are the structs of its
/// parameters.
pub(super) fn in_address(groups: &[Parameters], names: &Names<'_>) -> Vec<Json> {
    properties(groups)
        .map(|(group, name)| match group {
            OF_PAGES if !OF_COLLECTION.contains(&name) => reference(name),
            _ => in_query(name, property(group, name, names), is_required(group, name)),
        })
        .collect()
}

/// Returns the schema of the object in a body that contains the parameters of an operation.
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

/// Returns the names of parameters, each with the name of its struct.
fn properties(groups: &[Parameters]) -> impl Iterator<Item = (&'static str, &'static str)> {
    groups.iter().flat_map(|group| {
        let names = parameters_named(group.of).keys().map(String::as_str);
        let is_taken = |name: &&str| group.only.is_empty() || group.only.contains(name);
        names.filter(is_taken).map(|name| (group.of, name))
    })
}

/// Returns the JSON Schema of a parameter. If its values are names, such as names of fields, the
/// schema lists the possible names.
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

/// Member in the schema of a list. It says that an address separates the values of the list by
/// commas.
const EXPLODE: &str = "explode";

/// Returns a parameter of an address. A list of numbers or of other values that are not text is a
/// JSON array in the address.
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

/// Returns the header of a condition.
pub(super) fn of_condition(condition: Condition) -> Json {
    match condition {
        Condition::IfNoneMatch => reference("If-None-Match"),
        Condition::IfMatch(_) => reference("If-Match"),
        Condition::IfAbsent(_) => if_absent(),
    }
}

/// Returns the header of a request that creates a resource, and fails if it exists.
fn if_absent() -> Json {
    json!({
        "name": "If-None-Match",
        "in": "header",
        "description": "Create only: 412 if the record or queue exists.",
        "schema": { "type": "string", "pattern": "^[*]$" },
    })
}

/// Returns a reference to a parameter of the document.
fn reference(name: &str) -> Json {
    json!({ "$ref": format!("#/components/parameters/{name}") })
}

/// Returns the fields of the key in the path, in the order of the key.
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

/// Returns the placeholders of the key in a path, such as `{tenant},{id}`.
pub(super) fn key_template(collection: &Collection) -> String {
    let names: Vec<String> = collection.key.iter().map(|name| format!("{{{name}}}")).collect();
    names.join(",")
}
