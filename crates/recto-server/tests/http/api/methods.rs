//! Checks methods that a resource does not support, and paths without a resource.

use std::collections::BTreeSet;

use hyper::Method;
use recto::schema::Schema;
use recto::{OpenOptions, Recto};
use recto_server::access::Access;
use serde_json::json;

use super::support::{Client, Kind, run};

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
        (RECORD, "GET, HEAD, PUT, DELETE, OPTIONS"),
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
            // Skip the patch of a record without versions: the server rejects it with another error
            // than 405.
            if allow.contains(method.as_str()) || (target, &method) == (RECORD, &Method::PATCH) {
                continue;
            }
            let reply = client.send(method.clone(), target, &[], "").await;
            reply.problem(405, "method-not-allowed");
            assert_eq!(reply.header("allow"), allow, "{method} {target}");
        }
    }
}

/// Compares the header `Allow` of each path, in the responses to OPTIONS and with status 405, with
/// the methods in the description.
async fn check_described(client: &Client) {
    let document = client.get("/openapi.json").await.json();
    for (template, item) in document["paths"].as_object().unwrap() {
        let mut target = String::new();
        for (number, part) in template.split('{').enumerate() {
            match part.split_once('}') {
                Some((_, rest)) if number > 0 => target.push_str(&format!("1{rest}")),
                _ => target.push_str(part),
            }
        }
        let methods = item
            .as_object()
            .unwrap()
            .keys()
            .filter(|name| *name != "parameters");
        let mut expected: BTreeSet<String> = methods.map(|name| name.to_uppercase()).collect();
        if expected.contains("GET") {
            expected.insert("HEAD".to_owned());
        }
        expected.insert("OPTIONS".to_owned());
        for (method, status) in [(Method::OPTIONS, 204), (Method::TRACE, 405)] {
            let reply = client.send(method.clone(), &target, &[], "").await;
            let allow = reply.header("allow").split(", ").map(str::to_owned);
            assert_eq!(
                (reply.status, allow.collect::<BTreeSet<_>>()),
                (status, expected.clone()),
                "{method} {target}"
            );
        }
    }
}

pub(crate) async fn are_those_of_the_description(client: Client) {
    check_described(&client).await;
}

#[test]
fn of_records_with_versions_are_those_of_the_description() {
    run(async {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("store");
        let recto = Recto::open_with(path, OpenOptions::new().create()).await.unwrap();
        let schema = "[collection.docs]\nfields = { id = \"int\", tenant = \"text\" }\nkey = [\"id\"]\n\
                      [collection.docs.view.by_tenant]\npartition = [\"tenant\"]\n";
        recto.apply(&Schema::parse(schema).unwrap()).await.unwrap();
        let client = Client::over(recto, Kind::Embedded, Access::all()).await;
        check_described(&client).await;
        let record = "/v1/collections/docs/records/1";
        let options = client.send(Method::OPTIONS, record, &[], "").await;
        assert!(options.header("allow").contains("PATCH"));
        // The hint must name the existing view that serves the query, and not propose a new view.
        let records = "/v1/collections/docs/records?view=base&filter=tenant%3D%22acme%22";
        let problem = client.get(records).await.problem(400, "no-view");
        let hint = problem["hint"].as_str().unwrap();
        assert_eq!(
            hint, "leave out the view, or use view by_tenant, which serves this query",
            "{problem}"
        );
    });
}

pub(crate) async fn name_the_ways_to_write(client: Client) {
    for method in [Method::POST, Method::PUT] {
        let target = "/v1/collections/notes/records";
        let problem = client.send(method, target, &[], "").await;
        let problem = problem.problem(405, "method-not-allowed");
        let hint = problem["hint"].as_str().unwrap();
        assert!(
            hint.contains("PUT …/records/KEY") && hint.contains("records:batchWrite"),
            "{problem}"
        );
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
