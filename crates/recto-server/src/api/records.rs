//! Single records, named by their keys.

use std::sync::Arc;

use axum::extract::Request;
use axum::http::{HeaderMap, StatusCode, Uri};
use axum::response::Response;
use recto::schema::Collection;
use recto::session::{Action, Outcome, RecordChange};
use recto::{DynamicRecord, Error, ErrorKind, MAX_TTL_SECONDS, Session};
use recto_api::records::{GetOptions, PutOptions};
use serde_json::Value as Json;
use serde_json::value::RawValue;

use super::body::{self, Body};
use super::caller::Caller;
use super::conditions::{self, Condition};
use super::request;
use super::{address, answer, keys};
use crate::access::Right;
use crate::problem::Problem;

/// Maximum number of attempts to write a record without an expected version. An attempt fails if
/// another client changes the record meanwhile.
const MAX_TRIES: usize = 10;

/// Handles `GET …/records/{key}`: returns one record.
pub(super) async fn get(caller: Caller, uri: Uri, headers: HeaderMap) -> Result<Response, Problem> {
    let collection = address::collection(&uri)?;
    let session = caller.session(&collection, Right::Read)?;
    let GetOptions { fields } = request::of_address(&uri)?;
    let definition = caller.definition(&collection).await?;
    if let Some(unknown) = fields.iter().find(|name| definition.field(name).is_none()) {
        let detail = format!("collection {collection} has no field {unknown}");
        return Err(Problem::invalid_parameter("fields", detail).with_field(unknown));
    }
    let found = session.get(&collection, &address::key(&uri)?).await?;
    let mut found = found.ok_or_else(|| Problem::no_record(&collection))?;
    if !fields.is_empty() {
        found.record.retain(|name, _| fields.contains(name));
    }
    let record = Json::Object(found.record);
    Ok(match found.version {
        None => answer::json(&headers, &record),
        Some(version) => {
            let tag = conditions::tag(version);
            answer::tagged(&headers, &tag, answer::APPLICATION_JSON, record.to_string())
        }
    })
}

/// Request to change one record, after its path and headers were read.
struct RecordWriteRequest {
    caller: Caller,
    session: Arc<dyn Session>,
    definition: Arc<Collection>,
    key: Vec<String>,
    condition: Condition,
}

impl RecordWriteRequest {
    async fn of(caller: Caller, uri: &Uri, headers: &HeaderMap, right: Right) -> Result<Self, Problem> {
        let collection = address::collection(uri)?;
        let session = caller.session(&collection, right)?;
        let definition = caller.definition(&collection).await?;
        Ok(Self {
            caller,
            session,
            condition: Condition::of(headers, &definition)?,
            definition,
            key: address::key(uri)?,
        })
    }

    /// Makes the change of the record, with several attempts if other clients change the record
    /// too.
    async fn make(&self, action: Action) -> Result<Outcome, Problem> {
        let name = &self.definition.name;
        for _ in 0..MAX_TRIES {
            let version = match self.condition.version(&*self.session, name, &self.key).await {
                Ok(version) => version,
                Err(problem) => return Err(self.with_current(problem).await),
            };
            let change = RecordChange::new(name, action.clone()).if_version(version);
            match self.session.change(change).await {
                Ok(outcome) => return Ok(outcome),
                Err(error) if error.kind() == ErrorKind::Changed && self.condition == Condition::Present => {}
                Err(error) => return Err(self.refused(error).await),
            }
        }
        let detail =
            format!("other writers changed the record during each of {MAX_TRIES} attempts to write it");
        Err(Error::new(ErrorKind::Timeout, detail)
            .with_hint("try again; nothing was written")
            .into())
    }

    async fn refused(&self, error: Error) -> Problem {
        let kind = error.kind();
        // Leave out the index of the record, because the request has only one.
        let problem = Problem::of_record(error);
        match kind {
            ErrorKind::Exists if self.condition == Condition::Absent => {
                self.with_current(problem.with_status(StatusCode::PRECONDITION_FAILED))
                    .await
            }
            ErrorKind::Exists | ErrorKind::Changed => self.with_current(problem).await,
            _ => problem,
        }
    }

    /// Adds the stored record to a problem, if the token may read the record.
    async fn with_current(&self, problem: Problem) -> Problem {
        let name = &self.definition.name;
        let Ok(session) = self.caller.session(name, Right::Read) else {
            return problem;
        };
        match session.get(name, &self.key).await {
            Ok(Some(found)) => problem.with_current(found),
            _ => problem,
        }
    }
}

/// Handles `PUT …/records/{key}`: stores a record, and replaces a record with the same key. An
/// append collection rejects another record with the key.
pub(super) async fn put(caller: Caller, uri: Uri, request: Request) -> Result<Response, Problem> {
    let asked = RecordWriteRequest::of(caller, &uri, request.headers(), Right::Write).await?;
    let ttl_seconds = ttl_seconds(&request::of_address(&uri)?)?;
    let body = body::read(request).await?;
    if !body.json.is_object() {
        return Err(Problem::invalid_body("the body must be a record: a JSON object"));
    }
    let mut record = fields(&asked.definition, &body)?.to_json();
    keys::complete(&asked.definition, &asked.key, &mut record)?;
    if asked.condition == Condition::Absent {
        let outcome = asked.make(Action::Insert { record, ttl_seconds }).await?;
        return Ok(answer::changed(StatusCode::CREATED, outcome));
    }
    let outcome = asked.make(Action::Put { record, ttl_seconds }).await?;
    Ok(answer::changed(StatusCode::NO_CONTENT, outcome))
}

/// Handles `PATCH …/records/{key}`: changes fields of a record (RFC 7396). Omitted fields stay.
pub(super) async fn patch(caller: Caller, uri: Uri, request: Request) -> Result<Response, Problem> {
    let asked = RecordWriteRequest::of(caller, &uri, request.headers(), Right::Write).await?;
    request::no_parameters(&uri)?;
    if asked.condition == Condition::Absent {
        let detail = "If-None-Match: * is only for inserts, but a patch changes an existing record";
        return Err(
            Problem::invalid_parameter("If-None-Match", detail).with_hint("use PUT to insert a record")
        );
    }
    let body = body::read_patch(request).await?;
    if !body.json.is_object() {
        return Err(
            Problem::invalid_body("the body must be a patch of a record: a JSON object")
                .with_hint("use its members for the fields that change; null clears a field"),
        );
    }
    let given = fields(&asked.definition, &body)?.to_json();
    let mut fields = keys::with_nulls(given, &body.json);
    keys::strip(&asked.definition, &asked.key, &mut fields)?;
    let key = asked.key.clone();
    let outcome = asked.make(Action::Update { key, fields }).await?;
    Ok(answer::changed(StatusCode::NO_CONTENT, outcome))
}

/// Handles `DELETE …/records/{key}`: deletes a record. Also succeeds if the record does not exist.
pub(super) async fn delete(caller: Caller, uri: Uri, headers: HeaderMap) -> Result<Response, Problem> {
    let asked = RecordWriteRequest::of(caller, &uri, &headers, Right::Delete).await?;
    request::no_parameters(&uri)?;
    if asked.condition == Condition::Absent {
        let detail = "If-None-Match: * is only for inserts, not for deletions";
        return Err(Problem::invalid_parameter("If-None-Match", detail));
    }
    let key = asked.key.clone();
    let outcome = asked.make(Action::Delete { key }).await?;
    Ok(answer::deleted(outcome))
}

/// Reads the fields of a record from the exact text of a body, so that numbers keep their digits.
fn fields(definition: &Arc<Collection>, body: &Body) -> Result<DynamicRecord, Problem> {
    let text: &RawValue = body.text()?;
    Ok(DynamicRecord::from_json_text(Arc::clone(definition), text.get())?)
}

fn ttl_seconds(options: &PutOptions) -> Result<Option<u32>, Problem> {
    let Some(seconds) = options.ttl_seconds else {
        return Ok(None);
    };
    match u32::try_from(seconds) {
        Ok(seconds) if (1..=MAX_TTL_SECONDS).contains(&seconds) => Ok(Some(seconds)),
        _ => Err(Problem::invalid_parameter(
            "ttl_seconds",
            format!("a record lives for 1 to {MAX_TTL_SECONDS} seconds, not for {seconds}"),
        )),
    }
}
