//! Checks that flipped bits cause an error or are found by a check, and never cause a wrong row or a panic.
#![allow(clippy::cast_possible_wrap)] // the counts of these tests are small

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::sync::Arc;

use crate::support::disk::{Disk, open_on, scale};
use crate::support::{
    cells, done, fill, key, mutation, numbers, open, put, read, runtime, scanned, table, write,
};
use recto_embedded::{EmbeddedOptions, EmbeddedStore, ScrubPosition};
use recto_model::table::TableOptions;
use recto_model::{Bound, Environment, Table};
use recto_store::{Atomicity, Operation, Store, StoreErrorKind, WriteOptions, WriteOutcome};

const ROWS: i64 = 3_000;

fn fresh(path: &Path) -> Vec<u8> {
    runtime().block_on(async {
        let store = open(path).unwrap();
        store.create_table(&table()).await.unwrap();
        fill(&store, &table(), 0..ROWS).await;
    });
    fs::read(path.join("data.redb")).unwrap()
}

/// A changed value in the file is an error of the row's checksum, although the engine does not notice the
/// change. The error names the table and the key.
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

/// A put of every column, or a deletion, repairs a damaged row, because neither depends on the damaged value.
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
        // The store rejects both operations: a patch needs the rest of the row, and a range
        // deletion would delete a row that it cannot read.
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

/// Page size of the engine's file, in bytes, and the first byte of an inner page.
const PAGE_BYTES: usize = 4_096;
const BRANCH: u8 = 2;
const FEWER_ROWS: i64 = 1_200;
/// Number of new rows that are written together, before the existing rows.
const RUN_ROWS: i64 = 20;
/// Number of bits that a normal run flips.
const DRAWS: u64 = 60;

/// Returns the positions of the page numbers in inner pages of the file. In an inner page, the page numbers
/// follow the page kind, the number of keys, and one checksum for each child.
fn page_numbers(data: &[u8]) -> Vec<usize> {
    let mut places = Vec::new();
    for (page, bytes) in data.chunks(PAGE_BYTES).enumerate().skip(1) {
        let children = usize::from(u16::from_le_bytes([bytes[2], bytes[3]])) + 1;
        let numbers = 8 + 16 * children;
        if bytes[0] == BRANCH && numbers + 8 * children < PAGE_BYTES {
            places.extend((0..children).map(|child| page * PAGE_BYTES + numbers + 8 * child));
        }
    }
    places
}

/// A flipped bit in a page number never causes wrong results. The number then refers to another page: a free
/// page that will be written soon, a used page, or a missing page. Reads and writes are correct or report an
/// error, no row disappears silently, and the store continues to work. Without verification, the engine
/// panicked while it held a lock, panicked again while it unwound, and ended the process.
#[test]
fn reports_damaged_page_numbers_and_continues() {
    let disk = Disk::new();
    let other = other_table();
    let mut options = EmbeddedOptions::default();
    // Use no cache, so that every page is read from the disk.
    options.cache_bytes = 0;
    let on_disk = disk.clone();
    runtime().block_on(async {
        let open = move || on_disk.clone();
        let store = EmbeddedStore::open_with_backend(open, None, options, Environment::system()).unwrap();
        for table in [&table(), &other] {
            store.create_table(table).await.unwrap();
        }
        fill(&store, &table(), 0..FEWER_ROWS).await;
        fill(&store, &other, 0..10).await;
        let (mut refused, mut right, mut runs) = (0, 0, 0);
        for draw in 0..DRAWS * scale() {
            let places = page_numbers(&disk.bytes());
            let at = places[usize::try_from(draw).unwrap() * 7 % places.len()];
            // Flip low bits of a page number, which lead to nearby pages, including the pages that
            // are written next. Byte 7 contains the size of the page.
            let (byte, bit) = match draw % 10 {
                low @ 0..8 => (0, low),
                8 => (1, 0),
                _ => (7, 3),
            };
            let context = format!("byte {} bit {bit}", at + byte);
            let before = disk.bytes()[at + byte];
            disk.set(at + byte, before ^ 1 << bit);
            match read(&store, &table(), "AA").await {
                Ok(rows) => assert!(
                    rows.rows.len() as i64 >= FEWER_ROWS,
                    "{context}: {}",
                    rows.rows.len()
                ),
                Err(error) => assert_eq!(error.kind(), StoreErrorKind::Corrupt, "{context}: {error}"),
            }
            let mut is_refused = false;
            let stamp = draw as i64 + 2;
            let singles = [7, FEWER_ROWS / 2, FEWER_ROWS - 7, FEWER_ROWS + 7];
            let mut writes: Vec<_> = singles.map(|number| vec![put(number, stamp)]).into();
            // Write a run of new rows before all other rows.
            let first = FEWER_ROWS + 8 + draw as i64 * RUN_ROWS;
            writes.push(
                (first..first + RUN_ROWS)
                    .map(|number| put(number, stamp))
                    .collect(),
            );
            for mutations in writes {
                let is_run = mutations.len() > 1;
                let put = write(&table(), "AA", mutations);
                match store.write(put, WriteOptions::default()).await {
                    Ok(WriteOutcome::Done) => runs += i64::from(is_run),
                    Ok(outcome) => panic!("{context}: {outcome:?}"),
                    Err(error) => {
                        assert_eq!(error.kind(), StoreErrorKind::Corrupt, "{context}: {error}");
                        is_refused = true;
                    }
                }
            }
            assert_eq!(numbers(&store, &other, "AA").await.len(), 10, "{context}");
            done(&store, vec![write(&other, "AA", vec![put(9, draw as i64 + 2)])]).await;
            if is_refused {
                refused += 1;
                // Restore the byte, because rejected writes do not overwrite it.
                disk.set(at + byte, before);
            } else {
                right += 1;
                assert!(read(&store, &table(), "AA").await.is_ok(), "{context}");
            }
        }
        println!("{refused} refused, {right} right");
        assert!(refused > 5, "{refused} refused, {right} right");
        let rows = FEWER_ROWS + i64::from(right > 0) + runs * RUN_ROWS;
        assert_eq!(numbers(&store, &table(), "AA").await.len() as i64, rows);
    });
    // The file can be opened after the rejected writes.
    assert!(open_on(&disk).is_ok());
}

/// Runs all steps of a scrub. Returns the number of verified rows, and the problems that were found.
async fn scrubbed(store: &EmbeddedStore, most_bytes: u64) -> (u64, Vec<String>) {
    let (mut position, mut rows, mut problems) = (ScrubPosition::default(), 0, Vec::new());
    loop {
        let (next, step) = store.scrub_step(position, most_bytes).await.unwrap();
        rows += step.rows;
        problems.extend(step.problems);
        if step.is_last {
            assert_eq!(next, ScrubPosition::default());
            return (rows, problems);
        }
        position = next;
    }
}

/// A scrub reads an open file in small steps, and reads every row of an undamaged file once. It finds damage
/// in the file even if the engine has the undamaged pages in memory.
#[test]
fn a_scrub_finds_damage_under_a_store_that_is_open() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("data.redb");
    runtime().block_on(async {
        let store = open(directory.path()).unwrap();
        store.create_table(&table()).await.unwrap();
        store.create_table(&other_table()).await.unwrap();
        fill(&store, &table(), 0..ROWS).await;
        fill(&store, &other_table(), 0..10).await;
        store.compact(|_| ()).await.unwrap();
        // The scrub also reads the blocks of the first table. Compaction makes one block for each
        // 1,000 rows.
        let entries = ROWS as u64 + 10 + (ROWS as u64).div_ceil(1_000);
        for most_bytes in [1, 20_000, u64::MAX] {
            let (rows, problems) = scrubbed(&store, most_bytes).await;
            assert_eq!((rows, problems), (entries, Vec::new()), "{most_bytes}");
        }
        // During concurrent writes, each step of a scrub reads one whole commit.
        let writing = tokio::spawn({
            let store = Arc::clone(&store);
            async move {
                for round in 2..40 {
                    let puts = (0..20).map(|number| put(number * 151, round)).collect();
                    done(&store, vec![write(&table(), "AA", puts)]).await;
                }
            }
        });
        while !writing.is_finished() {
            let (rows, problems) = scrubbed(&store, 30_000).await;
            assert_eq!((rows, problems), (entries, Vec::new()));
        }
        writing.await.unwrap();
        store.compact(|_| ()).await.unwrap();
        let data = fs::read(&path).unwrap();
        let flip = |at: usize| {
            use std::os::unix::fs::FileExt as _;
            let file = fs::OpenOptions::new().write(true).open(&path).unwrap();
            file.write_all_at(&[data[at] ^ 1], at as u64).unwrap();
        };
        flip(places_of(&data, b"flight 1234 ")[0]);
        flip(*page_numbers(&data).last().unwrap());
        // Reads through the engine do not notice the damage, but the scrub does.
        assert_eq!(numbers(&store, &table(), "AA").await.len() as i64, ROWS);
        let (_, problems) = scrubbed(&store, 20_000).await;
        assert!((1..=2).contains(&problems.len()), "{problems:?}");
        assert!(
            problems[0].contains("of the data file is damaged"),
            "{problems:?}"
        );
    });
}

fn other_table() -> Arc<Table> {
    let columns = table().columns().to_vec();
    Arc::new(Table::new("elsewhere", columns, TableOptions::default()).unwrap())
}

/// A file that was truncated is reported as damaged.
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

/// Every read of a file with one flipped bit returns correct rows or an error, wherever the bit is. The check
/// finds damage in used parts of the file.
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
            // Comparing the numbers suffices, because `numbers` verifies the whole content of each
            // row.
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
