//! Handling of one request by the server, from its headers to the start of its reply.

use std::net::IpAddr;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use axum::body::{Body, Bytes};
use axum::http::{HeaderName, HeaderValue, Method, Request, StatusCode, header};
use axum::response::Response;
use futures::FutureExt as _;
use recto::queues::MAX_WAIT;

use super::body::{Held, Streaming};
use super::places::Class;
use super::route::RoutePattern;
use super::unread::Unread;
use super::{Admitted, Guard, Turned, client, is_file, is_own};
use crate::operation::{Context, Counted, Parent, REQUEST_ID, RequestClient, RequestLabels};
use crate::problem::{Problem, ProblemKind};
use crate::routes;
use recto::problem::ProblemType;

const NANOS_PER_SECOND: f64 = 1e9;
const NANOS_PER_MICRO: u64 = 1_000;

/// Security headers of every reply. They forbid resources of other sites, inline scripts and inline
/// styles. So browsers never run HTML in the text of a record.
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
/// Header of replies over TLS, which makes browsers use only TLS for a year.
const STRICT_TRANSPORT: HeaderValue = HeaderValue::from_static("max-age=31536000");

/// Reply to a request, with state that must live until the reply is sent.
struct Passed {
    response: Response,
    admitted: Option<Admitted>,
    context: Option<Context>,
}

impl Passed {
    fn without_handler(response: Response) -> Self {
        Self {
            response,
            admitted: None,
            context: None,
        }
    }
}

impl Guard {
    /// Handles a request: checks it, calls its handler, and records metrics and logs.
    pub(crate) async fn answer<B>(&self, request: Request<B>, peer: IpAddr) -> Response
    where
        B: http_body::Body<Data = Bytes> + Send + Unpin + 'static,
        B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
    {
        let started = self.observer.environment.monotonic_nanos();
        let in_flight = Counted::enter(&self.observer, |metrics| &metrics.in_flight);
        let span = self.observer.traces.request(&request);
        let method = request.method().clone();
        let wants_page = routes::wants_page(request.headers());
        let (request, unread) = Unread::lend(request);
        let mut who = RequestClient {
            request_id: self.ids.of(request.headers()),
            token: None,
            name: Arc::clone(&self.anyone.name),
            client: client::address(request.headers(), peer, self.config.behind_proxy),
        };
        let passed = self.pass(request, &mut who, span.parent()).await;
        let mut passed = passed.unwrap_or_else(|turned| {
            self.observer.metrics.refused(turned.refusal);
            Passed::without_handler(turned.into_answer(wants_page))
        });
        unread.settle(&mut passed.response).await;
        self.add_headers(&mut passed.response, &who.request_id);
        self.record(&passed, &method, &who, started);
        let route = passed.response.extensions().get::<RoutePattern>().cloned();
        span.end(
            route.as_ref().map(|route| &*route.0),
            passed.response.status(),
            &who.request_id,
        );
        if method == Method::HEAD {
            return without_body(passed.response);
        }
        let admitted = passed.admitted;
        passed.response.map(|body| {
            // If the body is in memory, nothing remains to compute. Release the request's place in
            // the limit of concurrent requests.
            if http_body::Body::size_hint(&body).exact().is_some() {
                return body;
            }
            let streaming = Counted::enter(&self.observer, |metrics| &metrics.streaming);
            let held = Held::new(admitted, who, &self.stopping, [in_flight, streaming]);
            Body::new(Streaming::new(body, held, route))
        })
    }

    async fn pass<B>(
        &self,
        request: Request<B>,
        who: &mut RequestClient,
        parent: Parent,
    ) -> Result<Passed, Turned>
    where
        B: http_body::Body<Data = Bytes> + Send + 'static,
        B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
    {
        self.check_shape(&request)?;
        if is_own(&request) {
            return self.own_answer(&request, who).await.map(Passed::without_handler);
        }
        let authenticated = self.authenticate(&request, who)?;
        self.check_reads(&request)?;
        let admitted = self.admit(&request, &authenticated)?;
        let context = Context::new(who.clone(), Arc::clone(&self.observer), parent);
        let limit = self.time_of(&request);
        let wants_page = routes::wants_page(request.headers());
        let (request, waits) = self.prepared(request, authenticated.access);
        let mut router = self.router.clone();
        let handled = context
            .clone()
            .scope(tower_service::Service::call(&mut router, request));
        // Catch a panic (a defect of the server), because it would close the connection for other
        // requests, too.
        let handled = AssertUnwindSafe(handled).catch_unwind();
        let response = match tokio::time::timeout(limit, handled).await {
            Ok(Ok(Ok(response))) => response,
            Ok(Ok(Err(never))) => match never {},
            Ok(Err(_panic)) => {
                crate::log::error!(request_id = who.request_id, "a request made its handler panic");
                routes::answer(Problem::internal("an internal error occurred"), wants_page)
            }
            Err(_) => {
                let problem = late(&context, waits.load(Ordering::Relaxed), limit);
                routes::answer(problem, wants_page)
            }
        };
        Ok(Passed {
            response,
            admitted: Some(admitted),
            context: Some(context),
        })
    }

    /// Returns the maximum time until the reply to a request starts.
    fn time_of<B>(&self, request: &Request<B>) -> Duration {
        let limit = self.config.limits.request_time;
        match Class::of(request.uri().path()) {
            _ if is_file(request) => Duration::MAX,
            Class::Receive => limit.saturating_add(MAX_WAIT),
            _ => limit,
        }
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

    fn record(&self, passed: &Passed, method: &Method, who: &RequestClient, started: u64) {
        let now = self.observer.environment.monotonic_nanos();
        let nanos = now.saturating_sub(started);
        let route = passed.response.extensions().get::<RoutePattern>();
        let labels = RequestLabels {
            route: route.map_or_else(|| "none".into(), |route| Arc::clone(&route.0)),
            method: method_name(method),
            status: passed.response.status().as_u16(),
        };
        log(passed, &labels, who, nanos / NANOS_PER_MICRO);
        if passed.response.status() == StatusCode::FORBIDDEN && !method.is_safe() {
            let audit = &self.observer.audit;
            audit.refused(who, &labels.route, labels.method, labels.status);
        }
        self.observer
            .metrics
            .request(labels, nanos as f64 / NANOS_PER_SECOND);
    }
}

/// Logs a request. If the server or the store failed, logs a warning with the store's error.
fn log(passed: &Passed, labels: &RequestLabels, who: &RequestClient, micros: u64) {
    let (route, method, status) = (&*labels.route, labels.method, labels.status);
    let (bearer, client, request_id) = (&*who.name, who.client, &*who.request_id);
    let response_status = passed.response.status();
    // Log no warning for 501 (not implemented), which the client's request caused.
    if !response_status.is_server_error() || response_status == StatusCode::NOT_IMPLEMENTED {
        crate::log::debug!(request_id, bearer, %client, method, route, status, micros, "request");
        return;
    }
    let failure = passed.context.as_ref().and_then(Context::failure);
    let said = passed.response.extensions().get::<ProblemKind>();
    let kind = failure.as_ref().map(|failure| failure.kind);
    let kind = kind.or_else(|| said.map(|kind| kind.0)).unwrap_or_default();
    crate::log::warn!(
        request_id,
        bearer,
        %client,
        method,
        route,
        status,
        micros,
        kind,
        detail = failure.as_ref().map(|failure| failure.detail.as_str()),
        node = failure.as_ref().and_then(|failure| failure.node.as_deref()),
        table = failure.as_ref().and_then(|failure| failure.table.as_deref()),
        "request failed"
    );
}

/// Converts the reply of GET to that of HEAD, which has no body. The HTTP library drops the body
/// only on HTTP/1.1. On HTTP/2, clients treat a body as an error.
fn without_body(response: Response) -> Response {
    let (mut parts, body) = response.into_parts();
    if let Some(length) = http_body::Body::size_hint(&body).exact()
        && length > 0
        && !parts.headers.contains_key(header::CONTENT_LENGTH)
    {
        parts.headers.insert(header::CONTENT_LENGTH, length.into());
    }
    Response::from_parts(parts, Body::empty())
}

/// Returns the label of an HTTP method in metrics. Clients can send any method, so unknown methods
/// share one label.
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

/// Returns the problem for a request that reached its time limit.
fn late(context: &Context, waits_for_body: bool, limit: Duration) -> Problem {
    let limit = limit.as_millis();
    if context.has_written() {
        let detail = format!("the server did not reply within {limit} ms");
        return Problem::new(ProblemType::OutcomeUnknown, detail)
            .with_hint("send the request again to resolve the outcome");
    }
    if waits_for_body {
        let detail = format!("the body did not arrive within {limit} ms; nothing was changed");
        return Problem::late_body(detail);
    }
    let detail = format!("the server did not reply within {limit} ms; nothing was changed");
    Problem::new(ProblemType::Timeout, detail)
}
