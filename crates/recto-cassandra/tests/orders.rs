//! The order of values is Cassandra's: every order type's extremes, and values beside them, put into
//! a real Cassandra in ascending and descending tables and compared with `recto_model::order`.
#![allow(clippy::unwrap_used)]

mod common;

use std::sync::Arc;

use recto_model::table::{ColumnKind, ReadDirection, TableOptions, WriteKind};
use recto_model::{Bound, Cells, Column, Direction, Slice, Table, Type, cell, extremes, order};
use recto_store::{
    Mutation, Operation, PartitionWrite, ReadOptions, Stamp, Store, TableOutcome, WriteOptions, WriteOutcome,
};

fn table(ty: &Type, direction: Direction) -> Table {
    let column = |name: &str, ty: &Type, kind| Column {
        name: name.to_owned(),
        ty: ty.clone(),
        kind,
    };
    let suffix = if direction == Direction::Ascending {
        "up"
    } else {
        "down"
    };
    Table::new(
        format!("order_{ty}_{suffix}"),
        vec![
            column("p", &Type::Int, ColumnKind::Partition),
            column("c", ty, ColumnKind::Clustering(direction)),
            column("n", &Type::Int, ColumnKind::Regular(WriteKind::Plain)),
        ],
        TableOptions::default(),
    )
    .unwrap()
}

/// The cells of a type's extremes as keys, last first, so that the order found is not the order put.
fn keys(ty: &Type) -> Vec<Vec<u8>> {
    let mut keys: Vec<Vec<u8>> = extremes::values(ty)
        .iter()
        .map(|value| {
            let mut stored = Vec::new();
            cell::encode(ty, value, &mut stored).unwrap();
            let mut key = Vec::new();
            cell::canonical_key(ty, &stored, &mut key).unwrap();
            key
        })
        .collect();
    keys.reverse();
    keys
}

async fn order_in_cassandra(store: &dyn Store, ty: &Type, direction: Direction) -> Vec<Vec<u8>> {
    let table = Arc::new(table(ty, direction));
    assert!(matches!(
        store.create_table(&table).await.unwrap(),
        TableOutcome::Done
    ));
    let partition: Cells = [Some(&1_i32.to_be_bytes()[..])].into_iter().collect();
    let mutations = keys(ty)
        .iter()
        .enumerate()
        .map(|(index, key)| Mutation {
            operation: Operation::Put {
                clustering: [Some(&key[..])].into_iter().collect(),
                cells: [Some(&(index as i32).to_be_bytes()[..])].into_iter().collect(),
                replace: true,
            },
            stamp: Some(Stamp(1)),
            ttl_seconds: None,
        })
        .collect();
    let write = PartitionWrite {
        table: Arc::clone(&table),
        partition: partition.clone(),
        mutations,
    };
    let outcome = store.write(write, WriteOptions::default()).await.unwrap();
    assert!(matches!(outcome, WriteOutcome::Done), "{ty}: {outcome:?}");
    let slice = Slice {
        table: Arc::clone(&table),
        partition,
        from: Bound::start(),
        to: Bound::end(),
        direction: ReadDirection::Forward,
        limit: 10_000,
    };
    let read = store.view().unwrap().slice(&slice, &ReadOptions::default()).await;
    let read = read.unwrap();
    store.drop_table(table.name()).await.unwrap();
    read.rows.iter().map(|row| row.get(1).unwrap().to_vec()).collect()
}

#[tokio::test]
async fn cassandra_orders_values_as_the_model_does() {
    let store = common::store().await;
    let mut wrong = Vec::new();
    for ty in Type::ORDERABLE {
        let mut expected = keys(&ty);
        expected.sort_by(|left, right| order::compare(&ty, left, right));
        expected.dedup();
        for direction in [Direction::Ascending, Direction::Descending] {
            if direction == Direction::Descending {
                expected.reverse();
            }
            let found = order_in_cassandra(store.as_ref(), &ty, direction).await;
            if found != expected {
                let first = found
                    .iter()
                    .zip(&expected)
                    .position(|(found, expected)| found != expected);
                wrong.push(format!(
                    "{ty} {direction:?}: {} rows, {} expected, first difference at {first:?}: {:02x?} and {:02x?}",
                    found.len(),
                    expected.len(),
                    first.map(|index| &found[index]),
                    first.map(|index| &expected[index]),
                ));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
