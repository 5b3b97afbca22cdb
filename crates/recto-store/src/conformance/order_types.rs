//! Behaviors of all types: the eighteen types with an order as clustering and partition columns, at their
//! extreme values, and all types as stored values.

use std::sync::Arc;

use num_bigint::BigInt;
use recto_model::table::ReadDirection;
use recto_model::types::UdtType;
use recto_model::{Bound, Cells, Column, Direction, Type, Value, cell, extremes};

use super::Bench;
use super::fixture::{Fixture, ascending, cells, clustering, concat, ints, partition, put, regular};
use super::model::Model;
use crate::{PointRead, ReadOptions};

fn cell_of(ty: &Type, value: &Value) -> Vec<u8> {
    let mut bytes = Vec::new();
    cell::encode(ty, value, &mut bytes).expect("the suite's values are of their types");
    bytes
}

/// Returns extreme values of an order type as cells of a key, in ascending order.
fn key_cells(ty: &Type) -> Vec<Vec<u8>> {
    let canonical = |value: &Value| {
        let mut bytes = Vec::new();
        cell::canonical_key(ty, &cell_of(ty, value), &mut bytes).expect("an encoded cell is valid");
        bytes
    };
    extremes::values(ty).iter().map(canonical).collect()
}

/// Returns keys of one column per order type. The keys of group `index` differ only in column `index`, which
/// has the extremes of its type in ascending order.
fn key_groups() -> Vec<Vec<Cells>> {
    let columns: Vec<Vec<Vec<u8>>> = Type::ORDERABLE.iter().map(key_cells).collect();
    let with = |varied: usize, value: &Vec<u8>| -> Cells {
        columns
            .iter()
            .enumerate()
            .map(|(index, cells)| {
                Some(if index == varied {
                    value.as_slice()
                } else {
                    cells[0].as_slice()
                })
            })
            .collect()
    };
    columns
        .iter()
        .enumerate()
        .map(|(varied, values)| values.iter().map(|value| with(varied, value)).collect())
        .collect()
}

/// Checks each order type as the only key column, with its extremes. Each key is read alone and together with
/// others.
pub async fn keys_of_one_column(bench: &dyn Bench) {
    for ty in &Type::ORDERABLE {
        let columns = vec![partition("p", ty.clone()), regular("v", Type::Int)];
        let fixture = Fixture::new(bench, "keys", columns).await;
        // Leave out empty keys, because Cassandra has no partition whose whole key is empty.
        let keys = key_cells(ty).into_iter().filter(|key| !key.is_empty());
        let keys: Vec<Cells> = keys.map(|key| cells([Some(&key)])).collect();
        for (key, number) in keys.iter().zip(0..) {
            fixture.apply(key, 1, put(Cells::new(), ints([number]))).await;
        }
        let reads: Vec<PointRead> = keys
            .iter()
            .map(|key| PointRead {
                table: Arc::clone(&fixture.table),
                partition: key.clone(),
                clustering: Cells::new(),
            })
            .collect();
        let options = ReadOptions::default();
        let found = fixture.snapshot().get_many(&reads, &options).await;
        let found = found.expect("keys of the table");
        for ((key, number), found) in keys.iter().zip(0..).zip(found) {
            let row = concat(key, &ints([number]));
            assert_eq!(
                found.rows.iter().next().map(|row| row.to_cells()),
                Some(row),
                "{ty}"
            );
        }
        fixture.drop().await;
    }
}

/// Checks that each order type as a clustering column, ascending and descending, is sorted and bounded in the
/// order of its type. One table has all types as clustering columns, and another table has them in the
/// opposite directions.
pub async fn clustering_columns(bench: &dyn Bench) {
    for first in [Direction::Ascending, Direction::Descending] {
        let direction = |index: usize| {
            if index.is_multiple_of(2) {
                first
            } else {
                first.reversed()
            }
        };
        let mut columns: Vec<Column> = vec![partition("p", Type::Int), regular("v", Type::Int)];
        for (index, ty) in Type::ORDERABLE.iter().enumerate() {
            columns.push(clustering(&format!("c{index}"), ty.clone(), direction(index)));
        }
        let fixture = Fixture::new(bench, "order", columns).await;
        for (index, keys) in (0..).zip(key_groups()) {
            one_type(&fixture, index, direction(index as usize), &keys).await;
        }
        fixture.drop().await;
    }
}

/// Checks rows in partition `index` whose clustering columns are `keys`, ascending in column `index`.
async fn one_type(fixture: &Fixture, index: i32, direction: Direction, keys: &[Cells]) {
    let mut model = Model::new(&fixture.table);
    let p = ints([index]);
    let mut rows: Vec<Cells> = keys
        .iter()
        .zip(0..)
        .map(|(key, row)| concat(&concat(&p, key), &ints([row])))
        .collect();
    // Write the rows in an order that is neither ascending nor descending, so that the store must
    // sort them.
    let shuffled = (0..3)
        .flat_map(|first| rows.iter().skip(first).step_by(3))
        .cloned()
        .collect();
    fixture.fill(&mut model, shuffled).await;
    if direction == Direction::Descending {
        rows.reverse();
    }
    let ty = &fixture.table.clustering()[index as usize].ty;
    let found = fixture.rows(&p).await;
    assert_eq!(found, rows, "the order of {ty}, {direction:?}");
    for key in keys {
        // Use the prefix of the key that ends with the column that varies.
        let prefix: Cells = key.iter().take(index as usize + 1).collect();
        for bound in [Bound::Before(prefix.clone()), Bound::After(prefix.clone())] {
            let from = fixture.slice_of(&p, bound.clone(), Bound::end(), ReadDirection::Forward, 2);
            fixture.check(&model, &from).await;
            let to = fixture.slice_of(&p, Bound::start(), bound, ReadDirection::Backward, 2);
            fixture.check(&model, &to).await;
        }
        assert!(fixture.get(&p, key).await.is_some(), "a {ty} by its key");
    }
}

/// Checks each order type as a partition column. Every extreme is its own partition, which is read by its key
/// and found by a scan.
pub async fn partition_columns(bench: &dyn Bench) {
    let mut columns: Vec<Column> = vec![regular("v", Type::Int)];
    for (index, ty) in Type::ORDERABLE.iter().enumerate() {
        columns.push(partition(&format!("p{index}"), ty.clone()));
    }
    let fixture = Fixture::new(bench, "partitions", columns).await;
    let mut expected: Vec<Cells> = Vec::new();
    for key in key_groups().into_iter().flatten() {
        if expected
            .iter()
            .any(|row| row.iter().zip(key.iter()).all(|(left, right)| left == right))
        {
            continue;
        }
        let value = ints([i32::try_from(expected.len()).expect("there are few extremes")]);
        fixture.apply(&key, 1, put(Cells::new(), value.clone())).await;
        expected.push(concat(&key, &value));
    }
    for row in &expected {
        let key: Cells = row.iter().take(Type::ORDERABLE.len()).collect();
        fixture.expect(&key, std::slice::from_ref(row)).await;
    }
    let snapshot = fixture.snapshot();
    let mut found: Vec<Cells> = Vec::new();
    for range in snapshot
        .token_ranges(&fixture.table, 4)
        .await
        .expect("a table has ranges")
    {
        let mut after = None;
        loop {
            let options = ReadOptions::default();
            let read = snapshot
                .scan(&fixture.table, &range, after.as_ref(), 50, &options)
                .await;
            let read = read.expect("a range can be scanned");
            found.extend(read.rows.iter().map(|row| row.to_cells()));
            match read.next {
                Some(next) => after = Some(next),
                None => break,
            }
        }
    }
    assert_eq!(found.len(), expected.len());
    assert!(
        expected.iter().all(|row| found.contains(row)),
        "a scan finds every partition"
    );
    fixture.drop().await;
}

/// Returns the types that can only be stored, with values of each.
fn stored_types(udt: &str) -> Vec<(Type, Vec<Value>)> {
    let int = Value::Int;
    let text = |text: &str| Value::Text(text.to_owned());
    let list = || Type::List(Box::new(Type::Int));
    let udt = Type::Udt(Arc::new(UdtType {
        name: udt.to_owned(),
        fields: vec![("a".to_owned(), Type::Int), ("b".to_owned(), Type::Text)],
    }));
    let duration = |months, days, nanoseconds| Value::Duration {
        months,
        days,
        nanoseconds,
    };
    let map = Type::Map(Box::new(Type::Text), Box::new(list()));
    let varints = [0, -1, 300].map(|value| Value::Varint(BigInt::from(value)));
    vec![
        (
            Type::Duration,
            vec![
                duration(0, 0, 0),
                duration(i32::MAX, i32::MAX, i64::MAX),
                duration(-1, -2, i64::MIN),
            ],
        ),
        (
            list(),
            vec![Value::List(vec![]), Value::List(vec![int(2), int(1), int(2)])],
        ),
        (
            Type::Set(Box::new(Type::Text)),
            vec![
                Value::Set(vec![]),
                Value::Set(vec![text(""), text("a"), text("b")]),
            ],
        ),
        (
            map,
            vec![
                Value::Map(vec![]),
                Value::Map(vec![
                    (text(""), Value::List(vec![])),
                    (text("k"), Value::List(vec![int(-1)])),
                ]),
            ],
        ),
        (
            Type::Tuple(vec![Type::Int, Type::Text, list()]),
            vec![
                Value::Tuple(vec![Some(int(1)), None, Some(Value::List(vec![int(1)]))]),
                Value::Tuple(vec![None, Some(text("")), None]),
            ],
        ),
        (
            udt,
            vec![
                Value::Udt(vec![Some(int(1)), Some(text("x"))]),
                Value::Udt(vec![None, Some(text(""))]),
            ],
        ),
        (
            Type::Vector(Box::new(Type::Float), 3),
            vec![Value::Vector([0.0, -1.5, f32::MAX].map(Value::Float).to_vec())],
        ),
        (
            Type::Vector(Box::new(Type::Varint), 3),
            vec![Value::Vector(varints.to_vec())],
        ),
    ]
}

/// Checks that values of every type are returned with the same bytes.
pub async fn stored_values(bench: &dyn Bench) {
    let mut types: Vec<(Type, Vec<Value>)> = Type::ORDERABLE
        .iter()
        .map(|ty| (ty.clone(), extremes::values(ty)))
        .collect();
    types.extend(stored_types(&bench.unique_name("udt")));
    let mut columns = vec![partition("p", Type::Int), ascending("c", Type::Int)];
    for (index, (ty, _)) in types.iter().enumerate() {
        columns.push(regular(&format!("v{index}"), ty.clone()));
    }
    let fixture = Fixture::new(bench, "values", columns).await;
    let most = types
        .iter()
        .map(|(_, values)| values.len())
        .max()
        .unwrap_or_default();
    let mut model = Model::new(&fixture.table);
    let rows = (0..most).zip(0..).map(|(row, c)| {
        let cells: Vec<Option<Vec<u8>>> = types
            .iter()
            .map(|(ty, values)| values.get(row).map(|value| cell_of(ty, value)))
            .collect();
        concat(&ints([1, c]), &cells.iter().map(Option::as_deref).collect())
    });
    fixture.fill(&mut model, rows.collect()).await;
    let found = fixture.rows(&ints([1])).await;
    for (found, expected) in found.iter().zip(model.rows()) {
        for (index, column) in fixture.table.columns().iter().enumerate() {
            assert_eq!(
                found.get(index),
                expected.get(index),
                "a value of type {}",
                column.ty
            );
        }
    }
    assert_eq!(found.len(), most);
    let tables = fixture.store.list_tables().await.expect("tables can be listed");
    assert!(
        tables.contains(&fixture.table),
        "a table of every type is listed as it was made"
    );
    fixture.drop().await;
}
