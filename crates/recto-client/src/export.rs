//! All records of a collection or of a filter: a stream that goes on after a cut connection.
//!
//! Lines are records, and after each step of the scan a token. Records are handed on when the token
//! after them has come: a cut connection takes with it only what is asked for again.

use futures::stream::{self, BoxStream, StreamExt as _};
use hyper::body::Incoming;
use recto::session::{JsonRecord, ScanRequest, ScanStep};
use recto::{Error, ErrorKind, Result};
use recto_api::problem::ProblemBody;
use recto_api::scans::ExportOptions;
use serde::Deserialize;
use tokio::time::sleep;

use crate::problem;
use crate::replies::{misunderstood, number};
use crate::target::{self, Query};
use crate::transport::{Transport, backoff};

/// How often in a row an export is asked to go on without having come further.
pub const MAX_RESUMES: u32 = 5;
/// The most bytes of the records between two tokens, and of one line.
pub const MAX_STEP_BYTES: usize = 256 << 20;

/// A line of an export with tokens.
#[derive(Debug, Deserialize)]
struct Line {
    record: Option<JsonRecord>,
    version: Option<String>,
    resume_token: Option<String>,
    problem: Option<ProblemBody>,
}

/// The steps of an export; nothing is asked until it is polled.
pub(crate) fn steps<'a>(
    transport: &'a Transport,
    collection: &str,
    request: &ScanRequest,
) -> BoxStream<'a, Result<ScanStep>> {
    let export = Export {
        transport,
        collection: collection.to_owned(),
        request: request.clone(),
        body: None,
        unread: Unread::default(),
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
            "how much is read side by side is the server's to choose",
        )
        .with_hint("leave --parallel away"))
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

/// An export under way.
struct Export<'a> {
    transport: &'a Transport,
    collection: String,
    /// Records before its resume token were returned.
    request: ScanRequest,
    body: Option<Incoming>,
    unread: Unread,
    /// Records after the token.
    records: Vec<JsonRecord>,
    /// Their versions, if they are asked for.
    versions: Option<Vec<Option<i64>>>,
    step_bytes: usize,
    /// Connections cut since the last token.
    failures: u32,
    is_over: bool,
}

impl Export<'_> {
    /// The next step; nothing after the last one, and nothing after an error.
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

    /// Reads one more piece, which may complete a step.
    async fn advance(&mut self) -> Result<Option<ScanStep>> {
        if self.body.is_none() {
            self.body = Some(self.begin().await?);
            return Ok(None);
        }
        while let Some(line) = self.unread.line() {
            self.step_bytes += line.len();
            if let Some(step) = self.take(&line)? {
                return Ok(Some(step));
            }
        }
        if self.step_bytes + self.unread.len() > MAX_STEP_BYTES {
            return Err(misunderstood(self.transport.server()));
        }
        let Some(body) = &mut self.body else {
            return Ok(None);
        };
        match self.transport.next_piece(body).await {
            Some(Ok(data)) => self.unread.add(&data),
            Some(Err(error)) => self.cut(error).await?,
            None => {
                let message = format!("the export of {} ended before its end", self.transport.server());
                self.cut(Error::new(ErrorKind::Unavailable, message)).await?;
            }
        }
        Ok(None)
    }

    /// Asks for what comes after the token.
    async fn begin(&self) -> Result<Incoming> {
        let options = ExportOptions { resume_tokens: true };
        let query = Query::of(&self.request).and(&options);
        let path = target::of_collection(&self.collection, "/records:export");
        let response = self.transport.stream(&query.ask(&path, &path)).await?;
        Ok(response.into_body())
    }

    /// The connection was cut: what came after the token is asked for again.
    ///
    /// # Errors
    /// It was cut too often.
    async fn cut(&mut self, error: Error) -> Result<()> {
        self.body = None;
        self.unread = Unread::default();
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
        let server = self.transport.server();
        let wrong = |error: serde_json::Error| misunderstood(server).with_source(error);
        let line: Line = serde_json::from_slice(line).map_err(wrong)?;
        match line {
            Line {
                problem: Some(problem),
                ..
            } => Err(problem::error_of_line(problem)),
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
            Line { .. } => Err(misunderstood(server)),
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

/// Bytes that came and were not yet taken as lines.
#[derive(Debug, Default)]
pub(crate) struct Unread {
    bytes: Vec<u8>,
    /// Where the first line begins.
    start: usize,
    /// Up to where there is no line end.
    searched: usize,
}

impl Unread {
    pub(crate) fn add(&mut self, data: &[u8]) {
        self.bytes.drain(..self.start);
        self.searched -= self.start;
        self.start = 0;
        self.bytes.extend_from_slice(data);
    }

    pub(crate) fn len(&self) -> usize {
        self.bytes.len() - self.start
    }

    /// The next whole line, without its end.
    pub(crate) fn line(&mut self) -> Option<Vec<u8>> {
        let found = self.bytes[self.searched..].iter().position(|byte| *byte == b'\n');
        let Some(found) = found else {
            self.searched = self.bytes.len();
            return None;
        };
        let end = self.searched + found;
        let line = self.bytes[self.start..end].to_vec();
        self.start = end + 1;
        self.searched = self.start;
        Some(line)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_whole_however_they_come() {
        for size in 1..8 {
            let mut unread = Unread::default();
            let mut lines = Vec::new();
            for piece in b"one\n\ntwo three\nfour".chunks(size) {
                unread.add(piece);
                lines.extend(std::iter::from_fn(|| unread.line()));
            }
            let expected: [&[u8]; 3] = [b"one", b"", b"two three"];
            assert_eq!(lines, expected, "{size}");
            assert_eq!(unread.len(), 4);
        }
    }
}
