//! `/v1`: the resources.
//!
//! | module | holds |
//! |---|---|
//! | `caller` | who asks, and the session that is theirs |
//! | `address` | the collection and the key in a request's path |
//! | `request` | the parameters of requests, from addresses and from bodies |
//! | `body` | JSON bodies, read strictly |
//! | `coding` | compressed bodies |
//! | `answer` | representations: entity tags, caching, methods |
//! | `collections` | the collections of the schema |
//! | `buckets` | the buckets that their partitions are kept in |
//! | `views` | their views, with the states of their tables |
//! | `schema` | the schema as it is recorded |
//! | `pages` | lists of records |
//! | `cost` | what a page cost, in a header |
//! | `explain` | how a list is found |
//! | `records` | one record by its key |
//! | `conditions` | `If-Match` and `If-None-Match` of writes |
//! | `keys` | key text beside record JSON |
//! | `batch` | several changes at once |
//! | `export` | all records of a collection, streamed |
//! | `queues` | the queues, and one of them |
//! | `units` | the work units of a queue |
//! | `messages` | the messages of a queue, or of a work unit |
//! | `queue_ring` | the tables in which the bodies of messages lie |
//! | `upkeep` | looking after the store: backup, compact, check, load, schema, cursor keys |

mod address;
mod answer;
mod batch;
mod body;
mod buckets;
mod caller;
mod coding;
mod collections;
mod conditions;
mod cost;
mod explain;
mod export;
mod keys;
mod messages;
mod pages;
mod queue_ring;
mod queues;
mod records;
mod request;
mod schema;
mod units;
mod upkeep;
mod views;

use axum::Router;
use axum::http::Uri;
use axum::routing::{any, delete, get, post};

use answer::resource_with_hint;
pub(crate) use answer::{APPLICATION_JSON, resource, strong_tag, tagged};
pub(crate) use body::BodyLimit;
pub(crate) use caller::Caller;
pub(crate) use collections::view_names;
pub(crate) use export::NDJSON;
#[cfg(test)]
pub(crate) use messages::DEFAULT_PEEKED;
pub(crate) use request::no_parameters;
pub(crate) use upkeep::{LOAD_PATH, MAX_BACKUP_NAME_CHARACTERS};
pub(crate) use views::ANY_COLLECTION;

use crate::app::App;
use crate::problem::Problem;

/// The methods of what is only read.
const READ: &str = "GET, HEAD, OPTIONS";
/// The methods of what is only read, by parameters that may be long.
const ASK: &str = "GET, HEAD, POST, OPTIONS";
/// The methods of a record.
const RECORD: &str = "GET, HEAD, PUT, PATCH, DELETE, OPTIONS";
/// The methods of a record that is not changed in part.
const PUT_RECORD: &str = "GET, HEAD, PUT, DELETE, OPTIONS";
/// The methods of batches of an attached collection, which is read only.
const NOTHING: &str = "OPTIONS";
/// Hint for requests to the list of records with a method that it does not have.
const WAYS_TO_WRITE: &str = "GET lists records. PUT …/records/KEY stores one, POST …/records:batchWrite stores several. POST \
                             …/records:query takes the parameters of the list in a body";
/// The methods of a batch, and of a question in a body.
const WRITE: &str = "POST, OPTIONS";
/// The methods of what is read, and changed as it is.
const CHANGE: &str = "GET, HEAD, PATCH, OPTIONS";
/// The methods of a message by where it stands.
const REMOVE: &str = "DELETE, OPTIONS";

/// Each with its whole path: what is nested is taken apart and put together again for every request.
pub(crate) fn routes() -> Router<App> {
    let record = get(records::get)
        .put(records::put)
        .patch(records::patch)
        .delete(records::delete);
    Router::new()
        .route("/v1/schema", resource(READ, get(schema::get)))
        .route("/v1/collections", resource(READ, get(collections::list)))
        .route(
            "/v1/collections/{collection}",
            resource(READ, get(collections::get)),
        )
        .route(
            "/v1/collections/{collection}/views",
            resource(READ, get(views::list)),
        )
        .route(
            "/v1/collections/{collection}/records",
            resource_with_hint(READ, WAYS_TO_WRITE, get(pages::list)),
        )
        .route(
            "/v1/collections/{collection}/records:query",
            resource(WRITE, post(pages::query)),
        )
        .route(
            "/v1/collections/{collection}/records:explain",
            resource(ASK, get(explain::explain).post(explain::explain_by_body)),
        )
        .route(
            "/v1/collections/{collection}/records:export",
            resource(ASK, get(export::export).post(export::export_by_body)),
        )
        .route(
            "/v1/collections/{collection}/records:batchWrite",
            post(batch::write)
                .options(records::batch_options)
                .fallback(records::wrong_batch_method),
        )
        .route(
            "/v1/collections/{collection}/records/{key}",
            record.options(records::options).fallback(records::wrong_method),
        )
        .merge(bucket_routes())
        .merge(queue_routes())
        .route("/v1/store:backup", resource(WRITE, post(upkeep::backup)))
        .route("/v1/store:compact", resource(WRITE, post(upkeep::compact)))
        .route("/v1/store:check", resource(WRITE, post(upkeep::check)))
        .route("/v1/store:verify", resource(WRITE, post(upkeep::verify)))
        .route("/v1/store:repair", resource(WRITE, post(upkeep::repair)))
        .route(LOAD_PATH, resource(WRITE, post(upkeep::load)))
        .route("/v1/store:plan", resource(WRITE, post(upkeep::plan)))
        .route("/v1/store:apply", resource(WRITE, post(upkeep::apply)))
        .route("/v1/store:cursorKeys", resource(READ, get(upkeep::cursor_keys)))
        .route(
            "/v1/store:rotateCursorKeys",
            resource(WRITE, post(upkeep::rotate_cursor_keys)),
        )
        .route("/v1", any(nothing_here))
        .route("/v1/", any(nothing_here))
        .route("/v1/{*path}", any(nothing_here))
}

fn bucket_routes() -> Router<App> {
    Router::new()
        .route(
            "/v1/collections/{collection}/partitions",
            resource(READ, get(buckets::partitions)),
        )
        .route(
            "/v1/collections/{collection}/buckets",
            resource(READ, get(buckets::list)),
        )
        .route(
            "/v1/collections/{collection}/buckets:mend",
            resource(WRITE, post(buckets::mend)),
        )
}

fn queue_routes() -> Router<App> {
    let queue = get(queues::get)
        .put(queues::put)
        .patch(queues::patch)
        .delete(queues::delete);
    let unit = get(units::get).post(units::begin_or_end);
    Router::new()
        .route("/v1/queues", resource(READ, get(queues::list)))
        .route("/v1/queues/{queue}", resource(RECORD, queue))
        .merge(message_routes("/v1/queues/{queue}"))
        .route("/v1/queues/{queue}/units", resource(READ, get(units::list)))
        .route(
            "/v1/queues/{queue}/units/{unit}",
            unit.options(units::options).fallback(units::wrong_method),
        )
        .merge(message_routes("/v1/queues/{queue}/units/{unit}"))
        .route(
            "/v1/queue-ring",
            resource(CHANGE, get(queue_ring::get).patch(queue_ring::patch)),
        )
}

/// Those of the messages of a queue, or of a work unit, which are the same.
fn message_routes(of: &str) -> Router<App> {
    let of_messages = |verb: &str| format!("{of}/messages:{verb}");
    Router::new()
        .route(&format!("{of}/messages"), resource(READ, get(messages::peek)))
        .route(
            &format!("{of}/messages/{{position}}"),
            resource(REMOVE, delete(messages::remove)),
        )
        .route(&of_messages("send"), resource(WRITE, post(messages::send)))
        .route(&of_messages("receive"), resource(WRITE, post(messages::receive)))
        .route(&of_messages("ack"), resource(WRITE, post(messages::ack)))
        .route(&of_messages("nack"), resource(WRITE, post(messages::nack)))
        .route(&of_messages("extend"), resource(WRITE, post(messages::extend)))
        .route(&of_messages("purge"), resource(WRITE, post(messages::purge)))
        .route(&of_messages("redrive"), resource(WRITE, post(messages::redrive)))
}

async fn nothing_here(uri: Uri) -> Problem {
    Problem::no_resource(uri.path())
}
