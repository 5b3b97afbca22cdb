//! Simulation of a process that completes the change of a dead process, and is itself killed at any
//! of its store calls. The next process must complete the recovery.

use std::sync::Arc;
use std::time::Duration;

use recto::store::Store;
use recto_protocol::views::Version;
use tokio::time::sleep;

use super::history::ChangeAnswer;
use super::records::{ChangeEffect, Fields, Place, RecordChange};
use super::stage::Stage;
use crate::common::killing::{Cut, Killing};

const TIME: Duration = Duration::from_secs(10);
/// Id of the record that the first process leaves half changed.
const ID: i32 = 3;
/// Number of store calls of a change before it writes to views: the intent, and the conditional
/// write.
const CALLS_BEFORE_ENTRIES: i64 = 2;
/// Upper bound of the number of store calls of a recovery.
const MOST_CALLS: i64 = 200;

/// Stores a record, and then moves it in a process that is killed before it writes to any view.
async fn die_between_the_tables(stage: &Stage) {
    let killing = Killing::new(&stage.memory, Cut::Before, |table| table != "recto_writers");
    let recto = stage.open(&(Arc::clone(&killing) as Arc<dyn Store>)).await;
    let place = |which: u8| Place {
        status: Some(which),
        at: Some(i32::from(which)),
        note: Some(which),
    };
    let inserts = RecordChange::new(ID, ChangeEffect::Inserted(Fields::at(place(0))));
    let inserted = inserts.ask(&recto).await.unwrap();
    let version = Version(inserted.version);
    stage.history.says(ID, None, None, ChangeAnswer::Applied(version));
    sleep(TIME).await;
    killing.arm(CALLS_BEFORE_ENTRIES);
    let moves = RecordChange::new(ID, ChangeEffect::Moved(place(1)));
    tokio::select! {
        moved = moves.ask(&recto) => panic!("{moved:?}"),
        () = killing.killed() => {}
    }
}

/// Runs a recovery in a process that is killed after `calls` store calls. Returns whether the
/// recovery ended before the kill.
async fn dies_after(calls: i64, cut: Cut) -> bool {
    let stage = Stage::new().await;
    die_between_the_tables(&stage).await;
    let checked = stage.checked();
    assert!(checked.views().await.is_err(), "nothing is left to be done");
    let killing = Killing::new(&stage.memory, cut, |_| true);
    let recovery = stage.open(&(Arc::clone(&killing) as Arc<dyn Store>)).await;
    killing.arm(calls);
    let ended = tokio::select! {
        () = stage.recover(&recovery) => true,
        () = killing.killed() => false,
    };
    let last = stage.open(&stage.memory).await;
    stage.recover(&last).await;
    let found = checked.views().await;
    found.unwrap_or_else(|wrong| panic!("after {calls} calls, {cut:?}: {wrong}"));
    let remains = checked.remains().await;
    remains.unwrap_or_else(|wrong| panic!("after {calls} calls, {cut:?}: {wrong}"));
    ended
}

pub(crate) async fn a_recovering_process_is_killed_at_any_call() {
    for calls in 0..MOST_CALLS {
        let ended = dies_after(calls, Cut::Before).await;
        if dies_after(calls, Cut::After).await || ended {
            println!("recovering takes {calls} calls");
            return;
        }
    }
    panic!("recovering takes more than {MOST_CALLS} calls");
}
