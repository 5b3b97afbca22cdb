//! Random questions that a sort order serves, and questions that it serves with a filter scan.

use recto_model::schema::Collection;
use recto_model::table::Direction;
use recto_model::{Type, Value};

use super::value::neighbour;
use super::{Data, Rng};
use crate::oracle::{Comparison, Condition, Question, Row, Sequence};

/// Maximum number of combinations of listed values in one question. Tuple ranges multiply the
/// number of sources, and a plan has at most 128 sources.
const MAX_COMBINATIONS: usize = 9;
/// Maximum number of values that a condition lists for one field.
const MAX_LISTED: usize = 4;
/// Comparisons that make a range.
const RANGES: [Comparison; 4] = [
    Comparison::Less,
    Comparison::LessOrEqual,
    Comparison::Greater,
    Comparison::GreaterOrEqual,
];

/// Returns a question that the sort order of the collection serves. Most questions have a result. Partition columns and
/// some order columns are fixed or listed. The next order column may have a range, a prefix or a tuple range. The sort
/// is one that the sort order can provide. One in five questions has a further condition and allows a filter scan for
/// it.
pub fn question(rng: &mut Rng, data: &Data) -> Question {
    let collection = data.oracle.collection();
    let mut draw = Draw {
        rng,
        data,
        collection,
        combinations: 1,
        question: Question::default(),
        many: Vec::new(),
        anchor: None,
    };
    let rows = data.oracle.rows();
    if !rows.is_empty() && draw.rng.u8(0..4) > 0 {
        draw.anchor = Some(&rows[draw.rng.usize(0..rows.len())]);
    }
    let order: Vec<(usize, Direction)> = collection
        .base()
        .order
        .iter()
        .map(|column| (index(collection, &column.field), column.direction))
        .collect();
    for name in collection.base().partition {
        draw.pin(index(collection, name));
    }
    let pinned = match draw.rng.u8(0..4) {
        0 | 1 => 0,
        2 => 1,
        _ => draw.rng.usize(0..=order.len()),
    };
    for (field, _) in &order[..pinned] {
        draw.pin(*field);
    }
    draw.range(&order, pinned);
    if draw.rng.u8(0..5) == 0 {
        draw.filter_scan(&order, pinned);
    }
    if draw.rng.u8(0..3) > 0 {
        draw.sort(&order, pinned);
    }
    let mut question = draw.question;
    rng.shuffle(&mut question.conditions);
    question
}

/// Returns values for the first fields of a sequence's order, as a start of a page. Some of the
/// values belong to no row.
pub fn from_values(rng: &mut Rng, data: &Data, sequence: &Sequence) -> Vec<Value> {
    let count = rng.usize(0..=sequence.order().len());
    let near = match sequence.rows() {
        [] => None,
        rows => Some(&rows[rng.usize(0..rows.len())]),
    };
    sequence.order()[..count]
        .iter()
        .map(|(field, _)| match near.and_then(|row| row[*field].clone()) {
            Some(value) if rng.u8(0..4) > 0 => value,
            _ => near_pool(rng, &data.pools[*field]),
        })
        .collect()
}

fn index(collection: &Collection, name: &str) -> usize {
    collection.field(name).expect("a sort order names fields").0
}

/// Returns a random value of a pool, or in one of five cases a neighbor of the value.
fn near_pool(rng: &mut Rng, pool: &[Value]) -> Value {
    let value = &pool[rng.usize(0..pool.len())];
    if rng.u8(0..5) == 0 {
        neighbour(rng, value)
    } else {
        value.clone()
    }
}

/// Question during its generation.
struct Draw<'a> {
    rng: &'a mut Rng,
    data: &'a Data,
    collection: &'a Collection,
    combinations: usize,
    question: Question,
    /// Fields that the question fixes to a value or lists values for, so far.
    many: Vec<usize>,
    /// Row that the question should match, so that the answer has at least one row.
    anchor: Option<&'a Row>,
}

impl Draw<'_> {
    fn value(&mut self, field: usize) -> Value {
        near_pool(self.rng, &self.data.pools[field])
    }

    /// Returns the value of a field in the anchor row. Returns a random value if the row or its
    /// value is missing.
    fn near_anchor(&mut self, field: usize) -> Value {
        let own = self.anchor.and_then(|row| row[field].clone());
        own.unwrap_or_else(|| self.value(field))
    }

    fn ty(&self, field: usize) -> &Type {
        &self.collection.fields[field].ty
    }

    /// Returns whether the field can have a prefix condition. A field with a collation cannot: in
    /// the order of a collation, texts with a common prefix are not adjacent.
    fn takes_prefix(&self, field: usize) -> bool {
        let name = &self.collection.fields[field].name;
        self.ty(field).is_textual() && !self.data.oracle.collations().contains_key(name)
    }

    fn add(&mut self, condition: Condition) {
        self.question.conditions.push(condition);
    }

    /// Fixes a field to a value, or lists a few values.
    fn pin(&mut self, field: usize) {
        self.many.push(field);
        let room = MAX_COMBINATIONS / self.combinations;
        let count = if self.rng.bool() {
            1
        } else {
            self.rng.usize(1..=MAX_LISTED).min(room)
        };
        if count <= 1 {
            let value = self.near_anchor(field);
            return self.add(Condition::Compare {
                field,
                comparison: Comparison::Equal,
                value,
            });
        }
        self.combinations *= count;
        let mut values: Vec<Value> = (1..count).map(|_| self.value(field)).collect();
        let place = self.rng.usize(0..count);
        values.insert(place, self.near_anchor(field));
        self.add(Condition::AnyOf { field, values });
        if self.rng.u8(0..6) == 0 {
            self.compare(field);
        }
    }

    fn compare(&mut self, field: usize) {
        let comparison = RANGES[self.rng.usize(0..RANGES.len())];
        let value = self.value(field);
        self.add(Condition::Compare {
            field,
            comparison,
            value,
        });
    }

    /// Adds a range on the first order column that is not fixed.
    fn range(&mut self, order: &[(usize, Direction)], pinned: usize) {
        let Some(&(field, _)) = order.get(pinned) else {
            return;
        };
        let takes_prefix = self.takes_prefix(field);
        let is_prefix = takes_prefix && self.rng.u8(0..3) == 0;
        let kind = if is_prefix { 2 } else { self.rng.u8(0..8) };
        match kind {
            0 => self.compare(field),
            1 => {
                self.compare(field);
                self.compare(field);
            }
            2 if takes_prefix => {
                let (Value::Text(text) | Value::Ascii(text)) = self.near_anchor(field) else {
                    return;
                };
                let count = self.rng.usize(0..=text.chars().count());
                self.add(Condition::StartsWith {
                    field,
                    prefix: text.chars().take(count).collect(),
                });
            }
            3 | 4 => self.tuple(order, pinned),
            5 => {
                self.tuple(order, pinned);
                self.tuple(order, pinned);
            }
            6 => {
                self.compare(field);
                self.tuple(order, pinned);
            }
            _ => {}
        }
    }

    /// Adds a tuple range over some of the fixed columns and the free columns after them.
    fn tuple(&mut self, order: &[(usize, Direction)], pinned: usize) {
        let from = if self.rng.u8(0..4) == 0 {
            self.rng.usize(0..=pinned)
        } else {
            pinned
        };
        let to = self.rng.usize(pinned + 1..=order.len());
        let fields: Vec<usize> = order[from..to].iter().map(|(field, _)| *field).collect();
        let values = fields.iter().map(|field| self.value(*field)).collect();
        let comparison = RANGES[self.rng.usize(0..RANGES.len())];
        self.add(Condition::Tuple {
            fields,
            comparison,
            values,
        });
    }

    /// Adds a condition that the sort order does not serve: on a field outside the key, or on an
    /// order column after the first free order column.
    fn filter_scan(&mut self, order: &[(usize, Direction)], pinned: usize) {
        self.question.allow_filter_scan = true;
        let stored = ["v0", "v1"].map(|name| index(self.collection, name));
        let late = order.iter().skip(pinned + 1).map(|(field, _)| *field);
        let candidates: Vec<usize> = stored.into_iter().chain(late).collect();
        let field = candidates[self.rng.usize(0..candidates.len())];
        if self.rng.bool() || !stored.contains(&field) {
            self.compare(field);
        } else {
            let values = (0..2).map(|_| self.value(field)).collect();
            self.add(Condition::AnyOf { field, values });
        }
    }

    /// Sets a sort by some of the free order columns, in the directions of the sort order or all
    /// reversed. The sort also has some fixed and listed columns, at random positions and in random
    /// directions.
    fn sort(&mut self, order: &[(usize, Direction)], pinned: usize) {
        let count = self.rng.usize(0..=order.len() - pinned);
        let is_reversed = self.rng.bool();
        let mut sort: Vec<(usize, Direction)> = order[pinned..pinned + count]
            .iter()
            .map(|(field, direction)| {
                (
                    *field,
                    if is_reversed {
                        direction.reversed()
                    } else {
                        *direction
                    },
                )
            })
            .collect();
        for field in self.many.clone() {
            if self.rng.bool() {
                let direction = if self.rng.bool() {
                    Direction::Ascending
                } else {
                    Direction::Descending
                };
                sort.insert(self.rng.usize(0..=sort.len()), (field, direction));
            }
        }
        self.question.sort = sort;
    }
}
