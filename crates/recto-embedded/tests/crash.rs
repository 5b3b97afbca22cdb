//! A process is killed while it commits: what it acknowledged is there, whole, and the store opens.
//!
//! Each run kills at other moments. A failure names its seed; `RECTO_TEST_SEED=…` draws them again.
//! `RECTO_TEST_SCALE=20` kills twenty times as often, for a long run.
#![allow(clippy::unwrap_used, clippy::print_stdout)]

mod support;

use std::collections::BTreeSet;
use std::io::{BufRead, BufReader, Write as _};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use recto_store::{Atomicity, Store, WriteOptions};
use support::disk::{Random, scale, seed};
use support::{done, numbers, open, put, runtime, table, write};

/// Tells the child where its store is.
const DIRECTORY: &str = "RECTO_TEST_CRASH_DIRECTORY";
const WRITERS: i64 = 8;
/// How often a usual run kills.
const KILLS: u64 = 12;

/// Writes pairs of rows in two partitions, from several tasks, until it is killed; says which were
/// acknowledged. Every third write is relaxed and so may be lost; it is not said.
#[test]
fn child() {
    let Ok(directory) = std::env::var(DIRECTORY) else {
        return;
    };
    runtime().block_on(async {
        let store = open(Path::new(&directory)).unwrap();
        store.create_table(&table()).await.unwrap();
        let first = numbers(&store, &table(), "AA")
            .await
            .last()
            .map_or(0, |last| last / WRITERS + 1);
        let tasks: Vec<_> = (0..WRITERS)
            .map(|writer| {
                let store = Arc::clone(&store);
                tokio::spawn(async move {
                    for round in first.. {
                        let number = round * WRITERS + writer;
                        let writes =
                            ["AA", "BB"].map(|carrier| write(&table(), carrier, vec![put(number, 1)]));
                        if round % 3 == 0 {
                            let options = WriteOptions {
                                relaxed: true,
                                ..WriteOptions::default()
                            };
                            let _ = store
                                .write_many(writes.to_vec(), Atomicity::Logged, options)
                                .await;
                            continue;
                        }
                        done(&store, writes.to_vec()).await;
                        let mut out = std::io::stdout().lock();
                        writeln!(out, "acknowledged {number}").unwrap();
                        out.flush().unwrap();
                    }
                })
            })
            .collect();
        for task in tasks {
            task.await.unwrap();
        }
    });
}

/// Runs the child for a while and kills it. Returns what it acknowledged.
fn crash(directory: &Path, after: Duration) -> BTreeSet<i64> {
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "child", "--nocapture"])
        .env(DIRECTORY, directory)
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let output = child.stdout.take().unwrap();
    let reader = std::thread::spawn(move || {
        BufReader::new(output)
            .lines()
            .map_while(Result::ok)
            .filter_map(|line| Some(line.split_once("acknowledged ")?.1.parse().unwrap()))
            .collect()
    });
    std::thread::sleep(after);
    child.kill().unwrap();
    child.wait().unwrap();
    reader.join().unwrap()
}

#[test]
fn what_was_acknowledged_survives_a_kill() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("store");
    let mut acknowledged = BTreeSet::new();
    let mut random = Random::new(seed());
    for round in 0..KILLS * scale() {
        let more = crash(&path, Duration::from_millis(30 + random.below(370)));
        acknowledged.extend(more);
        runtime().block_on(async {
            let store = open(&path).unwrap();
            let found: BTreeSet<i64> = numbers(&store, &table(), "AA").await.into_iter().collect();
            let lost: Vec<_> = acknowledged.difference(&found).collect();
            assert!(lost.is_empty(), "round {round} lost {lost:?}");
            let other: BTreeSet<i64> = numbers(&store, &table(), "BB").await.into_iter().collect();
            assert_eq!(found, other, "round {round} tore a write");
            let report = store.check(|_| ()).await.unwrap();
            assert!(report.is_sound(), "round {round}: {report:?}");
        });
    }
    assert!(acknowledged.len() > 50, "the child wrote {}", acknowledged.len());
}
