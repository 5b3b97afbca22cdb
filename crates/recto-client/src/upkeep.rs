//! Looking after a store through its server: lines of progress, and the result.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use futures::StreamExt as _;
use futures::stream;
use http_body_util::{BodyExt as _, StreamBody};
use hyper::Response;
use hyper::body::{Bytes, Frame, Incoming};
use recto::{Error, ErrorKind, Result};
use recto_api::problem::ProblemBody;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use tokio::sync::Notify;

use crate::export::Unread;
use crate::problem;
use crate::replies::misunderstood;
use crate::transport::{RequestBody, Transport};

/// The longest line: a schema's plan, or what a check found.
const MAX_LINE_BYTES: usize = 64 << 20;
/// Bytes of a file that are read, and sent, at once.
const PIECE_BYTES: usize = 256 << 10;
/// How long it is waited for the server to say that it wants a file. One that does not say so, or a proxy
/// before it, is sent it all the same.
const CONTINUE_WAIT: Duration = Duration::from_secs(1);

/// A line of an answer.
#[derive(Debug, Deserialize)]
struct Line<P, R> {
    progress: Option<P>,
    /// Base64: rows that were rejected need not be UTF-8.
    rejects: Option<String>,
    result: Option<R>,
    problem: Option<ProblemBody>,
}

/// Who hears what an answer says on its way.
pub(crate) struct Heard<'a, P> {
    pub(crate) progress: &'a (dyn Fn(P) + Send + Sync),
    pub(crate) rejects: &'a mut (dyn FnMut(&[u8]) -> Result<()> + Send),
    /// What to do if the answer is cut.
    pub(crate) cut_hint: &'static str,
}

/// Reads an answer to its result.
///
/// # Errors
/// The problem it ends with; `Unavailable` if it is cut.
pub(crate) async fn result<P: DeserializeOwned, R: DeserializeOwned>(
    transport: &Transport,
    response: Response<Incoming>,
    heard: Heard<'_, P>,
) -> Result<R> {
    let mut body = response.into_body();
    let mut unread = Unread::default();
    let strange = || misunderstood(transport.server());
    loop {
        while let Some(line) = unread.line() {
            let line: Line<P, R> =
                serde_json::from_slice(&line).map_err(|error| strange().with_source(error))?;
            if let Some(progress) = line.progress {
                (heard.progress)(progress);
            }
            if let Some(rejects) = line.rejects {
                let rejects = STANDARD.decode(rejects);
                (heard.rejects)(&rejects.map_err(|error| strange().with_source(error))?)?;
            }
            if let Some(problem) = line.problem {
                return Err(problem::error_of_line(problem));
            }
            if let Some(result) = line.result {
                return Ok(result);
            }
        }
        if unread.len() > MAX_LINE_BYTES {
            return Err(strange());
        }
        match transport.next_piece(&mut body).await {
            Some(Ok(data)) => unread.add(&data),
            Some(Err(error)) => return Err(error.with_hint(heard.cut_hint)),
            None => {
                let message = format!("the answer of {} ended before its end", transport.server());
                return Err(Error::new(ErrorKind::Unavailable, message).with_hint(heard.cut_hint));
            }
        }
    }
}

/// How much of a file was sent, and whether the server wants it.
#[derive(Debug, Default)]
pub(crate) struct Sending {
    sent: AtomicU64,
    wanted: Notify,
}

impl Sending {
    /// Bytes of the file that were taken to be sent.
    pub(crate) fn sent(&self) -> u64 {
        self.sent.load(Ordering::Relaxed)
    }

    /// The server wants the file.
    pub(crate) fn go(&self) {
        self.wanted.notify_one();
    }
}

/// A file as the body of a request.
///
/// # Errors
/// It cannot be opened.
pub(crate) fn file_body(path: &Path, sending: Arc<Sending>) -> io::Result<RequestBody> {
    let file = std::fs::File::open(path)?;
    let wait = Arc::clone(&sending);
    let begin = async move {
        let _ = tokio::time::timeout(CONTINUE_WAIT, wait.wanted.notified()).await;
        file
    };
    let pieces = stream::once(begin).flat_map(move |file| {
        let sending = Arc::clone(&sending);
        stream::unfold(Some(file), move |file| {
            let sending = Arc::clone(&sending);
            async move {
                let file = file?;
                let read = tokio::task::spawn_blocking(move || read_piece(file)).await;
                match read.unwrap_or_else(|error| Err(io::Error::other(error))) {
                    Ok((_, piece)) if piece.is_empty() => None,
                    Ok((file, piece)) => {
                        sending.sent.fetch_add(piece.len() as u64, Ordering::Relaxed);
                        Some((Ok(Frame::data(Bytes::from(piece))), Some(file)))
                    }
                    Err(error) => Some((Err(error), None)),
                }
            }
        })
    });
    Ok(StreamBody::new(pieces).boxed_unsync())
}

fn read_piece(mut file: std::fs::File) -> io::Result<(std::fs::File, Vec<u8>)> {
    use std::io::Read as _;
    let mut piece = Vec::new();
    file.by_ref().take(PIECE_BYTES as u64).read_to_end(&mut piece)?;
    Ok((file, piece))
}

/// The rejected rows of a load, as they come; the file has its name once all have.
#[derive(Debug)]
pub(crate) struct RejectFile {
    /// Its name, or that without the ending that the server will tell.
    path: PathBuf,
    is_named: bool,
    received: PathBuf,
    file: Option<std::fs::File>,
}

impl RejectFile {
    /// Where the rejects of a file go: where it is said, or beside it.
    pub(crate) fn new(named: Option<&Path>, file: &Path) -> Self {
        let path = named.map_or_else(|| with_suffix(file, ".rejects"), Path::to_owned);
        Self {
            received: with_suffix(&path, ".received"),
            is_named: named.is_some(),
            path,
            file: None,
        }
    }

    pub(crate) fn add(&mut self, bytes: &[u8]) -> Result<()> {
        use std::io::Write as _;
        let added = (|| {
            let file = match &mut self.file {
                Some(file) => file,
                None => self.file.insert(std::fs::File::create(&self.received)?),
            };
            file.write_all(bytes)
        })();
        added.map_err(|error| unwritable(&self.path, error))
    }

    /// Gives it its name; `ending` is that of the format. None if nothing was rejected.
    pub(crate) fn finish(self, ending: Option<&str>) -> Result<Option<PathBuf>> {
        let (Some(file), Some(ending)) = (self.file, ending) else {
            return Ok(None);
        };
        let path = if self.is_named {
            self.path
        } else {
            with_suffix(&self.path, &format!(".{ending}"))
        };
        // The same load asked for again sends the same rejects again.
        let is_other = path.exists() && !same_content(&path, &self.received).unwrap_or(false);
        if is_other {
            let message = format!(
                "the rejected rows are in {}: at {} is another file",
                self.received.display(),
                path.display()
            );
            return Err(Error::new(ErrorKind::InvalidArgument, message)
                .with_field("rejects")
                .with_hint("what could be loaded is; move either file away"));
        }
        let named = file
            .sync_all()
            .and_then(|()| std::fs::rename(&self.received, &path));
        named.map_err(|error| unwritable(&path, error))?;
        Ok(Some(path))
    }
}

fn same_content(one: &Path, other: &Path) -> io::Result<bool> {
    let mut files = [std::fs::File::open(one)?, std::fs::File::open(other)?];
    loop {
        let [first, second] = &mut files;
        let (_, left) = read_piece(first.try_clone()?)?;
        let (_, right) = read_piece(second.try_clone()?)?;
        if left != right {
            return Ok(false);
        }
        if left.is_empty() {
            return Ok(true);
        }
    }
}

fn with_suffix(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(suffix);
    name.into()
}

fn unwritable(path: &Path, error: io::Error) -> Error {
    let message = format!(
        "the rejected rows cannot be written to {}: {error}",
        path.display()
    );
    Error::new(ErrorKind::Io, message)
        .with_hint("make room, or name another file with --rejects; the same command sends them again")
        .with_source(error)
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn rejects_take_their_name_when_all_have_come_and_replace_nothing_else() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("rows.csv.gz");
        let load = |text: &str| {
            let mut rejects = RejectFile::new(None, &file);
            rejects.add(text.as_bytes()).unwrap();
            rejects
        };
        assert_eq!(RejectFile::new(None, &file).finish(None).unwrap(), None);
        let path = load("a\n").finish(Some("csv")).unwrap().unwrap();
        assert_eq!(path, folder.path().join("rows.csv.gz.rejects.csv"));
        assert_eq!(load("a\n").finish(Some("csv")).unwrap().as_ref(), Some(&path));
        let error = load("b\n").finish(Some("csv")).unwrap_err();
        assert!(error.to_string().contains("another file"), "{error}");
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "a\n");
        let named = folder.path().join("bad");
        let mut rejects = RejectFile::new(Some(&named), &file);
        rejects.add(b"\xff").unwrap();
        assert_eq!(rejects.finish(Some("csv")).unwrap(), Some(named));
    }
}
