//! Tests of `recto verify` with a checkpoint. A comparison that is stopped, is killed, or loses its
//! server continues when the command is repeated. The tests run on both kinds of stores and through
//! a server.

use std::fmt::Write as _;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use crate::support::{Ran, Server, command, lose_entries, recto};
use recto::session::Records as _;
use recto::{Environment, OpenOptions, Recto, StoreAddress};
use recto_cassandra::{CassandraConfig, drop_keyspace};
use recto_testkit::rig::{Cluster, unique_keyspace};
use serde_json::Value as Json;

const SCHEMA: &str = r#"
[collection.users]
fields = { id = "int", status = "text", note = "text" }
key = ["id"]

[collection.users.view.by_status]
partition = ["status"]
order = ["-id"]

[collection.users.view.by_both]
partition = ["status", "note"]

[collection.users.view.by_note]
partition = ["note"]
"#;

const NEW_VIEW: &str = "
[collection.users.view.by_note_and_status]
partition = [\"note\"]
order = [\"status\"]
";

const USERS: u32 = 300;
/// Value of `--rate` (rows per second) at which comparing one view takes more than a second.
const RATE: &str = "400";
/// Maximum time until two of the three views are compared at the rate [`RATE`].
const PLACED: Duration = Duration::from_secs(60);
/// Maximum time until a server notices that its client disconnected.
const NOTICED: Duration = Duration::from_secs(10);
const FILE: &str = "verify.place";

/// Store of users with three views. Two views lack entries: one of all users with the status
/// `away`, the other of the users with one of the notes.
struct Place {
    folder: tempfile::TempDir,
    store: String,
}

impl Place {
    fn new(store: &str) -> Self {
        let place = Self {
            folder: tempfile::tempdir().unwrap(),
            store: store.to_owned(),
        };
        let path = place.folder.path();
        std::fs::write(path.join("recto.toml"), SCHEMA).unwrap();
        let mut csv = String::from("id,status,note\n");
        for id in 0..USERS {
            let status = if id % 50 == 7 { "away" } else { "here" };
            writeln!(csv, "{id},{status},note {}", id % 19).unwrap();
        }
        std::fs::write(path.join("users.csv"), csv).unwrap();
        place.run(&["apply", "--yes", "--quiet"]).done();
        place.run(&["load", "users", "users.csv", "--quiet"]).done();
        let runtime = tokio::runtime::Runtime::new().unwrap();
        runtime.block_on(lose(path, store));
        place
    }

    fn path(&self) -> &Path {
        self.folder.path()
    }

    fn run(&self, line: &[&str]) -> Ran {
        recto(self.path(), &[line, &["--store", &self.store]].concat())
    }

    /// Returns the command `recto verify`, with the test's checkpoint file.
    fn compare(&self, more: &[&str]) -> Command {
        let mut command = command(self.path());
        let line = ["verify", "--json", "--quiet", "--checkpoint", FILE];
        command.args(line).args(more).args(["--store", &self.store]);
        command
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        command
    }

    fn has_place(&self) -> bool {
        self.path().join(FILE).exists()
    }

    /// Starts a slow comparison, and waits until it has reached the third view.
    fn half_way(&self) -> Child {
        let mut comparing = self.compare(&["--rate", RATE]).spawn().unwrap();
        let begun = Instant::now();
        while !self.has_place() {
            let ended = comparing.try_wait().unwrap();
            assert!(ended.is_none() && begun.elapsed() < PLACED, "{ended:?}");
            std::thread::sleep(Duration::from_millis(10));
        }
        std::thread::sleep(Duration::from_millis(300));
        comparing
    }

    /// Repeats the comparison until it ends. While the server still runs the interrupted
    /// comparison, it rejects a new one.
    fn to_the_end(&self) -> Ran {
        let begun = Instant::now();
        loop {
            let ran = Ran::of(&self.compare(&[]).output().unwrap());
            if !ran.err.contains("is already running") || begun.elapsed() > NOTICED {
                return ran;
            }
            std::thread::sleep(Duration::from_millis(100));
        }
    }
}

/// Deletes entries of views behind Recto's back, as another program could.
async fn lose(folder: &Path, store: &str) {
    let address: StoreAddress = if store.starts_with("cassandra") {
        store.parse().unwrap()
    } else {
        StoreAddress::Embedded(folder.join(store))
    };
    let recto = Recto::open_with(&address, OpenOptions::new()).await.unwrap();
    let session = recto::LocalSession::new(recto.clone());
    let mut newest = 0;
    for id in 0..USERS {
        let user = session.get("users", &[id.to_string()]).await.unwrap();
        newest = newest.max(user.unwrap().version.unwrap());
    }
    for (view, partition) in [("by_status", "away"), ("by_note", "note 3")] {
        lose_entries(&recto, view, partition, newest).await;
    }
    recto.close().await.unwrap();
}

fn report(ran: &Ran) -> Json {
    assert_eq!(ran.code, 4, "{}{}", ran.out, ran.err);
    let mut report: Json = serde_json::from_str(&ran.out).unwrap();
    for view in report["views"].as_array_mut().unwrap() {
        let examples = view["examples"].as_array_mut().unwrap();
        examples.sort_by_key(Json::to_string);
    }
    report
}

/// Checks that a comparison continues after a signal to stop, and after `lose_it` ended its
/// process. The result must equal that of an uninterrupted comparison. After a change of the
/// schema, the comparison must not continue.
fn goes_on(place: &Place, lose_it: impl FnOnce(Child)) {
    let expected = report(&place.run(&["verify", "--json", "--quiet"]));
    assert_eq!(expected["views"][0]["missing"], USERS / 50, "{expected}");
    assert_eq!(expected["views"][2]["missing"], 16, "{expected}");
    assert_eq!(expected.get("begun_seconds_ago"), None);
    let interrupt = |comparing: Child| {
        let id = comparing.id().to_string();
        let sent = Command::new("kill").args(["-s", "INT", &id]).status();
        assert!(sent.unwrap().success());
        let stopped = Ran::of(&comparing.wait_with_output().unwrap());
        stopped.failed(130, "run the same command again to continue");
    };
    interrupt(place.half_way());
    assert!(place.has_place());
    let waited = Instant::now();
    let mut again = place.compare(&["--rate", RATE]).spawn().unwrap();
    std::thread::sleep(Duration::from_millis(500));
    assert!(again.try_wait().unwrap().is_none() || waited.elapsed() > Duration::from_secs(1));
    lose_it(again);
    assert!(place.has_place());
    let mut found = report(&place.to_the_end());
    let ago = found.as_object_mut().unwrap().remove("begun_seconds_ago");
    assert!(ago.is_some_and(|ago| ago.as_u64().unwrap() < 600), "{found}");
    assert_eq!(found, expected);
    assert!(!place.has_place());
    interrupt(place.half_way());
    std::fs::write(place.path().join("recto.toml"), format!("{SCHEMA}{NEW_VIEW}")).unwrap();
    place.run(&["apply", "--yes", "--quiet"]).done();
    let refused = place
        .to_the_end()
        .failed(2, "the schema was changed since the place was kept");
    assert!(
        refused.contains("remove verify.place to start from the beginning"),
        "{refused}"
    );
    std::fs::remove_file(place.path().join(FILE)).unwrap();
    assert_eq!(report(&place.to_the_end())["views"].as_array().unwrap().len(), 4);
    place.run(&["repair", "--quiet", "--checkpoint", FILE]).done();
    assert!(!place.has_place());
    place.run(&["verify", "--quiet"]).done();
}

fn kill(mut comparing: Child) {
    comparing.kill().unwrap();
    comparing.wait().unwrap();
}

#[test]
fn in_a_folder() {
    goes_on(&Place::new("store"), kill);
}

#[test]
fn on_cassandra() {
    let cassandra = Cluster::shared().expect("tests need a Cassandra").address();
    let keyspace = unique_keyspace("recto_compared");
    goes_on(&Place::new(&format!("cassandra://{cassandra}/{keyspace}")), kill);
    let config = CassandraConfig::new([cassandra], keyspace);
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let _ = runtime.block_on(drop_keyspace(config, Environment::system()));
}

#[test]
fn through_a_server_that_is_killed() {
    let mut place = Place::new("store");
    let mut server = Server::start(place.path(), &["--store", "store"]);
    place.store = server.url.clone();
    goes_on(&place, |comparing| {
        server.restart();
        let said = Ran::of(&comparing.wait_with_output().unwrap()).failed(1, "");
        assert!(said.contains("with --checkpoint it continues"), "{said}");
    });
}
