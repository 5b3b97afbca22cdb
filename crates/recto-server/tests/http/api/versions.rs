//! Checks records with versions: conditions, patches and outcomes. The tests run on the embedded
//! store, and on a store in memory that has no transactions, like Cassandra.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use hyper::Method;
use recto::schema::Schema;
use recto::store::memory::{DEFAULT_LIMITS, MemoryStore};
use recto::store::wrapper::StoreWrapper;
use recto::store::{Atomicity, Limits, PartitionWrite, Store, StoreError, WriteOptions, WriteOutcome};
use recto::{Environment, OpenOptions, Recto};
use recto_server::access::{Access, Grant, Right};
use serde_json::{Value as Json, json};

use super::support::{Client, Kind, Reply, run};

const SCHEMA: &str = r#"
[collection.users]
fields = { id = "bigint", status = "text", note = "text", tags = "list<text>", price = "decimal" }
key = ["id"]

[collection.users.view.by_status]
partition = ["status"]
order = ["id"]

[collection.plain]
fields = { id = "bigint", note = "text" }
key = ["id"]
writes = "overwrite"
"#;

const BATCH: &str = "/v1/collections/users/records:batchWrite";

/// Time limit of a request to a server whose store is slow.
const PATIENCE: Duration = Duration::from_millis(500);

/// Returns a store in memory with the limits of Cassandra: it has no transactions, and does not
/// report that an insert found another record.
fn memory() -> Arc<dyn Store> {
    let limits = Limits {
        remote: true,
        leaves_tombstones: true,
        sees_conflicts: false,
        transactions: false,
        ..DEFAULT_LIMITS
    };
    Arc::new(MemoryStore::with_limits(Environment::system(), limits))
}

/// Opens a store and applies the schema.
pub(crate) async fn over(store: Arc<dyn Store>, options: OpenOptions) -> Recto {
    let recto = Recto::with_store(store, options).await.unwrap();
    recto.apply(&Schema::parse(SCHEMA).unwrap()).await.unwrap();
    recto
}

async fn embedded(folder: &Path) -> Recto {
    let recto = Recto::open_with(folder.join("store"), OpenOptions::new().create())
        .await
        .unwrap();
    recto.apply(&Schema::parse(SCHEMA).unwrap()).await.unwrap();
    recto
}

/// Runs each test on an embedded store, and on a store in memory.
macro_rules! on_each_store {
    ($($name:ident),+ $(,)?) => {
        mod embedded {
            $(#[test]
            fn $name() {
                let folder = tempfile::tempdir().unwrap();
                super::run(async { super::$name(super::embedded(folder.path()).await).await });
            })+
        }
        mod memory {
            $(#[test]
            fn $name() {
                super::run(async {
                    let recto = super::over(super::memory(), super::OpenOptions::new()).await;
                    super::$name(recto).await;
                });
            })+
        }
    };
}

on_each_store! {
    the_version_is_the_entity_tag,
    a_patch_changes_what_it_names,
    conditions_that_are_none_are_refused,
    each_change_of_a_batch_has_an_outcome,
    hides_and_protects_records_outside_the_row_filter,
    pages_and_exports_tell_versions,
    rejects_invalid_requests_and_changes_nothing,
}

/// Checks that a uniqueness conflict names the field. Only a store with transactions has unique
/// fields.
#[test]
fn names_the_field_of_a_uniqueness_conflict() {
    let folder = tempfile::tempdir().unwrap();
    run(async {
        let recto = Recto::open_with(folder.path().join("store"), OpenOptions::new().create())
            .await
            .unwrap();
        let schema = SCHEMA.replacen("key =", "unique = [[\"status\", \"note\"]]\nkey =", 1);
        recto.apply(&Schema::parse(&schema).unwrap()).await.unwrap();
        let client = client(recto.clone()).await;
        let body = json!({ "status": "here", "note": "one" });
        assert_eq!(put(&client, 1, &[], body.clone()).await.status, 204);
        let taken = put(&client, 2, &[], body.clone()).await;
        let problem = taken.problem(409, "not-unique");
        assert_eq!(problem["field"], "status");
        assert!(
            problem["hint"].as_str().unwrap().contains("the record (1)"),
            "{problem}"
        );
        let grant = Grant {
            rights: vec![Right::Write],
            ..Grant::default()
        };
        let writer = Access::granted("writer", BTreeMap::from([("users".to_owned(), grant)]));
        let writer = Client::over(recto, Kind::Embedded, writer).await;
        let untold = put(&writer, 2, &[], body.clone()).await;
        let problem = untold.problem(409, "not-unique");
        assert!(
            !problem.to_string().contains("the record (1)"),
            "who may not read is not told which records there are: {problem}"
        );
        let changes = json!({ "changes": [
            { "insert": { "id": 3, "status": "here", "note": "one" } },
            { "put": { "id": 4, "status": "here", "note": "two" } },
        ] });
        let batch = client.post(BATCH, &changes).await;
        assert_eq!(batch.status, 200, "{}", batch.text());
        let outcomes = &batch.json()["outcomes"];
        assert_eq!(
            outcomes[0]["problem"]["type"], "urn:recto:problem:not-unique",
            "{outcomes}"
        );
        assert_eq!(outcomes[1]["problem"], Json::Null, "{outcomes}");
    });
}

async fn client(recto: Recto) -> Client {
    Client::over(recto, Kind::Embedded, Access::all()).await
}

fn user(id: i64) -> String {
    format!("/v1/collections/users/records/{id}")
}

async fn put(client: &Client, id: i64, headers: &[(&str, &str)], body: Json) -> Reply {
    let headers = [&[("content-type", "application/json")], headers].concat();
    client
        .send(Method::PUT, &user(id), &headers, body.to_string())
        .await
}

async fn the_version_is_the_entity_tag(recto: Recto) {
    let client = client(recto).await;
    let inserted = put(&client, 1, &[("if-none-match", "*")], json!({ "status": "here" })).await;
    assert_eq!(inserted.status, 201, "{}", inserted.text());
    let first = inserted.header("etag").to_owned();
    let got = client.get(&user(1)).await;
    assert_eq!((got.status, got.header("etag")), (200, &*first));
    let known = client
        .send(Method::GET, &user(1), &[("if-none-match", &first)], "")
        .await;
    assert_eq!((known.status, known.header("etag")), (304, &*first));
    let again = put(&client, 1, &[("if-none-match", "*")], json!({ "status": "new" })).await;
    let problem = again.problem(412, "already-exists");
    assert_eq!(
        (again.header("etag"), &problem["record"]["status"]),
        (&*first, &json!("here"))
    );
    let saved = put(&client, 1, &[("if-match", &first)], json!({ "status": "away" })).await;
    assert_eq!(saved.status, 204, "{}", saved.text());
    let second = saved.header("etag").to_owned();
    assert!(second.len() >= first.len() && second > first, "{second}");
    for (method, body) in [(Method::PUT, "{}"), (Method::PATCH, "{}"), (Method::DELETE, "")] {
        let headers = [("if-match", &*first), ("content-type", "application/json")];
        let late = client.send(method, &user(1), &headers, body).await;
        let problem = late.problem(412, "record-changed");
        assert_eq!(late.header("etag"), second);
        assert_eq!(problem["version"], second.trim_matches('"'));
        assert_eq!(problem["record"], json!({ "id": "1", "status": "away" }));
    }
    let list = format!("{first}, W/{second}, \"x\"");
    put(&client, 1, &[("if-match", &list)], json!({}))
        .await
        .problem(412, "record-changed");
    let list = format!("{first}, {second}");
    assert_eq!(
        put(&client, 1, &[("if-match", &list)], json!({})).await.status,
        204
    );
    assert_eq!(put(&client, 1, &[("if-match", "*")], json!({})).await.status, 204);
    put(&client, 2, &[("if-match", "*")], json!({}))
        .await
        .problem(412, "record-changed");
    let gone = client
        .send(Method::DELETE, &user(1), &[("if-match", "*")], "")
        .await;
    assert_eq!(gone.status, 204);
    let late = client
        .send(Method::DELETE, &user(1), &[("if-match", &second)], "")
        .await;
    late.problem(412, "record-changed");
    assert_eq!(late.header("etag"), "");
    assert_eq!(client.delete(&user(1)).await.status, 204);
}

async fn a_patch_changes_what_it_names(recto: Recto) {
    let client = client(recto).await;
    let all = json!({ "status": "here", "note": "n", "tags": ["a", "b"], "price": "1.10" });
    assert_eq!(put(&client, 1, &[], all).await.status, 204);
    let patch = json!({ "id": 1, "note": null, "tags": ["c"], "price": "0.1000000000000000000001" });
    let patched = client.patch(&user(1), &[], &patch).await;
    assert_eq!(patched.status, 204, "{}", patched.text());
    let got = client.get(&user(1)).await;
    assert_eq!(got.header("etag"), patched.header("etag"));
    let price = "0.1000000000000000000001";
    assert_eq!(
        got.json(),
        json!({ "id": "1", "status": "here", "tags": ["c"], "price": price })
    );
    client
        .patch(&user(2), &[], &json!({ "note": "x" }))
        .await
        .problem(404, "not-found");
    for (wrong, status, kind, field) in [
        (json!({ "id": 2 }), 409, "conflict", "id"),
        (json!({ "id": null }), 400, "invalid-record", "id"),
        (json!({ "nothing": 1 }), 400, "invalid-record", "nothing"),
        (json!({ "tags": 7 }), 400, "invalid-record", "tags"),
    ] {
        let problem = client.patch(&user(1), &[], &wrong).await.problem(status, kind);
        assert_eq!(problem["field"], field, "{problem}");
    }
    client
        .patch(&user(1), &[], &json!([]))
        .await
        .problem(400, "invalid-body");
    let text = [("content-type", "text/plain")];
    let reply = client.send(Method::PATCH, &user(1), &text, "{}").await;
    assert!(
        reply.problem(415, "unsupported-media-type")["hint"]
            .as_str()
            .unwrap()
            .contains("merge-patch")
    );
    assert_eq!(client.get(&user(1)).await.header("etag"), patched.header("etag"));
}

async fn conditions_that_are_none_are_refused(recto: Recto) {
    let client = client(recto).await;
    for (name, value) in [
        ("if-match", "17"),
        ("if-match", "\"17"),
        ("if-match", ""),
        ("if-match", "*, \"17\""),
        ("if-none-match", "\"17\""),
        ("if-unmodified-since", "Sun, 06 Nov 1994 08:49:37 GMT"),
    ] {
        let problem = put(&client, 1, &[(name, value)], json!({}))
            .await
            .problem(400, "invalid-parameter");
        assert_eq!(problem["parameter"].as_str().unwrap().to_lowercase(), name);
    }
    let both = [("if-match", "*"), ("if-none-match", "*")];
    put(&client, 1, &both, json!({}))
        .await
        .problem(400, "invalid-parameter");
    let insert = [("if-none-match", "*")];
    client
        .patch(&user(1), &insert, &json!({}))
        .await
        .problem(400, "invalid-parameter");
    assert_eq!(client.get(&user(1)).await.status, 404, "nothing was written");
    let plain = "/v1/collections/plain/records/1";
    client
        .patch(plain, &[], &json!({ "note": "x" }))
        .await
        .problem(409, "not-offered");
    let insert = json!({ "changes": [{ "insert": { "id": 1 } }] });
    let reply = client
        .post("/v1/collections/plain/records:batchWrite", &insert)
        .await;
    assert_eq!(reply.problem(409, "not-offered")["field"], "changes[0]");
}

async fn each_change_of_a_batch_has_an_outcome(recto: Recto) {
    let client = client(recto).await;
    let changes = json!([
        { "insert": { "id": 1, "status": "here" } },
        { "insert": { "id": 1, "status": "there" } },
        { "update": [1], "set": { "note": "n" } },
        { "update": [2], "set": { "note": "n" } },
        { "put": { "id": 3 }, "if_version": "17" },
        { "delete": [4] },
    ]);
    let told = client.post(BATCH, &json!({ "changes": changes })).await;
    assert_eq!(told.status, 200, "{}", told.text());
    let told = told.json();
    assert_eq!(
        (&told["puts"], &told["updates"], &told["deletes"]),
        (&json!(1), &json!(1), &json!(1))
    );
    let kind = |index: usize| told["outcomes"][index]["problem"]["type"].clone();
    assert_eq!(kind(1), "urn:recto:problem:already-exists");
    assert_eq!(
        told["outcomes"][1]["problem"]["version"],
        told["outcomes"][0]["version"]
    );
    assert_eq!(
        (kind(3), kind(4)),
        (
            "urn:recto:problem:not-found".into(),
            "urn:recto:problem:record-changed".into()
        )
    );
    let got = client.get(&user(1)).await;
    assert_eq!(got.json(), json!({ "id": "1", "status": "here", "note": "n" }));
    assert_eq!(
        format!("\"{}\"", told["outcomes"][2]["version"].as_str().unwrap()),
        got.header("etag")
    );
    for (wrong, status, kind) in [
        (
            json!({ "insert": { "id": 5 }, "if_version": 1 }),
            400,
            "invalid-body",
        ),
        (
            json!({ "put": { "id": 5 }, "if_version": "x" }),
            400,
            "invalid-body",
        ),
        (json!({ "update": [5] }), 400, "invalid-body"),
        (
            json!({ "update": [5], "set": { "id": 6 } }),
            400,
            "invalid-record",
        ),
        (
            json!({ "update": [null], "set": { "note": "x" } }),
            400,
            "invalid-record",
        ),
        (
            json!({ "update": [5], "set": { "nothing": 6 } }),
            400,
            "invalid-record",
        ),
        (json!({ "put": { "id": null } }), 400, "invalid-record"),
        (
            json!({ "collection": "plain", "put": { "id": 5 } }),
            400,
            "invalid-argument",
        ),
    ] {
        let changes = json!([{ "put": { "id": 9 } }, wrong]);
        client
            .post(BATCH, &json!({ "changes": changes }))
            .await
            .problem(status, kind);
    }
    assert_eq!(client.get(&user(9)).await.status, 404, "nothing was written");
}

async fn hides_and_protects_records_outside_the_row_filter(recto: Recto) {
    let all = Client::over(recto.clone(), Kind::Embedded, Access::all()).await;
    let granted = |rights: &[Right], rows: &str| {
        let grant = Grant {
            rights: rights.to_vec(),
            rows: rows.to_owned(),
        };
        Access::granted("somebody", BTreeMap::from([("users".to_owned(), grant)]))
    };
    let every = [Right::Read, Right::Write, Right::Delete];
    let here = Client::over(
        recto.clone(),
        Kind::Embedded,
        granted(&every, "status = \"here\""),
    )
    .await;
    put(&all, 1, &[], json!({ "status": "here" })).await;
    let hidden = put(&all, 2, &[], json!({ "status": "away", "note": "secret" })).await;
    assert_eq!(
        here.patch(&user(1), &[], &json!({ "note": "n" })).await.status,
        204
    );
    here.patch(&user(1), &[], &json!({ "status": "away" }))
        .await
        .problem(403, "forbidden");
    here.patch(&user(2), &[], &json!({ "note": "n" }))
        .await
        .problem(404, "not-found");
    put(&here, 2, &[], json!({ "status": "away" }))
        .await
        .problem(403, "forbidden");
    for headers in [&[][..], &[("if-none-match", "*")]] {
        let reply = put(&here, 2, headers, json!({ "status": "here" })).await;
        assert!(matches!(reply.status, 409 | 412), "{}", reply.text());
        assert_eq!(reply.header("etag"), "");
        assert!(!reply.text().contains("secret"));
    }
    let met = put(
        &here,
        2,
        &[("if-match", hidden.header("etag"))],
        json!({ "status": "here" }),
    )
    .await;
    met.problem(412, "record-changed");
    assert_eq!(met.header("etag"), "");
    assert_eq!(here.delete(&user(2)).await.status, 204, "as where there is none");
    assert_eq!(all.get(&user(2)).await.header("etag"), hidden.header("etag"));
    assert_eq!(here.delete(&user(1)).await.status, 204);
    assert_eq!(all.get(&user(1)).await.status, 404);
    // A client that may write but not read learns the conflicting version, but not the record.
    let writer = Client::over(recto, Kind::Embedded, granted(&[Right::Write], "")).await;
    let late = put(&writer, 2, &[("if-match", "\"17\"")], json!({})).await;
    let problem = late.problem(412, "record-changed");
    assert_eq!(
        (late.header("etag"), problem.get("record")),
        (hidden.header("etag"), None)
    );
    writer.delete(&user(2)).await.problem(403, "forbidden");
}

async fn pages_and_exports_tell_versions(recto: Recto) {
    let client = client(recto).await;
    put(&client, 1, &[], json!({ "status": "here" })).await;
    put(&client, 2, &[], json!({ "status": "here" })).await;
    client
        .put("/v1/collections/plain/records/1", &json!({ "note": "n" }))
        .await;
    let list = "/v1/collections/users/records?filter=status%20%3D%20%22here%22&fields=id";
    let bare = client.get(list).await;
    assert_eq!(bare.json().get("versions"), None);
    let told = client.get(&format!("{list}&versions=true")).await;
    let of = async |id: i64| {
        let tag = client.get(&user(id)).await.header("etag").to_owned();
        tag.trim_matches('"').to_owned()
    };
    assert_eq!(told.json()["versions"], json!([of(1).await, of(2).await]));
    assert!(
        told.header("link").contains("versions=true"),
        "{:?}",
        told.headers
    );
    // A put of an equal record changes the version. So a page with versions gets another entity
    // tag.
    let tag = told.header("etag").to_owned();
    put(&client, 2, &[], json!({ "status": "here" })).await;
    let known = [("if-none-match", &*tag)];
    let again = client
        .send(Method::GET, &format!("{list}&versions=true"), &known, "")
        .await;
    assert_eq!(again.status, 200, "it is not what was seen");
    assert_eq!(again.json()["versions"], json!([of(1).await, of(2).await]));
    let same = [("if-none-match", bare.header("etag"))];
    assert_eq!(client.send(Method::GET, list, &same, "").await.status, 304);
    let by_body = json!({ "filter": "status = \"here\"", "versions": true });
    let asked = client.post("/v1/collections/users/records:query", &by_body).await;
    assert_eq!(asked.json()["versions"], again.json()["versions"]);
    let plain = client
        .get("/v1/collections/plain/records?filter=id%20%3D%201&versions=true")
        .await;
    assert_eq!(plain.json()["versions"], json!([null]));
    let export = |query: &str| format!("/v1/collections/users/records:export?versions=true&fields=id{query}");
    let mut lines: Vec<Json> = Vec::new();
    for line in client.get(&export("")).await.text().lines() {
        lines.push(serde_json::from_str(line).unwrap());
    }
    lines.sort_by_key(|line| line["record"]["id"].to_string());
    assert_eq!(
        lines[1],
        json!({ "record": { "id": "2" }, "version": of(2).await })
    );
    let with_tokens = client.get(&export("&resume_tokens=true")).await;
    let first: Json = serde_json::from_str(with_tokens.text().lines().next().unwrap()).unwrap();
    assert!(first["version"].is_string(), "{first}");
    client
        .get(&format!("{list}&versions=yes"))
        .await
        .problem(400, "invalid-parameter");
}

async fn rejects_invalid_requests_and_changes_nothing(recto: Recto) {
    let client = client(recto).await;
    let kept = put(&client, 1, &[], json!({ "status": "here" })).await;
    let tag = kept.header("etag").to_owned();
    // The field `status` is part of a view's key, so its length has the limit of a key.
    let long = "x".repeat(9 << 10);
    let vast = "x".repeat(2 << 20);
    for (body, status, kind) in [
        (json!({ "status": long }), 413, "limit-exceeded"),
        (json!({ "note": vast }), 413, "limit-exceeded"),
    ] {
        for id in [1, 2] {
            put(&client, id, &[], body.clone()).await.problem(status, kind);
        }
        client.patch(&user(1), &[], &body).await.problem(status, kind);
    }
    for (key, status, kind) in [
        ("x", 400, "invalid-record"),
        ("", 404, "not-found"),
        ("1,2", 400, "invalid-record"),
        ("9223372036854775808", 400, "invalid-record"),
    ] {
        let target = format!("/v1/collections/users/records/{key}");
        let body = json!({ "status": "s" });
        for reply in [client.put(&target, &body).await, client.delete(&target).await] {
            reply.problem(status, kind);
        }
    }
    for (body, kind) in [
        ("{\"status\": \"a\", \"status\": \"b\"}", "invalid-body"),
        ("{\"stauts\": \"a\"}", "invalid-record"),
        ("{\"price\": \"many\"}", "invalid-record"),
        ("{\"tags\": [null]}", "invalid-record"),
        ("{", "invalid-body"),
    ] {
        for method in [Method::PUT, Method::PATCH] {
            let headers = [("content-type", "application/json")];
            let reply = client.send(method, &user(1), &headers, body).await;
            reply.problem(400, kind);
        }
    }
    for (query, parameter) in [
        ("filter=status%20%3D%20%22here%22&view=by_nothing", "view"),
        ("filter=stauts%20%3D%20%22here%22", "filter"),
        ("filter=status%20%3D%20%22here%22&fields=stauts", "fields"),
        ("filter=status%20%3D%20%22here%22&order_by=stauts", "order_by"),
    ] {
        let reply = client
            .get(&format!("/v1/collections/users/records?{query}"))
            .await;
        assert_eq!(
            (reply.status, &reply.json()["parameter"]),
            (400, &json!(parameter))
        );
    }
    let got = client.get(&user(1)).await;
    assert_eq!(got.json(), json!({ "id": "1", "status": "here" }));
    assert_eq!(got.header("etag"), tag, "nothing was changed");
    assert_eq!(client.get(&user(2)).await.status, 404, "nothing was written");
}

#[test]
fn types_of_patches_are_told() {
    run(async {
        let client = client(over(memory(), OpenOptions::new()).await).await;
        let types = "application/merge-patch+json, application/json";
        let options = client.send(Method::OPTIONS, &user(1), &[], "").await;
        assert_eq!(options.header("accept-patch"), types);
        let text = [("content-type", "text/plain")];
        let refused = client.send(Method::PATCH, &user(1), &text, "{}").await;
        refused.problem(415, "unsupported-media-type");
        assert_eq!(refused.header("accept-patch"), types);
        let put = client.send(Method::PUT, &user(1), &text, "{}").await;
        put.problem(415, "unsupported-media-type");
        assert_eq!(put.header("accept-patch"), "");
    });
}

/// Store whose writes of views take longer than the time limit of a request.
struct Slow(Arc<dyn Store>);

#[async_trait]
impl StoreWrapper for Slow {
    fn inner(&self) -> &Arc<dyn Store> {
        &self.0
    }

    async fn on_writes(
        &self,
        writes: Vec<PartitionWrite>,
        atomicity: Atomicity,
        options: WriteOptions,
    ) -> Result<WriteOutcome, StoreError> {
        if writes
            .iter()
            .any(|write| write.table.name().contains("by_status"))
        {
            tokio::time::sleep(2 * PATIENCE).await;
        }
        self.0.write_many(writes, atomicity, options).await
    }
}

#[test]
fn a_change_whose_views_come_later_is_pending() {
    run(async {
        let options = OpenOptions::new().request_timeout(PATIENCE);
        let recto = over(Arc::new(Slow(memory())), options).await;
        let client = client(recto).await;
        let inserted = put(&client, 1, &[("if-none-match", "*")], json!({ "status": "here" })).await;
        let body = inserted.json();
        assert_eq!((inserted.status, &body["pending"]), (202, &json!(true)), "{body}");
        let version = body["version"].as_str().unwrap().to_owned();
        let tag = format!("\"{version}\"");
        assert_eq!(inserted.header("etag"), tag);
        assert_eq!(client.get(&user(1)).await.header("etag"), tag, "it is made");
        let patched = client
            .patch(&user(1), &[("if-match", &tag)], &json!({ "status": "away" }))
            .await;
        assert_eq!(patched.status, 202, "{}", patched.text());
        let changes = json!({ "changes": [{ "update": [1], "set": { "status": "there" } }] });
        let batch = client.post(BATCH, &changes).await.json();
        assert_eq!(batch["outcomes"][0]["pending"], true, "{batch}");
        let deleted = client.delete(&user(1)).await;
        assert_eq!(deleted.status, 202, "{}", deleted.text());
        let list = "/v1/collections/users/records?filter=status%20%3D%20%22there%22";
        let shown = client.get(list).await.json();
        assert_eq!(shown["records"], json!([]), "views follow");
    });
}
