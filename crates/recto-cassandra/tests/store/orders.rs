//! Test that Recto orders values as Cassandra does. It puts extreme and random values of every
//! ordered type into ascending and descending tables of a real Cassandra. Then it compares the
//! order of the rows with `recto_model::order`.

use std::sync::Arc;

use recto_model::table::{ColumnKind, ReadDirection, TableOptions, WriteKind};
use recto_model::{Bound, Cells, Column, Direction, Environment, Slice, Table, Type, cell, extremes, order};
use recto_store::{
    Mutation, Operation, PartitionWrite, ReadOptions, Stamp, Store, TableOutcome, WriteOptions, WriteOutcome,
};

use crate::common::Keyspace;

static KEYSPACE: Keyspace = Keyspace::new();

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

/// Number of random values of each type, in addition to its extremes.
const RANDOM_VALUES: usize = 150;

/// Returns extreme and random values of a type as keys, in descending order. The order of the puts
/// thus differs from the order of the rows.
fn keys(ty: &Type) -> Vec<Vec<u8>> {
    let mut values = extremes::values(ty);
    let environment = Environment::seeded(7, 0);
    while values.len() < RANDOM_VALUES {
        if let Ok(value) = cell::decode(ty, &random_cell(ty, environment.random())) {
            values.push(value);
        }
        if *ty == Type::Boolean {
            break;
        }
    }
    let mut keys: Vec<Vec<u8>> = values
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

/// Returns bytes that are probably a valid cell of a type. The bytes have few different values, so
/// that common prefixes, equal lengths and sign bits occur often.
fn random_cell(ty: &Type, random: [u8; 24]) -> Vec<u8> {
    let few = [0x00, 0x01, 0x7f, 0x80, 0xff];
    let bytes: Vec<u8> = random[1..]
        .iter()
        .map(|byte| {
            if random[0] & 1 == 0 {
                *byte
            } else {
                few[usize::from(*byte) % few.len()]
            }
        })
        .collect();
    let some = |most: usize| bytes[1..=usize::from(bytes[0]) % most + 1].to_vec();
    match ty {
        Type::Boolean | Type::TinyInt => bytes[..1].to_vec(),
        Type::SmallInt => bytes[..2].to_vec(),
        Type::Int | Type::Float | Type::Date => bytes[..4].to_vec(),
        Type::BigInt | Type::Double | Type::Timestamp => bytes[..8].to_vec(),
        Type::Time => {
            let nanos = u64::from_be_bytes(bytes[..8].try_into().unwrap()) % 86_400_000_000_000;
            nanos.to_be_bytes().to_vec()
        }
        Type::Inet => bytes[..if bytes[0] & 1 == 0 { 4 } else { 16 }].to_vec(),
        Type::Uuid => bytes[..16].to_vec(),
        Type::TimeUuid => {
            let mut uuid = bytes[..16].to_vec();
            uuid[6] = uuid[6] & 0x0f | 0x10;
            uuid
        }
        Type::Decimal => {
            // A decimal cell has a scale (here from -128 to 127), then the digits.
            let scale = i32::from(bytes[20].cast_signed());
            [&scale.to_be_bytes()[..], &some(12)].concat()
        }
        Type::Ascii => some(4).iter().map(|byte| byte & 0x7f).collect(),
        Type::Text => String::from_utf8_lossy(&some(6)).into_owned().into_bytes(),
        _ => some(12),
    }
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
                cells: [Some(&i32::try_from(index).unwrap().to_be_bytes()[..])]
                    .into_iter()
                    .collect(),
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
    let read = store
        .snapshot()
        .unwrap()
        .slice(&slice, &ReadOptions::default())
        .await;
    let read = read.unwrap();
    read.rows.iter().map(|row| row.get(1).unwrap().to_vec()).collect()
}

#[tokio::test]
async fn cassandra_orders_values_as_the_model_does() {
    let store = KEYSPACE.store().await;
    let mut wrong = Vec::new();
    for ty in Type::ORDERABLE {
        let mut expected = keys(&ty);
        expected.sort_by(|left, right| order::compare(&ty, left, right));
        expected.dedup_by(|left, right| order::compare(&ty, left, right).is_eq());
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
    KEYSPACE.drop().await;
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
