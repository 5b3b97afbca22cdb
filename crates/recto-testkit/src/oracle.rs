//! An in-memory model of a collection that answers every query the obvious way.
//!
//! It keeps a list of rows. A question is answered by trying every condition on every row, sorting
//! what is left by the question's total order, and cutting the page out of the result. It uses
//! neither planner nor cursor nor key codec, and compares by an [order] of its own, and by ICU where a field sorts as
//! people of a language do.

mod collated;
pub mod order;
mod question;

use std::cmp::Ordering;
use std::sync::Arc;

use recto_model::schema::Collection;
use recto_model::table::Direction;
use recto_model::{Value, json};

use collated::Collated;

pub use collated::Collations;
pub use question::{Comparison, Condition, Question};

/// A record: a value or null for each field of its collection, in the collection's order.
pub type Row = Vec<Option<Value>>;

/// The rows of one collection.
#[derive(Debug, Clone)]
pub struct Oracle {
    collection: Arc<Collection>,
    collations: Collations,
    collated: Arc<Collated>,
    rows: Vec<Row>,
}

impl Oracle {
    /// A collection without rows.
    pub fn new(collection: Arc<Collection>) -> Self {
        Self::collated(collection, Collations::new())
    }

    /// A collection without rows, some of whose fields sort as people of a language do.
    ///
    /// # Panics
    /// If ICU does not take a locale.
    pub fn collated(collection: Arc<Collection>, collations: Collations) -> Self {
        Self {
            collated: Arc::new(Collated::new(&collection, &collations)),
            collection,
            collations,
            rows: Vec::new(),
        }
    }

    /// By which locales fields sort.
    pub fn collations(&self) -> &Collations {
        &self.collations
    }

    /// Compares two values of a field, ascending.
    ///
    /// # Panics
    /// If it is of a type without order.
    pub fn compare(&self, field: usize, left: &Value, right: &Value) -> Ordering {
        self.collated.compare(field, left, right)
    }

    /// The collection.
    pub fn collection(&self) -> &Arc<Collection> {
        &self.collection
    }

    /// All rows, in no order.
    pub fn rows(&self) -> &[Row] {
        &self.rows
    }

    /// Stores a row in the place of one with its key.
    pub fn put(&mut self, row: Row) {
        self.delete(&row);
        self.rows.push(row);
    }

    /// Deletes the row that has the key of `row`, and returns it.
    pub fn delete(&mut self, row: &Row) -> Option<Row> {
        let index = self.rows.iter().position(|other| self.same_key(row, other))?;
        Some(self.rows.swap_remove(index))
    }

    /// The row that has the key of `row`.
    pub fn get(&self, row: &Row) -> Option<&Row> {
        self.rows.iter().find(|other| self.same_key(row, other))
    }

    fn same_key(&self, left: &Row, right: &Row) -> bool {
        self.collection.key.iter().all(|name| {
            let (field, _) = self.collection.field(name).expect("a key names fields");
            self.collated
                .compare_nullable(field, left[field].as_ref(), right[field].as_ref())
                .is_eq()
        })
    }

    /// Whether two rows are the same record: keys equal in order (a stored key has its canonical
    /// form), other values byte for byte.
    pub fn same_row(&self, left: &Row, right: &Row) -> bool {
        self.same_key(left, right)
            && self
                .collection
                .fields
                .iter()
                .zip(left.iter().zip(right))
                .all(|(field, (left, right))| {
                    let bytes =
                        |value: &Option<Value>| value.as_ref().map(|value| order::bytes(&field.ty, value));
                    self.collection.is_required(&field.name) || bytes(left) == bytes(right)
                })
    }

    /// A row for people: its JSON.
    pub fn show(&self, row: &Row) -> String {
        let fields = self
            .collection
            .fields
            .iter()
            .zip(row)
            .filter_map(|(field, value)| {
                Some((field.name.clone(), json::to_json(&field.ty, value.as_ref()?)))
            });
        serde_json::Value::Object(fields.collect()).to_string()
    }

    /// Every row that satisfies the conditions, in the question's total order.
    pub fn ask(&self, question: &Question) -> Sequence {
        let holds = |row: &&Row| {
            question
                .conditions
                .iter()
                .all(|condition| condition.holds(self, row))
        };
        let order = self.total_order(question);
        let mut rows: Vec<Row> = self.rows.iter().filter(holds).cloned().collect();
        let collated = Arc::clone(&self.collated);
        rows.sort_by(|left, right| compare_rows(&collated, &order, left, right));
        Sequence {
            order,
            collated,
            rows,
        }
    }

    /// Whether the conditions on a field leave none of the values they list for it: there is no row, and
    /// whether the field is pinned is nobody's business.
    pub fn leaves_no_value(&self, question: &Question) -> bool {
        let mut fields = 0..self.collection.fields.len();
        fields.any(|field| {
            self.values_left(question, field)
                .is_some_and(|values| values.is_empty())
        })
    }

    /// The sort, without fields that the filter pins to one value; then the sort order of the view
    /// columns that are not in it, turned round if the sort runs against the sort order; then its
    /// partition columns, likewise.
    fn total_order(&self, question: &Question) -> Vec<(usize, Direction)> {
        let is_pinned = |field: usize| {
            self.values_left(question, field)
                .is_some_and(|values| values.len() == 1)
        };
        let is_listed = |field: usize| self.values_left(question, field).is_some();
        let mut order: Vec<(usize, Direction)> = question
            .sort
            .iter()
            .filter(|(field, _)| !is_pinned(*field))
            .copied()
            .collect();
        let arranged: Vec<(usize, Direction)> = self
            .collection
            .base()
            .order
            .iter()
            .map(|column| (self.field(&column.field), column.direction))
            .chain(
                self.collection
                    .base()
                    .partition
                    .iter()
                    .map(|name| (self.field(name), Direction::Ascending)),
            )
            .collect();
        let against: Vec<(usize, bool)> = order
            .iter()
            .filter_map(|(field, direction)| {
                let own = arranged[..self.collection.base().order.len()]
                    .iter()
                    .find(|(own, _)| own == field)?;
                Some((*field, own.1 != *direction))
            })
            .collect();
        let decisive = against
            .iter()
            .find(|(field, _)| !is_listed(*field))
            .or(against.first());
        let is_reversed = decisive.is_some_and(|(_, against)| *against);
        for (field, direction) in arranged {
            if !is_pinned(field) && !order.iter().any(|(earlier, _)| *earlier == field) {
                order.push((
                    field,
                    if is_reversed {
                        direction.reversed()
                    } else {
                        direction
                    },
                ));
            }
        }
        order
    }

    fn field(&self, name: &str) -> usize {
        self.collection.field(name).expect("a sort order names fields").0
    }

    /// The values that equalities and ORs of equalities leave a field, less those that other
    /// conditions on the field alone exclude; `None` if no equality is among the conditions.
    fn values_left(&self, question: &Question, field: usize) -> Option<Vec<Value>> {
        let mut listed = question
            .conditions
            .iter()
            .find_map(|condition| condition.listed(field))?;
        listed.sort_by(|left, right| self.compare(field, left, right));
        listed.dedup_by(|left, right| self.compare(field, left, right).is_eq());
        let mut row: Row = vec![None; self.collection.fields.len()];
        listed.retain(|value| {
            row[field] = Some(value.clone());
            question.conditions.iter().all(|condition| {
                let excluded_by_list = condition.listed(field).is_some_and(|values| {
                    !values
                        .iter()
                        .any(|other| self.compare(field, other, value).is_eq())
                });
                let excluded = condition.is_only_on(field) && !condition.holds(self, &row);
                !excluded_by_list && !excluded
            })
        });
        Some(listed)
    }
}

/// The whole answer to a question, to cut pages out of.
#[derive(Debug, Clone)]
pub struct Sequence {
    order: Vec<(usize, Direction)>,
    collated: Arc<Collated>,
    rows: Vec<Row>,
}

/// A page cut out of a sequence.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Cut<'a> {
    /// Its rows.
    pub rows: &'a [Row],
    /// Whether the sequence has rows before them.
    pub more_before: bool,
    /// Whether the sequence has rows after them.
    pub more_after: bool,
}

impl Sequence {
    /// All rows.
    pub fn rows(&self) -> &[Row] {
        &self.rows
    }

    /// The fields it is ordered by, with their directions.
    pub fn order(&self) -> &[(usize, Direction)] {
        &self.order
    }

    /// How two rows stand in the sequence's order, whether or not they are in it.
    pub fn compare(&self, left: &Row, right: &Row) -> Ordering {
        compare_rows(&self.collated, &self.order, left, right)
    }

    fn cut(&self, from: usize, to: usize) -> Cut<'_> {
        Cut {
            rows: &self.rows[from..to],
            more_before: from > 0,
            more_after: to < self.rows.len(),
        }
    }

    /// The first `count` rows.
    pub fn first(&self, count: usize) -> Cut<'_> {
        self.cut(0, count.min(self.rows.len()))
    }

    /// The last `count` rows.
    pub fn last(&self, count: usize) -> Cut<'_> {
        self.cut(self.rows.len().saturating_sub(count), self.rows.len())
    }

    /// The `count` rows after `row`, whether or not it is still there.
    pub fn after(&self, row: &Row, count: usize) -> Cut<'_> {
        let from = self
            .rows
            .partition_point(|other| compare_rows(&self.collated, &self.order, other, row).is_le());
        self.cut(from, (from + count).min(self.rows.len()))
    }

    /// The `count` rows nearest before `row`, whether or not it is still there.
    pub fn before(&self, row: &Row, count: usize) -> Cut<'_> {
        let to = self
            .rows
            .partition_point(|other| compare_rows(&self.collated, &self.order, other, row).is_lt());
        self.cut(to.saturating_sub(count), to)
    }

    /// Half of `count` rows before `row`, the rest from it on; a short side is filled by the other.
    pub fn around(&self, row: &Row, count: usize) -> Cut<'_> {
        let place = self
            .rows
            .partition_point(|other| compare_rows(&self.collated, &self.order, other, row).is_lt());
        let to = (place + (count - count / 2)).min(self.rows.len());
        let from = place.saturating_sub(count / 2);
        let from = from.min(to.saturating_sub(count));
        let to = (from + count).min(self.rows.len());
        self.cut(from, to)
    }

    /// The `count` rows from some values of the first order fields on.
    pub fn from(&self, values: &[Value], count: usize) -> Cut<'_> {
        let from = self.rows.partition_point(|row| {
            for ((field, direction), value) in self.order.iter().zip(values) {
                let ordering = self
                    .collated
                    .compare_nullable(*field, row[*field].as_ref(), Some(value));
                let ordering = direction.apply(ordering);
                if ordering.is_ne() {
                    return ordering.is_lt();
                }
            }
            false
        });
        self.cut(from, (from + count).min(self.rows.len()))
    }
}

fn compare_rows(collated: &Collated, order: &[(usize, Direction)], left: &Row, right: &Row) -> Ordering {
    order
        .iter()
        .map(|(field, direction)| {
            direction.apply(collated.compare_nullable(*field, left[*field].as_ref(), right[*field].as_ref()))
        })
        .find(|ordering| ordering.is_ne())
        .unwrap_or(Ordering::Equal)
}
