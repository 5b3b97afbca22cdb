//! Tests of Cassandra's behavior on which the design relies. Each test checks one fact on a real
//! node.

use std::sync::Arc;
use std::time::Duration;

use recto_cassandra::{CassandraConfig, CassandraStore};
use recto_model::table::{ColumnKind, ReadDirection, TableOptions, WriteKind};
use recto_model::{Bound, Cells, Column, Direction, Environment, Slice, Table, Type, Value, cell, extremes};
use recto_store::faults::{FaultRates, FaultyStore};
use recto_store::{
    Atomicity, Cas, CasCondition, CasOutcome, ConsistencyLevel, Mutation, Operation, PartitionWrite,
    PointRead, ReadOptions, RowAddress, RowsRead, Stamp, Store, StoreError, StoreErrorKind, TableOutcome,
    TableState, WriteOptions, WriteOutcome,
};
use recto_testkit::rig::Cluster;
use scylla::client::session::Session;
use scylla::client::session_builder::SessionBuilder;

use crate::common::{self, Keyspace};

static KEYSPACE: Keyspace = Keyspace::new();

fn ints<const N: usize>(values: [i32; N]) -> Cells {
    let bytes: Vec<[u8; 4]> = values.iter().map(|value| value.to_be_bytes()).collect();
    bytes.iter().map(|cell| Some(&cell[..])).collect()
}

fn column(name: &str, kind: ColumnKind) -> Column {
    Column {
        name: name.to_owned(),
        ty: Type::Int,
        kind,
    }
}

const PLAIN: ColumnKind = ColumnKind::Regular(WriteKind::Plain);

/// Creates a table of `int` columns: partition p, clustering b DESC, c ASC, d ASC, and regular v.
async fn mixed(store: &CassandraStore, name: &str) -> Arc<Table> {
    let columns = vec![
        column("p", ColumnKind::Partition),
        column("b", ColumnKind::Clustering(Direction::Descending)),
        column("c", ColumnKind::Clustering(Direction::Ascending)),
        column("d", ColumnKind::Clustering(Direction::Ascending)),
        column("v", PLAIN),
    ];
    make(store, Table::new(name, columns, TableOptions::default()).unwrap()).await
}

async fn make(store: &CassandraStore, table: Table) -> Arc<Table> {
    assert!(matches!(
        store.create_table(&table).await.unwrap(),
        TableOutcome::Done
    ));
    Arc::new(table)
}

fn put(clustering: Cells, cells: Cells) -> Mutation {
    at(
        1,
        Operation::Put {
            clustering,
            cells,
            replace: true,
        },
    )
}

fn at(stamp: i64, operation: Operation) -> Mutation {
    Mutation {
        operation,
        stamp: Some(Stamp(stamp)),
        ttl_seconds: None,
    }
}

async fn write(store: &CassandraStore, table: &Arc<Table>, partition: i32, mutations: Vec<Mutation>) {
    let write = PartitionWrite {
        table: Arc::clone(table),
        partition: ints([partition]),
        mutations,
    };
    let outcome = store.write(write, WriteOptions::default()).await.unwrap();
    assert!(matches!(outcome, WriteOutcome::Done), "{outcome:?}");
}

fn slice(table: &Arc<Table>, from: Bound, to: Bound, direction: ReadDirection, limit: u32) -> Slice {
    Slice {
        table: Arc::clone(table),
        partition: ints([1]),
        from,
        to,
        direction,
        limit,
    }
}

async fn read(store: &CassandraStore, slice: &Slice) -> Result<RowsRead, StoreError> {
    store.snapshot()?.slice(slice, &ReadOptions::default()).await
}

async fn session() -> Session {
    SessionBuilder::new()
        .known_node(Cluster::shared().unwrap().address())
        .build()
        .await
        .unwrap()
}

/// Checks that Recto tolerates and keeps an operator's changes that readers do not depend on
/// (comment, options). `compare_tables` reports other changes.
#[tokio::test(flavor = "multi_thread")]
async fn a_table_that_its_operator_altered() {
    let (keyspace, store) = (KEYSPACE.name().await, KEYSPACE.store().await);
    let table = mixed(&store, "altered").await;
    let session = session().await;
    let alter = async |what: &str| {
        let text = format!("ALTER TABLE {keyspace}.altered {what}");
        session.query_unpaged(text, ()).await.unwrap();
    };
    let version = store.tables_version().await.unwrap();
    let state = async |table: &Table| {
        let tables = std::slice::from_ref(table);
        store.compare_tables(tables).await.unwrap().remove(0)
    };
    alter("WITH comment = 'owned by team x' AND gc_grace_seconds = 3600").await;
    assert_ne!(store.tables_version().await.unwrap(), version);
    assert_eq!(state(&table).await, TableState::AsAsked);
    let report = store.check_keyspace(std::slice::from_ref(&table)).await.unwrap();
    assert!(
        report.notes.iter().any(|note| note.contains("altered is 3600")),
        "{report:?}"
    );
    assert_eq!(report.problems, [""; 0]);
    make(&store, Table::clone(&table)).await;
    let columns = table.columns().iter().cloned().chain([column("w", PLAIN)]);
    let more = Table::new("altered", columns.collect(), TableOptions::default()).unwrap();
    for _ in 0..2 {
        let added = store.add_columns(&table, &more).await;
        assert!(matches!(added, Ok(TableOutcome::Done)), "{added:?}");
        assert_eq!(state(&more).await, TableState::AsAsked);
    }
    let text = "SELECT comment FROM system_schema.tables WHERE keyspace_name = ? AND table_name = 'altered'";
    let rows = session
        .query_unpaged(text, (keyspace,))
        .await
        .unwrap()
        .into_rows_result()
        .unwrap();
    assert_eq!(rows.single_row::<(String,)>().unwrap().0, "owned by team x");

    alter("ADD by_hand text").await;
    assert_eq!(
        state(&more).await,
        TableState::AsAsked,
        "statements name their columns"
    );
    alter("ADD fixed text STATIC").await;
    let other = |text: &str| TableState::Other(text.to_owned());
    assert_eq!(
        state(&more).await,
        other("there is an additional column fixed, a static column with plain writes")
    );
    alter("DROP fixed").await;
    alter("DROP w").await;
    assert_eq!(state(&more).await, other("column w is missing"));
    store.drop_table("altered").await.unwrap();
    assert_eq!(state(&more).await, TableState::Missing);
}

/// Prepares a statement, and returns the reason if Cassandra rejects it.
async fn prepares(session: &Session, text: &str) -> Result<(), String> {
    session
        .prepare(text)
        .await
        .map(drop)
        .map_err(|error| error.to_string())
}

#[tokio::test]
async fn tuples_start_after_pinned_columns_and_bound_each_side_once() {
    let store = KEYSPACE.store().await;
    let table = mixed(&store, "fact_tuples").await;
    let name = format!("\"{}\".\"{}\"", KEYSPACE.name().await, table.name());
    let session = session().await;
    let select = |rest: &str| format!("SELECT v FROM {name} WHERE p = ? AND {rest}");
    for good in [
        "(b) = (?) AND (c, d) > (?, ?)",
        "(b, c) = (?, ?) AND (d) > (?) AND (d) <= (?)",
        "(b, c, d) > (?, ?, ?) AND (b) < (?)",
    ] {
        assert_eq!(prepares(&session, &select(good)).await, Ok(()), "{good}");
    }
    for bad in [
        "(c, d) > (?, ?)",
        "(b) > (?) AND (c) > (?)",
        "(b, c) > (?, ?) AND (b) >= (?)",
        "(b, d) > (?, ?)",
        "(b) = (?) ORDER BY c DESC, d ASC",
    ] {
        assert!(prepares(&session, &select(bad)).await.is_err(), "{bad}");
    }
    store.drop_table(table.name()).await.unwrap();
}

#[tokio::test]
async fn tuples_compare_by_value_and_results_come_in_clustering_order() {
    let store = KEYSPACE.store().await;
    let table = mixed(&store, "fact_values").await;
    let rows = [[1, 0, 0], [1, 1, 0], [2, 0, 0], [2, 1, 0], [2, 1, 1], [3, 0, 0]];
    let puts = rows.iter().map(|row| put(ints(*row), ints([0]))).collect();
    write(&store, &table, 1, puts).await;
    let name = format!("\"{}\".\"{}\"", KEYSPACE.name().await, table.name());
    let session = session().await;
    let found = session
        .query_unpaged(
            format!("SELECT b, c, d FROM {name} WHERE p = 1 AND (b, c) > (2, 0)"),
            (),
        )
        .await
        .unwrap()
        .into_rows_result()
        .unwrap();
    let found: Vec<(i32, i32, i32)> = found.rows().unwrap().map(Result::unwrap).collect();
    assert_eq!(found, [(3, 0, 0), (2, 1, 0), (2, 1, 1)]);
    // In clustering order, more rows follow (2, 0), and reading them takes two statements.
    let after = slice(
        &table,
        Bound::After(ints([2, 0])),
        Bound::end(),
        ReadDirection::Forward,
        10,
    );
    let read = read(&store, &after).await.unwrap();
    let found: Vec<Cells> = read
        .rows
        .iter()
        .map(|row| row.iter().skip(1).take(3).collect())
        .collect();
    assert_eq!(
        found,
        [ints([2, 1, 0]), ints([2, 1, 1]), ints([1, 0, 0]), ints([1, 1, 0])]
    );
    assert_eq!((read.statements, read.round_trips), (2, 2));
    store.drop_table(table.name()).await.unwrap();
}

#[tokio::test]
async fn rows_of_partitions_of_their_own_are_read_together() {
    let store = KEYSPACE.store().await;
    let (table, reads) = common::rows_of_their_own(&store, "fact_many", 0..45).await;
    assert_eq!(reads.len(), 50);
    let snapshot = store.snapshot().unwrap();
    // Serial reads need one statement per partition, because Paxos reads partitions one at a time.
    for (consistency, statements) in [(None, 3), (Some(ConsistencyLevel::LocalSerial), 50)] {
        let options = ReadOptions {
            consistency,
            ..ReadOptions::default()
        };
        let found = snapshot.get_many(&reads, &options).await.unwrap();
        let sent: u32 = found.iter().map(|read| read.statements).sum();
        let most = found.iter().map(|read| read.round_trips).max();
        assert_eq!((sent, most), (statements, Some(1)));
        let rows: usize = found.iter().map(|read| read.rows.len()).sum();
        assert_eq!(rows, 45);
    }
    store.drop_table(table.name()).await.unwrap();
}

#[tokio::test]
async fn rows_of_the_same_partition_are_read_together() {
    let store = KEYSPACE.store().await;
    let table = mixed(&store, "fact_keys").await;
    for partition in [1, 2] {
        let puts = (0..25)
            .map(|d| put(ints([2, 1, d]), ints([d + partition])))
            .collect();
        write(&store, &table, partition, puts).await;
    }
    // Read thirty rows of one partition, of which five do not exist, mixed with six rows of another
    // partition.
    let read = |number: i32| PointRead {
        table: Arc::clone(&table),
        partition: ints([if number % 6 == 0 { 2 } else { 1 }]),
        clustering: ints([2, 1, number * 5 / 6]),
    };
    let reads: Vec<PointRead> = (0..36).map(read).collect();
    let snapshot = store.snapshot().unwrap();
    let found = snapshot.get_many(&reads, &ReadOptions::default()).await.unwrap();
    assert_eq!(found.iter().map(|read| read.statements).sum::<u32>(), 3);
    for (read, found) in reads.iter().zip(&found) {
        let alone = snapshot.get(read, &ReadOptions::default()).await.unwrap();
        let cells = |read: &RowsRead| -> Vec<Cells> { read.rows.iter().map(|row| row.to_cells()).collect() };
        assert_eq!(cells(found), cells(&alone), "{:?}", read.clustering);
    }
    assert_eq!(found.iter().filter(|read| !read.rows.is_empty()).count(), 30);
    store.drop_table(table.name()).await.unwrap();
}

#[tokio::test]
async fn further_statements_are_sent_only_if_rows_are_wanting() {
    let store = KEYSPACE.store().await;
    let table = mixed(&store, "fact_stop").await;
    let puts = (0..5).map(|d| put(ints([2, 1, d]), ints([d]))).collect();
    write(&store, &table, 1, puts).await;
    for (direction, from, to) in [
        (ReadDirection::Forward, Bound::After(ints([2, 0])), Bound::end()),
        (
            ReadDirection::Backward,
            Bound::start(),
            Bound::Before(ints([2, 2])),
        ),
    ] {
        let full = slice(&table, from.clone(), to.clone(), direction, 5);
        let read_full = read(&store, &full).await.unwrap();
        assert_eq!(
            (read_full.rows.len(), read_full.statements, read_full.exhausted),
            (5, 1, false)
        );
        let wanting = slice(&table, from, to, direction, 6);
        let read_all = read(&store, &wanting).await.unwrap();
        assert_eq!(
            (read_all.rows.len(), read_all.statements, read_all.exhausted),
            (5, 2, true)
        );
    }
    store.drop_table(table.name()).await.unwrap();
}

#[tokio::test]
async fn slices_are_described_as_they_are_sent() {
    let store = KEYSPACE.store().await;
    let keyspace = KEYSPACE.name().await;
    let table = mixed(&store, "fact_text").await;
    let described = slice(
        &table,
        Bound::Before(ints([2, 0])),
        Bound::After(ints([0])),
        ReadDirection::Backward,
        21,
    );
    assert_eq!(store.expected_round_trips(&described, &ReadOptions::default()), 2);
    let head = format!(r#"SELECT "b", "c", "d", "v" FROM "{keyspace}"."fact_text" WHERE "p" = 1 AND "#);
    let order = r#" ORDER BY "b" ASC, "c" DESC, "d" DESC LIMIT 21;"#;
    assert_eq!(
        store.describe_slice(&described, &ReadOptions::default()),
        [
            format!(r#"{head}("b") >= (0) AND ("b") < (2){order}"#),
            format!(r#"{head}("b") = (2) AND ("c") >= (0){order}"#),
        ]
    );
    store.drop_table(table.name()).await.unwrap();
}

/// Checks that a described statement, sent as text, finds the intended row for values of all types.
#[tokio::test]
async fn described_statements_are_taken_as_they_stand() {
    let store = KEYSPACE.store().await;
    let session = session().await;
    let mut columns = vec![column("p", ColumnKind::Partition)];
    columns.extend(Type::ORDERABLE.iter().enumerate().map(|(index, ty)| Column {
        name: format!("c{index}"),
        ty: ty.clone(),
        kind: ColumnKind::Clustering(Direction::Ascending),
    }));
    columns.push(column("v", PLAIN));
    let table = Table::new("fact_literals", columns, TableOptions::default()).unwrap();
    let table = make(&store, table).await;
    let values: Vec<Vec<Value>> = Type::ORDERABLE.iter().map(extremes::values).collect();
    let rows = values.iter().map(Vec::len).max().unwrap();
    for row in 0..rows {
        let cells: Vec<Vec<u8>> = Type::ORDERABLE
            .iter()
            .zip(&values)
            .map(|(ty, values)| {
                let (mut bytes, mut key) = (Vec::new(), Vec::new());
                cell::encode(ty, &values[row % values.len()], &mut bytes).unwrap();
                cell::canonical_key(ty, &bytes, &mut key).unwrap();
                key
            })
            .collect();
        let key: Cells = cells.iter().map(|cell| Some(&cell[..])).collect();
        write(
            &store,
            &table,
            1,
            vec![put(key.clone(), ints([i32::try_from(row).unwrap()]))],
        )
        .await;
        let (from, to) = (Bound::Before(key.clone()), Bound::After(key));
        let one = slice(&table, from, to, ReadDirection::Forward, 10);
        let [text] = &store.describe_slice(&one, &ReadOptions::default())[..] else {
            panic!("one row is read by one statement");
        };
        let found = session.query_unpaged(text.as_str(), ()).await;
        let found = found.unwrap_or_else(|error| panic!("{text}: {error}"));
        assert_eq!(found.into_rows_result().unwrap().rows_num(), 1, "{text}");
    }
    store.drop_table(table.name()).await.unwrap();
}

/// Checks that a read of too many tombstones has its own error with a hint. The failure threshold
/// is 100,000.
#[tokio::test]
async fn reports_reads_past_the_tombstone_threshold() {
    const DELETED: i32 = 100_001;
    const BATCH: usize = 2_000;
    let store = KEYSPACE.store().await;
    let columns = vec![
        column("p", ColumnKind::Partition),
        column("c", ColumnKind::Clustering(Direction::Ascending)),
        column("v", PLAIN),
    ];
    let table = Table::new("fact_graves", columns, TableOptions::default()).unwrap();
    let table = make(&store, table).await;
    let deletions: Vec<i32> = (0..DELETED).collect();
    for (index, some) in deletions.chunks(BATCH).enumerate() {
        let delete = |c: &i32| {
            at(
                2,
                Operation::DeleteRow {
                    clustering: ints([*c]),
                },
            )
        };
        write(&store, &table, 1, some.iter().map(delete).collect()).await;
        if index == 0 {
            // This number of tombstones is above the warning threshold of 1,000, and below the
            // failure threshold.
            let whole = slice(&table, Bound::start(), Bound::end(), ReadDirection::Forward, 10);
            let warned = read(&store, &whole).await.unwrap();
            assert_eq!((warned.rows.len(), warned.tombstones), (0, BATCH as u64));
        }
    }
    let whole = slice(&table, Bound::start(), Bound::end(), ReadDirection::Forward, 10);
    let error = read(&store, &whole).await.unwrap_err();
    assert_eq!(error.kind(), StoreErrorKind::Tombstones, "{error}");
    assert!(error.hint().unwrap().contains("tombstone_failure_threshold"));
    assert_eq!(error.node(), Some(Cluster::shared().unwrap().address()));
    assert_eq!(error.table(), Some("fact_graves"));
    // A scan returns the rows before the tombstones. The next call reports why the scan stopped.
    let put = |c: &i32| {
        let (clustering, cells, replace) = (ints([*c]), ints([*c]), true);
        at(
            3,
            Operation::Put {
                clustering,
                cells,
                replace,
            },
        )
    };
    write(&store, &table, 1, [-3, -2, -1].iter().map(put).collect()).await;
    let view = store.snapshot().unwrap();
    let options = ReadOptions {
        timeout: Duration::from_secs(60),
        ..ReadOptions::default()
    };
    let range = view.token_ranges(&table, 1).await.unwrap().remove(0);
    let before = view.scan(&table, &range, None, 1_000, &options).await.unwrap();
    assert_eq!(before.rows.len(), 3);
    let after = before.next.as_ref();
    assert!(after.is_some());
    let error = view
        .scan(&table, &range, after, 1_000, &options)
        .await
        .unwrap_err();
    assert_eq!(
        (error.kind(), error.table()),
        (StoreErrorKind::Tombstones, Some("fact_graves"))
    );
    store.drop_table(table.name()).await.unwrap();
}

/// Creates a table with columns p and c and `regular` regular columns, all of type `int`.
async fn wide(store: &CassandraStore, name: &str, regular: usize) -> Arc<Table> {
    let mut columns = vec![
        column("p", ColumnKind::Partition),
        column("c", ColumnKind::Clustering(Direction::Ascending)),
    ];
    columns.extend((0..regular).map(|index| column(&format!("v{index}"), PLAIN)));
    make(store, Table::new(name, columns, TableOptions::default()).unwrap()).await
}

fn nulls(count: usize) -> Cells {
    (0..count).map(|_| None).collect()
}

/// Checks that a read of rows that were put with nulls crosses no tombstone, although each row has
/// a deletion below it. A put replaces the whole old row, including columns that are now null, even
/// with the lowest possible write timestamp.
#[tokio::test]
async fn nulls_of_a_replacing_put_leave_no_tombstones_to_cross() {
    // Number of rows, each with a deletion of the old row. It is above the warning threshold of 1,000,
    // so Cassandra would warn if it counted these deletions.
    const ROWS: i32 = 1_500;
    const WIDTH: usize = 10;
    let store = KEYSPACE.store().await;
    let table = wide(&store, "fact_sparse", WIDTH).await;
    let sparse = |index: usize, value: i32| -> Cells {
        (0..WIDTH)
            .map(|column| (column == index).then_some(value.to_be_bytes()))
            .collect::<Vec<_>>()
            .iter()
            .map(|cell| cell.as_ref().map(|cell| &cell[..]))
            .collect()
    };
    let put = |stamp: i64, c: i32, cells: Cells| {
        let (clustering, replace) = (ints([c]), true);
        at(
            stamp,
            Operation::Put {
                clustering,
                cells,
                replace,
            },
        )
    };
    let rows = (0..ROWS).map(|c| put(100, c, sparse(0, c))).collect();
    write(&store, &table, 1, rows).await;
    let whole = slice(
        &table,
        Bound::start(),
        Bound::end(),
        ReadDirection::Forward,
        2_000,
    );
    let found = read(&store, &whole).await.unwrap();
    assert_eq!((found.rows.len(), found.tombstones), (ROWS as usize, 0));

    // A put with the next timestamp replaces the whole row, in the same write or in another.
    let both = vec![put(101, 0, sparse(1, 7)), put(102, 0, sparse(2, 8))];
    write(&store, &table, 1, both).await;
    write(&store, &table, 1, vec![put(103, 1, sparse(3, 9))]).await;
    let least = i64::MIN + 1;
    write(&store, &table, 1, vec![put(least, ROWS, nulls(WIDTH))]).await;
    let found = read(&store, &whole).await.unwrap();
    let row = |c: i32, cells: Cells| -> Cells { ints([1, c]).iter().chain(cells.iter()).collect() };
    assert_eq!(found.rows.row(0).to_cells(), row(0, sparse(2, 8)));
    assert_eq!(found.rows.row(1).to_cells(), row(1, sparse(3, 9)));
    assert_eq!(found.rows.row(ROWS as usize).to_cells(), row(ROWS, nulls(WIDTH)));
    store.drop_table(table.name()).await.unwrap();
}

/// Checks that the store requests fewer rows if Cassandra rejects a read because of tombstones, for
/// slices in both directions and for scans.
#[tokio::test]
async fn reads_are_narrowed_until_they_cross_few_enough_tombstones() {
    const ROWS: i32 = 220;
    const WIDTH: usize = 500;
    let store = KEYSPACE.store().await;
    let table = wide(&store, "fact_narrow", WIDTH).await;
    let patches: Vec<Mutation> = (0..ROWS)
        .map(|c| {
            at(
                100,
                Operation::Patch {
                    clustering: ints([c]),
                    columns: (0..WIDTH as u16).collect(),
                    cells: nulls(WIDTH),
                },
            )
        })
        .collect();
    for some in patches.chunks(55) {
        write(&store, &table, 1, some.to_vec()).await;
    }
    for direction in [ReadDirection::Forward, ReadDirection::Backward] {
        let narrowed_before = store.metrics().narrowed_reads;
        let whole = slice(&table, Bound::start(), Bound::end(), direction, 1_000);
        let found = read(&store, &whole).await.unwrap();
        let mut keys: Vec<i32> = found
            .rows
            .iter()
            .map(|row| i32::from_be_bytes(row.get(1).unwrap().try_into().unwrap()))
            .collect();
        if direction == ReadDirection::Backward {
            keys.reverse();
        }
        assert_eq!(keys, (0..ROWS).collect::<Vec<_>>());
        assert!(
            found.exhausted && found.tombstones > 0,
            "{} tombstones",
            found.tombstones
        );
        let narrowed = store.metrics().narrowed_reads - narrowed_before;
        assert!(narrowed > 0 && u64::from(found.statements) > narrowed);
    }
    let snapshot = store.snapshot().unwrap();
    let range = snapshot.token_ranges(&table, 1).await.unwrap().remove(0);
    let scanned = snapshot
        .scan(&table, &range, None, 1_000, &ReadOptions::default())
        .await
        .unwrap();
    assert_eq!((scanned.rows.len(), scanned.next), (ROWS as usize, None));
    store.drop_table(table.name()).await.unwrap();
}

/// Checks that a conditional batch changes static cells and rows together, or changes nothing.
/// Conditional and plain writes do not mix: a conditional write does not replace a plain cell with
/// a later write timestamp.
#[tokio::test]
async fn a_conditional_batch_of_statics_and_rows_applies_as_one() {
    let store = KEYSPACE.store().await;
    let columns = vec![
        column("p", ColumnKind::Partition),
        column("c", ColumnKind::Clustering(Direction::Ascending)),
        column("ver", ColumnKind::Static(WriteKind::Cas)),
        column("v", ColumnKind::Regular(WriteKind::Cas)),
    ];
    let table = Table::new("fact_cas", columns, TableOptions::default()).unwrap();
    let table = make(&store, table).await;
    let cas = |expected: Option<i32>, new: i32| Cas {
        table: Arc::clone(&table),
        partition: ints([1]),
        conditions: vec![CasCondition {
            row: RowAddress::Static,
            column: 0,
            expected: expected.map(|version| version.to_be_bytes().to_vec()),
        }],
        mutations: vec![
            Mutation {
                operation: Operation::PatchStatic {
                    columns: vec![0],
                    cells: ints([new]),
                },
                stamp: None,
                ttl_seconds: None,
            },
            Mutation {
                stamp: None,
                ..put(ints([new]), ints([new]))
            },
        ],
    };
    let outcome = store.cas(cas(None, 1), WriteOptions::default()).await.unwrap();
    assert!(matches!(outcome, CasOutcome::Applied), "{outcome:?}");
    let outcome = store.cas(cas(None, 2), WriteOptions::default()).await.unwrap();
    let CasOutcome::NotApplied { current } = outcome else {
        panic!("a stale version was taken: {outcome:?}");
    };
    assert_eq!(current, [Some(1_i32.to_be_bytes().to_vec())]);
    let whole = slice(&table, Bound::start(), Bound::end(), ReadDirection::Forward, 10);
    assert_eq!(read(&store, &whole).await.unwrap().rows.len(), 1);
    store.drop_table(table.name()).await.unwrap();
}

/// Checks that the store takes the size limits of a request from the settings of the node, unless
/// its configuration sets them.
#[tokio::test]
async fn limits_are_those_of_the_node() {
    let config = common::config(KEYSPACE.name().await);
    let text = "SELECT value FROM system_views.settings WHERE name = 'batch_size_fail_threshold'";
    let told = session().await.query_unpaged(text, ()).await.unwrap();
    let told = told.into_rows_result().unwrap();
    let (told,) = told.single_row::<(String,)>().unwrap();
    let kib: usize = told
        .strip_suffix("KiB")
        .unwrap_or_else(|| panic!("{told}"))
        .parse()
        .unwrap();
    let limits = KEYSPACE.store().await.limits();
    assert_eq!(limits.batch_bytes, kib << 10);
    let mut own = config;
    own.batch_bytes = Some(7 << 10);
    own.mutation_bytes = Some(100 << 10);
    let store = CassandraStore::connect(own, Environment::system()).await.unwrap();
    assert_eq!(
        (store.limits().batch_bytes, store.limits().mutation_bytes),
        (7 << 10, 100 << 10)
    );
}

/// Checks that a table without automatic snapshots is created and listed as such. Later changes of
/// this option by the operator cause no errors and are reported.
#[tokio::test(flavor = "multi_thread")]
async fn a_table_without_automatic_snapshots() {
    let (keyspace, store) = (KEYSPACE.name().await, KEYSPACE.store().await);
    let options = TableOptions {
        automatic_snapshots: false,
        ..TableOptions::default()
    };
    let columns = vec![column("p", ColumnKind::Partition), column("v", PLAIN)];
    let table = make(&store, Table::new("fact_snapshots", columns, options).unwrap()).await;
    let listed = || async {
        let tables = store.list_tables().await.unwrap();
        tables.into_iter().find(|one| one.name() == table.name()).unwrap()
    };
    let tables = [(*table).clone()];
    let notes = || async {
        let report = store.check_keyspace(&tables).await.unwrap();
        let about = report
            .notes
            .into_iter()
            .filter(|note| note.contains("fact_snapshots"));
        about.collect::<Vec<_>>()
    };
    assert_eq!(listed().await, *table);
    assert_eq!(notes().await, [""; 0]);
    let alter = format!(r#"ALTER TABLE "{keyspace}".fact_snapshots WITH allow_auto_snapshot = true"#);
    session().await.query_unpaged(alter, ()).await.unwrap();
    assert!(listed().await.options().automatic_snapshots);
    let wrapped: Arc<dyn Store> = Arc::new(FaultyStore::new(store.clone(), 1, FaultRates::NONE));
    for store in [store.clone() as Arc<dyn Store>, wrapped] {
        assert_eq!(
            store.compare_tables(&tables).await.unwrap(),
            [TableState::AsAsked]
        );
        assert!(store.tables_version().await.unwrap().is_some());
        assert!(matches!(
            store.create_table(&table).await.unwrap(),
            TableOutcome::Done
        ));
    }
    let notes = notes().await;
    assert!(
        notes.len() == 1 && notes[0].contains("allow_auto_snapshot") && notes[0].contains("clearsnapshot"),
        "{notes:?}"
    );
    store.drop_table(table.name()).await.unwrap();
}

/// Checks that the store never estimates a logged batch smaller than Cassandra does, so that
/// Cassandra accepts every batch that the store accepts.
#[tokio::test]
async fn a_logged_batch_of_the_largest_size_is_taken() {
    let store = KEYSPACE.store().await;
    let table = mixed(&store, "fact_batch").await;
    let writes = |count: i32| -> Vec<PartitionWrite> {
        (0..count)
            .map(|p| PartitionWrite {
                table: Arc::clone(&table),
                partition: ints([p]),
                mutations: vec![put(ints([p, p, p]), ints([p]))],
            })
            .collect()
    };
    let one = writes(1)[0].byte_len();
    let most = i32::try_from(store.limits().batch_bytes / one).unwrap();
    let outcome = store
        .write_many(writes(most), Atomicity::Logged, WriteOptions::default())
        .await
        .unwrap();
    assert!(matches!(outcome, WriteOutcome::Done), "{outcome:?}");
    let outcome = store
        .write_many(writes(most + 1), Atomicity::Logged, WriteOptions::default())
        .await
        .unwrap();
    assert!(matches!(outcome, WriteOutcome::Refused(_)), "{outcome:?}");
    store.drop_table(table.name()).await.unwrap();
}

async fn refused(config: CassandraConfig) -> StoreError {
    CassandraStore::connect(config, Environment::system())
        .await
        .unwrap_err()
}

#[tokio::test]
async fn connecting_says_what_is_wrong() {
    let good = common::config(KEYSPACE.name().await);
    let mut config = good.clone();
    config.hosts = vec!["127.0.0.1:1".to_owned()];
    assert_eq!(refused(config).await.kind(), StoreErrorKind::Unavailable);

    let mut config = good.clone();
    config.hosts = vec!["no-such-host.invalid".to_owned()];
    assert_eq!(refused(config).await.kind(), StoreErrorKind::Unavailable);

    // Start a listener that accepts connections but sends nothing.
    let silent = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let mut config = good.clone();
    config.hosts = vec![silent.local_addr().unwrap().to_string()];
    config.connect_timeout = Duration::from_millis(300);
    assert_eq!(refused(config).await.kind(), StoreErrorKind::Unavailable);

    let mut config = good.clone();
    config.keyspace = "no_such_keyspace".to_owned();
    let error = refused(config).await;
    assert_eq!(error.kind(), StoreErrorKind::Table);
    assert!(error.hint().unwrap().contains("create"));

    let mut config = good.clone();
    config.local_datacenter = Some("atlantis".to_owned());
    let error = refused(config).await;
    assert_eq!(error.kind(), StoreErrorKind::Invalid);
    assert!(
        error.hint().unwrap().contains("datacenter1"),
        "{:?}",
        error.hint()
    );

    let mut config = good;
    config.local_datacenter = Some("datacenter1".to_owned());
    config.username = Some("someone".to_owned());
    config.password = Some("hunter2".to_owned());
    assert!(!format!("{config:?}").contains("hunter2"));
    let store = CassandraStore::connect(config, Environment::system())
        .await
        .unwrap();
    assert!(!format!("{store:?}{}", store.describe()).contains("hunter2"));
}
