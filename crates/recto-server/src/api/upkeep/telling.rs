//! Replies of long operations: lines of progress, rejected rows, and the result.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use axum::body::{Body, Bytes};
use axum::http::HeaderValue;
use axum::response::Response;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use futures::StreamExt as _;
use futures::future::BoxFuture;
use serde_json::{Value as Json, json};
use tokio::sync::{mpsc, oneshot, watch};

use crate::api::answer;
use crate::api::export::NDJSON;
use crate::problem::Problem;
use crate::work::Upkeep;

/// Minimum interval between two lines of progress.
const TELL_INTERVAL: Duration = Duration::from_millis(100);

/// Interval at which a reply repeats its last progress when there is no new progress, so that the
/// connection does not seem dead.
const REPEAT_INTERVAL: Duration = Duration::from_secs(5);

/// Time for which a reply waits for an early error of the operation. An error within it becomes an
/// ordinary problem reply.
const FIRST_WAIT: Duration = Duration::from_secs(1);

/// Maximum time that a client may take to accept a line with rejected rows or with the result.
const LINE_TIMEOUT: Duration = Duration::from_secs(60);

/// Maximum number of lines of a reply that wait for a slow client.
const LINES_AHEAD: usize = 4;

/// Maximum number of bytes of rejected rows in one line of a reply.
const REJECT_BYTES: usize = 48 << 10;

/// Latest progress of an operation. New progress replaces older progress, even if that was not
/// sent.
#[derive(Debug, Clone)]
pub(in crate::api) struct LatestProgress(Arc<watch::Sender<Json>>);

impl Default for LatestProgress {
    fn default() -> Self {
        Self(Arc::new(watch::Sender::new(json!({}))))
    }
}

impl LatestProgress {
    pub(in crate::api) fn tell(&self, progress: Json) {
        self.0.send_replace(progress);
    }
}

/// Result of an operation, with the file of rows that a load rejected.
#[derive(Debug)]
pub(super) struct OperationResult {
    result: Json,
    rejects: Option<PathBuf>,
}

impl From<Json> for OperationResult {
    fn from(result: Json) -> Self {
        Self {
            result,
            rejects: None,
        }
    }
}

impl OperationResult {
    /// Adds a file of rejected rows, whose content the reply sends before the result.
    pub(super) fn with_rejects(mut self, rejects: Option<PathBuf>) -> Self {
        self.rejects = rejects;
        self
    }
}

/// Returns a reply with the progress of an operation that continues if the client disconnects.
pub(in crate::api) async fn run_on(
    upkeep: &Upkeep,
    told: LatestProgress,
    work: impl Future<Output = Result<Json, Problem>> + Send + 'static,
) -> Result<Response, Problem> {
    let (sender, ended) = oneshot::channel();
    upkeep.spawn(async move {
        // Ignore an error: it means that the client has disconnected.
        let _ = sender.send(work.await);
    });
    let work = async move {
        let ended = ended.await;
        let ended = ended.unwrap_or_else(|_| Err(Problem::internal("an internal error occurred")));
        ended.map(OperationResult::from)
    };
    while_heard(upkeep, told, work).await
}

/// Returns a reply with the progress of an operation that stops if the client disconnects.
pub(super) async fn while_heard(
    upkeep: &Upkeep,
    told: LatestProgress,
    work: impl Future<Output = Result<OperationResult, Problem>> + Send + 'static,
) -> Result<Response, Problem> {
    let (sender, mut receiver) = mpsc::channel(LINES_AHEAD);
    upkeep.spawn(tell(told, Box::pin(work), sender));
    let first = match tokio::time::timeout(FIRST_WAIT, receiver.recv()).await {
        Ok(Some(Err(problem))) => return Err(problem),
        Ok(first) => first,
        Err(_) => None,
    };
    let rest = futures::stream::unfold(receiver, |mut receiver| async move {
        Some((receiver.recv().await?, receiver))
    });
    let lines = futures::stream::iter(first).chain(rest);
    let lines = lines.map(|line| {
        line.or_else(|problem| Ok::<_, std::convert::Infallible>(line_of("problem", &problem.to_json())))
    });
    Ok(answer::untagged(
        HeaderValue::from_static(NDJSON),
        Body::from_stream(lines),
    ))
}

type Line = Result<Bytes, Problem>;

fn line_of(name: &str, value: &Json) -> Bytes {
    format!("{}\n", json!({ name: value })).into()
}

/// Sends the progress and the result of an operation to the client. If the client disconnects,
/// stops the operation by dropping it.
async fn tell(
    told: LatestProgress,
    mut work: BoxFuture<'static, Result<OperationResult, Problem>>,
    sender: mpsc::Sender<Line>,
) {
    let mut told = told.0.subscribe();
    let mut ticks = tokio::time::interval(TELL_INTERVAL);
    ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    let mut silent = Duration::ZERO;
    let ended = loop {
        tokio::select! {
            ended = &mut work => break ended,
            () = sender.closed() => return,
            _ = ticks.tick() => silent += TELL_INTERVAL,
        }
        // `has_changed` fails if the sender of progress was dropped. The operation is about to end,
        // so send no progress.
        if told.has_changed().unwrap_or(false) || silent >= REPEAT_INTERVAL {
            silent = Duration::ZERO;
            let line = line_of("progress", &told.borrow_and_update());
            // Ignore a full channel: a slow client misses this line and gets later progress.
            let _ = sender.try_send(Ok(line));
        }
    };
    match ended {
        Ok(done) => {
            if send_rejects(&sender, done.rejects).await {
                send(&sender, Ok(line_of("result", &done.result))).await;
            }
        }
        Err(problem) => {
            send(&sender, Err(problem)).await;
        }
    }
}

/// Sends the content of the file of rejected rows. Returns whether the client accepted all of it.
async fn send_rejects(sender: &mpsc::Sender<Line>, rejects: Option<PathBuf>) -> bool {
    let Some(path) = rejects else {
        return true;
    };
    let mut file = None;
    loop {
        let path = path.clone();
        let read = tokio::task::spawn_blocking(move || read_piece(&path, file)).await;
        match read {
            Ok(Ok((_, piece))) if piece.is_empty() => return true,
            Ok(Ok((rest, piece))) => {
                let line = line_of("rejects", &STANDARD.encode(&piece).into());
                if !send(sender, Ok(line)).await {
                    return false;
                }
                file = Some(rest);
            }
            _ => {
                send(sender, Err(Problem::internal("the rejected rows cannot be read"))).await;
                return false;
            }
        }
    }
}

fn read_piece(
    path: &std::path::Path,
    file: Option<std::fs::File>,
) -> std::io::Result<(std::fs::File, Vec<u8>)> {
    use std::io::Read as _;
    let mut file = file.map_or_else(|| std::fs::File::open(path), Ok)?;
    let mut piece = Vec::new();
    file.by_ref().take(REJECT_BYTES as u64).read_to_end(&mut piece)?;
    Ok((file, piece))
}

/// Sends a line of a reply. Returns whether the client accepted the line in time.
async fn send(sender: &mpsc::Sender<Line>, line: Line) -> bool {
    let sent = tokio::time::timeout(LINE_TIMEOUT, sender.send(line)).await;
    matches!(sent, Ok(Ok(())))
}
