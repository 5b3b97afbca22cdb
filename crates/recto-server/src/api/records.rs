//! One record by its key.

use std::sync::Arc;

use axum::extract::Request;
use axum::http::{HeaderMap, Uri, header};
use axum::response::Response;
use recto::{DynamicRecord, MAX_TTL_SECONDS};
use serde_json::Value as Json;
use serde_json::value::RawValue;

use super::caller::Caller;
use super::parameters::Parameters;
use super::{address, answer, body, keys};
use crate::access::Operation;
use crate::problem::Problem;

/// How long a record lives that is put.
pub(super) const TTL: &str = "ttl_seconds";

/// Headers that make a write conditional on what is stored.
const CONDITIONS: [header::HeaderName; 3] = [
    header::IF_MATCH,
    header::IF_NONE_MATCH,
    header::IF_UNMODIFIED_SINCE,
];

/// `GET …/records/{key}`.
pub(super) async fn get(caller: Caller, uri: Uri, headers: HeaderMap) -> Result<Response, Problem> {
    let collection = address::collection(&uri)?;
    let session = caller.session(&collection, Operation::Read)?;
    let parameters = Parameters::read(&uri, &["fields"])?;
    let definition = caller.definition(&collection).await?;
    let fields = parameters.names("fields");
    if let Some(unknown) = fields.iter().find(|name| definition.field(name).is_none()) {
        let detail = format!("collection {collection} has no field {unknown}");
        return Err(Problem::invalid_parameter("fields", detail).with_field(unknown));
    }
    let found = session.get(&collection, &address::key(&uri)?).await?;
    let mut record = found.ok_or_else(|| Problem::no_record(&collection))?;
    if !fields.is_empty() {
        record.retain(|name, _| fields.contains(name));
    }
    Ok(answer::json(&headers, &Json::Object(record)))
}

/// `PUT …/records/{key}`: stores a record, in the place of one that is there; in an append collection,
/// where there is none.
pub(super) async fn put(caller: Caller, uri: Uri, request: Request) -> Result<Response, Problem> {
    let collection = address::collection(&uri)?;
    let session = caller.session(&collection, Operation::Write)?;
    let definition = caller.definition(&collection).await?;
    let ttl_seconds = ttl_seconds(&Parameters::read(&uri, &[TTL])?)?;
    refuse_conditions(request.headers())?;
    let key = address::key(&uri)?;
    let body = body::read(request).await?;
    if !body.json.is_object() {
        return Err(Problem::invalid_body("the body is a record: a JSON object"));
    }
    let text: &RawValue = body.text()?;
    let mut record = DynamicRecord::from_json_text(Arc::clone(&definition), text.get())?.to_json();
    keys::complete(&definition, &key, &mut record)?;
    // Of one record, a problem need not say which.
    let put = session.put(&collection, vec![record], ttl_seconds).await;
    put.map_err(Problem::of_record)?;
    Ok(answer::no_content())
}

/// `DELETE …/records/{key}`: afterwards there is none, whether or not there was one.
pub(super) async fn delete(caller: Caller, uri: Uri, headers: HeaderMap) -> Result<Response, Problem> {
    let collection = address::collection(&uri)?;
    let session = caller.session(&collection, Operation::Delete)?;
    caller.definition(&collection).await?;
    Parameters::read(&uri, &[])?;
    refuse_conditions(&headers)?;
    session.delete(&collection, &address::key(&uri)?).await?;
    Ok(answer::no_content())
}

fn ttl_seconds(parameters: &Parameters) -> Result<Option<u32>, Problem> {
    let Some(seconds) = parameters.whole(TTL)? else {
        return Ok(None);
    };
    match u32::try_from(seconds) {
        Ok(seconds) if (1..=MAX_TTL_SECONDS).contains(&seconds) => Ok(Some(seconds)),
        _ => Err(Problem::invalid_parameter(
            TTL,
            format!("a record lives for 1 to {MAX_TTL_SECONDS} seconds, not for {seconds}"),
        )),
    }
}

/// Refuses writes on conditions: silently made without them, they would undo what others wrote.
fn refuse_conditions(headers: &HeaderMap) -> Result<(), Problem> {
    match CONDITIONS.iter().find(|name| headers.contains_key(*name)) {
        None => Ok(()),
        Some(name) => Err(Problem::unsupported(format!(
            "{name} needs versions, which no collection has in this release"
        ))
        .with_hint("without it, the last writer wins")),
    }
}
