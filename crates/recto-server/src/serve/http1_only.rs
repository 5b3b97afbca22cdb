//! HTTP/1.1 on a connection, in a build without HTTP/2.

use hyper_util::rt::TokioTimer;

use crate::config::{Limits, MAX_HEADERS};

/// Builder of HTTP connections from byte streams.
pub(super) type Builder = hyper::server::conn::http1::Builder;

pub(super) fn builder(limits: &Limits) -> Builder {
    let header_bytes = usize::try_from(limits.header_bytes).unwrap_or(usize::MAX);
    let mut builder = Builder::new();
    builder
        .timer(TokioTimer::new())
        // Turn off hyper's time limit for headers, because it would also run while a connection is
        // idle. The module `stream` limits the time instead.
        .header_read_timeout(None)
        .max_headers(MAX_HEADERS)
        .max_buf_size(header_bytes);
    builder
}
