//! Random collections, rows and questions, from a seed.
//!
//! What is drawn is meant to hurt: values at the edges of their types and their neighbours, many
//! rows that agree in their first order columns, every mix of directions, every kind of question.
//! The same seed gives the same draw. A [`Case`] holds a draw as plain data: it can be made simpler, and
//! printed as a Rust test.

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

/// The most partition columns of a drawn collection.
pub const MAX_PARTITION_COLUMNS: usize = 3;
/// The most order columns of a drawn collection.
pub const MAX_ORDER_COLUMNS: usize = 6;
/// How many rows may fail to have a new key before drawing rows ends: pools of few values have few
/// combinations.
const MAX_REPEATS: usize = 50;

/// The generator of a seed.
pub fn rng(seed: u64) -> Rng {
    Rng::with_seed(seed)
}

/// A collection: one to three partition columns, one to six order columns of any order types in any
/// directions (the last ones sometimes left to follow by themselves), and three other fields.
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

/// Rows of a collection, with the few values per field they are made of.
#[derive(Debug, Clone)]
pub struct Data {
    /// The rows.
    pub oracle: Oracle,
    /// For each field, the values its rows have; empty for fields that are no order type.
    pub pools: Vec<Vec<Value>>,
}

/// About `count` rows of the collection of an oracle that has none, no two of one key.
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
    /// A row made of the pools' values, whose key may be taken.
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

/// Few values for partition columns, so that partitions have rows; a few more for order columns, with
/// neighbours among them.
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

/// Stores take no empty value as a sole partition part.
fn is_empty(value: &Value) -> bool {
    match value {
        Value::Text(text) | Value::Ascii(text) => text.is_empty(),
        Value::Blob(bytes) => bytes.is_empty(),
        _ => false,
    }
}

/// A value that is not empty, of a type that has an empty one.
fn filler(ty: &Type) -> Value {
    match ty {
        Type::Text => Value::Text("a".into()),
        Type::Ascii => Value::Ascii("a".into()),
        _ => Value::Blob(vec![0]),
    }
}
