//! Errors as problem details (RFC 9457).

use axum::Json;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use recto::{Error, ErrorKind};
use serde_json::{Map, Value, json};

use crate::access::Operation;

/// An error as it is answered.
///
/// `type` is `about:blank#kind`-free and stable: `urn:recto:problem:<kind>`; `title` is the kind in
/// words, `detail` what went wrong, `field` and `position` (1-based, in characters) where, `hint`
/// what to do.
#[derive(Debug)]
pub struct Problem {
    pub(crate) status: StatusCode,
    kind: &'static str,
    title: &'static str,
    detail: String,
    field: Option<String>,
    position: Option<usize>,
    hint: Option<String>,
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
            field: None,
            position: None,
            hint: None,
        }
    }

    pub(crate) fn with_field(mut self, field: impl Into<String>) -> Self {
        self.field = Some(field.into());
        self
    }

    pub(crate) fn with_hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }

    /// A parameter of the request is not right.
    pub(crate) fn invalid_parameter(name: &str, detail: impl Into<String>) -> Self {
        Self::new(
            StatusCode::BAD_REQUEST,
            "invalid-parameter",
            "A parameter is not right",
            detail,
        )
        .with_field(name)
    }

    pub(crate) fn no_collection(name: &str) -> Self {
        let detail = format!("there is no collection {name}");
        Self::new(StatusCode::NOT_FOUND, "not-found", "Not found", detail)
            .with_hint("GET /v1/collections lists what there is")
    }

    pub(crate) fn forbidden(collection: &str, operation: Operation) -> Self {
        let detail = format!("the token does not allow to {} in {collection}", operation.name());
        Self::new(StatusCode::FORBIDDEN, "forbidden", "Not allowed", detail)
    }

    /// Its body.
    pub(crate) fn to_json(&self) -> Value {
        let mut body = Map::new();
        body.insert("type".into(), format!("urn:recto:problem:{}", self.kind).into());
        body.insert("title".into(), self.title.into());
        body.insert("status".into(), self.status.as_u16().into());
        body.insert("detail".into(), self.detail.clone().into());
        if let Some(field) = &self.field {
            body.insert("field".into(), field.clone().into());
        }
        if let Some(position) = self.position {
            body.insert("position".into(), json!(position));
        }
        if let Some(hint) = &self.hint {
            body.insert("hint".into(), hint.clone().into());
        }
        Value::Object(body)
    }
}

impl From<Error> for Problem {
    fn from(error: Error) -> Self {
        let (status, kind, title) = match error.kind() {
            ErrorKind::InvalidQuery => (StatusCode::BAD_REQUEST, "invalid-query", "The query is not right"),
            ErrorKind::NoPlan => (StatusCode::BAD_REQUEST, "no-view", "No view serves the query"),
            ErrorKind::InvalidCursor => (
                StatusCode::BAD_REQUEST,
                "invalid-page-token",
                "The page token is not right",
            ),
            ErrorKind::InvalidRecord => (StatusCode::BAD_REQUEST, "invalid-record", "The record is not right"),
            ErrorKind::InvalidSchema | ErrorKind::InvalidArgument => {
                (StatusCode::BAD_REQUEST, "invalid-argument", "An argument is not right")
            }
            ErrorKind::SchemaMismatch => (StatusCode::CONFLICT, "schema-mismatch", "The schema differs"),
            ErrorKind::Unsupported => (StatusCode::NOT_IMPLEMENTED, "unsupported", "Not yet supported"),
            ErrorKind::NotFound => (StatusCode::NOT_FOUND, "not-found", "Not found"),
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
            ErrorKind::LimitExceeded => (StatusCode::PAYLOAD_TOO_LARGE, "limit-exceeded", "A limit was exceeded"),
            // Of the store's credentials, not the request's.
            ErrorKind::Unauthorized => (
                StatusCode::SERVICE_UNAVAILABLE,
                "unavailable",
                "The store refuses the server",
            ),
            ErrorKind::Corrupt => (StatusCode::INTERNAL_SERVER_ERROR, "corrupt", "Stored data is damaged"),
            _ => (StatusCode::INTERNAL_SERVER_ERROR, "store", "The store failed"),
        };
        Self {
            status,
            kind,
            title,
            detail: error.to_string(),
            field: error.field().map(str::to_owned),
            position: error.column(),
            hint: error.hint().map(str::to_owned),
        }
    }
}

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        let mut response = (self.status, Json(self.to_json())).into_response();
        response.headers_mut().insert(
            header::CONTENT_TYPE,
            HeaderValue::from_static("application/problem+json"),
        );
        response
    }
}
