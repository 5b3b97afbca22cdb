//! Tests that a split copies rows with expired cells, and rows with columns that other processes added.

use recto_model::table::Direction;
use recto_protocol::buckets::{Bucket, Copying, Span};
use recto_store::{Operation, PartitionWrite, WriteOptions, WriteOutcome};

use super::*;

impl Stream {
    async fn copies_all(&self, from: u64, to: u64) {
        let copying = Copying {
            from: Bucket(from),
            to: Bucket(to),
            span: Span::all(),
        };
        let place = self.pieces.as_stored(&self.partition.place).await;
        let place = place.expect("the table is there");
        let copied = self.pieces.copy(&place, &copying, self.pieced.sampling).await;
        copied.expect("they are copied");
    }

    async fn bucket(&self, bucket: u64, table: &Arc<Table>) -> RowsRead {
        let slice = Slice::from_start(
            table,
            self.partition.place.bucket_partition(Bucket(bucket)),
            100_000,
        );
        let options = ReadOptions {
            stamps: true,
            ..ReadOptions::default()
        };
        let snapshot = self.pieces.store.snapshot().expect("it is open");
        snapshot.slice(&slice, &options).await.expect("it is read")
    }
}

fn change(number: u64) -> Change {
    let cell = |bits: u64| (!bits.is_multiple_of(3)).then_some(&b"x"[..]);
    let ttl_seconds = match number / 16 % 4 {
        0 => None,
        1 => Some(10),
        2 => Some(40),
        _ => Some(1_000),
    };
    match number % 7 {
        0 => Change::Delete,
        1..3 => Change::Put {
            cells: cells(&[cell(number / 64), None, cell(number / 256)]),
            replace: number.is_multiple_of(2),
            ttl_seconds,
        },
        _ => Change::Patch {
            columns: vec![if (number / 64).is_multiple_of(2) { 0 } else { 2 }],
            cells: cells(&[cell(number / 256)]),
            ttl_seconds,
        },
    }
}

#[tokio::test(start_paused = true)]
async fn rows_are_copied_whatever_has_expired_of_them() {
    let stream = Stream::new(Direction::Ascending).await;
    let mut number = 1_u64;
    for _ in 0..4 {
        for at in 0..300 {
            number = number.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            stream
                .write(at, "a", change(number >> 33))
                .await
                .expect("it is written");
        }
        tokio::time::sleep(Duration::from_secs(7)).await;
    }
    for (turn, pause) in (1..).zip([0, 4, 8, 30, 900]) {
        tokio::time::sleep(Duration::from_secs(pause)).await;
        stream.copies_all(0, turn).await;
        let (table, expected) = (
            &stream.pieced.table,
            said(&stream.bucket(0, &stream.pieced.table).await),
        );
        assert!(expected.len() > 50, "{} rows are left", expected.len());
        assert_eq!(
            said(&stream.bucket(turn, table).await),
            expected,
            "in turn {turn}"
        );
    }
}

/// Returns the table with a column `extra`, which the tested process does not know.
fn with_a_column(stream: &Stream) -> Arc<Table> {
    let table = &stream.pieced.table;
    let added = column("extra", Type::Text, ColumnKind::Regular(WriteKind::Plain));
    let columns = table.columns().iter().cloned().chain([added]);
    Arc::new(Table::new(table.name(), columns.collect(), table.options()).expect("it is a table"))
}

async fn write(stream: &Stream, table: &Arc<Table>, operation: Operation, stamp: i64) {
    let write = PartitionWrite {
        table: Arc::clone(table),
        partition: stream.partition.place.bucket_partition(Bucket(0)),
        mutations: vec![crate::tables::mutation(operation, Stamp(stamp), None)],
    };
    let written = stream.pieces.store.write(write, WriteOptions::default()).await;
    assert!(matches!(written, Ok(WriteOutcome::Done)), "{written:?}");
}

#[tokio::test(start_paused = true)]
async fn copies_rows_with_cells_of_unknown_columns() {
    let stream = Stream::new(Direction::Ascending).await;
    let table = with_a_column(&stream);
    let added = stream
        .pieces
        .store
        .add_columns(&stream.pieced.table, &table)
        .await;
    added.expect("it is added");
    let extra = |at| Operation::Patch {
        clustering: clustering(at, "a"),
        columns: vec![3],
        cells: cells(&[Some(b"extra")]),
    };
    let patch = Change::Patch {
        columns: vec![2],
        cells: cells(&[Some(b"soon gone")]),
        ttl_seconds: Some(5),
    };
    write(&stream, &table, extra(1), 77).await;
    stream.write(1, "a", patch).await.expect("it is written");
    stream.put(2, "a", "2").await.expect("it is written");
    write(&stream, &table, extra(2), i64::MAX >> 8).await;
    tokio::time::sleep(TIME).await;
    assert_eq!(
        stream.all().await.len(),
        2,
        "a row of which this process knows no cell"
    );
    stream.copies_all(0, 1).await;
    let copied = stream.bucket(1, &table).await;
    let extras: Vec<_> = copied
        .rows
        .iter()
        .map(|row| row.get(8).map(<[u8]>::to_vec))
        .collect();
    assert_eq!(extras, [Some(b"extra".to_vec()), Some(b"extra".to_vec())]);
    assert_eq!(copied.stamps, [77, i64::MAX >> 8]);
}

#[tokio::test(start_paused = true)]
async fn copies_of_empty_rows_do_not_override_deletions() {
    let stream = Stream::new(Direction::Ascending).await;
    for at in 1..3 {
        let put = Operation::Put {
            clustering: clustering(at, "a"),
            cells: cells(&[None, None, None]),
            replace: true,
        };
        write(&stream, &stream.pieced.table, put, 500).await;
    }
    let in_one = |operation| PartitionWrite {
        table: Arc::clone(&stream.pieced.table),
        partition: stream.partition.place.bucket_partition(Bucket(1)),
        mutations: vec![crate::tables::mutation(operation, Stamp(400), None)],
    };
    let delete = in_one(Operation::DeleteRow {
        clustering: clustering(2, "a"),
    });
    let deleted = stream.pieces.store.write(delete, WriteOptions::default()).await;
    assert!(matches!(deleted, Ok(WriteOutcome::Done)));
    stream.copies_all(0, 1).await;
    let copied = stream.bucket(1, &stream.pieced.table).await;
    assert_eq!(said(&copied), [(1, String::new())]);
}
