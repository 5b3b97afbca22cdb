//! Tests of the commands that show the commit log of an embedded store, and of `recto check --drop-log-after`.

use std::path::Path;
use std::time::{Duration, Instant};

use recto::schema::Schema;
use recto::session::Records as _;
use recto::{LocalSession, OpenOptions, Recto, Session as _};
use serde_json::{Value as Json, json};

use crate::support::{ORDERS, Server, recto};

/// Maximum time that a test waits until the store uses its log.
const PATIENCE: Duration = Duration::from_secs(60);
/// Position of the first record in a log file.
const FIRST_RECORD: usize = 4_096;

/// Puts orders into a new store until its log has at least five records since the last checkpoint.
async fn write_log(folder: &Path) -> LocalSession {
    let recto = Recto::open_with(folder, OpenOptions::new().create())
        .await
        .unwrap();
    recto.apply(&Schema::parse(ORDERS).unwrap()).await.unwrap();
    let session = LocalSession::new(recto);
    let (begin, mut id) = (Instant::now(), 0);
    let mut last = session.commit_log().unwrap();
    let mut records = 0;
    while records < 5 {
        assert!(
            begin.elapsed() < PATIENCE,
            "the store does not use its log: {last:?}"
        );
        let Json::Object(order) = json!({ "tenant": "acme", "id": id }) else {
            unreachable!()
        };
        session.put("orders", vec![order], None).await.unwrap();
        id += 1;
        let log = session.commit_log().unwrap();
        records = if log.checkpoints == last.checkpoints {
            records + log.records - last.records
        } else {
            0
        };
        last = log;
    }
    session
}

/// Copies the files of an open store, as a kill of its process would leave them.
fn copy_as_killed(from: &Path, to: &Path) {
    std::fs::create_dir(to).unwrap();
    for entry in std::fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        if entry.file_name() != "lock" {
            std::fs::copy(entry.path(), to.join(entry.file_name())).unwrap();
        }
    }
}

/// Changes a byte of the second record of a log.
fn damage_second_record(store: &Path) {
    let path = store.join("log.0");
    let mut bytes = std::fs::read(&path).unwrap();
    let length = bytes[FIRST_RECORD + 4..].first_chunk().unwrap();
    let changes = u32::from_le_bytes(*length) as usize;
    bytes[FIRST_RECORD + (56 + changes).next_multiple_of(8) + 60] ^= 1;
    std::fs::write(&path, bytes).unwrap();
}

fn describe(folder: &Path, store: &str) -> Json {
    let described = recto(folder, &["describe", "--json", "--store", store]).done();
    serde_json::from_str::<Json>(&described).unwrap()["commit_log"].clone()
}

#[test]
fn describe_shows_the_commit_log() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path();
    std::fs::write(path.join("recto.toml"), ORDERS).unwrap();
    recto(path, &["apply", "--yes"]).done();
    let mut server = Server::start(path, &[]);
    let begin = Instant::now();
    let log = loop {
        recto(
            path,
            &[
                "put",
                "orders",
                r#"{"tenant":"acme","id":1}"#,
                "--store",
                &server.url,
            ],
        )
        .done();
        let log = describe(path, &server.url);
        if log["records"].as_u64() > Some(0) {
            break log;
        }
        assert!(begin.elapsed() < PATIENCE, "{log}");
    };
    assert!(log["file_bytes"].as_u64() > Some(0), "{log}");
    assert!(log["checkpoints"].as_u64() > Some(0), "{log}");
    assert!(log["last_checkpoint_age_seconds"].is_u64(), "{log}");
    let drawn = recto(path, &["describe", "--store", &server.url]).done();
    for line in ["commit log   ", "records      ", "checkpoints  "] {
        assert!(drawn.contains(&format!("\n{line}")), "{drawn}");
    }
    server.kill();
    // The first command repairs the store, and closes it properly.
    describe(path, "recto.data");
    let closed = describe(path, "recto.data");
    assert!(closed["file_bytes"].as_u64() > Some(0), "{closed}");
    assert_eq!(closed["record_bytes"], 0, "{closed}");
}

#[tokio::test(flavor = "multi_thread")]
async fn gives_up_the_end_of_a_damaged_log() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path();
    let session = write_log(&path.join("open")).await;
    copy_as_killed(&path.join("open"), &path.join("killed"));
    drop(session);
    let run = |line: &[&str]| recto(path, &[line, &["--store", "killed"]].concat());
    damage_second_record(&path.join("killed"));
    let said = run(&["check"]).failed(1, "commit log");
    assert!(
        said.contains("hint:") && said.contains("`recto check --drop-log-after N`"),
        "{said}"
    );
    let (_, after) = said.split_once("but record ").unwrap();
    let damaged: u64 = after.split(' ').next().unwrap().parse().unwrap();
    let last = (damaged - 1).to_string();
    let drop = ["check", "--drop-log-after", &last];
    let asked = run(&drop);
    assert!(
        asked.out.contains("The writes of these records are lost"),
        "{}",
        asked.out
    );
    asked.failed(2, &format!("run `recto check --drop-log-after {last} --yes`"));
    run(&["describe"]).failed(1, "commit log");
    let dropped = run(&[&drop[..], &["--yes", "--json"]].concat()).done();
    assert_eq!(
        serde_json::from_str::<Json>(&dropped).unwrap()["last_record"],
        damaged - 1
    );
    assert!(path.join("killed/log.0.dropped").exists());
    run(&["check"]).done();
    run(&[&drop[..], &["--yes"]].concat()).failed(2, "the commit log is not damaged");
}

#[tokio::test(flavor = "multi_thread")]
async fn check_reports_damage_of_the_commit_log() {
    let folder = tempfile::tempdir().unwrap();
    let store = folder.path().join("store");
    let session = write_log(&store).await;
    damage_second_record(&store);
    let checked = session.tools().unwrap().check(&|_| ()).await.unwrap();
    assert!(
        checked
            .problems
            .iter()
            .any(|problem| problem.contains("commit log")),
        "{:?}",
        checked.problems
    );
}

#[test]
fn drops_only_logs_of_embedded_stores() {
    let folder = tempfile::tempdir().unwrap();
    for store in ["cassandra://localhost/shop", "http://localhost:1"] {
        let line = ["check", "--drop-log-after", "7", "--yes", "--store", store];
        recto(folder.path(), &line).failed(2, "needs the folder of an embedded store");
    }
    let line = ["check", "--drop-log-after", "7", "--yes"];
    recto(folder.path(), &line).failed(3, "recto.data");
    recto(folder.path(), &["check", "--yes"]).failed(2, "--drop-log-after");
}
