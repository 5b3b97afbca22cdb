//! Connections, deadlines, limits, and what is tried again.

use std::io;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt as _, Full, LengthLimitError, Limited};
use hyper::body::{Bytes, Incoming};
use hyper::header::{
    ACCEPT, AUTHORIZATION, CONTENT_LENGTH, CONTENT_TYPE, EXPECT, HeaderValue, IF_MATCH, RETRY_AFTER,
    USER_AGENT,
};
use hyper::{HeaderMap, Method, Request, Response, StatusCode, Uri};
use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use recto::{Error, ErrorKind, HttpAddress, Result};
use serde_json::Value as Json;
use tokio::time::{sleep, timeout};

use crate::target::Ask;
use crate::upkeep::{self, Sending};
use crate::{credentials, problem, tls};

/// How long connecting may take unless the address says otherwise.
pub const DEFAULT_CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// How long the server may take to answer unless the address says otherwise: longer than a server
/// gives itself, so that its own answer is heard.
pub const DEFAULT_REQUEST_TIMEOUT: Duration = Duration::from_secs(60);
/// The most bytes of an answer that is read as a whole.
pub const MAX_REPLY_BYTES: usize = 256 << 20;
/// The most bytes of an answer that says what is wrong.
const MAX_PROBLEM_BYTES: usize = 1 << 20;
/// How often a request is sent that may be sent again: one that only reads, or one that the server
/// did not take.
pub const MAX_ATTEMPTS: u32 = 3;
/// The wait before the second attempt; it doubles from one to the next.
const FIRST_WAIT: Duration = Duration::from_millis(200);
/// The longest wait that a busy server is granted before the next attempt.
pub const MAX_RETRY_AFTER: Duration = Duration::from_secs(5);

/// How often it is told how much of a file was sent.
const TELL_INTERVAL: Duration = Duration::from_millis(100);

const AGENT: &str = concat!("recto/", env!("CARGO_PKG_VERSION"));
const APPLICATION_JSON: HeaderValue = HeaderValue::from_static("application/json");
const OCTETS: HeaderValue = HeaderValue::from_static("application/octet-stream");
const CONTINUE: HeaderValue = HeaderValue::from_static("100-continue");
const ACCEPTED: HeaderValue =
    HeaderValue::from_static("application/json, application/x-ndjson, application/problem+json");

/// The body of a request.
pub(crate) type RequestBody = UnsyncBoxBody<Bytes, io::Error>;

/// A way to one server.
#[derive(Debug)]
pub(crate) struct Transport {
    client: Client<HttpsConnector<HttpConnector>, RequestBody>,
    server: String,
    authorization: Option<HeaderValue>,
    request_timeout: Duration,
}

/// An answer read to its end.
#[derive(Debug)]
pub(crate) struct Reply {
    pub(crate) headers: HeaderMap,
    pub(crate) body: Bytes,
}

/// Why an attempt failed, as far as the next one is concerned.
#[derive(Debug)]
pub(crate) enum Failed {
    /// The server was not reached: nothing was sent.
    NotSent(Error),
    /// No answer came, or not all of it: what was asked may have been done.
    Lost(Error),
    /// The server answered that it did not do it, and will later.
    Later(Error, Duration),
    /// The server answered that it did not do it.
    Refused(Error),
}

impl Transport {
    /// The way to the server of an address. Nothing is sent yet.
    ///
    /// # Errors
    /// The token or the certificate authorities cannot be used.
    pub(crate) fn new(address: &HttpAddress) -> Result<Self> {
        let mut connector = HttpConnector::new();
        connector.enforce_http(false);
        connector.set_nodelay(true);
        connector.set_connect_timeout(Some(address.connect_timeout.unwrap_or(DEFAULT_CONNECT_TIMEOUT)));
        let connector = HttpsConnectorBuilder::new()
            .with_tls_config(tls::config(address)?)
            .https_or_http()
            .enable_http1()
            .wrap_connector(connector);
        Ok(Self {
            client: Client::builder(TokioExecutor::new()).build(connector),
            server: address.to_string(),
            authorization: credentials::authorization(address)?,
            request_timeout: address.request_timeout.unwrap_or(DEFAULT_REQUEST_TIMEOUT),
        })
    }

    /// The server's address, for people.
    pub(crate) fn server(&self) -> &str {
        &self.server
    }

    /// Asks for a resource; asks again if the answer is lost.
    pub(crate) async fn get(&self, target: &str) -> Result<Reply> {
        self.ask(&Ask::get(target)).await
    }

    /// Asks what only reads; asks again if the answer is lost.
    pub(crate) async fn ask(&self, ask: &Ask) -> Result<Reply> {
        let mut attempts = Attempts::default();
        loop {
            let attempt = match self.send(ask).await {
                Ok(response) => self.read(response).await,
                Err(failed) => Err(failed),
            };
            match attempt {
                Ok(reply) => return Ok(reply),
                Err(failed) => attempts.again(failed).await?,
            }
        }
    }

    /// Asks for what is read as it comes; asks again if it does not begin.
    pub(crate) async fn stream(&self, ask: &Ask) -> Result<Response<Incoming>> {
        let mut attempts = Attempts::default();
        loop {
            match self.send(ask).await {
                Ok(response) => return Ok(response),
                Err(failed) => attempts.again(failed).await?,
            }
        }
    }

    /// Asks for a change, with a body or without. It is sent again only if the server has certainly not
    /// taken it: were it sent twice, the second could undo what another did in between.
    ///
    /// # Errors
    /// `OutcomeUnknown`, if it was sent and no answer came.
    pub(crate) async fn change(
        &self,
        method: Method,
        target: &str,
        body: Option<&Json>,
    ) -> Result<Response<Incoming>> {
        let body = body.map(Json::to_string).unwrap_or_default();
        self.change_by(&Ask::new(method, target, body)).await
    }

    /// The same, by a request as it is.
    pub(crate) async fn change_by(&self, ask: &Ask) -> Result<Response<Incoming>> {
        let mut attempts = Attempts::default();
        loop {
            match self.send(ask).await {
                // That it was done is said by the status; the rest of most answers only repeats what was asked.
                Ok(response) => return Ok(response),
                Err(Failed::Lost(error)) => return Err(self.unknown(error)),
                Err(Failed::Refused(error)) if error.kind() == ErrorKind::Timeout => {
                    return Err(self.unknown(error));
                }
                Err(failed) => attempts.again(failed).await?,
            }
        }
    }

    /// Asks for work whose answer is read as it comes. It is sent again only if the server has certainly not
    /// begun it.
    ///
    /// # Errors
    /// With `cut_hint`, if it was sent and no answer came.
    pub(crate) async fn begin(
        &self,
        target: &str,
        body: Option<&Json>,
        cut_hint: &str,
    ) -> Result<Response<Incoming>> {
        let body = body.map(Json::to_string).unwrap_or_default();
        self.begin_by(&Ask::new(Method::POST, target, body), cut_hint)
            .await
    }

    /// The same, by a request as it is.
    pub(crate) async fn begin_by(&self, ask: &Ask, cut_hint: &str) -> Result<Response<Incoming>> {
        let mut attempts = Attempts::default();
        loop {
            match self.send(ask).await {
                Ok(response) => return Ok(response),
                Err(Failed::Lost(error)) => return Err(error.with_hint(cut_hint)),
                Err(failed) => attempts.again(failed).await?,
            }
        }
    }

    /// Sends a file, and returns when a good answer begins; `tell` hears how many bytes were sent. The file
    /// is not sent before the server says that it wants it.
    pub(crate) async fn send_file(
        &self,
        target: &str,
        path: &Path,
        bytes: u64,
        tell: &(dyn Fn(u64) + Send + Sync),
    ) -> Result<Response<Incoming>> {
        let sending = Arc::new(Sending::default());
        let body = upkeep::file_body(path, Arc::clone(&sending)).map_err(|error| {
            Error::new(
                ErrorKind::Io,
                format!("{} cannot be read: {error}", path.display()),
            )
        })?;
        let mut request = self.request(Method::POST, target, body)?;
        let headers = request.headers_mut();
        headers.insert(CONTENT_TYPE, OCTETS);
        headers.insert(CONTENT_LENGTH, HeaderValue::from(bytes));
        headers.insert(EXPECT, CONTINUE);
        let goes = Arc::clone(&sending);
        hyper::ext::on_informational(&mut request, move |_| goes.go());
        let mut answer = std::pin::pin!(self.client.request(request));
        let mut ticks = tokio::time::interval(TELL_INTERVAL);
        let (mut sent, mut stalled) = (0, Duration::ZERO);
        let answer = loop {
            tokio::select! {
                answer = &mut answer => break answer,
                _ = ticks.tick() => {}
            }
            let now = sending.sent();
            stalled = if now == sent {
                stalled + TELL_INTERVAL
            } else {
                Duration::ZERO
            };
            sent = now;
            if stalled >= self.request_timeout {
                return Err(self.too_slow());
            }
            tell(sent);
        };
        match answer {
            Err(error) if error.is_connect() => Err(self.unreachable(&error)),
            Err(error) => Err(self.cut(&error)),
            Ok(response) if response.status().is_success() => Ok(response),
            Ok(response) => match self.refused(response).await {
                Failed::Refused(error)
                | Failed::Later(error, _)
                | Failed::NotSent(error)
                | Failed::Lost(error) => Err(error),
            },
        }
    }

    /// Waits for what comes next of an answer, as long as for a whole one.
    pub(crate) async fn next_piece(&self, body: &mut Incoming) -> Option<Result<Bytes, Error>> {
        loop {
            let frame = match timeout(self.request_timeout, body.frame()).await {
                Ok(frame) => frame?,
                Err(_) => return Some(Err(self.too_slow())),
            };
            match frame.map(hyper::body::Frame::into_data) {
                Ok(Ok(data)) => return Some(Ok(data)),
                // Trailers.
                Ok(Err(_)) => {}
                Err(error) => return Some(Err(self.cut(&error))),
            }
        }
    }

    /// Sends a request once; returns when a good answer begins.
    async fn send(&self, ask: &Ask) -> Result<Response<Incoming>, Failed> {
        let body = Full::new(ask.body.clone())
            .map_err(|never| match never {})
            .boxed_unsync();
        let request = self.request(ask.method.clone(), &ask.target, body);
        let mut request = request.map_err(Failed::Refused)?;
        if !ask.body.is_empty() {
            request.headers_mut().insert(CONTENT_TYPE, APPLICATION_JSON);
        }
        let tag = ask
            .if_version
            .map(|version| HeaderValue::try_from(format!("\"{version}\"")));
        if let Some(Ok(tag)) = tag {
            request.headers_mut().insert(IF_MATCH, tag);
        }
        let limit = self.request_timeout.saturating_add(ask.wait);
        let response = match timeout(limit, self.client.request(request)).await {
            Err(_) => return Err(Failed::Lost(self.too_slow())),
            Ok(Err(error)) if error.is_connect() => return Err(Failed::NotSent(self.unreachable(&error))),
            Ok(Err(error)) => return Err(Failed::Lost(self.cut(&error))),
            Ok(Ok(response)) => response,
        };
        if response.status().is_success() {
            return Ok(response);
        }
        Err(self.refused(response).await)
    }

    fn request(&self, method: Method, target: &str, body: RequestBody) -> Result<Request<RequestBody>> {
        // Longer ones do not fit the type; servers take shorter ones. Questions go into a body before.
        let uri = Uri::try_from(format!("{}{target}", self.server)).map_err(|_| {
            Error::new(
                ErrorKind::LimitExceeded,
                "the request is longer than an address can be",
            )
            .with_hint(
                "a key this long has no address: page or scan to its record, or ask where the store is",
            )
        })?;
        let mut request = Request::new(body);
        *request.method_mut() = method;
        *request.uri_mut() = uri;
        let headers = request.headers_mut();
        headers.insert(USER_AGENT, HeaderValue::from_static(AGENT));
        headers.insert(ACCEPT, ACCEPTED);
        if let Some(authorization) = &self.authorization {
            headers.insert(AUTHORIZATION, authorization.clone());
        }
        Ok(request)
    }

    async fn read(&self, response: Response<Incoming>) -> Result<Reply, Failed> {
        let (parts, body) = response.into_parts();
        let body = Limited::new(body, MAX_REPLY_BYTES).collect();
        match timeout(self.request_timeout, body).await {
            Ok(Ok(body)) => Ok(Reply {
                headers: parts.headers,
                body: body.to_bytes(),
            }),
            Ok(Err(error)) if error.is::<LengthLimitError>() => Err(Failed::Refused(too_large(&self.server))),
            Ok(Err(error)) => Err(Failed::Lost(self.cut(&*error))),
            Err(_) => Err(Failed::Lost(self.too_slow())),
        }
    }

    /// The rest of a good answer.
    pub(crate) async fn read_whole(&self, response: Response<Incoming>) -> Result<Reply> {
        self.read(response).await.map_err(|failed| match failed {
            Failed::NotSent(error)
            | Failed::Lost(error)
            | Failed::Later(error, _)
            | Failed::Refused(error) => error,
        })
    }

    /// What an answer other than a good one says.
    async fn refused(&self, response: Response<Incoming>) -> Failed {
        let (parts, body) = response.into_parts();
        let body = Limited::new(body, MAX_PROBLEM_BYTES).collect();
        let body = match timeout(self.request_timeout, body).await {
            Ok(Ok(body)) => body.to_bytes(),
            // The status says enough.
            Ok(Err(_)) | Err(_) => Bytes::new(),
        };
        let error = problem::error(&self.server, parts.status, &body);
        let is_busy = matches!(
            parts.status,
            StatusCode::TOO_MANY_REQUESTS | StatusCode::SERVICE_UNAVAILABLE
        );
        let after = parts
            .headers
            .get(RETRY_AFTER)
            .and_then(|value| value.to_str().ok());
        let after = after.and_then(|text| text.parse().ok()).map(Duration::from_secs);
        match after {
            Some(after) if is_busy && after <= MAX_RETRY_AFTER => Failed::Later(error, after),
            _ => Failed::Refused(error),
        }
    }

    fn unreachable(&self, error: &(dyn std::error::Error + 'static)) -> Error {
        Error::new(
            ErrorKind::Unavailable,
            format!("{} cannot be reached", self.server),
        )
        .with_hint(unreachable_hint(&innermost(error)))
        .with_source(innermost(error))
    }

    fn cut(&self, error: &(dyn std::error::Error + 'static)) -> Error {
        let message = format!("the connection to {} was cut", self.server);
        Error::new(ErrorKind::Unavailable, message).with_source(innermost(error))
    }

    fn too_slow(&self) -> Error {
        let limit = self.request_timeout.as_millis();
        Error::new(
            ErrorKind::Timeout,
            format!("{} did not answer within {limit} ms", self.server),
        )
        .with_hint("request_timeout_ms says how long it is waited for")
    }

    pub(crate) fn unknown(&self, error: Error) -> Error {
        let message = format!(
            "{} did not say whether it made the change: it may or may not have",
            self.server
        );
        Error::new(ErrorKind::OutcomeUnknown, message)
            .with_hint("repeating it settles it")
            .with_source(error)
    }
}

/// The attempts at one request.
#[derive(Debug, Default)]
struct Attempts {
    failed: u32,
}

impl Attempts {
    /// Waits until the next attempt is due.
    ///
    /// # Errors
    /// There is none: it would not help, or there were enough.
    async fn again(&mut self, failed: Failed) -> Result<()> {
        let (error, wait) = match failed {
            Failed::Refused(error) => return Err(error),
            Failed::Later(error, wait) => (error, wait),
            Failed::NotSent(error) | Failed::Lost(error) => (error, backoff(self.failed)),
        };
        self.failed += 1;
        if self.failed >= MAX_ATTEMPTS {
            return Err(error);
        }
        sleep(wait).await;
        Ok(())
    }
}

/// How long is waited after as many failures.
pub(crate) fn backoff(failures: u32) -> Duration {
    FIRST_WAIT * 2_u32.saturating_pow(failures)
}

#[cold]
fn too_large(server: &str) -> Error {
    Error::new(
        ErrorKind::LimitExceeded,
        format!(
            "the answer of {server} is larger than {} MiB",
            MAX_REPLY_BYTES >> 20
        ),
    )
    .with_hint("ask for a smaller page, or fewer fields")
}

/// What to do where no connection came about, by what caused it.
fn unreachable_hint(cause: &str) -> &'static str {
    // So TLS names a certificate that may sign others and is shown as a server's own.
    if cause.contains("CaUsedAsEndEntity") {
        return "the server's certificate is one that signs others (CA:TRUE), which `openssl req -x509` makes unless \
                told otherwise: make it with -addext basicConstraints=critical,CA:FALSE";
    }
    if cause.contains("UnknownIssuer") {
        return "nobody whom this machine trusts signed the server's certificate; ?tls_ca=FILE in the address names \
                whom to trust";
    }
    if cause.contains("NotValidForName") {
        return "the server's certificate is for other names than the one in the address";
    }
    "is `recto serve` running there, and is that the address it printed?"
}

/// The first cause, as text: the layers above it only repeat that something failed.
fn innermost(error: &(dyn std::error::Error + 'static)) -> String {
    let mut cause = error;
    while let Some(source) = cause.source() {
        cause = source;
    }
    cause.to_string()
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use std::io::{Read as _, Write as _};
    use std::net::TcpListener;
    use std::thread::JoinHandle;

    use super::*;

    const DONE: &str = "HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n{}";
    const BUSY: &str = "HTTP/1.1 503 Service Unavailable\r\nretry-after: 0\r\ncontent-length: 0\r\n\r\n";
    const LATER: &str = "HTTP/1.1 503 Service Unavailable\r\nretry-after: 3600\r\ncontent-length: 0\r\n\r\n";
    const SHORT: &str = "HTTP/1.1 200 OK\r\ncontent-length: 20\r\n\r\n{";
    const ELSEWHERE: &str =
        "HTTP/1.1 302 Found\r\nlocation: http://evil.example\r\ncontent-length: 0\r\n\r\n";
    const NOTHING: &str = "";

    /// A server that gives these answers, a connection each, and returns the requests it was sent.
    fn server(answers: &[&'static str]) -> (Transport, JoinHandle<Vec<String>>) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let mut address = HttpAddress::new(false, "127.0.0.1", listener.local_addr().unwrap().port());
        address.set("token", "secret").unwrap();
        address.request_timeout = Some(Duration::from_millis(500));
        let answers = answers.to_vec();
        let requests = std::thread::spawn(move || {
            let answer = |answer: &str| {
                let (mut stream, _) = listener.accept().unwrap();
                let mut request = [0; 4_096];
                let read = stream.read(&mut request).unwrap();
                stream.write_all(answer.as_bytes()).unwrap();
                String::from_utf8_lossy(&request[..read]).into_owned()
            };
            answers.into_iter().map(answer).collect()
        });
        (Transport::new(&address).unwrap(), requests)
    }

    #[tokio::test]
    async fn what_only_reads_is_asked_again() {
        for answers in [[NOTHING, SHORT, DONE], [BUSY, BUSY, DONE]] {
            let (transport, requests) = server(&answers);
            assert_eq!(transport.get("/x?a=%2E%2E").await.unwrap().body, "{}");
            for request in requests.join().unwrap() {
                assert!(request.starts_with("GET /x?a=%2E%2E HTTP/1.1\r\n"), "{request}");
                assert!(request.contains("authorization: Bearer secret\r\n"), "{request}");
            }
        }
        let (transport, requests) = server(&[NOTHING; MAX_ATTEMPTS as usize]);
        assert_eq!(
            transport.get("/x").await.unwrap_err().kind(),
            ErrorKind::Unavailable
        );
        assert_eq!(requests.join().unwrap().len(), 3);
    }

    #[tokio::test]
    async fn a_change_is_sent_again_only_if_it_was_not_taken() {
        let body = serde_json::json!({ "changes": [] });
        let (transport, requests) = server(&[BUSY, DONE]);
        transport.change(Method::POST, "/x", Some(&body)).await.unwrap();
        assert_eq!(requests.join().unwrap().len(), 2);
        let (transport, _) = server(&[NOTHING, DONE]);
        let error = transport
            .change(Method::POST, "/x", Some(&body))
            .await
            .unwrap_err();
        assert_eq!(error.kind(), ErrorKind::OutcomeUnknown);
        assert!(error.hint().is_some());
    }

    #[tokio::test]
    async fn a_server_that_is_busy_for_long_or_elsewhere_is_not_waited_for_nor_followed() {
        let (transport, _) = server(&[LATER, DONE]);
        assert_eq!(
            transport.get("/x").await.unwrap_err().kind(),
            ErrorKind::Unavailable
        );
        let (transport, _) = server(&[ELSEWHERE, DONE]);
        let error = transport.get("/x").await.unwrap_err();
        assert!(error.to_string().contains("302"), "{error}");
        assert!(!format!("{error:?}").contains("secret"));
    }

    #[tokio::test]
    async fn a_server_that_says_nothing_is_not_waited_for_forever() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let mut address = HttpAddress::new(false, "127.0.0.1", listener.local_addr().unwrap().port());
        address.request_timeout = Some(Duration::from_millis(50));
        let transport = Transport::new(&address).unwrap();
        let error = transport.change(Method::DELETE, "/x", None).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::OutcomeUnknown);
        let error = transport.get("/x").await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Timeout);
        assert!(error.to_string().contains("50 ms"));
    }
}
