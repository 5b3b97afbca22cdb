//! JSON Schemas of bodies that are not structs of the API. Most depend on the schema of the store.

use recto::schema::{Collection, Schema, WriteMode};
use recto::{MAX_BATCH_CHANGES, MAX_PAGE_SIZE};
use recto_api::description::{self, parameters_named};
use serde_json::{Map, Value as Json, json};

use super::operations;
use super::types::{self, Side, nullable, object, tuple};

/// Returns a reference to a JSON Schema among the document's components.
pub(super) fn reference(name: &str) -> Json {
    json!({ "$ref": format!("#/components/schemas/{name}") })
}

/// Returns the JSON Schemas of bodies that do not belong to one collection.
pub(super) fn shared(schema: &Schema) -> Map<String, Json> {
    let changes = schema.collections.iter();
    let changes: Vec<Json> = changes
        .map(|collection| reference(&format!("{}.change", collection.name)))
        .collect();
    let mut shared = Map::from_iter([("ChangedQueue".to_owned(), changed_queue())]);
    if !changes.is_empty() {
        shared.insert("Change".to_owned(), json!({ "anyOf": changes }));
    }
    shared
}

/// Returns the JSON Schema of the reply to a change of a queue.
fn changed_queue() -> Json {
    let mut queue = description::schema("Queue").cloned().unwrap_or_default();
    queue["required"] = json!(["name", "version"]);
    queue["description"] =
        "The queue after the change. A token without the right to read it gets only `name` and `version`."
            .into();
    queue
}

/// Returns the JSON Schemas of a collection's records and changes, by name.
pub(super) fn of_collection(collection: &Collection) -> Map<String, Json> {
    let name = &collection.name;
    let mut schemas = operations::bodies(collection);
    schemas.extend([
        (name.clone(), record(collection)),
        (format!("{name}.part"), part(collection)),
        (format!("{name}.found"), found(name)),
        (format!("{name}.put"), given(collection)),
        (format!("{name}.whole"), whole(collection)),
        (format!("{name}.page"), page(name)),
        (format!("{name}.change"), change(collection)),
        (format!("{name}.batch"), batch(collection)),
    ]);
    schemas
}

fn record(collection: &Collection) -> Json {
    let fields = collection.fields.iter();
    let fields = fields.map(|field| {
        (
            field.name.clone(),
            types::of_field(collection, field, Side::Stored),
        )
    });
    let key: Vec<&str> = collection.key.iter().map(String::as_str).collect();
    let mut schema = object(fields.collect(), &key);
    let about = format!("A record of {}. Null fields are omitted.", collection.name);
    schema["description"] = about.into();
    schema
}

/// Returns the JSON Schema of a record that has only some of its fields.
fn part(collection: &Collection) -> Json {
    let mut schema = record(collection);
    if let Some(members) = schema.as_object_mut() {
        members.remove("required");
    }
    let about = format!(
        "A record of {}, with the fields that `fields` names.",
        collection.name
    );
    schema["description"] = about.into();
    schema
}

/// Returns the JSON Schema of a record in a reply, which has only some fields if the request names
/// `fields`.
fn found(name: &str) -> Json {
    json!({ "anyOf": [reference(name), reference(&format!("{name}.part"))] })
}

/// Returns the JSON Schema of a record to store whose key is in the body.
fn whole(collection: &Collection) -> Json {
    let fields = collection.fields.iter().map(|field| {
        let schema = types::of_field(collection, field, Side::Given);
        let is_key = collection.key.contains(&field.name);
        (field.name.clone(), if is_key { schema } else { nullable(schema) })
    });
    let key: Vec<&str> = collection.key.iter().map(String::as_str).collect();
    object(fields.collect(), &key)
}

/// Returns the JSON Schema of a record to store whose key is in the path. The body may omit key
/// fields.
fn given(collection: &Collection) -> Json {
    let fields = collection.fields.iter().map(|field| {
        let schema = types::of_field(collection, field, Side::Given);
        (field.name.clone(), nullable(schema))
    });
    object(fields.collect(), &[])
}

/// Returns the JSON Schema of a page of the collection's records.
fn page(name: &str) -> Json {
    let mut page = description::schema("Page").cloned().unwrap_or_default();
    let records = &mut page["properties"]["records"];
    records["items"] = reference(&format!("{name}.found"));
    records["maxItems"] = MAX_PAGE_SIZE.into();
    page
}

/// Returns the JSON Schema of a change in a batch: a put or a delete, and with versions also an
/// insert or an update. `besides` is an additional member.
fn changes(collection: &Collection, besides: Option<(&str, Json)>) -> Json {
    let of_key = collection.key.iter().filter_map(|name| collection.field(name));
    let key: Vec<Json> = of_key
        .map(|(_, field)| types::of_field(collection, field, Side::Given))
        .collect();
    let whole = reference(&format!("{}.whole", collection.name));
    let version = json!({ "type": ["string", "integer", "null"], "pattern": "^-?[0-9]+$",
        "description": "Version that the record must have." });
    let has_versions = collection.writes == WriteMode::Update;
    let one = |verb: &str, what: Json, more: Vec<(&str, Json)>| {
        let mut properties = Map::from_iter([(verb.to_owned(), what)]);
        properties.extend(more.into_iter().map(|(name, schema)| (name.to_owned(), schema)));
        let mut required = vec![verb];
        if properties.contains_key("set") {
            required.push("set");
        }
        if has_versions && verb != "insert" {
            properties.insert("if_version".to_owned(), version.clone());
        }
        if let Some((name, schema)) = &besides {
            properties.insert((*name).to_owned(), schema.clone());
            required.push(name);
        }
        object(properties, &required)
    };
    let lives = || vec![("ttl_seconds", nullable(ttl()))];
    let mut all = vec![
        one("put", whole.clone(), lives()),
        one("delete", tuple(&key), Vec::new()),
    ];
    if has_versions {
        let set = reference(&format!("{}.put", collection.name));
        all.push(one("insert", whole, lives()));
        all.push(one("update", tuple(&key), vec![("set", set)]));
    }
    json!({ "anyOf": all })
}

/// Returns the JSON Schema of the time after which a record expires.
fn ttl() -> Json {
    parameters_named("PutOptions")
        .get("ttl_seconds")
        .cloned()
        .unwrap_or_default()
}

/// Returns the JSON Schema of a change in a batch that names its collection.
fn change(collection: &Collection) -> Json {
    changes(
        collection,
        Some(("collection", json!({ "const": collection.name }))),
    )
}

fn batch(collection: &Collection) -> Json {
    let changes = json!({
        "type": "array",
        "maxItems": MAX_BATCH_CHANGES,
        "items": { "anyOf": [changes(collection, None), reference("Change")] },
    });
    object(Map::from_iter([("changes".to_owned(), changes)]), &["changes"])
}
