//! Flipped bits: an error or found by a check, never a wrong row and never a panic.
#![allow(clippy::unwrap_used)]

mod support;

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use recto_model::Bound;
use recto_store::{Atomicity, Operation, Store, StoreErrorKind, WriteOptions};
use support::{cells, done, fill, key, mutation, numbers, open, put, read, runtime, scanned, table, write};

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
    let at = places_of(&data, b"flight 1234 ");
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

/// What stands behind a damaged value is known whole: a put of every column or a deletion repairs it.
#[test]
fn a_damaged_row_is_replaced_or_deleted() {
    let directory = tempfile::tempdir().unwrap();
    let mut data = fresh(directory.path());
    for needle in ["flight 1234 ", "flight 1240 ", "flight 1250 "] {
        let places = places_of(&data, needle.as_bytes());
        assert!(!places.is_empty());
        for at in places {
            data[at] ^= 0x20;
        }
    }
    fs::write(directory.path().join("data.redb"), &data).unwrap();
    runtime().block_on(async {
        let store = open(directory.path()).unwrap();
        // What writes a part needs the rest; what deletes a range would take what it cannot read.
        let patch = Operation::Patch {
            clustering: key(1234),
            columns: vec![1],
            cells: cells([b"part"]),
        };
        let range = Operation::DeleteRange {
            from: Bound::Before(key(1260)),
            to: Bound::After(key(1230)),
        };
        for operation in [patch, range] {
            let refused = vec![write(&table(), "AA", vec![mutation(operation, 5)])];
            let error = store
                .write_many(refused, Atomicity::Logged, WriteOptions::default())
                .await
                .unwrap_err();
            assert_eq!(error.kind(), StoreErrorKind::Corrupt);
        }
        let delete = Operation::DeleteRow {
            clustering: key(1250),
        };
        let repairs = vec![put(1234, 2), put(1240, 2), mutation(delete, 2)];
        done(&store, vec![write(&table(), "AA", repairs)]).await;
        let found = numbers(&store, &table(), "AA").await;
        let expected: Vec<i64> = (0..ROWS).filter(|number| *number != 1250).collect();
        assert_eq!(found, expected);
        let report = store.check(|_| ()).await.unwrap();
        assert_eq!(report.problem_count, 0, "{report:?}");
    });
}

/// A file that lost its end is damaged, and said to be.
#[test]
fn a_file_cut_short_is_damaged() {
    let directory = tempfile::tempdir().unwrap();
    let data = fresh(directory.path());
    for parts in [1, 2, 3] {
        let kept = data.len() / 4 * parts;
        fs::write(directory.path().join("data.redb"), &data[..kept]).unwrap();
        runtime().block_on(async {
            let error = match open(directory.path()) {
                Err(error) => error,
                Ok(store) => match read(&store, &table(), "AA").await {
                    Err(error) => error,
                    Ok(rows) => {
                        assert_eq!(i64::try_from(rows.rows.len()).unwrap(), ROWS);
                        return;
                    }
                },
            };
            assert_eq!(error.kind(), StoreErrorKind::Corrupt, "{kept}: {error}");
            assert!(error.hint().is_some(), "{error}");
        });
    }
}

fn places_of(data: &[u8], needle: &[u8]) -> Vec<usize> {
    data.windows(needle.len())
        .enumerate()
        .filter(|(_, window)| *window == needle)
        .map(|(at, _)| at)
        .collect()
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
