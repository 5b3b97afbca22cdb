//! Several changes at once.

use std::collections::BTreeSet;

use axum::extract::Request;
use axum::http::Uri;
use axum::response::Response;
use recto::schema::Schema;
use recto::session::RecordChange;
use recto::{MAX_BATCH_CHANGES, MAX_TTL_SECONDS};
use serde_json::{Value as Json, json};

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
    let changes = read(&schema, &collection, body::json(request).await?)?;
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

fn read(schema: &Schema, collection: &str, body: Json) -> Result<Vec<RecordChange>, Problem> {
    let shape = || {
        Problem::invalid_body("the body is {\"changes\": […]}")
            .with_hint("each change is {\"put\": {record}} or {\"delete\": [values of its key]}")
    };
    let Json::Object(mut body) = body else {
        return Err(shape());
    };
    let Some(Json::Array(changes)) = body.remove("changes") else {
        return Err(shape());
    };
    if let Some(other) = body.keys().next() {
        return Err(shape().with_field(other));
    }
    if changes.len() > MAX_BATCH_CHANGES {
        let detail = format!(
            "a batch holds at most {MAX_BATCH_CHANGES} changes, and this one {}",
            changes.len()
        );
        return Err(Problem::limit_exceeded(detail).with_hint("send several batches"));
    }
    let changes = changes.into_iter().enumerate();
    changes
        .map(|(index, change)| read_change(schema, collection, index, change))
        .collect()
}

fn read_change(
    schema: &Schema,
    collection: &str,
    index: usize,
    change: Json,
) -> Result<RecordChange, Problem> {
    let shape = |detail: String| {
        Problem::invalid_body(detail)
            .with_field(format!("changes[{index}]"))
            .with_hint("a change is {\"put\": {record}} or {\"delete\": [values of its key]}, and may name a \"collection\", and a put its \"ttl_seconds\"")
    };
    let Json::Object(mut change) = change else {
        return Err(shape("a change is an object".into()));
    };
    let collection = match change.remove("collection") {
        None => collection.to_owned(),
        Some(Json::String(name)) => name,
        Some(_) => return Err(shape("collection is a name".into())),
    };
    let read = match (change.remove("put"), change.remove("delete")) {
        (Some(Json::Object(record)), None) => {
            let ttl_seconds =
                match change.remove(TTL) {
                    None | Some(Json::Null) => None,
                    Some(seconds) => Some(read_ttl(&seconds).ok_or_else(|| {
                        shape(format!("{TTL} is a whole number from 1 to {MAX_TTL_SECONDS}"))
                    })?),
                };
            RecordChange::Put {
                collection,
                record,
                ttl_seconds,
            }
        }
        (None, Some(Json::Array(values))) => {
            let definition = schema.collection(&collection);
            let definition = definition.ok_or_else(|| Problem::no_collection(&collection))?;
            let key = keys::texts_of(definition, &values);
            let key = key.map_err(|problem| problem.within(&format!("changes[{index}]")))?;
            RecordChange::Delete { collection, key }
        }
        (Some(_), None) => return Err(shape("put takes a record: an object".into())),
        (None, Some(_)) => return Err(shape("delete takes a key: an array of its values".into())),
        _ => return Err(shape("a change is one put or one delete".into())),
    };
    match change.keys().next() {
        None => Ok(read),
        Some(other) => Err(shape(format!("there is no {other:?} in a change"))),
    }
}

fn read_ttl(seconds: &Json) -> Option<u32> {
    let seconds = u32::try_from(seconds.as_u64()?).ok()?;
    (1..=MAX_TTL_SECONDS).contains(&seconds).then_some(seconds)
}
