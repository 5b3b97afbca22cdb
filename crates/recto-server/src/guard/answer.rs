//! One request, from its headers to the beginning of its answer.

use std::net::IpAddr;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use axum::body::Bytes;
use axum::http::{HeaderName, HeaderValue, Method, Request, StatusCode, header};
use axum::response::{IntoResponse as _, Response};
use futures::FutureExt as _;

use super::body::Keeping;
use super::route::RoutePattern;
use super::{Guard, Turned, client, is_file};
use crate::api::LongAnswer;
use crate::operation::{Context, InFlight, Parent, REQUEST_ID, RequestLabels};
use crate::problem::Problem;

const NANOS_PER_SECOND: f64 = 1e9;
const NANOS_PER_MICRO: u64 = 1_000;

/// On every answer. The console needs no other site, no inline script and no inline style; a record's
/// text that is HTML must never run.
const SECURITY_HEADERS: [(HeaderName, HeaderValue); 6] = [
    (
        header::CONTENT_SECURITY_POLICY,
        HeaderValue::from_static(
            "default-src 'self'; object-src 'none'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'",
        ),
    ),
    (
        header::X_CONTENT_TYPE_OPTIONS,
        HeaderValue::from_static("nosniff"),
    ),
    (header::X_FRAME_OPTIONS, HeaderValue::from_static("DENY")),
    (header::REFERRER_POLICY, HeaderValue::from_static("no-referrer")),
    (
        HeaderName::from_static("cross-origin-opener-policy"),
        HeaderValue::from_static("same-origin"),
    ),
    (
        HeaderName::from_static("cross-origin-resource-policy"),
        HeaderValue::from_static("same-origin"),
    ),
];
/// Under TLS: browsers use nothing else for a year.
const STRICT_TRANSPORT: HeaderValue = HeaderValue::from_static("max-age=31536000");

impl Guard {
    /// Answers a request.
    pub(crate) async fn answer<B>(&self, request: Request<B>, peer: IpAddr) -> Response
    where
        B: http_body::Body<Data = Bytes> + Send + 'static,
        B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
    {
        let started = self.observer.environment.monotonic_nanos();
        let _in_flight = InFlight::enter(&self.observer.metrics.in_flight);
        let span = self.observer.traces.request(&request);
        let id = self.ids.of(request.headers());
        let method = request.method().clone();
        let peer = client::address(request.headers(), peer, self.config.behind_proxy);
        let mut bearer: Arc<str> = Arc::clone(&self.anyone.name);
        let outcome = self.pass(request, peer, &id, &mut bearer, span.parent()).await;
        let mut response = outcome.unwrap_or_else(|turned| {
            self.observer.metrics.refused(turned.refusal);
            *turned.answer
        });
        self.add_headers(&mut response, &id);
        self.record(&response, &method, &id, &bearer, started);
        let route = response.extensions().get::<RoutePattern>();
        span.end(route.map(|route| &*route.0), response.status(), &id);
        response
    }

    async fn pass<B>(
        &self,
        request: Request<B>,
        peer: IpAddr,
        id: &str,
        bearer: &mut Arc<str>,
        parent: Parent,
    ) -> Result<Response, Turned>
    where
        B: http_body::Body<Data = Bytes> + Send + 'static,
        B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
    {
        self.check_shape(&request)?;
        if let Some(answer) = self.own_answer(&request, peer).await {
            return answer;
        }
        let admitted = self.admit(&request, peer)?;
        *bearer = Arc::clone(&admitted.access.name);
        let context = Context::new(
            id.to_owned(),
            Arc::clone(bearer),
            Arc::clone(&self.observer),
            parent,
        );
        let method = request.method().clone();
        let limit = if is_file(&request) {
            Duration::MAX
        } else {
            self.config.limits.request_time
        };
        let request = self.prepared(request, admitted.access);
        let mut router = self.router.clone();
        let handled = context.scope(tower_service::Service::call(&mut router, request));
        // A panic is a mistake of ours, and no reason to cut the other requests of the connection.
        let handled = AssertUnwindSafe(handled).catch_unwind();
        let response = match tokio::time::timeout(limit, handled).await {
            Ok(Ok(Ok(response))) => response,
            Ok(Ok(Err(never))) => match never {},
            Ok(Err(_panic)) => {
                tracing::error!(request_id = id, "a request made its handler panic");
                Problem::internal("the server made a mistake").into_response()
            }
            Err(_) => late(&method, limit).into_response(),
        };
        if response.extensions().get::<LongAnswer>().is_some() {
            return Ok(response);
        }
        Ok(response.map(|body| Keeping::wrap(body, admitted.permit)))
    }

    fn add_headers(&self, response: &mut Response, id: &str) {
        let headers = response.headers_mut();
        for (name, value) in SECURITY_HEADERS {
            headers.insert(name, value);
        }
        if self.config.has_tls() {
            headers.insert(header::STRICT_TRANSPORT_SECURITY, STRICT_TRANSPORT);
        }
        if !headers.contains_key(header::CACHE_CONTROL) && !headers.contains_key(header::ETAG) {
            headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
        }
        if let Ok(id) = HeaderValue::from_str(id) {
            headers.insert(REQUEST_ID, id);
        }
    }

    fn record(&self, response: &Response, method: &Method, id: &str, bearer: &str, started: u64) {
        let nanos = self
            .observer
            .environment
            .monotonic_nanos()
            .saturating_sub(started);
        let route = response.extensions().get::<RoutePattern>();
        let labels = RequestLabels {
            route: route.map_or_else(|| "none".into(), |route| Arc::clone(&route.0)),
            method: method_name(method),
            status: response.status().as_u16(),
        };
        let micros = nanos / NANOS_PER_MICRO;
        let (route, method, status) = (&*labels.route, labels.method, labels.status);
        if response.status().is_server_error() {
            tracing::warn!(
                request_id = id,
                bearer,
                method,
                route,
                status,
                micros,
                "request failed"
            );
        } else {
            tracing::debug!(request_id = id, bearer, method, route, status, micros, "request");
        }
        self.observer
            .metrics
            .request(labels, nanos as f64 / NANOS_PER_SECOND);
    }
}

/// Methods are few in metrics, whatever is sent.
fn method_name(method: &Method) -> &'static str {
    match *method {
        Method::GET => "GET",
        Method::HEAD => "HEAD",
        Method::POST => "POST",
        Method::PUT => "PUT",
        Method::PATCH => "PATCH",
        Method::DELETE => "DELETE",
        Method::OPTIONS => "OPTIONS",
        _ => "other",
    }
}

fn late(method: &Method, limit: Duration) -> Problem {
    let detail = format!("there was no answer within {} ms", limit.as_millis());
    if matches!(*method, Method::GET | Method::HEAD | Method::OPTIONS) {
        return Problem::new(
            StatusCode::GATEWAY_TIMEOUT,
            "timeout",
            "The time was not enough",
            detail,
        );
    }
    Problem::new(
        StatusCode::GATEWAY_TIMEOUT,
        "outcome-unknown",
        "The write may or may not have been applied",
        detail,
    )
    .with_hint("repeating it settles it")
}
