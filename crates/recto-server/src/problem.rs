//! Errors as problem details (RFC 9457).

use axum::http::{HeaderName, HeaderValue, Method, StatusCode, header};
use axum::response::{IntoResponse, Response};
use recto::session::{JsonRecord, Versioned};
use recto::{Error, ErrorKind, ErrorPart, Suggestion};
use serde_json::{Map, Value, json};

use crate::rights::{EVERY_COLLECTION, Operation, QUEUE_PREFIX, STORE};

/// Which types of patches a resource takes (RFC 5789).
pub(crate) const ACCEPT_PATCH: HeaderName = HeaderName::from_static("accept-patch");

/// The types of problems with the statuses that they have, by name. The book describes each of them.
pub(crate) const PROBLEM_TYPES: [(&str, &[u16]); 44] = [
    ("already-exists", &[409, 412]),
    ("append-only", &[409]),
    ("backup-exists", &[409]),
    ("busy", &[503]),
    ("conflict", &[409]),
    ("corrupt", &[500]),
    ("cross-site", &[403]),
    ("forbidden", &[403]),
    ("full", &[409]),
    ("internal", &[500]),
    ("invalid-argument", &[400]),
    ("invalid-body", &[400]),
    ("invalid-message", &[400]),
    ("invalid-number", &[400]),
    ("invalid-page-token", &[400]),
    ("invalid-parameter", &[400]),
    ("invalid-queries", &[400]),
    ("invalid-query", &[400]),
    ("invalid-record", &[400]),
    ("limit-exceeded", &[400, 413, 414, 431]),
    ("method-not-allowed", &[405]),
    ("misdirected", &[421]),
    ("no-view", &[400]),
    ("not-found", &[404]),
    ("not-offered", &[409]),
    ("not-unique", &[409]),
    ("outcome-unknown", &[504]),
    ("queue-changed", &[412]),
    ("queue-conflict", &[409]),
    ("rate-limited", &[429]),
    ("read-only", &[403]),
    ("record-changed", &[412]),
    ("record-exists", &[409]),
    ("request-timeout", &[408]),
    ("schema-mismatch", &[409]),
    ("store", &[500]),
    ("timeout", &[504]),
    ("too-many-in-flight", &[429]),
    ("unauthorized", &[401]),
    ("unavailable", &[503]),
    ("under-way", &[409]),
    ("unreadable-file", &[400]),
    ("unsupported", &[501]),
    ("unsupported-media-type", &[415]),
];

/// An error as it is answered.
///
/// `type` is stable, `urn:recto:problem:<kind>`; `title` is the kind in
/// words, `detail` what went wrong; `field` (of the record), `parameter` (of the query) and `position`
/// (1-based, in characters of the parameter or of the body) say where, `hint` what to do. `part` is the part
/// of what was asked that the engine names, whatever the request calls it; `unpinned` are the fields of a
/// partition that a query must pin. `version` and `record` are of the record that stood against a change.
#[derive(Debug)]
pub struct Problem {
    pub(crate) status: StatusCode,
    kind: &'static str,
    title: &'static str,
    detail: String,
    more: Box<More>,
}

/// What not every problem has; boxed, because results carry problems.
#[derive(Debug, Default)]
struct More {
    part: Option<ErrorPart>,
    field: Option<String>,
    parameter: Option<String>,
    position: Option<usize>,
    unpinned: Vec<String>,
    /// The version of the record that stood against a change.
    version: Option<i64>,
    /// That record, for who may read it.
    record: Option<JsonRecord>,
    hint: Option<String>,
    /// The collection that the hint is about, for people.
    suggestion: Option<Suggestion>,
    /// What to do about it, for programs only.
    hint_for_programs: Option<&'static str>,
    /// The methods there are, where it was the method.
    allow: Option<&'static str>,
    /// The types of patches that are taken, where it was the type.
    accept_patch: Option<&'static str>,
}

impl Problem {
    pub(crate) fn new(
        status: StatusCode,
        kind: &'static str,
        title: &'static str,
        detail: impl Into<String>,
    ) -> Self {
        Self {
            status,
            kind,
            title,
            detail: detail.into(),
            more: Box::default(),
        }
    }

    pub(crate) fn with_field(mut self, field: impl Into<String>) -> Self {
        self.more.field = Some(field.into());
        self
    }

    /// As a part of something: its field is one of that.
    pub(crate) fn within(mut self, whole: &str) -> Self {
        self.more.field = Some(match self.more.field {
            Some(field) => format!("{whole}.{field}"),
            None => whole.to_owned(),
        });
        self
    }

    pub(crate) fn with_parameter(mut self, parameter: impl Into<String>) -> Self {
        self.more.parameter = Some(parameter.into());
        self
    }

    pub(crate) fn with_position(mut self, position: usize) -> Self {
        self.more.position = Some(position);
        self
    }

    pub(crate) fn with_hint(mut self, hint: impl Into<String>) -> Self {
        self.more.hint = Some(hint.into());
        self
    }

    pub(crate) fn with_status(mut self, status: StatusCode) -> Self {
        self.status = status;
        self
    }

    pub(crate) fn with_version(mut self, version: i64) -> Self {
        self.more.version = Some(version);
        self
    }

    /// With what is there now.
    pub(crate) fn with_current(mut self, found: Versioned<JsonRecord>) -> Self {
        self.more.version = found.version;
        self.more.record = Some(found.record);
        self
    }

    /// A record is not as a write asked for.
    pub(crate) fn changed(detail: impl Into<String>) -> Self {
        Error::new(ErrorKind::Changed, detail).into()
    }

    /// A parameter of the request is not right.
    pub(crate) fn invalid_parameter(name: &str, detail: impl Into<String>) -> Self {
        Self::new(
            StatusCode::BAD_REQUEST,
            "invalid-parameter",
            "A parameter is not right",
            detail,
        )
        .with_parameter(name)
    }

    pub(crate) fn no_collection(name: &str) -> Self {
        let detail = format!("there is no collection {name}");
        let mut problem = Self::new(StatusCode::NOT_FOUND, "not-found", "Not found", detail);
        problem.more.hint_for_programs = Some("GET /v1/collections lists what there is");
        problem
    }

    /// Of a queue that is not there, and of one that is not seen.
    pub(crate) fn no_queue(name: &str) -> Self {
        Error::new(ErrorKind::NotFound, format!("there is no queue {name}"))
            .with_hint("create it first, or look at the names of those there are")
            .into()
    }

    pub(crate) fn no_resource(path: &str) -> Self {
        let detail = format!("there is nothing at {path}");
        Self::new(StatusCode::NOT_FOUND, "not-found", "Not found", detail)
            .with_hint("/docs shows all there is, /openapi.json describes it")
    }

    pub(crate) fn no_record(collection: &str) -> Self {
        let detail = format!("there is no record of {collection} with this key");
        Self::new(StatusCode::NOT_FOUND, "not-found", "Not found", detail)
    }

    pub(crate) fn wrong_method(method: &Method) -> Self {
        Self::new(
            StatusCode::METHOD_NOT_ALLOWED,
            "method-not-allowed",
            "Method not allowed",
            format!("{method} cannot be asked of this"),
        )
    }

    pub(crate) fn method_not_allowed(method: &Method, allow: &'static str) -> Self {
        let mut problem = Self::wrong_method(method).with_hint(format!("the methods are {allow}"));
        problem.more.allow = Some(allow);
        problem
    }

    pub(crate) fn unsupported_media_type(given: &str, wanted: &str) -> Self {
        let detail = match given {
            "" => "the body's Content-Type is not given".to_owned(),
            given => format!("a body of type {given} is not understood"),
        };
        Self::new(
            StatusCode::UNSUPPORTED_MEDIA_TYPE,
            "unsupported-media-type",
            "Unsupported media type",
            detail,
        )
        .with_hint(format!("send {wanted} with that as Content-Type"))
    }

    /// The same, of a patch: if it is about its type, which ones there are.
    pub(crate) fn accepting_patches(mut self, types: &'static str) -> Self {
        let is_of_type = self.status == StatusCode::UNSUPPORTED_MEDIA_TYPE;
        self.more.accept_patch = Some(types).filter(|_| is_of_type);
        self
    }

    /// The body is a file, which is taken as it is.
    pub(crate) fn packed_body(coding: &str) -> Self {
        Self::new(
            StatusCode::UNSUPPORTED_MEDIA_TYPE,
            "unsupported-media-type",
            "Unsupported media type",
            format!("a file is taken as it is, and not with Content-Encoding {coding}"),
        )
        .with_hint("the endings of its name say how it is packed: name=orders.csv.gz")
    }

    /// The body is compressed in a way that is not known.
    pub(crate) fn unsupported_coding(given: &str) -> Self {
        Self::new(
            StatusCode::UNSUPPORTED_MEDIA_TYPE,
            "unsupported-media-type",
            "Unsupported media type",
            format!("a body with Content-Encoding {given} is not understood"),
        )
        .with_hint("send it with gzip, with deflate, or without Content-Encoding")
    }

    /// The body did not come in time.
    pub(crate) fn late_body(detail: impl Into<String>) -> Self {
        Self::new(
            StatusCode::REQUEST_TIMEOUT,
            "request-timeout",
            "The request did not arrive in time",
            detail,
        )
        .with_hint("send it again")
    }

    /// The body is not what the resource takes.
    pub(crate) fn invalid_body(detail: impl Into<String>) -> Self {
        Self::new(
            StatusCode::BAD_REQUEST,
            "invalid-body",
            "The body is not right",
            detail,
        )
    }

    /// A record is not one of its collection.
    pub(crate) fn invalid_record(detail: impl Into<String>) -> Self {
        Self::new(
            StatusCode::BAD_REQUEST,
            "invalid-record",
            "The record is not right",
            detail,
        )
    }

    /// The body could not be read to its end.
    pub(crate) fn unreadable_body(status: StatusCode, detail: &str) -> Self {
        if status == StatusCode::PAYLOAD_TOO_LARGE {
            return Self::limit_exceeded("the body is longer than this server takes")
                .with_hint("send fewer changes at a time");
        }
        Self::invalid_body(detail)
    }

    pub(crate) fn limit_exceeded(detail: impl Into<String>) -> Self {
        Self::new(
            StatusCode::PAYLOAD_TOO_LARGE,
            "limit-exceeded",
            "A limit was exceeded",
            detail,
        )
    }

    /// Part of the interface, and not there yet.
    pub(crate) fn unsupported(detail: impl Into<String>) -> Self {
        Self::new(
            StatusCode::NOT_IMPLEMENTED,
            "unsupported",
            "Not yet supported",
            detail,
        )
    }

    /// Representation and address say different things.
    pub(crate) fn conflict(detail: impl Into<String>) -> Self {
        Self::new(
            StatusCode::CONFLICT,
            "conflict",
            "The record is not of this address",
            detail,
        )
    }

    /// A defect of the server.
    pub(crate) fn internal(detail: impl Into<String>) -> Self {
        Self::new(
            StatusCode::INTERNAL_SERVER_ERROR,
            "internal",
            "The server failed",
            detail,
        )
    }

    /// What is wrong with a query: a limit of its text is the request's fault, not its body's size.
    pub(crate) fn of_query(error: Error) -> Self {
        let is_limit = error.kind() == ErrorKind::LimitExceeded;
        let mut problem = Self::from(error);
        if is_limit {
            problem.status = StatusCode::BAD_REQUEST;
        }
        problem
    }

    /// What is wrong with the one record of a request.
    pub(crate) fn of_record(error: Error) -> Self {
        let field = error.field().map(str::to_owned);
        let mut problem = Self::from(error);
        problem.more.field = field;
        problem
    }

    /// What is wrong with a queue, or with one of a `list` of messages or receipts.
    pub(crate) fn of_queue(error: Error, list: &str) -> Self {
        let kind = error.kind();
        let within = error.change().map(|number| format!("{list}[{number}]"));
        let field = error.field().filter(|field| within.is_none() || *field != list);
        let field = field.map(str::to_owned);
        let mut problem = Self::from(error);
        problem.more.field = field;
        match kind {
            ErrorKind::Conflict => {
                (problem.kind, problem.title) = ("queue-conflict", "What there is stands against it");
            }
            ErrorKind::Changed => (problem.kind, problem.title) = ("queue-changed", "The queue was changed"),
            // Not the request is too large: there is no room for more queues, work units or messages.
            ErrorKind::LimitExceeded => {
                (problem.status, problem.kind, problem.title) =
                    (StatusCode::CONFLICT, "full", "There is no room for more");
            }
            _ => {}
        }
        match within {
            Some(within) => problem.within(&within),
            None => problem,
        }
    }

    pub(crate) fn forbidden_queue(queue: &str, operation: Operation) -> Self {
        let name = operation.name();
        let detail = format!("the token does not allow {name} of queue {queue}");
        Self::new(StatusCode::FORBIDDEN, "forbidden", "Not allowed", detail).with_hint(format!(
            "`recto token create NAME --grant '{QUEUE_PREFIX}{queue}:{name}'` makes one that does"
        ))
    }

    /// Rejects a token that reads some records, where the answer would show all of them.
    pub(crate) fn forbidden_to_some(collection: &str) -> Self {
        let detail =
            format!("the token reads some records of {collection} only, and this tells of all of them");
        Self::new(StatusCode::FORBIDDEN, "forbidden", "Not allowed", detail)
            .with_hint("ask with a token whose grant of the collection has no `where`")
    }

    pub(crate) fn forbidden(collection: &str, operation: Operation) -> Self {
        let name = operation.name();
        let detail = match collection {
            EVERY_COLLECTION => format!("the token does not allow to {name} in all collections"),
            collection => format!("the token does not allow to {name} in {collection}"),
        };
        Self::new(StatusCode::FORBIDDEN, "forbidden", "Not allowed", detail)
    }

    /// The server is read-only, and the request would change the store.
    pub(crate) fn read_only() -> Self {
        Self::new(
            StatusCode::FORBIDDEN,
            "read-only",
            "This server is read-only",
            "this server rejects every request that would change the store",
        )
        .with_hint("send the request to a server of this store that was started without --read-only")
    }

    pub(crate) fn forbidden_store(operation: Operation) -> Self {
        let name = operation.name();
        let detail = format!("the token does not allow {name} of the store");
        Self::new(StatusCode::FORBIDDEN, "forbidden", "Not allowed", detail).with_hint(format!(
            "`recto token create NAME --grant '{STORE}:{name}'` makes one that does"
        ))
    }

    /// As a problem that names something otherwise.
    pub(crate) fn renamed(mut self, from: &str, to: &str) -> Self {
        self.detail = self.detail.replace(from, to);
        self
    }

    /// The kind in words.
    pub(crate) fn kind(&self) -> ProblemKind {
        ProblemKind(self.kind)
    }

    pub(crate) fn title(&self) -> &'static str {
        self.title
    }

    /// What went wrong.
    pub(crate) fn detail(&self) -> &str {
        &self.detail
    }

    /// The field of the record that it is about.
    pub(crate) fn field(&self) -> Option<&str> {
        self.more.field.as_deref()
    }

    /// What a person can do about it.
    pub(crate) fn hint(&self) -> Option<&str> {
        self.more.hint.as_deref()
    }

    /// The collection that would serve the query, where the hint is about one.
    pub(crate) fn suggestion(&self) -> Option<&Suggestion> {
        self.more.suggestion.as_ref()
    }

    /// Whether the list of problem types has the type, with the status.
    fn is_listed(&self) -> bool {
        let status = self.status.as_u16();
        let is_it = |(kind, statuses): &(&str, &[u16])| *kind == self.kind && statuses.contains(&status);
        PROBLEM_TYPES.iter().any(is_it)
    }

    /// Its body.
    pub(crate) fn to_json(&self) -> Value {
        debug_assert!(
            self.is_listed(),
            "{} with {} is missing in PROBLEM_TYPES",
            self.kind,
            self.status
        );
        let mut body = Map::new();
        body.insert("type".into(), format!("urn:recto:problem:{}", self.kind).into());
        body.insert("title".into(), self.title.into());
        body.insert("status".into(), self.status.as_u16().into());
        body.insert("detail".into(), self.detail.clone().into());
        if let Some(part) = self.more.part {
            body.insert("part".into(), part.name().into());
        }
        if let Some(field) = &self.more.field {
            body.insert("field".into(), field.clone().into());
        }
        if let Some(parameter) = &self.more.parameter {
            body.insert("parameter".into(), parameter.clone().into());
        }
        if let Some(position) = self.more.position {
            body.insert("position".into(), json!(position));
        }
        if !self.more.unpinned.is_empty() {
            body.insert("unpinned".into(), json!(self.more.unpinned));
        }
        if let Some(version) = self.more.version {
            body.insert("version".into(), version.to_string().into());
        }
        if let Some(record) = &self.more.record {
            body.insert("record".into(), Value::Object(record.clone()));
        }
        if let Some(hint) = self.hint().or(self.more.hint_for_programs) {
            body.insert("hint".into(), hint.into());
        }
        Value::Object(body)
    }
}

/// How an error is answered: status, kind, and the kind in words.
fn answer_to(kind: ErrorKind) -> (StatusCode, &'static str, &'static str) {
    match kind {
        ErrorKind::InvalidQuery => (StatusCode::BAD_REQUEST, "invalid-query", "The query is not right"),
        ErrorKind::NoPlan => (StatusCode::BAD_REQUEST, "no-view", "No view serves the query"),
        ErrorKind::InvalidCursor => (
            StatusCode::BAD_REQUEST,
            "invalid-page-token",
            "The page token is not right",
        ),
        ErrorKind::InvalidRecord => (
            StatusCode::BAD_REQUEST,
            "invalid-record",
            "The record is not right",
        ),
        ErrorKind::InvalidSchema | ErrorKind::InvalidArgument => (
            StatusCode::BAD_REQUEST,
            "invalid-argument",
            "An argument is not right",
        ),
        ErrorKind::SchemaMismatch => (StatusCode::CONFLICT, "schema-mismatch", "The schema differs"),
        ErrorKind::Conflict => (StatusCode::CONFLICT, "record-exists", "Another record is there"),
        ErrorKind::Exists => (
            StatusCode::CONFLICT,
            "already-exists",
            "The record is there already",
        ),
        ErrorKind::Changed => (
            StatusCode::PRECONDITION_FAILED,
            "record-changed",
            "The record was changed",
        ),
        ErrorKind::Unsupported => (StatusCode::NOT_IMPLEMENTED, "unsupported", "Not yet supported"),
        ErrorKind::NotOffered => (
            StatusCode::CONFLICT,
            "not-offered",
            "The collection does not offer this",
        ),
        ErrorKind::NotFound => (StatusCode::NOT_FOUND, "not-found", "Not found"),
        ErrorKind::Forbidden => (StatusCode::FORBIDDEN, "forbidden", "Not allowed"),
        ErrorKind::Unavailable => (
            StatusCode::SERVICE_UNAVAILABLE,
            "unavailable",
            "The store cannot be reached",
        ),
        ErrorKind::Timeout => (StatusCode::GATEWAY_TIMEOUT, "timeout", "The time was not enough"),
        ErrorKind::OutcomeUnknown => (
            StatusCode::GATEWAY_TIMEOUT,
            "outcome-unknown",
            "The write may or may not have been applied",
        ),
        ErrorKind::LimitExceeded => (
            StatusCode::PAYLOAD_TOO_LARGE,
            "limit-exceeded",
            "A limit was exceeded",
        ),
        ErrorKind::TooManyInFlight => (
            StatusCode::TOO_MANY_REQUESTS,
            "too-many-in-flight",
            "Too many messages are in flight",
        ),
        // Of the store's credentials, not the request's.
        ErrorKind::Unauthorized => (
            StatusCode::SERVICE_UNAVAILABLE,
            "unavailable",
            "The store refuses the server",
        ),
        ErrorKind::Corrupt => (
            StatusCode::INTERNAL_SERVER_ERROR,
            "corrupt",
            "Stored data is damaged",
        ),
        _ => (StatusCode::INTERNAL_SERVER_ERROR, "store", "The store failed"),
    }
}

/// The kind that an error is answered as, for logs.
pub(crate) fn kind_of(kind: ErrorKind) -> &'static str {
    answer_to(kind).1
}

/// Whether another record has the values of unique fields.
pub(crate) fn is_not_unique(error: &Error) -> bool {
    error.kind() == ErrorKind::Conflict && error.field().is_some()
}

impl From<Error> for Problem {
    fn from(error: Error) -> Self {
        let (status, mut kind, mut title) = answer_to(error.kind());
        if is_not_unique(&error) {
            (kind, title) = ("not-unique", "Another record has the values");
        }
        let field = match (error.change(), error.field()) {
            (Some(change), Some(field)) => Some(format!("changes[{change}].{field}")),
            (Some(change), None) => Some(format!("changes[{change}]")),
            (None, field) => field.map(str::to_owned),
        };
        Self {
            status,
            kind,
            title,
            detail: error.message().to_owned(),
            more: Box::new(More {
                part: error.part(),
                unpinned: error.unpinned().to_vec(),
                version: error.version(),
                field,
                position: error.column(),
                hint: error.hint().map(str::to_owned),
                suggestion: error.suggestion().cloned(),
                ..More::default()
            }),
        }
    }
}

/// The kind of the problem that an answer is, kept with it for logs.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ProblemKind(pub(crate) &'static str);

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        let mut response = (self.status, self.to_json().to_string()).into_response();
        response.extensions_mut().insert(self.kind());
        response.headers_mut().insert(
            header::CONTENT_TYPE,
            HeaderValue::from_static("application/problem+json"),
        );
        let no_store = HeaderValue::from_static("no-store");
        response.headers_mut().insert(header::CACHE_CONTROL, no_store);
        if let Some(version) = self.more.version {
            let tag = HeaderValue::try_from(format!("\"{version}\""));
            response
                .headers_mut()
                .extend(tag.ok().map(|tag| (header::ETAG, tag)));
        }
        let named = [
            (header::ALLOW, self.more.allow),
            (ACCEPT_PATCH, self.more.accept_patch),
        ];
        for (name, text) in named {
            let value = text.map(HeaderValue::from_static);
            response.headers_mut().extend(value.map(|value| (name, value)));
        }
        response
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use std::collections::{BTreeMap, BTreeSet};
    use std::path::Path;

    use super::*;

    const BOOK: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/book/http.md");

    /// The sources of the crate, without tests.
    fn sources(folder: &Path) -> Vec<String> {
        let mut sources = Vec::new();
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                sources.extend(self::sources(&path));
            } else if path.extension().is_some_and(|ending| ending == "rs") {
                let text = std::fs::read_to_string(&path).unwrap();
                let text = text.split("#[cfg(test)]").next().unwrap().to_owned();
                sources.push(text);
            }
        }
        sources
    }

    /// The kinds that a source makes problems of.
    fn made(source: &str) -> Vec<&str> {
        let calls = source.split("Problem::new(").skip(1);
        let calls = calls.chain(source.split(" Self::new(\n            StatusCode::").skip(1));
        let calls = calls.chain(source.split(" Self::new(StatusCode::").skip(1));
        let calls = calls.chain(source.split("=> (StatusCode::").skip(1));
        let calls = calls.chain(source.split("=> (\n            StatusCode::").skip(1));
        let calls = calls.chain(source.split("problem.title) = (").skip(1));
        let calls = calls.chain(source.split("problem.title) =\n").skip(1));
        calls.filter_map(|call| call.split('"').nth(1)).collect()
    }

    #[test]
    fn every_type_of_problem_is_listed() {
        let sources = sources(Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/src")));
        let made: BTreeSet<&str> = sources.iter().flat_map(|source| made(source)).collect();
        let listed: BTreeSet<&str> = PROBLEM_TYPES.iter().map(|(kind, _)| *kind).collect();
        // It is no call of a function: `From<Error>` changes the kind of a conflict.
        let made: BTreeSet<&str> = made.into_iter().chain(["not-unique"]).collect();
        assert_eq!(made, listed);
    }

    #[test]
    fn the_book_describes_every_type_of_problem() {
        let book = std::fs::read_to_string(BOOK).unwrap();
        let (_, section) = book.split_once("### Types of problems").unwrap();
        let section = section.split("\n## ").next().unwrap();
        let mut described = BTreeMap::new();
        for row in section.lines().filter_map(|line| line.strip_prefix("| `")) {
            let cells: Vec<&str> = row.split('|').map(str::trim).collect();
            let [kind, statuses, meaning, to_do, ""] = cells[..] else {
                panic!("{row}");
            };
            assert!(!meaning.is_empty() && !to_do.is_empty(), "{row}");
            let statuses = statuses.split(", ").map(|status| status.parse().unwrap());
            let statuses: Vec<u16> = statuses.collect();
            let earlier = described.insert(kind.trim_end_matches('`').to_owned(), statuses);
            assert!(earlier.is_none(), "{row}");
        }
        let listed = PROBLEM_TYPES.iter();
        let listed = listed.map(|(kind, statuses)| ((*kind).to_owned(), statuses.to_vec()));
        assert_eq!(described, listed.collect::<BTreeMap<_, _>>());
    }
}
