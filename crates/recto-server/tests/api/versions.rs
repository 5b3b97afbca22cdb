//! Records that have versions: conditions, patches, outcomes. Over a store in memory.

use std::collections::BTreeMap;
use std::sync::Arc;

use hyper::Method;
use recto::schema::Schema;
use recto::store::memory::MemoryStore;
use recto::{Environment, OpenOptions, Recto};
use recto_server::access::{Access, Grant, Operation};
use serde_json::{Value as Json, json};

use crate::support::{Client, Kind, Reply, run};

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

pub(crate) async fn store() -> Recto {
    let memory = Arc::new(MemoryStore::new(Environment::system()));
    let recto = Recto::with_store(memory, OpenOptions::new()).await.unwrap();
    recto.apply(&Schema::parse(SCHEMA).unwrap()).await.unwrap();
    recto
}

async fn client() -> Client {
    Client::over(store().await, Kind::Embedded, Access::all()).await
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

#[test]
fn the_version_is_the_entity_tag() {
    run(async {
        let client = client().await;
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
    });
}

#[test]
fn a_patch_changes_what_it_names() {
    run(async {
        let client = client().await;
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
    });
}

#[test]
fn conditions_that_are_none_are_refused() {
    run(async {
        let client = client().await;
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
            .problem(501, "unsupported");
        let insert = json!({ "changes": [{ "insert": { "id": 1 } }] });
        let reply = client
            .post("/v1/collections/plain/records:batchWrite", &insert)
            .await;
        assert_eq!(reply.problem(501, "unsupported")["field"], "changes[0]");
    });
}

#[test]
fn each_change_of_a_batch_has_an_outcome() {
    run(async {
        let client = client().await;
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
    });
}

#[test]
fn what_a_token_does_not_see_is_neither_shown_nor_changed() {
    run(async {
        let recto = store().await;
        let all = Client::over(recto.clone(), Kind::Embedded, Access::all()).await;
        let granted = |operations: &[Operation], rows: &str| {
            let grant = Grant {
                operations: operations.to_vec(),
                rows: rows.to_owned(),
            };
            Access::granted("somebody", BTreeMap::from([("users".to_owned(), grant)]))
        };
        let every = [Operation::Read, Operation::Write, Operation::Delete];
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
        // Who may only write is told the version that stands against it, and not the record.
        let writer = Client::over(recto, Kind::Embedded, granted(&[Operation::Write], "")).await;
        let late = put(&writer, 2, &[("if-match", "\"17\"")], json!({})).await;
        let problem = late.problem(412, "record-changed");
        assert_eq!(
            (late.header("etag"), problem.get("record")),
            (hidden.header("etag"), None)
        );
        writer.delete(&user(2)).await.problem(403, "forbidden");
    });
}
