//! Checks requests for the collections of the schema.

use hyper::Method;
use serde_json::json;

use super::support::Client;

pub(crate) async fn are_listed(client: Client) {
    let reply = client.get("/v1/collections").await;
    let listed = reply.json();
    let names = listed["collections"].as_array().unwrap().iter();
    let names: Vec<&str> = names.map(|one| one["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["notes", "log", "exported", "everything"]);
    let known = [("if-none-match", reply.header("etag"))];
    let again = client.send(Method::GET, "/v1/collections", &known, "").await;
    assert_eq!(again.status, 304);
}

pub(crate) async fn are_described(client: Client) {
    let notes = client.get("/v1/collections/notes").await.json();
    assert_eq!(notes["key"], json!(["tenant", "at", "id"]));
    assert_eq!(notes["writes"], "overwrite");
    assert_eq!(
        notes["views"],
        json!([{ "name": "primary", "partition": ["tenant"], "order": ["-at", "id"] }])
    );
    let field = |name: &str| {
        let fields = notes["fields"].as_array().unwrap().iter();
        fields
            .clone()
            .find(|field| field["name"] == name)
            .unwrap()
            .clone()
    };
    assert_eq!(
        field("at"),
        json!({ "name": "at", "type": "int", "required": true,
            "operators": ["=", "<", "<=", ">", ">="], "filter": "view", "sort": true })
    );
    assert_eq!(
        field("title"),
        json!({ "name": "title", "type": "text", "required": false,
            "operators": ["=", "<", "<=", ">", ">=", "startsWith"], "filter": "filter_scan", "sort": false })
    );
    assert_eq!(field("tags")["operators"], json!(["="]));
}

pub(crate) async fn are_a_schema(client: Client) {
    let reply = client.get("/v1/schema").await;
    let told = reply.json();
    let schema = recto::schema::Schema::parse(told["toml"].as_str().unwrap()).unwrap();
    let names: Vec<&str> = schema.collections.iter().map(|one| one.name.as_str()).collect();
    assert_eq!(names, ["notes", "log", "exported", "everything"]);
    assert!(told["generation"].as_u64().unwrap() > 0);
    let known = [("if-none-match", reply.header("etag"))];
    let again = client.send(Method::GET, "/v1/schema", &known, "").await;
    assert_eq!(again.status, 304);
    let problem = client
        .get("/v1/schema?x=1")
        .await
        .problem(400, "invalid-parameter");
    assert_eq!(problem["hint"], "leave it out: there are no parameters");
}

pub(crate) async fn that_are_not_there_are_not_found(client: Client) {
    for path in [
        "",
        "/records",
        "/records:explain",
        "/records:export",
        "/records/a,1,1",
    ] {
        let reply = client.get(&format!("/v1/collections/nowhere{path}")).await;
        reply.problem(404, "not-found");
    }
    let target = "/v1/collections/nowhere/records/1";
    client.put(target, &json!({})).await.problem(404, "not-found");
    client.delete(target).await.problem(404, "not-found");
    let target = "/v1/collections/nowhere/records:batchWrite";
    client
        .post(target, &json!({ "changes": [] }))
        .await
        .problem(404, "not-found");
    client.get("/v1/collections/%ff").await.problem(404, "not-found");
    let problem = client
        .get("/v1/collections?x=1")
        .await
        .problem(400, "invalid-parameter");
    assert_eq!(problem["hint"], "leave it out: there are no parameters");
}
