//! Buckets (ranges) of large partitions. Their sizes reveal information about all rows. So tokens
//! that may read only some rows cannot read them.

use std::sync::Arc;

use axum::extract::Request;
use axum::http::Uri;
use axum::response::Response;
use recto::Session;
use recto::session::{BucketsRequest, RebalanceProgress, RebalanceRequest};
use serde_json::json;

use super::caller::Caller;
use super::upkeep::{LatestProgress, run_on};
use super::{address, answer, body, request};
use crate::access::Right;
use crate::problem::Problem;

/// Handles `GET /v1/collections/{collection}/partitions`: returns the partitions that have buckets.
pub(super) async fn partitions(caller: Caller, uri: Uri) -> Result<Response, Problem> {
    let (collection, session) = caller.bucket_session(&uri, Right::Read).await?;
    let request: BucketsRequest = request::parameters(&uri, BucketsRequest::OF_PARTITIONS)?.read()?;
    let listed = session.tools()?.bucket_partitions(&collection, &request).await?;
    Ok(answer::json_once(&json!(listed)))
}

/// Handles `GET /v1/collections/{collection}/buckets`: returns the buckets of one partition.
pub(super) async fn list(caller: Caller, uri: Uri) -> Result<Response, Problem> {
    let (collection, session) = caller.bucket_session(&uri, Right::Read).await?;
    let request: BucketsRequest = request::of_address(&uri)?;
    let listed = session.tools()?.buckets(&collection, &request).await?;
    Ok(answer::json_once(&json!(listed)))
}

/// Handles `POST /v1/collections/{collection}/buckets:rebalance` with
/// `{"view": "…", "filter": "…"}`: splits too large buckets of one partition, or of all.
pub(super) async fn rebalance(caller: Caller, uri: Uri, asked: Request) -> Result<Response, Problem> {
    if !caller.access.allows_store(Right::Repair) {
        return Err(Problem::forbidden_store(Right::Repair));
    }
    let (collection, session) = caller.bucket_session(&uri, Right::Write).await?;
    request::no_parameters(&uri)?;
    let request: RebalanceRequest = body::read(asked).await?.value()?;
    let running = caller.upkeep().begin(Right::Repair, &caller.access.name)?;
    let told = LatestProgress::default();
    let tells = told.clone();
    let work = async move {
        let tell = |at: RebalanceProgress| tells.tell(json!(at));
        let report = async {
            session
                .tools()?
                .rebalance_buckets(&collection, &request, &tell)
                .await
        };
        running.end(report.await.map(|report| json!(report)))
    };
    run_on(caller.upkeep(), told, work).await
}

impl Caller {
    /// Returns the collection of a path, and a session that reads or changes its buckets.
    async fn bucket_session(&self, uri: &Uri, right: Right) -> Result<(String, Arc<dyn Session>), Problem> {
        let collection = address::collection(uri)?;
        self.definition(&collection).await?;
        self.access.check_reads_all_of(&collection, right)?;
        Ok((collection, self.access.session_over(self.app_session(), [])?))
    }
}
