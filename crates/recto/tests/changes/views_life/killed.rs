//! Checks that the next process completes the work of a process that was killed while it applied a
//! schema or repaired views. The test kills the process at each of its store calls, before or after
//! the call.

use std::sync::Arc;

use recto::schema::Schema;
use recto::session::VerifyRequest;
use recto::store::Store;
use recto::store::memory::MemoryStore;
use recto::{ApplyOptions, Environment, OpenOptions, Recto};

use super::{BASE, VIEWS, assert_all_is_well, drift, fill_each, tables, with_views};
use crate::common::killing::{Cut, Killing};
use crate::common::run;
use crate::common::stores::{in_memory, parse};

/// Number of records. It exceeds the number of records that one step of a backfill writes.
const RECORDS: i32 = 1_100;
/// Number of records in the test that repairs faults.
const REPAIRED: i32 = 40;
/// Upper bound of the number of store calls of an apply, and of a repair.
const MOST_CALLS: i64 = 400;

async fn open(store: &Arc<dyn Store>) -> Recto {
    let options = OpenOptions::new().create();
    Recto::with_store(Arc::clone(store), options).await.unwrap()
}

/// Applies a schema in a process that is killed after `calls` store calls. Returns whether the
/// apply ended before the kill.
async fn apply_for(store: &Arc<dyn Store>, calls: i64, cut: Cut, schema: &Schema) -> bool {
    let killing = Killing::new(store, cut, |_| true);
    killing.arm(calls);
    let recto = open(&(Arc::clone(&killing) as Arc<dyn Store>)).await;
    let options = ApplyOptions::new().remove("people.ages");
    tokio::select! {
        applied = recto.apply_with(schema, &options) => { applied.unwrap(); true }
        () = killing.killed() => false,
    }
}

#[test]
fn completes_view_changes_after_a_kill_at_any_call() {
    let before = with_views();
    // The new schema adds one view, changes one, and removes one.
    let changed = VIEWS.replace(r#"order = ["age"]"#, r#"order = ["-age"]"#);
    let kept = changed.split("[collection.people.view.ages]").next().unwrap();
    let after = parse(&format!(
        "{BASE}{kept}\n[collection.events.view.by_note]\npartition = [\"note\"]\norder = [\"score\"]\n"
    ));
    run(async {
        let mut ended = 0;
        for calls in 0..MOST_CALLS {
            for cut in [Cut::Before, Cut::After] {
                let store: Arc<dyn Store> = Arc::new(MemoryStore::new(Environment::system()));
                let recto = open(&store).await;
                recto.apply(&before).await.unwrap();
                fill_each(&recto, RECORDS, RECORDS / 10).await;
                ended += i32::from(apply_for(&store, calls, cut, &after).await);
                // Let another process write at the same time, based on the recorded schema.
                let recto = open(&store).await;
                fill_each(&recto, RECORDS / 10, RECORDS / 5).await;
                let views = recto.views().await.unwrap();
                let has_view = views.iter().any(|view| view.view == "ages");
                let options = if has_view && recto.schema().to_toml().contains("ages") {
                    ApplyOptions::new().remove("people.ages")
                } else {
                    ApplyOptions::new()
                };
                recto.apply_with(&after, &options).await.unwrap();
                let names: Vec<String> = recto
                    .views()
                    .await
                    .unwrap()
                    .into_iter()
                    .map(|view| view.view)
                    .collect();
                assert_eq!(names.len(), 3, "after {calls} calls: {names:?}");
                assert_eq!(
                    tables(&recto).await.len(),
                    5,
                    "after {calls} calls: {:?}",
                    tables(&recto).await
                );
                assert_all_is_well(&recto).await;
            }
            if ended > 0 {
                println!("an apply takes {calls} calls");
                return;
            }
        }
        panic!("an apply takes more than {MOST_CALLS} calls");
    });
}

/// Repairs faults in a process that is killed after `calls` store calls. Returns whether the repair
/// ended before the kill.
async fn repair_for(transactions: bool, calls: i64, cut: Cut) -> bool {
    let recto = in_memory(transactions).await;
    recto.apply(&with_views()).await.unwrap();
    fill_each(&recto, REPAIRED, REPAIRED).await;
    drift::plant(&recto, "by_city").await;
    let killing = Killing::new(recto.store(), cut, |_| true);
    let repairer = open(&(Arc::clone(&killing) as Arc<dyn Store>)).await;
    killing.arm(calls);
    let request = VerifyRequest {
        repair: true,
        ..VerifyRequest::default()
    };
    let ended = tokio::select! {
        report = repairer.verify(&request, &|_| {}) => { assert_eq!(report.unwrap().left(), 0); true }
        () = killing.killed() => false,
    };
    let report = recto.verify(&request, &|_| {}).await.unwrap();
    assert_eq!(report.left(), 0, "after {calls} calls, {cut:?}: {report:?}");
    assert_all_is_well(&recto).await;
    ended
}

#[test]
fn completes_a_repair_after_a_kill_at_any_call() {
    // With a paused clock, waiting takes no real time.
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .start_paused(true)
        .build();
    runtime.unwrap().block_on(async {
        for transactions in [true, false] {
            let mut calls = 0;
            while !repair_for(transactions, calls, Cut::Before).await {
                repair_for(transactions, calls, Cut::After).await;
                calls += 1;
                assert!(calls < MOST_CALLS);
            }
            println!("a repair takes {calls} calls");
            assert!(calls > 0);
        }
    });
}
