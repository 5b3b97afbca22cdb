//! Checks explanations: the plan and the cost of a list of records.

use serde_json::json;

use super::support::client::listed;
use super::support::{Client, Kind};

const EXPLAIN: &str = "/v1/collections/notes/records:explain";

pub(crate) async fn say_what_is_read(client: Client) {
    let row = |at| json!({ "put": { "tenant": "explained", "at": at, "id": 1 } });
    client.write("notes", (0..3).map(row).collect()).await;
    let asked = [
        ("filter", "tenant = \"explained\" AND at < 2"),
        ("page_size", "5"),
    ];
    let reply = client.get(&listed(EXPLAIN, &asked)).await;
    assert_eq!(reply.header("cache-control"), "no-store");
    let explained = reply.json();
    assert_eq!(explained["shape"], "scan");
    assert_eq!(explained["sort_order"], "(tenant), -at, id");
    assert_eq!(explained["expected_rows"], 6);
    assert!(explained.get("actual").is_none() && explained["sources"][0].get("buckets").is_none());
    let request = explained["sources"][0]["requests"][0].as_str().unwrap();
    assert_eq!(
        request.contains("SELECT"),
        client.kind == Kind::Cassandra,
        "{request}"
    );

    let run = [asked.as_slice(), &[("run", "true")]].concat();
    let explained = client.get(&listed(EXPLAIN, &run)).await.json();
    assert_eq!(explained["actual"]["rows_returned"], 2);
    assert_eq!(explained["actual"]["rows_read"], 2);
}

pub(crate) async fn take_the_parameters_of_lists(client: Client) {
    let target = listed(EXPLAIN, &[("filter", "tenat = 1")]);
    let problem = client.get(&target).await.problem(400, "invalid-query");
    assert_eq!(
        (&problem["parameter"], &problem["field"]),
        (&json!("filter"), &json!("tenat"))
    );
    let target = listed(EXPLAIN, &[("filter", "tenant = \"a\""), ("run", "1")]);
    let problem = client.get(&target).await.problem(400, "invalid-parameter");
    assert_eq!(problem["parameter"], "run");
    let target = listed(EXPLAIN, &[("filter", "tenant = \"a\""), ("view", "x")]);
    let problem = client.get(&target).await.problem(400, "invalid-parameter");
    assert_eq!(problem["parameter"], "view");
    let target = listed(EXPLAIN, &[("filter", "done = true")]);
    client.get(&target).await.problem(400, "no-view");
}

pub(crate) async fn take_them_in_a_body_too(client: Client) {
    let filter = "tenant = \"explained\"";
    let target = "/v1/collections/notes/records:explain";
    let by_address = client
        .get(&listed(target, &[("filter", filter), ("page_size", "7")]))
        .await
        .json();
    let body = json!({ "filter": filter, "page_size": 7, "run": false });
    assert_eq!(client.post(target, &body).await.json(), by_address);
    let run = client
        .post(target, &json!({ "filter": filter, "run": true }))
        .await
        .json();
    assert!(run["actual"].is_object(), "{run}");
    client
        .post(target, &json!({ "run": "true" }))
        .await
        .problem(400, "invalid-parameter");
}
