//! Bodies that are not structs of the API: most depend on the schema of the store.

use recto::schema::{Collection, Schema, WriteMode};
use recto::session::MAX_LISTED_MISFITS;
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
        ("StoreSchema".to_owned(), recorded()),
        ("Collections".to_owned(), collections()),
        ("Collection".to_owned(), collection()),
        ("Views".to_owned(), views()),
        ("Explanation".to_owned(), explanation()),
        ("BatchResult".to_owned(), batch_result()),
        ("Pending".to_owned(), pending()),
        ("Plan".to_owned(), plan()),
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

/// Reply to `POST /v1/store:plan`.
fn plan() -> Json {
    let texts = |about: &str| json!({ "type": "array", "items": { "type": "string" }, "description": about });
    let properties = json!({
        "generation": { "type": "integer", "minimum": 0, "description": "Generation of the schema in the store; 0 if it has none." },
        "changes": texts("Changes, a line each; empty if the store has this schema."),
        "statements": texts("Statements that would create and change keyspace, types and tables, in order: CQL, or the tables of an embedded store in words."),
        "kept": texts("What the store has and the schema does not name. It stays as it is."),
        "rejected": texts("What cannot be done, with reasons. Applying the schema fails while there is any."),
        "misfits": misfits(),
    });
    let names = [
        "generation",
        "changes",
        "statements",
        "kept",
        "rejected",
        "misfits",
    ];
    object(members(properties), &names)
}

/// Records that do not fit views and unique constraints that would be added.
fn misfits() -> Json {
    let count = |about: &str| json!({ "type": "integer", "minimum": 0, "description": about });
    let text = |about: &str| json!({ "type": "string", "description": about });
    let listed = json!({
        "key": text("Key of the record."),
        "field": text("Field that is the cause."),
        "key_bytes": count("Number of bytes that the key in the view would have; absent if the field is empty."),
    });
    let properties = json!({
        "collection": text("Collection of the records."),
        "view": text("Name of the view; of a unique constraint `unique (FIELDS)`."),
        "empty": count("Number of records whose value of the only partition field is empty."),
        "too_large": count("Number of records whose key in the view would be too large."),
        "listed": {
            "type": "array",
            "maxItems": MAX_LISTED_MISFITS,
            "items": object(members(listed), &["key", "field"]),
            "description": "First of these records.",
        },
    });
    let names = ["collection", "view", "empty", "too_large", "listed"];
    json!({
        "type": "array",
        "items": object(members(properties), &names),
        "description": "Records that do not fit views and unique constraints that would be added.",
    })
}

/// The schema as it is recorded.
fn recorded() -> Json {
    json!({
        "type": "object",
        "required": ["generation", "toml"],
        "properties": {
            "generation": { "type": "integer", "minimum": 0, "description": "Grows with each change of the schema." },
            "toml": { "type": "string", "description": "The collections, as a schema file declares them, and `[queues]` for who may read all queues." },
            "unavailable": {
                "type": "array",
                "description": "Collections that are neither read nor written, with why; absent where there are none.",
                "items": {
                    "type": "object",
                    "required": ["collection", "message", "hint"],
                    "properties": {
                        "collection": { "type": "string" },
                        "message": { "type": "string", "description": "Why." },
                        "hint": { "type": "string", "description": "What to do about it." },
                    },
                },
            },
        },
    })
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

fn batch_result() -> Json {
    let count = json!({ "type": "integer", "minimum": 0 });
    let made = json!({ "version": version(), "pending": { "type": "boolean",
        "description": "Whether some of its views show it a little later." } });
    let refused = json!({ "problem": reference("Problem") });
    let outcome = json!({ "anyOf": [
        object(members(made), &["version", "pending"]),
        object(members(refused), &["problem"]),
    ] });
    object(
        members(json!({
            "puts": count,
            "deletes": count,
            "repeated": {
                "type": "integer",
                "minimum": 0,
                "description": "Further puts of the same keys: of each key the last one stands, or all are of the \
                     same record.",
            },
            "updates": count,
            "outcomes": { "type": "array", "items": outcome,
                "description": "Of records that have versions: what became of each change." },
        })),
        &["puts", "deletes", "repeated"],
    )
}

fn version() -> Json {
    json!({ "type": "string", "pattern": "^-?[0-9]+$", "description": "The version that the record has now." })
}

/// A change that is made, and that not all views show yet.
fn pending() -> Json {
    let properties = json!({ "version": version(), "pending": { "const": true } });
    object(members(properties), &["version", "pending"])
}

fn collections() -> Json {
    let list = json!({ "collections": { "type": "array", "items": reference("Collection") } });
    object(members(list), &["collections"])
}

fn collection() -> Json {
    let name = json!({ "type": "string" });
    let names = json!({ "type": "array", "items": name });
    let field = json!({
        "name": name,
        "type": { "type": "string", "description": "Its CQL type." },
        "required": { "type": "boolean", "description": "Whether every record has it." },
        "operators": { "type": "array", "items": { "enum": ["=", "<", "<=", ">", ">=", "startsWith"] } },
        "filter": { "enum": ["view", "filter_scan"],
            "description": "`filter_scan`: conditions on it are checked row by row, with `allow_filter_scan`." },
        "sort": { "type": "boolean", "description": "Whether a view has it in its order." },
    });
    let field = object(
        members(field),
        &["name", "type", "required", "operators", "filter", "sort"],
    );
    let view = json!({
        "name": name,
        "partition": { "type": "array", "items": name,
            "description": "Fields that a filter pins by = or an OR of equalities." },
        "order": { "type": "array", "items": name,
            "description": "The order inside a partition; `-` is descending. Its exact reverse is served too." },
        "rounding": { "type": "object", "additionalProperties": { "type": "string" },
            "description": "Fields of the order by which rows stand rounded down, each with its width, as in `1 minute`: filters on \
                            them are exact, sorts by them are not served. Absent where there are none." },
        "collate": { "type": "object", "additionalProperties": { "type": "string" },
            "description": "Fields of the order whose text sorts by a collation, each with its name, as in `de`: so it does in all that is asked of the \
                            collection. Absent where there are none." },
    });
    let view = object(members(view), &["name", "partition", "order"]);
    let properties = json!({
        "name": name,
        "writes": { "enum": ["update", "overwrite", "append", "none"] },
        "attached": {
            "type": "string",
            "description": "The table that its records are read from, if it is one of another keyspace, which nobody writes here.",
        },
        "unavailable": {
            "type": "string",
            "description": "Why it is neither read nor written, if it is not: its tables are not what they were, or the cluster that it is attached to is away.",
        },
        "key": names,
        "fields": { "type": "array", "items": field },
        "views": { "type": "array", "items": view },
    });
    object(members(properties), &["name", "writes", "key", "fields", "views"])
}

/// The views of collections, with the states of their tables.
fn views() -> Json {
    let text = |about: &str| json!({ "type": "string", "description": about });
    let texts = |about: &str| json!({ "type": "array", "items": { "type": "string" }, "description": about });
    let properties = json!({
        "collection": text("Its collection."),
        "view": text("Its name."),
        "sort_order": text("How it arranges records, in one line."),
        "partition": texts("The fields that pick a partition."),
        "order": texts("The order inside a partition, down to one record; `-` is descending."),
        "collate": { "type": "object", "additionalProperties": { "type": "string" },
            "description": "The collation of each order field that sorts by one; other text sorts by its bytes." },
        "fields": texts("The fields that it holds; others are looked up, row by row."),
        "state": { "enum": ["building", "ready", "retiring", "dropping", "outdated"],
            "description": "`building`: written and filled; `ready`: read; `retiring`, `dropping`: it goes; `outdated`: its sort keys are of another collation number, so that it is neither read nor written until the schema is applied again." },
        "number": { "type": "integer", "minimum": 0, "description": "That of its table, which never recurs." },
        "table": text("Its table."),
        "rows_filled": { "type": ["integer", "null"], "minimum": 0,
            "description": "Of a view that is building, how many records it has so far." },
        "misfits": misfit_counts("Maximum number of records that the view lacks because they do not fit it."),
    });
    let names: Vec<String> = members(properties.clone()).keys().cloned().collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let view = object(members(properties), &names);
    let list = json!({ "views": { "type": "array", "items": view } });
    object(members(list), &["views"])
}

/// Numbers of records that do not fit a view, by cause.
fn misfit_counts(about: &str) -> Json {
    let count = |about: &str| json!({ "type": "integer", "minimum": 0, "description": about });
    let properties = json!({
        "empty": count("Number of records whose value of the only partition field is empty."),
        "too_large": count("Number of records whose key in the view would be too large."),
    });
    let mut counts = object(members(properties), &["empty", "too_large"]);
    counts["description"] = about.into();
    counts
}

fn explanation() -> Json {
    let text = json!({ "type": "string" });
    let texts = json!({ "type": "array", "items": text });
    let count = json!({ "type": "integer", "minimum": 0 });
    let buckets = json!({ "type": "array", "items": count, "description": "If `run` asked for that, the numbers of the buckets that were asked for rows, the first 1,024 of them; absent if the partition is kept in none." });
    let requests = json!({ "type": "array", "items": text, "description": "Requests to the store: CQL statements, or key ranges. Empty for a table in buckets if the token's row filter hides rows of it, because requests name the keys where buckets begin and end." });
    let of_view = json!({ "type": "string", "description": "The view that it is of, where several are intersected; else absent." });
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
    base_rows["description"] = "What is read of the base table for each row of a view: to show it only if its record stands there, and to look up fields that the view lacks; absent if nothing is.".into();
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
    actual["description"] = "What it did cost, if `run` asked for that; absent where that would tell of rows that the token does not see.".into();
    let intersected = object(
        members(
            json!({ "view": text, "sort_order": text, "table": text, "direction": { "enum": ["with", "against"] } }),
        ),
        &["view", "sort_order", "table", "direction"],
    );
    let properties = json!({
        "intersected": { "type": "array", "items": intersected, "description": "The views whose common records are shown, each a source; absent if one is read alone." },
        "shape": { "type": "string", "description": "`empty`, `scan`, `concat`, `merge` or `intersect`, with `+ filter` where rows are checked one by one." },
        "view": { "type": "string", "description": "The view that is read." },
        "sort_order": text,
        "table": text,
        "order": { "type": "string", "description": "The query's total order, as in `order_by`." },
        "collate": { "type": "object", "additionalProperties": { "type": "string" },
            "description": "The collation of each field of the order whose text sorts by one; absent if none does." },
        "direction": { "enum": ["with", "against"], "description": "Which way the table's own order is read." },
        "sources": { "type": "array", "items": source },
        "filter_scan": texts,
        "base_rows": base_rows,
        "misfits": misfit_counts("Maximum number of records that the view lacks because they do not fit it; absent if it lacks none, or if the token sees some rows only."),
        "expected_rows": count,
        "expected_round_trips": count,
        "rejected": { "type": "array", "items": rejected },
        "actual": actual,
    });
    let mut required: Vec<String> = members(properties.clone()).keys().cloned().collect();
    required.retain(|name| {
        !["actual", "base_rows", "collate", "intersected", "misfits"].contains(&name.as_str())
    });
    let required: Vec<&str> = required.iter().map(String::as_str).collect();
    object(members(properties), &required)
}
