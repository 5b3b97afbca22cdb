//! Checks requests for views: their states, comparison with records, and repair.

use std::collections::BTreeMap;
use std::sync::Arc;

use hyper::Method;
use recto::store::memory::MemoryStore;
use recto::store::{
    Atomicity, Mutation, Operation as RowOperation, PartitionWrite, Stamp, WriteOptions, WriteOutcome,
};
use recto::{Environment, OpenOptions, Recto};
use recto_server::access::{Access, Grant, Right, STORE};
use serde_json::{Value as Json, json};

use super::support::{Client, Kind, Reply, run};
use super::versions::over;

const VERIFY: &str = "/v1/store:verify";
const REPAIR: &str = "/v1/store:repair";

/// Returns a client with the given grants. Each grant has a name, rights, and a row filter.
async fn granted(recto: &Recto, grants: &[(&str, &[Right], &str)]) -> Client {
    let grants = grants.iter().map(|(name, rights, rows)| {
        let grant = Grant {
            rights: rights.to_vec(),
            rows: (*rows).to_owned(),
        };
        ((*name).to_owned(), grant)
    });
    let access = Access::granted("somebody", grants.collect::<BTreeMap<_, _>>());
    Client::over(recto.clone(), Kind::Embedded, access).await
}

async fn store() -> Recto {
    let memory = Arc::new(MemoryStore::new(Environment::system()));
    over(memory, OpenOptions::new()).await
}

/// Returns the last line of a response as JSON.
fn last_line(reply: &Reply) -> Json {
    assert_eq!(reply.status, 200, "{}", reply.text());
    serde_json::from_str(reply.text().lines().next_back().unwrap()).unwrap()
}

/// Returns a store whose view lacks entries: it lacks the entries of all users with the status
/// `here`.
async fn drifted() -> (Recto, Client) {
    let recto = store().await;
    let client = Client::over(recto.clone(), Kind::Embedded, Access::all()).await;
    let put = |id: i64, status: &str| json!({ "put": { "id": id, "status": status, "note": "n" } });
    client
        .write("users", vec![put(1, "here"), put(2, "here"), put(3, "away")])
        .await;
    let tag = client.get("/v1/collections/users/records/2").await;
    let version: i64 = tag.header("etag").trim_matches('"').parse().unwrap();
    let table = &recto.views().await.unwrap()[0].table;
    let tables = recto.store().list_tables().await.unwrap();
    let table = tables.into_iter().find(|one| one.name() == table).unwrap();
    let write = PartitionWrite {
        table: Arc::new(table),
        partition: [Some(&b"here"[..])].into_iter().collect(),
        mutations: vec![Mutation {
            operation: RowOperation::DeletePartition,
            stamp: Some(Stamp(version)),
            ttl_seconds: None,
        }],
    };
    let written = recto
        .store()
        .write_many(vec![write], Atomicity::Each, WriteOptions::default());
    assert!(matches!(written.await.unwrap(), WriteOutcome::Done));
    (recto, client)
}

async fn listed_here(client: &Client) -> usize {
    let filter = "/v1/collections/users/records?filter=status%20%3D%20%22here%22";
    client.get(filter).await.json()["records"]
        .as_array()
        .unwrap()
        .len()
}

#[test]
fn views_are_listed_with_their_states() {
    run(async {
        let recto = store().await;
        let client = Client::over(recto.clone(), Kind::Embedded, Access::all()).await;
        let of_users = client.get("/v1/collections/users/views").await;
        let expected = json!({ "views": [{
            "collection": "users",
            "view": "by_status",
            "sort_order": "(status), id",
            "partition": ["status"],
            "order": ["id"],
            "collate": {},
            "fields": ["id", "status", "note", "tags", "price"],
            "state": "ready",
            "number": 1,
            "table": "users_by_status_1",
            "rows_filled": null,
            "misfits": { "empty": 0, "too_large": 0 },
        }] });
        assert_eq!(of_users.json(), expected);
        let tag = of_users.header("etag").to_owned();
        let again = client
            .send(
                Method::GET,
                "/v1/collections/users/views",
                &[("if-none-match", &tag)],
                "",
            )
            .await;
        assert_eq!(again.status, 304);
        assert_eq!(client.get("/v1/collections/-/views").await.json(), expected);
        let none = client.get("/v1/collections/plain/views").await.json();
        assert_eq!(none, json!({ "views": [] }));
        client
            .get("/v1/collections/nowhere/views")
            .await
            .problem(404, "not-found");
        client
            .get("/v1/collections/users/views?x=1")
            .await
            .problem(400, "invalid-parameter");
        let writer = granted(&recto, &[("users", &[Right::Write], "")]).await;
        writer
            .get("/v1/collections/users/views")
            .await
            .problem(403, "forbidden");
        writer
            .get("/v1/collections/plain/views")
            .await
            .problem(404, "not-found");
        let seen = writer.get("/v1/collections/-/views").await.json();
        assert_eq!(seen, json!({ "views": [] }));
    });
}

#[test]
fn finds_and_repairs_differences() {
    run(async {
        let (_, client) = drifted().await;
        assert_eq!(listed_here(&client).await, 0);
        let ask = json!({ "collections": ["users"], "rows_per_second": 1_000_000 });
        let verified = last_line(&client.post(VERIFY, &ask).await)["result"].clone();
        let view = &verified["views"][0];
        assert_eq!(
            (&view["missing"], &view["repaired"]),
            (&json!(2), &json!(0)),
            "{verified}"
        );
        assert_eq!(
            view["examples"][0],
            json!({ "kind": "missing", "key": "(1)", "outcome": "" })
        );
        assert_eq!(listed_here(&client).await, 0, "nothing is changed");
        let repaired = last_line(&client.post(REPAIR, &json!({})).await)["result"].clone();
        assert_eq!(repaired["views"][0]["repaired"], 2, "{repaired}");
        assert_eq!(listed_here(&client).await, 2);
        let verified = last_line(&client.post(VERIFY, &json!({})).await)["result"].clone();
        assert_eq!(verified["views"][0]["missing"], 0);
    });
}

#[test]
fn rejects_invalid_verify_and_repair_requests() {
    run(async {
        let (_, client) = drifted().await;
        for (body, field) in [
            (json!({ "collections": "users" }), "collections"),
            (json!({ "collections": [1] }), "collections[0]"),
            (json!({ "rows_per_second": 0 }), "rows_per_second"),
            (json!({ "rows_per_second": -1 }), "rows_per_second"),
            (json!({ "rows_per_second": 1.5 }), "rows_per_second"),
            (json!({ "rows_per_second": 4_294_967_296_u64 }), "rows_per_second"),
            (json!({ "resume_token": 7 }), "resume_token"),
            (json!({ "repair": true }), "repair"),
        ] {
            let problem = client.post(VERIFY, &body).await.problem(400, "invalid-body");
            assert_eq!(problem["field"], field, "{problem}");
        }
        for token in ["", "x", "UgEAAAAB"] {
            let elsewhere = json!({ "resume_token": token });
            client
                .post(REPAIR, &elsewhere)
                .await
                .problem(400, "invalid-page-token");
        }
        client.post(REPAIR, &json!([])).await.problem(400, "invalid-body");
        client
            .send(Method::POST, REPAIR, &[], "")
            .await
            .problem(415, "unsupported-media-type");
        client
            .post(REPAIR, &json!({ "collections": ["users", "nowhere"] }))
            .await
            .problem(404, "not-found");
        assert_eq!(listed_here(&client).await, 0, "nothing was repaired");
    });
}

#[test]
fn requires_read_to_verify_and_write_to_repair() {
    run(async {
        let (recto, client) = drifted().await;
        let both: &[Right] = &[Right::Verify, Right::Repair];
        let ask = json!({ "collections": ["users"] });
        let all = [Right::Read, Right::Write, Right::Export, Right::Delete];
        let nobody = granted(&recto, &[("*", &all, "")]).await;
        for path in [VERIFY, REPAIR] {
            let problem = nobody.post(path, &ask).await.problem(403, "forbidden");
            assert!(problem["hint"].as_str().unwrap().contains("@store:"), "{problem}");
        }
        // A token that sees only some rows may neither verify nor repair, even with a grant for the
        // store.
        let scoped = granted(&recto, &[("users", &all, "status = \"away\""), (STORE, both, "")]).await;
        for path in [VERIFY, REPAIR] {
            scoped.post(path, &ask).await.problem(403, "forbidden");
        }
        let writer = granted(&recto, &[("users", &[Right::Write], ""), (STORE, both, "")]).await;
        for (path, body) in [(VERIFY, &ask), (REPAIR, &ask), (VERIFY, &json!({}))] {
            writer.post(path, body).await.problem(403, "forbidden");
        }
        let reader = granted(&recto, &[("users", &[Right::Read], ""), (STORE, both, "")]).await;
        reader.post(REPAIR, &ask).await.problem(403, "forbidden");
        reader
            .post(VERIFY, &json!({ "collections": ["plain"] }))
            .await
            .problem(404, "not-found");
        let blind = granted(&recto, &[(STORE, both, "")]).await;
        blind.post(VERIFY, &json!({})).await.problem(403, "forbidden");
        let verified = last_line(&reader.post(VERIFY, &json!({})).await);
        assert_eq!(verified["result"]["views"][0]["missing"], 2, "{verified}");
        assert_eq!(listed_here(&client).await, 0, "nobody repaired it");
        let mender = granted(
            &recto,
            &[("users", &[Right::Read, Right::Write], ""), (STORE, both, "")],
        )
        .await;
        last_line(&mender.post(REPAIR, &ask).await);
        assert_eq!(listed_here(&client).await, 2);
    });
}
