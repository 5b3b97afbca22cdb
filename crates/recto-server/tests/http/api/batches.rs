//! Checks batches of changes.

use serde_json::{Value as Json, json};

use super::support::{Client, Kind, Reply};

async fn send(client: &Client, changes: Json) -> Reply {
    let body = json!({ "changes": changes });
    client
        .post("/v1/collections/notes/records:batchWrite", &body)
        .await
}

fn note(tenant: &str, at: i32) -> Json {
    json!({ "put": { "tenant": tenant, "at": at, "id": 1, "title": "t" } })
}

async fn count(client: &Client, tenant: &str) -> usize {
    let filter = format!("tenant = \"{tenant}\"");
    let page = client.notes(&[("filter", &filter), ("page_size", "1000")]).await;
    page["records"].as_array().unwrap().len()
}

pub(crate) async fn are_made_together(client: Client) {
    client
        .write("notes", vec![note("together", 1), note("together", 2)])
        .await;
    let changes = json!([
        note("together", 3),
        { "delete": ["together", 1, "1"] },
        { "delete": ["together", 2.0, 1] },
        { "collection": "log", "put": { "stream": "together", "seq": "1", "line": "l" } },
        { "collection": "log", "delete": ["nothing", 1] },
    ]);
    let reply = send(&client, changes).await;
    assert_eq!(reply.status, 200, "{}", reply.text());
    assert_eq!(reply.json(), json!({ "puts": 2, "deletes": 3, "repeated": 0 }));
    assert_eq!(count(&client, "together").await, 1);
    let logged = client.get("/v1/collections/log/records/together,1").await;
    assert_eq!(logged.json()["line"], "l");
    assert_eq!(
        send(&client, json!([])).await.json(),
        json!({ "puts": 0, "deletes": 0, "repeated": 0 })
    );
}

pub(crate) async fn hold_the_later_of_two_changes(client: Client) {
    let changes = json!([
        note("later", 1),
        { "delete": ["later", 1, 1] },
        { "delete": ["later", 2, 1] },
        note("later", 2),
    ]);
    assert_eq!(send(&client, changes).await.status, 200);
    let found = client.get("/v1/collections/notes/records/later,1,1").await;
    assert_eq!(found.status, 404);
    let found = client.get("/v1/collections/notes/records/later,2,1").await;
    assert_eq!(found.status, 200);
}

/// Checks puts of a record with the key of an append-only record in a batch. An equal record is
/// accepted. A different record in the same batch is rejected. A different stored record is
/// detected only by the embedded store.
pub(crate) async fn do_not_change_what_is_appended(client: Client) {
    let line = |seq: i32, line: &str| json!({ "collection": "log", "put": { "stream": "kept", "seq": seq.to_string(), "line": line } });
    let reply = send(
        &client,
        json!([line(1, "one"), line(1, "one"), note("kept", 1), note("kept", 1)]),
    )
    .await;
    assert_eq!(reply.json(), json!({ "puts": 2, "deletes": 0, "repeated": 2 }));
    let within = send(&client, json!([line(2, "a"), line(2, "b")])).await;
    assert_eq!(within.problem(409, "record-exists")["field"], "changes[1]");
    let other = send(&client, json!([line(2, "a"), line(1, "other")])).await;
    let target = "/v1/collections/log/records/kept,1";
    let put = client.put(target, &json!({ "line": "other" })).await;
    let stored = client.get(target).await.json();
    match client.kind {
        Kind::Embedded => {
            let problem = other.problem(409, "record-exists");
            assert_eq!(problem["field"], "changes[1]", "{problem}");
            assert_eq!(put.problem(409, "record-exists")["field"], Json::Null);
            assert_eq!(stored["line"], "one");
            client
                .get("/v1/collections/log/records/kept,2")
                .await
                .problem(404, "not-found");
        }
        // On Cassandra, an append to an existing key replaces the record, as the API description
        // says.
        Kind::Cassandra => assert_eq!(
            (other.status, put.status, &stored["line"]),
            (200, 204, &json!("other"))
        ),
    }
}

pub(crate) async fn may_say_how_long_records_live(client: Client) {
    let target = "/v1/collections/notes/records/lives,1,1";
    let put = client
        .put(&format!("{target}?ttl_seconds=1000"), &json!({}))
        .await;
    assert_eq!(put.status, 204, "{}", put.text());
    for wrong in ["0", "-1", "x", "630720001"] {
        let put = client
            .put(&format!("{target}?ttl_seconds={wrong}"), &json!({}))
            .await;
        assert_eq!(put.problem(400, "invalid-parameter")["parameter"], "ttl_seconds");
    }
    let short = json!({ "put": { "tenant": "lives", "at": 2, "id": 1 }, "ttl_seconds": 1.0 });
    assert_eq!(send(&client, json!([short, note("lives", 3)])).await.status, 200);
    let wrong = json!({ "put": { "tenant": "lives", "at": 2, "id": 1 }, "ttl_seconds": 0 });
    let problem = send(&client, json!([wrong])).await.problem(400, "invalid-body");
    assert_eq!(problem["field"], "changes[0]");
    tokio::time::sleep(std::time::Duration::from_millis(2_200)).await;
    assert_eq!(count(&client, "lives").await, 2);
}

pub(crate) async fn name_the_change_that_is_wrong(client: Client) {
    for (wrong, field) in [
        (
            json!({ "put": { "tenant": "whole", "at": 2, "id": 1, "title": 5 } }),
            "changes[1].title",
        ),
        (
            json!({ "put": { "tenant": "whole", "at": 2, "title": "x" } }),
            "changes[1].id",
        ),
        (
            json!({ "put": { "tenant": "whole", "at": 2, "id": 1, "x": 1 } }),
            "changes[1].x",
        ),
        (json!({ "delete": ["whole", 2] }), "changes[1]"),
        (json!({ "delete": ["whole", "x", 1] }), "changes[1].at"),
        (json!({ "delete": ["whole", null, 1] }), "changes[1].at"),
        (json!({ "delete": ["whole", "1", 1] }), "changes[1].at"),
        (json!({ "delete": [true, 1, 1] }), "changes[1].tenant"),
    ] {
        let reply = send(&client, json!([note("whole", 1), wrong, note("whole", 3)])).await;
        let problem = reply.problem(400, "invalid-record");
        assert_eq!(problem["field"], field, "{problem}");
    }
    let elsewhere = json!([note("whole", 1), { "collection": "nowhere", "put": {} }]);
    send(&client, elsewhere).await.problem(404, "not-found");
    assert_eq!(count(&client, "whole").await, 0, "nothing was written");
}

pub(crate) async fn of_the_wrong_shape_are_refused(client: Client) {
    for wrong in [
        json!({ "put": {}, "delete": [] }),
        json!({}),
        json!({ "put": [] }),
        json!({ "delete": {} }),
        json!({ "put": {}, "collection": 1 }),
        json!({ "put": {}, "more": 1 }),
        json!(1),
    ] {
        let reply = send(&client, json!([note("shape", 1), wrong])).await;
        let problem = reply.problem(400, "invalid-body");
        assert_eq!(problem["field"], "changes[1]", "{problem}");
    }
    for body in [
        json!({}),
        json!([]),
        json!({ "changes": {} }),
        json!({ "changes": [], "x": 1 }),
    ] {
        let reply = client
            .post("/v1/collections/notes/records:batchWrite", &body)
            .await;
        reply.problem(400, "invalid-body");
    }
    assert_eq!(count(&client, "shape").await, 0);
}

pub(crate) async fn have_a_limit(client: Client) {
    let change = json!({ "delete": ["limit", 1, 1] });
    let most = recto::MAX_BATCH_CHANGES;
    let problem = send(&client, vec![change; most + 1].into())
        .await
        .problem(413, "limit-exceeded");
    assert!(problem["detail"].as_str().unwrap().contains("10000"), "{problem}");
}

/// Checks a batch that is larger than a logged batch of Cassandra may be. The server rejects it
/// before it writes anything. The embedded store has no such limit.
pub(crate) async fn too_large_for_cassandra_are_refused_whole(client: Client) {
    let text = "x".repeat(2_000);
    let changes: Vec<Json> = (0..100)
        .map(
            |at| json!({ "put": { "tenant": format!("large{}", at % 2), "at": at, "id": 1, "title": text } }),
        )
        .collect();
    let reply = send(&client, changes.into()).await;
    let stored = count(&client, "large0").await + count(&client, "large1").await;
    match client.kind {
        Kind::Embedded => assert_eq!((reply.status, stored), (200, 100)),
        Kind::Cassandra => {
            reply.problem(413, "limit-exceeded");
            assert_eq!(stored, 0);
        }
    }
}
