//! Checks that views are always exact while processes that load updatable records are killed at
//! random moments.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use recto::{LocalSession, OpenOptions, Recto, StoreAddress};
use recto_testkit::generate;

use crate::common::children::path_of;
use crate::common::exact::assert_views_are_exact;
use crate::common::run;
use crate::common::stores::parse;
use crate::support::load_into;
use crate::views::{CHANGING, SCHEMA, sample};

const FOLDER: &str = "RECTO_TEST_VIEWS_FOLDER";
const FLIGHTS: usize = 6_000;
const LIVES: usize = 3;
const ALL: [&str; 3] = ["appended", "overwritten", "updated"];

async fn open(folder: &Path) -> Recto {
    let address: StoreAddress = folder.join("store").to_str().unwrap().parse().unwrap();
    let recto = Recto::open_with(&address, OpenOptions::new().create())
        .await
        .unwrap();
    recto.apply(&parse(&format!("{SCHEMA}{CHANGING}"))).await.unwrap();
    recto
}

async fn load(recto: &Recto, folder: &Path) -> recto::session::LoadReport {
    let session = LocalSession::new(recto.clone());
    let both = |request: &mut recto::session::LoadRequest| {
        request.collections = ALL.map(str::to_owned).to_vec();
        request.buffer_bytes = Some(512 << 10);
    };
    load_into(&session, &folder.join("a.csv"), both).await.unwrap()
}

#[test]
#[ignore = "child: started by views_are_exact_whenever_a_load_is_killed"]
fn loader_of_views_that_gets_killed() {
    let folder = PathBuf::from(std::env::var(FOLDER).unwrap());
    run(async { load(&open(&folder).await, &folder).await });
}

fn spawn(folder: &Path) -> Child {
    Command::new(std::env::current_exe().unwrap())
        .args(["--ignored", "--exact", path_of(loader_of_views_that_gets_killed)])
        .env(FOLDER, folder)
        .stdout(Stdio::null())
        .spawn()
        .unwrap()
}

#[test]
fn views_are_exact_whenever_a_load_is_killed() {
    let seed = u64::from(std::process::id());
    let mut random = generate::rng(seed);
    let whole = tempfile::tempdir().unwrap();
    std::fs::write(whole.path().join("a.csv"), sample(FLIGHTS, false)).unwrap();
    let begin = Instant::now();
    spawn(whole.path()).wait().unwrap();
    let whole_ms = begin.elapsed().as_millis() as u64;
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("a.csv"), sample(FLIGHTS, false)).unwrap();
    for _ in 0..LIVES {
        let mut child = spawn(folder.path());
        std::thread::sleep(Duration::from_millis(random.u64(0..=whole_ms)));
        child.kill().unwrap();
        child.wait().unwrap();
        run(async {
            let recto = open(folder.path()).await;
            for collection in ALL {
                assert_views_are_exact(&recto, collection).await;
            }
            recto.close().await.unwrap();
        });
    }
    run(async {
        let recto = open(folder.path()).await;
        let report = load(&recto, folder.path()).await;
        for (collection, loaded) in ALL.iter().zip(&report.collections) {
            assert_eq!(loaded.rows_stored, FLIGHTS as u64, "{collection}");
            assert_eq!(assert_views_are_exact(&recto, collection).await, FLIGHTS);
        }
    });
}
