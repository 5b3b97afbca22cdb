//! The answers that all operations share.

use serde_json::{Map, Value as Json, json};

use super::schemas;

/// What can go wrong with any request, and what with some.
const PROBLEMS: [(&str, &str); 15] = [
    (
        "400",
        "The request is not right: the problem says where, and what to do.",
    ),
    ("401", "A token is needed, and none or an unknown one was given."),
    ("403", "The token does not allow this."),
    (
        "404",
        "There is no such collection, record or queue, or none that the token sees.",
    ),
    ("405", "The resource does not have this method."),
    (
        "408",
        "The request did not arrive in time, and nothing was changed.",
    ),
    (
        "409",
        "The record's key is not the one in the path; or a record is there with it that cannot be changed; or another \
         record has values that are unique, of which the problem's `field` is the first; or the collection is written in a way \
         that does not offer this; nothing was written then. Or the same is being done \
         with the store already. Or a queue of this name is not like that, or is where another sends its dead letters. Or there \
         is no room for more queues, work units or messages. Or there is a backup of this name.",
    ),
    (
        "412",
        "The record or the queue is not of the version that `If-Match` names, or is there already; nothing was written. \
         The problem holds the record that is there now, for who may read it, and its version is the ETag.",
    ),
    (
        "413",
        "The body, or what it holds, is more than is taken at once; nothing was written.",
    ),
    (
        "415",
        "The body is not application/json, or compressed otherwise than by gzip or deflate.",
    ),
    (
        "429",
        "Too many requests, in this time or at the same time; try again later.",
    ),
    ("500", "The server failed, or what is stored is damaged."),
    ("501", "Part of the interface, and not there yet."),
    (
        "503",
        "The store cannot be reached, or the server is busy; try again.",
    ),
    (
        "504",
        "The time was not enough; a write may or may not have been applied, and sent again is settled.",
    ),
];

/// Problems of every operation.
const ANYWHERE: [&str; 10] = [
    "400", "401", "403", "404", "405", "408", "429", "500", "503", "504",
];

/// The responses of the document.
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
        json!({ "description": "It is what `If-None-Match` names.", "headers": { "ETag": etag() } }),
    );
    shared
}

pub(super) fn etag() -> Json {
    json!({ "schema": { "type": "string" }, "description": "Tells whether it has changed." })
}

/// The responses of an operation: its own, and the problems that any has and that it has besides.
pub(super) fn of_operation(own: Vec<(&str, Json)>, besides: &[&str]) -> Json {
    let mut responses: Map<String, Json> = own
        .into_iter()
        .map(|(status, response)| (status.to_owned(), response))
        .collect();
    for status in ANYWHERE.iter().chain(besides) {
        responses.insert((*status).to_owned(), reference(status));
    }
    Json::Object(responses)
}

/// A reference to a response of the document.
pub(super) fn reference(status: &str) -> Json {
    json!({ "$ref": format!("#/components/responses/{status}") })
}

/// A JSON body.
pub(super) fn json_of(schema: &str, about: &str) -> Json {
    json!({
        "description": about,
        "content": { "application/json": { "schema": schemas::reference(schema) } },
    })
}

/// A JSON body with an entity tag.
pub(super) fn tagged_json_of(schema: &str, about: &str) -> Json {
    let mut response = json_of(schema, about);
    response["headers"] = json!({ "ETag": etag() });
    response
}
