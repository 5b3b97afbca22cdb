//! Responses of the `OpenAPI` document that all operations share.

use recto_api::operations::Header;
use serde_json::{Map, Value as Json, json};

use super::schemas;

/// HTTP statuses of errors, each with its description.
const PROBLEMS: [(&str, &str); 15] = [
    (
        "400",
        "The request is invalid. The problem names the invalid part and a solution.",
    ),
    (
        "401",
        "The request has no token, or a token that the server does not know.",
    ),
    ("403", "The token does not have the right to do this."),
    (
        "404",
        "The collection, record or queue does not exist, or the token has no access to it.",
    ),
    ("405", "The resource does not support this method."),
    ("408", "The request did not arrive in time. Nothing was changed."),
    (
        "409",
        "The request conflicts with the stored state. Nothing was changed. Possible reasons: The key in the \
         body differs from the key in the path. The record exists and cannot be changed. Another record has \
         the values of unique fields (`field` names the first of them). The collection does not support the \
         operation. The server is already running an operation of this kind. The queue has other options, or \
         is the dead-letter queue of another queue. The maximum number of queues, work units or messages is \
         reached. A backup with this name exists.",
    ),
    (
        "412",
        "The record or the queue does not have a version that `If-Match` names, or exists already. Nothing \
         was changed. The problem has the existing record, if the token can read it; its version is the \
         ETag.",
    ),
    (
        "413",
        "The body, or a part of it, is larger than the server accepts. Nothing was changed.",
    ),
    (
        "415",
        "The body is not application/json, or has another compression than gzip or deflate.",
    ),
    (
        "429",
        "The client sent too many requests in this time, or has too many concurrent requests. Send the \
         request again later.",
    ),
    ("500", "The server failed, or stored data is damaged."),
    (
        "501",
        "Recto does not support this, or not with this kind of store.",
    ),
    (
        "503",
        "The server cannot reach the store, or is busy. Send the request again.",
    ),
    (
        "504",
        "The time limit was reached. A write may have been applied: send it again to be sure.",
    ),
];

/// HTTP statuses of errors that every operation can return.
pub(super) const ANYWHERE: [u16; 10] = [400, 401, 403, 404, 405, 408, 429, 500, 503, 504];

/// Returns the shared responses, as components of the document.
pub(super) fn shared() -> Map<String, Json> {
    let problem = |(status, about): (&str, &str)| {
        let content = json!({ "application/problem+json": { "schema": schemas::reference("Problem") } });
        (
            status.to_owned(),
            json!({ "description": about, "content": content }),
        )
    };
    let mut shared: Map<String, Json> = PROBLEMS.into_iter().map(problem).collect();
    shared.insert(
        "304".into(),
        json!({ "description": "The reply is the same as the one in `If-None-Match`.", "headers": { "ETag": header(Header::ETag) } }),
    );
    shared
}

/// Returns a response header of the document, with its description.
pub(super) fn header(header: Header) -> Json {
    json!({ "schema": { "type": "string" }, "description": header.description() })
}

/// Returns a reference to a response among the document's components.
pub(super) fn reference(status: &str) -> Json {
    json!({ "$ref": format!("#/components/responses/{status}") })
}
