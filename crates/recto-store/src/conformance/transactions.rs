//! Behaviors of transactions over several partitions and tables, which are applied as a whole or not at all.
//! Stores without transactions reject them.

use std::sync::Arc;
use std::time::Duration;

use recto_model::table::{ColumnKind, WriteKind};
use recto_model::{Cells, Type};

use super::Bench;
use super::fixture::{
    Fixture, ascending, at, cells, column, concat, insert, int, ints, partition, patch, put,
};
use crate::check::MAX_TRANSACTION_WRITES;
use crate::{
    Cas, CasCondition, CasOutcome, Mutation, Operation, PartitionWrite, ReadOptions, RowAddress, StoreError,
    StoreErrorKind, TransactionOutcome, WriteOptions,
};

/// Number of tasks that change the same two partitions concurrently.
const TASKS: i32 = 4;
/// Number of changes of each task.
const ROUNDS: i32 = 5;

/// Tables of a test. `records` is for conditional writes (partition `p int`, clustering `c int`, `n int`).
/// `entries` is for plain writes (partition `p int`, clustering `c int`, `a text`, `b int`).
struct Tables {
    records: Fixture,
    entries: Fixture,
}

impl Tables {
    /// Creates the tables `records` and `entries`. Returns `None` if the store has no transactions.
    async fn new(bench: &dyn Bench, prefix: &str) -> Option<Self> {
        if !bench.store().limits().transactions {
            return None;
        }
        let columns = vec![
            partition("p", Type::Int),
            ascending("c", Type::Int),
            column("n", Type::Int, ColumnKind::Regular(WriteKind::Cas)),
        ];
        Some(Self {
            records: Fixture::new(bench, prefix, columns).await,
            entries: Fixture::simple(bench, prefix).await,
        })
    }

    /// Returns a conditional write of the operations `becomes`, with the condition that record 1 of partition
    /// `p` has the value `expected`.
    fn change(&self, p: i32, expected: Option<i32>, becomes: &[Operation]) -> Cas {
        let mutation = |operation: &Operation| Mutation {
            operation: operation.clone(),
            stamp: None,
            ttl_seconds: None,
        };
        Cas {
            table: self.records.table.clone(),
            partition: ints([p]),
            conditions: vec![CasCondition {
                row: RowAddress::Row(ints([1])),
                column: 0,
                expected: expected.map(int),
            }],
            mutations: becomes.iter().map(mutation).collect(),
        }
    }

    /// Returns a conditional write that sets record 1 of partition `p` to `value` if its current value is
    /// `expected`.
    fn set(&self, p: i32, expected: Option<i32>, value: i32) -> Cas {
        self.change(p, expected, &[patch(ints([1]), [0], ints([value]))])
    }

    /// Returns a plain write that puts the entry 1 of partition `p` with the write timestamp `stamp`.
    fn entry(&self, p: i32, stamp: i64, a: &[u8]) -> PartitionWrite {
        let row = put(ints([1]), cells([Some(a), None]));
        self.entries.write_of(&ints([p]), vec![at(stamp, row)])
    }

    async fn transact(
        &self,
        conditional: &[Cas],
        plain: &[PartitionWrite],
    ) -> Result<TransactionOutcome, StoreError> {
        let (conditional, plain) = (conditional.to_vec(), plain.to_vec());
        self.records
            .store
            .transact(conditional, plain, WriteOptions::default())
            .await
    }

    async fn applies(&self, conditional: &[Cas], plain: &[PartitionWrite]) {
        let outcome = self.transact(conditional, plain).await;
        assert!(
            matches!(outcome, Ok(TransactionOutcome::Applied)),
            "{conditional:?} and {plain:?} ended as {outcome:?}"
        );
    }

    /// Returns the rows of the partitions 1 to 3 of both tables.
    async fn contents(&self) -> Vec<Vec<Cells>> {
        let mut contents = Vec::new();
        for p in 1..=3 {
            contents.push(self.records.rows(&ints([p])).await);
            contents.push(self.entries.rows(&ints([p])).await);
        }
        contents
    }

    async fn record(&self, p: i32) -> Option<Cells> {
        self.records.get(&ints([p]), &ints([1])).await
    }

    async fn drop(self) {
        self.records.drop().await;
        self.entries.drop().await;
    }
}

fn record(p: i32, n: i32) -> Cells {
    ints([p, 1, n])
}

fn entry(p: i32, a: &[u8]) -> Cells {
    concat(&ints([p, 1]), &cells([Some(a), None]))
}

/// Checks that a store with transactions applies an empty one. A store without transactions rejects it, and
/// the error says so.
pub async fn offered_or_refused(bench: &dyn Bench) {
    let store = bench.store();
    let outcome = store
        .transact(Vec::new(), Vec::new(), WriteOptions::default())
        .await;
    match outcome {
        Ok(TransactionOutcome::Applied) => assert!(store.limits().transactions),
        Ok(TransactionOutcome::Refused(error)) => {
            assert!(!store.limits().transactions, "{error}");
            assert_eq!(error.kind(), StoreErrorKind::Invalid);
            let expected = format!(
                "the {} store does not support transactions of several partitions",
                store.kind()
            );
            assert_eq!(error.to_string(), expected);
        }
        other => panic!("a transaction of nothing ended as {other:?}"),
    }
}

/// Checks that a transaction over several tables and partitions is applied as a whole if all conditions hold.
/// Otherwise nothing is applied, and the current value of each condition is returned.
pub async fn all_or_nothing(bench: &dyn Bench) {
    let Some(tables) = Tables::new(bench, "all").await else {
        return;
    };
    let plain = [tables.entry(1, 1, b"x"), tables.entry(2, 1, b"y")];
    tables
        .applies(&[tables.set(1, None, 10), tables.set(2, None, 20)], &plain)
        .await;
    let there = tables.contents().await;
    let expected = [
        vec![record(1, 10)],
        vec![entry(1, b"x")],
        vec![record(2, 20)],
        vec![entry(2, b"y")],
        vec![],
        vec![],
    ];
    assert_eq!(there, expected);
    let plain = [tables.entry(1, 2, b"z"), tables.entry(3, 2, b"z")];
    for (first, second) in [(10, 21), (11, 20), (11, 21)] {
        let conditional = [
            tables.set(1, Some(first), 100),
            tables.set(2, Some(second), 200),
            tables.set(3, None, 300),
        ];
        match tables.transact(&conditional, &plain).await {
            Ok(TransactionOutcome::NotApplied { current }) => {
                assert_eq!(current, [vec![Some(int(10))], vec![Some(int(20))], vec![None]]);
                let hold = conditional
                    .iter()
                    .zip(&current)
                    .map(|(cas, current)| cas.holds(current));
                assert_eq!(hold.collect::<Vec<_>>(), [first == 10, second == 20, true]);
            }
            other => panic!("a transaction whose conditions do not hold ended as {other:?}"),
        }
        assert_eq!(tables.contents().await, there, "nothing of it is applied");
    }
    let delete = Operation::DeleteRow {
        clustering: ints([1]),
    };
    let conditional = [
        tables.change(1, Some(10), std::slice::from_ref(&delete)),
        tables.set(2, Some(20), 21),
    ];
    let plain = [tables.entries.write_of(&ints([1]), vec![at(2, delete)])];
    tables.applies(&conditional, &plain).await;
    let expected = [
        vec![],
        vec![],
        vec![record(2, 21)],
        vec![entry(2, b"y")],
        vec![],
        vec![],
    ];
    assert_eq!(tables.contents().await, expected);
    tables.drop().await;
}

/// Checks that a conditional write of a transaction can consist of conditions only, so that the other writes
/// depend on these conditions. Plain writes alone are a valid transaction, too.
pub async fn conditions_without_mutations(bench: &dyn Bench) {
    let Some(tables) = Tables::new(bench, "look").await else {
        return;
    };
    tables.applies(&[tables.set(1, None, 7)], &[]).await;
    let looks = [tables.change(1, Some(7), &[]), tables.change(2, None, &[])];
    tables.applies(&looks, &[tables.entry(1, 1, b"x")]).await;
    let looks = [tables.change(1, Some(8), &[]), tables.set(2, None, 1)];
    match tables.transact(&looks, &[tables.entry(1, 2, b"z")]).await {
        Ok(TransactionOutcome::NotApplied { current }) => {
            assert_eq!(current, [vec![Some(int(7))], vec![None]]);
        }
        other => panic!("a transaction whose condition does not hold ended as {other:?}"),
    }
    tables
        .applies(&[], &[tables.entry(2, 1, b"y"), tables.entry(3, 1, b"w")])
        .await;
    let expected = [
        vec![record(1, 7)],
        vec![entry(1, b"x")],
        vec![],
        vec![entry(2, b"y")],
        vec![],
        vec![entry(3, b"w")],
    ];
    assert_eq!(tables.contents().await, expected);
    tables.drop().await;
}

/// Checks that conditions can read columns of plain writes. A plain write can put and delete a whole row that
/// contains columns of conditional writes.
pub async fn columns_of_either_kind(bench: &dyn Bench) {
    let Some(tables) = Tables::new(bench, "kinds").await else {
        return;
    };
    let put = at(5, put(ints([1]), ints([7])));
    let record_put = tables.records.write_of(&ints([1]), vec![put]);
    tables.applies(&[], &[record_put, tables.entry(1, 5, b"x")]).await;
    assert_eq!(tables.record(1).await, Some(record(1, 7)));
    let holds = |expected: &[u8]| Cas {
        table: tables.entries.table.clone(),
        conditions: vec![CasCondition {
            row: RowAddress::Row(ints([1])),
            column: 0,
            expected: Some(expected.to_vec()),
        }],
        ..tables.change(1, None, &[])
    };
    let delete = Operation::DeleteRow {
        clustering: ints([1]),
    };
    let record_delete = tables.records.write_of(&ints([1]), vec![at(6, delete)]);
    match tables
        .transact(&[holds(b"y")], std::slice::from_ref(&record_delete))
        .await
    {
        Ok(TransactionOutcome::NotApplied { current }) => assert_eq!(current, [vec![Some(b"x".to_vec())]]),
        other => panic!("a transaction whose condition does not hold ended as {other:?}"),
    }
    tables.applies(&[holds(b"x")], &[record_delete]).await;
    assert_eq!(tables.record(1).await, None);
    tables.drop().await;
}

/// Checks that a plain write of a transaction has its own stamp, which can be older than the clock or far
/// ahead of it. The plain write loses to newer data. A conditional write of a transaction gets a newer stamp
/// than the data that it replaces.
pub async fn each_mutation_has_its_own_stamp(bench: &dyn Bench) {
    /// Stamp in the year 2100, in microseconds since 1970.
    const FAR: i64 = 4_102_444_800_000_000;
    let Some(tables) = Tables::new(bench, "own").await else {
        return;
    };
    tables
        .entries
        .write(&ints([2]), tables.entry(2, 50, b"newer").mutations)
        .await;
    let plain = [
        tables.entry(1, 7, b"x"),
        tables.entry(2, 49, b"older"),
        tables.entry(3, FAR, b"far"),
    ];
    tables.applies(&[tables.set(1, None, 1)], &plain).await;
    let options = ReadOptions {
        stamps: true,
        ..ReadOptions::default()
    };
    let snapshot = tables.entries.snapshot();
    for (p, stamp, a) in [(1, 7, &b"x"[..]), (2, 50, b"newer"), (3, FAR, b"far")] {
        let read = snapshot.slice(&tables.entries.whole(&ints([p])), &options).await;
        let read = read.expect("rows can be read with stamps");
        assert_eq!(read.stamps, [stamp]);
        assert_eq!(read.rows.row(0), entry(p, a).as_row());
    }
    drop(snapshot);
    let newest = tables.records.store.newest_stamp();
    assert!(newest.is_none_or(|newest| newest.0 >= FAR), "{newest:?}");
    // Write many adjacent rows, none of which existed.
    let rows: Vec<_> = (10..60).map(|c| put(ints([c]), ints([c]))).collect();
    let there: Vec<_> = (10..60)
        .map(|c| at(9, put(ints([c]), cells([Some(b"x"), None]))))
        .collect();
    let look = CasCondition {
        row: RowAddress::Row(ints([9])),
        column: 0,
        expected: None,
    };
    let many = Cas {
        conditions: vec![look],
        ..tables.change(4, None, &rows)
    };
    let plain = [tables.entries.write_of(&ints([4]), there)];
    tables.applies(std::slice::from_ref(&many), &plain).await;
    tables.applies(&[many], &plain).await;
    for (fixture, least) in [(&tables.records, 1_000_000_000), (&tables.entries, 9)] {
        let read = fixture
            .snapshot()
            .slice(&fixture.whole(&ints([4])), &options)
            .await;
        let stamps = read.expect("rows can be read with stamps").stamps;
        assert_eq!(stamps.len(), 50);
        assert!(stamps.iter().all(|stamp| *stamp >= least), "{stamps:?}");
    }
    for value in 1..5 {
        let plain = [tables.entry(1, 7 + i64::from(value), b"x")];
        tables
            .applies(&[tables.set(1, Some(value), value + 1)], &plain)
            .await;
        assert_eq!(tables.record(1).await, Some(record(1, value + 1)));
    }
    tables.drop().await;
}

/// Checks that inserting a row that exists with other values is a conflict if the store detects conflicts. In
/// this case nothing of the transaction is applied. Inserting the same row succeeds.
pub async fn an_insert_that_conflicts_leaves_nothing(bench: &dyn Bench) {
    let Some(tables) = Tables::new(bench, "insert").await else {
        return;
    };
    let row = |p: i32, a: &[u8]| {
        let row = insert(ints([1]), cells([Some(a), None]));
        tables.entries.write_of(&ints([p]), vec![at(5, row)])
    };
    tables.applies(&[tables.set(1, None, 1)], &[row(1, b"x")]).await;
    tables
        .applies(&[tables.set(1, Some(1), 2)], &[row(1, b"x")])
        .await;
    if tables.entries.store.limits().sees_conflicts {
        let there = tables.contents().await;
        let conditional = [tables.set(1, Some(2), 3), tables.set(2, None, 3)];
        let plain = [tables.entry(2, 6, b"y"), row(1, b"another")];
        match tables.transact(&conditional, &plain).await {
            Ok(TransactionOutcome::Conflict(1)) => {}
            other => panic!("a transaction with a conflict ended as {other:?}"),
        }
        assert_eq!(tables.contents().await, there, "nothing of it is applied");
    }
    tables.drop().await;
}

/// Checks that a transaction that exceeds a limit, is not allowed, or names an absent table is rejected as a
/// whole.
pub async fn refusals_leave_nothing(bench: &dyn Bench) {
    let Some(tables) = Tables::new(bench, "refused").await else {
        return;
    };
    let limits = tables.records.store.limits();
    let (good, entry) = (tables.set(1, None, 1), tables.entry(1, 1, b"x"));
    let refused = async |conditional: Vec<Cas>, plain: Vec<PartitionWrite>, options, part: &str| match tables
        .records
        .store
        .transact(conditional, plain, options)
        .await
    {
        Ok(TransactionOutcome::Refused(error)) => {
            let text = error.to_string();
            assert!(text.contains(part), "{text}");
        }
        other => panic!("a transaction that is not allowed ({part}) ended as {other:?}"),
    };
    let usual = WriteOptions::default();
    let by_row = WriteOptions {
        row_by_row: true,
        ..usual
    };
    let no_stamp = {
        let mut write = entry.clone();
        write.mutations[0].stamp = None;
        write
    };
    let mut no_condition = good.clone();
    no_condition.conditions.clear();
    let many = vec![tables.entries.write_of(&ints([1]), Vec::new()); MAX_TRANSACTION_WRITES];
    let share = vec![b'x'; limits.mutation_bytes.min(limits.batch_bytes) / 2];
    let pieces = 1 + limits.batch_bytes / share.len();
    let large = vec![tables.entry(1, 1, &share); pieces];
    refused(
        vec![good.clone(), good.clone()],
        vec![],
        usual,
        "two conditional writes",
    )
    .await;
    refused(vec![good.clone()], vec![no_stamp], usual, "stamp").await;
    refused(
        vec![good.clone(), no_condition],
        vec![entry.clone()],
        usual,
        "a condition",
    )
    .await;
    refused(vec![good.clone()], vec![entry.clone()], by_row, "row by row").await;
    let most = format!(
        "{} writes; at most {MAX_TRANSACTION_WRITES} are allowed",
        MAX_TRANSACTION_WRITES + 1
    );
    refused(vec![good.clone()], many, usual, &most).await;
    let most = format!("at most {} are allowed", limits.batch_bytes);
    refused(vec![good.clone()], large, usual, &most).await;
    let late = WriteOptions {
        timeout: Duration::ZERO,
        ..usual
    };
    let (store, conditional) = (&tables.records.store, vec![good.clone()]);
    match store.transact(conditional, vec![entry.clone()], late).await {
        Ok(TransactionOutcome::Unknown(error)) | Err(error) => {
            assert_eq!(error.kind(), StoreErrorKind::Timeout, "{error}");
        }
        other => panic!("a transaction without time ended as {other:?}"),
    }
    let gone = Fixture::simple(bench, "gone").await;
    let write = gone.write_of(&ints([1]), entry.mutations.clone());
    gone.drop().await;
    match tables.transact(&[good], &[entry, write]).await {
        Ok(TransactionOutcome::Refused(error)) | Err(error) => {
            assert_eq!(error.kind(), StoreErrorKind::Table, "{error}");
        }
        other => panic!("a transaction of a table that is not there ended as {other:?}"),
    }
    assert!(tables.contents().await.iter().all(Vec::is_empty));
    tables.drop().await;
}

/// Checks that concurrent transactions and conditional writes of the same partitions lose no increment: each
/// is applied to the result of the previous one.
pub async fn transactions_are_linearizable(bench: &dyn Bench) {
    let Some(tables) = Tables::new(bench, "race").await else {
        return;
    };
    let tables = Arc::new(tables);
    let tasks: Vec<_> = (0..TASKS)
        .map(|task| {
            let tables = Arc::clone(&tables);
            tokio::spawn(async move {
                for round in 0..ROUNDS {
                    tables.count_up(task, round).await;
                    tables.count_up_one().await;
                }
            })
        })
        .collect();
    for task in tasks {
        task.await.expect("each task succeeds");
    }
    let counts = TASKS * ROUNDS;
    assert_eq!(tables.record(1).await, Some(record(1, counts)));
    assert_eq!(tables.record(2).await, Some(record(2, 2 * counts)));
    for task in 0..TASKS {
        let entries = tables.entries.rows(&ints([task])).await;
        assert_eq!(entries.len(), ROUNDS.unsigned_abs() as usize);
    }
    let tables = Arc::into_inner(tables).expect("the tasks have ended");
    tables.drop().await;
}

fn number(cell: Option<&[u8]>) -> Option<i32> {
    let bytes = cell?.try_into().expect("an int has four bytes");
    Some(i32::from_be_bytes(bytes))
}

impl Tables {
    /// Increments record 1 of partitions 1 and 2 in one transaction, which also puts an entry.
    async fn count_up(&self, task: i32, round: i32) {
        let row = put(ints([round]), cells([Some(b"x"), None]));
        let plain = [self.entries.write_of(&ints([task]), vec![at(1, row)])];
        let (mut one, mut two) = (None, None);
        loop {
            let next = |count: Option<i32>| count.unwrap_or(0) + 1;
            let conditional = [self.set(1, one, next(one)), self.set(2, two, next(two))];
            match self.transact(&conditional, &plain).await {
                Ok(TransactionOutcome::Applied) => return,
                Ok(TransactionOutcome::NotApplied { current }) => {
                    (one, two) = (number(current[0][0].as_deref()), number(current[1][0].as_deref()));
                }
                other => panic!("a transaction ended as {other:?}"),
            }
        }
    }

    /// Increments record 1 of partition 2 by a conditional write.
    async fn count_up_one(&self) {
        let mut count = None;
        loop {
            let cas = self.set(2, count, count.unwrap_or(0) + 1);
            match self.records.store.cas(cas, WriteOptions::default()).await {
                Ok(CasOutcome::Applied) => return,
                Ok(CasOutcome::NotApplied { current }) => count = number(current[0].as_deref()),
                other => panic!("a conditional write ended as {other:?}"),
            }
        }
    }
}
