//! Checks an embedded store after a process that changes records was killed at random moments,
//! several times.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use recto::{OpenOptions, Recto, StoreAddress};
use recto_testkit::generate;

use super::SCHEMA;
use super::changes::{Suspension, suspension};
use crate::common::children::path_of;
use crate::common::exact::assert_views_are_exact;
use crate::common::stores::parse;
use crate::common::{run, seed};

/// Environment variable that tells the child process the folder of the store.
const FOLDER: &str = "RECTO_TEST_UPDATE_FOLDER";
/// Number of processes that the test starts and kills.
const LIVES: u64 = 8;
/// Maximum time after which the test kills a process, in milliseconds.
const LIFE_MS: u64 = 400;
/// Number of records that the process changes.
const USERS: u64 = 5;

async fn open(folder: &Path) -> Recto {
    let address: StoreAddress = folder.join("store").to_str().unwrap().parse().unwrap();
    let recto = Recto::open_with(&address, OpenOptions::new().create())
        .await
        .unwrap();
    recto.apply(&parse(SCHEMA)).await.unwrap();
    recto
}

#[test]
#[ignore = "child: started by keeps_acknowledged_writes_and_exact_views_after_kills"]
fn writer_that_gets_killed() {
    run(async {
        let recto = open(Path::new(&std::env::var(FOLDER).unwrap())).await;
        let all = recto.collection::<Suspension>().unwrap();
        let mut random = generate::rng(std::process::id().into());
        loop {
            let user = format!("u{}", random.u64(0..USERS));
            let status = ["open", "closed"][random.usize(0..2)];
            let since = random.u64(1..1_000).cast_signed();
            let changed = match random.u64(0..4) {
                0 => all.delete(&user).await.unwrap(),
                _ => all.put(&suspension(&user, status, since)).await.unwrap(),
            };
            // The parent process counts a change as acknowledged when the child has printed it.
            println!("\nacknowledged {user} {}", changed.version);
        }
    });
}

#[test]
fn keeps_acknowledged_writes_and_exact_views_after_kills() {
    let folder = tempfile::tempdir().unwrap();
    let mut random = generate::rng(seed());
    let mut acknowledged: BTreeMap<String, i64> = BTreeMap::new();
    for _ in 0..LIVES {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args([
                "--ignored",
                "--exact",
                "--nocapture",
                path_of(writer_that_gets_killed),
            ])
            .env(FOLDER, folder.path())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let reader = std::thread::spawn(move || lines.map_while(Result::ok).collect::<Vec<String>>());
        std::thread::sleep(Duration::from_millis(100 + random.u64(0..LIFE_MS)));
        child.kill().unwrap();
        child.wait().unwrap();
        for line in reader.join().unwrap() {
            let Some(words) = line.strip_prefix("acknowledged ") else {
                continue;
            };
            let Some((user, version)) = words
                .split_once(' ')
                .and_then(|(user, version)| Some((user, version.parse().ok()?)))
            else {
                continue;
            };
            assert!(
                acknowledged
                    .insert(user.to_owned(), version)
                    .is_none_or(|before| before < version)
            );
        }
        run(async {
            let recto = open(folder.path()).await;
            assert_views_are_exact(&recto, "suspensions").await;
            let all = recto.collection::<Suspension>().unwrap();
            for (user, version) in &acknowledged {
                // No record may be older than its last acknowledged version.
                if let Some(found) = all.get_versioned(user).await.unwrap() {
                    assert!(found.version.unwrap() >= *version, "{user}");
                }
            }
            recto.close().await.unwrap();
        });
    }
    assert!(!acknowledged.is_empty());
}
