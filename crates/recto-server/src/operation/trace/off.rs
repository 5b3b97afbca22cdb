//! Placeholders for traces in a build without `OpenTelemetry`.

use axum::http::{Request, StatusCode};
use recto::Error;
use recto::session::PageReply;

use super::settings;
use crate::config::Config;

/// Placeholder for the source of trace spans. It creates none.
#[derive(Debug)]
pub(crate) struct Traces;

/// Placeholder for the trace span of a request, to which spans of pages would belong.
#[derive(Debug, Clone)]
pub(crate) struct Parent;

/// Placeholder for the trace span of a request.
pub(crate) struct RequestSpan;

/// Placeholder for the trace span of a page.
pub(crate) struct PageSpan;

impl Traces {
    /// Logs a warning if the environment requests traces, because the build cannot export them.
    pub(crate) fn start(_config: &Config) -> Self {
        if let Some(said) = settings::said_without(&settings::variable) {
            crate::log::warn!("{said}");
        }
        Self
    }

    #[allow(clippy::unused_self)] // as in the build with traces
    pub(crate) fn request<B>(&self, _request: &Request<B>) -> RequestSpan {
        RequestSpan
    }

    #[allow(clippy::unused_self)]
    pub(crate) fn page(&self, _parent: &Parent) -> PageSpan {
        PageSpan
    }

    #[allow(clippy::unused_self, clippy::unused_async)]
    pub(crate) async fn finish(&self) {}
}

impl RequestSpan {
    #[allow(clippy::unused_self)]
    pub(crate) fn parent(&self) -> Parent {
        Parent
    }

    #[allow(clippy::unused_self)]
    pub(crate) fn end(self, _route: Option<&str>, _status: StatusCode, _request_id: &str) {}
}

impl PageSpan {
    #[allow(clippy::unused_self)]
    pub(crate) fn end(self, _collection: &str, _page: Result<(&PageReply, usize), &Error>) {}
}
