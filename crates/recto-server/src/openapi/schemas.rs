//! Bodies that are not structs of the API: most depend on the schema of the store.

use recto::schema::{Collection, Schema, WriteMode};
use recto::{MAX_BATCH_CHANGES, MAX_PAGE_SIZE};
use recto_api::description::{self, parameters_named};
use serde_json::{Map, Value as Json, json};

use super::operations;
use super::types::{self, Side, nullable, object, tuple};

/// A reference to a schema of the document.
pub(super) fn reference(name: &str) -> Json {
    json!({ "$ref": format!("#/components/schemas/{name}") })
}

fn members(of: Json) -> Map<String, Json> {
    match of {
        Json::Object(members) => members,
        _ => Map::new(),
    }
}

/// The schemas that do not depend on a collection.
pub(super) fn shared(schema: &Schema) -> Map<String, Json> {
    let changes = schema.collections.iter();
    let changes: Vec<Json> = changes
        .map(|collection| reference(&format!("{}.change", collection.name)))
        .collect();
    let mut shared = Map::from_iter([
        ("Explanation".to_owned(), explanation()),
        ("ChangedQueue".to_owned(), changed_queue()),
    ]);
    if !changes.is_empty() {
        shared.insert("Change".to_owned(), json!({ "anyOf": changes }));
    }
    shared
}

/// A queue after a change.
fn changed_queue() -> Json {
    let mut queue = description::schema("Queue").cloned().unwrap_or_default();
    queue["required"] = json!(["name", "version"]);
    queue["description"] =
        "The queue after the change. A token that may not read it gets `name` and `version` only.".into();
    queue
}

/// The schemas of a collection.
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
    let about = format!(
        "A record of {}. Fields that are null are left out.",
        collection.name
    );
    schema["description"] = about.into();
    schema
}

/// Some fields of a record.
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

/// A record of a collection, or some fields of it if the request names `fields`.
fn found(name: &str) -> Json {
    json!({ "anyOf": [reference(name), reference(&format!("{name}.part"))] })
}

/// A record to be stored, with its key.
fn whole(collection: &Collection) -> Json {
    let fields = collection.fields.iter().map(|field| {
        let schema = types::of_field(collection, field, Side::Given);
        let is_key = collection.key.contains(&field.name);
        (field.name.clone(), if is_key { schema } else { nullable(schema) })
    });
    let key: Vec<&str> = collection.key.iter().map(String::as_str).collect();
    object(fields.collect(), &key)
}

/// A record to be stored at an address, which has the key. The fields of the key may be left out.
fn given(collection: &Collection) -> Json {
    let fields = collection.fields.iter().map(|field| {
        let schema = types::of_field(collection, field, Side::Given);
        (field.name.clone(), nullable(schema))
    });
    object(fields.collect(), &[])
}

fn page(name: &str) -> Json {
    let token = |about: &str| json!({ "type": "string", "description": about });
    let rows = |about: &str| json!({ "type": "integer", "minimum": 0, "description": about });
    let properties = json!({
        "records": { "type": "array", "items": reference(&format!("{name}.found")), "maxItems": MAX_PAGE_SIZE },
        "next_page_token": token("Leads to the next page; empty only at the end."),
        "previous_page_token": token("Leads to the previous page; empty only at the beginning."),
        "stop": {
            "enum": ["scanned", "bytes", "time"],
            "description": "The budget that cut the page; its tokens go on from there.",
        },
        "row_page_tokens": {
            "type": "array",
            "items": { "type": "string" },
            "description": "One token per record, if `row_page_tokens` asked for them.",
        },
        "versions": {
            "type": "array",
            "items": nullable(version()),
            "description": "The version of each record, if `versions` asked for them; null of those that have none.",
        },
        "total_size": rows("Number of rows of the query, if `count` asked for it."),
        "total_size_error": rows("By how many that may be off, in 95 of 100 cases; 0: it is exact."),
        "offset": rows("Number of rows before the page, if `count` asked for it."),
        "offset_error": rows("By how many that may be off, in 95 of 100 cases; 0: it is exact."),
        "lacks": rows("Maximum number of records that no page of the query shows, because they do not fit the view; absent if there are none."),
    });
    object(
        members(properties),
        &["records", "next_page_token", "previous_page_token"],
    )
}

/// Returns the schema of a change: a put or a delete, and if records have versions an insert or an update. `besides` is one more
/// member.
fn changes(collection: &Collection, besides: Option<(&str, Json)>) -> Json {
    let of_key = collection.key.iter().filter_map(|name| collection.field(name));
    let key: Vec<Json> = of_key
        .map(|(_, field)| types::of_field(collection, field, Side::Given))
        .collect();
    let whole = reference(&format!("{}.whole", collection.name));
    let version = json!({ "type": ["string", "integer", "null"], "pattern": "^-?[0-9]+$",
        "description": "The version that the record must be of." });
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

/// Time after which a record expires.
fn ttl() -> Json {
    parameters_named("PutOptions")
        .get("ttl_seconds")
        .cloned()
        .unwrap_or_default()
}

/// A change that names its collection.
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

fn version() -> Json {
    json!({ "type": "string", "pattern": "^-?[0-9]+$", "description": "The version that the record has now." })
}

fn explanation() -> Json {
    let text = json!({ "type": "string" });
    let texts = json!({ "type": "array", "items": text });
    let count = json!({ "type": "integer", "minimum": 0 });
    let buckets = json!({ "type": "array", "items": count, "description": "Numbers of the buckets that were read, if `run` asked for it, at most 1,024; absent if the partition has no buckets." });
    let requests = json!({ "type": "array", "items": text, "description": "Requests to the store: CQL statements, or key ranges. Empty for a table in buckets if the token's row filter hides rows of it, because requests name the keys where buckets begin and end." });
    let of_view = json!({ "type": "string", "description": "View of the source, if several views are intersected; else absent." });
    let source = object(
        members(
            json!({ "view": of_view, "partition": text, "bounds": text, "requests": requests, "buckets": buckets }),
        ),
        &["partition", "bounds", "requests"],
    );
    let rejected = object(
        members(json!({ "sort_order": text, "reason": text })),
        &["sort_order", "reason"],
    );
    let mut base_rows = object(
        members(json!({ "verified": { "type": "boolean" }, "looked_up": texts, "reads_per_row": count })),
        &["verified", "looked_up", "reads_per_row"],
    );
    base_rows["description"] = "Reads of the base table for each row of a view: to show a row only if its record exists, and to look up fields that the view does not hold; absent if there are none.".into();
    let names = [
        "rows_read",
        "rows_returned",
        "bytes_read",
        "round_trips",
        "statements",
        "tombstones",
        "buckets",
        "directory_reads",
        "seeks",
        "time_micros",
    ];
    let costs = names.map(|name| (name.to_owned(), count.clone()));
    let mut actual = object(Map::from_iter(costs), &names);
    actual["description"] = "Cost of the page, if `run` asked for it; absent if it would tell of rows that the token does not see.".into();
    let intersected = object(
        members(
            json!({ "view": text, "sort_order": text, "table": text, "direction": { "enum": ["with", "against"] } }),
        ),
        &["view", "sort_order", "table", "direction"],
    );
    let mut misfits = reference("MisfitCounts");
    misfits["description"] = "Maximum number of records that are missing from the view because they do not fit it; absent if none is missing, or if the token sees only some rows.".into();
    let properties = json!({
        "intersected": { "type": "array", "items": intersected, "description": "Views whose common records are shown, each a source; absent if one view is read alone." },
        "shape": { "type": "string", "description": "`empty`, `scan`, `concat`, `merge` or `intersect`, with `+ filter` if Recto checks rows one by one." },
        "view": { "type": "string", "description": "View that is read; `primary` is the collection's own sort order." },
        "sort_order": { "type": "string", "description": "Partition and order of the view, in one line." },
        "table": { "type": "string", "description": "Table that is read." },
        "order": { "type": "string", "description": "Total order of the query, as in `order_by`." },
        "collate": { "type": "object", "additionalProperties": { "type": "string" },
            "description": "Collation of each field of the order whose text sorts by one; absent if there is none." },
        "direction": { "enum": ["with", "against"], "description": "Direction in which the table is read: `with` or `against` its clustering order." },
        "sources": { "type": "array", "items": source, "description": "Key ranges that are read." },
        "filter_scan": { "type": "array", "items": text, "description": "Conditions that Recto checks row by row, as filters." },
        "base_rows": base_rows,
        "misfits": misfits,
        "expected_rows": { "type": "integer", "minimum": 0, "description": "Maximum number of rows that the page reads." },
        "expected_round_trips": { "type": "integer", "minimum": 0, "description": "Maximum number of round trips, one after the other." },
        "rejected": { "type": "array", "items": rejected, "description": "Other sort orders, with the reason why they are not read." },
        "actual": actual,
    });
    let mut required: Vec<String> = members(properties.clone()).keys().cloned().collect();
    required.retain(|name| {
        !["actual", "base_rows", "collate", "intersected", "misfits"].contains(&name.as_str())
    });
    let required: Vec<&str> = required.iter().map(String::as_str).collect();
    object(members(properties), &required)
}
