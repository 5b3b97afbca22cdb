//! Long operations of the server. Their replies have lines of progress, then a line with the
//! result.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use recto::{ErrorKind, Result};
use recto_api::problem::ProblemBody;
use recto_client::{Client, Response, error_of_problem, unexpected_reply};
use serde::Deserialize;
use serde::de::DeserializeOwned;

/// Maximum size of a line of the reply, in bytes. The plan of a schema and the findings of a check
/// can be long.
const MAX_LINE_BYTES: usize = 64 << 20;

/// Line of the reply to a long operation; one of its members is set.
#[derive(Debug, Deserialize)]
struct Line<P, R> {
    progress: Option<P>,
    /// Rejected rows of a load in base64, because rows need not be UTF-8.
    rejects: Option<String>,
    result: Option<R>,
    problem: Option<ProblemBody>,
}

/// Reads the reply to a long operation up to its result. Passes progress to `progress`, and
/// rejected rows to `rejects`. If the connection is cut before the result, the error has the hint
/// `lost_hint`.
///
/// # Errors
/// The error that the server reports at the end of the reply, or `Unavailable` if the connection is
/// cut.
pub(crate) async fn result<P: DeserializeOwned, R: DeserializeOwned>(
    client: &Client,
    mut response: Response<'_>,
    progress: &(dyn Fn(P) + Send + Sync),
    rejects: &mut (dyn FnMut(&[u8]) -> Result<()> + Send),
    lost_hint: &'static str,
) -> Result<R> {
    let unexpected = || unexpected_reply(client.server());
    loop {
        let line = match response.line(MAX_LINE_BYTES).await {
            Ok(line) => line,
            Err(error) if error.kind() == ErrorKind::Store => return Err(error),
            Err(error) => return Err(error.with_hint(lost_hint)),
        };
        let line: Line<P, R> =
            serde_json::from_slice(&line).map_err(|error| unexpected().with_source(error))?;
        if let Some(at) = line.progress {
            progress(at);
        }
        if let Some(rows) = line.rejects {
            let rows = STANDARD.decode(rows);
            rejects(&rows.map_err(|error| unexpected().with_source(error))?)?;
        }
        if let Some(problem) = line.problem {
            return Err(error_of_problem(problem));
        }
        if let Some(result) = line.result {
            return Ok(result);
        }
    }
}
