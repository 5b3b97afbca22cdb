//! Conversion of Recto's table of operations to operations of the `OpenAPI` document.

use recto::queues::MAX_QUEUE_NAME_LENGTH;
use recto::schema::{Collection, Schema, WriteMode};
use recto_api::operations::{Access as Needed, Body, Condition, Content, OPERATIONS, Operation, Reply};
use serde_json::{Map, Value as Json, json};

use super::parameters::{self, Names};
use super::responses::{self, reference as response};
use super::schemas::reference;
use crate::access::{Access, Right};
use crate::api::NDJSON;

/// Tag of operations that belong to no single collection.
const GENERAL: &str = "collections";
const QUEUES: &str = "queues";
const STORE: &str = "store";

/// Returns the tags for operations that belong to no single collection, with their descriptions.
pub(super) fn tags(paths: &Map<String, Json>) -> Vec<Json> {
    let about = [
        (GENERAL, "The collections and the schema."),
        (STORE, "Maintenance of the store."),
        (QUEUES, "Queues of durable jobs."),
    ];
    let is_used = |tag: &str| paths.keys().any(|path| tag_of(path) == tag);
    about
        .into_iter()
        .filter(|(tag, _)| is_used(tag))
        .map(|(tag, about)| json!({ "name": tag, "description": about }))
        .collect()
}

/// Returns the paths of the `OpenAPI` document, with the operations that a token may use.
pub(super) fn paths(schema: &Schema, access: &Access) -> Map<String, Json> {
    let writable = schema
        .collections
        .iter()
        .map(|collection| collection.name.as_str());
    let writable = writable
        .filter(|name| access.allows(name, Right::Write))
        .collect();
    let mut names = Names {
        collection: None,
        writable,
    };
    let mut paths = Map::new();
    let rejected = |operation: &Operation| operation.changes && access.is_read_only();
    for operation in OPERATIONS.iter().filter(|operation| !rejected(operation)) {
        if !operation.path.contains(COLLECTION) {
            if allows(access, operation.access, "") {
                add(&mut paths, operation, &names);
            }
            continue;
        }
        for collection in &schema.collections {
            if operation.requires.holds_for(collection) && allows(access, operation.access, &collection.name)
            {
                names.collection = Some(collection);
                add(&mut paths, operation, &names);
            }
        }
        names.collection = None;
    }
    paths
}

/// Placeholder for the name of a collection in the table of operations.
const COLLECTION: &str = "{collection}";

fn allows(access: &Access, needed: Needed, collection: &str) -> bool {
    match needed {
        Needed::Everyone | Needed::Seen => true,
        Needed::Collection(rights) => rights.iter().any(|right| access.allows(collection, *right)),
        Needed::WholeCollection => access.reads_all_of(collection),
        Needed::RepairedCollection => {
            access.reads_all_of(collection)
                && access.allows(collection, Right::Write)
                && access.allows_store(Right::Repair)
        }
        Needed::Queue(right) => access.allows_some_queue(right),
        Needed::EveryQueue(right) => access.allows_every_queue(right),
        Needed::Store(right) => access.allows_store(right),
    }
}

fn tag_of(path: &str) -> &'static str {
    match path {
        path if path.starts_with("/v1/store:") => STORE,
        path if path.starts_with("/v1/queue") => QUEUES,
        _ => GENERAL,
    }
}

/// Adds an operation for one collection, or for none, to the paths of the document.
fn add(paths: &mut Map<String, Json>, operation: &Operation, names: &Names<'_>) {
    let path = match names.collection {
        None => operation.path.to_owned(),
        Some(collection) => names
            .filled(operation.path)
            .replace("{key}", &parameters::key_template(collection)),
    };
    let item = paths
        .entry(path)
        .or_insert_with(|| path_item(operation.path, names));
    item[operation.method.as_str().to_ascii_lowercase()] = described(operation, names);
}

/// Returns the members that all methods of a path share: the parameters in the path.
fn path_item(path: &str, names: &Names<'_>) -> Json {
    let mut in_path = Vec::new();
    if let Some(collection) = names.collection.filter(|_| path.contains("{key}")) {
        in_path.extend(parameters::key(collection));
    }
    let queue_name = json!({ "type": "string", "pattern": "^[A-Za-z0-9_-]+([.]fifo)?$", "minLength": 1,
        "maxLength": MAX_QUEUE_NAME_LENGTH });
    let position = json!({ "type": "string", "pattern": "^[0-9]{1,18}-[0-9]{1,4}$" });
    for (name, schema, about) in [
        ("queue", &queue_name, "Name of the queue."),
        ("unit", &queue_name, "Name of the work unit in its queue."),
        (
            "position",
            &position,
            "Position of the message, from the list of messages of the queue.",
        ),
    ] {
        if path.contains(&format!("{{{name}}}")) {
            in_path.push(json!({ "name": name, "in": "path", "required": true, "description": about, "schema": schema }));
        }
    }
    if in_path.is_empty() {
        return json!({});
    }
    json!({ "parameters": in_path })
}

fn described(operation: &Operation, names: &Names<'_>) -> Json {
    let tag = match names.collection {
        Some(collection) => &collection.name,
        None => tag_of(operation.path),
    };
    let mut described = json!({
        "operationId": names.filled(operation.id),
        "summary": operation.summary,
        "tags": [tag],
        "responses": replies(operation, names),
    });
    let mut description = operation.description.to_owned();
    if matches!(operation.body, Body::Patch(_)) {
        // Name the second media type only in the text. From a second entry in `content`, client
        // generators would make a union of two equal types.
        description.push_str(" The type of the body may also be `application/merge-patch+json`.");
    }
    if !description.is_empty() {
        described["description"] = description.into();
    }
    let mut parameters = match operation.body {
        Body::Parameters(_) => Vec::new(),
        _ => parameters::in_address(operation.parameters, names),
    };
    parameters.extend(conditions(operation, names).map(parameters::of_condition));
    if !parameters.is_empty() {
        described["parameters"] = parameters.into();
    }
    if let Some(content) = body(operation.body, names) {
        described["requestBody"] = json!({ "required": true, "content": content });
    }
    described
}

/// Returns the conditions of an operation that a collection supports.
fn conditions(operation: &Operation, names: &Names<'_>) -> impl Iterator<Item = Condition> {
    operation
        .conditions
        .iter()
        .copied()
        .filter(move |condition| match condition {
            Condition::IfNoneMatch => true,
            Condition::IfMatch(required) | Condition::IfAbsent(required) => names.meet(*required),
        })
}

fn body(body: Body, names: &Names<'_>) -> Option<Json> {
    let schema = |name: &str| json!({ "schema": reference(&names.filled(name)) });
    Some(match body {
        Body::None => return None,
        Body::Json(name) | Body::Patch(name) | Body::Parameters(name) => {
            json!({ "application/json": schema(name) })
        }
        Body::File => {
            json!({ "application/octet-stream": { "schema": { "type": "string", "format": "binary" } } })
        }
    })
}

fn replies(operation: &Operation, names: &Names<'_>) -> Json {
    let mut replies = Map::new();
    for reply in operation
        .replies
        .iter()
        .filter(|reply| names.meet(reply.requires))
    {
        replies.insert(reply.status.to_string(), described_reply(reply, names));
    }
    let mut others: Vec<u16> = responses::ANYWHERE.to_vec();
    others.extend(operation.problems);
    if operation.body != Body::None {
        others.extend([413, 415]);
    }
    others.extend(conditions(operation, names).map(|condition| match condition {
        Condition::IfNoneMatch => 304,
        Condition::IfMatch(_) | Condition::IfAbsent(_) => 412,
    }));
    for status in others.iter().map(u16::to_string) {
        let shared = response(&status);
        replies.insert(status, shared);
    }
    Json::Object(replies)
}

fn described_reply(reply: &Reply, names: &Names<'_>) -> Json {
    let mut described = json!({ "description": reply.description });
    match reply.content {
        Content::None => {}
        Content::Json(name) => {
            let schema = reference(&names.filled(name));
            described["content"] = json!({ "application/json": { "schema": schema } });
        }
        Content::Lines => {
            described["content"] = json!({ NDJSON: { "schema": { "type": "string" } } });
        }
    }
    for header in reply.headers {
        described["headers"][header.name()] = responses::header(*header);
    }
    described
}

/// Returns the JSON Schemas of request bodies that contain parameters, by name.
pub(super) fn bodies(collection: &Collection) -> Map<String, Json> {
    let names = Names {
        collection: Some(collection),
        writable: Vec::new(),
    };
    let in_body = |operation: &Operation| match operation.body {
        Body::Parameters(name) => Some((
            names.filled(name),
            parameters::in_body(operation.parameters, &names),
        )),
        _ => None,
    };
    OPERATIONS.iter().filter_map(in_body).collect()
}

/// Text of the API description about a put in an `append` collection.
const APPEND: &str = "A record never changes. Putting the same record again has no effect, and putting \
    another record with its key is rejected with 409. On Cassandra, Recto does not read before it writes: \
    non-null fields of the other record replace those of the existing one.";

/// Returns a description of how a collection's records are written, for users of the API.
pub(super) fn about(collection: &Collection) -> String {
    let writes = match collection.writes {
        _ if collection.attached.is_some() => {
            "Its records are in a table that other programs write. Here they are only read."
        }
        WriteMode::Append => APPEND,
        WriteMode::Overwrite => "A put replaces the record that has the same key. The last writer wins.",
        WriteMode::Update => {
            "Each record has a version, its ETag, which every change raises. A record is changed together with all its views."
        }
    };
    let mut lists = String::new();
    for sort_order in collection.sort_orders() {
        let order: Vec<String> = sort_order.order.iter().map(ToString::to_string).collect();
        let filter = match sort_order.partition.join(", ") {
            fields if fields.is_empty() => "needs no filter".to_owned(),
            fields => format!("needs a filter that fixes {fields}"),
        };
        let sorted = match order.join(", ") {
            order if order.is_empty() => "which names one record".to_owned(),
            order => format!("and is sorted by {order}"),
        };
        lists.push_str(&format!(
            " A page of view `{}` {filter}, {sorted}.",
            sort_order.name()
        ));
    }
    format!("Key: {}.{lists} {writes}", collection.key.join(", "))
}
