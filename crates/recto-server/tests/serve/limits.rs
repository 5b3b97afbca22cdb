//! Limits on what comes in: each is told by its own status, and hurts nobody else.

use std::time::Duration;

use recto_server::config::MetricsAccess;
use tokio::io::AsyncWriteExt as _;

use super::support::{read_reply, serve};

const RECORD: &str = "/v1/collections/orders/records/acme,1";

#[tokio::test(flavor = "multi_thread")]
async fn long_urls_many_headers_and_large_ones_are_refused() {
    let served = serve(|config| {
        config.limits.url_bytes = 1_000;
        config.limits.header_bytes = 8_192;
    })
    .await;
    let long = format!("/v1/collections?filter={}", "x".repeat(1_000));
    let reply = served.get(&long).await;
    assert_eq!(
        (reply.status, reply.header("content-type")),
        (414, Some("application/problem+json"))
    );
    assert!(!reply.body.contains("xxx"));

    let many: Vec<String> = (0..200).map(|number| format!("X-{number}: 1")).collect();
    let many: Vec<&str> = many.iter().map(String::as_str).collect();
    assert_eq!(served.ask("GET", "/healthz", &many, "").await.status, 431);
    let large = format!("X-Large: {}", "x".repeat(100_000));
    assert_eq!(served.ask("GET", "/healthz", &[&large], "").await.status, 431);
    assert_eq!(served.get("/healthz").await.status, 200);
}

/// What is too long for a URL is told where it fits.
#[tokio::test(flavor = "multi_thread")]
async fn what_is_too_long_for_a_url_fits_in_a_body() {
    let served = serve(|config| config.limits.url_bytes = 1_000).await;
    let list = "/v1/collections/orders/records";
    let none = "x".repeat(1_000);
    let filter = format!("tenant = \"acme\" OR tenant = \"{none}\"");
    let refused = served
        .get(&format!(
            "{list}?filter={}",
            filter.replace(' ', "%20").replace('"', "%22")
        ))
        .await;
    assert_eq!(refused.status, 414);
    assert!(refused.json()["hint"].as_str().unwrap().contains("records:query"));
    let body = serde_json::json!({ "filter": filter, "page_size": 3 }).to_string();
    let page = served.ask("POST", &format!("{list}:query"), &[], &body).await;
    assert_eq!(page.status, 200, "{}", page.body);
    assert_eq!(page.json()["records"].as_array().unwrap().len(), 3);
    let exported = served
        .ask(
            "POST",
            &format!("{list}:export"),
            &[],
            &serde_json::json!({ "filter": filter }).to_string(),
        )
        .await;
    assert_eq!(exported.status, 200);
    assert!(exported.body.contains("acme") && !exported.body.contains("umbrella"));
    // A page of another site asks nothing.
    let foreign = ["Origin: http://evil.example"];
    assert_eq!(
        served
            .ask("POST", &format!("{list}:query"), &foreign, &body)
            .await
            .status,
        403
    );
}

/// What is no request gets an answer that hyper writes, before anything of ours sees it: without headers
/// of ours, and so without anything a browser could take for content.
#[tokio::test(flavor = "multi_thread")]
async fn what_is_no_request_gets_an_empty_answer() {
    let served = serve(|_| {}).await;
    let bomb = format!(
        "GET / HTTP/1.1\r\nHost: localhost\r\nX: {}\r\n\r\n",
        "x".repeat(100_000)
    );
    for (bytes, status) in [
        ("GET / HTTP/1.1\r\nno header\r\n\r\n", 400),
        ("<script>alert(1)</script>\r\n\r\n", 400),
        (
            "GET / HTTP/1.1\r\nHost: localhost\r\nContent-Length: x\r\n\r\n",
            400,
        ),
        (
            "GET / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n",
            400,
        ),
        (&bomb, 431),
    ] {
        // Read to its end: the connection is closed.
        let reply = served.send(bytes.as_bytes()).await;
        assert_eq!(reply.status, status, "{bytes:.40}");
        assert_eq!(
            (reply.body.as_str(), reply.header("content-length")),
            ("", Some("0"))
        );
        assert_eq!(reply.header("content-type"), None);
    }
    assert_eq!(served.get("/healthz").await.status, 200);
}

#[tokio::test(flavor = "multi_thread")]
async fn large_bodies_are_refused_told_or_untold() {
    let served = serve(|config| config.limits.body_bytes = 1_000).await;
    let body = format!("{{\"note\":\"{}\"}}", "x".repeat(2_000));
    let reply = served.ask("PUT", RECORD, &[], &body).await;
    assert_eq!(
        (reply.status, reply.header("content-type")),
        (413, Some("application/problem+json"))
    );
    let chunked = format!(
        "PUT {RECORD} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\
         Connection: close\r\n\r\n{:x}\r\n{body}\r\n0\r\n\r\n",
        body.len()
    );
    let reply = served.send(chunked.as_bytes()).await;
    assert_eq!(reply.status, 413, "{}", reply.body);
}

#[tokio::test(flavor = "multi_thread")]
async fn who_asks_too_often_waits() {
    let served = serve(|config| {
        config.limits.requests_per_second = Some(1);
        config.limits.request_burst = 3;
    })
    .await;
    for _ in 0..3 {
        assert_eq!(served.get("/v1/collections").await.status, 200);
    }
    let reply = served.get("/v1/collections").await;
    assert_eq!((reply.status, reply.header("retry-after")), (429, Some("1")));
    assert_eq!(
        served.get("/healthz").await.status,
        200,
        "health is asked whenever"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn too_many_at_once_are_told_to_come_back() {
    let served = serve(|config| {
        config.limits.concurrent_requests = 1;
        config.metrics = MetricsAccess::Open;
    })
    .await;
    let mut slow = served.connect().await;
    let head = format!(
        "PUT {RECORD} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 100\r\n\r\n{{"
    );
    slow.write_all(head.as_bytes()).await.unwrap();
    // Metrics take no place. Whoever asked for a place before could have it when the slow one comes.
    super::support::eventually("it has come, beside the request for metrics", || async {
        served.metric("recto_http_in_flight").await >= 2.0
    })
    .await;
    super::support::eventually("it is being answered", || async {
        served.get("/v1/collections").await.status == 503
    })
    .await;
    let reply = served.get("/v1/collections").await;
    assert_eq!((reply.status, reply.header("retry-after")), (503, Some("1")));
    assert!(
        served
            .metric("recto_http_refused_total{reason=\"concurrency\"}")
            .await
            >= 2.0
    );
    drop(slow);
    super::support::eventually("its place is free", || async {
        served.get("/v1/collections").await.status == 200
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_takes_too_long_is_told_so_and_a_write_that_its_outcome_is_unknown() {
    let served = serve(|config| config.limits.request_time = Duration::from_millis(200)).await;
    let slow = format!(
        "PUT {RECORD} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 100\r\n\r\n{{"
    );
    let reply = served.send(slow.as_bytes()).await;
    assert_eq!(reply.status, 504);
    assert_eq!(reply.json()["type"], "urn:recto:problem:outcome-unknown");
}

#[tokio::test(flavor = "multi_thread")]
async fn more_connections_than_may_be_wait_their_turn() {
    let served = serve(|config| config.limits.connections = 2).await;
    let (one, mut two) = (served.connect().await, served.connect().await);
    let ask = b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n";
    two.write_all(ask).await.unwrap();
    assert_eq!(read_reply(&mut two).await.status, 200);
    let mut three = served.connect().await;
    three.write_all(ask).await.unwrap();
    let early = tokio::time::timeout(Duration::from_millis(200), three.readable()).await;
    assert!(early.is_err(), "there is no place for it yet");
    drop(one);
    assert_eq!(read_reply(&mut three).await.status, 200);
}
