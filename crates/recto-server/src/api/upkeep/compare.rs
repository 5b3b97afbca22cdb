//! Comparison of views with the records of their collections, and repair.

use std::sync::Arc;

use axum::extract::Request;
use axum::http::Uri;
use axum::response::Response;
use recto::Session;
use recto::session::{VerifyReport, VerifyRequest, ViewProgress};
use recto_api::store::CompareRequest;
use serde_json::{Value as Json, json};

use super::telling::{LatestProgress, OperationResult, while_heard};
use crate::access::{EVERY_COLLECTION, Right};
use crate::api::body;
use crate::api::caller::Caller;
use crate::api::request;
use crate::problem::Problem;

/// Handles `POST /v1/store:verify` with
/// `{"collections": ["…"], "rows_per_second": 50000, "resume_token": "…"}`: checks that each view
/// has exactly the entries of its records.
pub(in crate::api) async fn verify(caller: Caller, uri: Uri, request: Request) -> Result<Response, Problem> {
    compare(caller, &uri, request, Right::Verify).await
}

/// Handles `POST /v1/store:repair`, whose body is that of `store:verify`: also repairs the views.
pub(in crate::api) async fn repair(caller: Caller, uri: Uri, request: Request) -> Result<Response, Problem> {
    compare(caller, &uri, request, Right::Repair).await
}

async fn compare(caller: Caller, uri: &Uri, request: Request, right: Right) -> Result<Response, Problem> {
    request::no_parameters(uri)?;
    let request: CompareRequest = body::read(request).await?.value()?;
    let mut asked = VerifyRequest {
        collections: request.collections,
        rows_per_second: request.rows_per_second,
        resume: request.resume_token,
        repair: right == Right::Repair,
        // Use the server's default memory limit, because a client must not choose it.
        memory_bytes: None,
    };
    let session = caller.comparing(right, &mut asked).await?;
    let running = caller.begin(right)?;
    let told = LatestProgress::default();
    let tells = told.clone();
    let upkeep = Arc::clone(caller.upkeep());
    let work = async move {
        let tell = |at: ViewProgress| tells.tell(at.to_json());
        let compared = async { session.tools()?.verify(&asked, &tell).await };
        let report = running.end_as(compared.await, |report| counts(report).to_string())?;
        upkeep.note_compared(&report);
        Ok(OperationResult::from(report.to_json()))
    };
    while_heard(caller.upkeep(), told, work).await
}

/// Returns the numbers of a comparison for the log, without keys of records.
fn counts(report: &VerifyReport) -> Json {
    json!({ "views": report.views.len(), "wrong": report.wrong(), "left": report.left() })
}

impl Caller {
    /// Returns a session to compare the views of the requested collections, or of all that the
    /// caller sees. The token must have the right to read, because reports contain keys. A repair
    /// also needs the right to write.
    async fn comparing(&self, right: Right, asked: &mut VerifyRequest) -> Result<Arc<dyn Session>, Problem> {
        let session = self.store_session(right)?;
        if asked.collections.is_empty() {
            let seen = self.schema().await?.collections;
            asked.collections = seen.iter().map(|one| one.name.clone()).collect();
            if asked.collections.is_empty() && !self.access.sees_every_collection() {
                // Reject an empty list here, because the engine would take it for all collections.
                return Err(Problem::forbidden(EVERY_COLLECTION, Right::Read));
            }
        }
        for name in &asked.collections {
            self.access.granted_right(name, Right::Read)?;
            if asked.repair {
                self.access.granted_right(name, Right::Write)?;
            }
        }
        Ok(session)
    }
}
