//! Simulation of a process that changes a record's handle (a unique field) and is killed at any of
//! its store calls. After each kill, other records request the old and the new handle. Other tests
//! freeze the process at any moment of the change. After the process continues, every claim
//! (reservation of a handle) must belong to its record.

use std::sync::Arc;
use std::time::Duration;

use recto::ErrorKind;
use recto::session::VerifyRequest;
use recto::store::Store;
use recto_protocol::views::Version;
use tokio::time::sleep;

use super::gate::Gate;
use super::history::ChangeAnswer;
use super::records::{ChangeEffect, Fields, Place, RecordChange};
use super::stage::Stage;
use crate::common::killing::{Cut, Killing};

const TIME: Duration = Duration::from_secs(10);
/// Upper bound of the number of store calls of a change.
const MOST_CALLS: i64 = 50;
/// Id of the record whose handle changes, ids of two records that request handles, and the old and
/// the new handle.
const CHANGED: i32 = 2;
const OTHER: i32 = 3;
const ANOTHER: i32 = 10;
const OLD: u8 = 1;
const NEW: u8 = 2;
/// Time that a request or a response takes between the process and the store.
const WAY: Duration = Duration::from_millis(50);
/// Upper bound of the duration of a change, in units of [`WAY`].
const MOST_WAYS: u32 = 20;
/// Durations of a freeze. During the first, the lease of the process expires. During the second,
/// other processes also regard the process as dead.
const FROZEN: [Duration; 2] = [Duration::from_secs(20), Duration::from_secs(60)];
/// Maximum time in which a process releases superfluous claims (reservations of unique values)
/// after a freeze.
const HEALING: Duration = Duration::from_secs(60);

fn put(id: i32, handle: u8) -> RecordChange {
    let place = Place {
        status: Some(handle),
        at: Some(0),
        note: None,
    };
    let fields = Fields {
        handle: Some(handle),
        ..Fields::at(place)
    };
    RecordChange::new(id, ChangeEffect::Put(fields))
}

/// Changes the handle in a process that is killed after `calls` store calls. Returns whether the
/// change ended before the kill.
async fn dies_after(calls: i64, cut: Cut) -> bool {
    let stage = Stage::new().await;
    let killing = Killing::new(&stage.memory, cut, |table| table != "recto_writers");
    let dies = stage.open(&(Arc::clone(&killing) as Arc<dyn Store>)).await;
    let had = put(CHANGED, OLD).ask(&dies).await.unwrap();
    stage
        .history
        .says(CHANGED, None, None, ChangeAnswer::Applied(Version(had.version)));
    sleep(TIME).await;
    killing.arm(calls);
    let change = put(CHANGED, NEW);
    let ended = tokio::select! {
        changed = change.ask(&dies) => changed.is_ok(),
        () = killing.killed() => false,
    };
    let last = stage.open(&stage.memory).await;
    let mut holders = 0;
    for (id, handle) in [(OTHER, NEW), (ANOTHER, OLD)] {
        match put(id, handle).ask(&last).await {
            Ok(_) => holders += 1,
            Err(error) => assert_eq!(error.kind(), ErrorKind::Conflict, "after {calls} calls: {error}"),
        }
    }
    // The changed record has one of the two handles, so exactly one other record could get the
    // other handle.
    assert_eq!(holders, 1, "after {calls} calls, {cut:?}");
    stage.recover(&last).await;
    let found = stage.checked().views().await;
    found.unwrap_or_else(|wrong| panic!("after {calls} calls, {cut:?}: {wrong}"));
    ended
}

pub(crate) async fn keeps_handles_unique_after_a_kill_at_any_call() {
    for calls in 0..MOST_CALLS {
        let ended = dies_after(calls, Cut::Before).await;
        if dies_after(calls, Cut::After).await || ended {
            println!("the change of a handle takes {calls} calls");
            return;
        }
    }
    panic!("the change of a handle takes more than {MOST_CALLS} calls");
}

/// Changes a handle in a process that is frozen after `ways` times [`WAY`]. Returns whether the
/// change ended before the freeze.
async fn freezes_after(ways: u32, frozen: Duration) -> bool {
    let stage = Stage::new().await;
    let gate = Gate::steady(Arc::clone(&stage.memory), WAY);
    let freezes = stage.open(&(Arc::new(gate.clone()) as Arc<dyn Store>)).await;
    let other = stage.open(&stage.memory).await;
    put(OTHER, NEW + 1).ask(&other).await.unwrap();
    put(CHANGED, OLD).ask(&freezes).await.unwrap();
    sleep(TIME).await;
    let asks = freezes.clone();
    let change = tokio::spawn(async move { put(CHANGED, NEW).ask(&asks).await });
    sleep(WAY * ways + WAY / 2).await;
    let is_answered = change.is_finished();
    gate.open(false);
    sleep(frozen).await;
    gate.open(true);
    sleep(HEALING).await;
    let report = other.verify(&VerifyRequest::default(), &|_| {}).await.unwrap();
    assert_eq!(report.wrong(), 0, "after {ways} ways, {frozen:?}: {report:?}");
    is_answered
}

/// Checks a change of a handle whose process is frozen at each possible moment. Other processes may
/// resolve its intent (record of a change in progress), but an intent does not name the claims.
pub(crate) async fn freeze_changes_of_a_handle_at_any_moment() {
    for frozen in FROZEN {
        let mut ways = 0;
        while !freezes_after(ways, frozen).await {
            ways += 1;
            assert!(
                ways < MOST_WAYS,
                "the change of a handle takes more than {MOST_WAYS} ways"
            );
        }
    }
}
