//! All records of a collection, or of a filter, streamed as NDJSON.
//!
//! A line is a record; with `versions=true` it is `{"record": …, "version": "…"}`. With
//! `resume_tokens=true`, a line is `{"record": …}` or, after every step of the scan, `{"resume_token": "…"}`: everything before it is complete. Whoever is cut off drops what
//! came after the last such line and asks again with `resume_token`; nothing is missed and nothing
//! comes twice. The last line's token is empty, and only that one's: without it the export was cut.

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
use crate::operation::{Context, Deed};
use crate::problem::Problem;

/// The media type of lines of JSON.
pub(crate) const NDJSON: &str = "application/x-ndjson";

/// Steps of a scan that wait for the client: what more there is, is not read before it takes these.
const STEPS_AHEAD: usize = 1;

/// How long a client may take for one step before the export is cut.
const STEP_TIMEOUT: Duration = Duration::from_secs(60);

/// `GET …/records:export`.
pub(super) async fn export(caller: Caller, uri: Uri) -> Result<Response, Problem> {
    let collection = address::collection(&uri)?;
    let session = caller.session(&collection, Right::Export)?;
    let parameters = request::parameters(&uri, &known())?;
    begin(session, collection, &parameters).await
}

/// `POST …/records:export`: the same, with the parameters as a JSON object.
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

/// How steps become lines.
#[derive(Debug, Clone, Copy)]
struct Lines {
    has_tokens: bool,
}

impl Lines {
    fn of(self, step: &ScanStep) -> Piece {
        let mut text = String::new();
        for (index, record) in step.records.iter().enumerate() {
            // Serializing what was parsed from values cannot fail.
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

    /// What the client gets of a piece. An error cuts the connection, so that nobody takes what came
    /// for all there is; lines that are wrapped say why first.
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

/// Why a connection is cut.
#[derive(Debug, thiserror::Error)]
#[error("the export did not reach its end")]
struct Cut;

/// A piece of the way to the client.
enum Piece {
    Lines {
        text: String,
        records: usize,
    },
    /// The last one: an export that ends without it was cut.
    End(String),
    Failed(Error),
}

/// What the client takes. It belongs to the answer, and whatever ends that, also a server that stops, ends
/// the deed and so writes its line.
struct Delivery {
    receiver: mpsc::Receiver<Piece>,
    deed: Deed,
    records: usize,
}

impl Delivery {
    async fn next(&mut self) -> Option<Piece> {
        let piece = self.receiver.recv().await;
        match &piece {
            Some(Piece::Lines { records, .. }) => {
                self.records += records;
                self.deed.detail("records", self.records);
            }
            Some(Piece::End(_)) => self.deed.done(),
            Some(Piece::Failed(error)) => self.deed.failed(error),
            None => {}
        }
        piece
    }
}

/// The export as a body. What is wrong from the start is known when this returns.
async fn stream(
    session: Arc<dyn Session>,
    collection: String,
    request: ScanRequest,
    lines: Lines,
) -> Result<Body, Problem> {
    let (sender, receiver) = mpsc::channel(STEPS_AHEAD);
    let mut deed = Deed::begin(Context::current().as_ref(), "export", "cut");
    deed.detail("collection", collection.as_str());
    tokio::spawn(async move {
        let mut steps = session.scan(&collection, &request);
        // A step without records is sent too: the answer begins, and a token may stand in it.
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
        deed,
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

/// What is wrong with the export that was asked for, with the parameter it is in.
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

/// Whether the client took it in time; if not, the export ends and its connection is cut.
async fn send(sender: &mpsc::Sender<Piece>, piece: Piece) -> bool {
    let sent = tokio::time::timeout(STEP_TIMEOUT, sender.send(piece)).await;
    matches!(sent, Ok(Ok(())))
}
