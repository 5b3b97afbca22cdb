//! How a list is found, and what it costs.

use axum::extract::Request;
use axum::http::Uri;
use axum::response::Response;
use recto::Session;
use recto::session::{Explanation, PageCost};
use serde_json::{Value as Json, json};

use super::address;
use super::caller::Caller;
use super::question::Question;
use crate::access::Operation;
use crate::problem::Problem;

/// `GET …/records:explain`: the parameters of the list, and `run`.
pub(super) async fn explain(caller: Caller, uri: Uri) -> Result<Response, Problem> {
    let collection = address::collection(&uri)?;
    let session = caller.session(&collection, Operation::Read)?;
    let question = Question::read(&uri, &["run"])?;
    answer(&collection, &*session, &question).await
}

/// `POST …/records:explain`: the same, with the parameters as a JSON object.
pub(super) async fn explain_by_body(caller: Caller, uri: Uri, request: Request) -> Result<Response, Problem> {
    let collection = address::collection(&uri)?;
    let session = caller.session(&collection, Operation::Read)?;
    let question = Question::of_request(&uri, request, &["run"]).await?;
    answer(&collection, &*session, &question).await
}

async fn answer(collection: &str, session: &dyn Session, question: &Question) -> Result<Response, Problem> {
    let run = question.parameters.flag("run")?;
    let explained = session.explain(collection, &question.request, run).await;
    let explained = explained.map_err(|error| question.problem(error))?;
    Ok(super::answer::json_once(&explanation(&explained)))
}

/// What `recto explain --json` prints.
fn explanation(explained: &Explanation) -> Json {
    let sources = explained.sources.iter().map(|source| {
        json!({ "partition": source.partition, "bounds": source.bounds, "requests": source.requests })
    });
    let rejected = explained.rejected.iter();
    let rejected =
        rejected.map(|(arrangement, reason)| json!({ "arrangement": arrangement, "reason": reason }));
    let mut document = json!({
        "shape": explained.shape,
        "arrangement": explained.arrangement,
        "table": explained.table,
        "order": explained.order,
        "direction": explained.direction,
        "sources": sources.collect::<Vec<_>>(),
        "residual": explained.residual,
        "expected_rows": explained.expected_rows,
        "expected_round_trips": explained.expected_round_trips,
        "rejected": rejected.collect::<Vec<_>>(),
    });
    if let Some(actual) = &explained.actual {
        document["actual"] = cost(actual, explained.actual_rows_returned);
    }
    document
}

fn cost(actual: &PageCost, rows_returned: Option<u64>) -> Json {
    json!({
        "rows_read": actual.rows_read,
        "rows_returned": rows_returned,
        "bytes_read": actual.bytes_read,
        "round_trips": actual.round_trips,
        "statements": actual.statements,
        "tombstones": actual.tombstones,
        "time_micros": actual.time_micros,
    })
}
