//! Tests of several servers on one Cassandra keyspace. Each server accepts page tokens of the
//! others, and notices changes by other processes.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{TcpStream, ToSocketAddrs as _};
use std::path::Path;
use std::process::Stdio;
use std::time::{Duration, Instant};

use crate::support::{ORDERS, Server, command, cutter, recto, recto_with};
use recto_cassandra::{CassandraConfig, drop_keyspace};
use recto_testkit::rig::{Cluster, unique_keyspace};
use serde_json::{Value as Json, json};

/// Schema after a change: orders have an additional field, and there is an additional collection.
const LATER: &str = r#"
[collection.orders]
fields = { tenant = "text", id = "int", note = "text", priority = "int" }
key = ["tenant", "id"]
partition = ["tenant"]
order = ["id"]
writes = "overwrite"

[collection.returns]
fields = { id = "int", reason = "text" }
key = ["id"]
partition = ["id"]
writes = "overwrite"
"#;
const COUNT: usize = 50;
/// Maximum time to apply a schema while servers run. A process that ended without unregistering as
/// a writer would delay it: `apply` would wait until that process counts as dead.
const APPLIED: Duration = Duration::from_secs(25);
/// Maximum time until a server notices a change of another process. A server polls every second.
const SEEN: Duration = Duration::from_secs(5);

const LIST: &str = "/v1/collections/orders/records?filter=tenant%20%3D%20%22acme%22&page_size=7";

/// Cassandra keyspace with orders, and two servers on it. Dropping the value removes the keyspace.
struct Place {
    servers: [Server; 2],
    folder: tempfile::TempDir,
    store: String,
    keyspace: String,
}

impl Place {
    fn new() -> Self {
        let cassandra = Cluster::shared().expect("tests need a Cassandra").address();
        let keyspace = unique_keyspace("recto_servers");
        let store = format!("cassandra://{cassandra}/{keyspace}");
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("recto.toml"), ORDERS).unwrap();
        std::fs::write(folder.path().join("later.toml"), LATER).unwrap();
        recto(folder.path(), &["apply", "--yes", "--store", &store]).done();
        let serve = || Server::start(folder.path(), &["--store", &store]);
        let place = Self {
            servers: [serve(), serve()],
            folder,
            store,
            keyspace,
        };
        let put = |id: usize| json!({ "put": { "tenant": "acme", "id": id, "note": "kept" } });
        let changes: Vec<Json> = (0..COUNT).map(put).collect();
        let path = "/v1/collections/orders/records:batchWrite";
        place.servers[0].done("POST", path, &json!({ "changes": changes }));
        place
    }

    fn path(&self) -> &Path {
        self.folder.path()
    }

    /// Runs a command directly on the store, not through a server.
    fn run(&self, line: &[&str]) -> String {
        recto(self.path(), &[line, &["--store", &self.store]].concat()).done()
    }

    /// Waits until a condition holds for both servers. `what` describes the condition.
    fn both(&self, what: &str, holds: impl Fn(&Server) -> bool) {
        let began = Instant::now();
        while !self.servers.iter().all(&holds) {
            assert!(began.elapsed() < SEEN, "{what}");
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    /// Follows page tokens in one direction, reading pages from the two servers in turn. Returns
    /// the records, and the last page.
    fn walk(&self, direction: &str, mut token: String) -> (Vec<Json>, Json) {
        let mut records = Vec::new();
        for turn in 0..COUNT {
            let page = self.servers[turn % 2].page(&token);
            let of_page = page["records"].as_array().unwrap();
            if direction == "next_page_token" {
                records.extend(of_page.clone());
            } else {
                records.splice(0..0, of_page.clone());
            }
            page[direction].as_str().unwrap().clone_into(&mut token);
            if token.is_empty() {
                return (records, page);
            }
        }
        panic!("{direction} leads nowhere");
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.servers.iter_mut().for_each(Server::kill);
        let cassandra = Cluster::shared().unwrap();
        let config = CassandraConfig::new([cassandra.address()], self.keyspace.clone());
        let runtime = tokio::runtime::Runtime::new().unwrap();
        let _ = runtime.block_on(drop_keyspace(config, recto::Environment::system()));
    }
}

impl Server {
    fn ask(&self, method: &str, path: &str, body: &str) -> (u16, Json) {
        let mut stream = TcpStream::connect(self.address()).unwrap();
        let length = body.len();
        let request = format!(
            "{method} {path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: {length}\r\n\
             Connection: close\r\n\r\n{body}"
        );
        stream.write_all(request.as_bytes()).unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        let (head, body) = answer.split_once("\r\n\r\n").unwrap();
        let status = head.split(' ').nth(1).unwrap().parse().unwrap();
        (status, serde_json::from_str(body).unwrap_or(Json::Null))
    }

    fn get(&self, path: &str) -> (u16, Json) {
        self.ask("GET", path, "")
    }

    fn done(&self, method: &str, path: &str, body: &Json) -> Json {
        let (status, answer) = self.ask(method, path, &body.to_string());
        assert!((200..300).contains(&status), "{method} {path}: {status} {answer}");
        answer
    }

    /// Returns the page of a page token, or the first page for an empty token.
    fn page(&self, token: &str) -> Json {
        let (status, page) = self.get(&format!("{LIST}&page_token={token}"));
        assert_eq!(status, 200, "{page}");
        page
    }

    /// Returns whether the server accepts a page token.
    fn takes(&self, token: &str) -> bool {
        let (status, answer) = self.get(&format!("{LIST}&page_token={token}"));
        assert!(
            status == 200 || answer["type"] == "urn:recto:problem:invalid-page-token",
            "{status}: {answer}"
        );
        status == 200
    }
}

fn token(page: &Json, name: &str) -> String {
    page[name].as_str().unwrap().to_owned()
}

#[test]
fn pages_and_records_of_one_go_on_at_the_other() {
    let place = Place::new();
    let [one, other] = &place.servers;
    let (forwards, last) = place.walk("next_page_token", String::new());
    let ids: Vec<u64> = forwards
        .iter()
        .map(|order| order["id"].as_u64().unwrap())
        .collect();
    assert_eq!(ids, (0..COUNT as u64).collect::<Vec<_>>());
    let (backwards, first) = place.walk("previous_page_token", token(&last, "previous_page_token"));
    assert_eq!(
        backwards,
        forwards[..forwards.len() - last["records"].as_array().unwrap().len()]
    );
    assert!(!token(&first, "next_page_token").is_empty());

    let order = "/v1/collections/orders/records/acme,1000";
    assert_eq!(one.get(order).0, 404);
    other.done("PUT", order, &json!({ "note": "of the other" }));
    assert_eq!(
        one.get(order),
        (
            200,
            json!({ "tenant": "acme", "id": 1_000, "note": "of the other" })
        )
    );
    one.done("DELETE", order, &Json::Null);
    assert_eq!(other.get(order).0, 404);
}

#[test]
fn serves_a_schema_applied_by_another_process() {
    let place = Place::new();
    let [one, other] = &place.servers;
    let earlier = token(&one.page(""), "next_page_token");
    let order = "/v1/collections/orders/records/acme,2000";
    let urgent = json!({ "note": "new", "priority": 1 });
    assert_eq!(one.ask("PUT", order, &urgent.to_string()).0, 400);
    assert_eq!(other.get("/v1/collections/returns").0, 404);

    place.run(&["apply", "--schema", "later.toml", "--yes"]);
    place.both("the schema is seen", |server| {
        server.get("/v1/collections/returns").0 == 200
    });
    one.done("PUT", order, &urgent);
    let stored = json!({ "tenant": "acme", "id": 2_000, "note": "new", "priority": 1 });
    for server in &place.servers {
        assert_eq!(server.get(order), (200, stored.clone()));
        assert!(server.get("/openapi.json").1["components"]["schemas"]["returns"].is_object());
        // Older records lack the new field, and older page tokens are still valid.
        assert_eq!(
            server.page(&earlier)["records"][0],
            json!({ "tenant": "acme", "id": 7, "note": "kept" })
        );
    }
    other.done(
        "PUT",
        "/v1/collections/returns/records/1",
        &json!({ "reason": "torn" }),
    );
    assert_eq!(one.get("/v1/collections/returns/records/1").1["reason"], "torn");
}

#[test]
fn a_rotation_of_cursor_keys_leaves_all_of_them_working() {
    let place = Place::new();
    let [one, other] = &place.servers;
    let (of_one, of_other) = (
        token(&one.page(""), "next_page_token"),
        token(&other.page(""), "next_page_token"),
    );

    place.run(&["cursor-keys", "rotate", "--earlier", "1"]);
    let line = [
        "page",
        "orders",
        "--filter",
        "tenant = \"acme\"",
        "--page-size",
        "7",
        "--json",
    ];
    let elsewhere: Json = serde_json::from_str(&place.run(&line)).unwrap();
    let newer = token(&elsewhere, "next_page_token");
    for server in &place.servers {
        for token in [&of_one, &of_other, &newer] {
            assert_eq!(server.page(token)["records"][0]["id"], 7);
        }
    }

    // `--earlier 0` removes all earlier keys, as an operator does after a leak. The servers then
    // reject older page tokens, without a restart.
    place.run(&["cursor-keys", "rotate", "--earlier", "0"]);
    place.both("the keys of before are gone", |server| {
        [&of_one, &of_other, &newer]
            .iter()
            .all(|token| !server.takes(token))
    });
    let (of_one, of_other) = (
        token(&one.page(""), "next_page_token"),
        token(&other.page(""), "next_page_token"),
    );
    assert!(one.takes(&of_other) && other.takes(&of_one));
}

/// Checks which maintenance a server on Cassandra offers. It rejects operations for which Cassandra
/// has its own tools. With the right, clients can load files, check tables, apply schemas and
/// remove collections.
#[test]
fn the_store_is_looked_after_through_a_server() {
    let place = Place::new();
    let token = |grant: &str| {
        let line = format!("token create operator --grant {grant} --grant orders:write --json");
        let made = place.run(&line.split(' ').collect::<Vec<_>>());
        let made: Json = serde_json::from_str(&made).unwrap();
        made["token"].as_str().unwrap().to_owned()
    };
    let (operator, loader) = (
        token("@store:compact,check,load,apply"),
        token("@store:check,load"),
    );
    let more = [
        "--load-folder",
        "loads",
        "--tokens",
        "tokens.toml",
        "--audit-log",
        "audit.log",
    ];
    let server = Server::start(place.path(), &[&["--store", &place.store][..], &more].concat());
    let ask_by = |token: &str, line: &[&str]| {
        let line = [line, &["--store", &server.url]].concat();
        recto_with(place.path(), &line, &[("RECTO_TOKEN", token)], b"")
    };
    let ask = |line: &[&str]| ask_by(&operator, line);
    let local = |line: &[&str]| recto(place.path(), &[line, &["--store", &place.store]].concat());
    let compact = ["compact"];
    assert_eq!(ask(&compact).err, local(&compact).err);
    ask(&compact).failed(2, "compact needs an embedded store");
    std::fs::write(
        place.path().join("more.csv"),
        "tenant,id,note\nacme,900,sent\nacme,ten,sent\n",
    )
    .unwrap();
    let load = ["load", "orders", "more.csv", "--quiet"];
    assert_eq!(ask(&load).code, 4);
    assert_eq!(
        place.servers[0].get("/v1/collections/orders/records/acme,900").1["note"],
        "sent"
    );
    let again = local(&["load", "orders", "more.csv", "--quiet", "--json"]);
    let again: Json = serde_json::from_str(&again.out).unwrap();
    assert_eq!(again["already_loaded"], true);
    let planned = ask(&["plan", "--schema", "later.toml"]).done();
    assert!(planned.contains("ALTER TABLE"), "{planned}");
    ask(&["apply", "--schema", "later.toml", "--yes"]).done();
    place.both("the new collection", |server| {
        server.get("/v1/collections/returns").0 == 200
    });

    let checked = |tables: u32| {
        for ran in [
            local(&["check", "--json"]),
            ask_by(&loader, &["check", "--json", "--quiet"]),
        ] {
            let checked: Json = serde_json::from_str(&ran.done()).unwrap();
            assert_eq!(
                (&checked["tables"], &checked["problems"]),
                (&tables.into(), &json!([]))
            );
        }
    };
    checked(2);
    place.servers[1].done("PUT", "/v1/collections/returns/records/1", &json!({}));
    let remove = ["apply", "--remove", "returns", "--yes"];
    ask_by(&loader, &remove).failed(1, "lacks the right apply");
    let planned = ["plan", "--remove", "returns"];
    let (planned, other) = (ask(&planned).done(), local(&planned).done());
    assert!(
        planned.contains("collection returns: removed; its 1 row is lost"),
        "{planned}"
    );
    assert!(planned.contains("DROP TABLE"), "{planned}");
    assert_eq!(
        planned.lines().skip(1).collect::<Vec<_>>(),
        other.lines().skip(1).collect::<Vec<_>>()
    );
    ask(&remove).done();
    place.both("the collection is removed", |server| {
        server.get("/v1/collections/returns").0 == 404
    });
    ask(&remove).failed(2, "cannot be applied");
    checked(1);
    // The server's audit log has all operations. So the server executed them, and not the command
    // itself.
    let audit = std::fs::read_to_string(place.path().join("audit.log")).unwrap();
    let lines = audit
        .lines()
        .map(|line| serde_json::from_str::<Json>(line).unwrap());
    let lines: Vec<Json> = lines.filter(|line| line["outcome"] == "done").collect();
    let done = |action: &str| lines.iter().filter(|line| line["action"] == action).count();
    assert_eq!((done("load"), done("apply"), done("check")), (1, 2, 2), "{audit}");
    assert!(!audit.contains("\"schema\",\"outcome\":\"seen\""), "{audit}");
}

/// Checks that a command unregisters as a writer when it ends. Otherwise other processes would have
/// to wait until it counts as dead.
#[test]
fn commands_that_wrote_are_not_waited_for() {
    let place = Place::new();
    place.run(&[
        "put",
        "orders",
        "{\"tenant\": \"acme\", \"id\": 7, \"note\": \"put\"}",
    ]);
    let view = "[collection.orders.view.by_id]\npartition = [\"id\"]\n";
    std::fs::write(place.path().join("recto.toml"), format!("{ORDERS}\n{view}")).unwrap();
    let began = Instant::now();
    place.run(&["apply", "--yes"]);
    assert!(began.elapsed() < APPLIED, "{:?}", began.elapsed());
    let found = place.run(&["page", "orders", "--filter", "id = 7", "--json"]);
    assert!(found.contains("\"put\""), "{found}");
}

/// Checks that `--wait` makes a command wait until Cassandra has started.
#[test]
fn a_cassandra_that_comes_up_late_is_waited_for() {
    let place = Place::new();
    let cassandra = Cluster::shared().unwrap().address();
    std::fs::write(place.path().join("more.csv"), "tenant,id,note\nacme,900,late\n").unwrap();
    let runtime = tokio::runtime::Runtime::new().unwrap();
    // Use a port at Cassandra's own address, because the driver connects to the addresses that
    // nodes announce. The port rejects connections until the test listens.
    let mut address = cassandra.to_socket_addrs().unwrap().next().unwrap();
    address.set_port(0);
    let socket = tokio::net::TcpSocket::new_v4().unwrap();
    socket.bind(address).unwrap();
    let store = format!("cassandra://{}/{}", socket.local_addr().unwrap(), place.keyspace);

    recto(place.path(), &["describe", "--store", &store]).failed(1, "cannot be reached: Connection refused");
    recto(place.path(), &["describe", "--wait", "1", "--store", &store]).failed(1, "waiting up to 1 s");
    let serve = ["serve", "--listen", "127.0.0.1:0", "--wait", "60"];
    let mut waiting = [&["load", "orders", "more.csv", "--quiet"][..], &serve].map(|line| {
        let mut command = command(place.path());
        command
            .args(line)
            .args(["--store", &store])
            .env("RECTO_WAIT", "60");
        let command = command.stdout(Stdio::piped()).stderr(Stdio::piped());
        command.spawn().unwrap()
    });
    for waiting in &mut waiting {
        let mut said = String::new();
        let mut err = BufReader::new(waiting.stderr.take().unwrap());
        err.read_line(&mut said).unwrap();
        assert!(said.starts_with("waiting up to 60 s for the store: "), "{said}");
        // Read the rest of the output in a thread, so that the process never blocks at a full pipe.
        std::thread::spawn(move || std::io::copy(&mut err, &mut std::io::sink()));
    }

    let listener = runtime.block_on(async { socket.listen(64).unwrap().into_std().unwrap() });
    listener.set_nonblocking(false).unwrap();
    cutter::forward(listener, cassandra);
    let [mut load, mut serve] = waiting;
    assert!(load.wait().unwrap().success());
    let stored = place.servers[0].get("/v1/collections/orders/records/acme,900");
    assert_eq!(stored.1["note"], "late");
    let mut said = String::new();
    BufReader::new(serve.stdout.take().unwrap())
        .read_line(&mut said)
        .unwrap();
    assert!(said.starts_with("serving cassandra://"), "{said}");
    serve.kill().unwrap();
    serve.wait().unwrap();
}
