//! Batches: several changes of records in one request.

use std::collections::BTreeSet;
use std::sync::Arc;

use axum::extract::Request;
use axum::http::Uri;
use axum::response::Response;
use recto::schema::Schema;
use recto::session::{self, Action, Outcome, RecordChange};
use recto::{DynamicRecord, MAX_BATCH_CHANGES, MAX_TTL_SECONDS};
use recto_api::queues::Rejection;
use recto_api::records::{BatchResult, ChangeOutcome, MadeChange};
use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Value as Json, json};

use super::body::{Body, whole};
use super::caller::Caller;
use super::request;
use super::{address, answer, body, keys};
use crate::access::Right;
use crate::problem::Problem;

/// Member of a change in a batch: the time in seconds after which the record expires.
const TTL: &str = "ttl_seconds";

/// Members of a change that name its operation; each change has one of them.
const VERBS: [&str; 4] = ["insert", "put", "update", "delete"];
/// Member of a change in a batch: the version that the record must have.
const IF_VERSION: &str = "if_version";

/// Handles `POST …/records:batchWrite`: makes several changes.
///
/// Records that have versions are changed one by one, each with its own outcome. For other records:
///
/// - The embedded store makes all changes or none.
/// - On Cassandra, the changes are one logged batch. If the batch is acknowledged, Cassandra
///   eventually makes all of its changes. If its outcome is unknown, Cassandra eventually makes all
///   or none. Readers may see some changes before others. A rejected batch was not sent.
pub(super) async fn write(caller: Caller, uri: Uri, request: Request) -> Result<Response, Problem> {
    let collection = address::collection(&uri)?;
    caller.definition(&collection).await?;
    request::no_parameters(&uri)?;
    let schema = caller.schema().await?;
    let body = body::read(request).await?;
    let changes = read(&schema, &collection, &body)?;
    let needed: BTreeSet<(&str, Right)> = changes.iter().map(needed).collect();
    let session = caller.access.session_over(caller.app_session(), needed)?;
    let written = session.write(changes).await?;
    Ok(answer::json_once(&json!(reply(written))))
}

fn reply(written: session::Written) -> BatchResult {
    let has_outcomes = !written.outcomes.is_empty();
    BatchResult {
        puts: written.puts,
        deletes: written.deletes,
        repeated: written.repeated,
        updates: has_outcomes.then_some(written.updates),
        outcomes: written.outcomes.into_iter().map(outcome).collect(),
    }
}

fn outcome(outcome: recto::Result<Outcome>) -> ChangeOutcome {
    match outcome {
        Err(error) => ChangeOutcome::Rejected(Box::new(Rejection {
            problem: Problem::of_record(error).to_body(),
        })),
        Ok(Outcome { version, pending }) => ChangeOutcome::Made(MadeChange {
            version: version.map(|version| version.to_string()),
            pending,
        }),
    }
}

fn needed(change: &RecordChange) -> (&str, Right) {
    let right = if change.action.is_delete() {
        Right::Delete
    } else {
        Right::Write
    };
    (&change.collection, right)
}

/// Body of a batch, with the original JSON text of its values. The body's shape was checked before.
#[derive(Deserialize)]
struct Written<'a> {
    #[serde(borrow)]
    changes: Vec<WrittenChange<'a>>,
}

/// Change in a batch, with the original JSON text of its values. The types of the fields determine
/// how numbers in the text are read.
#[derive(Deserialize)]
struct WrittenChange<'a> {
    #[serde(borrow)]
    insert: Option<&'a RawValue>,
    #[serde(borrow)]
    put: Option<&'a RawValue>,
    #[serde(borrow)]
    update: Option<Vec<&'a RawValue>>,
    #[serde(borrow)]
    set: Option<&'a RawValue>,
    #[serde(borrow)]
    delete: Option<Vec<&'a RawValue>>,
}

/// Hint that shows the forms of a change in a batch.
const CHANGE: &str = "use {\"insert\": {record}}, {\"put\": {record}}, {\"update\": [values of its key], \
    \"set\": {fields}} or {\"delete\": [values of its key]}. A change can also have a \"collection\", an \
    insert or a put \"ttl_seconds\", and every change but an insert \"if_version\"";

fn read(schema: &Schema, collection: &str, body: &Body) -> Result<Vec<RecordChange>, Problem> {
    let shape = || Problem::invalid_body("the body must be {\"changes\": […]}").with_hint(CHANGE);
    let Json::Object(members) = &body.json else {
        return Err(shape());
    };
    let Some(Json::Array(changes)) = members.get("changes") else {
        return Err(shape());
    };
    if let Some(other) = members.keys().find(|name| *name != "changes") {
        return Err(shape().with_field(other));
    }
    if changes.len() > MAX_BATCH_CHANGES {
        let detail = format!(
            "a batch has at most {MAX_BATCH_CHANGES} changes; this one has {}",
            changes.len()
        );
        return Err(Problem::limit_exceeded(detail).with_hint("send several batches"));
    }
    for (index, change) in changes.iter().enumerate() {
        check_shape(index, change)?;
    }
    let written: Written<'_> = body.text()?;
    let changes = changes.iter().zip(written.changes).enumerate();
    changes
        .map(|(index, (change, written))| {
            let collection = change["collection"].as_str().unwrap_or(collection);
            let if_version = change.get(IF_VERSION).and_then(read_version);
            let read = read_action(schema, collection, change, written);
            let read = read.map(|action| RecordChange::new(collection, action).if_version(if_version));
            read.map_err(|problem| problem.within(&format!("changes[{index}]")))
        })
        .collect()
}

fn check_shape(index: usize, change: &Json) -> Result<(), Problem> {
    let shape = |detail: String| {
        Err(Problem::invalid_body(detail)
            .with_field(format!("changes[{index}]"))
            .with_hint(CHANGE))
    };
    let Json::Object(change) = change else {
        return shape("a change must be an object".into());
    };
    match change.get("collection") {
        None | Some(Json::String(_)) => {}
        Some(_) => return shape("collection must be a name".into()),
    }
    let mut verbs = VERBS.iter().filter(|verb| change.contains_key(**verb));
    let (Some(verb), None) = (verbs.next().copied(), verbs.next()) else {
        return shape("a change must be one insert, put, update or delete".into());
    };
    let stores = matches!(verb, "insert" | "put");
    match &change[verb] {
        Json::Object(_) if stores => {}
        Json::Array(_) if !stores => {}
        _ if stores => return shape(format!("{verb} needs a record: an object")),
        _ => return shape(format!("{verb} needs a key: an array of its values")),
    }
    if verb == "update" && !change.get("set").is_some_and(Json::is_object) {
        return shape("an update needs the fields to set: an object".into());
    }
    let given = |name: &str| change.get(name).filter(|value| !value.is_null());
    if given(TTL).is_some_and(|ttl| stores && read_ttl(ttl).is_none()) {
        return shape(format!(
            "{TTL} must be a whole number from 1 to {MAX_TTL_SECONDS}"
        ));
    }
    if given(IF_VERSION).is_some_and(|version| read_version(version).is_none()) {
        return shape(format!(
            "{IF_VERSION} must be a version: a whole number, as text or as a number"
        ));
    }
    let known = |name: &str| match name {
        "collection" => true,
        "set" => verb == "update",
        TTL => stores,
        IF_VERSION => verb != "insert",
        name => name == verb,
    };
    match change.keys().find(|name| !known(name)) {
        None => Ok(()),
        Some(other) => shape(format!("a change of this kind cannot have {other:?} ({verb})")),
    }
}

/// Converts a change of a batch, whose shape was checked before.
fn read_action(
    schema: &Schema,
    collection: &str,
    change: &Json,
    written: WrittenChange<'_>,
) -> Result<Action, Problem> {
    let definition = schema.collection(collection);
    let definition = definition.ok_or_else(|| Problem::no_collection(collection))?;
    let read = |text: &RawValue| DynamicRecord::from_json_text(Arc::clone(definition), text.get());
    let ttl_seconds = change.get(TTL).and_then(read_ttl);
    if let Some(record) = written.insert {
        let record = read(record)?.to_json();
        return Ok(Action::Insert { record, ttl_seconds });
    }
    if let Some(record) = written.put {
        let record = read(record)?.to_json();
        return Ok(Action::Put { record, ttl_seconds });
    }
    if let (Some(key), Some(set)) = (written.update, written.set) {
        let key = keys::texts_of(definition, &key)?;
        let fields = keys::with_nulls(read(set)?.to_json(), &change["set"]);
        return Ok(Action::Update { key, fields });
    }
    let key = keys::texts_of(definition, &written.delete.unwrap_or_default())?;
    Ok(Action::Delete { key })
}

fn read_version(version: &Json) -> Option<i64> {
    match version {
        Json::String(text) => text.parse().ok(),
        version => whole(version.as_number()?)?.parse().ok(),
    }
}

fn read_ttl(seconds: &Json) -> Option<u32> {
    let seconds = whole(seconds.as_number()?)?.parse().ok()?;
    (1..=MAX_TTL_SECONDS).contains(&seconds).then_some(seconds)
}
