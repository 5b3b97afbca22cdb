//! What stands before every handler: limits on what comes in, who asks, headers on what goes out.
//!
//! A request passes, in this order: the length of its URL and headers, its host, the site it comes
//! from, its token, how often that asks, how many are being answered, how long its body says it is.
//! What is turned away costs no more than looking at headers.

mod answer;
mod body;
mod client;
mod hosts;
mod origin;
mod rate;
mod route;

use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use axum::Router;
use axum::body::Body;
use axum::extract::DefaultBodyLimit;
use axum::http::{Method, Request, StatusCode, header};
use axum::response::{IntoResponse as _, Response};
use http_body_util::Limited;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::access::Access;
use crate::api::LOAD_PATH;
use crate::auth::{Denied, Tokens};
use crate::config::{Config, MAX_HEADERS, MetricsAccess, permits};
use crate::operation::{Observer, Readiness, Refusal, RequestIds};
use crate::problem::Problem;

use client::{Credentials, credentials};
use hosts::Hosts;
use rate::{Asker, RateLimit};

pub(crate) use route::NoteRoute;

/// What stands before every handler.
#[derive(Debug)]
pub(crate) struct Guard {
    router: Router,
    config: Config,
    tokens: Option<Arc<Tokens>>,
    anyone: Access,
    hosts: Hosts,
    rate: Option<RateLimit>,
    permits: Arc<Semaphore>,
    ids: RequestIds,
    readiness: Arc<Readiness>,
    stopping: AtomicBool,
    pub(crate) observer: Arc<Observer>,
}

/// Why a request goes no further, and what it is answered.
#[derive(Debug)]
struct Turned {
    refusal: Refusal,
    answer: Box<Response>,
}

impl Turned {
    fn new(refusal: Refusal, problem: Problem) -> Self {
        Self {
            refusal,
            answer: Box::new(problem.into_response()),
        }
    }

    fn with_header(mut self, name: header::HeaderName, value: &'static str) -> Self {
        self.answer
            .headers_mut()
            .append(name, header::HeaderValue::from_static(value));
        self
    }
}

/// What a request is let in with.
#[derive(Debug)]
struct Admitted {
    access: Access,
    /// None for a file, which has a place of its own.
    permit: Option<OwnedSemaphorePermit>,
}

impl Guard {
    pub(crate) fn new(
        router: Router,
        config: Config,
        tokens: Option<Arc<Tokens>>,
        readiness: Arc<Readiness>,
        observer: Arc<Observer>,
    ) -> Self {
        let limits = &config.limits;
        let per_second = config.requests_per_second();
        Self {
            router,
            tokens,
            anyone: Access::all(),
            hosts: Hosts::new(&config),
            rate: (per_second > 0)
                .then(|| RateLimit::new(per_second, limits.request_burst, observer.environment.clone())),
            permits: permits(limits.concurrent_requests),
            ids: RequestIds::new(&observer.environment),
            readiness,
            stopping: AtomicBool::new(false),
            observer,
            config,
        }
    }

    /// From now on `/readyz` says that the server stops.
    pub(crate) fn stop(&self) {
        self.stopping.store(true, Ordering::Relaxed);
    }

    /// What is looked at before anybody is asked who they are.
    fn check_shape<B>(&self, request: &Request<B>) -> Result<(), Turned> {
        let limits = &self.config.limits;
        let url = request.uri().path_and_query().map_or(0, |url| url.as_str().len());
        if url as u64 > limits.url_bytes {
            return Err(Turned::new(Refusal::Url, too_long("URL", limits.url_bytes)));
        }
        let headers = request.headers();
        let bytes: usize = headers
            .iter()
            .map(|(name, value)| name.as_str().len() + value.len())
            .sum();
        if bytes as u64 > limits.header_bytes || headers.len() > MAX_HEADERS {
            return Err(Turned::new(
                Refusal::Headers,
                too_long("headers", limits.header_bytes),
            ));
        }
        if let Err(problem) = self.hosts.check(request) {
            return Err(Turned::new(Refusal::Host, problem));
        }
        let is_bearer = matches!(credentials(headers), Credentials::Bearer(_));
        if !is_bearer && let Err(problem) = origin::check(request, &self.config.hosts) {
            return Err(Turned::new(Refusal::Origin, problem));
        }
        Ok(())
    }

    /// Who asks, if they may, and may now.
    fn admit<B>(&self, request: &Request<B>, peer: IpAddr) -> Result<Admitted, Turned> {
        let (access, asker) = match &self.tokens {
            None => (self.anyone.clone(), Asker::address(peer)),
            Some(tokens) => self.authenticate(tokens, request, peer)?,
        };
        self.check_rate(asker)?;
        let limit = self.config.limits.body_bytes;
        let declared = request.headers().get(header::CONTENT_LENGTH);
        let declared = declared.and_then(|value| value.to_str().ok()?.parse::<u64>().ok());
        if is_file(request) {
            return Ok(Admitted { access, permit: None });
        }
        if declared.is_some_and(|bytes| bytes > limit) {
            return Err(Turned::new(Refusal::Body, body_too_large(limit)));
        }
        let Ok(permit) = Arc::clone(&self.permits).try_acquire_owned() else {
            let problem = Problem::new(
                StatusCode::SERVICE_UNAVAILABLE,
                "busy",
                "The server is busy",
                "as many requests as may be are being answered already",
            );
            return Err(Turned::new(Refusal::Concurrency, problem).with_header(header::RETRY_AFTER, "1"));
        };
        Ok(Admitted {
            access,
            permit: Some(permit),
        })
    }

    fn authenticate<B>(
        &self,
        tokens: &Tokens,
        request: &Request<B>,
        peer: IpAddr,
    ) -> Result<(Access, Asker), Turned> {
        let text = match credentials(request.headers()) {
            Credentials::Bearer(text) => Some(text.to_owned()),
            Credentials::Password(text) => Some(text),
            Credentials::None => None,
        };
        let denied = match text.map(|text| tokens.bearer(&text)) {
            Some(Ok(bearer)) => return Ok((bearer.access, Asker::Token(bearer.token))),
            Some(Err(denied)) => Some(denied),
            None => None,
        };
        // Whoever tries tokens is slowed down by address.
        self.check_rate(Asker::address(peer))?;
        let (detail, challenge) = match denied {
            None => ("the request has no token", "Bearer realm=\"Recto\""),
            Some(Denied::Unknown) => (
                "the token is none of this server's; it may have been revoked",
                "Bearer realm=\"Recto\", error=\"invalid_token\"",
            ),
            Some(Denied::Expired) => (
                "the token's time is over",
                "Bearer realm=\"Recto\", error=\"invalid_token\", error_description=\"expired\"",
            ),
        };
        let problem = Problem::new(
            StatusCode::UNAUTHORIZED,
            "unauthorized",
            "A token is needed",
            detail,
        )
        .with_hint("send `Authorization: Bearer TOKEN`; `recto token create` makes tokens");
        let turned = Turned::new(Refusal::Unauthorized, problem)
            .with_header(header::WWW_AUTHENTICATE, challenge)
            // For browsers, which know no other way to ask a person: the token is the password.
            .with_header(
                header::WWW_AUTHENTICATE,
                "Basic realm=\"Recto\", charset=\"UTF-8\"",
            );
        Err(turned)
    }

    fn check_rate(&self, asker: Asker) -> Result<(), Turned> {
        let Some(wait_seconds) = self.rate.as_ref().and_then(|rate| rate.take(asker)) else {
            return Ok(());
        };
        let problem = Problem::new(
            StatusCode::TOO_MANY_REQUESTS,
            "rate-limited",
            "Too many requests",
            "there were more requests than this client may make in this time",
        );
        let mut turned = Turned::new(Refusal::Rate, problem);
        turned
            .answer
            .headers_mut()
            .insert(header::RETRY_AFTER, header::HeaderValue::from(wait_seconds));
        Err(turned)
    }

    /// What the server says of itself; none of it asks a handler.
    async fn own_answer<B>(&self, request: &Request<B>, peer: IpAddr) -> Option<Result<Response, Turned>> {
        let path = request.uri().path();
        if !matches!(path, "/healthz" | "/readyz" | "/metrics") {
            return None;
        }
        if !matches!(*request.method(), Method::GET | Method::HEAD) {
            let allow = [(header::ALLOW, "GET, HEAD")];
            return Some(Ok((StatusCode::METHOD_NOT_ALLOWED, allow).into_response()));
        }
        let text = [(header::CONTENT_TYPE, "text/plain; charset=utf-8")];
        Some(Ok(match path {
            "/healthz" => (text, "ok\n").into_response(),
            "/readyz" if self.stopping.load(Ordering::Relaxed) => {
                (StatusCode::SERVICE_UNAVAILABLE, text, "stopping\n").into_response()
            }
            "/readyz" if self.readiness.is_ready().await => (text, "ready\n").into_response(),
            "/readyz" => (
                StatusCode::SERVICE_UNAVAILABLE,
                text,
                "the store does not answer\n",
            )
                .into_response(),
            _ => return Some(self.metrics(request, peer)),
        }))
    }

    fn metrics<B>(&self, request: &Request<B>, peer: IpAddr) -> Result<Response, Turned> {
        if self.config.metrics == MetricsAccess::Token
            && !self.admit(request, peer)?.access.reads_everything()
        {
            let detail = "metrics are for tokens that read every collection without a row filter";
            let problem = Problem::new(StatusCode::FORBIDDEN, "forbidden", "Not allowed", detail);
            return Ok(problem.into_response());
        }
        let text = [(header::CONTENT_TYPE, crate::operation::METRICS_TYPE)];
        Ok((text, self.observer.metrics.to_string()).into_response())
    }

    /// A request as handlers see it: with who asks, and a body that ends at the limit.
    fn prepared<B>(&self, request: Request<B>, access: Access) -> Request<Body>
    where
        B: http_body::Body<Data = axum::body::Bytes> + Send + 'static,
        B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
    {
        let limit = usize::try_from(self.config.limits.body_bytes).unwrap_or(usize::MAX);
        let is_file = is_file(&request);
        let mut request = request.map(|body| {
            if body.is_end_stream() {
                Body::empty()
            } else if is_file {
                Body::new(body)
            } else {
                Body::new(Limited::new(body, limit))
            }
        });
        // The framework's own limit is smaller.
        DefaultBodyLimit::disable().apply(&mut request);
        request.extensions_mut().insert(access);
        request
    }
}

/// Whether the body is a file that is loaded: its handler takes one at a time, as long as it comes, and
/// limits how large and how slow it may be.
fn is_file<B>(request: &Request<B>) -> bool {
    request.uri().path() == LOAD_PATH
}

fn too_long(what: &str, limit: u64) -> Problem {
    let status = match what {
        "URL" => StatusCode::URI_TOO_LONG,
        _ => StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE,
    };
    let detail = format!("the request's {what} may have {limit} bytes");
    let problem = Problem::new(status, "limit-exceeded", "A limit was exceeded", detail);
    if what == "URL" {
        return problem.with_hint(
            "what is too long for a URL goes into a body: POST …/records:query, records:explain and records:export \
             take the same parameters as a JSON object, POST …/records:batchWrite puts and deletes by keys of any length",
        );
    }
    problem
}

fn body_too_large(limit: u64) -> Problem {
    let detail = format!("the request's body may have {limit} bytes");
    Problem::new(
        StatusCode::PAYLOAD_TOO_LARGE,
        "limit-exceeded",
        "A limit was exceeded",
        detail,
    )
    .with_hint("send it in several requests")
}
