//! Export of a collection (all records, or those of a filter) as a stream that continues after a
//! cut connection.
//!
//! The lines of the server's reply are records, and a resume token after each step of the scan. The
//! stream returns records only when the token after them has arrived. So it returns each record
//! once.

use futures::stream::{self, BoxStream, StreamExt as _};
use recto::session::{JsonRecord, ScanRequest, ScanStep};
use recto::{Error, ErrorKind, Result};
use recto_api::problem::ProblemBody;
use recto_api::scans::ExportOptions;
use recto_client::{Client, Query, Response, backoff, collection_path, error_of_problem, unexpected_reply};
use serde::Deserialize;
use tokio::time::sleep;

use crate::session::number;

/// Maximum number of consecutive attempts to continue an export that bring no further resume token.
pub const MAX_RESUMES: u32 = 5;
/// Maximum size of the records between two resume tokens, and of one line, in bytes.
pub const MAX_STEP_BYTES: usize = 256 << 20;

/// Line of the server's reply to an export.
#[derive(Debug, Deserialize)]
struct Line {
    record: Option<JsonRecord>,
    version: Option<String>,
    resume_token: Option<String>,
    problem: Option<ProblemBody>,
}

/// Returns an export as a stream of steps (records up to a resume token). It sends no request
/// before its first poll.
pub(crate) fn steps<'a>(
    client: &'a Client,
    collection: &str,
    request: &ScanRequest,
) -> BoxStream<'a, Result<ScanStep>> {
    let export = Export {
        client,
        collection: collection.to_owned(),
        request: request.clone(),
        response: None,
        records: Vec::new(),
        versions: request.versions.then(Vec::new),
        step_bytes: 0,
        failures: 0,
        is_over: false,
    };
    let parallel = request.parallel;
    let begun = async move {
        if parallel == 0 {
            return Ok(export);
        }
        Err(Error::new(
            ErrorKind::Unsupported,
            "a server chooses the number of parallel reads itself",
        )
        .with_hint("leave --parallel out"))
    };
    let steps = |mut export: Export<'a>| {
        stream::once(async move { (export.next().await, export) })
            .flat_map(|(first, export)| {
                let rest = stream::unfold(export, |mut export| async move {
                    let step = export.next().await?;
                    Some((step, export))
                });
                stream::iter(first).chain(rest)
            })
            .left_stream()
    };
    stream::once(begun)
        .flat_map(move |begun| match begun {
            Ok(export) => steps(export),
            Err(error) => stream::once(async { Err(error) }).right_stream(),
        })
        .boxed()
}

/// State of an export while its reply is read.
struct Export<'a> {
    client: &'a Client,
    collection: String,
    /// Request for the records after the last resume token that arrived.
    request: ScanRequest,
    response: Option<Response<'a>>,
    /// Records that arrived after the last resume token. The stream has not returned them yet.
    records: Vec<JsonRecord>,
    /// Versions of `records`, if the request asks for versions.
    versions: Option<Vec<Option<i64>>>,
    step_bytes: usize,
    /// Number of cut connections since the last resume token arrived.
    failures: u32,
    is_over: bool,
}

impl<'a> Export<'a> {
    /// Returns the next step of the export, or `None` after the last step and after an error.
    async fn next(&mut self) -> Option<Result<ScanStep>> {
        while !self.is_over {
            match self.advance().await {
                Ok(Some(step)) => return Some(Ok(step)),
                Ok(None) => {}
                Err(error) => {
                    self.is_over = true;
                    return Some(Err(error));
                }
            }
        }
        None
    }

    /// Sends the request if there is no response yet; otherwise reads one line of the response.
    /// Returns a step of the export if the line is the resume token that completes it.
    async fn advance(&mut self) -> Result<Option<ScanStep>> {
        let Some(response) = &mut self.response else {
            self.response = Some(self.begin().await?);
            return Ok(None);
        };
        if self.step_bytes > MAX_STEP_BYTES {
            return Err(unexpected_reply(self.client.server()));
        }
        match response.line(MAX_STEP_BYTES).await {
            Ok(line) => {
                self.step_bytes += line.len();
                self.take(&line)
            }
            Err(error) if error.kind() == ErrorKind::Store => Err(error),
            Err(error) => self.cut(error).await.map(|()| None),
        }
    }

    /// Requests the records of the export after the last resume token.
    async fn begin(&self) -> Result<Response<'a>> {
        let options = ExportOptions { resume_tokens: true };
        let query = Query::of(&self.request).and(&options);
        let path = collection_path(&self.collection, "/records:export");
        self.client.call(&query.request(&path, &path)).await
    }

    /// Discards records after the last resume token, and waits before the export continues, because
    /// the connection was cut.
    ///
    /// # Errors
    /// `error`, if the connection was cut [`MAX_RESUMES`] times without a new resume token.
    async fn cut(&mut self, error: Error) -> Result<()> {
        self.response = None;
        self.records.clear();
        self.versions.iter_mut().for_each(Vec::clear);
        self.step_bytes = 0;
        if self.failures >= MAX_RESUMES {
            return Err(error);
        }
        sleep(backoff(self.failures)).await;
        self.failures += 1;
        Ok(())
    }

    fn take(&mut self, line: &[u8]) -> Result<Option<ScanStep>> {
        let server = self.client.server();
        let wrong = |error: serde_json::Error| unexpected_reply(server).with_source(error);
        let line: Line = serde_json::from_slice(line).map_err(wrong)?;
        match line {
            Line {
                problem: Some(problem),
                ..
            } => Err(error_of_problem(problem)),
            Line {
                record: Some(record),
                version,
                ..
            } => {
                self.records.push(record);
                self.versions
                    .iter_mut()
                    .for_each(|all| all.push(number(version.clone())));
                Ok(None)
            }
            Line {
                resume_token: Some(token),
                ..
            } if token.is_empty() => {
                self.is_over = true;
                self.request.resume_token = None;
                Ok((!self.records.is_empty()).then(|| self.step(None)))
            }
            Line {
                resume_token: Some(token),
                ..
            } => {
                self.failures = 0;
                self.request.resume_token = Some(token.clone());
                Ok(Some(self.step(Some(token))))
            }
            Line { .. } => Err(unexpected_reply(server)),
        }
    }

    fn step(&mut self, resume: Option<String>) -> ScanStep {
        self.step_bytes = 0;
        ScanStep {
            records: std::mem::take(&mut self.records),
            resume,
            versions: self.versions.as_mut().map(std::mem::take),
        }
    }
}
