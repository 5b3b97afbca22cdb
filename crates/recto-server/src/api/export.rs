//! Export of all records of a collection, or of those that satisfy a filter, as a stream of NDJSON.
//!
//! Each line is a record. With `versions=true`, it is `{"record": …, "version": "…"}`.
//!
//! With `resume_tokens=true`, a line is `{"record": …}`, or after every step of the scan
//! `{"resume_token": "…"}`. All lines before a token are complete. A client whose connection breaks
//! discards the lines after the last token, and continues with `resume_token`. It thus gets each
//! record once. The last line of a complete export has an empty token.

use std::sync::Arc;
use std::time::Duration;

use axum::body::{Body, Bytes};
use axum::extract::Request;
use axum::http::{HeaderValue, Uri};
use axum::response::Response;
use futures::StreamExt as _;
use recto::session::{ScanRequest, ScanStep, version_json};
use recto::{Error, ErrorPart, Session};
use recto_api::parameters::{Parameters, names_of};
use recto_api::scans::ExportOptions;
use serde_json::json;
use tokio::sync::mpsc;

use super::address;
use super::answer;
use super::caller::Caller;
use super::request;
use crate::access::Right;
use crate::operation::{AuditEvent, Context};
use crate::problem::Problem;

/// Media type of NDJSON (one JSON value per line).
pub(crate) const NDJSON: &str = "application/x-ndjson";

/// Number of scan steps that may wait for a slow client. The scan pauses until the client takes
/// one.
const STEPS_AHEAD: usize = 1;

/// Maximum time that a client may take for one step. Then the server closes the connection.
const STEP_TIMEOUT: Duration = Duration::from_secs(60);

/// Handles `GET …/records:export`: returns all records, or those that satisfy a filter, as NDJSON.
pub(super) async fn export(caller: Caller, uri: Uri) -> Result<Response, Problem> {
    let collection = address::collection(&uri)?;
    let session = caller.session(&collection, Right::Export)?;
    let parameters = request::parameters(&uri, &known())?;
    begin(session, collection, &parameters).await
}

/// Handles `POST …/records:export`, with the parameters as a JSON object in the body.
pub(super) async fn export_by_body(caller: Caller, uri: Uri, request: Request) -> Result<Response, Problem> {
    let collection = address::collection(&uri)?;
    let session = caller.session(&collection, Right::Export)?;
    let parameters = request::in_body(&uri, request, &known()).await?;
    begin(session, collection, &parameters).await
}

fn known() -> Vec<&'static str> {
    [names_of::<ScanRequest>(), names_of::<ExportOptions>()].concat()
}

async fn begin(
    session: Arc<dyn Session>,
    collection: String,
    parameters: &Parameters,
) -> Result<Response, Problem> {
    let ExportOptions { resume_tokens } = parameters.read()?;
    let lines = Lines {
        has_tokens: resume_tokens,
    };
    let body = stream(session, collection, parameters.read()?, lines).await?;
    Ok(answer::untagged(HeaderValue::from_static(NDJSON), body))
}

/// Converter of the steps of a scan to lines of NDJSON.
#[derive(Debug, Clone, Copy)]
struct Lines {
    has_tokens: bool,
}

impl Lines {
    fn of(self, step: &ScanStep) -> Piece {
        let mut text = String::new();
        for (index, record) in step.records.iter().enumerate() {
            // Serialization cannot fail, because the record was parsed before.
            let record = serde_json::to_string(record).unwrap_or_default();
            let version = step
                .versions
                .as_ref()
                .map(|versions| version_json(versions[index]));
            text.push_str(&match version {
                Some(version) => format!("{{\"record\":{record},\"version\":{version}}}\n"),
                None if self.has_tokens => format!("{{\"record\":{record}}}\n"),
                None => format!("{record}\n"),
            });
        }
        if let (true, Some(token)) = (self.has_tokens, &step.resume) {
            text.push_str(&format!("{}\n", json!({ "resume_token": token })));
        }
        let records = step.records.len();
        Piece::Lines { text, records }
    }

    fn end(self) -> String {
        if self.has_tokens {
            format!("{}\n", json!({ "resume_token": "" }))
        } else {
            String::new()
        }
    }

    /// Returns the bytes to send for a piece of the export. An error closes the connection, so that
    /// clients do not take an incomplete export for complete. With tokens, a line with the problem
    /// precedes it.
    fn chunks(self, piece: Option<Piece>) -> Vec<Result<Bytes, Cut>> {
        match piece {
            Some(Piece::Lines { text, .. } | Piece::End(text)) => vec![Ok(text.into())],
            Some(Piece::Failed(error)) if self.has_tokens => {
                let problem = json!({ "problem": Problem::of_query(error).to_json() });
                vec![Ok(format!("{problem}\n").into()), Err(Cut)]
            }
            Some(Piece::Failed(_)) | None => vec![Err(Cut)],
        }
    }
}

/// Error that closes the connection of an incomplete export.
#[derive(Debug, thiserror::Error)]
#[error("the export ended early")]
struct Cut;

/// Piece of an export on its way to the client.
enum Piece {
    Lines {
        text: String,
        records: usize,
    },
    /// Last lines of a complete export.
    End(String),
    Failed(Error),
}

/// Receiver of the pieces of an export, which the reply owns. When it is dropped for any reason,
/// the export is written to the audit log.
struct Delivery {
    receiver: mpsc::Receiver<Piece>,
    event: AuditEvent,
    records: usize,
}

impl Delivery {
    async fn next(&mut self) -> Option<Piece> {
        let piece = self.receiver.recv().await;
        match &piece {
            Some(Piece::Lines { records, .. }) => {
                self.records += records;
                self.event.detail("records", self.records);
            }
            Some(Piece::End(_)) => self.event.done(),
            Some(Piece::Failed(error)) => self.event.failed(error),
            None => {}
        }
        piece
    }
}

/// Starts an export and returns the reply's body. If the first step of the scan fails, returns a
/// problem.
async fn stream(
    session: Arc<dyn Session>,
    collection: String,
    request: ScanRequest,
    lines: Lines,
) -> Result<Body, Problem> {
    let (sender, receiver) = mpsc::channel(STEPS_AHEAD);
    let mut event = AuditEvent::begin(Context::current().as_ref(), "export", "cut");
    event.detail("collection", collection.as_str());
    tokio::spawn(async move {
        let mut steps = session.scan(&collection, &request);
        // Send even a step without records: the first step starts the reply, and each step may have
        // a token.
        while let Some(step) = steps.next().await {
            let (piece, is_last) = match step {
                Ok(step) => (lines.of(&step), false),
                Err(error) => (Piece::Failed(error), true),
            };
            if !send(&sender, piece).await || is_last {
                return;
            }
        }
        send(&sender, Piece::End(lines.end())).await;
    });
    let mut delivery = Delivery {
        receiver,
        event,
        records: 0,
    };
    let first = match delivery.next().await {
        Some(Piece::Failed(error)) => return Err(refused(error)),
        first => first,
    };
    let rest = futures::stream::unfold(Some(delivery), |delivery| async move {
        let mut delivery = delivery?;
        let piece = delivery.next().await;
        let is_more = matches!(piece, Some(Piece::Lines { .. }));
        Some((piece, is_more.then_some(delivery)))
    });
    let is_only = !matches!(first, Some(Piece::Lines { .. }));
    let pieces = futures::stream::once(async { first });
    let pieces = if is_only {
        pieces.left_stream()
    } else {
        pieces.chain(rest).right_stream()
    };
    let chunks = pieces.flat_map(move |piece| futures::stream::iter(lines.chunks(piece)));
    Ok(Body::from_stream(chunks))
}

/// Converts an error of an export to a problem that names the wrong parameter.
fn refused(error: Error) -> Problem {
    let parameter = match error.part() {
        Some(ErrorPart::Cursor) => Some("resume_token"),
        Some(ErrorPart::Filter) => Some("filter"),
        Some(ErrorPart::Fields) => Some("fields"),
        _ => None,
    };
    let problem = Problem::of_query(error);
    match parameter {
        Some(parameter) => problem.with_parameter(parameter),
        None => problem,
    }
}

/// Sends a piece of an export. Returns false if the client did not take it in time; the export then
/// ends.
async fn send(sender: &mpsc::Sender<Piece>, piece: Piece) -> bool {
    let sent = tokio::time::timeout(STEP_TIMEOUT, sender.send(piece)).await;
    matches!(sent, Ok(Ok(())))
}
