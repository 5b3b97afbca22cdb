//! Checks the limits of requests. Each limit has its own status. A request beyond a limit does not
//! affect other clients.

use std::io::Write as _;
use std::time::Duration;

use recto_server::config::MetricsAccess;
use tokio::io::AsyncWriteExt as _;
use tokio::net::TcpStream;

use super::support::{
    Served, begin_export, eventually, put_large_orders, read_reply, serve, serve_with_tokens,
};

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

/// Checks that the response to a filter that is too long for a URL says that a body can have the
/// filter.
#[tokio::test(flavor = "multi_thread")]
async fn accepts_a_filter_too_long_for_a_url_in_a_body() {
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
    // The server must also reject a request with a body from a page of another site.
    let foreign = ["Origin: http://evil.example"];
    assert_eq!(
        served
            .ask("POST", &format!("{list}:query"), &foreign, &body)
            .await
            .status,
        403
    );
}

/// Checks malformed HTTP. The response has no headers of Recto and no body, because hyper writes it
/// before any code of the server runs.
#[tokio::test(flavor = "multi_thread")]
async fn answers_malformed_requests_with_an_empty_body() {
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
        // `send` reads until the connection ends, so it also checks that the server closes the
        // connection.
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
async fn throttles_clients_that_exceed_the_request_rate() {
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

/// Sends a request that stays in flight until its connection closes.
async fn stalled_put(served: &Served) -> TcpStream {
    let mut slow = served.connect().await;
    let head = format!(
        "PUT {RECORD} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 100\r\n\r\n{{"
    );
    slow.write_all(head.as_bytes()).await.unwrap();
    slow
}

#[tokio::test(flavor = "multi_thread")]
async fn too_many_at_once_are_told_to_come_back() {
    let served = serve(|config| {
        config.limits.concurrent_requests = 1;
        config.metrics = MetricsAccess::Open;
    })
    .await;
    let slow = stalled_put(&served).await;
    // Poll the metrics, whose requests are not limited. A request for records could itself reach
    // the limit of one before the slow request does.
    eventually("it has come, beside the request for metrics", || async {
        served.metric("recto_http_in_flight").await >= 2.0
    })
    .await;
    eventually("it is being answered", || async {
        served.get("/v1/collections").await.status == 503
    })
    .await;
    let reply = served.get("/v1/collections").await;
    assert_eq!((reply.status, reply.header("retry-after")), (503, Some("1")));
    assert!(
        served
            .metric("recto_http_rejected_total{reason=\"concurrency\"}")
            .await
            >= 2.0
    );
    drop(slow);
    eventually("its place is free", || async {
        served.get("/v1/collections").await.status == 200
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_body_that_never_comes_is_told_and_changes_nothing() {
    let served = serve(|config| config.limits.request_time = Duration::from_millis(200)).await;
    let query = "/v1/collections/orders/records:query";
    let form = "/collections/orders/new";
    for (method, path, content_type) in [
        ("PUT", RECORD, "application/json"),
        ("POST", query, "application/json"),
        ("POST", form, "application/x-www-form-urlencoded"),
    ] {
        let slow = format!(
            "{method} {path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: {content_type}\r\nContent-Length: 100\r\n\r\n{{"
        );
        let reply = served.send(slow.as_bytes()).await;
        assert_eq!(reply.status, 408, "{path}");
        assert_eq!(reply.json()["type"], "urn:recto:problem:request-timeout");
    }
    assert_eq!(served.get(RECORD).await.json()["note"], "of acme");
}

/// Checks that a busy server answers probes and metrics, under any host name.
#[tokio::test(flavor = "multi_thread")]
async fn answers_probes_and_metrics_while_busy_for_any_host() {
    let served = serve(|config| config.limits.concurrent_requests = 1).await;
    let slow = stalled_put(&served).await;
    // Poll the metrics, whose requests are not limited. A request for records could itself reach
    // the limit of one before the slow request does.
    eventually("it is being answered", || async {
        served.metric("recto_http_in_flight").await > 1.5
    })
    .await;
    assert_eq!(served.get("/v1/collections").await.status, 503);
    let foreign = ["Host: 192.0.2.2:8080"];
    assert_eq!(served.get("/metrics").await.status, 200);
    for path in ["/healthz", "/readyz"] {
        assert_eq!(served.get(path).await.status, 200, "{path}");
        assert_eq!(served.ask("GET", path, &foreign, "").await.status, 200, "{path}");
    }
    assert_eq!(served.ask("GET", "/", &foreign, "").await.status, 421);
    drop(slow);
}

/// Checks that exports and uploads do not count toward the limit of concurrent requests for pages.
#[tokio::test(flavor = "multi_thread")]
async fn exports_and_work_on_the_store_have_places_of_their_own() {
    let served = serve(|config| {
        config.limits.concurrent_requests = 1;
        config.limits.concurrent_streams = 1;
        config.limits.waiting_requests = 1;
        config.metrics = MetricsAccess::Open;
    })
    .await;
    put_large_orders(&served).await;
    let export = begin_export(&served, "none").await;
    let mut load = served.connect().await;
    let head = "POST /v1/store:load?collections=orders&name=a.csv HTTP/1.1\r\nHost: localhost\r\nContent-Length: 9\r\n\r\n";
    load.write_all(head.as_bytes()).await.unwrap();
    eventually("both have their places", || async {
        served.metric("recto_http_admitted{class=\"stream\"}").await > 0.5
            && served.metric("recto_http_admitted{class=\"wait\"}").await > 0.5
    })
    .await;
    assert_eq!(served.get("/v1/collections").await.status, 200);
    for (method, path) in [
        ("GET", "/v1/collections/orders/records:export"),
        ("GET", "/collections/orders/export"),
        ("POST", "/v1/store:check"),
    ] {
        assert_eq!(served.ask(method, path, &[], "").await.status, 503, "{path}");
    }
    assert!(served.metric("recto_http_admission_limit{class=\"page\"}").await > 0.5);
    drop(export);
    drop(load);
    eventually("the places are free", || async {
        served.ask("POST", "/v1/store:check", &[], "").await.status == 200
            && served.metric("recto_http_admitted{class=\"stream\"}").await < 0.5
    })
    .await;
}

/// Checks that one token cannot use up a limit of concurrent requests, neither with requests that
/// do not end nor with exports that it does not read.
#[tokio::test(flavor = "multi_thread")]
async fn a_token_has_its_share_of_places() {
    let (mut served, tokens) = serve_with_tokens(&["*:all", "*:all"]).await;
    let path = served.tokens();
    served = served
        .again(|config| {
            config.tokens = Some(path);
            // A token may use a quarter of each limit: one request.
            config.limits.concurrent_requests = 4;
            config.limits.concurrent_streams = 4;
        })
        .await;
    put_large_orders(&served).await;
    let export = begin_export(&served, &tokens[0]).await;
    eventually("the export is counted", || async {
        let metrics = served.with(&tokens[1], "GET", "/metrics", "").await;
        metrics.body.contains("recto_http_streaming 1\n") && metrics.body.contains("recto_http_in_flight 2\n")
    })
    .await;
    let path = "/v1/collections/orders/records:export?filter=tenant%20%3D%20%22acme%22";
    let refused = served.with(&tokens[0], "GET", path, "").await;
    assert_eq!((refused.status, refused.header("retry-after")), (429, Some("1")));
    for path in ["/metrics", "/v1/collections"] {
        assert_eq!(served.with(&tokens[0], "GET", path, "").await.status, 200);
    }
    assert_eq!(served.with(&tokens[1], "GET", path, "").await.status, 200);
    drop(export);
    eventually("its place is free", || async {
        served.with(&tokens[0], "GET", path, "").await.status == 200
    })
    .await;
}

fn gzip(text: &str) -> Vec<u8> {
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::best());
    encoder.write_all(text.as_bytes()).unwrap();
    encoder.finish().unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn compressed_bodies_are_taken_up_to_the_limit() {
    let served = serve(|config| config.limits.body_bytes = 1_000).await;
    let put = async |headers: &str, body: Vec<u8>| {
        let head = format!(
            "PUT {RECORD} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n{headers}\
             Connection: close\r\n\r\n"
        );
        served.send(&[head.into_bytes(), body].concat()).await
    };
    let coded = |coding: &str, body: &[u8]| {
        format!("Content-Encoding: {coding}\r\nContent-Length: {}\r\n", body.len())
    };
    let body = gzip(r#"{"note":"inflated"}"#);
    assert_eq!(put(&coded("gzip", &body), body.clone()).await.status, 204);
    assert_eq!(served.get(RECORD).await.json()["note"], "inflated");

    let large = gzip(&format!("{{\"note\":\"{}\"}}", "x".repeat(100_000)));
    assert!(large.len() < 1_000);
    assert_eq!(put(&coded("gzip", &large), large.clone()).await.status, 413);
    let reply = put(&coded("br", &body), body.clone()).await;
    assert_eq!(reply.status, 415);
    assert!(
        reply.json()["hint"].as_str().unwrap().contains("gzip"),
        "{}",
        reply.body
    );
    let reply = put(&coded("gzip", b"{}"), b"{}".to_vec()).await;
    assert_eq!(
        (reply.status, reply.json()["type"].as_str()),
        (400, Some("urn:recto:problem:invalid-body"))
    );
    // The server does not decode transfer encodings. It must reject them, because it would use the
    // encoded bytes as the body.
    let reply = put(
        "Transfer-Encoding: gzip, chunked\r\n",
        b"2\r\n{}\r\n0\r\n\r\n".to_vec(),
    )
    .await;
    assert_eq!(reply.status, 501);
    assert_eq!(served.get(RECORD).await.json()["note"], "inflated");
}

/// Checks that errors outside `/v1` have a body in the format that the client accepts.
#[tokio::test(flavor = "multi_thread")]
async fn returns_errors_in_the_format_the_client_accepts() {
    let served = serve(|_| {}).await;
    let html = ["Accept: text/html,application/xhtml+xml;q=0.9,*/*;q=0.8"];
    for (method, path, status) in [
        ("GET", "/nope", 404),
        ("GET", "/docs/", 404),
        ("POST", "/docs", 405),
        ("DELETE", "/collections/orders", 405),
        ("POST", "/healthz", 405),
    ] {
        let reply = served.ask(method, path, &[], "").await;
        assert_eq!(
            (reply.status, reply.header("content-type")),
            (status, Some("application/problem+json")),
            "{method} {path}"
        );
        assert_eq!(reply.header("allow").is_some(), status == 405, "{method} {path}");
    }
    let page = served.ask("GET", "/nope", &html, "").await;
    assert_eq!(page.status, 404);
    assert!(page.header("content-type").unwrap().starts_with("text/html"));
    assert!(page.body.contains("There is nothing at /nope"), "{}", page.body);
}

/// Checks that a form of the console gets a page, even if the request is rejected before its
/// handler.
#[tokio::test(flavor = "multi_thread")]
async fn rejects_forms_with_a_page() {
    let html = ["Accept: text/html,application/xhtml+xml;q=0.9,*/*;q=0.8"];
    let served = serve(|config| config.read_only = true).await;
    for path in [
        "/collections/orders/new",
        "/collections/orders/delete?key=acme&key=1",
        "/queues/mails/send",
    ] {
        let page = served.ask("POST", path, &html, "").await;
        assert_eq!(page.status, 403, "{path}");
        assert_eq!(page.header("content-type"), Some("text/html; charset=utf-8"));
        assert!(page.body.contains("This server is read-only"), "{}", page.body);
        let json = served.ask("POST", path, &[], "").await;
        assert_eq!(json.json()["type"], "urn:recto:problem:read-only");
    }
    let served = serve(|config| config.limits.body_bytes = 10).await;
    let page = served
        .ask("POST", "/collections/orders/new", &html, "value.id=12345")
        .await;
    assert_eq!(page.status, 413);
    assert!(page.body.contains("A limit was exceeded"), "{}", page.body);
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

const HEAD: &str = "POST /v1/collections/orders/records:batchWrite HTTP/1.1\r\nHost: localhost\r\n\
                    Content-Type: application/json\r\n";

/// Checks that a request without a token is rejected before its body is read. The connection is
/// then either usable, or announced as closing.
#[tokio::test(flavor = "multi_thread")]
async fn rejects_before_the_body_without_breaking_the_connection() {
    let (served, _) = serve_with_tokens(&["orders:read"]).await;
    let mut stream = served.connect().await;
    for _ in 0..2 {
        // Send the head before the body, as Python's http.client does.
        stream
            .write_all(format!("{HEAD}Content-Length: 2000\r\n\r\n").as_bytes())
            .await
            .unwrap();
        tokio::time::sleep(Duration::from_millis(50)).await;
        stream.write_all(&[b' '; 2_000]).await.unwrap();
        let reply = read_reply(&mut stream).await;
        assert_eq!((reply.status, reply.header("connection")), (401, None));
    }
    for (headers, what) in [
        ("Content-Length: 2000000\r\n\r\n[", "a large body"),
        ("Content-Length: 2000\r\n\r\n[", "a body that stops"),
        (
            "Content-Length: 2000\r\nExpect: 100-continue\r\n\r\n",
            "a client that waits to be asked for its body",
        ),
    ] {
        // `send` reads until the connection ends, so it also checks that the server closes the
        // connection.
        let reply = served.send(format!("{HEAD}{headers}").as_bytes()).await;
        assert_eq!(
            (reply.status, reply.header("connection")),
            (401, Some("close")),
            "{what}"
        );
    }
}
