//! Tests of the wrapper that injects faults. It must inject every fault that the rules of a store permit, and
//! no others.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use crate::common::{Clock, ClockBench};
use recto_model::table::{ColumnKind, ReadDirection, TableOptions, WriteKind};
use recto_model::{Bound, Cells, Column, Direction, Slice, Table, Type};
use recto_store::faults::{FaultKind, FaultRates, FaultyStore};
use recto_store::memory::MemoryStore;
use recto_store::{
    Atomicity, Cas, CasCondition, CasOutcome, ConsistencyLevel, Mutation, Operation, PartitionWrite,
    ReadOptions, RowAddress, Stamp, Store, StoreErrorKind, TableOutcome, TransactionOutcome, WriteOptions,
    WriteOutcome,
};

mod without_faults {
    use std::future::{Ready, ready};

    use super::{Arc, Clock, ClockBench, FaultRates, FaultyStore, MemoryStore};

    fn bench() -> Ready<ClockBench> {
        let clock = Clock::new();
        let inner = Arc::new(MemoryStore::new(clock.environment()));
        let store = Arc::new(FaultyStore::new(inner, 1, FaultRates::NONE));
        ready(ClockBench { clock, store })
    }

    recto_store::conformance_suite!(bench());
}

/// Store that injects faults, the inner store, and a table with the columns `p int`, `c int` and `v int`.
/// Column `v` is for plain or for conditional writes.
struct Fixture {
    faulty: FaultyStore,
    inner: Arc<dyn Store>,
    table: Arc<Table>,
}

fn column(name: &str, kind: ColumnKind) -> Column {
    Column {
        name: name.to_owned(),
        ty: Type::Int,
        kind,
    }
}

fn table(name: &str, kind: WriteKind) -> Table {
    let columns = vec![
        column("p", ColumnKind::Partition),
        column("c", ColumnKind::Clustering(Direction::Ascending)),
        column("v", ColumnKind::Regular(kind)),
    ];
    Table::new(name, columns, TableOptions::default()).unwrap()
}

async fn fixture(seed: u64, rates: FaultRates, kind: WriteKind) -> Fixture {
    let table = table("t", kind);
    let inner: Arc<dyn Store> = Arc::new(MemoryStore::new(Clock::new().environment()));
    inner.create_table(&table).await.unwrap();
    Fixture {
        faulty: FaultyStore::new(inner.clone(), seed, rates),
        inner,
        table: Arc::new(table),
    }
}

fn int(value: i32) -> Cells {
    std::iter::once(Some(value.to_be_bytes().as_slice())).collect()
}

impl Fixture {
    fn write(&self, p: i32, stamp: i64, rows: &[(i32, i32)]) -> PartitionWrite {
        let put = |(c, v): &(i32, i32)| Mutation {
            operation: Operation::Put {
                clustering: int(*c),
                cells: int(*v),
                replace: true,
            },
            stamp: Some(Stamp(stamp)),
            ttl_seconds: None,
        };
        PartitionWrite {
            table: self.table.clone(),
            partition: int(p),
            mutations: rows.iter().map(put).collect(),
        }
    }

    fn cas(&self, p: i32, expected: Option<i32>, value: i32) -> Cas {
        Cas {
            table: self.table.clone(),
            partition: int(p),
            conditions: vec![CasCondition {
                row: RowAddress::Row(int(1)),
                column: 0,
                expected: expected.map(|value| value.to_be_bytes().to_vec()),
            }],
            mutations: vec![Mutation {
                operation: Operation::Patch {
                    clustering: int(1),
                    columns: vec![0],
                    cells: int(value),
                },
                stamp: None,
                ttl_seconds: None,
            }],
        }
    }

    async fn read(&self, store: &dyn Store, p: i32, options: &ReadOptions) -> BTreeMap<i32, i32> {
        let slice = Slice {
            table: self.table.clone(),
            partition: int(p),
            from: Bound::start(),
            to: Bound::end(),
            direction: ReadDirection::Forward,
            limit: 1000,
        };
        let number = |cell: Option<&[u8]>| i32::from_be_bytes(cell.unwrap().try_into().unwrap());
        let rows = store
            .snapshot()
            .unwrap()
            .slice(&slice, options)
            .await
            .unwrap()
            .rows;
        rows.iter()
            .map(|row| (number(row.get(1)), number(row.get(2))))
            .collect()
    }

    /// Returns the rows of a partition in the inner store.
    async fn held(&self, p: i32) -> BTreeMap<i32, i32> {
        self.read(&*self.inner, p, &ReadOptions::default()).await
    }
}

/// A write that is repeated until it succeeds stays. No write that is applied late replaces it.
#[tokio::test]
async fn acknowledged_writes_stay() {
    for seed in 0..200 {
        let fixture = fixture(seed, FaultRates::all(0.1), WriteKind::Plain).await;
        for round in 1..=20 {
            let write = fixture.write(1, i64::from(round), &[(round % 3, round)]);
            loop {
                match fixture.faulty.write(write.clone(), WriteOptions::default()).await {
                    Ok(WriteOutcome::Done) => break,
                    Ok(WriteOutcome::Unknown(_)) | Err(_) => {}
                    Ok(other) => panic!("{other:?}"),
                }
            }
            assert_eq!(
                fixture.held(1).await[&(round % 3)],
                round,
                "{}",
                fixture.faulty.report()
            );
        }
        fixture.faulty.settle().await;
        assert_eq!(fixture.faulty.pending(), 0);
        let expected = BTreeMap::from([(0, 18), (1, 19), (2, 20)]);
        assert_eq!(fixture.held(1).await, expected, "{}", fixture.faulty.report());
    }
}

/// A failed write is never applied. A partition or a logged batch is applied as a whole or not at
/// all. If writes have no common atomicity, any subset of the partitions may be applied.
#[tokio::test]
async fn writes_are_whole_or_absent() {
    let mut subsets = BTreeSet::new();
    for seed in 0..400 {
        let rates = FaultRates {
            late: 0.4,
            ..FaultRates::all(0.1)
        };
        let fixture = fixture(seed, rates, WriteKind::Plain).await;
        let atomicity = if seed % 2 == 0 {
            Atomicity::Logged
        } else {
            Atomicity::Each
        };
        let rows = [(1, 5), (2, 5)];
        let writes = (1..=3).map(|p| fixture.write(p, 1, &rows)).collect();
        let outcome = fixture
            .faulty
            .write_many(writes, atomicity, WriteOptions::default())
            .await;
        fixture.faulty.settle().await;
        let mut there = Vec::new();
        for p in 1..=3 {
            let held = fixture.held(p).await;
            assert!(
                held.is_empty() || held == BTreeMap::from(rows),
                "{}",
                fixture.faulty.report()
            );
            there.push(!held.is_empty());
        }
        let all = there.iter().all(|there| *there);
        let none = there.iter().all(|there| !*there);
        match outcome {
            Ok(WriteOutcome::Done) => assert!(all, "{}", fixture.faulty.report()),
            Err(_) => assert!(none, "{}", fixture.faulty.report()),
            Ok(WriteOutcome::Unknown(_)) if atomicity == Atomicity::Each => {
                subsets.insert(there);
            }
            Ok(WriteOutcome::Unknown(_)) => assert!(all || none, "{}", fixture.faulty.report()),
            Ok(other) => panic!("{other:?}"),
        }
    }
    assert_eq!(
        subsets.len(),
        8,
        "every subset of three partitions is seen: {subsets:?}"
    );
}

/// A counter that only conditional writes change from n to n + 1 never skips or repeats a number, and
/// contains every acknowledged step.
#[tokio::test]
async fn conditional_writes_apply_at_most_once() {
    for seed in 0..200 {
        let fixture = fixture(seed, FaultRates::all(0.1), WriteKind::Cas).await;
        let serial = ReadOptions {
            consistency: Some(ConsistencyLevel::Serial),
            ..ReadOptions::default()
        };
        let mut acknowledged = 0;
        for _ in 0..60 {
            let held = fixture.held(1).await.get(&1).copied();
            let next = held.unwrap_or(0) + 1;
            let outcome = fixture
                .faulty
                .cas(fixture.cas(1, held, next), WriteOptions::default())
                .await;
            match outcome {
                Ok(CasOutcome::Applied) => {
                    assert!(next > acknowledged, "{}", fixture.faulty.report());
                    acknowledged = next;
                    assert_eq!(fixture.held(1).await[&1], next, "{}", fixture.faulty.report());
                }
                Ok(CasOutcome::Refused(error)) => panic!("{error}"),
                // A late or decided write was applied before this conditional write, so its
                // condition did not hold.
                Ok(CasOutcome::NotApplied { current }) => {
                    assert_ne!(current, [held.map(|held| held.to_be_bytes().to_vec())]);
                }
                Ok(CasOutcome::Unknown(_)) | Err(_) => {}
            }
        }
        fixture.faulty.set_rates(FaultRates::NONE);
        fixture.faulty.settle().await;
        let last = fixture.read(&fixture.faulty, 1, &serial).await[&1];
        assert!(last >= acknowledged, "{}", fixture.faulty.report());
    }
}

/// A transaction that increments two counters and puts a row in another table is applied as a whole or not at
/// all. This holds even if the outcome of the transaction is unknown or the transaction is applied late.
/// Every acknowledged step stays.
#[tokio::test]
async fn transactions_are_whole_and_apply_at_most_once() {
    let mut late = 0;
    for seed in 0..100 {
        let counts = fixture(seed, FaultRates::all(0.1), WriteKind::Cas).await;
        let entries = Fixture {
            faulty: counts.faulty.clone(),
            inner: counts.inner.clone(),
            table: Arc::new(table("entries", WriteKind::Plain)),
        };
        entries.inner.create_table(&entries.table).await.unwrap();
        let mut acknowledged = 0;
        for round in 0..40 {
            let held = counts.held(1).await.get(&1).copied();
            let next = held.unwrap_or(0) + 1;
            let conditional = vec![counts.cas(1, held, next), counts.cas(2, held, next)];
            let plain = vec![entries.write(1, 1, &[(next, next)])];
            let options = WriteOptions::default();
            match counts.faulty.transact(conditional, plain, options).await {
                Ok(TransactionOutcome::Applied) => acknowledged = next,
                Ok(TransactionOutcome::Unknown(_)) | Err(_) => {}
                // A late transaction was applied before this transaction, so its conditions did not
                // hold.
                Ok(TransactionOutcome::NotApplied { current }) => {
                    assert_ne!(current[0], [held.map(|held| held.to_be_bytes().to_vec())]);
                }
                Ok(other) => panic!("{other:?}"),
            }
            if round == 39 {
                counts.faulty.set_rates(FaultRates::NONE);
                late += counts.faulty.settle().await;
            }
            let count = counts.held(1).await.get(&1).copied();
            let report = || counts.faulty.report();
            assert!(count.unwrap_or(0) >= acknowledged, "{}", report());
            assert_eq!(counts.held(2).await.get(&1).copied(), count, "{}", report());
            let rows: Vec<i32> = entries.held(1).await.into_keys().collect();
            assert_eq!(rows, (1..=count.unwrap_or(0)).collect::<Vec<_>>(), "{}", report());
        }
    }
    assert!(late > 0, "some transaction was late to the end");
}

/// An emptying that takes effect late removes rows that were written after it, even if the table was replaced
/// by another one of the same name.
#[tokio::test]
async fn an_emptying_comes_late() {
    let rates = FaultRates {
        late: 1.0,
        ..FaultRates::NONE
    };
    let fixture = fixture(1, rates, WriteKind::Plain).await;
    let emptied = fixture.faulty.empty_table(&fixture.table).await;
    assert!(matches!(emptied, Ok(TableOutcome::Unknown(_))), "{emptied:?}");
    fixture.faulty.set_rates(FaultRates::NONE);
    fixture.faulty.drop_table("t").await.unwrap();
    fixture.faulty.create_table(&fixture.table).await.unwrap();
    let write = fixture.write(1, 1, &[(1, 7)]);
    let written = fixture.faulty.write(write, WriteOptions::default()).await;
    assert!(matches!(written, Ok(WriteOutcome::Done)), "{written:?}");
    assert_eq!(fixture.held(1).await, BTreeMap::from([(1, 7)]));
    assert_eq!((fixture.faulty.pending(), fixture.faulty.settle().await), (1, 1));
    assert!(fixture.held(1).await.is_empty());
}

/// An emptying that succeeded happens once, and one that failed never happens. If its outcome is unknown, it
/// has happened, happens after later writes, or never happens.
#[tokio::test]
async fn emptyings_happen_once_if_at_all() {
    let mut unknown = BTreeSet::new();
    for seed in 0..300 {
        let fixture = fixture(seed, FaultRates::all(0.15), WriteKind::Plain).await;
        let write = |round| {
            fixture
                .inner
                .write(fixture.write(1, 1, &[(round, round)]), WriteOptions::default())
        };
        write(1).await.unwrap();
        let outcome = fixture.faulty.empty_table(&fixture.table).await;
        write(2).await.unwrap();
        fixture.faulty.set_rates(FaultRates::NONE);
        fixture.faulty.settle().await;
        let left: Vec<i32> = fixture.held(1).await.into_keys().collect();
        match outcome {
            Ok(TableOutcome::Done) => assert_eq!(left, [2], "{}", fixture.faulty.report()),
            Err(_) => assert_eq!(left, [1, 2], "{}", fixture.faulty.report()),
            Ok(TableOutcome::Unknown(_)) => drop(unknown.insert(left)),
        }
    }
    assert_eq!(unknown, BTreeSet::from([vec![], vec![2], vec![1, 2]]));
}

/// Values of conditional writes can reappear in an emptied table, unless another value was decided after the
/// emptying. The values do not reappear in another table with the same name.
#[tokio::test]
async fn conditional_writes_outlive_an_emptied_table() {
    let rates = FaultRates {
        revive: 1.0,
        ..FaultRates::NONE
    };
    let fixture = fixture(1, rates, WriteKind::Cas).await;
    let (options, faulty) = (WriteOptions::default(), &fixture.faulty);
    let decide = async |p, value| {
        let outcome = faulty.cas(fixture.cas(p, None, value), options).await;
        assert!(matches!(outcome, Ok(CasOutcome::Applied)), "{outcome:?}");
    };
    let empty = async || {
        let outcome = faulty.empty_table(&fixture.table).await;
        assert!(matches!(outcome, Ok(TableOutcome::Done)), "{outcome:?}");
    };
    decide(1, 7).await;
    decide(2, 7).await;
    empty().await;
    assert!(fixture.held(1).await.is_empty() && fixture.held(2).await.is_empty());
    decide(2, 8).await;
    assert_eq!(faulty.settle().await, 2);
    assert_eq!(fixture.held(1).await, BTreeMap::from([(1, 7)]));
    assert_eq!(fixture.held(2).await, BTreeMap::from([(1, 8)]));
    assert_eq!(faulty.counts()[&FaultKind::Revived], 2);

    empty().await;
    assert_eq!(faulty.pending(), 2);
    faulty.drop_table("t").await.unwrap();
    faulty.create_table(&fixture.table).await.unwrap();
    assert_eq!(faulty.settle().await, 0);
    assert!(fixture.held(1).await.is_empty());
}

/// Reads that are not serial miss a conditional write that is decided but not learned. A serial read or the
/// next conditional write of the partition makes the write visible.
#[tokio::test]
async fn reads_miss_what_is_decided() {
    let rates = FaultRates {
        decide: 1.0,
        ..FaultRates::NONE
    };
    for serial in [true, false] {
        let fixture = fixture(1, rates, WriteKind::Cas).await;
        let outcome = fixture
            .faulty
            .cas(fixture.cas(1, None, 7), WriteOptions::default())
            .await;
        assert!(matches!(outcome, Ok(CasOutcome::Unknown(_))), "{outcome:?}");
        fixture.faulty.set_rates(FaultRates::NONE);
        let plain = ReadOptions::default();
        assert!(fixture.read(&fixture.faulty, 1, &plain).await.is_empty());
        if serial {
            let options = ReadOptions {
                consistency: Some(ConsistencyLevel::LocalSerial),
                ..plain
            };
            assert_eq!(
                fixture.read(&fixture.faulty, 1, &options).await,
                BTreeMap::from([(1, 7)])
            );
        } else {
            let outcome = fixture
                .faulty
                .cas(fixture.cas(1, None, 8), WriteOptions::default())
                .await;
            let Ok(CasOutcome::NotApplied { current }) = outcome else {
                panic!("{outcome:?}");
            };
            assert_eq!(current, [Some(vec![0, 0, 0, 7])]);
        }
        assert_eq!(
            fixture.read(&fixture.faulty, 1, &plain).await,
            BTreeMap::from([(1, 7)])
        );
    }
}

/// Equal seeds give equal faults, and different seeds give different faults. Every kind of fault occurs, and
/// the wrapper counts and records each one.
#[tokio::test]
async fn faults_are_repeatable_and_told() {
    async fn run(seed: u64) -> FaultyStore {
        let rates = FaultRates {
            delay: 0.1,
            max_delay: Duration::from_micros(10),
            ..FaultRates::all(0.1)
        };
        let plain = fixture(seed, rates, WriteKind::Plain).await;
        let options = WriteOptions::default();
        for round in 1..=150 {
            let one = plain.write(1, i64::from(round), &[(1, round)]);
            let two = plain.write(2, i64::from(round), &[(1, round)]);
            drop(plain.faulty.write(one.clone(), options).await);
            drop(
                plain
                    .faulty
                    .write_many(vec![one, two], Atomicity::Each, options)
                    .await,
            );
            let conditional = Cas {
                conditions: vec![],
                ..plain.cas(3, None, round)
            };
            assert!(matches!(
                plain.faulty.cas(conditional, options).await,
                Ok(CasOutcome::Refused(_))
            ));
            let slice = Slice {
                table: plain.table.clone(),
                partition: int(1),
                from: Bound::start(),
                to: Bound::end(),
                direction: ReadDirection::Forward,
                limit: 1,
            };
            let read = plain
                .faulty
                .snapshot()
                .unwrap()
                .slice(&slice, &ReadOptions::default())
                .await;
            if let Err(error) = read {
                assert!([StoreErrorKind::Timeout, StoreErrorKind::Unavailable].contains(&error.kind()));
            }
        }
        plain.faulty
    }
    let (first, again, other) = (run(1).await, run(1).await, run(2).await);
    assert_eq!(first.faults(), again.faults());
    assert_ne!(first.faults(), other.faults());
    let plain = [
        FaultKind::Failed,
        FaultKind::Delayed,
        FaultKind::Repeated,
        FaultKind::Lost,
        FaultKind::Unanswered,
        FaultKind::Late,
        FaultKind::Arrived,
        FaultKind::Scattered,
        FaultKind::ReadTimedOut,
    ];
    for kind in plain {
        assert!(
            first.counts().contains_key(&kind),
            "{kind:?} never happened:\n{}",
            first.report()
        );
    }
    assert_eq!(first.counts().values().sum::<u64>(), first.faults().len() as u64);
    assert!(first.report().starts_with("FaultyStore(seed 1, memory)\ncall "));
}

/// A call that drops a table can fail before the table is dropped, or have an unknown outcome.
#[tokio::test]
async fn table_changes_fail() {
    let (mut failed, mut unknown) = (0, 0);
    for seed in 0..100 {
        let fixture = fixture(seed, FaultRates::all(0.15), WriteKind::Plain).await;
        let dropped = fixture.faulty.drop_table("t").await;
        let there = !fixture.inner.list_tables().await.unwrap().is_empty();
        match dropped {
            Ok(TableOutcome::Done) => assert!(!there),
            Ok(TableOutcome::Unknown(_)) => unknown += 1,
            Err(_) => {
                assert!(there);
                failed += 1;
            }
        }
    }
    assert!(failed > 0 && unknown > 0, "{failed} failed, {unknown} unknown");
}
