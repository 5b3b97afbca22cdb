//! Tests of `recto serve`, `recto token` and `recto config`.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use crate::support::ORDERS;
use recto::queues::QueueOptions;
use recto::{Environment, OpenOptions, Recto};
use serde_json::Value as Json;

/// Folder with a store, in which the binary runs.
struct Place(tempfile::TempDir);

impl Place {
    fn new() -> Self {
        let place = Self(tempfile::tempdir().unwrap());
        std::fs::write(place.0.path().join("recto.toml"), ORDERS).unwrap();
        place.done(&["apply", "--yes"]);
        let records: String = (0..30)
            .map(|id| format!("{{\"tenant\":\"acme\",\"id\":{id},\"note\":\"kept quiet\"}}\n"))
            .collect();
        std::fs::write(place.0.path().join("orders.ndjson"), records).unwrap();
        place.done(&["load", "orders", "orders.ndjson"]);
        place
    }

    fn command(&self, line: &[&str]) -> Command {
        let mut command = crate::support::command(self.0.path());
        command.args(line).stdin(Stdio::null());
        command
    }

    fn run(&self, line: &[&str]) -> Output {
        self.command(line).output().unwrap()
    }

    fn done(&self, line: &[&str]) -> String {
        let output = self.run(line);
        assert!(output.status.success(), "{line:?}: {}", text(&output.stderr));
        text(&output.stdout)
    }

    /// Creates an access token with the given name and grant, and returns its text.
    fn token(&self, name: &str, grant: &str) -> String {
        let made = self.run(&["token", "create", name, "--grant", grant]);
        let token = text(&made.stdout).trim().to_owned();
        assert!(token.starts_with("recto_"), "{token}{}", text(&made.stderr));
        token
    }

    /// Checks that a command fails with the exit code `code`, and that its error contains `said`.
    fn refused(&self, line: &[&str], code: i32, said: &str) {
        let output = self.run(line);
        let err = text(&output.stderr);
        assert_eq!(output.status.code(), Some(code), "{line:?}: {err}");
        assert!(err.contains(said), "{line:?}: {err}");
    }

    fn serve(&self, options: &[&str]) -> Running {
        let mut line = vec!["serve", "--listen", "127.0.0.1:0"];
        line.extend(options);
        let mut child = self
            .command(&line)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut out = BufReader::new(child.stdout.take().unwrap());
        let mut said = String::new();
        out.read_line(&mut said).unwrap();
        let address = said.trim().rsplit("//").next().unwrap().to_owned();
        Running { child, address, said }
    }
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

struct Running {
    child: Child,
    address: String,
    said: String,
}

impl Running {
    fn get(&self, path: &str, headers: &str) -> String {
        let mut stream = TcpStream::connect(&self.address).unwrap();
        let request = format!("GET {path} HTTP/1.1\r\nHost: localhost\r\n{headers}Connection: close\r\n\r\n");
        stream.write_all(request.as_bytes()).unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        answer
    }

    #[cfg(unix)]
    fn signal(&self, name: &str) {
        let id = self.child.id().to_string();
        let sent = Command::new("kill").args(["-s", name, &id]).status().unwrap();
        assert!(sent.success());
    }

    /// Waits until the server has ended. Returns its exit code and its log.
    fn ended(mut self) -> (Option<i32>, String) {
        let mut log = String::new();
        self.child
            .stderr
            .take()
            .unwrap()
            .read_to_string(&mut log)
            .unwrap();
        (self.child.wait().unwrap().code(), log)
    }
}

#[cfg(unix)]
#[test]
fn logs_plans_and_request_ids_but_no_values_or_tokens() {
    let place = Place::new();
    let token = place.token("ada", "*:all");
    let options = [
        "--tokens",
        "tokens.toml",
        "--log-format",
        "json",
        "--log-level",
        "debug",
        "--slow-query-ms",
        "0",
    ];
    let running = place.serve(&options);
    let bearer = format!("Authorization: Bearer {token}\r\nX-Request-Id: find-me\r\n");
    let list = "/v1/collections/orders/records?filter=tenant%20%3D%20%22acme%22&page_size=5";
    let answer = running.get(list, &bearer);
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    let page: Json = serde_json::from_str(answer.split("\r\n\r\n").nth(1).unwrap()).unwrap();
    let cursor = page["next_page_token"].as_str().unwrap();
    running.get(&format!("{list}&page_token={cursor}"), &bearer);
    running.get("/v1/collections/orders/records/acme,7", &bearer);
    running.get(list, "Authorization: Bearer recto_wrong_token\r\n");
    running.get(&format!("{list}&page_token=spoilt{cursor}"), &bearer);
    running.signal("TERM");
    let (code, log) = running.ended();
    assert_eq!(code, Some(0), "{log}");

    for secret in [
        "acme",
        "kept quiet",
        cursor,
        &token,
        &token[25..],
        "wrong_token",
        "tenant%20",
    ] {
        assert!(!log.contains(secret), "{secret} is in the log:\n{log}");
    }
    let lines: Vec<Json> = log
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    let slow = lines.iter().find(|line| line["message"] == "slow query").unwrap();
    assert_eq!(slow["request_id"], "find-me");
    assert_eq!(slow["bearer"], "ada");
    assert_eq!(
        (&slow["shape"], &slow["sort_order"]),
        (&"scan".into(), &"(tenant), id".into())
    );
    assert_eq!(
        (&slow["rows_read"], &slow["rows_returned"]),
        (&6.into(), &5.into())
    );
    let asked: Vec<&Json> = lines.iter().filter(|line| line["message"] == "asked").collect();
    // The log has the two successful queries, but not the query with a damaged page token.
    assert_eq!(asked.len(), 2);
    for line in asked {
        assert_eq!(
            (&line["filter"], &line["order_by"]),
            (&"tenant = ?".into(), &"".into())
        );
        assert_eq!(
            (&line["collection"], &line["is_served"]),
            (&"orders".into(), &true.into())
        );
    }
    assert!(
        lines
            .iter()
            .any(|line| line["route"] == "/v1/collections/{collection}/records/{key}")
    );
    assert!(lines.iter().any(|line| line["status"] == 401));
    let denied = lines
        .iter()
        .find(|line| line["message"] == "a token was refused")
        .unwrap();
    assert_eq!(
        (&denied["level"], &denied["reason"]),
        (&"WARN".into(), &"unknown".into())
    );
    for line in [slow, denied] {
        assert_eq!(line["client"], "127.0.0.1", "{line}");
    }
}

/// Checks that `recto design` proposes views from a server's log. The log also has queries that no
/// view serves, with the row filter of their token.
#[cfg(unix)]
#[test]
fn designs_views_from_the_log_of_a_server() {
    let place = Place::new();
    let token = place.token("bob", "orders:read where tenant = \"acme\"");
    let options = [
        "--tokens",
        "tokens.toml",
        "--log-format",
        "json",
        "--log-level",
        "debug",
    ];
    let running = place.serve(&options);
    let bearer = format!("Authorization: Bearer {token}\r\n");
    let list = "/v1/collections/orders/records?filter=id%20%3E%207&order_by=note";
    assert!(running.get(list, &bearer).starts_with("HTTP/1.1 4"));
    let list = "/v1/collections/orders/records?filter=note%20%3D%20%22quiet%22&order_by=-id";
    assert!(running.get(list, &bearer).starts_with("HTTP/1.1 4"));
    running.signal("TERM");
    let (_, log) = running.ended();
    assert!(!log.contains("quiet") && !log.contains("acme"), "{log}");
    let line = log.lines().find(|line| line.contains("note = ?")).unwrap();
    let line: Json = serde_json::from_str(line).unwrap();
    assert_eq!(
        (&line["filter"], &line["is_served"]),
        (&"note = ? AND tenant = ?".into(), &false.into())
    );
    std::fs::write(place.0.path().join("server.log"), line.to_string()).unwrap();
    let schema = ORDERS.replace("overwrite", "append");
    std::fs::write(place.0.path().join("append.toml"), schema).unwrap();
    let shown = place.run(&[
        "design",
        "orders",
        "--log",
        "server.log",
        "--schema",
        "append.toml",
    ]);
    let shown = text(&shown.stdout);
    assert!(shown.contains("partition = [\"tenant\", \"note\"]"), "{shown}");
}

#[cfg(unix)]
#[test]
fn a_signal_ends_it_and_a_second_one_at_once() {
    let place = Place::new();
    let running = place.serve(&[]);
    assert!(running.said.contains("on http://127.0.0.1:"), "{}", running.said);
    running.signal("INT");
    assert_eq!(running.ended().0, Some(0));

    // A request whose body never ends delays the shutdown after the first signal. The second signal
    // ends the server anyway.
    let running = place.serve(&[]);
    let mut stream = TcpStream::connect(&running.address).unwrap();
    let request = "PUT /v1/collections/orders/records/acme,1 HTTP/1.1\r\nHost: localhost\r\n\
                   Content-Type: application/json\r\nContent-Length: 100\r\n\r\n{";
    stream.write_all(request.as_bytes()).unwrap();
    let began = Instant::now();
    while !running.get("/metrics", "").contains("recto_http_in_flight 2") {
        assert!(began.elapsed() < Duration::from_secs(20));
    }
    running.signal("TERM");
    while TcpStream::connect(&running.address).is_ok() {
        assert!(began.elapsed() < Duration::from_secs(20));
    }
    running.signal("TERM");
    assert_eq!(running.ended().0, Some(130));
    assert!(began.elapsed() < Duration::from_secs(20));
}

/// Checks an export that a shutdown interrupts. The client sees that it is incomplete, the log
/// names it, and the audit log has its progress.
#[cfg(unix)]
#[test]
fn an_export_that_a_stop_cuts_is_named() {
    const LARGE: usize = 400;
    let place = Place::new();
    // Export more data than all buffers between the server and an idle client hold, so that the
    // export cannot end.
    let note = "n".repeat(64 << 10);
    let records: String = (100..100 + LARGE)
        .map(|id| format!("{{\"tenant\":\"acme\",\"id\":{id},\"note\":\"{note}\"}}\n"))
        .collect();
    std::fs::write(place.0.path().join("large.ndjson"), records).unwrap();
    place.done(&["load", "orders", "large.ndjson", "--quiet"]);
    let options = [
        "--log-format",
        "json",
        "--shutdown-time-ms",
        "200",
        "--audit-log",
        "audit.log",
    ];
    let running = place.serve(&options);
    let mut stream = TcpStream::connect(&running.address).unwrap();
    let request = "GET /v1/collections/orders/records:export HTTP/1.1\r\nHost: localhost\r\nX-Request-Id: cut-me\r\n\r\n";
    stream.write_all(request.as_bytes()).unwrap();
    let mut begun = [0; 1024];
    stream.read_exact(&mut begun).unwrap();
    running.signal("TERM");
    let (code, log) = running.ended();
    assert_eq!(code, Some(1), "{log}");
    assert!(
        log.contains("stopped after 200 ms, before all work had ended: 1 connection"),
        "{log}"
    );
    let mut rest = Vec::new();
    let _ = stream.read_to_end(&mut rest);
    assert!(
        !rest.ends_with(b"0\r\n\r\n"),
        "the answer does not end as if it were whole"
    );
    let lines = log
        .lines()
        .filter_map(|line| serde_json::from_str::<Json>(line).ok());
    let cut: Vec<Json> = lines
        .filter(|line| line["message"] == "an answer was cut: the server stops")
        .collect();
    assert_eq!(cut.len(), 1, "{log}");
    assert_eq!(
        (&cut[0]["request_id"], &cut[0]["route"], &cut[0]["client"]),
        (
            &"cut-me".into(),
            &"/v1/collections/{collection}/records:export".into(),
            &"127.0.0.1".into()
        )
    );
    let audit = std::fs::read_to_string(place.0.path().join("audit.log")).unwrap();
    let told: Json = serde_json::from_str(&audit).unwrap_or_else(|error| panic!("{error}: {audit}"));
    assert_eq!(
        (
            &told["action"],
            &told["outcome"],
            &told["collection"],
            &told["request_id"]
        ),
        (
            &"export".into(),
            &"cut".into(),
            &"orders".into(),
            &"cut-me".into()
        )
    );
    assert!(told["records"].as_u64().unwrap() < LARGE as u64, "{told}");
}

#[cfg(unix)]
#[test]
fn a_refused_command_names_the_address_of_the_server() {
    let place = Place::new();
    let running = place.serve(&[]);
    let output = place.run(&["describe"]);
    let err = text(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{err}");
    let url = format!("http://{}", running.address);
    assert!(err.contains(&format!("--store {url}")), "{err}");
    assert!(
        err.contains(&format!("process {} on", running.child.id())),
        "{err}"
    );
    running.signal("TERM");
    running.ended();
    place.done(&["describe"]);
}

#[cfg(unix)]
#[test]
fn a_read_only_server_rejects_every_change() {
    let place = Place::new();
    let running = place.serve(&["--read-only"]);
    let beside = place.serve(&["--read-only"]);
    assert!(running.said.contains("read-only"), "{}", running.said);
    let url = format!("http://{}", running.address);
    let filter = "tenant = \"acme\"";
    for line in [
        &["page", "orders", "--filter", filter][..],
        &["explain", "orders", "--filter", filter],
        &["scan", "orders"],
        &["check"],
        &["verify"],
        &["describe"],
        &["queue", "list"],
    ] {
        place.done(&[line, &["--store", &url]].concat());
    }
    std::fs::write(place.0.path().join("new.toml"), ORDERS.replace("note", "remark")).unwrap();
    for line in [
        &["put", "orders", r#"{"tenant":"acme","id":99,"note":"n"}"#][..],
        &["delete", "orders", r#"{"tenant":"acme","id":1}"#],
        &["load", "orders", "orders.ndjson"],
        &["apply", "--yes", "--schema", "new.toml"],
        &["compact"],
        &["repair"],
        &["cursor-keys", "rotate"],
        &["queue", "create", "mail"],
    ] {
        let output = place.run(&[line, &["--store", &url]].concat());
        let err = text(&output.stderr);
        assert!(!output.status.success(), "{line:?}");
        assert!(err.contains("without --read-only"), "{line:?}: {err}");
    }
    let described: Json = serde_json::from_str(body(&running.get("/openapi.json", ""))).unwrap();
    let paths = described["paths"].as_object().unwrap();
    assert!(paths.contains_key("/v1/store:check") && !paths.contains_key("/v1/store:apply"));
    let methods: Vec<&String> = paths
        .values()
        .flat_map(|path| path.as_object().unwrap().keys())
        .collect();
    assert!(
        !methods
            .iter()
            .any(|method| ["put", "patch", "delete"].contains(&method.as_str()))
    );
    assert!(
        described["info"]["description"]
            .as_str()
            .unwrap()
            .contains("read-only")
    );
    let console = running.get(
        "/collections/orders?filter=tenant%20%3D%20%22acme%22",
        "Accept: text/html\r\n",
    );
    assert!(
        console.contains("Read-only") && !console.contains("/collections/orders/new"),
        "{console}"
    );
    let mut stream = TcpStream::connect(&running.address).unwrap();
    let request =
        "PUT /v1/queues/mail HTTP/1.1\r\nHost: localhost\r\nContent-Length: 2\r\nConnection: close\r\n\r\n{}";
    stream.write_all(request.as_bytes()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    assert!(answer.starts_with("HTTP/1.1 403"), "{answer}");
    assert!(answer.contains("urn:recto:problem:read-only"), "{answer}");
    // Two servers have the store open for reading, so no process can write to it.
    place.refused(
        &["put", "orders", "{}"],
        1,
        "is open for reading in another process",
    );
    place.done(&["scan", "orders"]);
    for server in [running, beside] {
        server.signal("TERM");
        server.ended();
    }
    assert_eq!(place.done(&["scan", "orders"]).lines().count(), 30);
}

fn body(answer: &str) -> &str {
    answer.split_once("\r\n\r\n").map_or("", |(_, body)| body)
}

#[test]
fn tokens_are_made_listed_and_revoked() {
    let place = Place::new();
    let line = [
        "token",
        "create",
        "acme",
        "--grant",
        "orders:read,export where tenant = \"acme\"",
        "--expires",
        "90d",
        "--json",
    ];
    let made: Json = serde_json::from_str(&place.done(&line)).unwrap();
    let id = made["id"].as_str().unwrap();
    assert!(made["token"].as_str().unwrap().contains(id));
    let lifetime =
        made["expires_at_seconds"].as_i64().unwrap() - made["created_at_seconds"].as_i64().unwrap();
    assert_eq!(lifetime, 90 * 24 * 60 * 60);

    let listed: Json = serde_json::from_str(&place.done(&["token", "list", "--json"])).unwrap();
    assert_eq!(
        listed["tokens"][0]["grants"][0],
        "orders:read,export where tenant = \"acme\""
    );
    assert!(listed["tokens"][0].get("token").is_none());
    let shown = place.done(&["token", "list"]);
    assert!(shown.contains(id) && shown.contains("expires in"), "{shown}");

    place.done(&["token", "revoke", id]);
    place.refused(&["token", "revoke", id], 3, "there is no token");
    let shown = place.done(&["token", "list"]);
    assert!(shown.contains("no tokens"), "{shown}");
}

#[test]
fn grants_that_the_schema_does_not_know_are_refused() {
    let place = Place::new();
    for (grant, code, said) in [
        ("order:read", 3, "did you mean orders?"),
        (
            "orders:read where tennant = \"a\"",
            2,
            "does not match its fields",
        ),
        (
            "orders:read where tennant = \"a\"",
            2,
            "correct the filter after `where`",
        ),
        ("*:read where total = 1", 2, "does not match its fields"),
        (
            "orders:read,write where note = \"a\"",
            2,
            "note, which is not part of the key",
        ),
        (
            "orders:delete where tenant = \"a\" AND note = \"b\"",
            2,
            "(tenant, id)",
        ),
        ("*:all where note = \"a\"", 2, "grant read and export only"),
        ("orders:fly", 2, "is not a right"),
        ("orders", 2, "is not a grant"),
    ] {
        place.refused(&["token", "create", "x", "--grant", grant], code, said);
    }
    assert!(
        !place.0.path().join("tokens.toml").exists(),
        "nothing half-done is left"
    );
    place.refused(&["token", "list"], 3, "recto token create");
    for (grant, is_warned_of) in [
        ("orders:read,export where note = \"a\"", true),
        ("orders:all where tenant = \"a\" AND id > 5", false),
    ] {
        let made = place.run(&["token", "create", "x", "--grant", grant]);
        assert!(made.status.success());
        let said = text(&made.stderr);
        assert_eq!(
            said.contains("Lists need allow_filter_scan=true"),
            is_warned_of,
            "{said}"
        );
    }
}

#[test]
fn shows_setting_sources_and_rejects_invalid_settings() {
    let place = Place::new();
    place.done(&["token", "create", "ada", "--grant", "*:all"]);
    let file = "store = \"recto.data\"\n[serve]\nlisten = \"127.0.0.1:9001\"\nidle_time_ms = 5000\n";
    std::fs::write(place.0.path().join("server.toml"), file).unwrap();
    let output = place
        .command(&[
            "config",
            "check",
            "--config",
            "server.toml",
            "--json",
            "--behind-proxy",
            "--tokens",
            "tokens.toml",
        ])
        .env("RECTO_SERVE_LISTEN", "127.0.0.1:9002")
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", text(&output.stderr));
    let shown: Json = serde_json::from_slice(&output.stdout).unwrap();
    let settings = &shown["settings"];
    assert_eq!(settings["listen"]["value"], "127.0.0.1:9002");
    assert_eq!(settings["listen"]["origin"], "environment");
    assert_eq!(settings["idle_time_ms"]["origin"], "file");
    assert_eq!(
        (
            &settings["behind_proxy"]["value"],
            &settings["behind_proxy"]["origin"]
        ),
        (&"true".into(), &"flag".into())
    );
    assert_eq!(settings["max_body_bytes"]["origin"], "default");
    assert_eq!(shown["store"], "recto.data");

    place.refused(
        &["config", "check", "--listen", "0.0.0.0:80"],
        2,
        "recto token create",
    );
    place.refused(
        &["serve", "--listen", "0.0.0.0:80"],
        2,
        "the server has no tokens",
    );
    place.refused(&["serve", "--behind-proxy"], 2, "recto token create NAME --grant");
    place.refused(
        &["serve", "--audit-log", "nowhere/audit.log"],
        1,
        "the audit log nowhere/audit.log cannot be opened",
    );
    place.refused(
        &["serve", "--tokens", "absent.toml"],
        3,
        "cannot read absent.toml",
    );
    std::fs::write(place.0.path().join("server.toml"), "[serve]\nlistn = \"x\"\n").unwrap();
    place.refused(&["serve", "--config", "server.toml"], 2, "did you mean listen?");
    place.refused(&["serve", "--listen", "nowhere"], 2, "must be an IP address");
}

/// Checks a server whose store is damaged while it runs. Requests return errors, and the server
/// keeps running. Its periodic check reports the damage in metrics and log. Readiness fails if the
/// configuration says so.
#[test]
fn keeps_serving_a_damaged_store_and_reports_it() {
    let place = Place::new();
    let records: String = (0..2_000)
        .map(|id| format!("{{\"tenant\":\"acme\",\"id\":{id},\"note\":\"kept quiet\"}}\n"))
        .collect();
    std::fs::write(place.0.path().join("more.ndjson"), records).unwrap();
    place.done(&["load", "orders", "more.ndjson"]);
    let path = place.0.path().join("recto.data/data.redb");
    let mut data = std::fs::read(&path).unwrap();
    for at in 0..data.len() - 10 {
        if data[at..].starts_with(b"kept quiet") {
            data[at] ^= 1;
        }
    }
    std::fs::write(&path, data).unwrap();
    let options = [
        "--scrub-fails-ready",
        "--scrub-mib-per-second",
        "1000",
        "--metrics",
        "open",
    ];
    let mut running = place.serve(&options);
    let until = Instant::now() + Duration::from_secs(20);
    while !running.get("/readyz", "").starts_with("HTTP/1.1 503") {
        assert!(Instant::now() < until, "the scrub finds the damage");
        std::thread::sleep(Duration::from_millis(20));
    }
    let server = format!("http://{}", running.address);
    let record = r#"{"tenant":"acme","id":5000,"note":"new"}"#;
    let put = place.run(&["put", "orders", record, "--store", &server]);
    let err = text(&put.stderr);
    assert!(put.status.success() || err.contains("damaged"), "{err}");
    let page = running.get(
        "/v1/collections/orders/records?filter=tenant%20%3D%20%22acme%22",
        "",
    );
    assert!(page.starts_with("HTTP/1.1 500"), "{page}");
    assert!(running.get("/healthz", "").starts_with("HTTP/1.1 200"));
    let metrics = running.get("/metrics", "");
    let value = |name: &str| {
        let line = metrics
            .lines()
            .find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
        line.unwrap().parse::<u64>().unwrap()
    };
    assert!(value("recto_scrub_problems") > 0, "{metrics}");
    assert!(value("recto_scrub_bytes_total") > 0, "{metrics}");
    running.child.kill().unwrap();
    let (_, log) = running.ended();
    assert!(log.contains("the store is damaged"), "{log}");
}

/// Checks that a wrong clock causes only one warning in the log, although the server checks the
/// clock repeatedly.
#[test]
fn the_log_warns_once_of_a_wrong_clock() {
    let place = Place(tempfile::tempdir().unwrap());
    let ten_days_ago = Environment::system().now_micros() - 10 * 86_400_000_000;
    let runtime = tokio::runtime::Runtime::new().unwrap();
    runtime.block_on(async {
        let environment = Environment::seeded(1, ten_days_ago);
        let options = OpenOptions::new().create().environment(environment);
        let folder = place.0.path().join("recto.data");
        let recto = Recto::open_with(folder, options).await.unwrap();
        let options = QueueOptions {
            retention_seconds: Some(3_600),
            ..QueueOptions::default()
        };
        let queues = recto.queues().await.unwrap();
        queues.create("jobs", options).await.unwrap();
        recto.close().await.unwrap();
    });
    let mut running = place.serve(&[]);
    std::thread::sleep(Duration::from_secs(12));
    let ready = running.get("/readyz", "");
    assert!(ready.starts_with("HTTP/1.1 200"), "{ready}");
    assert!(ready.contains("10 days ahead"), "{ready}");
    running.child.kill().unwrap();
    let (_, log) = running.ended();
    let warnings: Vec<&str> = log
        .lines()
        .filter(|line| line.contains("10 days ahead"))
        .collect();
    assert_eq!(warnings.len(), 1, "{log}");
    assert!(
        warnings[0].contains("WARN") && warnings[0].contains("confirm-clock"),
        "{log}"
    );
}

#[test]
fn settings_and_a_store_stand_in_one_file() {
    let place = Place::new();
    std::fs::rename(place.0.path().join("recto.data"), place.0.path().join("shop")).unwrap();
    std::fs::write(
        place.0.path().join("server.toml"),
        "store = \"shop\"\n[serve]\nlog_level = \"error\"\n",
    )
    .unwrap();
    let mut running = place.serve(&["--config", "server.toml"]);
    assert!(running.said.starts_with("serving shop on "), "{}", running.said);
    running.child.kill().unwrap();
    running.child.wait().unwrap();
}
