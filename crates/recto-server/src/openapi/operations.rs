//! What can be asked of a collection.

use recto::schema::{Collection, WriteMode};
use recto::session::ScanRequest;
use recto_api::pages::ExplainOptions;
use recto_api::records::{GetOptions, PutOptions};
use recto_api::scans::ExportOptions;
use serde_json::{Map, Value as Json, json};

use super::responses::{etag, json_of, of_operation, tagged_json_of};
use super::{parameters, schemas};
use crate::access::{Access, Operation};
use crate::api::{ANY_COLLECTION, NDJSON};

/// What a put is where records are never changed.
const APPEND: &str = "Records are added and never changed: putting a record that is there is done, and another one \
     with its key is refused with 409 and changes nothing. On Cassandra, which cannot know that without reading, that \
     is a mistake that goes unnoticed: the fields that are not null take the place of those that were there.";

/// What a collection is, in a sentence or two.
pub(super) fn about(collection: &Collection) -> String {
    let writes = match collection.writes {
        _ if collection.attached.is_some() => {
            "Records are read from a table that other programs write; here they are read only."
        }
        WriteMode::Append => APPEND,
        WriteMode::Overwrite => "A record that is put takes the place of one with its key.",
        WriteMode::Update => {
            "Each record has a version, its ETag, which every change raises; it is changed together \
             with all its views."
        }
    };
    let mut lists = String::new();
    for arrangement in collection.arrangements() {
        let order: Vec<String> = arrangement.order.iter().map(ToString::to_string).collect();
        let filter = match arrangement.partition.join(", ") {
            fields if fields.is_empty() => "needs no filter".to_owned(),
            fields => format!("needs a filter that fixes {fields}"),
        };
        let sorted = match order.join(", ") {
            order if order.is_empty() => "which names one record".to_owned(),
            order => format!("and is sorted by {order}"),
        };
        lists.push_str(&format!(
            " A page of view `{}` {filter}, {sorted}.",
            arrangement.name()
        ));
    }
    format!("Key: {}.{lists} {writes}", collection.key.join(", "))
}

/// The path of the list of collections.
pub(super) fn collections() -> Json {
    let response = tagged_json_of("Collections", "The collections.");
    json!({ "get": {
        "operationId": "list_collections",
        "summary": "What there is",
        "tags": ["collections"],
        "parameters": [parameters::reference("If-None-Match")],
        "responses": of_operation(vec![("200", response), not_modified()], &[]),
    } })
}

/// The path of the views of all collections.
pub(super) fn all_views() -> (String, Json) {
    let path = format!("/v1/collections/{ANY_COLLECTION}/views");
    (
        path,
        json!({ "get": views("list_views", "Views of all collections", "collections") }),
    )
}

fn views(id: &str, summary: &str, tag: &str) -> Json {
    let response = tagged_json_of("Views", "The views, with the state of each.");
    json!({
        "operationId": id,
        "summary": summary,
        "tags": [tag],
        "parameters": [parameters::reference("If-None-Match")],
        "responses": of_operation(vec![("200", response), not_modified()], &[]),
    })
}

/// The path of the schema.
pub(super) fn schema() -> Json {
    let response = tagged_json_of("Schema", "The schema.");
    json!({ "get": {
        "operationId": "schema",
        "summary": "The schema as it is recorded, and what holds for queues, in the schema language",
        "tags": ["collections"],
        "parameters": [parameters::reference("If-None-Match")],
        "responses": of_operation(vec![("200", response), not_modified()], &[]),
    } })
}

/// The paths of a collection, with the operations that are allowed.
pub(super) fn of_collection(collection: &Collection, access: &Access) -> Map<String, Json> {
    let name = &collection.name;
    let base = format!("/v1/collections/{name}");
    let changes = |operation| matches!(operation, Operation::Write | Operation::Delete);
    let allows = |operation| {
        let is_read_only = collection.attached.is_some() && changes(operation);
        !is_read_only && access.allows(name, operation)
    };
    let mut paths = Map::from_iter([(base.clone(), json!({ "get": describe(name) }))]);
    let mut record = Map::new();
    if allows(Operation::Read) {
        let views = views(&format!("list_views_of_{name}"), "Views, with their states", name);
        paths.insert(format!("{base}/views"), json!({ "get": views }));
        paths.insert(format!("{base}/records"), json!({ "get": list(collection) }));
        paths.insert(
            format!("{base}/records:query"),
            json!({ "post": query(collection) }),
        );
        let both = json!({ "get": explain(collection), "post": by_body(explain(collection), collection, "explain") });
        paths.insert(format!("{base}/records:explain"), both);
        record.insert("get".into(), get(collection));
    }
    if allows(Operation::Export) {
        let both =
            json!({ "get": export(collection), "post": by_body(export(collection), collection, "export") });
        paths.insert(format!("{base}/records:export"), both);
    }
    if allows(Operation::Write) {
        record.insert("put".into(), put(collection));
        if collection.writes == WriteMode::Update {
            record.insert("patch".into(), patch(collection));
        }
    }
    if allows(Operation::Delete) {
        record.insert("delete".into(), delete(collection));
    }
    if allows(Operation::Write) || allows(Operation::Delete) {
        paths.insert(
            format!("{base}/records:batchWrite"),
            json!({ "post": batch_write(collection) }),
        );
    }
    if !record.is_empty() {
        record.insert("parameters".into(), parameters::key(collection).into());
        let template = parameters::key_template(collection);
        paths.insert(format!("{base}/records/{template}"), Json::Object(record));
    }
    paths
}

fn not_modified() -> (&'static str, Json) {
    ("304", json!({ "$ref": "#/components/responses/304" }))
}

fn describe(name: &str) -> Json {
    let response = tagged_json_of("Collection", "The collection.");
    json!({
        "operationId": format!("describe_{name}"),
        "summary": "Fields, key and views",
        "tags": [name],
        "parameters": [parameters::reference("If-None-Match")],
        "responses": of_operation(vec![("200", response), not_modified()], &[]),
    })
}

/// The page of a list; with its entity tag, if it has one.
fn page_response(collection: &Collection, is_tagged: bool) -> Json {
    let (schema, about) = (
        format!("{}.page", collection.name),
        "A page of records, in the query's order.",
    );
    let mut response = if is_tagged {
        tagged_json_of(&schema, about)
    } else {
        json_of(&schema, about)
    };
    response["headers"]["Link"] = json!({
        "schema": { "type": "string" },
        "description": "Where the first, the previous and the next page are (RFC 8288), relative to this one.",
    });
    response["headers"]["Recto-Cost"] = json!({
        "schema": { "type": "string" },
        "description": "What the page cost: rows and bytes read, round trips, statements, tombstones, buckets asked, \
             reads of their directory, microseconds (RFC 9651, a dictionary). Absent where that would tell of rows that the token does not see.",
    });
    response
}

fn list(collection: &Collection) -> Json {
    let name = &collection.name;
    let response = page_response(collection, true);
    let mut parameters = parameters::of_page(collection);
    parameters.push(parameters::reference("If-None-Match"));
    json!({
        "operationId": format!("list_{name}"),
        "summary": "A page of records",
        "description": "Of `page_token`, `from`, `around` and `last` one at most.",
        "tags": [name],
        "parameters": parameters,
        "responses": of_operation(vec![("200", response), not_modified()], &["501"]),
    })
}

fn query(collection: &Collection) -> Json {
    let name = &collection.name;
    json!({
        "operationId": format!("query_{name}"),
        "summary": "A page of records, asked for by a body",
        "description": "Takes the parameters of the list as a JSON object, for what is too long for an address: \
             a page token holds the key of a row. Nothing is changed by it.",
        "tags": [name],
        "requestBody": body(&format!("{name}.query")),
        "responses": of_operation(vec![("200", page_response(collection, false))], &["413", "415", "501"]),
    })
}

/// An operation by GET as one by POST, whose parameters stand in the body.
fn by_body(mut operation: Json, collection: &Collection, verb: &str) -> Json {
    let name = &collection.name;
    operation["operationId"] = format!("{verb}_{name}_by_body").into();
    let summary = operation["summary"].as_str().unwrap_or_default();
    operation["summary"] = format!("{summary}, asked for by a body").into();
    operation["description"] =
        "Takes the parameters as a JSON object, for what is too long for an address.".into();
    operation["requestBody"] = body(&format!("{name}.{verb}"));
    if let Some(members) = operation.as_object_mut() {
        members.remove("parameters");
    }
    for status in ["413", "415"] {
        operation["responses"][status] = super::responses::reference(status);
    }
    operation
}

fn explain(collection: &Collection) -> Json {
    let name = &collection.name;
    let response = json_of("Explanation", "How the page is found.");
    let mut parameters = parameters::of_page(collection);
    parameters.extend(parameters::of_request::<ExplainOptions>(collection));
    json!({
        "operationId": format!("explain_{name}"),
        "summary": "How a page is found",
        "description": "Takes the parameters of the list, and says what would be read for it, and why.",
        "tags": [name],
        "parameters": parameters,
        "responses": of_operation(vec![("200", response)], &["501"]),
    })
}

fn export(collection: &Collection) -> Json {
    let name = &collection.name;
    let response = json!({
        "description": "The records, one JSON object a line, in no order. An export that fails on its way cuts the \
             connection.",
        "content": { NDJSON: { "schema": { "type": "string" } } },
    });
    let mut parameters = parameters::of_request::<ScanRequest>(collection);
    parameters.extend(parameters::of_request::<ExportOptions>(collection));
    json!({
        "operationId": format!("export_{name}"),
        "summary": "All records, streamed",
        "description": "A filter that a page could be served for reads only what it asks for; any other is applied \
             to every record of the collection.",
        "tags": [name],
        "parameters": parameters,
        "responses": of_operation(vec![("200", response)], &[]),
    })
}

fn get(collection: &Collection) -> Json {
    let name = &collection.name;
    let mut parameters = parameters::of_request::<GetOptions>(collection);
    parameters.push(parameters::reference("If-None-Match"));
    let mut found = tagged_json_of(name, "The record.");
    found["content"]["application/json"]["schema"] = schemas::record_or_part(name);
    json!({
        "operationId": format!("get_{name}"),
        "summary": "One record",
        "tags": [name],
        "parameters": parameters,
        "responses": of_operation(vec![("200", found), not_modified()], &[]),
    })
}

fn body(schema: &str) -> Json {
    json!({
        "required": true,
        "content": { "application/json": { "schema": schemas::reference(schema) } },
    })
}

/// What a change answers: that it is done, and where records have versions, the one it has now; or that some of its
/// views are not written yet.
fn changed(
    collection: &Collection,
    mut done: Vec<(&'static str, Json)>,
    is_tagged: bool,
) -> Vec<(&'static str, Json)> {
    if collection.writes != WriteMode::Update {
        return done;
    }
    let pending = json_of(
        "Pending",
        "It is done, and some of the record's views show it a little later.",
    );
    done.push(("202", pending));
    if is_tagged {
        for (_, response) in &mut done {
            response["headers"] = json!({ "ETag": etag() });
        }
    }
    done
}

/// Problems of changes: of conditions, where records have versions.
fn problems(collection: &Collection, others: &[&'static str]) -> Vec<&'static str> {
    let mut problems = others.to_vec();
    if collection.writes == WriteMode::Update {
        problems.push("412");
    }
    problems
}

fn put(collection: &Collection) -> Json {
    let name = &collection.name;
    let about = match collection.writes {
        WriteMode::Append => APPEND,
        WriteMode::Overwrite => {
            "It takes the place of one with its key, which is not looked at: the last writer wins."
        }
        WriteMode::Update => {
            "It takes the place of one with its key; with `If-Match`, only of the version that was seen. \
             With `If-None-Match: *` it is inserted, where there is none."
        }
    };
    let mut parameters = parameters::of_request::<PutOptions>(collection);
    let mut done = vec![("204", json!({ "description": "The record is stored." }))];
    if collection.writes == WriteMode::Update {
        parameters.extend([parameters::reference("If-Match"), parameters::if_absent()]);
        done.push(("201", json!({ "description": "The record is inserted." })));
    }
    json!({
        "operationId": format!("put_{name}"),
        "summary": "Store a record",
        "description": format!(
            "{about} The key's fields may be left out of the body, and are otherwise those of the path."
        ),
        "tags": [name],
        "parameters": parameters,
        "requestBody": body(&format!("{name}.put")),
        "responses": of_operation(
            changed(collection, done, true),
            &problems(collection, &["409", "413", "415", "501"]),
        ),
    })
}

fn patch(collection: &Collection) -> Json {
    let name = &collection.name;
    let schema = schemas::reference(&format!("{name}.put"));
    let done = vec![("204", json!({ "description": "The record is changed." }))];
    json!({
        "operationId": format!("patch_{name}"),
        "summary": "Give some fields of a record new values",
        "description": "RFC 7396: fields that are not named stay, and null clears one. A value that is itself made of \
             several is replaced whole. Fields of the key are left out, or as in the path.",
        "tags": [name],
        "parameters": [parameters::reference("If-Match")],
        "requestBody": {
            "required": true,
            "content": { "application/merge-patch+json": { "schema": schema }, "application/json": { "schema": schema } },
        },
        "responses": of_operation(
            changed(collection, done, true),
            &problems(collection, &["409", "413", "415", "501"]),
        ),
    })
}

fn delete(collection: &Collection) -> Json {
    let name = &collection.name;
    let done = vec![(
        "204",
        json!({ "description": "There is no record with this key, now." }),
    )];
    let mut delete = json!({
        "operationId": format!("delete_{name}"),
        "summary": "Delete a record",
        "tags": [name],
        "responses": of_operation(changed(collection, done, false), &problems(collection, &["409", "501"])),
    });
    if collection.writes == WriteMode::Update {
        delete["parameters"] = json!([parameters::reference("If-Match")]);
    }
    delete
}

fn batch_write(collection: &Collection) -> Json {
    let name = &collection.name;
    let result = json_of(
        "BatchResult",
        "The changes are made; of records that have versions, those whose outcome says so.",
    );
    let about = match collection.writes {
        WriteMode::Update => {
            "Inserts, puts, updates and deletes of this collection, or of others that they name whose \
             records have versions. Each record is changed for itself, and each change has an outcome: those of one record \
             are made in the order given. What is wrong whatever is stored is refused before any is made."
        }
        _ => {
            "Puts and deletes of this collection, or of others that they name. On the embedded store \
             all are made or none. On Cassandra they are one logged batch: all are made in the end or none, though \
             a reader may see a part first. Of two changes to one record, the later holds; two puts of one key to a \
             collection whose records are never changed are of the same record, or refused with 409."
        }
    };
    json!({
        "operationId": format!("batch_write_{name}"),
        "summary": "Several changes at once",
        "description": about,
        "tags": [name],
        "requestBody": body(&format!("{name}.batch")),
        "responses": of_operation(vec![("200", result)], &["409", "413", "415", "501"]),
    })
}
