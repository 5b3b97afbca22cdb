//! Checks requests for one record.

use hyper::Method;
use serde_json::{Value as Json, json};

use super::support::Client;

const NOTE: &str = "/v1/collections/notes/records/";

pub(crate) async fn are_put_and_read_and_deleted(client: Client) {
    let target = format!("{NOTE}single,1,-9007199254740993");
    client.get(&target).await.problem(404, "not-found");
    let record = json!({ "tenant": "single", "at": 1, "id": "-9007199254740993", "title": "a", "score": 0.5,
        "tags": ["x", "y"] });
    assert_eq!(client.put(&target, &record).await.status, 204);
    assert_eq!(client.get(&target).await.json(), record);
    // A put stores the whole record: fields that it omits become null.
    let short = json!({ "title": "b", "done": null });
    assert_eq!(client.put(&target, &short).await.status, 204);
    let stored = json!({ "tenant": "single", "at": 1, "id": "-9007199254740993", "title": "b" });
    assert_eq!(client.get(&target).await.json(), stored);
    let part = client.get(&format!("{target}?fields=title,done")).await;
    assert_eq!(part.json(), json!({ "title": "b" }));
    let problem = client
        .get(&format!("{target}?fields=titel"))
        .await
        .problem(400, "invalid-parameter");
    assert_eq!(problem["field"], "titel");
    for _ in 0..2 {
        assert_eq!(client.delete(&target).await.status, 204);
        client.get(&target).await.problem(404, "not-found");
    }
}

/// Checks that numbers are read exactly as written, never as a double: in records, in keys of
/// changes and in `from`.
pub(crate) async fn have_exact_numbers(client: Client) {
    let json = [("content-type", "application/json")];
    let log = "/v1/collections/log/records";
    let batch = async |changes: &str| {
        let body = format!("{{\"changes\": [{changes}]}}");
        client
            .send(Method::POST, &format!("{log}:batchWrite"), &json, body)
            .await
    };
    let puts = r#"{"put": {"stream": "exact", "seq": 9007199254740993.0, "line": "a"}},
        {"put": {"stream": "exact", "seq": 9007199254740992, "line": "b"}},
        {"put": {"stream": "exact", "seq": 9.007199254740994e15, "line": "c"}}"#;
    assert_eq!(batch(puts).await.status, 200);
    let listed = async |from: &str| {
        let parameters = [("filter", "stream = \"exact\""), ("from", from)];
        let by_address = client
            .get(&super::support::client::listed(log, &parameters))
            .await
            .json();
        let body = format!(r#"{{"filter": "stream = \"exact\"", "from": {from}}}"#);
        let by_body = client
            .send(Method::POST, &format!("{log}:query"), &json, body)
            .await
            .json();
        assert_eq!(by_address["records"], by_body["records"]);
        let lines = by_body["records"].as_array().unwrap().iter();
        lines
            .map(|record| record["line"].as_str().unwrap().to_owned())
            .collect::<String>()
    };
    assert_eq!(listed("[]").await, "bac");
    assert_eq!(listed("[9007199254740993.0]").await, "ac");
    assert_eq!(listed("[9007199254740993.0000]").await, "ac");

    let wrong =
        r#"{"put": {"stream": "exact", "seq": 1}}, {"put": {"stream": "exact", "seq": 9007199254740993.5}}"#;
    let problem = batch(wrong).await.problem(400, "invalid-record");
    assert_eq!(problem["field"], "changes[1].seq", "{problem}");
    let problem = batch(r#"{"delete": ["exact", 9007199254740993.5]}"#).await;
    problem.problem(400, "invalid-record");
    assert_eq!(
        batch(r#"{"delete": ["exact", 9007199254740993.0]}"#).await.status,
        200
    );
    assert_eq!(listed("[]").await, "bc");

    let put = async |seq: &str| {
        let body = format!(r#"{{"seq": {seq}, "line": "d"}}"#);
        let target = format!("{log}/exact,9007199254740993");
        client.send(Method::PUT, &target, &json, body).await
    };
    assert_eq!(put("9007199254740993.0").await.status, 204);
    put("9007199254740992.0").await.problem(409, "conflict");
    let problem = put("9007199254740993.5").await.problem(400, "invalid-record");
    assert_eq!(problem["field"], "seq", "{problem}");
}

/// Checks alternative forms in requests: a map with text keys as an object, and a blob as base64 or
/// as hex digits after `\x`.
pub(crate) async fn take_what_else_means_the_same(client: Client) {
    let mut given = everything();
    given["name"] = json!("same");
    given["pairs"] = json!({ "b": 2, "a": 1 });
    given["bytes"] = json!("\\xdeadbeef");
    let body = json!({ "changes": [{ "put": given }] });
    let batch = client
        .post("/v1/collections/everything/records:batchWrite", &body)
        .await;
    assert_eq!(batch.status, 200, "{}", batch.text());
    let page = client
        .get("/v1/collections/everything/records?filter=name%3D%22same%22")
        .await
        .json();
    assert_eq!(page["records"][0]["pairs"], json!([["a", 1], ["b", 2]]));
    assert_eq!(page["records"][0]["bytes"], "3q2+7w==");
}

/// Returns a record with a value of every type, in the form that replies have.
pub(crate) fn everything() -> Json {
    json!({
        "name": "a b", "flag": true, "tiny": -128, "small": 32767, "count": -2_147_483_648,
        "big": "9223372036854775807", "huge": "-123456789012345678901234567890", "price": "12.5",
        "ratio": 1.5, "exact": "NaN", "day": "2013-01-31", "clock": "10:00:00.000000001",
        "at": "2013-01-31T10:00:00.000Z", "moment": "2a92d750-d8dc-11e6-a2de-cf8ecd4cf053",
        "code": "cc520882-9507-44fb-8fc9-b349ecdee658", "host": "2001:db8::1", "bytes": "3q2+7w==",
        "span": "P1Y2M3DT4H5M6.5S", "words": ["b", "a"], "numbers": [1, 2], "pairs": [["a", 1], ["b", 2]],
        "both": [1, null], "home": { "street": "s", "number": null }, "near": [0.5, 1.0, -2.0],
    })
}

pub(crate) async fn of_every_type_come_back(client: Client) {
    let record = everything();
    let target = "/v1/collections/everything/records/\
        a%20b,true,12.50,1.5,2013-01-31T11:00:00%2B01:00,CC520882-9507-44fb-8fc9-b349ecdee658,3q2%2B7w==";
    let reply = client.put(target, &record).await;
    assert_eq!(
        reply.status,
        409,
        "12.5 and 12.50 are written differently: {}",
        reply.text()
    );
    let mut given = record.clone();
    given["price"] = json!("12.50");
    given["big"] = json!(9_223_372_036_854_775_807_i64);
    given["numbers"] = json!([2, 1, 2]);
    let reply = client.put(target, &given).await;
    assert_eq!(reply.status, 204, "{}", reply.text());
    let mut stored = client.get(target).await.json();
    assert_eq!(
        stored.as_object_mut().unwrap().remove("near"),
        Some(json!([0.5, 1.0, -2.0]))
    );
    let mut expected = record;
    expected.as_object_mut().unwrap().remove("near");
    assert_eq!(stored, expected);
}

pub(crate) async fn are_of_their_address(client: Client) {
    let target = format!("{NOTE}address,1,2");
    for (field, value) in [("tenant", json!("other")), ("at", json!(2)), ("id", json!("3"))] {
        let mut record = json!({ "title": "a" });
        record[field] = value;
        let problem = client.put(&target, &record).await.problem(409, "conflict");
        assert_eq!(problem["field"], field);
    }
    client.get(&target).await.problem(404, "not-found");
    for same in [
        json!({}),
        json!({ "at": 1.0, "id": 2 }),
        json!({ "at": null, "id": "+2" }),
    ] {
        let reply = client.put(&target, &same).await;
        assert_eq!(reply.status, 204, "{same}: {}", reply.text());
    }
}

pub(crate) async fn are_revalidated(client: Client) {
    let target = format!("{NOTE}tagged,1,1");
    client.put(&target, &json!({ "title": "a" })).await;
    let first = client.get(&target).await;
    let tag = first.header("etag").to_owned();
    assert!(tag.starts_with('"'), "{tag}");
    assert_eq!(first.header("cache-control"), "private, no-cache");
    let ask = |list: String| {
        let client = client.clone();
        let target = target.clone();
        async move {
            client
                .send(Method::GET, &target, &[("if-none-match", &list)], "")
                .await
                .status
        }
    };
    assert_eq!(ask(tag.clone()).await, 304);
    assert_eq!(ask(format!("\"other\", W/{tag}")).await, 304);
    assert_eq!(ask("*".into()).await, 304);
    assert_eq!(ask("\"other\"".into()).await, 200);
    client.put(&target, &json!({ "title": "a" })).await;
    assert_eq!(ask(tag.clone()).await, 304, "it is the same again");
    client.put(&target, &json!({ "title": "b" })).await;
    assert_eq!(ask(tag).await, 200);
}

pub(crate) async fn that_are_wrong_say_where(client: Client) {
    let target = format!("{NOTE}wrong,1,1");
    let headers = [("content-type", "application/json")];
    for (body, kind, field, position) in [
        ("{\"title\": 1}", "invalid-record", Some("title"), None),
        ("{\"score\": \"x\"}", "invalid-record", Some("score"), None),
        ("{\"titel\": \"x\"}", "invalid-record", Some("titel"), None),
        (
            "{\"title\": \"a\", \"title\": \"a\"}",
            "invalid-body",
            Some("title"),
            Some(22),
        ),
        ("{\"title\": \"é\",}", "invalid-body", None, Some(15)),
        ("", "invalid-body", None, Some(1)),
        ("[]", "invalid-body", None, None),
        ("{} {}", "invalid-body", None, Some(4)),
    ] {
        let reply = client.send(Method::PUT, &target, &headers, body).await;
        let problem = reply.problem(400, kind);
        assert_eq!(problem["field"].as_str(), field, "{body}: {problem}");
        assert_eq!(problem["position"].as_u64(), position, "{body}: {problem}");
    }
    client.get(&target).await.problem(404, "not-found");
}

pub(crate) async fn are_sent_as_json(client: Client) {
    let target = format!("{NOTE}typed,1,1");
    let put = |headers: Vec<(&'static str, &'static str)>| {
        let client = client.clone();
        let target = target.clone();
        async move { client.send(Method::PUT, &target, &headers, "{}").await }
    };
    for bad in [
        "text/plain",
        "application/jsonp",
        "application/json; charset=latin1",
        "json",
    ] {
        let reply = put(vec![("content-type", bad)]).await;
        let problem = reply.problem(415, "unsupported-media-type");
        assert!(problem["hint"].as_str().unwrap().contains("application/json"));
    }
    put(vec![]).await.problem(415, "unsupported-media-type");
    for fine in [
        "application/json",
        "Application/JSON",
        "application/json; charset=\"UTF-8\"",
    ] {
        assert_eq!(put(vec![("content-type", fine)]).await.status, 204, "{fine}");
    }
}
