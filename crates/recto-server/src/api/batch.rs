//! Several changes at once.

use std::collections::BTreeSet;
use std::sync::Arc;

use axum::extract::Request;
use axum::http::Uri;
use axum::response::Response;
use recto::schema::Schema;
use recto::session::RecordChange;
use recto::{DynamicRecord, MAX_BATCH_CHANGES, MAX_TTL_SECONDS};
use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Value as Json, json};

use super::body::Body;
use super::caller::Caller;
use super::parameters::Parameters;
use super::records::TTL;
use super::{address, answer, body, keys};
use crate::access::Operation;
use crate::problem::Problem;

/// `POST …/records:batchWrite`.
///
/// On the embedded store all changes are made or none. On Cassandra they are one logged batch: once
/// acknowledged, or once its fate is unknown, all of it is made in the end or none, though a reader
/// may see a part first; what is refused was not sent.
pub(super) async fn write(caller: Caller, uri: Uri, request: Request) -> Result<Response, Problem> {
    let collection = address::collection(&uri)?;
    caller.definition(&collection).await?;
    Parameters::read(&uri, &[])?;
    let schema = caller.schema().await?;
    let body = body::read(request).await?;
    let changes = read(&schema, &collection, &body)?;
    let needed: BTreeSet<(&str, Operation)> = changes.iter().map(needed).collect();
    let session = caller.access.session_over(caller.app_session(), needed)?;
    let written = session.write(changes).await?;
    Ok(answer::json_once(&json!({
        "puts": written.puts,
        "deletes": written.deletes,
        "repeated": written.repeated,
    })))
}

fn needed(change: &RecordChange) -> (&str, Operation) {
    let operation = if change.is_put() {
        Operation::Write
    } else {
        Operation::Delete
    };
    (change.collection(), operation)
}

/// The body as it is written. Its shape is checked before this is read.
#[derive(Deserialize)]
struct Written<'a> {
    #[serde(borrow)]
    changes: Vec<WrittenChange<'a>>,
}

/// A change as it is written: its numbers are read by the types of their fields.
#[derive(Deserialize)]
struct WrittenChange<'a> {
    #[serde(borrow)]
    put: Option<&'a RawValue>,
    #[serde(borrow)]
    delete: Option<Vec<&'a RawValue>>,
    ttl_seconds: Option<u32>,
}

fn read(schema: &Schema, collection: &str, body: &Body) -> Result<Vec<RecordChange>, Problem> {
    let shape = || {
        Problem::invalid_body("the body is {\"changes\": […]}")
            .with_hint("each change is {\"put\": {record}} or {\"delete\": [values of its key]}")
    };
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
            "a batch holds at most {MAX_BATCH_CHANGES} changes, and this one {}",
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
            let read = read_change(schema, collection, written);
            read.map_err(|problem| problem.within(&format!("changes[{index}]")))
        })
        .collect()
}

fn check_shape(index: usize, change: &Json) -> Result<(), Problem> {
    let shape = |detail: String| {
        Err(Problem::invalid_body(detail)
            .with_field(format!("changes[{index}]"))
            .with_hint("a change is {\"put\": {record}} or {\"delete\": [values of its key]}, and may name a \"collection\", and a put its \"ttl_seconds\""))
    };
    let Json::Object(change) = change else {
        return shape("a change is an object".into());
    };
    match change.get("collection") {
        None | Some(Json::String(_)) => {}
        Some(_) => return shape("collection is a name".into()),
    }
    let is_put = match (change.get("put"), change.get("delete")) {
        (Some(Json::Object(_)), None) => true,
        (None, Some(Json::Array(_))) => false,
        (Some(_), None) => return shape("put takes a record: an object".into()),
        (None, Some(_)) => return shape("delete takes a key: an array of its values".into()),
        _ => return shape("a change is one put or one delete".into()),
    };
    let ttl = change.get(TTL).filter(|ttl| is_put && !ttl.is_null());
    if ttl.is_some_and(|ttl| read_ttl(ttl).is_none()) {
        return shape(format!("{TTL} is a whole number from 1 to {MAX_TTL_SECONDS}"));
    }
    let known = |name: &str| matches!(name, "collection" | "put" | "delete") || (is_put && name == TTL);
    match change.keys().find(|name| !known(name)) {
        None => Ok(()),
        Some(other) => shape(format!("there is no {other:?} in a change")),
    }
}

/// A change whose shape is right.
fn read_change(
    schema: &Schema,
    collection: &str,
    written: WrittenChange<'_>,
) -> Result<RecordChange, Problem> {
    let definition = schema.collection(collection);
    let definition = definition.ok_or_else(|| Problem::no_collection(collection))?;
    let collection = collection.to_owned();
    if let Some(record) = written.put {
        return Ok(RecordChange::Put {
            collection,
            record: DynamicRecord::from_json_text(Arc::clone(definition), record.get())?.to_json(),
            ttl_seconds: written.ttl_seconds,
        });
    }
    let key = keys::texts_of(definition, &written.delete.unwrap_or_default())?;
    Ok(RecordChange::Delete { collection, key })
}

fn read_ttl(seconds: &Json) -> Option<u32> {
    let seconds = u32::try_from(seconds.as_u64()?).ok()?;
    (1..=MAX_TTL_SECONDS).contains(&seconds).then_some(seconds)
}
