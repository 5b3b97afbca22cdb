//! Errors of the HTTP API as problem details (RFC 9457).

use axum::http::{HeaderName, HeaderValue, Method, StatusCode, header};
use axum::response::{IntoResponse, Response};
use recto::problem::{ProblemBody, ProblemType, TYPE_PREFIX};
use recto::session::{JsonRecord, Versioned};
use recto::{Error, ErrorKind, ErrorPart, Suggestion};
use serde_json::{Value, json};

use crate::rights::{EVERY_COLLECTION, QUEUE_PREFIX, Right, STORE};

/// Header `Accept-Patch`: types of patches that a resource accepts (RFC 5789).
pub(crate) const ACCEPT_PATCH: HeaderName = HeaderName::from_static("accept-patch");

/// Error of a request, which becomes an HTTP response with problem details (RFC 9457).
///
/// `type` is stable: `urn:recto:problem:<kind>`. `title` is the kind in words, and `detail`
/// describes the error. `hint` contains advice. Three members locate the error:
///
/// - `field`: a field of the record
/// - `parameter`: a parameter of the query
/// - `position`: a position in the parameter or the body, counted in characters from 1
///
/// `part` is the part of the request in the engine's terms, independent of its name in the request.
/// `missing_partition_fields` are the partition fields that a query must fix by `=`. If a stored
/// record prevented a change, `version` is the version of the record, and `record` is its content.
#[derive(Debug)]
pub struct Problem {
    pub(crate) status: StatusCode,
    kind: ProblemType,
    detail: String,
    more: Box<More>,
}

/// Members that only some problems have. They are boxed to keep results that contain a problem
/// small.
#[derive(Debug, Default)]
struct More {
    /// Title of the problem, if it differs from the title of its type.
    title: Option<&'static str>,
    part: Option<ErrorPart>,
    field: Option<String>,
    parameter: Option<String>,
    position: Option<usize>,
    missing_partition_fields: Vec<String>,
    /// Version of the stored record that prevented a change.
    version: Option<i64>,
    /// Content of the stored record that prevented a change, if the token may read it.
    record: Option<JsonRecord>,
    hint: Option<String>,
    /// View or collection that the hint proposes, which the console shows.
    suggestion: Option<Suggestion>,
    /// Hint for programs, which the console does not show to people.
    hint_for_programs: Option<&'static str>,
    /// Methods that the resource supports, if the request's method was wrong.
    allow: Option<HeaderValue>,
    /// Media types of patches that the resource accepts, if the type of the request's body was
    /// wrong.
    accept_patch: Option<&'static str>,
}

impl Problem {
    /// Creates a problem with the usual HTTP status of its type.
    pub(crate) fn new(kind: ProblemType, detail: impl Into<String>) -> Self {
        Self {
            status: usual_status(kind),
            kind,
            detail: detail.into(),
            more: Box::default(),
        }
    }

    /// Replaces the title of the problem's type, for the console.
    pub(crate) fn with_title(mut self, title: &'static str) -> Self {
        self.more.title = Some(title);
        self
    }

    pub(crate) fn with_field(mut self, field: impl Into<String>) -> Self {
        self.more.field = Some(field.into());
        self
    }

    /// Puts `whole` before the problem's field, which is a part of `whole`. Without a field,
    /// `whole` becomes the field.
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

    /// Adds the version and the content of the stored record that prevented a change.
    pub(crate) fn with_current(mut self, found: Versioned<JsonRecord>) -> Self {
        self.more.version = found.version;
        self.more.record = Some(found.record);
        self
    }

    /// Creates the problem of a write whose precondition on the stored record is not met.
    pub(crate) fn changed(detail: impl Into<String>) -> Self {
        Error::new(ErrorKind::Changed, detail).into()
    }

    pub(crate) fn invalid_parameter(name: &str, detail: impl Into<String>) -> Self {
        Self::new(ProblemType::InvalidParameter, detail).with_parameter(name)
    }

    pub(crate) fn no_collection(name: &str) -> Self {
        let detail = format!("there is no collection {name}");
        let mut problem = Self::new(ProblemType::NotFound, detail);
        problem.more.hint_for_programs = Some("list the collections with GET /v1/collections");
        problem
    }

    /// Creates the problem of a queue that does not exist, or that the token cannot see.
    pub(crate) fn no_queue(name: &str) -> Self {
        Error::new(ErrorKind::NotFound, format!("there is no queue {name}"))
            .with_hint("create it first, or list the existing names")
            .into()
    }

    pub(crate) fn no_resource(path: &str) -> Self {
        let detail = format!("there is nothing at {path}");
        Self::new(ProblemType::NotFound, detail)
            .with_hint("see /docs for all pages, or /openapi.json for the description of the API")
    }

    pub(crate) fn no_record(collection: &str) -> Self {
        let detail = format!("{collection} has no record with this key");
        Self::new(ProblemType::NotFound, detail)
    }

    pub(crate) fn wrong_method(method: &Method) -> Self {
        Self::new(
            ProblemType::MethodNotAllowed,
            format!("this resource does not support {method}"),
        )
    }

    pub(crate) fn method_not_allowed(method: &Method, allow: &str) -> Self {
        let mut problem = Self::wrong_method(method).with_hint(format!("use {allow}"));
        problem.more.allow = HeaderValue::from_str(allow).ok();
        problem
    }

    pub(crate) fn unsupported_media_type(given: &str, wanted: &str) -> Self {
        let detail = match given {
            "" => "the body has no Content-Type".to_owned(),
            given => format!("the server does not support a body of type {given}"),
        };
        Self::new(ProblemType::UnsupportedMediaType, detail)
            .with_hint(format!("send {wanted} with this Content-Type"))
    }

    /// Adds the media types of patches that the resource accepts, if the problem is the type of the
    /// body.
    pub(crate) fn accepting_patches(mut self, types: &'static str) -> Self {
        let is_of_type = self.status == StatusCode::UNSUPPORTED_MEDIA_TYPE;
        self.more.accept_patch = Some(types).filter(|_| is_of_type);
        self
    }

    /// Creates the problem of a file that is sent with a `Content-Encoding`, which loads do not
    /// support.
    pub(crate) fn packed_body(coding: &str) -> Self {
        Self::new(
            ProblemType::UnsupportedMediaType,
            format!("a file cannot have the Content-Encoding {coding}"),
        )
        .with_hint("name the compression in the name of the file: name=orders.csv.gz")
    }

    /// Creates the problem of a body whose `Content-Encoding` is unknown.
    pub(crate) fn unsupported_coding(given: &str) -> Self {
        Self::new(
            ProblemType::UnsupportedMediaType,
            format!("the server does not support the Content-Encoding {given} of the body"),
        )
        .with_hint("send the body with gzip, with deflate, or without Content-Encoding")
    }

    /// Creates the problem of a request whose body did not arrive in time.
    pub(crate) fn late_body(detail: impl Into<String>) -> Self {
        Self::new(ProblemType::RequestTimeout, detail).with_hint("send the request again")
    }

    /// Creates the problem of a body whose content the resource does not accept.
    pub(crate) fn invalid_body(detail: impl Into<String>) -> Self {
        Self::new(ProblemType::InvalidBody, detail)
    }

    /// Creates the problem of a record that does not fit its collection.
    pub(crate) fn invalid_record(detail: impl Into<String>) -> Self {
        Self::new(ProblemType::InvalidRecord, detail)
    }

    /// Creates the problem of a request whose body could not be read to its end.
    pub(crate) fn unreadable_body(status: StatusCode, detail: &str) -> Self {
        if status == StatusCode::PAYLOAD_TOO_LARGE {
            return Self::limit_exceeded("the body is larger than this server accepts")
                .with_hint("split it into several requests");
        }
        Self::invalid_body(detail)
    }

    pub(crate) fn limit_exceeded(detail: impl Into<String>) -> Self {
        Self::new(ProblemType::LimitExceeded, detail)
    }

    /// Creates the problem of a request that Recto does not implement.
    pub(crate) fn unsupported(detail: impl Into<String>) -> Self {
        Self::new(ProblemType::Unsupported, detail)
    }

    /// Creates the problem of a request whose body contradicts its path.
    pub(crate) fn conflict(detail: impl Into<String>) -> Self {
        Self::new(ProblemType::Conflict, detail)
    }

    /// Creates the problem of a request that failed because of a defect of the server.
    pub(crate) fn internal(detail: impl Into<String>) -> Self {
        Self::new(ProblemType::Internal, detail)
    }

    /// Converts an error of a query. A filter or sort that is too long gets status 400, because 413
    /// is for bodies.
    pub(crate) fn of_query(error: Error) -> Self {
        let is_limit = error.kind() == ErrorKind::LimitExceeded;
        let mut problem = Self::from(error);
        if is_limit {
            problem.status = StatusCode::BAD_REQUEST;
        }
        problem
    }

    /// Converts an error of a request with one record. Its field has no prefix `changes[…].`, which
    /// only several changes need.
    pub(crate) fn of_record(error: Error) -> Self {
        let field = error.field().map(str::to_owned);
        let mut problem = Self::from(error);
        problem.more.field = field;
        problem
    }

    /// Converts an error of a request to a queue. `list` is the member with messages or receipts:
    /// the field of the problem names the wrong element, such as `messages[0]`.
    pub(crate) fn of_queue(error: Error, list: &str) -> Self {
        let kind = error.kind();
        let within = error.change().map(|number| format!("{list}[{number}]"));
        let field = error.field().filter(|field| within.is_none() || *field != list);
        let field = field.map(str::to_owned);
        let mut problem = Self::from(error);
        problem.more.field = field;
        match kind {
            ErrorKind::Conflict => problem.kind = ProblemType::QueueConflict,
            ErrorKind::Changed => problem.kind = ProblemType::QueueChanged,
            // Report that the store has no space for more queues, units or messages. The request's
            // size is not the cause.
            ErrorKind::LimitExceeded => {
                problem.kind = ProblemType::Full;
                problem.status = usual_status(problem.kind);
            }
            _ => {}
        }
        match within {
            Some(within) => problem.within(&within),
            None => problem,
        }
    }

    pub(crate) fn forbidden_queue(queue: &str, right: Right) -> Self {
        let name = right.name();
        let detail = format!("the token lacks the right {name} of queue {queue}");
        Self::new(ProblemType::Forbidden, detail).with_hint(format!(
            "create a token with this right: `recto token create NAME --grant '{QUEUE_PREFIX}{queue}:{name}'`"
        ))
    }

    /// Creates the problem of a token that may read only some records, when a reply would reveal
    /// information about all.
    pub(crate) fn forbidden_to_some(collection: &str) -> Self {
        let detail = format!(
            "the token can read only some records of {collection}, but this reply concerns all of them"
        );
        Self::new(ProblemType::Forbidden, detail)
            .with_hint("use a token whose grant of the collection has no `where`")
    }

    pub(crate) fn forbidden(collection: &str, right: Right) -> Self {
        let name = right.name();
        let detail = match collection {
            EVERY_COLLECTION => format!("the token lacks the right {name} in all collections"),
            collection => format!("the token lacks the right {name} in {collection}"),
        };
        Self::new(ProblemType::Forbidden, detail)
    }

    /// Creates the problem of a request that would change the store, if the server is read-only.
    pub(crate) fn read_only() -> Self {
        Self::new(
            ProblemType::ReadOnly,
            "this server rejects every request that would change the store",
        )
        .with_hint("send the request to a server of this store without --read-only")
    }

    pub(crate) fn forbidden_store(right: Right) -> Self {
        let name = right.name();
        let detail = format!("the token lacks the right {name} of the store");
        Self::new(ProblemType::Forbidden, detail).with_hint(format!(
            "create a token with this right: `recto token create NAME --grant '{STORE}:{name}'`"
        ))
    }

    /// Replaces a name in the problem's detail, such as a path on the server, by the name that the
    /// client knows.
    pub(crate) fn renamed(mut self, from: &str, to: &str) -> Self {
        self.detail = self.detail.replace(from, to);
        self
    }

    /// Returns the name of the problem's type, for logs.
    pub(crate) fn kind(&self) -> ProblemKind {
        ProblemKind(self.kind.name())
    }

    pub(crate) fn title(&self) -> &'static str {
        self.more.title.unwrap_or(self.kind.title())
    }

    /// Returns the description of the error (the member `detail`).
    pub(crate) fn detail(&self) -> &str {
        &self.detail
    }

    /// Returns the field of the record that the problem is about, if there is one.
    pub(crate) fn field(&self) -> Option<&str> {
        self.more.field.as_deref()
    }

    /// Returns the advice for people, if there is one.
    pub(crate) fn hint(&self) -> Option<&str> {
        self.more.hint.as_deref()
    }

    /// Returns the view or collection that the hint proposes, if there is one.
    pub(crate) fn suggestion(&self) -> Option<&Suggestion> {
        self.more.suggestion.as_ref()
    }

    /// Returns the problem as JSON, for the body of a response.
    pub(crate) fn to_json(&self) -> Value {
        json!(self.to_body())
    }

    /// Returns the problem as the body of a response.
    pub(crate) fn to_body(&self) -> ProblemBody {
        debug_assert!(
            self.kind.statuses().contains(&self.status.as_u16()),
            "{:?} has no status {}",
            self.kind,
            self.status
        );
        let more = &self.more;
        ProblemBody {
            name: format!("{TYPE_PREFIX}{}", self.kind.name()),
            title: self.title().to_owned(),
            status: self.status.as_u16(),
            detail: self.detail.clone(),
            part: more.part.map(|part| part.name().to_owned()),
            field: more.field.clone(),
            parameter: more.parameter.clone(),
            position: more.position.map(|position| position as u64),
            missing_partition_fields: more.missing_partition_fields.clone(),
            version: more.version.map(|version| version.to_string()),
            record: more.record.clone(),
            hint: self.hint().or(more.hint_for_programs).map(str::to_owned),
        }
    }
}

fn usual_status(kind: ProblemType) -> StatusCode {
    let status = kind.statuses().first();
    let status = status.and_then(|status| StatusCode::from_u16(*status).ok());
    status.unwrap_or(StatusCode::INTERNAL_SERVER_ERROR)
}

/// Returns the name of the problem type for a kind of error, for logs.
pub(crate) fn kind_of(kind: ErrorKind) -> &'static str {
    ProblemType::of(kind).name()
}

/// Returns whether a change failed because another record has the values of unique fields.
pub(crate) fn is_not_unique(error: &Error) -> bool {
    error.kind() == ErrorKind::Conflict && error.field().is_some()
}

impl From<Error> for Problem {
    fn from(error: Error) -> Self {
        let kind = if is_not_unique(&error) {
            ProblemType::NotUnique
        } else {
            ProblemType::of(error.kind())
        };
        let field = match (error.change(), error.field()) {
            (Some(change), Some(field)) => Some(format!("changes[{change}].{field}")),
            (Some(change), None) => Some(format!("changes[{change}]")),
            (None, field) => field.map(str::to_owned),
        };
        Self {
            status: usual_status(kind),
            kind,
            detail: error.message().to_owned(),
            more: Box::new(More {
                part: error.part(),
                missing_partition_fields: error.missing_partition_fields().to_vec(),
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

/// Name of a problem's type, attached to the response for logs.
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
            (ACCEPT_PATCH, self.more.accept_patch.map(HeaderValue::from_static)),
        ];
        for (name, value) in named {
            response.headers_mut().extend(value.map(|value| (name, value)));
        }
        response
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    const BOOK: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/book/http.md");

    /// Returns the line for a problem type in the table of the user guide.
    fn row(kind: ProblemType) -> String {
        let mut statuses = kind.statuses().to_vec();
        statuses.sort_unstable();
        let statuses: Vec<String> = statuses.iter().map(u16::to_string).collect();
        let cells = [
            format!("`{}`", kind.name()),
            statuses.join(", "),
            kind.meaning().to_owned(),
            kind.remedy().to_owned(),
            kind.exit_code().to_string(),
            if kind.can_retry() { "yes" } else { "" }.to_owned(),
        ];
        format!("| {} |", cells.join(" | "))
    }

    #[test]
    fn the_book_has_the_table_of_problem_types() {
        let book = std::fs::read_to_string(BOOK).unwrap();
        let (_, section) = book.split_once("### Types of problems").unwrap();
        let section = section.split("\n## ").next().unwrap();
        let rows: Vec<&str> = section.lines().filter(|line| line.starts_with("| `")).collect();
        let expected: Vec<String> = ProblemType::ALL.iter().map(|kind| row(*kind)).collect();
        assert!(rows == expected, "the rows are\n{}", expected.join("\n"));
    }
}
