//! Behaviors of requests that are rejected without writing anything.

use recto_model::table::{ColumnKind, WriteKind};
use recto_model::{Bound, Cells, Type};

use super::Bench;
use super::fixture::{
    Fixture, ascending, at, cells, column, int, ints, partition, patch, patch_static, put, regular,
};
use crate::{
    Atomicity, Cas, CasCondition, CasOutcome, Mutation, Operation, PartitionWrite, RowAddress, Stamp,
    StoreErrorKind, WriteOptions, WriteOutcome,
};

/// Largest size limit, in bytes, that a store may have. With a larger limit, the suite could not exceed the
/// limit in a test.
const LARGEST_LIMIT: usize = 64 << 20;

async fn refused(fixture: &Fixture, write: PartitionWrite) {
    let shown = format!("{:.300}", format!("{write:?}"));
    match fixture.try_write(write).await {
        Ok(WriteOutcome::Refused(error)) => assert_eq!(error.kind(), StoreErrorKind::Invalid, "{error}"),
        other => panic!("{shown} ended as {other:?}"),
    }
}

async fn refused_many(fixture: &Fixture, writes: Vec<PartitionWrite>, atomicity: Atomicity) {
    match fixture
        .store
        .write_many(writes, atomicity, WriteOptions::default())
        .await
    {
        Ok(WriteOutcome::Refused(error)) => assert_eq!(error.kind(), StoreErrorKind::Invalid, "{error}"),
        other => panic!("writes over a limit ended as {other:?}"),
    }
}

async fn refused_cas(fixture: &Fixture, cas: Cas) {
    let shown = format!("{:.300}", format!("{cas:?}"));
    match fixture.store.cas(cas, WriteOptions::default()).await {
        Ok(CasOutcome::Refused(error)) => assert_eq!(error.kind(), StoreErrorKind::Invalid, "{error}"),
        other => panic!("{shown} ended as {other:?}"),
    }
}

/// Creates a table: partition `p int`, clustering `c int`, regular `v blob`.
async fn blobs(bench: &dyn Bench, prefix: &str) -> Fixture {
    let columns = vec![
        partition("p", Type::Int),
        ascending("c", Type::Int),
        regular("v", Type::Blob),
    ];
    Fixture::new(bench, prefix, columns).await
}

fn blob_of(fixture: &Fixture, p: i32, bytes: usize) -> PartitionWrite {
    let large = vec![7; bytes];
    fixture.write_of(&ints([p]), vec![at(1, put(ints([1]), cells([Some(&large)])))])
}

/// Checks that a write above the limit of a mutation is rejected. If it is in one call with other writes,
/// these are rejected too.
pub async fn oversize_mutations(bench: &dyn Bench) {
    let fixture = blobs(bench, "oversize").await;
    let limit = fixture.store.limits().mutation_bytes;
    assert!(limit <= LARGEST_LIMIT, "the limit of a mutation is {limit}");
    refused(&fixture, blob_of(&fixture, 1, limit)).await;
    for atomicity in [Atomicity::Each, Atomicity::Logged] {
        let writes = vec![blob_of(&fixture, 2, 1), blob_of(&fixture, 1, limit)];
        refused_many(&fixture, writes, atomicity).await;
    }
    fixture.expect(&ints([1]), &[]).await;
    fixture.expect(&ints([2]), &[]).await;
    fixture.drop().await;
}

/// Checks that a logged batch above its size limit is rejected. The same writes succeed without common
/// atomicity.
pub async fn oversize_batches(bench: &dyn Bench) {
    let fixture = blobs(bench, "batch").await;
    let limits = fixture.store.limits();
    let limit = limits.batch_bytes;
    assert!(limit <= LARGEST_LIMIT, "the limit of a logged batch is {limit}");
    let piece = (limit / 3).min(limits.mutation_bytes / 2);
    let count = (limit / piece) as i32 + 1;
    let writes: Vec<PartitionWrite> = (0..count).map(|p| blob_of(&fixture, p, piece)).collect();
    refused_many(&fixture, writes.clone(), Atomicity::Logged).await;
    for p in 0..count {
        fixture.expect(&ints([p]), &[]).await;
    }
    let outcome = fixture
        .store
        .write_many(writes, Atomicity::Each, WriteOptions::default())
        .await;
    assert!(matches!(outcome, Ok(WriteOutcome::Done)), "{outcome:?}");
    for p in 0..count {
        assert!(fixture.get(&ints([p]), &ints([1])).await.is_some());
    }
    fixture.drop().await;
}

/// Checks that key parts of 65,536 bytes, keys above the limit, null parts, an empty only part and wrong
/// arities are rejected. A part with the maximum length is written and read.
pub async fn keys(bench: &dyn Bench) {
    /// Number of bytes of a key part that is longer than the maximum by one.
    const TOO_LONG: usize = 65_536;
    let columns = vec![
        partition("p", Type::Text),
        ascending("c", Type::Text),
        ascending("d", Type::Text),
        regular("v", Type::Int),
    ];
    let fixture = Fixture::new(bench, "keys", columns).await;
    let long = vec![b'k'; TOO_LONG];
    let row = |clustering: Cells| vec![at(1, put(clustering, ints([1])))];
    let (x, xx) = (cells([Some(b"x")]), cells([Some(b"x"), Some(b"x")]));
    let over = fixture.store.limits().key_bytes.min(TOO_LONG - 1);
    let partitions = [
        cells([Some(&long)]),
        cells([Some(b"")]),
        cells([None]),
        Cells::new(),
        xx.clone(),
    ];
    for key in partitions {
        refused(&fixture, fixture.write_of(&key, row(xx.clone()))).await;
    }
    let clusterings = [
        cells([Some(&long), Some(b"x")]),
        cells([Some(b"x"), Some(&long)]),
        cells([Some(&long[..over]), Some(&long[..over])]),
        cells([None, Some(b"x")]),
        cells([Some(b"x"), None]),
        Cells::new(),
        x.clone(),
        cells([Some(b"x"), Some(b"x"), Some(b"x")]),
    ];
    for key in clusterings {
        refused(&fixture, fixture.write_of(&x, row(key.clone()))).await;
        let delete = Operation::DeleteRow {
            clustering: key.clone(),
        };
        refused(&fixture, fixture.write_of(&x, vec![at(1, delete)])).await;
        let patch = patch(key, [0], ints([1]));
        refused(&fixture, fixture.write_of(&x, vec![at(1, patch)])).await;
    }
    let range = Operation::DeleteRange {
        from: Bound::After(cells([None])),
        to: Bound::end(),
    };
    refused(&fixture, fixture.write_of(&x, vec![at(1, range)])).await;
    fixture.expect(&x, &[]).await;
    let largest = cells([Some(&long[..over])]);
    let clustering = cells([Some(b""), Some(&long[..over - 1])]);
    fixture.write(&largest, row(clustering.clone())).await;
    assert!(fixture.get(&largest, &clustering).await.is_some());
    assert_eq!(fixture.rows(&largest).await.len(), 1);
    fixture.drop().await;
}

/// Checks that plain writes are rejected in these cases:
///
/// - They have no stamp.
/// - They have an expiry of zero or of more than 20 years.
/// - They have unknown columns, or a column twice.
/// - The number of columns differs from the number of cells.
pub async fn malformed_mutations(bench: &dyn Bench) {
    let fixture = Fixture::with_statics(bench, "malformed").await;
    let p = ints([1]);
    let whole = put(ints([1]), cells([Some(b"x")]));
    let mutation = |operation, stamp: Option<i64>, ttl_seconds| Mutation {
        operation,
        stamp: stamp.map(Stamp),
        ttl_seconds,
    };
    let mut malformed = vec![
        mutation(whole.clone(), None, None),
        mutation(whole.clone(), Some(1), Some(0)),
        mutation(whole.clone(), Some(1), Some(630_720_001)),
    ];
    let operations = [
        put(ints([1]), Cells::new()),
        put(ints([1]), cells([None, None])),
        patch(ints([1]), [1], cells([None])),
        patch(ints([1]), [0, 0], cells([None, None])),
        patch(ints([1]), [0], cells([None, None])),
        patch_static([2], cells([None])),
        patch_static([0, 0], cells([None, None])),
        patch_static([], Cells::new()),
    ];
    malformed.extend(operations.map(|operation| at(1, operation)));
    for mutation in malformed {
        let beside = at(1, put(ints([2]), cells([Some(b"x")])));
        refused(&fixture, fixture.write_of(&p, vec![beside, mutation])).await;
    }
    fixture.expect(&p, &[]).await;
    fixture.drop().await;
}

/// Creates a table: static `s` and regular `n` for conditional writes, static `t` and regular `v` for plain
/// writes.
async fn kinds(bench: &dyn Bench, prefix: &str) -> Fixture {
    let columns = vec![
        partition("p", Type::Int),
        ascending("c", Type::Int),
        column("s", Type::Int, ColumnKind::Static(WriteKind::Cas)),
        column("t", Type::Int, ColumnKind::Static(WriteKind::Plain)),
        column("n", Type::Int, ColumnKind::Regular(WriteKind::Cas)),
        column("v", Type::Int, ColumnKind::Regular(WriteKind::Plain)),
    ];
    Fixture::new(bench, prefix, columns).await
}

fn merging(n: Option<i32>, v: Option<i32>) -> Operation {
    Operation::Put {
        clustering: ints([1]),
        cells: cells([n.map(int).as_deref(), v.map(int).as_deref()]),
        replace: false,
    }
}

fn cas_of(fixture: &Fixture, conditions: Vec<CasCondition>, operations: Vec<Operation>) -> Cas {
    let mutation = |operation| Mutation {
        operation,
        stamp: None,
        ttl_seconds: None,
    };
    Cas {
        table: fixture.table.clone(),
        partition: ints([1]),
        conditions,
        mutations: operations.into_iter().map(mutation).collect(),
    }
}

fn condition(row: Option<i32>, column: u16) -> CasCondition {
    CasCondition {
        row: row.map_or(RowAddress::Static, |c| RowAddress::Row(ints([c]))),
        column,
        expected: None,
    }
}

/// Checks that a column is written either by plain writes or by conditional writes, as its table defines. The
/// other kind of write is rejected.
pub async fn columns_of_the_other_kind(bench: &dyn Bench) {
    let fixture = kinds(bench, "kinds").await;
    let p = ints([1]);
    let both = put(ints([1]), cells([None, None]));
    let delete = Operation::DeleteRow {
        clustering: ints([1]),
    };
    let range = Operation::DeleteRange {
        from: Bound::start(),
        to: Bound::end(),
    };
    let plain = [
        both.clone(),
        merging(Some(1), None),
        patch(ints([1]), [0], ints([1])),
        patch(ints([1]), [1, 0], cells([None, None])),
        patch_static([0], ints([1])),
        delete.clone(),
        range,
        Operation::DeletePartition,
    ];
    for operation in plain {
        refused(&fixture, fixture.write_of(&p, vec![at(1, operation)])).await;
    }
    let conditional = [
        both,
        merging(None, Some(1)),
        patch(ints([1]), [1], ints([1])),
        patch_static([1], ints([1])),
        delete,
    ];
    for operation in conditional {
        let cas = cas_of(&fixture, vec![condition(None, 0)], vec![operation]);
        refused_cas(&fixture, cas).await;
    }
    let touch = || vec![merging(Some(1), None)];
    refused_cas(&fixture, cas_of(&fixture, vec![condition(None, 1)], touch())).await;
    refused_cas(&fixture, cas_of(&fixture, vec![condition(Some(1), 1)], touch())).await;
    fixture.expect(&p, &[]).await;
    assert_eq!(fixture.get_statics(&p).await, None);

    fixture.apply(&p, 1, merging(None, Some(5))).await;
    fixture.apply(&p, 1, patch_static([1], ints([6]))).await;
    let cas = cas_of(
        &fixture,
        vec![condition(None, 0)],
        vec![merging(Some(7), None), patch_static([0], ints([8]))],
    );
    let outcome = fixture.store.cas(cas, WriteOptions::default()).await;
    assert!(matches!(outcome, Ok(CasOutcome::Applied)), "{outcome:?}");
    fixture.expect(&p, &[ints([1, 1, 8, 6, 7, 5])]).await;
    fixture.drop().await;
}

/// Checks that conditional writes are rejected in these cases:
///
/// - They have no condition, no mutation, or a stamp.
/// - They have a condition on a row that they do not write.
/// - They write a row twice, or write ranges.
/// - They exceed the limit, or contain wrong columns.
pub async fn malformed_conditional_writes(bench: &dyn Bench) {
    let columns = vec![
        partition("p", Type::Int),
        ascending("c", Type::Int),
        column("s", Type::Int, ColumnKind::Static(WriteKind::Cas)),
        column("n", Type::Blob, ColumnKind::Regular(WriteKind::Cas)),
    ];
    let fixture = Fixture::new(bench, "cas_malformed", columns).await;
    let row = || put(ints([1]), cells([Some(b"x")]));
    let large = vec![7; fixture.store.limits().mutation_bytes];
    let delete = Operation::DeleteRow {
        clustering: ints([1]),
    };
    let range = Operation::DeleteRange {
        from: Bound::start(),
        to: Bound::end(),
    };
    let on = |row, column| vec![condition(row, column)];
    let malformed = [
        (Vec::new(), vec![row()]),
        (on(None, 0), Vec::new()),
        (on(Some(2), 0), vec![row()]),
        (on(Some(1), 0), vec![patch_static([0], ints([1]))]),
        (on(None, 1), vec![row()]),
        (on(Some(1), 1), vec![row()]),
        (on(None, 0), vec![row(), delete]),
        (on(None, 0), vec![row(), patch(ints([1]), [0], cells([None]))]),
        (on(None, 0), vec![patch(ints([1]), [], Cells::new())]),
        (on(None, 0), vec![range]),
        (on(None, 0), vec![Operation::DeletePartition]),
        (on(None, 0), vec![put(ints([1]), cells([Some(&large)]))]),
        (on(None, 0), vec![put(ints([1, 2]), cells([None]))]),
        (on(None, 0), vec![put(ints([1]), cells([None, None]))]),
    ];
    for (conditions, operations) in malformed {
        refused_cas(&fixture, cas_of(&fixture, conditions, operations)).await;
    }
    let mut stamped = cas_of(&fixture, on(None, 0), vec![row()]);
    stamped.mutations[0].stamp = Some(Stamp(1));
    refused_cas(&fixture, stamped).await;
    let mut elsewhere = cas_of(&fixture, on(None, 0), vec![row()]);
    elsewhere.partition = Cells::new();
    refused_cas(&fixture, elsewhere).await;
    fixture.expect(&ints([1]), &[]).await;
    fixture.drop().await;
}
