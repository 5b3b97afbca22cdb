//! The buckets that a collection's partitions are kept in.

use recto::schema::Collection;
use recto::session::{BucketsRequest, MendRequest};
use recto_api::description::parameters_of;
use serde_json::{Map, Value as Json, json};

use super::parameters;
use super::responses::{json_of, of_operation};
use super::types::{nullable, object};
use crate::access::{Access, Operation};
use crate::api::NDJSON;

/// Whether an arrangement of a collection is kept in buckets.
pub(super) fn are_in(collection: &Collection) -> bool {
    collection.arrangements().iter().any(|one| one.bucket().is_some())
}

/// The paths of a collection of which an arrangement is kept in buckets, for who may read all of it.
pub(super) fn paths(collection: &Collection, access: &Access) -> Map<String, Json> {
    let name = &collection.name;
    let mut paths = Map::new();
    if !are_in(collection) || !access.reads_all_of(name) {
        return paths;
    }
    let base = format!("/v1/collections/{name}");
    paths.insert(
        format!("{base}/partitions"),
        json!({ "get": partitions(collection) }),
    );
    paths.insert(format!("{base}/buckets"), json!({ "get": buckets(collection) }));
    if access.allows_store(Operation::Repair) && access.allows(name, Operation::Write) {
        paths.insert(format!("{base}/buckets:mend"), json!({ "post": mend(name) }));
    }
    paths
}

fn partitions(collection: &Collection) -> Json {
    let name = &collection.name;
    let response = json_of("BucketPartitions", "The partitions, in the store's own order.");
    let parameters = BucketsRequest::OF_PARTITIONS.iter();
    let parameters: Vec<Json> = parameters
        .map(|name| parameters::named::<BucketsRequest>(collection, name))
        .collect();
    json!({
        "operationId": format!("list_bucket_partitions_of_{name}"),
        "summary": "Partitions that are kept in buckets",
        "description": "How many buckets each has, and what they hold. At most 256 are listed at once.",
        "tags": [name],
        "parameters": parameters,
        "responses": of_operation(vec![("200", response)], &["501"]),
    })
}

fn buckets(collection: &Collection) -> Json {
    let name = &collection.name;
    let response = json_of("Buckets", "The buckets, in the order of their rows.");
    json!({
        "operationId": format!("list_buckets_of_{name}"),
        "summary": "The buckets of a partition",
        "description": "The filter names the partition: the value of each of its fields; what else it says is not looked at. At most 256 \
             buckets are listed at once.",
        "tags": [name],
        "parameters": parameters::of_request::<BucketsRequest>(collection),
        "responses": of_operation(vec![("200", response)], &["501"]),
    })
}

fn mend(name: &str) -> Json {
    let body = object(parameters_of::<MendRequest>().clone(), &[]);
    let response = json!({
        "description": "How far it is, and what came of it, a JSON object a line.",
        "content": { NDJSON: { "schema": { "type": "string" } } },
    });
    json!({
        "operationId": format!("mend_buckets_of_{name}"),
        "summary": "Cut buckets that are too large, now",
        "description": "Does what is done in the background: cuts what is too large, and goes on with cuts that were left half done. Without \
             a filter all partitions are mended. The answer is lines of JSON: `{\"progress\": …}`, and as the last one `{\"result\": …}` or \
             `{\"problem\": …}`. It goes on to its end if its client goes away.",
        "tags": [name],
        "requestBody": { "required": true, "content": { "application/json": { "schema": body } } },
        "responses": of_operation(vec![("200", response)], &["409", "413", "415", "501"]),
    })
}

/// The bodies of these.
pub(super) fn schemas() -> Map<String, Json> {
    let text = || json!({ "type": "string" });
    let count = || json!({ "type": "integer", "minimum": 0 });
    let flag = || json!({ "type": "boolean" });
    let list = |items: Json| json!({ "type": "array", "items": items });
    let of = |properties: Json, required: &[&str]| {
        object(properties.as_object().cloned().unwrap_or_default(), required)
    };
    let figures =
        || json!({ "rows": count(), "rows_error": count(), "bytes": count(), "bytes_error": count() });
    let with_figures = |more: Json| {
        let mut all = figures();
        if let (Some(all), Json::Object(more)) = (all.as_object_mut(), more) {
            all.extend(more);
        }
        all
    };
    let of_figures = ["rows", "rows_error", "bytes", "bytes_error"];
    let target = of(
        json!({ "bytes": count(), "rows": count(), "shards": count() }),
        &[],
    );
    let record = || json!({ "type": "object", "additionalProperties": true });
    let partition = with_figures(json!({
        "partition": record(),
        "buckets": count(),
        "largest": of(figures(), &of_figures),
        "too_large": count(),
        "being_cut": flag(),
        "at_least": flag(),
    }));
    let partitions = json!({
        "collection": text(), "view": text(), "target": target,
        "partitions": list(of(partition, &[&of_figures[..], &["partition", "buckets", "largest", "too_large", "being_cut", "at_least"]].concat())),
        "next_page_token": text(),
    });
    let bucket = with_figures(json!({
        "bucket": count(),
        "start": list(json!(true)),
        "end": nullable(list(json!(true))),
        "too_large": flag(),
        "step": { "enum": ["at_rest", "announced", "copying", "switched", "left"] },
        "other": nullable(count()),
    }));
    let buckets = json!({
        "collection": text(), "view": text(), "partition": record(), "order": list(text()), "target": target, "exact": flag(),
        "buckets": list(of(bucket, &[&of_figures[..], &["bucket", "start", "end", "too_large", "step", "other"]].concat())),
        "places": list(nullable(count())),
        "next_page_token": text(), "previous_page_token": text(),
    });
    Map::from_iter([
        (
            "BucketPartitions".to_owned(),
            of(
                partitions,
                &["collection", "view", "target", "partitions", "next_page_token"],
            ),
        ),
        (
            "Buckets".to_owned(),
            of(
                buckets,
                &[
                    "collection",
                    "view",
                    "partition",
                    "order",
                    "target",
                    "exact",
                    "buckets",
                    "places",
                    "next_page_token",
                    "previous_page_token",
                ],
            ),
        ),
    ])
}
