//! Answers about queues.

use recto::Result;
use recto::session::{QueueStatus, SentMessage};
use serde::Deserialize;

use crate::problem::Problem;

/// The queues there are.
#[derive(Debug, Deserialize)]
pub(crate) struct ListBody {
    pub(crate) queues: Vec<QueueStatus>,
}

/// The work units of a queue.
#[derive(Debug, Deserialize)]
pub(crate) struct UnitsBody {
    pub(crate) units: Vec<QueueStatus>,
}

/// What became of messages that were sent.
#[derive(Debug, Deserialize)]
pub(crate) struct SentBody {
    pub(crate) results: Vec<SentResult>,
}

/// What became of one.
#[derive(Debug, Deserialize)]
#[serde(untagged)]
pub(crate) enum SentResult {
    Sent(SentMessage),
    Refused { problem: Problem },
}

impl SentBody {
    pub(crate) fn into_results(self) -> Vec<Result<SentMessage>> {
        let result = |result| match result {
            SentResult::Sent(sent) => Ok(sent),
            SentResult::Refused { problem } => Err(problem.into_error_of_line()),
        };
        self.results.into_iter().map(result).collect()
    }
}

/// What became of receipts that were shown.
#[derive(Debug, Deserialize)]
pub(crate) struct SettledBody {
    pub(crate) results: Vec<SettledResult>,
}

/// What became of one.
#[derive(Debug, Deserialize)]
pub(crate) struct SettledResult {
    pub(crate) done: bool,
}

/// Whether a message was taken out.
#[derive(Debug, Deserialize)]
pub(crate) struct RemovedBody {
    pub(crate) removed: bool,
}
