//! HTTP/1.1 on a connection, in a build without HTTP/2.

use hyper_util::rt::TokioTimer;

use crate::config::{Limits, MAX_HEADERS};

/// Builder of connections from streams.
pub(super) type Builder = hyper::server::conn::http1::Builder;

pub(super) fn builder(limits: &Limits) -> Builder {
    let header_bytes = usize::try_from(limits.header_bytes).unwrap_or(usize::MAX);
    let mut builder = Builder::new();
    builder
        .timer(TokioTimer::new())
        // The stream limits the time for headers instead, because hyper's timer would also run
        // while a connection is idle.
        .header_read_timeout(None)
        .max_headers(MAX_HEADERS)
        .max_buf_size(header_bytes);
    builder
}
