//! Answers read.

pub(crate) mod upkeep;

use hyper::HeaderMap;
use hyper::header::ETAG;
use recto::session::{Outcome, PageCost, PageReply, Written};
use recto::{Error, ErrorKind, Result};
use recto_api::records::{BatchResult, ChangeOutcome};
use serde::de::DeserializeOwned;

use crate::problem;

/// The JSON of an answer.
pub(crate) fn read<T: DeserializeOwned>(server: &str, body: &[u8]) -> Result<T> {
    serde_json::from_slice(body).map_err(|error| misunderstood(server).with_source(error))
}

/// An answer that is none of this release's.
#[cold]
pub(crate) fn misunderstood(server: &str) -> Error {
    Error::new(
        ErrorKind::Store,
        format!("the answer of {server} is not one that this release understands"),
    )
    .with_hint("is it a Recto server of the same release?")
}

/// The version that a text in JSON is.
pub(crate) fn number(text: Option<String>) -> Option<i64> {
    text?.parse().ok()
}

/// The version that an entity tag is.
pub(crate) fn version(headers: &HeaderMap) -> Option<i64> {
    let tag = headers.get(ETAG)?.to_str().ok()?;
    tag.strip_prefix('"')?.strip_suffix('"')?.parse().ok()
}

/// What a batch of so many changes did.
pub(crate) fn written(server: &str, body: &[u8], changes: usize) -> Result<Written> {
    let body: BatchResult = read(server, body)?;
    if !body.outcomes.is_empty() && body.outcomes.len() != changes {
        return Err(misunderstood(server));
    }
    Ok(Written {
        puts: body.puts,
        updates: body.updates.unwrap_or(0),
        deletes: body.deletes,
        repeated: body.repeated,
        outcomes: body.outcomes.into_iter().map(outcome).collect(),
    })
}

fn outcome(outcome: ChangeOutcome) -> Result<Outcome> {
    match outcome {
        ChangeOutcome::Rejected(rejection) => Err(problem::error_of_line(rejection.problem)),
        ChangeOutcome::Made(made) => Ok(Outcome {
            version: number(made.version),
            pending: made.pending,
        }),
    }
}

/// Adds the cost that the headers tell to a page.
pub(crate) fn with_cost(page: PageReply, headers: &HeaderMap) -> PageReply {
    let cost = headers.get(PageCost::HEADER);
    PageReply {
        cost_hidden: cost.is_none(),
        cost: cost
            .and_then(|value| value.to_str().ok())
            .map(PageCost::of_header)
            .unwrap_or_default(),
        ..page
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_answer_of_recto_is_told() {
        for body in ["", "{}", "[1]", "<html>", r#"{"records": 1}"#] {
            let error = read::<PageReply>("http://h", body.as_bytes()).unwrap_err();
            assert!(error.to_string().contains("http://h"), "{error}");
        }
    }
}
