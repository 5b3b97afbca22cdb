//! Methods, and addresses where nothing is.

use hyper::Method;
use serde_json::json;

use super::support::Client;

const RECORD: &str = "/v1/collections/notes/records/methods,1,1";

pub(crate) async fn are_named_where_another_is_asked(client: Client) {
    let read = "GET, HEAD, OPTIONS";
    let ask = "GET, HEAD, POST, OPTIONS";
    for (target, allow) in [
        ("/v1/collections", read),
        ("/v1/collections/notes", read),
        ("/v1/collections/notes/records", read),
        ("/v1/collections/notes/records:explain", ask),
        ("/v1/collections/notes/records:export", ask),
        ("/v1/collections/notes/records:query", "POST, OPTIONS"),
        ("/v1/collections/notes/records:batchWrite", "POST, OPTIONS"),
        (RECORD, "GET, HEAD, PUT, PATCH, DELETE, OPTIONS"),
        ("/openapi.json", read),
        ("/docs", read),
    ] {
        let options = client.send(Method::OPTIONS, target, &[], "").await;
        assert_eq!(
            (options.status, options.header("allow")),
            (204, allow),
            "{target}"
        );
        for method in [Method::POST, Method::TRACE, Method::PATCH, Method::GET] {
            if allow.contains(method.as_str()) {
                continue;
            }
            let reply = client.send(method.clone(), target, &[], "").await;
            reply.problem(405, "method-not-allowed");
            assert_eq!(reply.header("allow"), allow, "{method} {target}");
        }
    }
}

pub(crate) async fn that_the_collection_does_not_offer_say_why(client: Client) {
    for header in ["if-match", "if-none-match", "if-unmodified-since"] {
        let headers = [(header, "*"), ("content-type", "application/json")];
        for method in [Method::PUT, Method::DELETE] {
            let problem = client
                .send(method, RECORD, &headers, "{}")
                .await
                .problem(409, "not-offered");
            assert!(problem["detail"].as_str().unwrap().contains(header), "{problem}");
        }
    }
    assert_eq!(client.get(RECORD).await.status, 404, "nothing was written");
}

pub(crate) async fn head_is_get_without_a_body(client: Client) {
    client
        .put("/v1/collections/notes/records/head,1,1", &json!({ "title": "t" }))
        .await;
    for target in [
        "/v1/collections/notes/records/head,1,1",
        "/v1/collections/notes/records?filter=tenant%3D%22head%22",
        "/v1/collections",
        "/v1/collections/notes",
        "/v1/collections/exported/records:export",
    ] {
        let get = client.get(target).await;
        let head = client.send(Method::HEAD, target, &[], "").await;
        assert_eq!((head.status, head.body.len()), (200, 0), "{target}");
        for name in ["etag", "content-type", "cache-control"] {
            assert_eq!(head.header(name), get.header(name), "{target}: {name}");
        }
    }
    let nothing = client.send(Method::HEAD, RECORD, &[], "").await;
    assert_eq!((nothing.status, nothing.body.len()), (404, 0));
}

pub(crate) async fn nothing_is_found_with_a_problem(client: Client) {
    for target in [
        "/v1/nothing",
        "/v1/collections/notes/nothing",
        "/v1/collections/notes/records/a/b",
        "/v1/collections/notes/records:nothing",
    ] {
        let problem = client.get(target).await.problem(404, "not-found");
        assert!(problem["detail"].as_str().unwrap().contains(target), "{problem}");
    }
}
