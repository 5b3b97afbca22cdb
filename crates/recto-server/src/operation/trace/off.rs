//! A build without `OpenTelemetry`.

use axum::http::{Request, StatusCode};
use recto::Error;
use recto::session::PageReply;

use super::settings;
use crate::config::Config;

/// Makes spans: none in this build.
#[derive(Debug)]
pub(crate) struct Traces;

/// What spans of pages are below.
#[derive(Debug, Clone)]
pub(crate) struct Parent;

/// The span of a request.
pub(crate) struct RequestSpan;

/// The span of a page.
pub(crate) struct PageSpan;

impl Traces {
    /// Says so if the environment asks for what this build cannot do.
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
