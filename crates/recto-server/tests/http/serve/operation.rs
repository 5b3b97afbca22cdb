//! Checks what a server reports about itself: health, readiness, metrics, and the audit log.

use std::time::Duration;

use recto::queues::QueueOptions;
use recto::schema::Schema;
use recto::session::Records as _;
use recto::{Environment, LocalSession, OpenOptions, Recto, StoreAddress};
use recto_server::auth::TokenFile;
use recto_server::config::MetricsAccess;
use serde_json::{Value as Json, json};

use super::support::{ORDERS, SCHEMA, eventually, serve, serve_store, serve_with_tokens};

#[tokio::test(flavor = "multi_thread")]
async fn metrics_say_what_was_done_and_hold_no_values() {
    let served = serve(|config| config.slow_query = Duration::ZERO).await;
    let path = "/v1/collections/orders/records?filter=tenant%20%3D%20%22acme%22&page_size=4";
    for _ in 0..3 {
        assert_eq!(served.get(path).await.status, 200);
    }
    assert_eq!(served.get("/v1/collections/absent/records").await.status, 404);
    let reply = served.get("/metrics").await;
    assert_eq!(
        reply.header("content-type"),
        Some("text/plain; version=0.0.4; charset=utf-8")
    );
    let route = "route=\"/v1/collections/{collection}/records\",method=\"GET\"";
    for line in [
        format!("recto_http_request_seconds_count{{{route},status=\"200\"}} 3"),
        format!("recto_http_request_seconds_count{{{route},status=\"404\"}} 1"),
        "recto_page_seconds_count{shape=\"scan\"} 3".into(),
        "recto_page_rows_returned_total{shape=\"scan\"} 12".into(),
        "recto_page_rows_scanned_total{shape=\"scan\"} 15".into(),
        "recto_slow_pages_total 3".into(),
        "recto_http_in_flight 1".into(),
    ] {
        assert!(
            reply.body.lines().any(|one| one == line),
            "{line}\n{}",
            reply.body
        );
    }
    assert!(!reply.body.contains("acme") && !reply.body.contains("absent"));
}

/// Checks that metrics and the API show the commit log of an embedded store.
#[tokio::test(flavor = "multi_thread")]
async fn commit_log_is_in_metrics_and_api() {
    let served = serve(|config| config.metrics = MetricsAccess::Open).await;
    let record = json!({ "tenant": "acme", "id": 5_000 });
    let record = record.as_object().unwrap();
    eventually("the store writes a record of its log", || async {
        let put = served.session.put("orders", vec![record.clone()], None);
        put.await.unwrap();
        served.metric("recto_log_records_total").await > 0.0
    })
    .await;
    for name in [
        "recto_log_file_bytes",
        "recto_log_checkpoints_total",
        "recto_log_last_checkpoint_timestamp_seconds",
    ] {
        assert!(served.metric(name).await > 0.0, "{name}");
    }
    let text = served.get("/metrics").await.body;
    for name in [
        "recto_log_record_bytes",
        "recto_log_replayed_records_total",
        "recto_log_incomplete_records_total",
    ] {
        assert!(text.contains(&format!("\n{name} ")), "{name}\n{text}");
    }
    let reply = served.get("/v1/store:commitLog").await;
    assert_eq!(reply.status, 200, "{}", reply.body);
    assert!(reply.json()["file_bytes"].as_u64() > Some(0), "{}", reply.body);
}

/// Checks that metrics count changes that conflict with a unique value, and seeks of a list that
/// intersects two views.
#[tokio::test(flavor = "multi_thread")]
async fn conflicts_and_seeks_are_counted() {
    let folder = tempfile::tempdir().unwrap();
    let address: StoreAddress = folder.path().join("store").to_str().unwrap().parse().unwrap();
    let recto = Recto::open_with(&address, OpenOptions::new().create())
        .await
        .unwrap();
    let schema = r#"
[collection.people]
fields = { id = "int", email = "text", team = "text", city = "text" }
key = ["id"]
unique = ["email"]

[collection.people.view.by_team]
partition = ["team"]

[collection.people.view.by_city]
partition = ["city"]
"#;
    recto.apply(&Schema::parse(schema).unwrap()).await.unwrap();
    let served = serve_store(LocalSession::new(recto), folder, |_| {}).await;
    let person = r#"{"email":"ada@example.org","team":"a","city":"b"}"#;
    for (id, status) in [(1, 204), (2, 409)] {
        let path = format!("/v1/collections/people/records/{id}");
        assert_eq!(served.ask("PUT", &path, &[], person).await.status, status);
    }
    assert!((served.metric("recto_unique_conflicts_total").await - 1.0).abs() < 0.1);
    let list = "/v1/collections/people/records?filter=team%20%3D%20%22a%22%20AND%20city%20%3D%20%22b%22";
    assert_eq!(served.get(list).await.status, 200);
    assert!(served.metric("recto_page_seeks_total{shape=\"intersect\"}").await > 1.5);
}

/// Checks that the console proposes views for queries of all clients, and shows the queries without
/// their values.
#[tokio::test(flavor = "multi_thread")]
async fn proposes_views_for_earlier_queries() {
    let served = serve(|_| {}).await;
    let design = "/collections/orders/design";
    assert!(
        served
            .get(design)
            .await
            .body
            .contains("This server has received no queries")
    );
    let records = "/v1/collections/orders/records?filter=";
    for _ in 0..3 {
        assert_eq!(
            served
                .get(&format!("{records}tenant%20%3D%20%22acme%22"))
                .await
                .status,
            200
        );
    }
    let unserved = format!("{records}total%20%3D%204.5&order_by=note");
    assert_eq!(served.get(&unserved).await.status, 400);
    assert_eq!(served.get(&format!("{records}shoe%20%3D%203")).await.status, 400);
    let page = served.get(design).await;
    // A collection whose records are overwritten can have views by their key only. The page lists
    // the queries that no such view can serve.
    assert_eq!(page.status, 200);
    let (served_now, rest) = page
        .body
        .split_once("Received queries that no view can serve")
        .expect(&page.body);
    assert!(
        served_now.contains("<td><code>tenant = ?</code></td>"),
        "{served_now}"
    );
    for shown in [
        "<td><code>total = ?</code></td>",
        "no view can serve it",
        "filter = &quot;tenant = ?&quot;",
        "per_day = 3",
    ] {
        assert!(rest.contains(shown), "{shown}\n{rest}");
    }
    assert!(!rest.contains("filter = &quot;total"), "{rest}");
    assert!(!page.body.contains("acme") && !page.body.contains("shoe"));
}

#[tokio::test(flavor = "multi_thread")]
async fn metrics_are_for_who_sees_everything() {
    let grants = [
        "*:read",
        "*:read; orders:read where tenant = \"acme\"",
        "orders:read",
    ];
    let (served, tokens) = serve_with_tokens(&grants).await;
    for (token, status) in tokens.iter().zip([200, 403, 403]) {
        assert_eq!(served.with(token, "GET", "/metrics", "").await.status, status);
        // The status must not depend on the host name in the request.
        let headers = [&*format!("Authorization: Bearer {token}"), "Host: 192.0.2.2:8080"];
        assert_eq!(served.ask("GET", "/metrics", &headers, "").await.status, status);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn health_and_readiness() {
    let served = serve(|_| {}).await;
    assert_eq!(served.get("/healthz").await.body, "ok\n");
    assert_eq!(served.get("/readyz").await.body, "ready\n");
    assert_eq!(served.ask("POST", "/healthz", &[], "").await.status, 405);
}

/// Checks that a server with one unavailable collection serves the others, and reports the
/// unavailable one.
#[tokio::test(flavor = "multi_thread")]
async fn unavailable_collections_are_seen() {
    let folder = tempfile::tempdir().unwrap();
    let address: StoreAddress = folder.path().join("store").to_str().unwrap().parse().unwrap();
    let open = || Recto::open_with(&address, OpenOptions::new().create());
    let recto = open().await.unwrap();
    let schema = Schema::parse(SCHEMA).unwrap();
    recto.apply(&schema).await.unwrap();
    recto.store().drop_table("secrets").await.unwrap();
    recto.close().await.unwrap();
    let recto = open().await.unwrap();
    let session = LocalSession::new(recto.clone());
    let served = serve_store(session, folder, |_| {}).await;
    let ready = served.get("/readyz").await;
    assert_eq!(
        (ready.status, &*ready.body),
        (
            200,
            "ready\ncollections unavailable: 1 (the log says which, and why)\n"
        )
    );
    assert!(served.metric("recto_collections_unavailable").await > 0.5);
    let path = "/v1/collections/orders/records?filter=tenant%20%3D%20%22acme%22";
    assert_eq!(served.get(path).await.status, 200);
    recto.apply(&schema).await.unwrap();
    assert_eq!(served.get("/readyz").await.body, "ready\n");
    assert!(served.metric("recto_collections_unavailable").await < 0.5);
}

/// Checks a server whose clock is a year ahead of the time recorded in its store. It serves
/// requests, and reports in several places that nothing expires.
#[tokio::test(flavor = "multi_thread")]
async fn a_wrong_clock_is_seen() {
    const DAY_MICROS: i64 = 86_400_000_000;
    let folder = tempfile::tempdir().unwrap();
    let address: StoreAddress = folder.path().join("store").to_str().unwrap().parse().unwrap();
    let open = |days: i64| {
        // Add ten seconds for each day. Each reading of the earlier seeded clock advanced it, and
        // the new clock must be later.
        let environment = Environment::seeded(1, (20_000 + days) * DAY_MICROS + days * 10_000_000);
        Recto::open_with(&address, OpenOptions::new().create().environment(environment))
    };
    let recto = open(0).await.unwrap();
    let options = QueueOptions {
        retention_seconds: Some(3_600),
        ..QueueOptions::default()
    };
    recto
        .queues()
        .await
        .unwrap()
        .create("jobs", options)
        .await
        .unwrap();
    recto.close().await.unwrap();
    let recto = open(365).await.unwrap();
    let served = serve_store(LocalSession::new(recto.clone()), folder, |_| {}).await;
    let warning = "the clock of this machine is 365 days ahead of the time that the store recorded: queues \
                   and collections that keep data for less than 3650 days delete no old data";
    let ready = format!("ready\n{warning}\n");
    eventually("/readyz warns", || async {
        served.get("/readyz").await.body == ready
    })
    .await;
    assert_eq!(served.get("/readyz").await.status, 200);
    let skew_days = served.metric("recto_clock_skew_seconds").await / 86_400.0;
    assert!((skew_days - 365.0).abs() < 0.1, "{skew_days}");
    let health = served.get("/health").await.body;
    assert!(
        health.contains(warning) && health.contains("confirm-clock"),
        "{health}"
    );
    recto.confirm_clock().await.unwrap();
    assert_eq!(served.get("/readyz").await.body, "ready\n");
    assert!(served.metric("recto_clock_skew_seconds").await < 1.0);
    assert!(!served.get("/health").await.body.contains("Warning"));
}

#[tokio::test(flavor = "multi_thread")]
async fn request_ids_come_back_if_they_are_plain() {
    let served = serve(|_| {}).await;
    let given = served
        .ask("GET", "/healthz", &["X-Request-Id: abc-1.2"], "")
        .await;
    assert_eq!(given.header("x-request-id"), Some("abc-1.2"));
    for forged in ["a b", "\"}", &"x".repeat(100)] {
        let reply = served
            .ask("GET", "/healthz", &[&format!("X-Request-Id: {forged}")], "")
            .await;
        assert_ne!(reply.header("x-request-id"), Some(forged));
    }
    let (one, other) = (served.get("/healthz").await, served.get("/healthz").await);
    assert_ne!(one.header("x-request-id"), other.header("x-request-id"));
}

/// Checks that the audit log has the token and the operation of each change, but no content of
/// records.
#[tokio::test(flavor = "multi_thread")]
async fn changes_stand_in_the_audit_log() {
    let (served, tokens) = serve_with_tokens(&["*:all", "orders:read"]).await;
    let path = served.folder.path().join("audit.log");
    let (log, tokens_path) = (path.clone(), served.tokens());
    let served = served
        .again(|config| {
            config.tokens = Some(tokens_path);
            config.audit_log = Some(log);
        })
        .await;
    let record = "/v1/collections/orders/records/acme,1";
    let batch = r#"{"changes":[{"put":{"tenant":"acme","id":7,"note":"kept quiet"}},{"delete":["acme",2]}]}"#;
    let batch_write = "/v1/collections/orders/records:batchWrite";
    for (token, method, path, body) in [
        (0, "PUT", record, r#"{"note":"kept quiet"}"#),
        (0, "POST", batch_write, batch),
        (1, "DELETE", record, ""),
        (0, "GET", record, ""),
        (0, "GET", "/v1/collections/orders/records:export", ""),
    ] {
        served.with(&tokens[token], method, path, body).await;
    }
    let id = TokenFile::read(&served.tokens()).unwrap().tokens[1].id.clone();
    TokenFile::revoke(&served.tokens(), &id).unwrap();
    eventually("the revocation is seen", || async {
        std::fs::read_to_string(&path).unwrap().contains("token revoked")
    })
    .await;
    let text = std::fs::read_to_string(&path).unwrap();
    for secret in ["acme", "kept quiet", &tokens[0], &tokens[1]] {
        assert!(!text.contains(secret), "{secret} is in {text}");
    }
    let lines: Vec<Json> = text
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    let told: Vec<(&str, &str)> = lines
        .iter()
        .map(|line| {
            (
                line["action"].as_str().unwrap(),
                line["outcome"].as_str().unwrap(),
            )
        })
        .collect();
    assert_eq!(
        told,
        [
            ("write", "done"),
            ("write", "done"),
            ("request", "refused"),
            ("export", "done"),
            ("token revoked", "seen"),
        ],
        "{text}"
    );
    assert_eq!(
        lines[1]["collections"]["orders"],
        json!({ "puts": 1, "deletes": 1 })
    );
    assert_eq!(lines[3]["records"], 2 * ORDERS - 1);
    for line in &lines[..4] {
        assert_eq!(
            (&line["client"], &line["name"]),
            (&"127.0.0.1".into(), &"tester".into()),
            "{line}"
        );
        assert!(
            line["token"].is_string() && line["request_id"].is_string(),
            "{line}"
        );
    }
    assert_eq!(lines[4]["token"], id);
}
