//! Answers read.

pub(crate) mod upkeep;

use hyper::HeaderMap;
use hyper::header::ETAG;
use recto::session::{Estimate, JsonRecord, Outcome, PageCost, PageReply, Written};
use recto::{Error, ErrorKind, Result};
use recto_api::records::{BatchResult, ChangeOutcome};
use serde::Deserialize;
use serde::de::DeserializeOwned;

use crate::problem;

/// The header of a list that says what it cost: a dictionary (RFC 9651) of whole numbers.
const COST: &str = "recto-cost";

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

/// A page as HTTP's list returns it.
#[derive(Debug, Deserialize)]
pub(crate) struct PageBody {
    records: Vec<JsonRecord>,
    next_page_token: String,
    previous_page_token: String,
    stop: Option<String>,
    row_page_tokens: Option<Vec<String>>,
    versions: Option<Vec<Option<String>>>,
    total_size: Option<u64>,
    #[serde(default)]
    total_size_error: u64,
    #[serde(default)]
    offset: u64,
    #[serde(default)]
    offset_error: u64,
    #[serde(default)]
    lacks: u64,
}

impl PageBody {
    pub(crate) fn into_reply(self, headers: &HeaderMap) -> PageReply {
        PageReply {
            records: self.records,
            next_page_token: self.next_page_token,
            previous_page_token: self.previous_page_token,
            stop: self.stop,
            row_page_tokens: self.row_page_tokens,
            versions: self
                .versions
                .map(|versions| versions.into_iter().map(number).collect()),
            estimate: self.total_size.map(|total_size| Estimate {
                total_size,
                total_size_error: self.total_size_error,
                offset: self.offset,
                offset_error: self.offset_error,
            }),
            lacks: self.lacks,
            cost: cost(headers),
            cost_hidden: !headers.contains_key(COST),
            ..PageReply::default()
        }
    }
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

/// What a page cost; what is not told is 0.
fn cost(headers: &HeaderMap) -> PageCost {
    let text = headers.get(COST).and_then(|value| value.to_str().ok());
    let mut cost = PageCost::default();
    for (name, value) in text
        .unwrap_or_default()
        .split(',')
        .filter_map(|pair| pair.split_once('='))
    {
        let value: u64 = value.trim().parse().unwrap_or(0);
        match name.trim() {
            "rows_read" => cost.rows_read = value,
            "bytes_read" => cost.bytes_read = value,
            "round_trips" => cost.round_trips = narrow(value),
            "statements" => cost.statements = narrow(value),
            "tombstones" => cost.tombstones = value,
            "buckets" => cost.buckets = narrow(value),
            "directory_reads" => cost.directory_reads = narrow(value),
            "seeks" => cost.seeks = narrow(value),
            "time_micros" => cost.time_micros = value,
            _ => {}
        }
    }
    cost
}

fn narrow(value: u64) -> u32 {
    u32::try_from(value).unwrap_or(u32::MAX)
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn a_page_and_its_cost_are_read() {
        let body =
            br#"{"records": [{"a": 0.1}], "next_page_token": "n", "previous_page_token": "", "later": 1}"#;
        let body: PageBody = read("http://h", body).unwrap();
        let mut headers = HeaderMap::new();
        let text = "rows_read=51, bytes_read=9800, round_trips=2,statements=3, buckets=2, directory_reads=1, seeks=4, more=\"x\", time_micros=7";
        headers.insert(COST, text.parse().unwrap());
        let reply = body.into_reply(&headers);
        assert_eq!(reply.next_page_token, "n");
        assert_eq!(reply.records[0]["a"], 0.1);
        let expected = PageCost {
            rows_read: 51,
            bytes_read: 9_800,
            round_trips: 2,
            statements: 3,
            tombstones: 0,
            buckets: 2,
            directory_reads: 1,
            seeks: 4,
            time_micros: 7,
        };
        assert_eq!(reply.cost, expected);
    }

    #[test]
    fn what_is_no_answer_of_recto_is_told() {
        for body in ["", "{}", "[1]", "<html>", r#"{"records": 1}"#] {
            let error = read::<PageBody>("http://h", body.as_bytes()).unwrap_err();
            assert!(error.to_string().contains("http://h"), "{error}");
        }
    }
}
