//! Tests of the commit log: crashes at every operation, a full disk, damage, and files that do not belong
//! together.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::support::disk::{
    Disk, Fault, Random, open_on, open_with, open_with_long_log, open_without_log, scale, seed,
};
use crate::support::{
    cells, done, fill, key, mutation, note, numbers, open, put, read_only, runtime, table, write,
};
use recto_embedded::{EmbeddedOptions, EmbeddedStore, FIRST_LOG_BYTES};
use recto_model::table::{ColumnKind, TableOptions, WriteKind};
use recto_model::{Bound, Column, Direction, Environment, Table, Type};
use recto_store::{
    Atomicity, Cas, CasCondition, Mutation, Operation, PartitionWrite, RowAddress, Store, StoreErrorKind,
    WriteOptions, WriteOutcome,
};

/// First byte of a page of the engine that contains entries.
const LEAF: u8 = 1;
const PAGE_BYTES: usize = 4_096;

async fn put_one(store: &EmbeddedStore, number: i64) {
    done(store, vec![write(&table(), "AA", vec![put(number, 1)])]).await;
}

/// Opens a store with rare checkpoints, and writes until it uses its log.
async fn logged(disk: &Disk) -> Arc<EmbeddedStore> {
    let store = open_with_long_log(disk).unwrap();
    store.create_table(&table()).await.unwrap();
    let mut number = -1;
    while store.log_statistics().records == 0 {
        put_one(&store, number).await;
        number -= 1;
        assert!(number > -10, "the store does not use its log");
    }
    store
}

#[test]
fn replays_acknowledged_writes_after_a_kill() {
    runtime().block_on(async {
        let disk = Disk::new();
        let store = logged(&disk).await;
        for number in 0..50 {
            put_one(&store, number).await;
        }
        let killed = disk.copy();
        let again = open_with_long_log(&killed).unwrap();
        let found: BTreeSet<_> = numbers(&again, &table(), "AA").await.into_iter().collect();
        assert!((0..50).all(|number| found.contains(&number)));
        let log = again.log_statistics();
        assert!(log.replayed_records >= 50, "{log:?}");
        assert_eq!(log.incomplete_records, 0);
        assert!(again.check(|_| ()).await.unwrap().is_sound());
        assert_eq!(again.dump().unwrap(), store.dump().unwrap());
    });
}

/// Returns a table of records without counts, as a queue has one.
fn queue() -> Arc<Table> {
    let column = |name: &str, ty, kind| Column {
        name: name.to_owned(),
        ty,
        kind,
    };
    let columns = vec![
        column("shard", Type::Text, ColumnKind::Partition),
        column(
            "number",
            Type::BigInt,
            ColumnKind::Clustering(Direction::Ascending),
        ),
        column("owner", Type::BigInt, ColumnKind::Regular(WriteKind::Cas)),
        column("body", Type::BigInt, ColumnKind::Regular(WriteKind::Plain)),
    ];
    Arc::new(Table::new("queue", columns, TableOptions::default()).unwrap())
}

/// Returns a random write of one or more mutations.
fn random_write(random: &mut Random, stamp: i64) -> Vec<PartitionWrite> {
    let number = random.below(40).cast_signed();
    let carrier = ["AA", "BB", "CC"][random.below(3) as usize];
    let one = match random.below(8) {
        0 => mutation(
            Operation::DeleteRow {
                clustering: key(number),
            },
            stamp,
        ),
        1 => mutation(
            Operation::DeleteRange {
                from: Bound::Before(key(number + random.below(10).cast_signed())),
                to: Bound::After(key(number)),
            },
            stamp - random.below(3).cast_signed(),
        ),
        2 => mutation(
            Operation::PatchStatic {
                columns: vec![0],
                cells: cells([b"static"]),
            },
            stamp,
        ),
        3 => mutation(
            Operation::Patch {
                clustering: key(number),
                columns: vec![1],
                cells: cells([note(stamp % 7).as_bytes()]),
            },
            stamp,
        ),
        4 => {
            let mut expiring = put(number, stamp);
            expiring.ttl_seconds = Some(1 + random.below(3) as u32);
            expiring
        }
        5 => mutation(
            Operation::Put {
                clustering: key(number),
                cells: cells([&number.to_be_bytes(), note(stamp % 5).as_bytes()]),
                replace: false,
            },
            stamp,
        ),
        _ => put(number, stamp),
    };
    let mut mutations = vec![one];
    if random.below(6) == 0 {
        let first = random.below(1_000).cast_signed() * 100;
        mutations.extend((first..first + 30).map(|number| put(number, stamp)));
    }
    let mut writes = vec![write(&table(), carrier, mutations)];
    if random.below(3) == 0 {
        writes.push(message(stamp));
    }
    writes
}

/// Returns a write of a message to the queue.
fn message(number: i64) -> PartitionWrite {
    let body = Operation::Patch {
        clustering: key(number),
        columns: vec![1],
        cells: cells([&number.to_be_bytes()]),
    };
    write(&queue(), "s", vec![mutation(body, 1)])
}

fn claim(number: i64, expected: Option<i64>) -> Cas {
    Cas {
        table: queue(),
        partition: cells([b"s"]),
        conditions: vec![CasCondition {
            row: RowAddress::Row(key(number)),
            column: 0,
            expected: expected.map(|number| number.to_be_bytes().to_vec()),
        }],
        mutations: vec![Mutation {
            operation: Operation::Patch {
                clustering: key(number),
                columns: vec![0],
                cells: cells([&(-number).to_be_bytes()]),
            },
            stamp: None,
            ttl_seconds: None,
        }],
    }
}

/// After each group, the last checkpoint and the replayed log are the live store, byte for byte.
#[test]
fn checkpoint_and_log_equal_the_live_store() {
    let mut random = Random::new(seed());
    for round in 0..4 * scale() {
        runtime().block_on(async {
            let disk = Disk::new();
            let store = logged(&disk).await;
            store.create_table(&queue()).await.unwrap();
            let mut replayed = 0;
            for stamp in 10..130 {
                let options = WriteOptions {
                    relaxed: random.below(30) == 0,
                    row_by_row: random.below(4) == 0,
                    ..WriteOptions::default()
                };
                match random.below(12) {
                    0 => {
                        let number = stamp - random.below(10).cast_signed();
                        let expected = (random.below(2) == 0).then_some(number);
                        store
                            .cas(claim(number, expected), WriteOptions::default())
                            .await
                            .unwrap();
                    }
                    1 => store.delete_expired().await.unwrap(),
                    2 if random.below(4) == 0 => store.empty_table(&queue()).await.map(drop).unwrap(),
                    _ => {
                        let writes = random_write(&mut random, stamp);
                        let outcome = store.write_many(writes, Atomicity::Logged, options).await;
                        assert!(
                            matches!(
                                outcome,
                                Ok(WriteOutcome::Done | WriteOutcome::Counted(_) | WriteOutcome::Conflict(_))
                            ),
                            "{outcome:?}"
                        );
                    }
                }
                // A relaxed write is lost by a kill, as it may be.
                if options.relaxed {
                    store.sync(WriteOptions::default().timeout).await.unwrap();
                }
                let again = open_with_long_log(&disk.copy()).unwrap();
                replayed += again.log_statistics().replayed_records;
                assert!(
                    again.dump().unwrap() == store.dump().unwrap(),
                    "round {round}, after write {stamp}"
                );
            }
            assert!(replayed > 100, "{replayed}");
        });
    }
}

/// Acknowledged writes survive a crash at every operation of the disk, also of the first use of the log.
#[test]
fn survives_a_crash_at_every_operation() {
    let mut random = Random::new(seed());
    let workload = |disk: &Disk| {
        let disk = disk.clone();
        async move {
            let mut acknowledged = BTreeSet::new();
            let Ok(store) = open_on(&disk) else {
                return acknowledged;
            };
            if store.create_table(&table()).await.is_err() {
                return acknowledged;
            }
            for number in 0..25 {
                let writes = ["AA", "BB"].map(|carrier| write(&table(), carrier, vec![put(number, 1)]));
                let outcome = store
                    .write_many(writes.to_vec(), Atomicity::Logged, WriteOptions::default())
                    .await;
                match outcome {
                    Ok(WriteOutcome::Done) => drop(acknowledged.insert(number)),
                    _ => break,
                }
            }
            acknowledged
        }
    };
    runtime().block_on(async {
        let whole = Disk::new();
        drop(open_on(&whole).unwrap());
        let created = whole.copy();
        let counted = created.copy();
        assert_eq!(workload(&counted).await.len(), 25);
        let all = counted.operations();
        for round in 0..scale() {
            for operations in 0..all {
                let context = format!("round {round}, operation {operations} of {all}");
                let disk = created.copy();
                disk.fail_after(operations, Fault::AllFails);
                let acknowledged = workload(&disk).await;
                let disk = disk.cut_power(&mut random);
                // A second crash, during the recovery.
                disk.fail_after(random.below(30), Fault::AllFails);
                drop(open_on(&disk));
                let disk = disk.cut_power(&mut random);
                let store = open_on(&disk).unwrap_or_else(|error| panic!("{context}: {error}"));
                if store.list_tables().await.unwrap().is_empty() {
                    assert!(acknowledged.is_empty(), "{context}");
                    continue;
                }
                let found: BTreeSet<_> = numbers(&store, &table(), "AA").await.into_iter().collect();
                let other: BTreeSet<_> = numbers(&store, &table(), "BB").await.into_iter().collect();
                assert_eq!(found, other, "{context}: a write is torn");
                assert!(
                    found.is_superset(&acknowledged),
                    "{context}: {acknowledged:?} {found:?}"
                );
                assert!(found.len() <= acknowledged.len() + 1, "{context}");
                assert!(store.check(|_| ()).await.unwrap().is_sound(), "{context}");
                put_one(&store, 1_000).await;
            }
        }
    });
}

/// A load writes relaxed rows and then its progress. After a crash, no row is missing before the progress.
#[test]
fn keeps_the_rows_before_the_progress_of_a_load() {
    let mut random = Random::new(seed());
    runtime().block_on(async {
        let created = Disk::new();
        drop(logged(&created).await);
        let load = |disk: Disk| async move {
            let Ok(store) = open_on(&disk) else { return };
            let relaxed = WriteOptions {
                relaxed: true,
                ..WriteOptions::default()
            };
            for step in 0..12 {
                for number in step * 5..step * 5 + 5 {
                    let row = write(&table(), "AA", vec![put(number, 1)]);
                    if !matches!(store.write(row, relaxed).await, Ok(WriteOutcome::Done)) {
                        return;
                    }
                }
                let progress = write(&table(), "PP", vec![put(step, 1)]);
                let written = store.write(progress, WriteOptions::default()).await;
                if !matches!(written, Ok(WriteOutcome::Done)) {
                    return;
                }
                // Another client writes meanwhile.
                put_in(&store, "ZZ", step).await;
            }
        };
        let counted = created.copy();
        load(counted.clone()).await;
        for operations in 0..counted.operations() {
            let disk = created.copy();
            disk.fail_after(operations, Fault::AllFails);
            load(disk.clone()).await;
            let store = open_on(&disk.cut_power(&mut random)).unwrap();
            let rows: BTreeSet<_> = numbers(&store, &table(), "AA").await.into_iter().collect();
            let progress = numbers(&store, &table(), "PP").await;
            for step in progress {
                assert!(
                    (0..step * 5 + 5).all(|number| rows.contains(&number)),
                    "operation {operations}: step {step} is stored, but not its rows"
                );
            }
        }
    });
}

async fn put_in(store: &EmbeddedStore, carrier: &str, number: i64) {
    let row = write(&table(), carrier, vec![put(number, 1)]);
    let _ = store.write(row, WriteOptions::default()).await;
}

#[test]
fn makes_a_checkpoint_when_nothing_is_written() {
    runtime().block_on(async {
        let disk = Disk::new();
        let store = logged(&disk).await;
        put_one(&store, 1).await;
        let before = store.log_statistics();
        assert!(before.record_bytes > 0, "{before:?}");
        let begin = Instant::now();
        while store.log_statistics().record_bytes > 0 {
            assert!(begin.elapsed() < Duration::from_secs(30), "no checkpoint");
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        let after = store.log_statistics();
        assert!(after.checkpoints > before.checkpoints && after.last_checkpoint_micros > 0);
        let again = open_with_long_log(&disk.copy()).unwrap();
        assert_eq!(again.log_statistics().replayed_records, 0);
        assert!(numbers(&again, &table(), "AA").await.contains(&1));
    });
}

#[test]
fn uses_a_second_file_when_the_first_is_full() {
    runtime().block_on(async {
        let disk = Disk::new();
        let mut options = EmbeddedOptions::default();
        options.checkpoint_after = u64::MAX;
        let store = open_with(&disk, options).unwrap();
        store.create_table(&table()).await.unwrap();
        let long = "x".repeat(100_000);
        for number in 0..60 {
            let row = Operation::Put {
                clustering: key(number),
                cells: cells([&number.to_be_bytes(), long.as_bytes()]),
                replace: true,
            };
            done(&store, vec![write(&table(), "LL", vec![mutation(row, 1)])]).await;
            put_one(&store, number).await;
        }
        let log = store.log_statistics();
        assert!(log.file_bytes > 3 * FIRST_LOG_BYTES, "{log:?}");
        assert!(log.records > 90, "{log:?}");
        let again = open_with(&disk.copy(), options).unwrap();
        assert_eq!(numbers(&again, &table(), "AA").await.len(), 60);
        assert_eq!(again.dump().unwrap(), store.dump().unwrap());
    });
}

#[test]
fn rejects_files_that_do_not_belong_together() {
    runtime().block_on(async {
        let disk = Disk::new();
        let store = logged(&disk).await;
        for number in 0..10 {
            put_one(&store, number).await;
        }
        let earlier = disk.copy();
        store.sync(WriteOptions::default().timeout).await.unwrap();
        for number in 10..20 {
            put_one(&store, number).await;
        }
        let killed = disk.copy();
        let refused = |disk: &Disk| {
            let error = open_with_long_log(disk).map(drop).unwrap_err();
            assert_eq!(error.kind(), StoreErrorKind::Corrupt, "{error}");
            assert!(error.to_string().contains("log.0"), "{error}");
            assert!(error.hint().is_some(), "{error}");
        };
        let missing = killed.copy();
        missing.set_log(0, None);
        refused(&missing);
        let older_data = killed.copy();
        older_data.set_data(earlier.bytes());
        refused(&older_data);
        let other = Disk::new();
        let other_store = logged(&other).await;
        put_one(&other_store, 1).await;
        let foreign = killed.copy();
        foreign.set_log(0, other.log(0));
        refused(&foreign);
        let without_log = Disk::new();
        drop(open_without_log(&without_log).unwrap());
        let foreign = without_log.copy();
        foreign.set_log(0, killed.log(0));
        refused(&foreign);
        drop(open_with_long_log(&killed).unwrap());
    });
}

#[test]
fn reports_damage_in_the_log() {
    runtime().block_on(async {
        let disk = Disk::new();
        let store = logged(&disk).await;
        for number in 0..10 {
            put_one(&store, number).await;
        }
        assert_eq!(store.check(|_| ()).await.unwrap().log_damage, None);
        for number in 10..20 {
            put_one(&store, number).await;
        }
        let sound = disk.log(0).unwrap();
        let mut damaged = sound.clone();
        damaged[PAGE_BYTES + 100] ^= 4;
        disk.set_log(0, Some(damaged));
        let error = open_with_long_log(&disk.copy()).map(drop).unwrap_err();
        assert_eq!(error.kind(), StoreErrorKind::Corrupt, "{error}");
        assert!(error.to_string().contains("byte 4096"), "{error}");
        // The check finds the damage, and its checkpoint makes the log unnecessary.
        let report = store.check(|_| ()).await.unwrap();
        assert!(!report.is_sound() && report.log_damage.is_some(), "{report:?}");
        let report = store.check(|_| ()).await.unwrap();
        assert!(report.is_sound(), "{report:?}");
        let again = open_with_long_log(&disk.copy()).unwrap();
        let found: BTreeSet<_> = numbers(&again, &table(), "AA").await.into_iter().collect();
        assert!((0..20).all(|number| found.contains(&number)));
    });
}

/// On a full disk, a recovered store is read but not written, until there is space.
#[test]
fn recovers_on_a_full_disk() {
    runtime().block_on(async {
        let disk = Disk::new();
        let store = logged(&disk).await;
        for number in 0..30 {
            put_one(&store, number).await;
        }
        let full = disk.copy();
        drop(store);
        // The engine itself must write its header when it opens a file.
        full.fail_after(4, Fault::Full);
        let store = match open_with_long_log(&full) {
            Ok(store) => store,
            Err(error) => {
                assert_eq!(error.kind(), StoreErrorKind::Storage, "{error}");
                full.mend();
                open_with_long_log(&full).unwrap()
            }
        };
        let row = write(&table(), "AA", vec![put(100, 1)]);
        let outcome = store.write(row.clone(), WriteOptions::default()).await;
        if full.is_failing() {
            let error = outcome.unwrap_err();
            assert_eq!(error.kind(), StoreErrorKind::Storage, "{error}");
            assert!(error.hint().is_some());
            full.mend();
        }
        let begin = Instant::now();
        while !matches!(
            store.write(row.clone(), WriteOptions::default()).await,
            Ok(WriteOutcome::Done)
        ) {
            assert!(begin.elapsed() < Duration::from_secs(30), "writes stay down");
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        let found: BTreeSet<_> = numbers(&store, &table(), "AA").await.into_iter().collect();
        assert!((0..30).all(|number| found.contains(&number)) && found.contains(&100));
    });
}

/// If a damaged page prevents the replay, the store opens for reads, rejects writes and keeps the log.
#[test]
fn opens_for_reads_if_a_record_cannot_be_applied() {
    runtime().block_on(async {
        let disk = Disk::new();
        let store = logged(&disk).await;
        store.create_table(&queue()).await.unwrap();
        fill(&store, &table(), 0..20_000).await;
        store.sync(WriteOptions::default().timeout).await.unwrap();
        done(&store, vec![message(1)]).await;
        put_one(&store, 20_001).await;
        done(&store, vec![message(2)]).await;
        let killed = disk.copy();
        drop(store);
        let bytes = killed.bytes();
        let mut leaves = 0;
        for page in (PAGE_BYTES..bytes.len()).step_by(PAGE_BYTES) {
            // Damage the end of the first key of the pages with rows of carrier AA, so that the engine cannot
            // insert another row. A build for tests visits all inner pages when it opens a file, so they stay.
            let has_rows = bytes[page..page + PAGE_BYTES]
                .windows(4)
                .any(|key| key == b"AA\0\0");
            if bytes[page] == LEAF && has_rows {
                killed.set(page + 7, bytes[page + 7] ^ 0x40);
                leaves += 1;
            }
        }
        assert!(leaves > 0);
        let log = killed.log(0);
        let store = open_with_long_log(&killed).unwrap();
        let queue_rows = || async {
            let snapshot = store.snapshot().unwrap();
            let mut slice = crate::support::all(&queue(), "s", recto_model::table::ReadDirection::Forward);
            slice.limit = 10;
            let read = snapshot
                .slice(&slice, &crate::support::unbounded())
                .await
                .unwrap();
            read.rows.len()
        };
        assert_eq!(
            queue_rows().await,
            1,
            "the record before the damaged one is applied"
        );
        for _ in 0..2 {
            let error = store
                .write(message(3), WriteOptions::default())
                .await
                .unwrap_err();
            assert_eq!(error.kind(), StoreErrorKind::Corrupt, "{error}");
            assert!(error.to_string().contains("cannot be applied"), "{error}");
        }
        assert!(store.compact(|_| ()).await.is_err());
        let report = store.check(|_| ()).await.unwrap();
        assert!(report.log_damage.is_some(), "{report:?}");
        assert_eq!(queue_rows().await, 1);
        store.close().await.unwrap();
        assert_eq!(killed.log(0), log, "the log stays as it is");
        let again = open_with_long_log(&killed).unwrap();
        let error = again
            .write(message(3), WriteOptions::default())
            .await
            .unwrap_err();
        assert_eq!(error.kind(), StoreErrorKind::Corrupt, "{error}");
    });
}

/// A log file always has space for records, however small the setting is. Otherwise a killed store would have a
/// generation without a file.
#[test]
fn a_tiny_log_survives_a_kill() {
    for log_bytes in [1, 4_096, 5_000] {
        let disk = Disk::new();
        let mut options = EmbeddedOptions::default();
        options.log_bytes = log_bytes;
        runtime().block_on(async {
            let store = open_with(&disk, options).unwrap();
            store.create_table(&table()).await.unwrap();
            let begin = Instant::now();
            let mut number = 0;
            while store.log_statistics().records < 10 {
                put_one(&store, number).await;
                number += 1;
                assert!(
                    begin.elapsed() < Duration::from_secs(60),
                    "the store does not use its log"
                );
            }
            let killed = disk.copy();
            let again = open_with(&killed, options).unwrap();
            let found = numbers(&again, &table(), "AA").await.len();
            assert_eq!(i64::try_from(found).unwrap(), number);
        });
    }
}

/// A store of the format before gets a log with its first write, and not by reading it.
#[test]
fn upgrades_a_store_of_version_1() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("store");
    let format = || std::fs::read_to_string(path.join("format")).unwrap();
    runtime().block_on(async {
        let mut options = EmbeddedOptions::default();
        options.log_bytes = 0;
        let store = EmbeddedStore::open(&path, options, Environment::system()).unwrap();
        store.create_table(&table()).await.unwrap();
        fill(&store, &table(), 0..2_000).await;
        drop(store);
        std::fs::write(path.join("format"), include_str!("../golden/store-v1.txt")).unwrap();
        let store = open(&path).unwrap();
        assert_eq!(numbers(&store, &table(), "AA").await.len(), 2_000);
        drop(store);
        assert_eq!(format(), include_str!("../golden/store-v1.txt"));
        assert!(!path.join("log.0").exists());
        let store = open(&path).unwrap();
        let begin = Instant::now();
        let mut number = 2_000;
        while store.log_statistics().records < 10 {
            put_one(&store, number).await;
            number += 1;
            assert!(
                begin.elapsed() < Duration::from_secs(60),
                "the store does not use its log"
            );
        }
        assert_eq!(format(), include_str!("../golden/store-v2.txt"));
        drop(store);
        // A store that was closed is read without a recovery, and has no log if the setting says so.
        let reader = EmbeddedStore::open(&path, read_only(), Environment::system()).unwrap();
        assert_eq!(
            numbers(&reader, &table(), "AA").await.len().cast_signed() as i64,
            number
        );
        drop(reader);
        let store = EmbeddedStore::open(&path, options, Environment::system()).unwrap();
        put_one(&store, number).await;
        put_one(&store, number + 1).await;
        assert_eq!(store.log_statistics().records, 0);
        // A backup has no log.
        let backup = directory.path().join("backup");
        store.backup(&backup, |_| ()).await.unwrap();
        assert!(!backup.join("log.0").exists());
        let copy = open(&backup).unwrap();
        put_one(&copy, number + 2).await;
        assert_eq!(
            numbers(&copy, &table(), "AA").await.len().cast_signed() as i64,
            number + 3
        );
    });
}

/// A store with a damaged log is opened again without the records from the damaged one on.
#[test]
fn drops_the_damaged_end_of_a_log() {
    let directory = tempfile::tempdir().unwrap();
    let (path, killed) = (directory.path().join("store"), directory.path().join("killed"));
    runtime().block_on(async {
        let store = open(&path).unwrap();
        store.create_table(&table()).await.unwrap();
        let begin = Instant::now();
        let mut number = 0;
        while store.log_statistics().records < 20 {
            put_one(&store, number).await;
            number += 1;
            assert!(
                begin.elapsed() < Duration::from_secs(60),
                "the store does not use its log"
            );
        }
        store.sync(WriteOptions::default().timeout).await.unwrap();
        for _ in 0..20 {
            put_one(&store, number).await;
            number += 1;
        }
        copy_without_lock(&path, &killed);
    });
    let log = killed.join("log.0");
    let mut bytes = std::fs::read(&log).unwrap();
    // Damage the second record of the generation.
    let changes = u32::from_le_bytes(bytes[4_100..4_104].try_into().unwrap()) as usize;
    let second = 4_096 + (56 + changes).next_multiple_of(8);
    let first_number = u64::from_le_bytes(bytes[4_136..4_144].try_into().unwrap());
    bytes[second + 60] ^= 1;
    std::fs::write(&log, bytes).unwrap();
    runtime().block_on(async {
        let error = open(&killed).map(drop).unwrap_err();
        assert_eq!(error.kind(), StoreErrorKind::Corrupt, "{error}");
        assert!(error.to_string().contains(&format!("byte {second}")), "{error}");
        let applied = EmbeddedStore::drop_log_after(&killed, first_number, Environment::system()).unwrap();
        assert_eq!(applied, first_number);
        assert!(killed.join("log.0.dropped").exists() && !log.exists());
        let store = open(&killed).unwrap();
        let found = numbers(&store, &table(), "AA").await.len();
        assert!(found > 20, "{found}");
        for number in 1_000..1_020 {
            put_one(&store, number).await;
        }
        assert!(store.check(|_| ()).await.unwrap().is_sound());
        drop(store);
        assert_eq!(
            numbers(&open(&killed).unwrap(), &table(), "AA").await.len(),
            found + 20
        );
        // A number after the last record gives up nothing.
        EmbeddedStore::drop_log_after(&killed, u64::MAX, Environment::system()).unwrap();
        let store = open(&killed).unwrap();
        assert_eq!(numbers(&store, &table(), "AA").await.len(), found + 20);
    });
}

fn copy_without_lock(from: &std::path::Path, to: &std::path::Path) {
    std::fs::create_dir(to).unwrap();
    for entry in std::fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        if entry.file_name() != "lock" {
            std::fs::copy(entry.path(), to.join(entry.file_name())).unwrap();
        }
    }
}

/// A compacted store continues with its log, and a kill after the compaction loses nothing.
#[test]
fn keeps_its_log_through_a_compaction() {
    let directory = tempfile::tempdir().unwrap();
    let (path, killed) = (directory.path().join("store"), directory.path().join("killed"));
    runtime().block_on(async {
        let store = open(&path).unwrap();
        store.create_table(&table()).await.unwrap();
        let begin = Instant::now();
        let mut number = 0;
        while store.log_statistics().records < 10 {
            put_one(&store, number).await;
            number += 1;
            assert!(
                begin.elapsed() < Duration::from_secs(60),
                "the store does not use its log"
            );
        }
        store.compact(|_| ()).await.unwrap();
        for _ in 0..20 {
            put_one(&store, number).await;
            number += 1;
        }
        copy_without_lock(&path, &killed);
        let again = open(&killed).unwrap();
        assert_eq!(
            numbers(&again, &table(), "AA").await,
            (0..number).collect::<Vec<_>>()
        );
        assert_eq!(again.dump().unwrap(), store.dump().unwrap());
        assert!(again.check(|_| ()).await.unwrap().is_sound());
    });
}

/// A value that contains the whole log file is stored and replayed like any other.
#[test]
fn stores_a_copy_of_its_log_as_a_value() {
    runtime().block_on(async {
        let disk = Disk::new();
        let store = logged(&disk).await;
        for number in 0..20 {
            put_one(&store, number).await;
        }
        let copy = disk.log(0).unwrap()[..16 << 10].to_vec();
        let text: String = copy.iter().map(|byte| char::from(byte & 0x7f)).collect();
        let row = Operation::Put {
            clustering: key(500),
            cells: cells([&copy[4_096..12_288], text.as_bytes()]),
            replace: true,
        };
        let bytes = write(&table(), "RR", vec![mutation(row, 1)]);
        let _ = store.write(bytes, WriteOptions::default()).await;
        put_one(&store, 21).await;
        let again = open_with_long_log(&disk.copy()).unwrap();
        assert_eq!(again.dump().unwrap(), store.dump().unwrap());
    });
}
