//! Answers about the store itself that are not what a session gives.

use recto::session::LoadReport;
use serde::Deserialize;

/// What a compaction did.
#[derive(Debug, Deserialize)]
pub(crate) struct CompactBody {
    pub(crate) bytes_before: u64,
    pub(crate) bytes_after: u64,
}

/// How a load ended.
#[derive(Debug, Deserialize)]
pub(crate) struct LoadBody {
    #[serde(flatten)]
    pub(crate) report: LoadReport,
    /// The ending of the format that rejects are written in, if there are any.
    pub(crate) rejects: Option<String>,
}
