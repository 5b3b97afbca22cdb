//! Checks maintenance requests: their rights and limits, one operation of a kind at a time, and the
//! effect of a shutdown.

use std::sync::Mutex;
use std::time::Duration;

use recto::Session as _;
use recto::session::Pages as _;
use recto_server::ServeError;
use serde_json::Value as Json;
use tokio::io::AsyncWriteExt as _;

use super::support::{ORDERS, Served, read_to_end, serve, serve_with_tokens};

const LOAD: &str = "/v1/store:load?collections=orders&name=orders.csv";
const FILE: &str = "tenant,id,note\nacme,100,sent\nacme,ten,sent\n";

/// Returns the last line of a response that is chunked NDJSON.
fn last_line(body: &str) -> Json {
    let mut lines = body.lines().filter(|line| line.starts_with('{'));
    serde_json::from_str(lines.next_back().unwrap_or_else(|| panic!("no lines: {body:?}"))).unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn the_store_is_looked_after_with_grants_of_its_own() {
    let grants = [
        "*:all",
        "@store:check",
        "*:read; @store:load",
        "orders:write; @store:load",
        "*:read; @store:apply",
    ];
    let (served, tokens) = serve_with_tokens(&grants).await;
    let [all, checks, reads, loads, applies] = &tokens[..] else {
        panic!("{tokens:?}");
    };
    let post = async |token: &str, path: &str, body: &str| served.with(token, "POST", path, body).await;
    for path in ["backup", "compact", "check", "plan", "apply", "rotateCursorKeys"] {
        let reply = post(all, &format!("/v1/store:{path}"), "{}").await;
        assert_eq!(reply.status, 403, "{path}: {}", reply.body);
    }
    assert_eq!(
        served.with(all, "GET", "/v1/store:cursorKeys", "").await.status,
        403
    );
    assert_eq!(post(all, LOAD, FILE).await.status, 403);
    let checked = post(checks, "/v1/store:check", "").await;
    assert_eq!(
        last_line(&checked.body)["result"]["problems"],
        serde_json::json!([])
    );
    for (token, status) in [(all, 403), (checks, 200)] {
        let reply = served.with(token, "GET", "/v1/store:commitLog", "").await;
        assert_eq!(reply.status, status, "{}", reply.body);
    }
    assert_eq!(post(checks, "/v1/store:compact", "").await.status, 403);
    // A load also needs the right to write to the collection.
    assert_eq!(post(checks, LOAD, FILE).await.status, 403);
    assert_eq!(post(reads, LOAD, FILE).await.status, 403);
    let unseen = LOAD.replace("=orders&", "=secrets&");
    assert_eq!(post(loads, &unseen, FILE).await.status, 404);
    let loaded = post(loads, LOAD, FILE).await;
    let result = &last_line(&loaded.body)["result"];
    assert_eq!(result["collections"][0]["rows_stored"], 1, "{}", loaded.body);
    assert!(loaded.body.contains("{\"rejects\":\""), "{}", loaded.body);
    let schema = served.session.schema().await.unwrap().to_toml();
    let body = serde_json::json!({ "toml": schema }).to_string();
    let planned = post(applies, "/v1/store:plan", &body).await;
    assert_eq!(planned.json()["changes"], serde_json::json!([]));
    // The API description has only the operations that the token permits.
    let described = served.with(checks, "GET", "/openapi.json", "").await.body;
    assert!(described.contains("check_store") && !described.contains("compact_store"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_taken_name_of_a_backup_is_a_conflict() {
    let folder = tempfile::tempdir().unwrap();
    let backups = folder.path().to_owned();
    let served = serve(|config| config.backup_folder = Some(backups)).await;
    let backup = async || {
        let body = "{\"name\":\"nightly\"}";
        served.ask("POST", "/v1/store:backup", &[], body).await
    };
    let first = backup().await;
    assert!(last_line(&first.body)["result"].is_object(), "{}", first.body);
    let second = backup().await;
    let problem = second.json();
    assert_eq!(second.status, 409, "{problem}");
    assert_eq!(problem["type"], "urn:recto:problem:backup-exists");
    assert_eq!(problem["detail"], "backup nightly exists already");
    assert!(
        !second.body.contains(folder.path().to_str().unwrap()),
        "{problem}"
    );
    // The rejection does not count as an error of the store.
    let metrics = served.get("/metrics").await.body;
    let mut errors = metrics
        .lines()
        .filter(|line| line.starts_with("recto_store_errors_total"));
    assert!(errors.all(|line| line.ends_with(" 0")), "{metrics}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_unique_constraint_is_dropped_by_name_only() {
    let served = serve(|_| {}).await;
    let users = "[collection.users]\nfields = { id = \"int\", email = \"text\" }\nkey = [\"id\"]\n";
    let asked =
        |toml: &str, remove: &[&str]| serde_json::json!({ "toml": toml, "remove": remove }).to_string();
    let post = async |path: &str, body: &str| served.ask("POST", path, &[], body).await;
    let unique = format!("{users}unique = [\"email\"]\n");
    let applied = post("/v1/store:apply", &asked(&unique, &[])).await;
    assert_eq!(applied.status, 200, "{}", applied.body);
    let planned = post("/v1/store:plan", &asked(users, &[])).await.json();
    assert_eq!(planned["changes"], serde_json::json!([]));
    let kept = planned["kept"].as_array().unwrap();
    assert!(
        kept.contains(&"unique (email) of collection users".into()),
        "{planned}"
    );
    let applied = post("/v1/store:apply", &asked(users, &["users.unique.email"])).await;
    let result = &last_line(&applied.body)["result"];
    assert_eq!(
        result["changes"][0], "collection users: unique (email) removed",
        "{}",
        applied.body
    );
}

/// Sends the headers of a load, and the first bytes of its file.
async fn half_a_load(served: &Served) -> tokio::net::TcpStream {
    let mut stream = served.connect().await;
    let head = format!(
        "POST {LOAD} HTTP/1.1\r\nHost: localhost:{}\r\nContent-Length: 60\r\n\r\ntenant,",
        served.address.port()
    );
    stream.write_all(head.as_bytes()).await.unwrap();
    stream
}

#[tokio::test(flavor = "multi_thread")]
async fn runs_one_load_at_a_time_and_names_it_on_shutdown() {
    let mut served = serve(|config| {
        config.limits.shutdown_time = Duration::from_millis(200);
        config.limits.concurrent_requests = 1;
    })
    .await;
    let waiting: Mutex<Vec<tokio::net::TcpStream>> = Mutex::default();
    super::support::eventually("a load holds its place", async || {
        // Start another upload in each attempt. The server rejects it while the complete upload of
        // the previous attempt is still being handled.
        let half = half_a_load(&served).await;
        waiting.lock().unwrap().push(half);
        let reply = served.ask("POST", LOAD, &[], FILE).await;
        reply.status == 409 && reply.body.contains("anyone is already running a load")
    })
    .await;
    // An upload counts toward no limit of other requests, and does not prevent other maintenance.
    assert_eq!(served.get("/v1/collections").await.status, 200);
    assert_eq!(served.ask("POST", "/v1/store:check", &[], "").await.status, 200);
    served.tell();
    let error = served.ended().await.unwrap_err();
    let ServeError::Unfinished { work, .. } = &error else {
        panic!("{error}");
    };
    assert_eq!(work[..], ["load of anyone"], "{error}");
    drop(waiting);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_file_has_limits_of_its_own() {
    let served = serve(|config| {
        config.limits.body_bytes = 10;
        config.limits.load_bytes = 100;
        config.limits.stall_time = Duration::from_millis(300);
        config.limits.request_time = Duration::from_secs(3_600);
    })
    .await;
    let loaded = served.ask("POST", LOAD, &[], FILE).await;
    assert_eq!(
        last_line(&loaded.body)["result"]["rows_read"],
        2,
        "{}",
        loaded.body
    );
    let large = FILE.repeat(10);
    let refused = served.ask("POST", LOAD, &[], &large).await;
    assert_eq!(refused.status, 413, "{}", refused.body);
    assert!(refused.body.contains("has at most 100 bytes") && refused.body.contains("max_load_bytes"));
    let mut stalled = half_a_load(&served).await;
    let answer = read_to_end(&mut stalled).await;
    assert!(answer.contains("408 Request Timeout"), "{answer}");
    assert!(answer.contains("urn:recto:problem:request-timeout"), "{answer}");
    // Send single bytes at long intervals, which must not extend the time limit of the upload.
    let mut slow = half_a_load(&served).await;
    let (mut reads, mut writes) = slow.split();
    let trickle = async {
        while writes.write_all(b"x").await.is_ok() {
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        std::future::pending::<()>().await;
    };
    let answer = tokio::select! {
        answer = read_to_end(&mut reads) => answer,
        () = trickle => String::new(),
    };
    assert!(answer.contains("408 Request Timeout"), "{answer}");
    for (query, status) in [
        ("name=a.csv", 400),
        ("collections=orders", 400),
        ("collections=orders&name=a.exe", 400),
        ("collections=nowhere&name=a.csv", 404),
        ("collections=orders&name=a.zip", 400),
        ("collections=orders&name=a.csv&x=1", 400),
    ] {
        let reply = served
            .ask("POST", &format!("/v1/store:load?{query}"), &[], FILE)
            .await;
        assert_eq!(reply.status, status, "{query}: {}", reply.body);
        assert!(!reply.body.contains("/loads/"), "{}", reply.body);
    }
    let packed = served.ask("POST", LOAD, &["Content-Encoding: gzip"], FILE).await;
    assert_eq!(packed.status, 415, "{}", packed.body);
    let orders = served
        .session
        .scan("orders", &recto::session::ScanRequest::default());
    let records: usize =
        futures::StreamExt::fold(orders, 0, async |sum, step| sum + step.unwrap().records.len()).await;
    assert_eq!(records, 2 * usize::try_from(ORDERS).unwrap() + 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_load_takes_all_options_of_csv() {
    let served = serve(|_| {}).await;
    let path = |options: &str| format!("{LOAD}&{options}");
    let file =
        "tenant;Order No;note\nacme;900;\"\"\nacme;901;NA\nacme;903;a\\;b\nacme;902;none\nacme;x;\"\"\n";
    let options = "delimiter=%3B&escape=%5C&map=Order%20No=id&null=NA&null=none&blobs=hex&time_format=%25F&time_zone=%2B02:00";
    let loaded = served.ask("POST", &path(options), &[], file).await;
    let result = &last_line(&loaded.body)["result"];
    assert_eq!(result["collections"][0]["rows_stored"], 4, "{}", loaded.body);
    assert_eq!(result["collections"][0]["rows_rejected"], 1, "{}", loaded.body);
    for (id, note) in [(900, Some("")), (901, None), (902, None), (903, Some("a;b"))] {
        let reply = served
            .get(&format!("/v1/collections/orders/records/acme,{id}"))
            .await;
        let record: Json = serde_json::from_str(&reply.body).unwrap();
        assert_eq!(record.get("note").and_then(Json::as_str), note, "{}", reply.body);
    }
    // The same file with the same options is the same load. Other options make another load.
    for (options, already_loaded) in [
        (options.to_owned(), true),
        (options.replace("hex", "base64"), false),
    ] {
        let again = served.ask("POST", &path(&options), &[], file).await;
        assert_eq!(
            last_line(&again.body)["result"]["already_loaded"],
            already_loaded,
            "{}",
            again.body
        );
    }
    for (options, parameter) in [
        ("delimiter=xy", "delimiter"),
        ("escape=%22", "escape"),
        ("map=x", "map"),
        ("blobs=octal", "blobs"),
        ("delimiter=;&delimiter=;", "delimiter"),
        ("time_zone=UTC&time_zone=UTC", "time_zone"),
    ] {
        let refused = served.ask("POST", &path(options), &[], file).await;
        assert_eq!(refused.status, 400, "{options}: {}", refused.body);
        let problem: Json = serde_json::from_str(&refused.body).unwrap();
        assert_eq!(problem["parameter"], parameter, "{options}: {}", refused.body);
    }
}
