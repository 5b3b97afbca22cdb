//! Tests of `recto attach`, `recto serve` and the web console on a Cassandra table of another
//! program. They follow the steps of a new user.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::thread::sleep;
use std::time::{Duration, Instant};

use crate::support::{Server, recto};
use recto::Environment;
use recto_cassandra::{CassandraConfig, create_keyspace, drop_keyspace};
use recto_testkit::rig::{Cluster, Nodes, unique_keyspace};
use serde_json::{Value as Json, json};

/// Maximum time until a server notices that a cluster has become unreachable or reachable.
const KNOWN: Duration = Duration::from_secs(90);

const CARRIERS: [&str; 3] = ["AA", "B6", "UA"];

/// Keyspace of another program, which contains a table of flights.
struct Keyspace {
    address: String,
    name: String,
}

impl Keyspace {
    fn config(&self) -> CassandraConfig {
        CassandraConfig::new([self.address.clone()], self.name.clone())
    }

    fn from(&self) -> String {
        format!("cassandra://{}/{}", self.address, self.name)
    }
}

impl Drop for Keyspace {
    fn drop(&mut self) {
        let runtime = tokio::runtime::Runtime::new().unwrap();
        let _ = runtime.block_on(drop_keyspace(self.config(), Environment::system()));
    }
}

/// Returns the flight numbers of a carrier in descending order. Each carrier has every third of 120
/// flights.
fn flights(carrier: &str) -> Vec<i64> {
    let of = |number: &i64| CARRIERS[usize::try_from(number % 3).unwrap()] == carrier;
    (0..120).filter(of).rev().collect()
}

fn keyspace() -> Keyspace {
    let shared = Cluster::shared().expect("tests need a Cassandra");
    keyspace_at(shared.address().to_owned())
}

fn keyspace_at(address: String) -> Keyspace {
    let keyspace = Keyspace {
        address,
        name: unique_keyspace("shop"),
    };
    let runtime = tokio::runtime::Runtime::new().unwrap();
    runtime.block_on(async {
        create_keyspace(keyspace.config(), Environment::system(), None).await.unwrap();
        let cql = recto_cassandra::testing::PlainCql::connect(keyspace.config(), Environment::system()).await.unwrap();
        cql.send(
            "CREATE TABLE flights (carrier text, number int, dest text, PRIMARY KEY (carrier, number)) WITH CLUSTERING ORDER BY \
             (number DESC)",
        )
        .await
        .unwrap();
        for number in 0..120 {
            let carrier = CARRIERS[number % 3];
            let text = format!("INSERT INTO flights (carrier, number, dest) VALUES ('{carrier}', {number}, 'LAX')");
            cql.send(&text).await.unwrap();
        }
    });
    keyspace
}

/// Sends a request to a server. Returns the status and the body of the response.
fn ask(server: &Server, method: &str, path: &str, body: &str) -> (u16, String) {
    let mut stream = TcpStream::connect(server.address()).unwrap();
    let length = body.len();
    let request = format!(
        "{method} {path} HTTP/1.1\r\nHost: {}\r\nConnection: close\r\nContent-Type: application/json\r\nContent-Length: {length}\r\n\r\n{body}",
        server.address()
    );
    stream.write_all(request.as_bytes()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    (head.split(' ').nth(1).unwrap().parse().unwrap(), body.to_owned())
}

fn page(server: &Server, query: &str) -> Json {
    let (status, body) = ask(
        server,
        "GET",
        &format!("/v1/collections/flights/records?{query}"),
        "",
    );
    assert_eq!(status, 200, "{body}");
    let (start, end) = (body.find('{').unwrap(), body.rfind('}').unwrap());
    serde_json::from_str(&body[start..=end]).unwrap()
}

#[test]
fn a_table_that_is_there_is_attached_served_and_paged() {
    let there = keyspace();
    let folder = tempfile::tempdir().unwrap();
    let table = format!("{}.flights", there.name);
    let attach = ["attach", &table, "--from", &there.from(), "--store", "view"];
    let told = recto(folder.path(), &attach).done();
    for part in [
        "is attached: collection flights",
        "fields   carrier text, number int, dest text",
        "order    (carrier), -number",
    ] {
        assert!(told.contains(part), "{part}: {told}");
    }
    let again = recto(folder.path(), &[&attach[..], &["--json"]].concat()).done();
    let again: Json = serde_json::from_str(&again).unwrap();
    assert_eq!((&again["changes"], &again["table"]), (&json!([]), &json!(table)));
    let refused = recto(
        folder.path(),
        &[
            "put",
            "flights",
            "--store",
            "view",
            r#"{"carrier":"AA","number":1}"#,
        ],
    );
    assert!(
        refused.code != 0 && refused.err.contains("flights is read-only"),
        "{}",
        refused.err
    );

    let mut server = Server::start(folder.path(), &["--store", "view"]);
    let filter = "filter=carrier%20%3D%20%22UA%22&page_size=15";
    let (mut found, mut query) = (Vec::new(), filter.to_owned());
    for _ in 0..10 {
        let page = page(&server, &query);
        found.extend(
            page["records"]
                .as_array()
                .unwrap()
                .iter()
                .map(|item| item["number"].as_i64().unwrap()),
        );
        let token = page["next_page_token"].as_str().unwrap();
        if token.is_empty() {
            break;
        }
        query = format!("{filter}&page_token={token}");
        // Restart the server: a page token must be valid in the next process, too.
        server.restart();
    }
    assert_eq!(found, flights("UA"));
    let key = r#"{"dest":"LAX"}"#;
    let (status, body) = ask(&server, "PUT", "/v1/collections/flights/records/AA,3", key);
    assert!((400..500).contains(&status) || status == 501, "{status} {body}");
    assert!(body.contains("flights is read-only"), "{body}");
    let (_, body) = ask(&server, "GET", "/v1/collections/flights", "");
    assert!(
        body.contains(r#""writes":"none""#) && body.contains(&table),
        "{body}"
    );
    let (status, html) = ask(
        &server,
        "GET",
        "/collections/flights?filter=carrier%20%3D%20%22UA%22",
        "",
    );
    assert_eq!(status, 200);
    assert!(
        html.contains("read-only") && !html.contains("Add record"),
        "{html}"
    );
    drop(server);
    // `apply --remove` needs no schema file for an attached table.
    let forget = ["apply", "--remove", "flights", "--yes", "--store", "view"];
    let told = recto(folder.path(), &forget).done();
    assert!(told.contains("stays unchanged"), "{told}");
    let none = recto(folder.path(), &forget);
    assert!(none.code != 0 && none.out.contains("flights"), "{}", none.out);
}

/// Repeats a request until its response has the status `wanted`. Returns the body of the response.
fn ask_until(server: &Server, path: &str, wanted: u16) -> String {
    let begun = Instant::now();
    loop {
        let (status, body) = ask(server, "GET", path, "");
        if status == wanted {
            return body;
        }
        assert!(begun.elapsed() < KNOWN, "{status} {body}");
        sleep(Duration::from_millis(100));
    }
}

/// Repeats a request until its response contains a text. Returns the response.
fn ask_until_told(server: &Server, path: &str, wanted: &str) -> String {
    let begun = Instant::now();
    loop {
        let (status, body) = ask(server, "GET", path, "");
        assert_eq!(status, 200, "{path} {body}");
        if body.contains(wanted) {
            return body;
        }
        assert!(begun.elapsed() < KNOWN, "{path} {body}");
        sleep(Duration::from_millis(100));
    }
}

#[test]
fn serves_own_collections_while_a_cluster_is_down() {
    let dir = tempfile::tempdir().unwrap();
    let cluster = Cluster::start(Nodes::One, dir.path()).unwrap();
    let there = keyspace_at(cluster.addresses()[0].clone());
    let folder = tempfile::tempdir().unwrap();
    let table = format!("{}.flights", there.name);
    recto(
        folder.path(),
        &["attach", &table, "--from", &there.from(), "--store", "view"],
    )
    .done();
    let notes = "[collection.notes]\nfields = { id = \"int\", text = \"text\" }\nkey = [\"id\"]\n";
    std::fs::write(folder.path().join("notes.toml"), notes).unwrap();
    let apply = ["apply", "--schema", "notes.toml", "--store", "view", "--yes"];
    recto(folder.path(), &apply).done();
    recto(folder.path(), &["put", "notes", "--store", "view", r#"{"id":1}"#]).done();

    let mut server = Server::start(folder.path(), &["--store", "view"]);
    let (own, attached) = (
        "/v1/collections/notes/records?filter=id%20%3D%201",
        "/v1/collections/flights/records?filter=carrier%20%3D%20%22UA%22",
    );
    ask_until(&server, attached, 200);
    cluster.node(1).kill().unwrap();
    for is_opened_anew in [false, true] {
        if is_opened_anew {
            server.restart();
        }
        let body = ask_until(&server, attached, 503);
        assert!(body.contains(&there.address), "{body}");
        // Each list shows that the collection is unreachable, and the address of its cluster.
        for path in ["/v1/collections", "/v1/collections/flights", "/v1/schema", "/"] {
            let body = ask_until_told(&server, path, "collection flights is unavailable: ");
            assert!(body.contains(&there.address), "{path} {body}");
            assert!(!body.contains("collection notes is"), "{path} {body}");
        }
        for line in [
            &["describe"][..],
            &["describe", "flights"],
            &["describe", "--json"],
        ] {
            let told = recto(folder.path(), &[line, &["--store", &server.url]].concat()).done();
            assert!(
                told.contains("collection flights is unavailable: ") && told.contains(&there.address),
                "{line:?} {told}"
            );
        }
        for path in [own, "/v1/collections", "/v1/collections/flights", "/", "/readyz"] {
            let (status, body) = ask(&server, "GET", path, "");
            assert_eq!(status, 200, "{path} {body}");
        }
    }
    cluster.node(1).start().unwrap();
    ask_until(&server, attached, 200);
    let (_, listed) = ask(&server, "GET", "/v1/collections", "");
    assert!(!listed.contains("refused"), "{listed}");
}
