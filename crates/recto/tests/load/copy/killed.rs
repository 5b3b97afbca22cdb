//! Tests of copies between stores whose processes are killed, and which other processes resume.

use std::sync::Arc;
use std::sync::mpsc;

use recto::session::CopyRequest;
use recto::store::Store;
use recto::store::memory::MemoryStore;
use recto::{Environment, ErrorKind, OpenOptions, Recto, StoreAddress};

use super::TESTS;
use super::support::{apply, assert_is_copy, copy, fill, filled};
use crate::common::children::{kill, path_of, spawn};
use crate::common::killing::{Cut, Killing};
use crate::common::{Fresh, Kind, Scope, run, stores};

const FROM: &str = "RECTO_TEST_COPY_FROM";
const TO: &str = "RECTO_TEST_COPY_TO";
/// Rate of a copy in rows per second. It is so low that the copy is killed before it ends.
const ROWS_PER_SECOND: u32 = 700;
/// Points at which the copy is killed: a collection, and the number of its rows copied so far.
const KILLED_AT: [(&str, u64); 2] = [("orders", 600), ("events", 1_200)];

/// Interval, in store calls, between the points at which a copy is interrupted. Interrupting every
/// call would take minutes.
const CUT_EVERY: usize = 7;

fn text(address: &StoreAddress) -> String {
    match address {
        StoreAddress::Embedded(folder) => folder.to_str().unwrap().to_owned(),
        StoreAddress::Cassandra(address) => format!("cassandra://{}/{}", address.hosts[0], address.keyspace),
        _ => panic!("it is no store that is copied"),
    }
}

#[test]
#[ignore = "child: started by embedded_to_embedded and its likes"]
fn a_copy_that_gets_killed() {
    run(async {
        let address = |name| std::env::var(name).unwrap();
        let from = Recto::open_with(&*address(FROM), OpenOptions::new().read_only())
            .await
            .unwrap();
        let to = Recto::open_with(&*address(TO), OpenOptions::new().create())
            .await
            .unwrap();
        let request = CopyRequest {
            rows_per_second: Some(ROWS_PER_SECOND),
            ..CopyRequest::default()
        };
        let told = |progress: recto::session::CopyProgress| {
            println!("{} {} {}", progress.step, progress.collection, progress.rows);
        };
        from.copy_to(&to, &request, &told).await.unwrap();
    });
}

/// Checks that a copy is correct although its process is killed in the middle of one collection,
/// and again in the middle of the next.
fn ends_as_if_it_had_not_been_killed(from: Kind, to: Kind) {
    let _scope = Scope::new(&TESTS);
    let ((from, source), to) = (run(filled(from)), Fresh::new(to));
    if from.kind == Kind::Embedded {
        run(source.close()).unwrap();
    }
    for (collection, rows) in KILLED_AT {
        let (lines, told) = mpsc::channel();
        let variables = [(FROM, text(&from.address)), (TO, text(&to.address))];
        let mut child = spawn(path_of(a_copy_that_gets_killed), &variables, &lines);
        drop(lines);
        let is_there = |line: String| {
            let mut words = line.split(' ').map(str::to_owned);
            let is_it =
                words.next().as_deref() == Some("copying") && words.next().as_deref() == Some(collection);
            is_it
                && words
                    .next()
                    .and_then(|read| read.parse().ok())
                    .is_some_and(|read: u64| read >= rows)
        };
        assert!(told.iter().any(is_there), "it ended before it was to be killed");
        kill(&mut child);
    }
    run(async {
        let (source, target) = (from.open().await, to.open().await);
        let report = copy(&source, &target).await.unwrap();
        assert!(report.is_equal() && report.cursors_go_on, "{report:?}");
        let resumed: Vec<bool> = report
            .collections
            .iter()
            .map(|one| one.rows_resumed > 0)
            .collect();
        assert_eq!(resumed, [true, true, false]);
        let [orders, events, _] = &report.collections[..] else {
            panic!("{report:?}")
        };
        assert_eq!(
            orders.rows_read, orders.rows_resumed,
            "it was copied whole by the second process"
        );
        assert!(events.rows_resumed >= KILLED_AT[1].1.saturating_sub(4_000).max(1));
        assert!(events.rows_resumed < events.rows_read);
        assert_is_copy(&source, &target).await;
    });
}

#[test]
fn embedded_to_embedded() {
    ends_as_if_it_had_not_been_killed(Kind::Embedded, Kind::Embedded);
}

#[test]
#[ignore = "slow: a copy that is killed many times, two minutes"]
fn embedded_to_cassandra() {
    ends_as_if_it_had_not_been_killed(Kind::Embedded, Kind::Cassandra);
}

#[test]
fn cassandra_to_embedded() {
    ends_as_if_it_had_not_been_killed(Kind::Cassandra, Kind::Embedded);
}

/// Checks that a copy can be resumed after it was interrupted before or after a change of the
/// target.
#[tokio::test]
#[ignore = "slow: four minutes"]
async fn at_any_call() {
    let source = stores::in_memory(true).await;
    apply(&source).await;
    fill(&source).await;
    let environment = Environment::system();
    let (mut calls, mut ended) = (0, 0);
    for (cut, from) in [(Cut::Before, 0), (Cut::After, 3)] {
        for number in (from..).step_by(CUT_EVERY) {
            let inner: Arc<dyn Store> = Arc::new(MemoryStore::new(environment.clone()));
            let killing = Killing::new(&inner, cut, |_| true);
            let first = Recto::with_store(
                Arc::clone(&killing) as Arc<dyn Store>,
                OpenOptions::new().create(),
            );
            let first = first.await.unwrap();
            killing.arm(number);
            let is_cut = tokio::select! {
                () = killing.killed() => true,
                copied = copy(&source, &first) => !copied.unwrap().is_equal(),
            };
            drop(first);
            if !is_cut {
                break;
            }
            let target = Recto::with_store(inner, OpenOptions::new().create())
                .await
                .unwrap();
            let report = match copy(&source, &target).await {
                // If the copy executed its last call, it is complete and its progress is deleted. A
                // second copy must then be rejected.
                Err(error) if cut == Cut::After && error.kind() == ErrorKind::Exists => {
                    assert_is_copy(&source, &target).await;
                    ended += 1;
                    continue;
                }
                report => report.unwrap(),
            };
            assert!(
                report.is_equal() && report.cursors_go_on,
                "{cut:?} {number}: {report:?}"
            );
            if calls % 8 == 0 {
                assert_is_copy(&source, &target).await;
            }
            calls += 1;
        }
    }
    assert!(calls > 20 && ended <= 1, "{calls} {ended}");
}
