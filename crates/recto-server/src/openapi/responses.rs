//! Responses that all operations share.

use recto_api::operations::Header;
use serde_json::{Map, Value as Json, json};

use super::schemas;

/// Statuses of problems, with their descriptions.
const PROBLEMS: [(&str, &str); 15] = [
    (
        "400",
        "The request is wrong. The problem says where, and what to do.",
    ),
    (
        "401",
        "The request has no token, or one that the server does not know.",
    ),
    ("403", "The token does not have the right to do this."),
    (
        "404",
        "The collection, record or queue does not exist, or the token does not see it.",
    ),
    ("405", "The resource does not have this method."),
    ("408", "The request did not arrive in time. It changed nothing."),
    (
        "409",
        "The request conflicts with the stored state, and changed nothing: the key in the body is not that of the path; the \
         record exists and cannot be changed; another record has the values of unique fields (`field` names the first of them); the \
         collection does not offer this; the server is already running an operation of this kind; the queue has other options, or gets the dead letters \
         of another queue; there is no room for more queues, work units or messages; or a backup has this name.",
    ),
    (
        "412",
        "The record or the queue does not have a version that `If-Match` names, or exists already. The request changed nothing. The \
         problem has the record that exists, if the token may read it; its version is the ETag.",
    ),
    (
        "413",
        "The body, or something in it, is larger than the server accepts. The request changed nothing.",
    ),
    (
        "415",
        "The body is not application/json, or has another compression than gzip or deflate.",
    ),
    (
        "429",
        "There were too many requests in this time, or there are too many at the same time. Send the request again later.",
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
        "The time was not enough. A write may have been made: send it again to be sure.",
    ),
];

/// Statuses of the problems of every operation.
pub(super) const ANYWHERE: [u16; 10] = [400, 401, 403, 404, 405, 408, 429, 500, 503, 504];

/// Returns the responses of the document.
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
        json!({ "description": "The reply is still the one that `If-None-Match` names.", "headers": { "ETag": header(Header::ETag) } }),
    );
    shared
}

/// Returns the description of a header of replies.
pub(super) fn header(header: Header) -> Json {
    json!({ "schema": { "type": "string" }, "description": header.description() })
}

/// Returns a reference to a response of the document.
pub(super) fn reference(status: &str) -> Json {
    json!({ "$ref": format!("#/components/responses/{status}") })
}
