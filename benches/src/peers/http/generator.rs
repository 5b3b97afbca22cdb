//! Load generator for HTTP servers. It runs on one thread, with persistent connections and one
//! request at a time on each. To use little processor time, it sends prepared requests, and parses
//! responses only as far as HTTP/1.1 requires (RFC 9112, sections 6 and 7).

use std::cell::Cell;
use std::io::{Error, ErrorKind, Result};
use std::net::SocketAddr;
use std::rc::Rc;
use std::time::{Duration, Instant};

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::task::LocalSet;
use tokio::time::timeout;

use crate::measure::{micros, quantile};
use crate::peers::ours::runtime;

/// Maximum time to wait for an HTTP response.
const ANSWER: Duration = Duration::from_secs(60);
/// Maximum size of an HTTP response, in bytes.
const MAX_ANSWER_BYTES: usize = 16 << 20;

/// Condition that ends a run of the load generator: a duration, or a number of requests.
#[derive(Debug, Clone, Copy)]
pub(crate) enum RunLimit {
    Elapsed(Duration),
    Requests(u64),
}

/// Results of a run of the load generator.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Driven {
    pub(crate) answered: u64,
    /// Number of requests that got no response, or a status other than 200.
    pub(crate) failed: u64,
    pub(crate) seconds: f64,
    /// Median time from a request to the end of its response, in microseconds. The next field is
    /// the 99th percentile.
    pub(crate) half: f64,
    pub(crate) ninety_nine: f64,
}

impl Driven {
    pub(crate) fn rate(&self) -> f64 {
        self.answered as f64 / self.seconds
    }
}

/// Complete HTTP response.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) body: Vec<u8>,
    /// Size of the response with its headers, in bytes.
    pub(crate) bytes: usize,
}

/// Returns the bytes of an HTTP/1.1 GET request.
pub(crate) fn request(address: SocketAddr, target: &str) -> Vec<u8> {
    format!("GET {target} HTTP/1.1\r\nHost: {address}\r\nAccept: application/json\r\n\r\n").into_bytes()
}

/// Sends one GET request on a new connection, and returns the response.
pub(crate) fn get(address: SocketAddr, target: &str) -> Result<Answer> {
    runtime().block_on(async {
        let mut connection = Connection::open(address).await?;
        connection.ask(&request(address, target)).await?;
        connection.answer()
    })
}

/// Sends requests on a number of connections until the limit `until`, and returns the results. Each
/// connection cycles through all requests, starting at another request.
pub(crate) fn drive(
    address: SocketAddr,
    requests: &Rc<Vec<Vec<u8>>>,
    connections: usize,
    until: RunLimit,
) -> Driven {
    let left = Rc::new(Cell::new(match until {
        RunLimit::Elapsed(_) => u64::MAX,
        RunLimit::Requests(requests) => requests,
    }));
    LocalSet::new().block_on(&runtime(), async {
        let opened = (0..connections).map(|_| Connection::open(address));
        let opened = futures::future::join_all(opened).await;
        let started = Instant::now();
        let end = match until {
            RunLimit::Elapsed(time) => Some(started + time),
            RunLimit::Requests(_) => None,
        };
        let tasks: Vec<_> = opened
            .into_iter()
            .enumerate()
            .map(|(number, connection)| {
                let first = number * requests.len() / connections;
                let asker = Asker {
                    address,
                    requests: Rc::clone(requests),
                    left: Rc::clone(&left),
                    end,
                };
                tokio::task::spawn_local(asker.ask(connection.ok(), first))
            })
            .collect();
        let mut taken = Vec::new();
        let mut failed = 0;
        for task in tasks {
            let (more, failures) = task.await.expect("an asker does not panic");
            taken.extend(more);
            failed += failures;
        }
        let seconds = started.elapsed().as_secs_f64();
        Driven {
            answered: taken.len() as u64,
            failed,
            seconds,
            half: quantile(taken.clone(), 0.5),
            ninety_nine: quantile(taken, 0.99),
        }
    })
}

/// Client with one of the connections of a run, and the requests to send.
struct Asker {
    address: SocketAddr,
    requests: Rc<Vec<Vec<u8>>>,
    /// Number of requests that the clients of the run must still send, shared by all clients.
    left: Rc<Cell<u64>>,
    end: Option<Instant>,
}

impl Asker {
    /// Sends requests until the run ends. Returns the time of each response in microseconds, and
    /// the number of failed requests.
    async fn ask(self, mut connection: Option<Connection>, first: usize) -> (Vec<f64>, u64) {
        let mut taken = Vec::new();
        let mut failed = 0;
        for number in first.. {
            if self.left.get() == 0 || self.end.is_some_and(|end| Instant::now() >= end) {
                break;
            }
            self.left.set(self.left.get() - 1);
            let started = Instant::now();
            if connection.is_none() {
                connection = Connection::open(self.address).await.ok();
            }
            let request = &self.requests[number % self.requests.len()];
            let status = match connection.as_mut() {
                Some(open) => open.ask(request).await,
                None => Err(ErrorKind::ConnectionRefused.into()),
            };
            match status {
                Ok(200) => taken.push(micros(started.elapsed())),
                Ok(_) => failed += 1,
                Err(_) => {
                    failed += 1;
                    connection = None;
                }
            }
        }
        (taken, failed)
    }
}

/// Persistent HTTP connection to a server.
#[derive(Debug)]
pub(crate) struct Connection {
    stream: TcpStream,
    /// Bytes of the response to the last request, with its headers.
    buffer: Vec<u8>,
}

impl Connection {
    pub(crate) async fn open(address: SocketAddr) -> Result<Self> {
        let stream = timeout(ANSWER, TcpStream::connect(address)).await??;
        stream.set_nodelay(true)?;
        Ok(Self {
            stream,
            buffer: Vec::new(),
        })
    }

    /// Sends a request, and reads the complete response into the buffer. Returns the HTTP status.
    pub(crate) async fn ask(&mut self, request: &[u8]) -> Result<u16> {
        timeout(ANSWER, self.exchange(request)).await?
    }

    async fn exchange(&mut self, request: &[u8]) -> Result<u16> {
        self.buffer.clear();
        self.stream.write_all(request).await?;
        let mut head = None;
        loop {
            if self.stream.read_buf(&mut self.buffer).await? == 0 {
                return Err(ErrorKind::UnexpectedEof.into());
            }
            if head.is_none() {
                head = Head::read(&self.buffer)?;
            }
            if let Some(head) = &head
                && head.is_whole(&self.buffer)?
            {
                return Ok(head.status);
            }
            if self.buffer.len() > MAX_ANSWER_BYTES {
                return Err(invalid("the answer is too large"));
            }
        }
    }

    /// Returns the parsed response to the last request.
    fn answer(&self) -> Result<Answer> {
        let head = Head::read(&self.buffer)?.ok_or_else(|| invalid("there is no answer"))?;
        let text = str::from_utf8(&self.buffer[..head.end]).map_err(|_| invalid("headers are no text"))?;
        let headers = text
            .lines()
            .filter_map(|line| line.split_once(": "))
            .map(|(name, value)| (name.to_ascii_lowercase(), value.to_owned()))
            .collect();
        let body = match head.length {
            Some(_) => self.buffer[head.end..].to_vec(),
            None => unchunked(&self.buffer[head.end..])?,
        };
        Ok(Answer {
            status: head.status,
            headers,
            body,
            bytes: self.buffer.len(),
        })
    }
}

fn invalid(what: &str) -> Error {
    Error::new(ErrorKind::InvalidData, what)
}

/// Status line and headers of an HTTP response, parsed as far as the load generator needs them.
#[derive(Debug, PartialEq, Eq)]
struct Head {
    status: u16,
    /// Length of the status line and the headers, in bytes.
    end: usize,
    /// Length of the body in bytes; `None` if the body is chunked.
    length: Option<usize>,
}

impl Head {
    /// Parses the status line and the headers of a response. Returns `None` if they have not
    /// arrived completely.
    fn read(buffer: &[u8]) -> Result<Option<Self>> {
        let Some(end) = buffer.windows(4).position(|bytes| bytes == b"\r\n\r\n") else {
            return Ok(None);
        };
        let text = str::from_utf8(&buffer[..end]).map_err(|_| invalid("headers are no text"))?;
        let mut lines = text.lines();
        let status = lines.next().and_then(|line| line.split(' ').nth(1)?.parse().ok());
        let status = status.ok_or_else(|| invalid("there is no status"))?;
        let (mut length, mut chunked) = (None, false);
        for (name, value) in lines.filter_map(|line| line.split_once(':')) {
            if name.eq_ignore_ascii_case("content-length") {
                length = value.trim().parse().ok();
            } else if name.eq_ignore_ascii_case("transfer-encoding") {
                chunked = value.trim().eq_ignore_ascii_case("chunked");
            }
        }
        if length.is_none() && !chunked {
            return Err(invalid("the answer has no length"));
        }
        let length = length.filter(|_| !chunked);
        Ok(Some(Self {
            status,
            end: end + 4,
            length,
        }))
    }

    fn is_whole(&self, buffer: &[u8]) -> Result<bool> {
        match self.length {
            Some(length) => Ok(buffer.len() >= self.end + length),
            // A complete chunked body ends with these bytes. Check for them first, because parsing
            // all chunks after each read would take long.
            None if !buffer.ends_with(b"0\r\n\r\n") => Ok(false),
            None => Ok(chunks(&buffer[self.end..])?.is_some()),
        }
    }
}

/// Returns the chunks of a chunked HTTP body, or `None` if some chunks have not arrived yet.
fn chunks(mut body: &[u8]) -> Result<Option<Vec<&[u8]>>> {
    let mut found = Vec::new();
    loop {
        let Some(end) = body.windows(2).position(|bytes| bytes == b"\r\n") else {
            return Ok(None);
        };
        let size = str::from_utf8(&body[..end]).ok().and_then(|text| {
            let digits = text.split(';').next().unwrap_or_default().trim();
            usize::from_str_radix(digits, 16).ok()
        });
        let size = size.filter(|size| *size <= MAX_ANSWER_BYTES);
        let size = size.ok_or_else(|| invalid("a chunk has no size"))?;
        let Some(rest) = body.get(end + 2 + size + 2..) else {
            return Ok(None);
        };
        if size == 0 {
            return Ok(Some(found));
        }
        found.push(&body[end + 2..end + 2 + size]);
        body = rest;
    }
}

fn unchunked(body: &[u8]) -> Result<Vec<u8>> {
    let chunks = chunks(body)?.ok_or_else(|| invalid("the body is cut"))?;
    Ok(chunks.concat())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_is_whole_at_its_last_byte_only() {
        let plain = b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello".as_slice();
        let chunked = b"HTTP/1.1 503 No\r\ntransfer-encoding: chunked\r\n\r\n\
            5;a=b\r\n0\r\n\r\n\r\nA\r\n0123456789\r\n0\r\n\r\n"
            .as_slice();
        for (answer, status) in [(plain, 200), (chunked, 503)] {
            for length in 0..answer.len() {
                let part = &answer[..length];
                let whole = Head::read(part)
                    .unwrap()
                    .is_some_and(|head| head.is_whole(part).unwrap());
                assert!(!whole, "at {length} of {}", answer.len());
            }
            let head = Head::read(answer).unwrap().unwrap();
            assert_eq!(head.status, status);
            assert!(head.is_whole(answer).unwrap());
        }
        let body = &chunked[Head::read(chunked).unwrap().unwrap().end..];
        assert_eq!(unchunked(body).unwrap(), b"0\r\n\r\n0123456789");
    }

    #[test]
    fn rejects_responses_without_a_length() {
        Head::read(b"HTTP/1.1 200 OK\r\n\r\n").unwrap_err();
        Head::read(b"HTTP/1.1\r\ncontent-length: 1\r\n\r\n").unwrap_err();
        chunks(b"xyz\r\n").unwrap_err();
    }
}
