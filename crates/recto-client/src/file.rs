//! Sending of a file as the body of a request.

use std::io;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use futures::StreamExt as _;
use futures::stream;
use http_body_util::{BodyExt as _, StreamBody};
use hyper::body::{Bytes, Frame};
use tokio::sync::Notify;

use crate::client::RequestBody;

/// Number of bytes of a file that are read and sent at a time.
const PIECE_BYTES: usize = 256 << 10;
/// Maximum time to wait until the server asks for the file (`100 Continue`). The client then sends
/// the file anyway, because some servers and proxies never ask.
const CONTINUE_WAIT: Duration = Duration::from_secs(1);

/// Progress of a file upload, shared by the sender of the request and its body.
#[derive(Debug, Default)]
pub(crate) struct Sending {
    sent: AtomicU64,
    wanted: Notify,
}

impl Sending {
    /// Returns the number of bytes of the file that the body has passed to the connection so far.
    pub(crate) fn sent(&self) -> u64 {
        self.sent.load(Ordering::Relaxed)
    }

    /// Lets the body start to send the file, because the server asked for it.
    pub(crate) fn start(&self) {
        self.wanted.notify_one();
    }
}

/// Returns a file as the body of a request. The file is sent when the server asks for it, or after [`CONTINUE_WAIT`].
///
/// # Errors
/// The file cannot be opened.
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
