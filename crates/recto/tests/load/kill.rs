//! A load into an embedded store whose process is killed, again and again.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use recto::schema::Schema;
use recto::session::LoadRequest;
use recto::{LocalSession, OpenOptions, Recto, StoreAddress};

use crate::support::{Bench, SCHEMA, load_into, records_of};

/// Says to the child process where to load.
const FOLDER: &str = "RECTO_TEST_LOAD_FOLDER";
/// After how many milliseconds each child is killed.
const LIVES_MS: [u64; 4] = [100, 150, 200, 250];

fn text() -> String {
    let rows = (0..40_000).map(|number| {
        let at = if number % 50 == 0 {
            "never"
        } else {
            "2013-01-01T10:00:00Z"
        };
        format!(
            "s{},{at},{},note {number}\n",
            number * 7_919 % 40_000,
            number % 977
        )
    });
    std::iter::once("sensor,at,count,note\n".to_owned())
        .chain(rows)
        .collect()
}

fn both(request: &mut LoadRequest) {
    request.collections = vec!["readings".into(), "by_count".into()];
    request.buffer_bytes = Some(1 << 20);
}

async fn open(folder: &Path) -> LocalSession {
    let address: StoreAddress = folder.join("store").to_str().unwrap().parse().unwrap();
    let mut recto = Recto::open_with(&address, OpenOptions::new().create())
        .await
        .unwrap();
    recto.apply(&Schema::parse(SCHEMA).unwrap()).await.unwrap();
    LocalSession::new(recto)
}

#[tokio::test]
#[ignore = "run as a child process by the test below"]
async fn loader_that_gets_killed() {
    let folder = PathBuf::from(std::env::var(FOLDER).unwrap());
    load_into(&open(&folder).await, &folder.join("a.csv"), both)
        .await
        .unwrap();
}

#[tokio::test]
async fn a_load_whose_process_is_killed_ends_as_if_it_had_not_been() {
    let expected = Bench::new().await;
    let file = expected.file("a.csv", text());
    let report = expected.load_with(&file, both).await.unwrap();
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("a.csv"), text()).unwrap();
    for life in LIVES_MS {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--ignored", "--exact", "kill::loader_that_gets_killed"])
            .env(FOLDER, folder.path())
            .stdout(Stdio::null())
            .spawn()
            .unwrap();
        tokio::time::sleep(Duration::from_millis(life)).await;
        child.kill().unwrap();
        child.wait().unwrap();
    }
    let session = open(folder.path()).await;
    let resumed = load_into(&session, &folder.path().join("a.csv"), both)
        .await
        .unwrap();
    assert!(
        resumed.already_loaded || resumed.rows_resumed > 0,
        "no child lived to a checkpoint"
    );
    assert_eq!(resumed.collections, report.collections);
    for collection in ["readings", "by_count"] {
        assert_eq!(
            records_of(&session, collection).await,
            expected.records(collection).await
        );
    }
    let rejects = std::fs::read_to_string(folder.path().join("a.csv.rejects.csv")).unwrap();
    assert_eq!(rejects, expected.text("a.csv.rejects.csv"));
}
