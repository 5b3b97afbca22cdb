//! Replies whose bodies are read as they arrive.

use http_body_util::BodyExt as _;
use hyper::body::{Bytes, Frame, Incoming};
use hyper::{HeaderMap, StatusCode};
use recto_api::{Error, ErrorKind, Result};
use tokio::time::timeout;

use crate::client::{Client, unexpected_reply};

/// Successful reply of the server whose body has not been read.
#[derive(Debug)]
pub struct Response<'c> {
    client: &'c Client,
    /// HTTP status of the reply.
    pub status: StatusCode,
    /// Headers of the reply.
    pub headers: HeaderMap,
    pub(crate) body: Incoming,
    lines: Lines,
}

impl<'c> Response<'c> {
    pub(crate) fn new(client: &'c Client, response: hyper::Response<Incoming>) -> Self {
        let (parts, body) = response.into_parts();
        Self {
            client,
            status: parts.status,
            headers: parts.headers,
            body,
            lines: Lines::default(),
        }
    }

    /// Returns the next line of the body without its line end. Each part of the body may take as
    /// long to arrive as a whole reply.
    ///
    /// # Errors
    /// - `Unavailable` if the connection was cut or the body has no further line.
    /// - `Timeout` if no part of the body arrives in time.
    /// - `Store` if the line is longer than `max_bytes`.
    pub async fn line(&mut self, max_bytes: usize) -> Result<Vec<u8>> {
        loop {
            if let Some(line) = self.lines.next() {
                return Ok(line);
            }
            if self.lines.len() > max_bytes {
                return Err(unexpected_reply(self.client.server()));
            }
            match self.piece().await {
                Some(piece) => self.lines.add(&piece?),
                None => return Err(self.ended_early()),
            }
        }
    }

    fn ended_early(&self) -> Error {
        let message = format!("the reply of {} ended too early", self.client.server());
        Error::new(ErrorKind::Unavailable, message)
    }

    async fn piece(&mut self) -> Option<Result<Bytes, Error>> {
        loop {
            let frame = match timeout(self.client.request_timeout, self.body.frame()).await {
                Ok(frame) => frame?,
                Err(_) => return Some(Err(self.client.too_slow())),
            };
            match frame.map(Frame::into_data) {
                Ok(Ok(data)) => return Some(Ok(data)),
                // Skip a frame of trailers, which has no data.
                Ok(Err(_)) => {}
                Err(error) => return Some(Err(self.client.cut(&error))),
            }
        }
    }
}

/// Splitter of a reply's body into lines. It buffers bytes that have arrived but are not returned
/// yet.
#[derive(Debug, Default)]
struct Lines {
    bytes: Vec<u8>,
    /// Offset in `bytes` of the first line that is not returned yet.
    start: usize,
    /// Offset in `bytes` up to which there is no line end after `start`.
    searched: usize,
}

impl Lines {
    fn add(&mut self, data: &[u8]) {
        self.bytes.drain(..self.start);
        self.searched -= self.start;
        self.start = 0;
        self.bytes.extend_from_slice(data);
    }

    fn len(&self) -> usize {
        self.bytes.len() - self.start
    }

    /// Returns the next complete line without its line end, or `None` until more bytes arrive.
    fn next(&mut self) -> Option<Vec<u8>> {
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
    fn lines_are_whole_however_they_arrive() {
        for size in 1..8 {
            let mut unread = Lines::default();
            let mut lines = Vec::new();
            for piece in b"one\n\ntwo three\nfour".chunks(size) {
                unread.add(piece);
                lines.extend(std::iter::from_fn(|| unread.next()));
            }
            let expected: [&[u8]; 3] = [b"one", b"", b"two three"];
            assert_eq!(lines, expected, "{size}");
            assert_eq!(unread.len(), 4);
        }
    }
}
