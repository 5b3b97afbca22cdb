//! HTTP client of a server: connections, deadlines, limits and retries.

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
use hyper::{HeaderMap, Method, StatusCode, Uri};
use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder};
use hyper_util::client::legacy;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use recto_api::address::HttpAddress;
use recto_api::{Error, ErrorKind, Result};
use serde::de::DeserializeOwned;
use tokio::time::{sleep, timeout};

use crate::file::{self, Sending};
use crate::request::{Effect, Request};
use crate::response::Response;
use crate::{credentials, problem, tls};

/// Default of the maximum time to connect to a server.
pub const DEFAULT_CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// Default of the maximum time until the server replies. It is longer than the time limit of the
/// server, so that a slow request gets the server's error, not the client's.
pub const DEFAULT_REQUEST_TIMEOUT: Duration = Duration::from_secs(60);
/// Maximum size of the body of a reply that is read as a whole, in bytes.
pub const MAX_REPLY_BYTES: usize = 256 << 20;
/// Maximum size of the body of an error reply, in bytes.
const MAX_PROBLEM_BYTES: usize = 1 << 20;
/// Maximum number of attempts at a request that can be repeated without harm.
pub const MAX_ATTEMPTS: u32 = 3;
/// Wait before the second attempt at a request. Each later wait is twice the wait before it.
const FIRST_WAIT: Duration = Duration::from_millis(200);
/// Maximum wait that the client accepts from a busy server (header `Retry-After`). If the server
/// asks for more, the client does not repeat the request.
pub const MAX_RETRY_AFTER: Duration = Duration::from_secs(5);
/// Interval between reports of the number of bytes sent, while a file is sent.
const REPORT_INTERVAL: Duration = Duration::from_millis(100);

const AGENT: &str = concat!("recto/", env!("CARGO_PKG_VERSION"));
const APPLICATION_JSON: HeaderValue = HeaderValue::from_static("application/json");
const OCTETS: HeaderValue = HeaderValue::from_static("application/octet-stream");
const CONTINUE: HeaderValue = HeaderValue::from_static("100-continue");
const ACCEPTED: HeaderValue =
    HeaderValue::from_static("application/json, application/x-ndjson, application/problem+json");

pub(crate) type RequestBody = UnsyncBoxBody<Bytes, std::io::Error>;

/// Client of one server, which reuses its connections.
#[derive(Debug)]
pub struct Client {
    connections: legacy::Client<HttpsConnector<HttpConnector>, RequestBody>,
    server: String,
    authorization: Option<HeaderValue>,
    pub(crate) request_timeout: Duration,
}

/// Reply of the server that the client has read completely.
#[derive(Debug)]
pub struct Reply<R> {
    /// HTTP status of the reply.
    pub status: StatusCode,
    /// Headers of the reply.
    pub headers: HeaderMap,
    /// Body of the reply, parsed from JSON.
    pub body: R,
}

/// Failure of one attempt to send a request. The variant decides whether the client may try again.
#[derive(Debug)]
enum Failed {
    /// The client did not reach the server, so the server did not receive the request.
    NotSent(Error),
    /// No reply arrived, or only a part of it. The server may have executed the request.
    Lost(Error),
    /// The server did not execute the request, but will accept it after the given time.
    Later(Error, Duration),
    /// The server rejected the request.
    Refused(Error),
}

impl Failed {
    fn into_error(self) -> Error {
        match self {
            Self::NotSent(error) | Self::Lost(error) | Self::Later(error, _) | Self::Refused(error) => error,
        }
    }
}

impl Client {
    /// Returns a client of the server at an address. The client connects when it sends the first
    /// request.
    ///
    /// # Errors
    /// The token or the certificate authorities cannot be used.
    pub fn new(address: &HttpAddress) -> Result<Self> {
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
            connections: legacy::Client::builder(TokioExecutor::new()).build(connector),
            server: address.to_string(),
            authorization: credentials::authorization(address)?,
            request_timeout: address.request_timeout.unwrap_or(DEFAULT_REQUEST_TIMEOUT),
        })
    }

    /// Returns the address of the server, without the parameters after `?`.
    pub fn server(&self) -> &str {
        &self.server
    }

    /// Sends a request, and returns the reply when its body begins. [`Request::effect`] determines
    /// whether a failed request is sent again.
    ///
    /// # Errors
    /// - The error that the server reports.
    /// - `Unavailable` or `Timeout` if no reply arrives.
    /// - `OutcomeUnknown` if the request changes the store and its reply was lost.
    pub async fn call(&self, request: &Request) -> Result<Response<'_>> {
        let mut attempts = Attempts::default();
        loop {
            match self.send(request).await {
                Ok(response) => return Ok(response),
                Err(failed) => attempts.again(self.after(request, failed)?).await?,
            }
        }
    }

    /// Sends a request, and reads its reply as a whole.
    ///
    /// # Errors
    /// - The errors of [`call`](Self::call).
    /// - `Store` if the body does not have the expected form.
    /// - `LimitExceeded` if the body is larger than [`MAX_REPLY_BYTES`].
    pub async fn read<R: DeserializeOwned>(&self, request: &Request) -> Result<Reply<R>> {
        let mut attempts = Attempts::default();
        loop {
            let attempt = match self.send(request).await {
                Ok(response) => self.whole(response).await,
                Err(failed) => Err(failed),
            };
            match attempt {
                Ok(reply) => return self.parse(reply),
                Err(failed) => attempts.again(self.after(request, failed)?).await?,
            }
        }
    }

    /// Reads the body of a reply as a whole.
    ///
    /// # Errors
    /// - The connection was cut, or no part of the body arrived in time.
    /// - The body does not have the expected form, or is too large.
    pub async fn rest<R: DeserializeOwned>(&self, response: Response<'_>) -> Result<Reply<R>> {
        let reply = self.whole(response).await.map_err(Failed::into_error)?;
        self.parse(reply)
    }

    /// Decides whether the effect of a request allows another attempt after a failure. If it does,
    /// returns the failure, which [`Attempts::again`] turns into a wait or an error.
    ///
    /// # Errors
    /// The error for the caller, if the reply was lost and a repetition could do harm.
    fn after(&self, request: &Request, failed: Failed) -> Result<Failed> {
        match (request.effect, failed) {
            (Effect::Change, Failed::Lost(error)) => Err(self.unknown(error)),
            (Effect::Change, Failed::Refused(error)) if error.kind() == ErrorKind::Timeout => {
                Err(self.unknown(error))
            }
            (Effect::Work(hint), Failed::Lost(error)) => Err(error.with_hint(hint)),
            (_, failed) => Ok(failed),
        }
    }

    fn parse<R: DeserializeOwned>(&self, reply: Reply<Bytes>) -> Result<Reply<R>> {
        let body = serde_json::from_slice(&reply.body)
            .map_err(|error| unexpected_reply(&self.server).with_source(error))?;
        Ok(Reply {
            status: reply.status,
            headers: reply.headers,
            body,
        })
    }

    /// Sends a file as the body of a request, and returns the reply when it begins. `sent` is
    /// called with the number of bytes that were sent. The client waits until the server asks for
    /// the file, for at most one second.
    ///
    /// # Errors
    /// The file cannot be read, or an error of [`call`](Self::call).
    pub async fn send_file(
        &self,
        target: &str,
        path: &Path,
        bytes: u64,
        sent: &(dyn Fn(u64) + Send + Sync),
    ) -> Result<Response<'_>> {
        let sending = Arc::new(Sending::default());
        let body = file::file_body(path, Arc::clone(&sending))
            .map_err(|error| Error::new(ErrorKind::Io, format!("cannot read {}: {error}", path.display())))?;
        let mut request = self.http_request(Method::POST, target, body)?;
        let headers = request.headers_mut();
        headers.insert(CONTENT_TYPE, OCTETS);
        headers.insert(CONTENT_LENGTH, HeaderValue::from(bytes));
        headers.insert(EXPECT, CONTINUE);
        let asked = Arc::clone(&sending);
        hyper::ext::on_informational(&mut request, move |_| asked.start());
        let mut reply = std::pin::pin!(self.connections.request(request));
        let mut ticks = tokio::time::interval(REPORT_INTERVAL);
        let (mut last, mut stalled) = (0, Duration::ZERO);
        let reply = loop {
            tokio::select! {
                reply = &mut reply => break reply,
                _ = ticks.tick() => {}
            }
            let now = sending.sent();
            stalled = if now == last {
                stalled + REPORT_INTERVAL
            } else {
                Duration::ZERO
            };
            last = now;
            if stalled >= self.request_timeout {
                return Err(self.too_slow());
            }
            sent(last);
        };
        match reply {
            Err(error) if error.is_connect() => Err(self.unreachable(&error)),
            Err(error) => Err(self.cut(&error)),
            Ok(response) if response.status().is_success() => Ok(Response::new(self, response)),
            Ok(response) => Err(self.refused(response).await.into_error()),
        }
    }

    /// Sends a request once, and returns when a successful reply begins.
    async fn send(&self, request: &Request) -> Result<Response<'_>, Failed> {
        let body = Full::new(request.body.clone())
            .map_err(|never| match never {})
            .boxed_unsync();
        let sent = self.http_request(request.method.clone(), &request.target, body);
        let mut sent = sent.map_err(Failed::Refused)?;
        if !request.body.is_empty() {
            sent.headers_mut().insert(CONTENT_TYPE, APPLICATION_JSON);
        }
        let tag = request
            .if_version
            .map(|version| HeaderValue::try_from(format!("\"{version}\"")));
        if let Some(Ok(tag)) = tag {
            sent.headers_mut().insert(IF_MATCH, tag);
        }
        let limit = self.request_timeout.saturating_add(request.wait);
        let response = match timeout(limit, self.connections.request(sent)).await {
            Err(_) => return Err(Failed::Lost(self.too_slow())),
            Ok(Err(error)) if error.is_connect() => return Err(Failed::NotSent(self.unreachable(&error))),
            Ok(Err(error)) => return Err(Failed::Lost(self.cut(&error))),
            Ok(Ok(response)) => response,
        };
        if response.status().is_success() {
            return Ok(Response::new(self, response));
        }
        Err(self.refused(response).await)
    }

    fn http_request(
        &self,
        method: Method,
        target: &str,
        body: RequestBody,
    ) -> Result<hyper::Request<RequestBody>> {
        // Long parameters are sent in a body, so only a long path can exceed the limit of `Uri`.
        // Servers accept no path of this length either.
        let uri = Uri::try_from(format!("{}{target}", self.server)).map_err(|_| {
            Error::new(ErrorKind::LimitExceeded, "the request is too long for a URL").with_hint(
                "read the record with a page or a scan, or run the command on the machine that has the store",
            )
        })?;
        let mut request = hyper::Request::new(body);
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

    async fn whole(&self, response: Response<'_>) -> Result<Reply<Bytes>, Failed> {
        let body = Limited::new(response.body, MAX_REPLY_BYTES).collect();
        match timeout(self.request_timeout, body).await {
            Ok(Ok(body)) => Ok(Reply {
                status: response.status,
                headers: response.headers,
                body: body.to_bytes(),
            }),
            Ok(Err(error)) if error.is::<LengthLimitError>() => Err(Failed::Refused(too_large(&self.server))),
            Ok(Err(error)) => Err(Failed::Lost(self.cut(&*error))),
            Err(_) => Err(Failed::Lost(self.too_slow())),
        }
    }

    /// Converts a reply with an error status to a failure, with the error that its body describes.
    async fn refused(&self, response: hyper::Response<Incoming>) -> Failed {
        let (parts, body) = response.into_parts();
        let body = Limited::new(body, MAX_PROBLEM_BYTES).collect();
        let body = match timeout(self.request_timeout, body).await {
            Ok(Ok(body)) => body.to_bytes(),
            // Report only the status if the body of the error reply cannot be read.
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

    pub(crate) fn cut(&self, error: &(dyn std::error::Error + 'static)) -> Error {
        let message = format!("the connection to {} was cut", self.server);
        Error::new(ErrorKind::Unavailable, message).with_source(innermost(error))
    }

    pub(crate) fn too_slow(&self) -> Error {
        let limit = self.request_timeout.as_millis();
        Error::new(
            ErrorKind::Timeout,
            format!("{} did not answer within {limit} ms", self.server),
        )
        .with_hint("raise request_timeout_ms, or request less")
    }

    fn unknown(&self, error: Error) -> Error {
        let message = format!(
            "{} did not confirm the change, which may or may not have been made",
            self.server
        );
        Error::new(ErrorKind::OutcomeUnknown, message)
            .with_hint("repeat the change to resolve the outcome")
            .with_source(error)
    }
}

/// Counter of failed attempts at one request.
#[derive(Debug, Default)]
struct Attempts {
    failed: u32,
}

impl Attempts {
    /// Waits before the next attempt at a request.
    ///
    /// # Errors
    /// The given failure, if another attempt cannot help or the maximum number of attempts is
    /// reached.
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

/// Returns how long to wait before the next attempt, after `failures` failed attempts.
pub fn backoff(failures: u32) -> Duration {
    FIRST_WAIT * 2_u32.saturating_pow(failures)
}

/// Returns the error for a reply whose content this release cannot interpret.
#[cold]
pub fn unexpected_reply(server: &str) -> Error {
    Error::new(
        ErrorKind::Store,
        format!("this release does not understand the answer of {server}"),
    )
    .with_hint("check that the address belongs to a Recto server of the same release")
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

/// Returns the hint of an error about a failed connection. `cause` is the text of the innermost
/// error.
fn unreachable_hint(cause: &str) -> &'static str {
    // rustls reports this name if the server's certificate is that of a certificate authority.
    if cause.contains("CaUsedAsEndEntity") {
        return "create the server's certificate with -addext basicConstraints=critical,CA:FALSE: it is a \
                certificate that signs others (CA:TRUE), the default of `openssl req -x509`";
    }
    if cause.contains("UnknownIssuer") {
        return "name the authority that signed the server's certificate in the address, ?tls_ca=FILE: this \
                machine does not trust it";
    }
    if cause.contains("NotValidForName") {
        return "use a name in the address for which the server's certificate is valid";
    }
    "check that `recto serve` runs there, and that it printed this address"
}

/// Returns the text of the innermost cause of an error. The outer errors say only that a connection
/// failed.
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

    use serde_json::{Value as Json, json};

    use super::*;

    const DONE: &str = "HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n{}";
    const BUSY: &str = "HTTP/1.1 503 Service Unavailable\r\nretry-after: 0\r\ncontent-length: 0\r\n\r\n";
    const LATER: &str = "HTTP/1.1 503 Service Unavailable\r\nretry-after: 3600\r\ncontent-length: 0\r\n\r\n";
    const SHORT: &str = "HTTP/1.1 200 OK\r\ncontent-length: 20\r\n\r\n{";
    const ELSEWHERE: &str =
        "HTTP/1.1 302 Found\r\nlocation: http://evil.example\r\ncontent-length: 0\r\n\r\n";
    const NOTHING: &str = "";

    /// Starts a test server that sends one of `answers` on each connection. The thread returns the
    /// requests that the server received.
    fn server(answers: &[&'static str]) -> (Client, JoinHandle<Vec<String>>) {
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
        (Client::new(&address).unwrap(), requests)
    }

    #[tokio::test]
    async fn retries_reads_up_to_the_attempt_limit() {
        for answers in [[NOTHING, SHORT, DONE], [BUSY, BUSY, DONE]] {
            let (client, requests) = server(&answers);
            assert_eq!(
                client
                    .read::<Json>(&Request::get("/x?a=%2E%2E"))
                    .await
                    .unwrap()
                    .body,
                json!({})
            );
            for request in requests.join().unwrap() {
                assert!(request.starts_with("GET /x?a=%2E%2E HTTP/1.1\r\n"), "{request}");
                assert!(request.contains("authorization: Bearer secret\r\n"), "{request}");
            }
        }
        let (client, requests) = server(&[NOTHING; MAX_ATTEMPTS as usize]);
        assert_eq!(
            client.read::<Json>(&Request::get("/x")).await.unwrap_err().kind(),
            ErrorKind::Unavailable
        );
        assert_eq!(requests.join().unwrap().len(), 3);
    }

    #[tokio::test]
    async fn a_change_is_sent_again_only_if_it_was_not_taken() {
        let change = Request::change(Method::POST, "/x", Some(&json!({ "changes": [] })));
        let (client, requests) = server(&[BUSY, DONE]);
        client.call(&change).await.unwrap();
        assert_eq!(requests.join().unwrap().len(), 2);
        let (client, _) = server(&[NOTHING, DONE]);
        let error = client.call(&change).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::OutcomeUnknown);
        assert!(error.hint().is_some());
    }

    #[tokio::test]
    async fn neither_waits_long_nor_follows_redirects() {
        let (client, _) = server(&[LATER, DONE]);
        assert_eq!(
            client.read::<Json>(&Request::get("/x")).await.unwrap_err().kind(),
            ErrorKind::Unavailable
        );
        let (client, _) = server(&[ELSEWHERE, DONE]);
        let error = client.read::<Json>(&Request::get("/x")).await.unwrap_err();
        assert!(error.to_string().contains("302"), "{error}");
        assert!(!format!("{error:?}").contains("secret"));
    }

    #[tokio::test]
    async fn a_server_that_says_nothing_is_not_waited_for_forever() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let mut address = HttpAddress::new(false, "127.0.0.1", listener.local_addr().unwrap().port());
        address.request_timeout = Some(Duration::from_millis(50));
        let client = Client::new(&address).unwrap();
        let error = client
            .call(&Request::change(Method::DELETE, "/x", None))
            .await
            .unwrap_err();
        assert_eq!(error.kind(), ErrorKind::OutcomeUnknown);
        let error = client.read::<Json>(&Request::get("/x")).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Timeout);
        assert!(error.to_string().contains("50 ms"));
    }

    #[tokio::test]
    async fn a_body_that_is_cut_is_lost_like_a_reply() {
        let change = Request::change(Method::POST, "/x", None);
        let (client, _) = server(&[SHORT, DONE]);
        let error = client.read::<Json>(&change).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::OutcomeUnknown);
        let (client, _) = server(&[SHORT, DONE]);
        let error = client
            .read::<Json>(&Request::work("/x", None, "wait"))
            .await
            .unwrap_err();
        assert_eq!(
            (error.kind(), error.hint()),
            (ErrorKind::Unavailable, Some("wait"))
        );
    }

    #[tokio::test]
    async fn a_reply_of_another_form_is_an_error_with_the_address() {
        for body in ["", "{}", "[1]", "<html>", r#"{"records": 1}"#] {
            let reply = format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n{body}", body.len());
            let (client, _) = server(&[String::leak(reply)]);
            let request = Request::get("/x");
            let error = client
                .read::<recto_api::pages::PageReply>(&request)
                .await
                .unwrap_err();
            assert!(error.to_string().contains("http://127.0.0.1"), "{error}");
        }
    }
}
