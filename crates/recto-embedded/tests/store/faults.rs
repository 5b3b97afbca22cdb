//! Tests with a disk that fails, is full, or loses unsynced data. Writes return errors with a hint, no
//! acknowledged data is lost, and no write is applied in part. When the disk works again, the store also
//! does.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use crate::support::disk::{Disk, Fault, Random, open_on, scale, seed};
use crate::support::{all, done, fill, numbers, put, read, runtime, table, unbounded, write};
use recto_embedded::{EmbeddedStore, REVIVE_INTERVAL};
use recto_model::table::ReadDirection;
use recto_store::{Atomicity, Store, StoreError, StoreErrorKind, TokenRange, WriteOptions, WriteOutcome};

/// Number of power cuts in a normal run.
const POWER_CUTS: u64 = 300;
/// Maximum number of disk operations between two power cuts.
const MAX_OPERATIONS: u64 = 200;

/// Outcomes of the writes of a test.
#[derive(Debug, Default, Clone)]
struct ReceivedOutcomes {
    acknowledged: BTreeSet<i64>,
    /// Writes of unknown outcome, and relaxed writes. They may be stored.
    unknown: BTreeSet<i64>,
}

fn is_told(error: &StoreError) {
    assert_eq!(error.kind(), StoreErrorKind::Storage, "{error}");
    assert!(error.hint().is_some(), "{error}");
}

/// Writes pairs of rows of two partitions, starting at `first`, until a write is not acknowledged.
async fn write_pairs(
    store: &EmbeddedStore,
    told: &mut ReceivedOutcomes,
    random: &mut Random,
    first: i64,
    count: i64,
) {
    for number in first..first + count {
        let relaxed = random.below(4) == 0;
        let options = WriteOptions {
            relaxed,
            ..WriteOptions::default()
        };
        let writes = ["AA", "BB"].map(|carrier| write(&table(), carrier, vec![put(number, 1)]));
        match store
            .write_many(writes.to_vec(), Atomicity::Logged, options)
            .await
        {
            Ok(WriteOutcome::Done) if relaxed => drop(told.unknown.insert(number)),
            Ok(WriteOutcome::Done) => {
                // This durable write also makes earlier relaxed writes durable.
                told.acknowledged.append(&mut told.unknown);
                told.acknowledged.insert(number);
            }
            Ok(WriteOutcome::Unknown(error)) => {
                is_told(&error);
                told.unknown.insert(number);
                return;
            }
            Ok(other) => panic!("{other:?}"),
            Err(error) => {
                is_told(&error);
                return;
            }
        }
    }
}

/// Checks the stored rows. All rows are complete, both rows of each pair exist, all acknowledged rows exist,
/// and no row exists that was never written.
async fn check(store: &EmbeddedStore, told: &ReceivedOutcomes, context: &str) -> BTreeSet<i64> {
    let found: BTreeSet<i64> = numbers(store, &table(), "AA").await.into_iter().collect();
    let other: BTreeSet<i64> = numbers(store, &table(), "BB").await.into_iter().collect();
    assert_eq!(found, other, "{context}: a write is torn");
    let lost: Vec<_> = told.acknowledged.difference(&found).collect();
    assert!(lost.is_empty(), "{context}: lost {lost:?}");
    let extra: Vec<_> = found
        .iter()
        .filter(|number| !told.acknowledged.contains(number) && !told.unknown.contains(number))
        .collect();
    assert!(
        extra.is_empty(),
        "{context}: {extra:?} were said not to be written"
    );
    let report = store.check(|_| ()).await.unwrap();
    assert!(report.is_sound(), "{context}: {report:?}");
    found
}

async fn fresh(disk: &Disk) -> Arc<EmbeddedStore> {
    let store = open_on(disk).unwrap();
    store.create_table(&table()).await.unwrap();
    done(
        &store,
        vec![
            write(&table(), "AA", vec![put(0, 1)]),
            write(&table(), "BB", vec![put(0, 1)]),
        ],
    )
    .await;
    store
}

/// Acknowledged writes survive repeated power cuts at random operations of the disk. After a cut, any subset
/// of the unsynced sectors may be stored. The test uses normal commits, and commits that also save the
/// allocator's state.
#[test]
fn power_cuts_lose_nothing_that_was_acknowledged() {
    let seed = seed();
    let mut random = Random::new(seed);
    let mut told = ReceivedOutcomes::default();
    let mut disk = Disk::new();
    let (mut reopened, mut first) = (0, 1);
    runtime().block_on(async {
        drop(fresh(&disk).await);
        told.acknowledged.insert(0);
        for cut in 0..POWER_CUTS * scale() {
            let context = format!("cut {cut}");
            // The failure may also interrupt the opening and the recovery of the store.
            disk.fail_after(random.below(MAX_OPERATIONS), Fault::AllFails);
            match open_on(&disk) {
                Ok(store) => {
                    if random.below(2) == 0 {
                        store.save_for_quick_repair();
                    }
                    write_pairs(&store, &mut told, &mut random, first, 40).await;
                    reopened += 1;
                }
                Err(error) => is_told(&error),
            }
            first += 40;
            disk = disk.cut_power(&mut random);
            let store = open_on(&disk).unwrap_or_else(|error| panic!("{context}: {error}"));
            let found = check(&store, &told, &context).await;
            // The rows that were found are durable, because they were read from the disk.
            told = ReceivedOutcomes {
                acknowledged: found,
                ..ReceivedOutcomes::default()
            };
            drop(store);
            if random.below(8) == 0 {
                disk = disk.cut_power(&mut random);
            }
        }
    });
    println!("{} rows, {reopened} lives", told.acknowledged.len());
    assert!(reopened > POWER_CUTS / 4 && told.acknowledged.len() > 100);
}

/// Acknowledged writes survive a disk whose operations all fail for a time, from the n-th operation on.
#[test]
fn a_disk_that_fails_loses_nothing_that_was_acknowledged() {
    let seed = seed();
    for fault in [Fault::Full, Fault::WritesFail, Fault::AllFails] {
        for operations in 0..60 * scale() {
            let context = format!("{fault:?} after {operations}");
            let mut random = Random::new(seed.wrapping_add(operations));
            runtime().block_on(async {
                let disk = Disk::new();
                let store = fresh(&disk).await;
                let mut told = ReceivedOutcomes {
                    acknowledged: BTreeSet::from([0]),
                    ..ReceivedOutcomes::default()
                };
                disk.fail_after(operations, fault);
                write_pairs(&store, &mut told, &mut random, 1, 20).await;
                // While the disk fails, a read is correct or returns an error.
                match read(&store, &table(), "AA").await {
                    Ok(rows) => assert!(rows.rows.len() >= told.acknowledged.len(), "{context}"),
                    Err(error) => is_told(&error),
                }
                disk.mend();
                let relaxed = !told.unknown.is_empty();
                let writes = ["AA", "BB"].map(|carrier| write(&table(), carrier, vec![put(100, 1)]));
                let options = WriteOptions::default();
                match store
                    .write_many(writes.to_vec(), Atomicity::Logged, options)
                    .await
                {
                    Ok(WriteOutcome::Done) => drop(told.acknowledged.insert(100)),
                    // If relaxed writes were lost, the store must report that.
                    outcome => {
                        assert!(relaxed, "{context}: {outcome:?}");
                        told.unknown.insert(100);
                    }
                }
                let found = check(&store, &told, &context).await;
                drop(store);
                let store = open_on(&disk).unwrap();
                assert!(
                    check(&store, &told, &context).await.is_superset(&found),
                    "{context}"
                );
            });
        }
    }
}

/// Reads reopen the store after the disk works again, without a write.
#[test]
fn reads_revive_the_store() {
    runtime().block_on(async {
        let disk = Disk::new();
        let store = fresh(&disk).await;
        let rows = (1..4_000).map(|number| put(number, 1)).collect();
        done(&store, vec![write(&table(), "AA", rows)]).await;
        disk.fail_after(0, Fault::AllFails);
        is_told(&read(&store, &table(), "AA").await.unwrap_err());
        is_told(&read(&store, &table(), "AA").await.unwrap_err());
        disk.mend();
        let begin = Instant::now();
        let found = loop {
            match read(&store, &table(), "AA").await {
                Ok(read) => break read.rows.len(),
                Err(error) => is_told(&error),
            }
            assert!(begin.elapsed() < REVIVE_INTERVAL * 20, "reads stay down");
            tokio::time::sleep(Duration::from_millis(20)).await;
        };
        assert_eq!(found, 4_000);
        done(&store, vec![write(&table(), "AA", vec![put(5_000, 1)])]).await;
    });
}

#[test]
fn lost_relaxed_writes_are_not_passed_over() {
    runtime().block_on(async {
        let disk = Disk::new();
        let store = fresh(&disk).await;
        let relaxed = WriteOptions {
            relaxed: true,
            ..WriteOptions::default()
        };
        let outcome = store.write(write(&table(), "AA", vec![put(1, 1)]), relaxed).await;
        assert!(matches!(outcome, Ok(WriteOutcome::Done)));
        disk.fail_after(0, Fault::Full);
        let last = write(&table(), "AA", vec![put(2, 1)]);
        let outcome = store.write(last.clone(), WriteOptions::default()).await;
        assert!(matches!(outcome, Ok(WriteOutcome::Unknown(_)) | Err(_)));
        disk.mend();
        // The store must reject this write: an acknowledgment would make a bulk load assume that
        // row 1 is on disk.
        let error = store
            .write(last.clone(), WriteOptions::default())
            .await
            .unwrap_err();
        assert!(error.to_string().contains("relaxed writes"), "{error}");
        // The store still returns the rows that are durable.
        assert_eq!(numbers(&store, &table(), "AA").await, [0]);
        drop(store);
        let store = open_on(&disk).unwrap();
        done(&store, vec![last]).await;
        assert_eq!(numbers(&store, &table(), "AA").await, [0, 2]);
    });
}

/// A store whose creation was interrupted, at any operation of the disk, exists or can be created again.
#[test]
fn a_store_that_was_being_made_opens() {
    let mut random = Random::new(seed());
    let whole = Disk::new();
    drop(open_on(&whole).unwrap());
    for operations in 0..=whole.operations() {
        let disk = Disk::new();
        disk.fail_after(operations, Fault::AllFails);
        if let Err(error) = open_on(&disk) {
            is_told(&error);
        }
        // If the creation did not complete, begin with an empty disk, because the directory also
        // discards unpublished files.
        let disk = if operations < whole.operations() {
            Disk::new()
        } else {
            disk.cut_power(&mut random)
        };
        open_on(&disk).unwrap();
    }
}

/// Maximum number of pages that a read may wait for on the calling thread: the pages that lead to the first
/// row, and one page more.
const MAX_PAGES_HERE: u64 = 8;

/// A read that needs many pages from a slow disk blocks the calling thread, a worker of the runtime, only for
/// a few pages.
#[test]
fn reads_wait_for_the_disk_on_threads_that_may_block() {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    runtime.block_on(async {
        let (disk, table) = (Disk::new(), table());
        let store = open_on(&disk).unwrap();
        store.create_table(&table).await.unwrap();
        // Write more rows than fit into the cache.
        fill(&store, &table, 0..5_000).await;
        for carrier in ["BB", "CC"] {
            done(&store, vec![write(&table, carrier, vec![put(1, 1)])]).await;
        }
        let turns = Arc::new(AtomicU64::new(0));
        let counted = Arc::clone(&turns);
        let ticking = tokio::spawn(async move {
            loop {
                counted.fetch_add(1, Ordering::Relaxed);
                tokio::task::yield_now().await;
            }
        });
        let snapshot = store.snapshot().unwrap();
        let mut slice = all(&table, "AA", ReadDirection::Forward);
        slice.limit = 1_000;
        for _ in 0..3 {
            let before = disk.reads_here();
            assert!(snapshot.slice_now(&slice, &unbounded()).is_none());
            let waited = disk.reads_here() - before;
            assert!((1..=MAX_PAGES_HERE).contains(&waited), "{waited} pages");
            let read = snapshot.slice(&slice, &unbounded()).await.unwrap();
            assert_eq!(read.rows.len(), 1_000);
            assert_eq!(disk.reads_here(), before + waited);
        }

        let before = disk.reads_here();
        turns.store(0, Ordering::Relaxed);
        let ranges = snapshot.token_ranges(&table, 1).await.unwrap();
        let (mut steps, mut rows, mut after) = (1, 0, None);
        loop {
            let read = snapshot
                .scan(&table, &ranges[0], after.as_ref(), 500, &unbounded())
                .await
                .unwrap();
            (steps, rows) = (steps + 1, rows + read.rows.len());
            after = read.next;
            if after.is_none() {
                break;
            }
        }
        assert_eq!(rows, 5_002);
        let mut partitions = 0;
        loop {
            let read = snapshot
                .scan_partitions(&table, &ranges[0], after.as_ref(), 1, &unbounded())
                .await
                .unwrap();
            (steps, partitions) = (steps + 1, partitions + read.rows.len());
            after = read.next;
            if after.is_none() {
                break;
            }
        }
        assert_eq!(partitions, 3);
        assert_eq!(disk.reads_here(), before, "scans wait elsewhere");
        let turns = turns.load(Ordering::Relaxed);
        assert!(turns >= steps, "{turns} turns of another task in {steps} steps");
        ticking.abort();

        // A read of rows in memory returns at once, without a read of the disk.
        slice.limit = 1;
        let in_memory = (0..3).find_map(|_| snapshot.slice_now(&slice, &unbounded()));
        assert_eq!(in_memory.unwrap().unwrap().rows.len(), 1);
        let before = disk.reads_here();
        assert!(snapshot.slice_now(&slice, &unbounded()).is_some());
        assert_eq!(disk.reads_here(), before);
    });
}

/// Maximum number of pages that are read to skip a partition: the pages that lead to the next partition, and
/// one page of rows.
const MAX_PAGES_A_PARTITION: u64 = 8;

/// Listing partitions skips their rows without reading them.
#[test]
fn partitions_are_listed_without_reading_their_rows() {
    runtime().block_on(async {
        let (disk, table) = (Disk::new(), table());
        let store = open_on(&disk).unwrap();
        store.create_table(&table).await.unwrap();
        fill(&store, &table, 0..20_000).await;
        for carrier in ["BB", "CC"] {
            done(&store, vec![write(&table, carrier, vec![put(1, 1)])]).await;
        }
        let snapshot = store.snapshot().unwrap();
        let whole = TokenRange::whole();
        let before = disk.reads();
        let read = snapshot
            .scan_partitions(&table, &whole, None, 100, &unbounded())
            .await
            .unwrap();
        let pages = disk.reads() - before;
        assert_eq!((read.rows.len(), read.next), (3, None));
        // The limit has room for a fourth partition, because the scan also searches for the end.
        assert!((1..=4 * MAX_PAGES_A_PARTITION).contains(&pages), "{pages} pages");
        let before = disk.reads();
        let slice = all(&table, "AA", ReadDirection::Forward);
        let rows = snapshot.slice(&slice, &unbounded()).await.unwrap().rows.len();
        let all_pages = disk.reads() - before;
        assert_eq!(rows, 20_000);
        assert!(all_pages > 10 * pages, "{pages} pages of {all_pages}");
    });
}

/// A store is closed even if the last sync fails. Closing then reports that relaxed writes may be lost.
#[test]
fn closing_on_a_failing_disk_gives_the_store_up() {
    runtime().block_on(async {
        let disk = Disk::new();
        let store = open_on(&disk).unwrap();
        store.create_table(&table()).await.unwrap();
        let relaxed = WriteOptions {
            relaxed: true,
            ..WriteOptions::default()
        };
        let written = store.write(write(&table(), "AA", vec![put(1, 1)]), relaxed).await;
        assert!(matches!(written, Ok(WriteOutcome::Done)), "{written:?}");
        disk.fail_after(0, Fault::WritesFail);
        is_told(&store.close().await.unwrap_err());
        let error = store.snapshot().err().unwrap();
        assert_eq!(error.kind(), StoreErrorKind::Closed, "{error}");
        store.close().await.unwrap();
    });
}
