//! Random queries (filter and sort order), with and without a filter scan.

use recto_model::schema::Collection;
use recto_model::table::Direction;
use recto_model::{Type, Value};

use super::value::neighbour;
use super::{Data, Rng};
use crate::oracle::{Comparison, Condition, Question, Row, Sequence};

/// Maximum number of combinations of listed values in one query. Each combination can be a separate
/// range of rows, tuple ranges multiply them, and a query plan has at most 128.
const MAX_COMBINATIONS: usize = 9;
/// Maximum number of values that a random filter lists for one field.
const MAX_LISTED: usize = 4;
/// Comparison operators that select a range of values.
const RANGES: [Comparison; 4] = [
    Comparison::Less,
    Comparison::LessOrEqual,
    Comparison::Greater,
    Comparison::GreaterOrEqual,
];

/// Returns a random query that the sort order of the collection can answer. Most queries have a
/// result. The filter gives one or several values for each partition column and for some sort
/// columns. The next sort column may have a range, a prefix or a tuple range. One in five queries
/// has a further condition, which needs a filter scan.
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

/// Returns random values for the first sort fields of a query's result, at which a page can start.
/// Some of the values occur in no row.
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

/// Returns a random value from `pool`, or in one of five cases a neighbor of such a value.
fn near_pool(rng: &mut Rng, pool: &[Value]) -> Value {
    let value = &pool[rng.usize(0..pool.len())];
    if rng.u8(0..5) == 0 {
        neighbour(rng, value)
    } else {
        value.clone()
    }
}

/// Random query that is being generated.
struct Draw<'a> {
    rng: &'a mut Rng,
    data: &'a Data,
    collection: &'a Collection,
    combinations: usize,
    question: Question,
    /// Fields for which the filter already gives one or several values.
    many: Vec<usize>,
    /// Row that the query should match, so that its result is not empty; `None`: the result may be
    /// empty.
    anchor: Option<&'a Row>,
}

impl Draw<'_> {
    fn value(&mut self, field: usize) -> Value {
        near_pool(self.rng, &self.data.pools[field])
    }

    /// Returns the value of a field in the anchor row (which the query should match), or a random
    /// value if there is none.
    fn near_anchor(&mut self, field: usize) -> Value {
        let own = self.anchor.and_then(|row| row[field].clone());
        own.unwrap_or_else(|| self.value(field))
    }

    fn ty(&self, field: usize) -> &Type {
        &self.collection.fields[field].ty
    }

    /// Returns whether the field can have a prefix condition. A field with a collation cannot:
    /// texts with a common prefix are not adjacent in the collation's order.
    fn takes_prefix(&self, field: usize) -> bool {
        let name = &self.collection.fields[field].name;
        self.ty(field).is_textual() && !self.data.oracle.collations().contains_key(name)
    }

    fn add(&mut self, condition: Condition) {
        self.question.conditions.push(condition);
    }

    /// Adds a condition that allows one value, or a few values, for a field.
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

    /// Adds a random range condition on the sort column with the index `pinned`.
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

    /// Adds a tuple range over some of the first `pinned` sort columns and the columns after them.
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

    /// Adds a condition that needs a filter scan: on a field outside the key, or on a sort column
    /// after the first one without a fixed value.
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

    /// Sets a random sort order that the collection can provide: some of the sort columns after the
    /// first `pinned`, in their directions or all reversed. Columns with given values are inserted
    /// anywhere, in any direction.
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
