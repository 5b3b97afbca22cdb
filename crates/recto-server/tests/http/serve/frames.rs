//! HTTP/2 frames (RFC 9113), for sequences that no well-behaved client sends.

use tokio::io::{AsyncRead, AsyncReadExt as _};

use super::support::PATIENCE;

const HEADERS: u8 = 1;
pub(crate) const RST_STREAM: u8 = 3;
pub(crate) const SETTINGS: u8 = 4;
pub(crate) const GOAWAY: u8 = 7;
const END_STREAM: u8 = 1;
const END_HEADERS: u8 = 4;
const CANCEL: u32 = 8;
/// Id of the HTTP/2 setting with the maximum number of concurrent streams.
pub(crate) const MAX_CONCURRENT_STREAMS: u16 = 3;
const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
const FRAME_HEAD_BYTES: usize = 9;

/// HTTP/2 frames that a client sends. Streams have indexes from 0.
pub(crate) struct Frames(Vec<u8>);

impl Frames {
    /// Returns the start of a connection.
    pub(crate) fn client() -> Self {
        let mut frames = Self(PREFACE.to_vec());
        frames.frame(SETTINGS, 0, 0, &[]);
        frames
    }

    pub(crate) fn bytes(self) -> Vec<u8> {
        self.0
    }

    /// Adds a request without a body, on the stream with the index `number`.
    pub(crate) fn get(&mut self, number: usize, path: &str) {
        // `:method: GET` is entry 2 of HPACK's static table (RFC 7541).
        let headers = [vec![0x82], target(path)].concat();
        self.frame(HEADERS, END_HEADERS | END_STREAM, stream(number), &headers);
    }

    /// Adds a request whose body never arrives, on the stream with the index `number`.
    pub(crate) fn put_without_body(&mut self, number: usize, path: &str) {
        // `content-type` is entry 31 of HPACK's static table.
        let headers = [
            literal(&[0x02], "PUT"),
            target(path),
            literal(&[0x0f, 16], "application/json"),
        ];
        self.frame(HEADERS, END_HEADERS, stream(number), &headers.concat());
    }

    /// Adds a frame that cancels the request on the stream with the index `number`.
    pub(crate) fn reset(&mut self, number: usize) {
        self.frame(RST_STREAM, 0, stream(number), &CANCEL.to_be_bytes());
    }

    fn frame(&mut self, kind: u8, flags: u8, stream: u32, payload: &[u8]) {
        let length = u32::try_from(payload.len()).unwrap().to_be_bytes();
        self.0.extend_from_slice(&length[1..]);
        self.0.extend_from_slice(&[kind, flags]);
        self.0.extend_from_slice(&stream.to_be_bytes());
        self.0.extend_from_slice(payload);
    }
}

/// Returns the HTTP/2 id of a stream from its index. Clients use odd ids.
fn stream(number: usize) -> u32 {
    u32::try_from(2 * number + 1).unwrap()
}

/// Encodes the scheme, the path and the host of a request. In HPACK's static table, `:scheme: http`
/// is entry 6, `:path` is entry 4, and `:authority` is entry 1.
fn target(path: &str) -> Vec<u8> {
    [vec![0x86], literal(&[0x04], path), literal(&[0x01], "localhost")].concat()
}

/// Encodes a header field. `name` is the encoded reference to a name in HPACK's static table.
fn literal(name: &[u8], value: &str) -> Vec<u8> {
    assert!(value.len() < 127, "a longer one is encoded otherwise");
    [name, &[u8::try_from(value.len()).unwrap()], value.as_bytes()].concat()
}

/// HTTP/2 frame that the server sent.
#[derive(Debug)]
pub(crate) struct Frame {
    pub(crate) kind: u8,
    payload: Vec<u8>,
}

impl Frame {
    /// Reads the next frame. Returns `None` when the server closes the connection.
    pub(crate) async fn read(stream: &mut (impl AsyncRead + Unpin)) -> Option<Self> {
        let read = async {
            let mut head = [0; FRAME_HEAD_BYTES];
            stream.read_exact(&mut head).await.ok()?;
            let length = u32::from_be_bytes([0, head[0], head[1], head[2]]);
            let mut payload = vec![0; length as usize];
            stream.read_exact(&mut payload).await.ok()?;
            Some(Self {
                kind: head[3],
                payload,
            })
        };
        tokio::time::timeout(PATIENCE, read)
            .await
            .expect("a frame, or the end")
    }

    /// Returns the error code of an HTTP/2 frame that ends a stream or the connection.
    pub(crate) fn code(&self) -> u32 {
        let at = match self.kind {
            GOAWAY => 4,
            _ => 0,
        };
        u32::from_be_bytes(self.payload[at..at + 4].try_into().unwrap())
    }

    /// Returns the value of an HTTP/2 setting, if the frame contains the setting.
    pub(crate) fn setting(&self, wanted: u16) -> Option<u32> {
        let mut settings = self.payload.chunks_exact(6);
        let found = settings.find(|setting| setting[..2] == wanted.to_be_bytes())?;
        Some(u32::from_be_bytes(found[2..].try_into().unwrap()))
    }
}
