//! Tests of processes that change a few records concurrently, on one Cassandra node and on three
//! nodes. The processes are killed at random times. In the test with three nodes, nodes are also
//! paused, killed and restarted.
//!
//! At the end, each view must agree with the base rows, no two records may have the same handle
//! (unique value), and every acknowledged change must be stored once.
//!
//! The environment variable `RECTO_TEST_SEED=…` repeats the random choice of killed processes and
//! of times. `RECTO_TEST_SCALE=20` kills twenty times as many processes, for a long run.
#![allow(dead_code)]

#[path = "../../models/simulation/check.rs"]
mod check;
mod children;
#[path = "../../models/simulation/handles.rs"]
mod handles;
#[path = "../../models/simulation/history.rs"]
mod history;
#[path = "../../models/simulation/records.rs"]
mod records;
mod under_faults;

use std::process::Child;
use std::sync::mpsc::channel;
use std::time::{Duration, Instant};

use crate::common::{Fresh, Kind, run};
use recto_testkit::generate::Rng;

use recto::Recto;
use recto::session::VerifyRequest;

use crate::common::children::kill;
use check::Checked;
use children::{Children, change_until_killed, heard};
use history::History;
use records::Tables;

const SCALE_VARIABLE: &str = "RECTO_TEST_SCALE";
const PROCESSES: usize = 3;
/// Number of processes that a test kills, one after another. It is multiplied by the environment
/// variable `RECTO_TEST_SCALE`.
const KILLS: usize = 9;

#[test]
#[ignore = "child: started by recovers_exact_views_and_acknowledged_changes and its like under faults"]
fn writer_that_gets_killed() {
    run(change_until_killed());
}
/// Maximum time from the kill of the last process until all views agree with the base rows.
const WHOLE_WITHIN: Duration = Duration::from_secs(60);

/// Returns the factor for the number of faults, from the environment variable `RECTO_TEST_SCALE`.
/// Returns 1 if it is not set.
fn scale() -> usize {
    std::env::var(SCALE_VARIABLE).map_or(1, |text| text.parse().unwrap())
}

/// Asserts that records, views and claims (reservations of unique values) are correct. The changes
/// of killed processes must be resolved before.
async fn check(recto: &Recto, tables: &Tables, history: &History) {
    let store = &**recto.store();
    let checked = Checked {
        scanned: store,
        store,
        tables,
        history,
    };
    let found = checked.views().await;
    found.unwrap_or_else(|wrong| panic!("{wrong}\n{}", history.text()));
    let verify = async |repair| {
        let request = VerifyRequest {
            repair,
            ..VerifyRequest::default()
        };
        recto.verify(&request, &|_| {}).await.unwrap()
    };
    // If a process is killed after it reserved a unique value (claim), but before it wrote the
    // record, the claim remains. The next record with this value takes over the claim.
    let report = verify(true).await;
    let orphans = report.views.last().unwrap().orphan;
    assert_eq!((report.wrong(), report.views.len()), (orphans, 3), "{report:?}");
    let report = verify(false).await;
    assert_eq!(report.wrong(), 0, "{report:?}");
    println!(
        "{} changes were applied, {} records resolved",
        history.applied(),
        recto.writer_metrics().resolved
    );
}

#[test]
fn recovers_exact_views_and_acknowledged_changes() {
    let fresh = Fresh::new(Kind::Cassandra);
    let tables = Tables::new(false);
    let recto = run(async {
        let recto = fresh.open().await;
        recto.apply(&tables.schema).await.unwrap();
        recto
    });
    let (lines, said) = channel();
    let children = Children {
        address: fresh.address.to_string(),
        lines,
        clocks_off_micros: &[0],
    };
    let mut living: Vec<Child> = (0..PROCESSES).map(|number| children.spawn(number)).collect();
    let mut random: Rng = recto_testkit::generate::rng(crate::common::seed());
    for number in 0..KILLS * scale() {
        let millis = 500 + random.u64(0..2_000);
        std::thread::sleep(Duration::from_millis(millis));
        let child = &mut living[number % PROCESSES];
        kill(child);
        *child = children.spawn(PROCESSES + number);
    }
    living.iter_mut().for_each(kill);
    let died = Instant::now();
    drop(children);
    let history = heard(said);
    run(async {
        let pass = recto.recover(|pass| !pass.is_done()).await.unwrap();
        assert!(pass.waiting > 0, "{pass:?}");
        assert!(
            died.elapsed() < WHOLE_WITHIN,
            "made whole after {:?}",
            died.elapsed()
        );
        check(&recto, &tables, &history).await;
        recto.close().await.unwrap();
    });
}
