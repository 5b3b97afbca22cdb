//! Generator of random test cases (collections, rows and queries) from a seed.
//!
//! The generator prefers cases that reveal errors: values at the limits of their types, their
//! neighbors, and many rows with equal values in the first sort columns. It covers all combinations
//! of sort directions, and all kinds of queries. One seed always gives one result. A [`Case`] holds
//! the result as plain data, which can be simplified, and printed as a Rust test.

mod case;
mod collated;
mod print;
mod question;
mod shrink;
mod value;

use recto_model::schema::{Collection, Declaration, Field, WriteMode};
use recto_model::{Type, Value};

use crate::oracle::{Oracle, Row};

pub use case::{Case, Change, Move, Place, moves};
pub use collated::collations;
pub use fastrand::Rng;
pub use question::{from_values, question};
pub use value::{neighbour, value};

/// Maximum number of partition columns of a random collection.
pub const MAX_PARTITION_COLUMNS: usize = 3;
/// Maximum number of sort columns of a random collection.
pub const MAX_ORDER_COLUMNS: usize = 6;
/// Number of random rows with a duplicate key after which [`data`] stops, with fewer rows than
/// requested. A collection with few possible values does not have enough different keys.
const MAX_REPEATS: usize = 50;

/// Returns the random number generator for a seed.
pub fn rng(seed: u64) -> Rng {
    Rng::with_seed(seed)
}

/// Returns a random collection with one to three partition columns, one to six sort columns of any
/// sortable types and directions, and three other fields. Sometimes the declaration leaves out the
/// last sort columns, which the schema then adds by itself.
pub fn collection(rng: &mut Rng, name: &str) -> Collection {
    let partition: Vec<String> = (0..rng.usize(1..=MAX_PARTITION_COLUMNS))
        .map(|index| format!("p{index}"))
        .collect();
    let order: Vec<String> = (0..rng.usize(1..=MAX_ORDER_COLUMNS))
        .map(|index| format!("c{index}"))
        .collect();
    let mut fields: Vec<Field> = partition
        .iter()
        .chain(&order)
        .map(|name| Field {
            name: name.clone(),
            ty: order_type(rng),
        })
        .collect();
    let stored = [Type::Text, order_type(rng), Type::List(Box::new(Type::Int))];
    fields.extend(stored.into_iter().enumerate().map(|(index, ty)| Field {
        name: format!("v{index}"),
        ty,
    }));
    rng.shuffle(&mut fields);
    let declared = if rng.u8(0..4) == 0 {
        rng.usize(0..order.len())
    } else {
        order.len()
    };
    let declaration = Declaration {
        name: name.to_owned(),
        fields,
        key: partition.iter().chain(&order).cloned().collect(),
        order: order[..declared]
            .iter()
            .map(|name| {
                if rng.bool() {
                    format!("-{name}")
                } else {
                    name.clone()
                }
            })
            .collect(),
        partition: Some(partition),
        writes: if rng.bool() {
            WriteMode::Append
        } else {
            WriteMode::Overwrite
        },
    };
    Collection::new(declaration).expect("what is drawn keeps the rules of the schema language")
}

fn order_type(rng: &mut Rng) -> Type {
    Type::ORDERABLE[rng.usize(0..Type::ORDERABLE.len())].clone()
}

/// Rows of a random collection, and the few values from which they are made.
#[derive(Debug, Clone)]
pub struct Data {
    /// Reference implementation of the collection, with the generated rows.
    pub oracle: Oracle,
    /// For each field, the values that rows can have. The list is empty if the field's type cannot
    /// be sorted.
    pub pools: Vec<Vec<Value>>,
}

/// Generates about `count` rows with different keys. `oracle` is the collection, without rows.
pub fn data(rng: &mut Rng, oracle: &Oracle, count: usize) -> Data {
    let fields = oracle.collection().fields.iter();
    let pools = fields.map(|field| pool(rng, oracle, field)).collect();
    let mut data = Data {
        oracle: oracle.clone(),
        pools,
    };
    let mut repeats = 0;
    while data.oracle.rows().len() < count && repeats < MAX_REPEATS {
        let row = data.row(rng);
        if data.oracle.get(&row).is_some() {
            repeats += 1;
        } else {
            data.oracle.put(row);
        }
    }
    data
}

impl Data {
    /// Returns a random row with values from the pools. Another row may have its key.
    pub fn row(&self, rng: &mut Rng) -> Row {
        let collection = self.oracle.collection();
        let fields = collection.fields.iter().zip(&self.pools);
        fields
            .map(|(field, pool)| {
                if !collection.is_required(&field.name) && rng.u8(0..4) == 0 {
                    return None;
                }
                Some(if pool.is_empty() {
                    Value::List((0..rng.usize(0..3)).map(|_| Value::Int(rng.i32(..))).collect())
                } else {
                    pool[rng.usize(0..pool.len())].clone()
                })
            })
            .collect()
    }
}

/// Returns the values that rows can have in a field. A partition column gets few values, so that
/// partitions have several rows. Another column gets more values, with neighbors among them.
fn pool(rng: &mut Rng, oracle: &Oracle, field: &Field) -> Vec<Value> {
    let collection = oracle.collection();
    let is_collated = oracle.collations().contains_key(&field.name);
    if !field.ty.is_orderable() {
        return Vec::new();
    }
    let is_partition = collection.base().partition.contains(&field.name);
    let size = if is_partition {
        rng.usize(1..=4 - collection.base().partition.len())
    } else {
        rng.usize(2..=7)
    };
    let mut pool: Vec<Value> = Vec::with_capacity(size);
    for _ in 0..size {
        let next = match pool.last() {
            Some(last) if rng.u8(0..3) == 0 => neighbour(rng, last),
            _ if is_collated => collated::text(rng),
            _ => value(rng, &field.ty),
        };
        if !(is_partition && is_empty(&next)) {
            pool.push(next);
        }
    }
    if pool.is_empty() {
        pool.push(filler(&field.ty));
    }
    pool
}

/// Returns whether a value is empty. A store rejects an empty value if there is only one partition
/// column.
fn is_empty(value: &Value) -> bool {
    match value {
        Value::Text(text) | Value::Ascii(text) => text.is_empty(),
        Value::Blob(bytes) => bytes.is_empty(),
        _ => false,
    }
}

/// Returns a replacement for an empty value, for a type that has one.
fn filler(ty: &Type) -> Value {
    match ty {
        Type::Text => Value::Text("a".into()),
        Type::Ascii => Value::Ascii("a".into()),
        _ => Value::Blob(vec![0]),
    }
}
