//! Tests of backup, compaction, check and statistics while the store is in use.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use crate::support::{
    all, cells, done, fill, key, mutation, numbers, open, put, runtime, scanned, table, unbounded, write,
};
use recto_embedded::INLINE_ROWS;
use recto_model::table::ReadDirection;
use recto_store::{Operation, Store, StoreErrorKind, WriteOptions};

#[test]
fn a_backup_is_one_moment_of_a_store_that_is_written() {
    let directory = tempfile::tempdir().unwrap();
    let backup = directory.path().join("backup");
    runtime().block_on(async {
        let store = open(&directory.path().join("store")).unwrap();
        store.create_table(&table()).await.unwrap();
        fill(&store, &table(), 0..60_000).await;
        let stop = Arc::new(AtomicBool::new(false));
        let writing = {
            let (store, stop) = (Arc::clone(&store), Arc::clone(&stop));
            tokio::spawn(async move {
                let mut number = 60_000;
                while !stop.load(Ordering::Relaxed) {
                    let writes = ["AA", "BB"].map(|carrier| write(&table(), carrier, vec![put(number, 1)]));
                    done(&store, writes.to_vec()).await;
                    number += 1;
                }
                number
            })
        };
        while numbers(&store, &table(), "BB").await.is_empty() {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        let seen = Arc::new(AtomicU64::new(0));
        let progress = Arc::clone(&seen);
        let report = store
            .backup(&backup, move |now| progress.store(now.rows, Ordering::Relaxed))
            .await
            .unwrap();
        stop.store(true, Ordering::Relaxed);
        let last = writing.await.unwrap();
        assert_eq!(seen.load(Ordering::Relaxed), report.rows);
        assert_eq!(
            numbers(&store, &table(), "AA").await,
            (0..last).collect::<Vec<_>>()
        );

        let error = store.backup(&backup, |_| ()).await.unwrap_err();
        assert_eq!(error.kind(), StoreErrorKind::Invalid);

        let copy = open(&backup).unwrap();
        let (left, right) = (
            numbers(&copy, &table(), "AA").await,
            numbers(&copy, &table(), "BB").await,
        );
        assert_eq!(left[60_000..], right, "a backup is one moment");
        assert_eq!((left.len() + right.len()) as u64, report.rows);
        assert!(copy.check(|_| ()).await.unwrap().is_sound());
        // The backup is a normal store. A table that is created in it gets a new number, and therefore has no
        // rows of a dropped table.
        copy.drop_table("flights").await.unwrap();
        copy.create_table(&table()).await.unwrap();
        assert_eq!(scanned(&copy, &table()).await.unwrap(), 0);
    });
}

#[test]
fn a_backup_that_fails_leaves_nothing() {
    let directory = tempfile::tempdir().unwrap();
    runtime().block_on(async {
        let store = open(&directory.path().join("store")).unwrap();
        let inside = directory.path().join("store/format/backup");
        assert!(store.backup(&inside, |_| ()).await.is_err());
        let occupied = directory.path().join("occupied");
        std::fs::create_dir(&occupied).unwrap();
        std::fs::write(occupied.join("file"), "mine").unwrap();
        assert!(store.backup(&occupied, |_| ()).await.is_err());
        assert_eq!(std::fs::read_dir(&occupied).unwrap().count(), 1);
    });
}

#[test]
fn a_restore_makes_a_whole_store_or_nothing() {
    let directory = tempfile::tempdir().unwrap();
    let (from, to) = (directory.path().join("backup"), directory.path().join("deep/er"));
    runtime().block_on(async {
        let backup = open(&from).unwrap();
        backup.create_table(&table()).await.unwrap();
        fill(&backup, &table(), 0..2_000).await;
        // Create a file that a killed restore would leave.
        let left = directory.path().join("deep/.er.restoring");
        std::fs::create_dir_all(&left).unwrap();
        std::fs::write(left.join("backup.redb.new"), "half").unwrap();
        let report = backup.restore(&to, |_| ()).await.unwrap();
        assert_eq!(report.rows, 2_000);
        let names = |path: &std::path::Path| {
            let entries = std::fs::read_dir(path).unwrap();
            let mut names: Vec<_> = entries.map(|entry| entry.unwrap().file_name()).collect();
            names.sort();
            names
        };
        assert_eq!(names(to.parent().unwrap()), ["er"]);
        assert_eq!(names(&to), ["data.redb", "format", "lock"]);
        let restored = open(&to).unwrap();
        assert_eq!(numbers(&restored, &table(), "AA").await.len(), 2_000);
        // A restore overwrites neither a store that is in use nor a closed store.
        let in_use = backup.restore(&to, |_| ()).await.unwrap_err();
        assert!(in_use.to_string().contains("is open in process"), "{in_use}");
        drop(restored);
        let error = backup.restore(&to, |_| ()).await.unwrap_err();
        assert_eq!(error.kind(), StoreErrorKind::Invalid);
        assert!(error.to_string().contains("a store exists already at"), "{error}");
        let occupied = directory.path().join("occupied");
        std::fs::create_dir(&occupied).unwrap();
        std::fs::write(occupied.join("file"), "mine").unwrap();
        assert!(backup.restore(&occupied, |_| ()).await.is_err());
        assert_eq!(names(&occupied), ["file"]);
        let empty = directory.path().join("empty");
        std::fs::create_dir(&empty).unwrap();
        backup.restore(&empty, |_| ()).await.unwrap();
        // A restore fails if the path of the store is below a file.
        let inside = to.join("format/store");
        assert!(backup.restore(&inside, |_| ()).await.is_err());
        assert_eq!(names(directory.path()), ["backup", "deep", "empty", "occupied"]);
    });
}

#[test]
fn compaction_gives_space_back_while_readers_read() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("store");
    runtime().block_on(async {
        let store = open(&path).unwrap();
        store.create_table(&table()).await.unwrap();
        fill(&store, &table(), 0..60_000).await;
        for number in (0..60_000)
            .filter(|number| number % 10 != 0)
            .collect::<Vec<_>>()
            .chunks(9_000)
        {
            let deletions = number.iter().map(|number| Operation::DeleteRow {
                clustering: key(*number),
            });
            let deletions = deletions.map(|deletion| mutation(deletion, 2)).collect();
            done(&store, vec![write(&table(), "AA", deletions)]).await;
        }
        let old_snapshot = store.snapshot().unwrap();
        let progress = Arc::new(Mutex::new(Vec::new()));
        let seen = Arc::clone(&progress);
        let compacting = {
            let store = Arc::clone(&store);
            tokio::spawn(async move { store.compact(move |now| seen.lock().unwrap().push(now)).await })
        };
        // Reads continue during the compaction. The write ends at the latest after the compaction.
        let expected: Vec<i64> = (0..60_000).step_by(10).collect();
        assert_eq!(numbers(&store, &table(), "AA").await, expected);
        done(&store, vec![write(&table(), "BB", vec![put(1, 1)])]).await;
        let report = compacting.await.unwrap().unwrap();
        assert!(report.bytes_after * 3 < report.bytes_before, "{report:?}");
        // The compaction has copied the row of carrier BB too if its write came before the compaction.
        let copied = progress.lock().unwrap().last().unwrap().rows;
        assert!((6_000..=6_001).contains(&copied), "{copied}");

        let slice = all(&table(), "AA", ReadDirection::Forward);
        assert_eq!(
            old_snapshot.slice(&slice, &unbounded()).await.unwrap().rows.len(),
            6_000
        );
        drop(old_snapshot);
        done(&store, vec![write(&table(), "BB", vec![put(2, 1)])]).await;
        assert!(store.check(|_| ()).await.unwrap().is_sound());
        drop(store);
        let store = open(&path).unwrap();
        assert_eq!(numbers(&store, &table(), "AA").await, expected);
        assert_eq!(numbers(&store, &table(), "BB").await, [1, 2]);
        assert!(!path.join("data.redb.new").exists());
        let statistics = store.statistics().unwrap();
        assert_eq!(statistics.tables[0].rows, 6_002);
        assert_eq!(
            statistics.file_bytes,
            std::fs::metadata(path.join("data.redb")).unwrap().len()
        );
    });
}

/// Returns sizes of a closed store, in bytes: the size of its rows, of the pages with these rows, and of the
/// file.
fn sizes(path: &std::path::Path) -> (u64, u64, u64) {
    let file = path.join("data.redb");
    let database = redb::ReadOnlyDatabase::open(&file).unwrap();
    let transaction = redb::ReadableDatabase::begin_read(&database).unwrap();
    let rows = redb::TableDefinition::<&[u8], &[u8]>::new("rows 1");
    let rows = transaction.open_table(rows).unwrap();
    let stats = redb::ReadableTableMetadata::stats(&rows).unwrap();
    let pages = (stats.leaf_pages() + stats.branch_pages()) * 4_096;
    (
        stats.stored_bytes() + stats.metadata_bytes(),
        pages,
        std::fs::metadata(file).unwrap().len(),
    )
}

#[test]
fn rows_that_come_newest_first_fill_their_pages() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("store");
    runtime().block_on(async {
        let store = open(&path).unwrap();
        store.create_table(&table()).await.unwrap();
        // Each batch comes before the existing rows of its partition, as rising numbers do in a
        // descending order.
        for batch in 0..20 {
            let writes = ["AA", "BB", "CC"].map(|carrier| {
                let rows = (batch * 1_000..(batch + 1) * 1_000).map(|number| put(number, 1));
                write(&table(), carrier, rows.collect())
            });
            done(&store, writes.into()).await;
        }
        drop(store);
        let (rows, pages, _) = sizes(&path);
        assert!(
            pages < rows * 115 / 100,
            "{rows} bytes of rows take {pages} of pages"
        );

        let store = open(&path).unwrap();
        let report = store.compact(|_| ()).await.unwrap();
        drop(store);
        let (rows, pages, file) = sizes(&path);
        assert!(
            pages < rows * 106 / 100,
            "{rows} bytes of rows take {pages} of pages"
        );
        assert!(
            file < pages * 105 / 100,
            "{pages} bytes of pages take {file} of a file"
        );
        assert!(
            file.abs_diff(report.bytes_after) < file / 100,
            "{file}, and it was said {report:?}"
        );
        let store = open(&path).unwrap();
        let expected: Vec<i64> = (0..20_000).collect();
        for carrier in ["AA", "BB", "CC"] {
            assert_eq!(numbers(&store, &table(), carrier).await, expected);
        }
        assert!(store.check(|_| ()).await.unwrap().is_sound());
    });
}

#[test]
fn ended_rows_are_counted_and_compacted_away() {
    let directory = tempfile::tempdir().unwrap();
    runtime().block_on(async {
        let store = open(directory.path()).unwrap();
        store.create_table(&table()).await.unwrap();
        let mut ending = put(1, 1);
        ending.ttl_seconds = Some(1);
        done(&store, vec![write(&table(), "AA", vec![ending, put(2, 1)])]).await;
        tokio::time::sleep(Duration::from_millis(2_100)).await;
        assert_eq!(numbers(&store, &table(), "AA").await, [2]);
        assert_eq!(store.check(|_| ()).await.unwrap().ended_rows, 1);
        store.compact(|_| ()).await.unwrap();
        let report = store.check(|_| ()).await.unwrap();
        assert_eq!((report.rows, report.ended_rows), (1, 0));
    });
}

/// A read on the calling thread stops after a limited number of rows. Expired rows count too, although they
/// are not returned.
#[test]
fn many_ended_rows_are_not_walked_at_once() {
    let directory = tempfile::tempdir().unwrap();
    runtime().block_on(async {
        let store = open(directory.path()).unwrap();
        store.create_table(&table()).await.unwrap();
        let ended = i64::from(INLINE_ROWS) + 1;
        let rows = (0..=ended).map(|number| {
            let mut row = put(number, 1);
            row.ttl_seconds = (number < ended).then_some(1);
            row
        });
        done(&store, vec![write(&table(), "AA", rows.collect())]).await;
        tokio::time::sleep(Duration::from_millis(2_100)).await;
        assert_eq!(numbers(&store, &table(), "AA").await, [ended]);
        // A backward slice begins with the lowest numbers, which have expired, because the table's
        // order is descending.
        let mut slice = all(&table(), "AA", ReadDirection::Backward);
        slice.limit = 1;
        let snapshot = store.snapshot().unwrap();
        assert!(snapshot.slice_now(&slice, &unbounded()).is_none());
        slice.direction = ReadDirection::Forward;
        let read = snapshot.slice_now(&slice, &unbounded()).unwrap().unwrap();
        assert_eq!(read.rows.len(), 1);
    });
}

#[test]
fn a_write_is_read_and_checked_whatever_it_is() {
    let directory = tempfile::tempdir().unwrap();
    runtime().block_on(async {
        let store = open(directory.path()).unwrap();
        store.create_table(&table()).await.unwrap();
        let statics = Operation::PatchStatic {
            columns: vec![0],
            cells: cells([b"Alpha"]),
        };
        let patch = Operation::Patch {
            clustering: key(7),
            columns: vec![1],
            cells: cells(["long ".repeat(400).as_bytes()]),
        };
        let mutations = vec![put(7, 1), mutation(statics, 1), mutation(patch, 2)];
        done(&store, vec![write(&table(), "AA", mutations)]).await;
        let report = store.check(|_| ()).await.unwrap();
        assert!(report.is_sound(), "{report:?}");
        assert_eq!(report.rows, 2);
        store.sync(WriteOptions::default().timeout).await.unwrap();
    });
}
