//! Limits on what comes in, each with its default.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Semaphore;

/// The most bytes of a request's body unless told otherwise.
pub const DEFAULT_BODY_BYTES: u64 = 16 << 20;
/// The most bytes of a file that is sent to be loaded unless told otherwise.
pub const DEFAULT_LOAD_BYTES: u64 = 64 << 30;
/// The most bytes of a request's path and query unless told otherwise.
pub const DEFAULT_URL_BYTES: u64 = 16 << 10;
/// The most bytes of a request's line and headers unless told otherwise.
pub const DEFAULT_HEADER_BYTES: u64 = 32 << 10;
/// The most headers of a request.
pub const MAX_HEADERS: usize = 100;
/// The most requests answered at the same time unless told otherwise.
pub const DEFAULT_CONCURRENT_REQUESTS: u64 = 1_024;
/// The most exports sent at the same time unless told otherwise.
pub const DEFAULT_CONCURRENT_STREAMS: u64 = 256;
/// The most requests that wait for work on the store at the same time unless told otherwise.
pub const DEFAULT_WAITING_REQUESTS: u64 = 256;
/// The most receives of messages, which may wait, at the same time unless told otherwise.
pub const DEFAULT_WAITING_RECEIVES: u64 = 10_000;
/// Of the requests of a class answered at the same time, one token may have one in so many, unless told otherwise.
pub const DEFAULT_TOKEN_SHARE: u64 = 4;
/// The most connections unless told otherwise. More wait to be accepted.
pub const DEFAULT_CONNECTIONS: u64 = 16_384;
/// Requests a second of one token or address unless told otherwise, where tokens are set.
pub const DEFAULT_REQUESTS_PER_SECOND: u64 = 1_000;
/// Requests one token or address may save up unless told otherwise.
pub const DEFAULT_REQUEST_BURST: u64 = 2_000;
/// The most milliseconds until a request's answer begins unless told otherwise.
pub const DEFAULT_REQUEST_TIME_MS: u64 = 30_000;
/// The most milliseconds from a request's first byte to the end of its headers, and of a TLS
/// handshake, unless told otherwise.
pub const DEFAULT_HEADER_TIME_MS: u64 = 10_000;
/// How many milliseconds a connection without a request is kept at least, unless told otherwise.
pub const DEFAULT_IDLE_TIME_MS: u64 = 75_000;
/// The most milliseconds a client may read nothing of what is sent to it, unless told otherwise.
pub const DEFAULT_STALL_TIME_MS: u64 = 30_000;
/// The most milliseconds that requests in flight are given when the server is told to stop, unless
/// told otherwise.
pub const DEFAULT_SHUTDOWN_TIME_MS: u64 = 30_000;

/// Limits on what comes in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Limits {
    /// The most bytes of a request's body: 413 beyond.
    pub body_bytes: u64,
    /// The most bytes of a file that is sent to be loaded: 413 beyond.
    pub load_bytes: u64,
    /// The most bytes of a request's path and query: 414 beyond.
    pub url_bytes: u64,
    /// The most bytes of a request's line and headers: 431 beyond.
    pub header_bytes: u64,
    /// The most requests answered at the same time, beside exports and those that wait: 503 beyond.
    pub concurrent_requests: u64,
    /// The most exports sent at the same time, a quarter ([`DEFAULT_TOKEN_SHARE`]) of them to one token:
    /// 503 beyond, 429 of one token.
    pub concurrent_streams: u64,
    /// The most requests that wait for work on the store at the same time, loads with their files among
    /// them, a quarter of one token: 503 beyond, 429 of one token.
    pub waiting_requests: u64,
    /// The most receives of messages, which may wait for one, at the same time, a quarter of them of one token: 503
    /// beyond, 429 of one token.
    pub waiting_receives: u64,
    /// The most requests of one token answered at the same time: 429 beyond. Unset: a quarter
    /// ([`DEFAULT_TOKEN_SHARE`]) of those of all.
    pub concurrent_requests_per_token: Option<u64>,
    /// The most connections; more wait to be accepted.
    pub connections: u64,
    /// Requests a second of one token, or of one address where there is no token: 429 beyond. 0: no
    /// limit. Unset: [`DEFAULT_REQUESTS_PER_SECOND`] where tokens are set, else no limit.
    pub requests_per_second: Option<u64>,
    /// Requests one token or address may save up.
    pub request_burst: u64,
    /// The most time until a request's answer begins: 504 beyond.
    pub request_time: Duration,
    /// The most time from a request's first byte to the end of its headers, and of a TLS handshake.
    pub header_time: Duration,
    /// How long a connection without a request is kept at least (and at most twice as long).
    pub idle_time: Duration,
    /// The most time a client may read nothing of what is sent to it.
    pub stall_time: Duration,
    /// The most time that requests in flight are given when the server is told to stop.
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
    /// The most requests of one token answered at the same time.
    pub fn concurrent_requests_per_token(&self) -> u64 {
        let share = token_share(self.concurrent_requests);
        self.concurrent_requests_per_token.unwrap_or(share)
    }
}

/// How many of so many places one token may have, unless told otherwise.
pub(crate) fn token_share(places: u64) -> u64 {
    (places / DEFAULT_TOKEN_SHARE).max(1)
}

/// As many permits as a limit allows.
pub(crate) fn permits(limit: u64) -> Arc<Semaphore> {
    let most = usize::try_from(limit).unwrap_or(Semaphore::MAX_PERMITS);
    Arc::new(Semaphore::new(most.min(Semaphore::MAX_PERMITS)))
}
