//! Tests of the maintenance of a store through its server.

use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value as Json;

use super::{Place, SCHEMA, sorted, stores, token};
use crate::support::cutter::Cutter;
use crate::support::{Ran, Server, command, recto, recto_with};

/// Maximum time that a test waits for an event.
const PATIENCE: Duration = Duration::from_secs(60);

fn served(folder: tempfile::TempDir) -> Place {
    let more = ["--store", "served", "--backup-folder", "backups"];
    let server = Server::start(folder.path(), &more);
    Place { folder, server }
}

fn json(ran: Ran) -> Json {
    serde_json::from_str(&ran.done()).unwrap()
}

#[test]
fn a_served_store_is_backed_up_compacted_and_checked() {
    let place = served(stores(300));
    let copied = place.http(&["backup", "mine", "--quiet"]).done();
    assert!(
        copied.contains("copied") && copied.contains("backups/mine"),
        "{copied}"
    );
    let scan = |store: &str| recto(place.path(), &["scan", "flights", "--store", store]).done();
    assert_eq!(scan("backups/mine"), scan("local"));
    place
        .http(&["backup", "mine", "--quiet"])
        .failed(2, "backup mine exists already");
    for name in ["../mine", "/tmp/mine", ".", "a/b"] {
        let said = place
            .http(&["backup", name])
            .failed(2, "is not a valid backup name");
        assert!(said.contains("hint: use a name without a path"), "{said}");
    }
    place
        .http(&["backup", ".mine"])
        .failed(2, "needs a name, and not a path");
    let compacted = json(place.http(&["compact", "--json", "--quiet"]));
    assert!(compacted["bytes_after"].as_u64() > Some(0), "{compacted}");
    assert_eq!(place.same(&["check", "--json", "--quiet"]), 0);
    let keys = json(place.http(&["cursor-keys", "rotate", "--earlier", "1", "--json"]));
    assert_eq!(keys["keys"].as_array().unwrap().len(), 2);
    let listed = json(place.http(&["cursor-keys", "list", "--json"]));
    assert_eq!(listed["keys"][1]["encrypts"], true);
}

#[test]
fn a_server_without_a_folder_for_backups_says_how_it_gets_one() {
    let place = Place::new(30);
    let said = place.http(&["backup", "mine"]).failed(1, "no folder for backups");
    assert!(said.contains("--backup-folder"), "{said}");
}

#[test]
fn a_schema_is_planned_and_applied_through_a_server() {
    let place = Place::new(30);
    let later = SCHEMA.replace("meaning = \"text\"", "meaning = \"text\", origin = \"text\"");
    fs::write(place.path().join("recto.toml"), later).unwrap();
    assert_eq!(place.same(&["plan", "--json"]), 0);
    let planned = place.http(&["plan"]).done();
    assert!(planned.contains("origin"), "{planned}");
    place
        .http(&["apply"])
        .failed(2, "no terminal to ask for confirmation");
    let applied = place.http(&["apply", "--yes"]).done();
    assert!(
        applied.contains("✓ applied; the schema has generation 2"),
        "{applied}"
    );
    let word = r#"{"word": "w", "origin": "here"}"#;
    place.http(&["put", "words", word]).done();
    assert_eq!(
        json(place.http(&["get", "words", "w", "--json"]))["origin"],
        "here"
    );
    let again = place.http(&["apply", "--yes"]).done();
    assert!(again.contains("nothing to change"), "{again}");
    let other = SCHEMA.replace("meaning = \"text\"", "meaning = \"int\"");
    fs::write(place.path().join("recto.toml"), other).unwrap();
    assert_eq!(place.http(&["plan", "--json"]).code, 2);
}

/// Writes a CSV file of flights, of which some rows are invalid.
fn more_flights(path: &Path, rows: u32) {
    let mut csv = fs::File::create(path).unwrap();
    let mut text = String::from("carrier,day,flight,delay,note\n");
    for row in 0..rows {
        let (day, delay) = (row % 28 + 1, if row % 1_000 == 7 { "late" } else { "5" });
        text.push_str(&format!(
            "DL,2014-03-{day:02},{row},{delay},\"of row {row}, é\"\n"
        ));
    }
    csv.write_all(text.as_bytes()).unwrap();
}

#[test]
fn a_load_does_the_same() {
    let place = Place::new(30);
    let path = place.path();
    more_flights(&path.join("more.csv"), 3_000);
    let load = ["load", "flights", "more.csv", "--quiet", "--json"];
    let rejects = path.join("more.csv.rejects.csv");
    let http = place.http(&load);
    let sent = fs::read_to_string(&rejects).unwrap();
    fs::remove_file(&rejects).unwrap();
    let local = place.local(&load);
    assert_eq!((http.code, local.code), (4, 4), "{}", http.err);
    let report = |ran: &Ran| {
        let mut report: Json = serde_json::from_str(&ran.out).unwrap();
        report["time_micros"] = Json::Null;
        report
    };
    assert_eq!(report(&http), report(&local));
    assert_eq!(sent, fs::read_to_string(&rejects).unwrap());
    assert_eq!(sent.lines().count(), 4);
    assert_eq!(place.same(&["scan", "flights"]), 0);
    // The file of rejected rows already exists. A repeated load accepts the file, which has exactly
    // its rejected rows.
    let again = place.http(&load);
    assert_eq!(report(&again)["already_loaded"], true, "{}", again.err);
    assert_eq!(again.code, place.local(&load).code);
    // The server recognizes the repeated load: the same file was loaded before the store was
    // served.
    let first = json(place.http(&["load", "flights", "flights.csv", "--quiet", "--json"]));
    assert_eq!(first["already_loaded"], true);
    // After the loads, only the files of rejected rows remain.
    assert!(spooled(path).is_empty(), "{:?}", spooled(path));
    for (code, line) in [
        (3, vec!["load", "flights", "nowhere.csv"]),
        (2, vec!["load", "flights", "recto.toml"]),
        (3, vec!["load", "flihgts", "more.csv"]),
        (2, vec!["load", "words", "more.csv"]),
    ] {
        let (http, local) = (place.http(&line), place.local(&line));
        assert_eq!((http.code, local.code), (code, code), "{}{}", http.err, local.err);
        assert_eq!(http.err, local.err);
    }
    fs::write(path.join("cut.csv.gz"), b"\x1f\x8b\x08\0\0\0\0\0").unwrap();
    place
        .http(&["load", "flights", "cut.csv.gz"])
        .failed(1, "cut.csv.gz end too early");
}

#[test]
fn a_load_takes_the_options_of_csv() {
    let place = Place::new(0);
    let path = place.path();
    more_flights(&path.join("more.csv"), 300);
    let text = fs::read_to_string(path.join("more.csv"))
        .unwrap()
        .replace(',', ";");
    fs::write(path.join("more.csv"), text.replacen("carrier", "Carrier", 1)).unwrap();
    let load = [
        "load",
        "flights",
        "more.csv",
        "--quiet",
        "--json",
        "--delimiter",
        ";",
        "--map",
        "Carrier=carrier",
        "--null",
        "",
        "--null",
        "NA",
        "--time-zone",
        "UTC",
    ];
    let rejects = path.join("more.csv.rejects.csv");
    let http = place.http(&load);
    let sent = fs::read_to_string(&rejects).unwrap();
    fs::remove_file(&rejects).unwrap();
    let local = place.local(&load);
    assert_eq!((http.code, local.code), (4, 4), "{}{}", http.err, local.err);
    assert_eq!(sent, fs::read_to_string(&rejects).unwrap());
    assert_eq!(place.same(&["scan", "flights"]), 0);
}

/// Returns the uploaded files that the server stores during a load.
fn spooled(path: &Path) -> Vec<PathBuf> {
    let loads = fs::read_dir(path.join("served/loads"))
        .into_iter()
        .flatten()
        .flatten();
    let files = loads.filter_map(|load| {
        let mut files = fs::read_dir(load.path()).ok()?.flatten();
        files.find(|file| file.file_name() == "file.csv")
    });
    files.map(|file| file.path()).collect()
}

fn begin(place: &Place, line: &[&str]) -> Child {
    let mut command = command(place.path());
    command.args(line).args(["--store", &place.server.url]);
    command
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap()
}

#[test]
fn resumes_a_load_after_a_killed_client_or_server() {
    let mut place = Place::new(0);
    more_flights(&place.path().join("more.csv"), 60_000);
    let load = ["load", "flights", "more.csv", "--quiet"];
    for kills_server in [false, true] {
        let mut client = begin(&place, &load);
        let began = Instant::now();
        // The uploaded file exists only during the load, so it shows that the load has begun.
        while spooled(place.path()).is_empty() && client.try_wait().unwrap().is_none() {
            assert!(began.elapsed() < PATIENCE);
            std::thread::sleep(Duration::from_millis(2));
        }
        if kills_server {
            place.server.restart();
        }
        client.kill().unwrap();
        client.wait().unwrap();
    }
    // The server ends an interrupted load when it notices the disconnect. Until then it rejects the
    // command, so repeat the command.
    let load_through = |url: &dyn Fn() -> String| {
        let began = Instant::now();
        loop {
            let loaded = recto(place.path(), &[&load[..], &["--store", &url()]].concat());
            if !loaded.err.contains("is already running") {
                break loaded;
            }
            assert!(began.elapsed() < PATIENCE, "{}", loaded.err);
        }
    };
    // Cut the connection before the response begins, and then in the middle of the response.
    for limit in [10, 500] {
        let cut = load_through(&|| Cutter::new(place.server.address(), vec![limit]).url);
        cut.failed(1, "run the same command again to continue");
    }
    let loaded = load_through(&|| place.server.url.clone());
    assert_eq!(loaded.code, 4, "{}{}", loaded.out, loaded.err);
    fs::rename(
        place.path().join("more.csv.rejects.csv"),
        place.path().join("served.rejects"),
    )
    .unwrap();
    assert_eq!(place.local(&load).code, 4);
    assert_eq!(
        fs::read(place.path().join("served.rejects")).unwrap(),
        fs::read(place.path().join("more.csv.rejects.csv")).unwrap()
    );
    let scan = ["scan", "flights"];
    let (http, local) = (place.http(&scan).done(), place.local(&scan).done());
    assert!(
        sorted(&http) == sorted(&local),
        "{} and {}",
        http.len(),
        local.len()
    );
    assert_eq!(http.lines().count(), 60_000 - 60);
    place.http(&["check", "--quiet"]).done();
}

#[test]
fn requires_a_separate_grant_for_maintenance() {
    let folder = stores(30);
    let path = folder.path();
    let all = token(path, "*:all");
    let operator = token(path, "@store:check,compact");
    let server = Server::start(path, &["--store", "served", "--tokens", "tokens.toml"]);
    let run = |line: &[&str], token: &str| {
        let line = [line, &["--store", &server.url]].concat();
        recto_with(path, &line, &[("RECTO_TOKEN", token)], b"")
    };
    let said = run(&["check"], &all).failed(1, "lacks the right check of the store");
    assert!(said.contains("'@store:check'"), "{said}");
    run(&["load", "flights", "flights.csv"], &all).failed(1, "lacks the right load");
    run(&["check", "--quiet"], &operator).done();
    run(&["compact", "--quiet"], &operator).done();
    run(&["plan"], &operator).failed(1, "lacks the right apply");
    run(&["page", "flights", "--filter", "carrier = \"UA\""], &operator).failed(3, "flights");
}
