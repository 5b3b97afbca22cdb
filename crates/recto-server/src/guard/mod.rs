//! Checks before every handler: limits on the request, authentication, and headers of the reply.
//!
//! The guard checks a request in this order:
//!
//! 1. the lengths of its URL and headers,
//! 2. how its body is sent,
//! 3. its host,
//! 4. the site from which it comes,
//! 5. its token,
//! 6. the request rate of the token,
//! 7. whether it changes data, on a read-only server,
//! 8. the declared length of its body,
//! 9. the number of requests of the same class ([`places`]) that the server is handling, of the token and of all
//!    tokens.
//!
//! The server rejects a request after reading only its headers.
//!
//! Health, readiness and metrics are for programs that may know only the address of the server.
//! These programs need replies especially when the server is busy. The server therefore accepts
//! such requests for any host (metrics only if it has tokens), and does not count them as requests
//! in progress.

mod answer;
mod body;
mod client;
mod hosts;
mod origin;
mod places;
mod rate;
mod route;
mod shares;
mod sign_in;
mod sign_in_page;
mod unread;

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use axum::Router;
use axum::body::Body;
use axum::extract::DefaultBodyLimit;
use axum::http::{HeaderName, HeaderValue, Method, Request, StatusCode, header};
use axum::response::{IntoResponse as _, Response};
use http_body_util::Limited;
use recto_api::operations::LOAD_PATH;
use tokio::sync::Semaphore;

use crate::api::BodyLimit;
use crate::auth::{Denied, Tokens};
use crate::config::{Config, MAX_HEADERS, MetricsAccess, permits};
use crate::operation::{Observer, Readiness, Refusal, RequestClient, RequestIds};
use crate::problem::Problem;
use crate::rights::{Access, Right, Validity, changes_store};
use crate::routes;
use crate::stopping::Stopping;
use recto::problem::ProblemType;

use body::Awaited;
use client::{Credentials, credentials};
use hosts::Hosts;
use places::{Class, Full, Place, Places};
use rate::{Asker, RateLimit};
use sign_in::SignIns;

pub(crate) use route::NoteRoute;

/// Maximum number of concurrent requests for health, readiness and metrics.
const MAX_OWN_ANSWERS: u64 = 64;

/// Guard: checks all requests before their handlers, and answers health checks and metrics itself.
#[derive(Debug)]
pub(crate) struct Guard {
    router: Router,
    config: Config,
    tokens: Option<Arc<Tokens>>,
    anyone: Access,
    hosts: Hosts,
    rate: Option<RateLimit>,
    places: Places,
    own_permits: Arc<Semaphore>,
    sign_ins: SignIns,
    ids: RequestIds,
    readiness: Arc<Readiness>,
    stopping: Arc<Stopping>,
    pub(crate) observer: Arc<Observer>,
}

/// Rejection of a request by the guard: the reason for metrics, and the reply.
#[derive(Debug)]
struct Turned {
    refusal: Refusal,
    problem: Problem,
    headers: Vec<(HeaderName, HeaderValue)>,
}

impl Turned {
    fn new(refusal: Refusal, problem: Problem) -> Self {
        Self {
            refusal,
            problem,
            headers: Vec::new(),
        }
    }

    fn with_header(mut self, name: HeaderName, value: impl Into<HeaderValue>) -> Self {
        self.headers.push((name, value.into()));
        self
    }

    /// Converts the rejection to a reply: a page for browsers, JSON for other clients.
    fn into_answer(self, wants_page: bool) -> Response {
        let mut answer = match self.refusal {
            Refusal::Unauthorized if wants_page => sign_in_page::answer(&self.problem),
            _ => routes::answer(self.problem, wants_page),
        };
        for (name, value) in self.headers {
            answer.headers_mut().append(name, value);
        }
        answer
    }
}

/// Result of authenticating a request: its rights, the client for the rate limit, and the token's
/// id.
#[derive(Debug)]
struct Authenticated {
    access: Access,
    asker: Asker,
    token: Option<Arc<str>>,
}

/// Admission of a request: its place in the limit of concurrent requests, and the validity of its
/// token.
#[derive(Debug)]
pub(crate) struct Admitted {
    validity: Option<Validity>,
    _place: Place,
}

impl Guard {
    pub(crate) fn new(
        router: Router,
        config: Config,
        tokens: Option<Arc<Tokens>>,
        readiness: Arc<Readiness>,
        stopping: Arc<Stopping>,
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
            places: Places::new(limits),
            own_permits: permits(MAX_OWN_ANSWERS),
            sign_ins: SignIns::new(observer.environment.clone()),
            ids: RequestIds::new(&observer.environment),
            readiness,
            stopping,
            observer,
            config,
        }
    }

    /// Makes `/readyz` fail, because the server stops, and ends waiting receives.
    pub(crate) fn stop(&self) {
        self.stopping.begin();
    }

    /// Checks properties of a request that need no authentication: URL, headers and body encoding.
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
        if let Some(problem) = unread_coding(headers) {
            return Err(Turned::new(Refusal::Coding, problem));
        }
        if self.is_for_any_host(request) {
            return Ok(());
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

    /// Returns whether the request may have any host name. Health probes may know only the address.
    /// Metrics must not be readable for pages of other sites. With tokens, the token prevents that;
    /// without tokens, the host check.
    fn is_for_any_host<B>(&self, request: &Request<B>) -> bool {
        match request.uri().path() {
            METRICS => self.tokens.is_some(),
            path => matches!(path, HEALTH | READINESS),
        }
    }

    /// Rejects a request that would change the store, if the server is read-only.
    fn check_reads<B>(&self, request: &Request<B>) -> Result<(), Turned> {
        if !self.config.read_only || !changes_store(request.method(), request.uri().path()) {
            return Ok(());
        }
        Err(Turned::new(Refusal::ReadOnly, Problem::read_only()))
    }

    /// Admits a request to its handler. Rejects a too large body, and a request beyond the limit of
    /// concurrent requests of its class.
    fn admit<B>(&self, request: &Request<B>, authenticated: &Authenticated) -> Result<Admitted, Turned> {
        let limit = self.config.limits.body_bytes;
        let declared = request.headers().get(header::CONTENT_LENGTH);
        let declared = declared.and_then(|value| value.to_str().ok()?.parse::<u64>().ok());
        if !is_file(request) && declared.is_some_and(|bytes| bytes > limit) {
            return Err(Turned::new(Refusal::Body, body_too_large(limit)));
        }
        let token = match authenticated.asker {
            Asker::Token(token) => Some(token),
            Asker::Address(_) => None,
        };
        let place = self.places.take(Class::of(request.uri().path()), token);
        Ok(Admitted {
            validity: authenticated.access.validity().cloned(),
            _place: place.map_err(|full| match full {
                Full::OfToken => token_is_busy(),
                Full::OfAll => busy(),
            })?,
        })
    }

    /// Authenticates a request, and counts it for the rate limit. Writes the token's name and id to
    /// `who`.
    fn authenticate<B>(
        &self,
        request: &Request<B>,
        who: &mut RequestClient,
    ) -> Result<Authenticated, Turned> {
        let mut authenticated = match &self.tokens {
            None => Authenticated {
                access: self.anyone.clone(),
                asker: Asker::address(who.client),
                token: None,
            },
            Some(tokens) => self.authenticate_by(tokens, request, who)?,
        };
        if self.config.read_only {
            authenticated.access = authenticated.access.read_only();
        }
        who.name = Arc::clone(&authenticated.access.name);
        who.token.clone_from(&authenticated.token);
        self.check_rate(authenticated.asker)?;
        Ok(authenticated)
    }

    fn authenticate_by<B>(
        &self,
        tokens: &Tokens,
        request: &Request<B>,
        who: &RequestClient,
    ) -> Result<Authenticated, Turned> {
        let text = match credentials(request.headers()) {
            Credentials::Bearer(text) => Some(text.to_owned()),
            Credentials::Password(text) => Some(text),
            Credentials::None => None,
        };
        let denied = match text.map(|text| tokens.bearer(&text)) {
            Some(Ok(bearer)) => {
                return Ok(Authenticated {
                    access: bearer.access,
                    asker: Asker::Token(bearer.token),
                    token: Some(bearer.id),
                });
            }
            Some(Err(denied)) => {
                self.sign_ins.refused(who.client, &who.request_id, denied);
                Some(denied)
            }
            None => None,
        };
        // Limit rejected requests by address, to slow down clients that guess tokens.
        self.check_rate(Asker::address(who.client))?;
        let (detail, challenge) = match denied {
            None => ("the request has no token", "Bearer realm=\"Recto\""),
            Some(Denied::Unknown) => (
                "the server does not know the token, which may have been revoked",
                "Bearer realm=\"Recto\", error=\"invalid_token\"",
            ),
            Some(Denied::Expired) => (
                "the token has expired",
                "Bearer realm=\"Recto\", error=\"invalid_token\", error_description=\"expired\"",
            ),
        };
        let problem = Problem::new(ProblemType::Unauthorized, detail)
            .with_hint("send `Authorization: Bearer TOKEN`; create tokens with `recto token create`");
        let basic = HeaderValue::from_static("Basic realm=\"Recto\", charset=\"UTF-8\"");
        let turned = Turned::new(Refusal::Unauthorized, problem)
            .with_header(header::WWW_AUTHENTICATE, HeaderValue::from_static(challenge))
            // Add a Basic challenge: browsers show a password dialog only for it. The token is the
            // password.
            .with_header(header::WWW_AUTHENTICATE, basic);
        Err(turned)
    }

    fn check_rate(&self, asker: Asker) -> Result<(), Turned> {
        let Some(wait_seconds) = self.rate.as_ref().and_then(|rate| rate.take(asker)) else {
            return Ok(());
        };
        let problem = Problem::new(
            ProblemType::RateLimited,
            "the client made too many requests in this time",
        );
        Err(Turned::new(Refusal::Rate, problem).with_header(header::RETRY_AFTER, wait_seconds))
    }

    /// Answers requests for health, readiness and metrics without a handler.
    async fn own_answer<B>(&self, request: &Request<B>, who: &mut RequestClient) -> Result<Response, Turned> {
        if !matches!(*request.method(), Method::GET | Method::HEAD) {
            return Ok(Problem::method_not_allowed(request.method(), "GET, HEAD").into_response());
        }
        let _permit = self.own_permits.try_acquire().map_err(|_| busy())?;
        let text = [(header::CONTENT_TYPE, "text/plain; charset=utf-8")];
        let unready =
            |why: &'static str| (StatusCode::SERVICE_UNAVAILABLE, text.clone(), why).into_response();
        Ok(match request.uri().path() {
            HEALTH => (text.clone(), "ok\n").into_response(),
            READINESS if self.stopping.has_begun() => unready("stopping\n"),
            READINESS => match self.readiness.obstacle().await {
                None => (text.clone(), self.ready()).into_response(),
                Some(why) => unready(why),
            },
            _ => self.metrics(request, who).await?,
        })
    }

    /// Returns the text of a successful `/readyz`. It names no collection, because everybody can
    /// read it.
    fn ready(&self) -> String {
        let mut text = match self.readiness.unavailable_collections() {
            0 => "ready\n".to_owned(),
            unavailable => {
                format!("ready\ncollections unavailable: {unavailable} (the log says which, and why)\n")
            }
        };
        if let Some(cluster) = self.readiness.cluster_status() {
            text += &format!("{}\n", cluster.version());
            cluster.lacks.iter().for_each(|lack| text += &format!("{lack}\n"));
        }
        if let Some(warning) = self.readiness.clock_warning() {
            text += &format!("{warning}\n");
        }
        text
    }

    async fn metrics<B>(&self, request: &Request<B>, who: &mut RequestClient) -> Result<Response, Turned> {
        let access = match self.config.metrics {
            MetricsAccess::Token => self.authenticate(request, who)?.access,
            MetricsAccess::Open => Access::all(),
        };
        if !access.reads_everything() {
            let detail = "metrics need a token that can read every collection without a row filter";
            let problem = Problem::new(ProblemType::Forbidden, detail);
            return Ok(problem.into_response());
        }
        let text = [(header::CONTENT_TYPE, crate::operation::METRICS_TYPE)];
        let of_store = self.readiness.store_metrics();
        // Show queue names only to tokens that may read every queue. Leave them out if metrics need
        // no token although the server has tokens.
        let is_for_anybody = matches!(self.config.metrics, MetricsAccess::Open) && self.tokens.is_some();
        let of_queues = if !is_for_anybody && access.allows_every_queue(Right::Read) {
            self.readiness.queues.text().await
        } else {
            String::new()
        };
        let places = crate::operation::PlacesText(self.places.taken());
        Ok((
            text,
            format!("{}{places}{of_store}{of_queues}", self.observer.metrics),
        )
            .into_response())
    }

    /// Prepares a request for its handler: adds its rights, and limits its body. The returned flag
    /// is true while the handler waits for bytes of the body.
    fn prepared<B>(&self, request: Request<B>, access: Access) -> (Request<Body>, Arc<AtomicBool>)
    where
        B: http_body::Body<Data = axum::body::Bytes> + Send + 'static,
        B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
    {
        let limit = usize::try_from(self.config.limits.body_bytes).unwrap_or(usize::MAX);
        let is_file = is_file(&request);
        let mut waits = Arc::default();
        let mut request = request.map(|body| {
            if body.is_end_stream() {
                return Body::empty();
            }
            if is_file {
                return Body::new(body);
            }
            let (body, is_awaited) = Awaited::new(Limited::new(body, limit));
            waits = is_awaited;
            Body::new(body)
        });
        // Disable axum's own limit of bodies, which is smaller than the configured limit.
        DefaultBodyLimit::disable().apply(&mut request);
        request.extensions_mut().insert(access);
        request
            .extensions_mut()
            .insert(BodyLimit(self.config.limits.body_bytes));
        (request, waits)
    }
}

/// Returns whether the body is a file to load. The handler of loads has its own limits of size and
/// time.
fn is_file<B>(request: &Request<B>) -> bool {
    request.uri().path() == LOAD_PATH
}

/// Path of the health check. The next constants are the paths of the readiness check and of
/// metrics.
const HEALTH: &str = "/healthz";
const READINESS: &str = "/readyz";
const METRICS: &str = "/metrics";

fn is_own<B>(request: &Request<B>) -> bool {
    matches!(request.uri().path(), HEALTH | READINESS | METRICS)
}

/// Returns a problem if the body has a transfer coding that the server does not decode. The server
/// would misread such a body.
fn unread_coding(headers: &header::HeaderMap) -> Option<Problem> {
    let mut codings = headers.get_all(header::TRANSFER_ENCODING).iter();
    if codings.all(|coding| coding.as_bytes().eq_ignore_ascii_case(b"chunked")) {
        return None;
    }
    let detail = "the server supports only the Transfer-Encoding chunked";
    Some(Problem::unsupported(detail).with_hint("send a compressed body with Content-Encoding: gzip"))
}

fn busy() -> Turned {
    let problem = Problem::new(
        ProblemType::Busy,
        "the server has the maximum number of concurrent requests",
    );
    Turned::new(Refusal::Concurrency, problem).with_header(header::RETRY_AFTER, 1)
}

fn token_is_busy() -> Turned {
    let problem = Problem::new(
        ProblemType::RateLimited,
        "the token has the maximum number of concurrent requests",
    );
    let problem = problem.with_hint("wait for replies, or read exports to their end");
    Turned::new(Refusal::TokenConcurrency, problem).with_header(header::RETRY_AFTER, 1)
}

fn too_long(what: &str, limit: u64) -> Problem {
    let status = match what {
        "URL" => StatusCode::URI_TOO_LONG,
        _ => StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE,
    };
    let detail = format!("the request's {what} has at most {limit} bytes");
    let problem = Problem::new(ProblemType::LimitExceeded, detail).with_status(status);
    if what == "URL" {
        return problem.with_hint(
            "move long parameters into a body: POST …/records:query, records:explain and records:export \
             accept them as a JSON object. POST …/records:batchWrite puts and deletes records with keys of \
             any length",
        );
    }
    problem
}

fn body_too_large(limit: u64) -> Problem {
    let detail = format!("the request's body has at most {limit} bytes");
    Problem::new(ProblemType::LimitExceeded, detail).with_hint("split it into several requests")
}
