//! HTTP/1.1 and HTTP/2 on a connection.

use std::time::Duration;

use hyper_util::rt::{TokioExecutor, TokioTimer};
use hyper_util::server::conn::auto;

use crate::config::{Limits, MAX_HEADERS};

/// Maximum number of concurrent requests of one HTTP/2 connection.
const MAX_STREAMS: u32 = 128;
/// Interval of the pings that check whether an HTTP/2 client still responds.
const PING_INTERVAL: Duration = Duration::from_secs(20);
/// Maximum number of bytes that wait to be sent on one HTTP/2 stream.
const MAX_STREAM_BYTES: usize = 256 << 10;

/// Builder of HTTP connections from byte streams.
pub(super) type Builder = auto::Builder<TokioExecutor>;

pub(super) fn builder(limits: &Limits) -> Builder {
    let header_bytes = usize::try_from(limits.header_bytes).unwrap_or(usize::MAX);
    let mut builder = Builder::new(TokioExecutor::new());
    builder
        .http1()
        .timer(TokioTimer::new())
        // Turn off hyper's time limit for headers, because it would also run while a connection is
        // idle. The module `stream` limits the time instead.
        .header_read_timeout(None)
        .max_headers(MAX_HEADERS)
        .max_buf_size(header_bytes);
    builder
        .http2()
        .timer(TokioTimer::new())
        .max_concurrent_streams(MAX_STREAMS)
        .max_header_list_size(u32::try_from(limits.header_bytes).unwrap_or(u32::MAX))
        .max_send_buf_size(MAX_STREAM_BYTES)
        .keep_alive_interval(PING_INTERVAL)
        .keep_alive_timeout(limits.header_time);
    builder
}
