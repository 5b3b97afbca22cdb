//! `/v1`: the resources of the API.
//!
//! | module | content |
//! |---|---|
//! | `caller` | access and session of a request |
//! | `address` | collection and key in a request's path |
//! | `request` | parameters of requests, from addresses and from bodies |
//! | `body` | strict reading of JSON bodies |
//! | `coding` | compressed bodies |
//! | `answer` | replies: entity tags, caching, methods |
//! | `collections` | collections of the schema |
//! | `buckets` | buckets of the partitions of a collection |
//! | `views` | views of a collection, with the states of their tables |
//! | `schema` | recorded schema |
//! | `pages` | lists of records |
//! | `explain` | plan and cost of a list |
//! | `records` | one record by its key |
//! | `conditions` | `If-Match` and `If-None-Match` of writes |
//! | `keys` | conversion between key texts and record JSON |
//! | `batch` | several changes at once |
//! | `export` | stream of all records of a collection |
//! | `queues` | list of queues, and one queue |
//! | `units` | work units of a queue |
//! | `messages` | messages of a queue, or of a work unit |
//! | `queue_tables` | tables of message bodies |
//! | `upkeep` | maintenance: backup, compact, check, load, schema, cursor keys |

mod address;
mod answer;
mod batch;
mod body;
mod buckets;
mod caller;
mod coding;
mod collections;
mod conditions;
mod explain;
mod export;
mod keys;
mod messages;
mod pages;
mod queue_tables;
mod queues;
mod records;
mod request;
mod schema;
mod units;
mod upkeep;
mod views;

use std::collections::BTreeSet;

use axum::Router;
use axum::http::Uri;
use axum::routing::{MethodFilter, MethodRouter, any, on};
use recto_api::operations::{ANY_COLLECTION, Method, OPERATIONS, Operation, Requires, methods as methods_of};

pub(crate) use answer::{APPLICATION_JSON, resource, strong_tag, tagged};
use answer::{resource_of_collection, resource_with_hint};
pub(crate) use body::BodyLimit;
pub(crate) use caller::Caller;
pub(crate) use collections::view_names;
pub(crate) use export::NDJSON;
#[cfg(test)]
pub(crate) use messages::DEFAULT_PEEKED;
pub(crate) use request::no_parameters;
#[cfg(test)]
pub(crate) use upkeep::MAX_BACKUP_NAME_CHARACTERS;

use crate::app::App;
use crate::problem::Problem;

/// Hint of the error for an unsupported method on the list of records. It names the requests that
/// write.
const WAYS_TO_WRITE: &str = "use GET to list records, PUT …/records/KEY to store one, or POST \
    …/records:batchWrite to store several. POST …/records:query has the parameters of the list in its body";
const RECORDS: &str = "/v1/collections/{collection}/records";

/// Returns the routes of `/v1`. Each has its whole path, because nested routes would cost time in
/// every request.
pub(crate) fn routes() -> Router<App> {
    let paths: BTreeSet<&str> = OPERATIONS.iter().map(|operation| operation.path).collect();
    let mut router = Router::new();
    // Leave out two kinds of paths. The router allows no text after a parameter, as in
    // `{unit}:begin`. And the route with `{collection}` already matches a path with `-`.
    let is_route = |path: &&str| !has_ending(path) && !path.split('/').any(|part| part == ANY_COLLECTION);
    for path in paths.into_iter().filter(is_route) {
        router = router.route(path, route(path));
    }
    router
        .route("/v1", any(nothing_here))
        .route("/v1/", any(nothing_here))
        .route("/v1/{*path}", any(nothing_here))
}

fn has_ending(path: &str) -> bool {
    path.rsplit_once('}')
        .is_some_and(|(_, ending)| ending.starts_with(':'))
}

/// Returns the handlers of all methods of a path.
fn route(path: &'static str) -> MethodRouter<App> {
    let operations = || OPERATIONS.iter().filter(|operation| operation.path == path);
    let handlers = operations().filter_map(handler);
    let methods = handlers.fold(MethodRouter::new(), MethodRouter::merge);
    let depends =
        |operation: &Operation| matches!(operation.requires, Requires::Writable | Requires::Versions);
    let allow = methods_of(path, |_| true);
    match path {
        units::PATH => units::routes(),
        RECORDS => resource_with_hint(&allow, WAYS_TO_WRITE, methods),
        _ if operations().any(depends) => resource_of_collection(path, methods),
        _ => resource(&allow, methods),
    }
}

/// Returns the handler of an operation; `None` if [`units::routes`] handles the operation.
fn handler(operation: &Operation) -> Option<MethodRouter<App>> {
    let by = match operation.method {
        Method::Get => MethodFilter::GET,
        Method::Post => MethodFilter::POST,
        Method::Put => MethodFilter::PUT,
        Method::Patch => MethodFilter::PATCH,
        Method::Delete => MethodFilter::DELETE,
    };
    Some(match operation.id.trim_end_matches("_of_unit") {
        "get_schema" => on(by, schema::get),
        "list_collections" => on(by, collections::list),
        "describe_{collection}" => on(by, collections::get),
        "list_views" | "list_views_of_{collection}" => on(by, views::list),
        "list_{collection}" => on(by, pages::list),
        "query_{collection}" => on(by, pages::query),
        "explain_{collection}" => on(by, explain::explain),
        "explain_{collection}_by_body" => on(by, explain::explain_by_body),
        "export_{collection}" => on(by, export::export),
        "export_{collection}_by_body" => on(by, export::export_by_body),
        "get_{collection}" => on(by, records::get),
        "put_{collection}" => on(by, records::put),
        "patch_{collection}" => on(by, records::patch),
        "delete_{collection}" => on(by, records::delete),
        "batch_write_{collection}" => on(by, batch::write),
        "list_bucket_partitions_of_{collection}" => on(by, buckets::partitions),
        "list_buckets_of_{collection}" => on(by, buckets::list),
        "rebalance_buckets_of_{collection}" => on(by, buckets::rebalance),
        "list_queues" => on(by, queues::list),
        "get_queue" => on(by, queues::get),
        "put_queue" => on(by, queues::put),
        "patch_queue" => on(by, queues::patch),
        "delete_queue" => on(by, queues::delete),
        "list_units" => on(by, units::list),
        "get_queue_tables" => on(by, queue_tables::get),
        "patch_queue_tables" => on(by, queue_tables::patch),
        "peek_messages" => on(by, messages::peek),
        "remove_message" => on(by, messages::remove),
        "send_messages" => on(by, messages::send),
        "receive_messages" => on(by, messages::receive),
        "ack_messages" => on(by, messages::ack),
        "nack_messages" => on(by, messages::nack),
        "extend_messages" => on(by, messages::extend),
        "purge_messages" => on(by, messages::purge),
        "redrive_messages" => on(by, messages::redrive),
        "backup_store" => on(by, upkeep::backup),
        "compact_store" => on(by, upkeep::compact),
        "check_store" => on(by, upkeep::check),
        "get_commit_log" => on(by, upkeep::commit_log),
        "verify_views" => on(by, upkeep::verify),
        "repair_views" => on(by, upkeep::repair),
        "load_file" => on(by, upkeep::load),
        "plan_schema" => on(by, upkeep::plan),
        "apply_schema" => on(by, upkeep::apply),
        "list_cursor_keys" => on(by, upkeep::cursor_keys),
        "rotate_cursor_keys" => on(by, upkeep::rotate_cursor_keys),
        _ => return None,
    })
}

async fn nothing_here(uri: Uri) -> Problem {
    Problem::no_resource(uri.path())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_operation_has_a_handler() {
        let is_of_units =
            |operation: &&Operation| has_ending(operation.path) || operation.path == units::PATH;
        for operation in OPERATIONS.iter().filter(|operation| !is_of_units(operation)) {
            assert!(handler(operation).is_some(), "{}", operation.id);
        }
    }
}
