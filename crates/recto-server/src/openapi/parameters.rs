//! What stands in paths and queries.

use recto::schema::Collection;
use recto::{DEFAULT_PAGE_SIZE, MAX_PAGE_SIZE, MAX_TTL_SECONDS};
use serde_json::{Map, Value as Json, json};

use super::types::{self, Side};
use crate::api::view_names;

/// The parameters of pages, by name.
pub(super) fn shared() -> Map<String, Json> {
    let text = || json!({ "type": "string" });
    let flag = || json!({ "type": "boolean", "default": false });
    let size = json!({ "type": "integer", "minimum": 0, "default": DEFAULT_PAGE_SIZE });
    let size_about = format!(
        "Rows of the page; 0 for the default, and above {MAX_PAGE_SIZE} it is that. It may change from page to page."
    );
    let filter = "Conditions joined by AND (a subset of AIP-160): `carrier = \"UA\" AND (dest = \"SFO\" OR dest = \
         \"LAX\") AND time_hour >= \"2013-07-01T00:00:00Z\"`, `startsWith(name, \"Ab\")`, `(day, id) > (\"2013-07-01\", 4)`.";
    let all = [
        query("filter", text(), filter),
        query(
            "order_by",
            text(),
            "The sort (AIP-132): `due desc, id`, or `-due, id`. The view's own order if absent.",
        ),
        query("page_size", size, &size_about),
        query(
            "page_token",
            text(),
            "A `next_page_token` or `previous_page_token` of the same query; empty for the first page.",
        ),
        query(
            "from",
            text(),
            "Where the page starts: a JSON array of values of the order's first columns, inclusive.",
        ),
        query(
            "around",
            text(),
            "A row's token: the page around that row. Or a percentage, `60%`: the page around where so much of all rows ends, of \
             partitions that are kept in buckets.",
        ),
        query("last", flag(), "The last page."),
        query(
            "allow_residual",
            flag(),
            "Whether conditions that no view serves may be checked row by row.",
        ),
        query("row_tokens", flag(), "Whether to return a token per record."),
        query(
            "versions",
            flag(),
            "Whether to return the version of each record; null of those that have none. Lines of an export are \
             `{\"record\": …, \"version\": …}` then.",
        ),
        query(
            "edges",
            json!({ "enum": ["both"] }),
            "Find out at both ends of the page whether there is more.",
        ),
        query(
            "estimate",
            flag(),
            "Whether to say how many rows there are, and how many before the page: of what is kept in buckets.",
        ),
        query(
            "run",
            flag(),
            "Whether to read the page too, and say what it did cost.",
        ),
        query(
            "resume_tokens",
            flag(),
            "Wrap each record as `{\"record\": …}`, with lines `{\"resume_token\": \"…\"}` between them; the last \
             one's is empty.",
        ),
        query(
            "resume_token",
            text(),
            "Go on after the records that stood before this token in an export that was cut.",
        ),
        query("ttl_seconds", ttl(), TTL),
        if_none_match(),
        if_match(),
    ];
    all.into_iter()
        .map(|parameter| {
            (
                parameter["name"].as_str().unwrap_or_default().to_owned(),
                parameter,
            )
        })
        .collect()
}

const TTL: &str = "How long the record lives, in seconds; it is kept until it is deleted if absent. In an append \
     collection, a record that is there already lives for the longer of the two times (on Cassandra, for the later \
     given).";

/// How long a record lives.
pub(super) fn ttl() -> Json {
    json!({ "type": "integer", "minimum": 1, "maximum": MAX_TTL_SECONDS })
}

pub(super) fn query(name: &str, schema: Json, about: &str) -> Json {
    json!({ "name": name, "in": "query", "description": about, "schema": schema })
}

fn if_none_match() -> Json {
    json!({
        "name": "If-None-Match",
        "in": "header",
        "description": "An `ETag` of an earlier answer: 304 if it is still the same.",
        "schema": { "type": "string" },
    })
}

fn if_match() -> Json {
    json!({
        "name": "If-Match",
        "in": "header",
        "description": "The versions that the record or the queue may be of, as `ETag`s in quotes and separated by commas, or `*`: \
             412 if it is of another, or is not there.",
        "schema": { "type": "string" },
    })
}

/// That a write is an insert.
pub(super) fn if_absent() -> Json {
    json!({
        "name": "If-None-Match",
        "in": "header",
        "description": "It is made: 412 if there is one.",
        "schema": { "const": "*" },
    })
}

/// A reference to a parameter of the document.
pub(super) fn reference(name: &str) -> Json {
    json!({ "$ref": format!("#/components/parameters/{name}") })
}

/// Which view to read, of a collection's.
pub(super) fn view(collection: &Collection) -> Json {
    let schema = json!({ "enum": view_names(collection) });
    query("view", schema, "The view to read; the planner chooses if absent.")
}

/// The places that buckets are listed around.
pub(super) fn at() -> Json {
    let about = "A JSON array of places, each an array of values of the order's first columns: the list is around the first, and says \
                 which bucket has each.";
    query("at", json!({ "type": "string" }), about)
}

/// Which fields to return, of a collection's.
pub(super) fn fields(collection: &Collection) -> Json {
    let names: Vec<&str> = collection
        .fields
        .iter()
        .map(|field| field.name.as_str())
        .collect();
    json!({
        "name": "fields",
        "in": "query",
        "description": "The fields to return, separated by commas; all if absent.",
        "style": "form",
        "explode": false,
        "schema": { "type": "array", "items": { "enum": names } },
    })
}

/// Parameters as a JSON object in a body, by name.
pub(super) fn in_body(collection: &Collection, names: &[&str]) -> Map<String, Json> {
    let shared = shared();
    let member = |name: &&str| {
        let parameter = match *name {
            "view" => view(collection),
            "fields" => fields(collection),
            name => shared[name].clone(),
        };
        let mut schema = match *name {
            "from" => json!({ "type": "array", "items": {} }),
            _ => parameter["schema"].clone(),
        };
        schema["description"] = parameter["description"].clone();
        ((*name).to_owned(), schema)
    };
    names.iter().map(member).collect()
}

/// The key's fields in the path, in the key's order.
pub(super) fn key(collection: &Collection) -> Vec<Json> {
    let fields = collection.key.iter().filter_map(|name| collection.field(name));
    let parameters = fields.map(|(_, field)| {
        json!({
            "name": field.name,
            "in": "path",
            "required": true,
            "description": format!("Of the key: a {}, percent-encoded by itself.", field.ty),
            "schema": types::of_field(collection, field, Side::Path),
        })
    });
    parameters.collect()
}

/// The key in a path template.
pub(super) fn key_template(collection: &Collection) -> String {
    let names: Vec<String> = collection.key.iter().map(|name| format!("{{{name}}}")).collect();
    names.join(",")
}
