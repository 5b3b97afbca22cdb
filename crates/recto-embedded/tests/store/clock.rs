//! Tests of the clock record of a store, by which a process notices that its clock is far ahead.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use recto_embedded::{EmbeddedOptions, EmbeddedStore};
use recto_model::Environment;
use recto_store::clock::ClockState;
use recto_store::{ClockGuard, Store};

use crate::support::{read_only, runtime};

const DAY: Duration = Duration::from_secs(86_400);
const DAY_MICROS: i64 = 86_400_000_000;
/// Start of a day in 2026, in microseconds since 1970.
const START_MICROS: i64 = 1_767_225_600_000_000;
const TIMEOUT: Duration = Duration::from_secs(10);

/// Opens a store with a clock that is about `days` days after `START_MICROS`.
fn open(path: &Path, days: i64, options: EmbeddedOptions) -> Arc<EmbeddedStore> {
    let environment = Environment::seeded(1, START_MICROS + days * DAY_MICROS);
    EmbeddedStore::open(path, options, environment).unwrap()
}

fn open_to_write(path: &Path, days: i64) -> Arc<EmbeddedStore> {
    open(path, days, EmbeddedOptions::default())
}

fn state(store: &EmbeddedStore) -> ClockState {
    store.status(Some(DAY)).state
}

#[test]
fn keeps_a_clock_record_through_backup_and_compaction() {
    let folder = tempfile::tempdir().unwrap();
    let (path, backup) = (folder.path().join("store"), folder.path().join("backup"));
    runtime().block_on(async {
        let store = open_to_write(&path, 0);
        store.record(DAY, TIMEOUT).await.unwrap();
        store.backup(&backup, |_| {}).await.unwrap();
        store.compact(|_| {}).await.unwrap();
        store.close().await.unwrap();
    });
    for path in [&path, &backup] {
        assert_eq!(state(&open_to_write(path, 1)), ClockState::Agrees);
        assert_eq!(state(&open_to_write(path, 2)), ClockState::AheadOfRecord);
        assert_eq!(state(&open(path, 2, read_only())), ClockState::AheadOfRecord);
    }
}

#[test]
fn believes_its_clock_where_nothing_was_recorded() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store");
    drop(open_to_write(&path, 0));
    assert_eq!(state(&open_to_write(&path, 365)), ClockState::Agrees);
    runtime().block_on(async {
        // A read-only store writes no clock record, so `record` has no effect and `confirm` fails.
        let store = open(&path, 365, read_only());
        store.record(DAY, TIMEOUT).await.unwrap();
        assert!(store.confirm(TIMEOUT).await.is_err());
    });
    assert_eq!(state(&open_to_write(&path, 730)), ClockState::Agrees);
}

#[test]
fn confirms_a_clock_for_later_processes() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store");
    runtime().block_on(async {
        open_to_write(&path, 0).record(DAY, TIMEOUT).await.unwrap();
        let store = open_to_write(&path, 365);
        // The clock is far ahead, so the store records the time for which it has evidence, not the
        // time of the clock.
        store.record(DAY, TIMEOUT).await.unwrap();
        drop(store);
        let store = open_to_write(&path, 365);
        assert!(!store.allows(DAY));
        let confirmed = store.confirm(TIMEOUT).await.unwrap();
        assert!(confirmed >= START_MICROS + 365 * DAY_MICROS);
        assert!(store.allows(DAY));
    });
    assert_eq!(state(&open_to_write(&path, 366)), ClockState::Agrees);
    assert_eq!(state(&open_to_write(&path, 368)), ClockState::AheadOfRecord);
}
