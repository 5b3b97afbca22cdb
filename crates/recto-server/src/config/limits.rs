//! Limits of requests and connections, and their defaults.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Semaphore;

/// Default maximum size of a request's body, in bytes.
pub const DEFAULT_BODY_BYTES: u64 = 16 << 20;
/// Default maximum size of an uploaded file to load, in bytes.
pub const DEFAULT_LOAD_BYTES: u64 = 64 << 30;
/// Default maximum size of a request's path and query, in bytes.
pub const DEFAULT_URL_BYTES: u64 = 16 << 10;
/// Default maximum size of a request's line and headers, in bytes.
pub const DEFAULT_HEADER_BYTES: u64 = 32 << 10;
/// Maximum number of headers of a request.
pub const MAX_HEADERS: usize = 100;
/// Default maximum number of concurrent requests.
pub const DEFAULT_CONCURRENT_REQUESTS: u64 = 1_024;
/// Default maximum number of concurrent exports.
pub const DEFAULT_CONCURRENT_STREAMS: u64 = 256;
/// Default maximum number of concurrent maintenance requests. They are limited on their own,
/// because each lasts as long as its operation.
pub const DEFAULT_WAITING_REQUESTS: u64 = 256;
/// Default maximum number of concurrent requests that receive messages, and may wait for them.
pub const DEFAULT_WAITING_RECEIVES: u64 = 10_000;
/// Divisor that gives the share of one token in a limit, by default: a quarter of the concurrent
/// requests of each class.
pub const DEFAULT_TOKEN_SHARE: u64 = 4;
/// Default maximum number of connections. Further connections wait until the server accepts them.
pub const DEFAULT_CONNECTIONS: u64 = 16_384;
/// Default maximum number of requests per second of one token. It applies only to a server with
/// tokens.
pub const DEFAULT_REQUESTS_PER_SECOND: u64 = 1_000;
/// Default maximum number of requests that one client may send at once, beyond its rate.
pub const DEFAULT_REQUEST_BURST: u64 = 2_000;
/// Default maximum time until the response to a request begins, in milliseconds.
pub const DEFAULT_REQUEST_TIME_MS: u64 = 30_000;
/// Default maximum time for a TLS handshake, and for receiving the headers of a request, in
/// milliseconds.
pub const DEFAULT_HEADER_TIME_MS: u64 = 10_000;
/// Default minimum time for which the server keeps an idle connection open, in milliseconds.
pub const DEFAULT_IDLE_TIME_MS: u64 = 75_000;
/// Default maximum time for which a client may read nothing of the data sent to it, in milliseconds.
pub const DEFAULT_STALL_TIME_MS: u64 = 30_000;
/// Default maximum time for which a stopping server waits for requests in flight, in milliseconds.
pub const DEFAULT_SHUTDOWN_TIME_MS: u64 = 30_000;

/// Limits of requests and connections.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Limits {
    /// Maximum size of a request's body, in bytes. Beyond it: status 413.
    pub body_bytes: u64,
    /// Maximum size of an uploaded file to load, in bytes. Beyond it: status 413.
    pub load_bytes: u64,
    /// Maximum size of a request's path and query, in bytes. Beyond it: status 414.
    pub url_bytes: u64,
    /// Maximum size of a request's line and headers, in bytes. Beyond it: status 431.
    pub header_bytes: u64,
    /// Maximum number of concurrent requests other than exports, maintenance requests and receives.
    /// Beyond the limit: status 503.
    pub concurrent_requests: u64,
    /// Maximum number of concurrent exports. One token may have a quarter of them
    /// ([`DEFAULT_TOKEN_SHARE`]). Beyond the limit: status 503. Beyond a token's share: status 429.
    pub concurrent_streams: u64,
    /// Maximum number of concurrent maintenance requests, including loads of an uploaded file. One
    /// token may have a quarter of them. Beyond the limit: status 503. Beyond a token's share:
    /// status 429.
    pub waiting_requests: u64,
    /// Maximum number of concurrent requests that receive messages, and may wait for them. One
    /// token may have a quarter of them. Beyond the limit: status 503. Beyond a token's share:
    /// status 429.
    pub waiting_receives: u64,
    /// Maximum number of concurrent requests of one token. Beyond the limit: status 429. `None`: a
    /// quarter ([`DEFAULT_TOKEN_SHARE`]) of `concurrent_requests`.
    pub concurrent_requests_per_token: Option<u64>,
    /// Maximum number of connections. Further connections wait until the server accepts them.
    pub connections: u64,
    /// Maximum number of requests per second of one token, or of one address on a server without
    /// tokens. Beyond the limit: status 429. 0: no limit. `None`: [`DEFAULT_REQUESTS_PER_SECOND`]
    /// with tokens, no limit without.
    pub requests_per_second: Option<u64>,
    /// Maximum number of requests that one client may send at once, beyond its rate.
    pub request_burst: u64,
    /// Maximum time until the response to a request begins. After it: status 504.
    pub request_time: Duration,
    /// Maximum time for a TLS handshake, and for receiving the headers of a request.
    pub header_time: Duration,
    /// Minimum time for which the server keeps an idle connection open. The maximum is twice the
    /// minimum.
    pub idle_time: Duration,
    /// Maximum time for which a client may read nothing of the data sent to it.
    pub stall_time: Duration,
    /// Maximum time for which a stopping server waits for requests in flight.
    pub shutdown_time: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            body_bytes: DEFAULT_BODY_BYTES,
            load_bytes: DEFAULT_LOAD_BYTES,
            url_bytes: DEFAULT_URL_BYTES,
            header_bytes: DEFAULT_HEADER_BYTES,
            concurrent_requests: DEFAULT_CONCURRENT_REQUESTS,
            concurrent_streams: DEFAULT_CONCURRENT_STREAMS,
            waiting_requests: DEFAULT_WAITING_REQUESTS,
            waiting_receives: DEFAULT_WAITING_RECEIVES,
            concurrent_requests_per_token: None,
            connections: DEFAULT_CONNECTIONS,
            requests_per_second: None,
            request_burst: DEFAULT_REQUEST_BURST,
            request_time: Duration::from_millis(DEFAULT_REQUEST_TIME_MS),
            header_time: Duration::from_millis(DEFAULT_HEADER_TIME_MS),
            idle_time: Duration::from_millis(DEFAULT_IDLE_TIME_MS),
            stall_time: Duration::from_millis(DEFAULT_STALL_TIME_MS),
            shutdown_time: Duration::from_millis(DEFAULT_SHUTDOWN_TIME_MS),
        }
    }
}

impl Limits {
    /// Returns the maximum number of concurrent requests of one token.
    pub fn concurrent_requests_per_token(&self) -> u64 {
        let share = token_share(self.concurrent_requests);
        self.concurrent_requests_per_token.unwrap_or(share)
    }
}

/// Returns the default share of one token in a limit; at least 1.
pub(crate) fn token_share(places: u64) -> u64 {
    (places / DEFAULT_TOKEN_SHARE).max(1)
}

/// Returns a semaphore with `limit` permits, or with its maximum if `limit` is larger.
pub(crate) fn permits(limit: u64) -> Arc<Semaphore> {
    let most = usize::try_from(limit).unwrap_or(Semaphore::MAX_PERMITS);
    Arc::new(Semaphore::new(most.min(Semaphore::MAX_PERMITS)))
}
