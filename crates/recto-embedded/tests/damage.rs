//! Flipped bits: an error or found by a check, never a wrong row and never a panic.
#![allow(clippy::unwrap_used)]

mod support;

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use recto_store::{Store, StoreErrorKind};
use support::{fill, numbers, open, read, runtime, scanned, table};

const ROWS: i64 = 3_000;

fn fresh(path: &Path) -> Vec<u8> {
    runtime().block_on(async {
        let store = open(path).unwrap();
        store.create_table(&table()).await.unwrap();
        fill(&store, &table(), 0..ROWS).await;
    });
    fs::read(path.join("data.redb")).unwrap()
}

/// The file with one row's value changed: the engine does not notice, the row's checksum does.
#[test]
fn a_changed_value_is_an_error_that_names_table_and_key() {
    let directory = tempfile::tempdir().unwrap();
    let mut data = fresh(directory.path());
    let needle = b"flight 1234 ";
    let at: Vec<usize> = data
        .windows(needle.len())
        .enumerate()
        .filter(|(_, window)| window == needle)
        .map(|(at, _)| at)
        .collect();
    assert!(!at.is_empty());
    for at in at {
        data[at] ^= 0x20;
    }
    fs::write(directory.path().join("data.redb"), &data).unwrap();
    runtime().block_on(async {
        let store = open(directory.path()).unwrap();
        let error = read(&store, &table(), "AA").await.unwrap_err();
        assert_eq!(error.kind(), StoreErrorKind::Corrupt);
        let text = error.to_string();
        assert!(text.contains("table flights") && text.contains("key "), "{text}");
        assert!(error.hint().unwrap().contains("check"));
        assert_eq!(
            scanned(&store, &table()).await.unwrap_err().kind(),
            StoreErrorKind::Corrupt
        );
        let to = directory.path().join("backup");
        assert_eq!(
            store.backup(&to, |_| ()).await.unwrap_err().kind(),
            StoreErrorKind::Corrupt
        );
        assert!(!to.exists());
        assert_eq!(
            store.compact(|_| ()).await.unwrap_err().kind(),
            StoreErrorKind::Corrupt
        );
        let report = store.check(|_| ()).await.unwrap();
        assert_eq!(report.problem_count, 1);
        assert_eq!(report.problems[0].table, "flights");
        assert!(report.page_damage.is_some());
    });
}

/// Bits flipped all over the file: whatever is read is right or an error, and the check finds what is
/// in use.
#[test]
fn flipped_bits_are_never_wrong_rows() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("store");
    let data = fresh(&path);
    let all: BTreeSet<i64> = (0..ROWS).collect();
    let (mut errors, mut found, mut unused) = (0, 0, 0);
    let mut state = 0x2545_F491_4F6C_DD1D_u64;
    for _ in 0..60 {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        let mut damaged = data.clone();
        let at = (state >> 8) as usize % damaged.len();
        damaged[at] ^= 1 << (state % 8);
        fs::write(path.join("data.redb"), &damaged).unwrap();
        runtime().block_on(async {
            let Ok(store) = open(&path) else {
                errors += 1;
                return;
            };
            let Ok(rows) = read(&store, &table(), "AA").await else {
                errors += 1;
                return;
            };
            let report = store.check(|_| ()).await;
            let sound = report.is_ok_and(|report| report.is_sound());
            // `numbers` looks at every row whole.
            let numbers: BTreeSet<i64> = numbers(&store, &table(), "AA").await.into_iter().collect();
            assert!(numbers.is_subset(&all), "byte {at}");
            if sound {
                assert_eq!(
                    i64::try_from(rows.rows.len()).unwrap(),
                    ROWS,
                    "byte {at}: a check missed lost rows"
                );
                unused += 1;
            } else {
                found += 1;
            }
        });
    }
    assert!(
        errors + found > 10,
        "{errors} errors, {found} found, {unused} of no consequence"
    );
}
