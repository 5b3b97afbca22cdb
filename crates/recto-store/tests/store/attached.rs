//! Tests of read-only tables of other keyspaces next to a store's own tables.

use std::future::{Ready, ready};
use std::sync::Arc;

use crate::common::{Clock, ClockBench};
use recto_model::table::{ColumnKind, TableOptions, WriteKind};
use recto_model::{Cells, Column, Direction, Slice, Table, Type};
use recto_store::memory::MemoryStore;
use recto_store::{
    Atomicity, AttachedStore, Cas, CasOutcome, Mutation, Operation, PartitionWrite, PointRead, ReadOptions,
    Stamp, Store, StoreErrorKind, TableOutcome, TableState, TokenRange, TransactionOutcome, WriteOptions,
    WriteOutcome,
};

fn memory(clock: &Clock) -> Arc<MemoryStore> {
    Arc::new(MemoryStore::new(clock.environment()))
}

fn bench() -> Ready<ClockBench> {
    let clock = Clock::new();
    let attached = AttachedStore::over(memory(&clock));
    attached.reach("other", memory(&clock));
    let store = Arc::new(attached);
    ready(ClockBench { clock, store })
}

mod own_tables {
    use super::bench;
    recto_store::conformance_suite!(bench());
}

fn table(name: &str) -> Arc<Table> {
    let column = |name: &str, kind| Column {
        name: name.to_owned(),
        ty: Type::Int,
        kind,
    };
    let columns = vec![
        column("p", ColumnKind::Partition),
        column("c", ColumnKind::Clustering(Direction::Descending)),
        column("s", ColumnKind::Static(WriteKind::Plain)),
        column("v", ColumnKind::Regular(WriteKind::Plain)),
    ];
    Arc::new(Table::new(name, columns, TableOptions::default()).unwrap())
}

fn cells(values: impl IntoIterator<Item = i32>) -> Cells {
    let mut cells = Cells::new();
    for value in values {
        cells.push(Some(&value.to_be_bytes()));
    }
    cells
}

fn put(table: &Arc<Table>, partition: i32, row: i32, value: i32) -> PartitionWrite {
    PartitionWrite {
        table: Arc::clone(table),
        partition: cells([partition]),
        mutations: vec![Mutation {
            stamp: Some(Stamp(1)),
            ttl_seconds: None,
            operation: Operation::Put {
                clustering: cells([row]),
                cells: cells([value]),
                replace: true,
            },
        }],
    }
}

#[tokio::test]
async fn reads_go_to_who_reaches_the_table() {
    let clock = Clock::new();
    let (own, other) = (memory(&clock), memory(&clock));
    let (mine, theirs) = (table("t"), table("other.t"));
    own.create_table(&mine).await.unwrap();
    other.create_table(&theirs).await.unwrap();
    for row in 0..5 {
        own.write(put(&mine, 1, row, 10), WriteOptions::default())
            .await
            .unwrap();
        other
            .write(put(&theirs, 1, row, 20), WriteOptions::default())
            .await
            .unwrap();
    }
    let store = AttachedStore::over(Arc::clone(&own) as Arc<dyn Store>);
    let slice = |table: &Arc<Table>| Slice::from_start(table, cells([1]), 10);
    let options = ReadOptions::default();
    let refused = store.snapshot().unwrap().slice(&slice(&theirs), &options).await;
    assert_eq!(
        refused.unwrap_err().kind(),
        StoreErrorKind::Table,
        "nobody reaches it yet"
    );

    store.reach("other", Arc::clone(&other) as Arc<dyn Store>);
    assert!(store.reached_by("other").is_some() && store.reached_by("third").is_none());
    let snapshot = store.snapshot().unwrap();
    for (table, there) in [
        (&mine, own.snapshot().unwrap()),
        (&theirs, other.snapshot().unwrap()),
    ] {
        let read = snapshot.slice(&slice(table), &options).await.unwrap();
        let expected = there.slice(&slice(table), &options).await.unwrap();
        assert_eq!(format!("{read:?}"), format!("{expected:?}"));
        let point = PointRead {
            table: Arc::clone(table),
            partition: cells([1]),
            clustering: cells([3]),
        };
        let read = snapshot
            .get_many(&[point.clone(), point.clone()], &options)
            .await
            .unwrap();
        assert_eq!((read.len(), read[0].rows.len()), (2, 1));
        let range = TokenRange::whole();
        let read = snapshot.scan(table, &range, None, 10, &options).await.unwrap();
        assert_eq!(read.rows.len(), 5);
    }
    let third = table("third.t");
    let asked = [&theirs, &mine, &third].map(|table| Table::clone(table));
    let states = store.compare_tables(&asked).await.unwrap();
    assert_eq!(
        states,
        [TableState::AsAsked, TableState::AsAsked, TableState::Missing]
    );
    let listed: Vec<String> = store
        .list_tables()
        .await
        .unwrap()
        .iter()
        .map(|one| one.name().to_owned())
        .collect();
    assert_eq!(listed, ["t"], "what is attached is not the store's own");
}

#[tokio::test]
async fn a_partition_of_static_cells_alone_has_no_row() {
    let clock = Clock::new();
    let (own, other) = (memory(&clock), memory(&clock));
    let theirs = table("other.t");
    other.create_table(&theirs).await.unwrap();
    other
        .write(put(&theirs, 1, 1, 20), WriteOptions::default())
        .await
        .unwrap();
    let statics = PartitionWrite {
        table: Arc::clone(&theirs),
        partition: cells([2]),
        mutations: vec![Mutation {
            stamp: Some(Stamp(1)),
            ttl_seconds: None,
            operation: Operation::PatchStatic {
                columns: vec![0],
                cells: cells([7]),
            },
        }],
    };
    other.write(statics, WriteOptions::default()).await.unwrap();
    let store = AttachedStore::over(own);
    store.reach("other", other);
    let snapshot = store.snapshot().unwrap();
    let options = ReadOptions {
        stamps: true,
        ..ReadOptions::default()
    };
    let range = TokenRange::whole();
    let read = snapshot.scan(&theirs, &range, None, 10, &options).await.unwrap();
    assert_eq!(
        (read.rows.len(), read.stamps.len(), read.ends_in_seconds.len()),
        (1, 1, 1)
    );
    assert!(read.next.is_none());
}

#[tokio::test]
async fn nothing_changes_what_is_attached() {
    let clock = Clock::new();
    let (own, other) = (memory(&clock), memory(&clock));
    let (mine, theirs) = (table("t"), table("other.t"));
    own.create_table(&mine).await.unwrap();
    other.create_table(&theirs).await.unwrap();
    let store = AttachedStore::over(own);
    store.reach("other", Arc::clone(&other) as Arc<dyn Store>);
    let options = WriteOptions::default();
    let write = || put(&theirs, 1, 1, 1);
    let is_refused = |outcome: WriteOutcome| match outcome {
        WriteOutcome::Refused(error) => {
            assert_eq!(error.table(), Some("other.t"));
            assert!(error.hint().is_some());
        }
        outcome => panic!("{outcome:?}"),
    };
    is_refused(store.write(write(), options).await.unwrap());
    let both = vec![put(&mine, 1, 1, 1), write()];
    is_refused(store.write_many(both, Atomicity::Each, options).await.unwrap());
    let cas = Cas {
        table: Arc::clone(&theirs),
        partition: cells([1]),
        conditions: Vec::new(),
        mutations: Vec::new(),
    };
    let outcome = store.cas(cas.clone(), options).await.unwrap();
    assert!(matches!(outcome, CasOutcome::Refused(_)), "{outcome:?}");
    for (conditional, plain) in [(vec![cas], Vec::new()), (Vec::new(), vec![write()])] {
        let outcome = store.transact(conditional, plain, options).await.unwrap();
        assert!(matches!(outcome, TransactionOutcome::Refused(_)), "{outcome:?}");
    }
    let refused = |outcome: Result<TableOutcome, _>| {
        let error: recto_store::StoreError = outcome.unwrap_err();
        assert!(error.to_string().contains("other.t is attached"), "{error}");
    };
    refused(store.create_table(&theirs).await);
    refused(store.create_tables_once(&[Table::clone(&theirs)]).await);
    refused(store.add_columns(&theirs, &theirs).await);
    refused(store.drop_table("other.t").await);
    refused(store.empty_table(&theirs).await);
    let slice = Slice::from_start(&theirs, cells([1]), 10);
    let rows = other
        .snapshot()
        .unwrap()
        .slice(&slice, &ReadOptions::default())
        .await
        .unwrap();
    assert_eq!(rows.rows.len(), 0);
    let own = store.snapshot().unwrap();
    let slice = Slice::from_start(&mine, cells([1]), 10);
    let rows = own.slice(&slice, &ReadOptions::default()).await.unwrap();
    assert_eq!(
        rows.rows.len(),
        0,
        "nothing of a call is written that names what is attached"
    );
}
