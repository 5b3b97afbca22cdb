//! Oracle: reference implementation of a collection in memory, which answers each query in the
//! simplest way.
//!
//! The oracle keeps a list of rows. To answer a query, it tests each condition on each row, and
//! sorts the matching rows. A page is a part of the result. It does not use Recto's planner,
//! cursors or key encoding. It compares values by its own [order], and by ICU for fields with a
//! collation.

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

/// Record: a value, or `None` for null, for each field of its collection, in the order of the
/// fields.
pub type Row = Vec<Option<Value>>;

/// Reference implementation of one collection in memory: stores rows, and answers queries.
#[derive(Debug, Clone)]
pub struct Oracle {
    collection: Arc<Collection>,
    collations: Collations,
    collated: Arc<Collated>,
    rows: Vec<Row>,
}

impl Oracle {
    /// Creates an oracle without rows, for a collection without collations.
    pub fn new(collection: Arc<Collection>) -> Self {
        Self::collated(collection, Collations::new())
    }

    /// Creates an oracle without rows. `collations` has the locale of each field with a collation.
    ///
    /// # Panics
    /// If ICU does not accept a locale.
    pub fn collated(collection: Arc<Collection>, collations: Collations) -> Self {
        Self {
            collated: Arc::new(Collated::new(&collection, &collations)),
            collection,
            collations,
            rows: Vec::new(),
        }
    }

    /// Returns the locale of each field that has a collation (language-specific order).
    pub fn collations(&self) -> &Collations {
        &self.collations
    }

    /// Compares two values of the field with this index, ascending.
    ///
    /// # Panics
    /// If the type of the field has no order.
    pub fn compare(&self, field: usize, left: &Value, right: &Value) -> Ordering {
        self.collated.compare(field, left, right)
    }

    /// Returns the definition of the collection.
    pub fn collection(&self) -> &Arc<Collection> {
        &self.collection
    }

    /// Returns all rows, in no particular order.
    pub fn rows(&self) -> &[Row] {
        &self.rows
    }

    /// Stores a row, and replaces a row with the same key.
    pub fn put(&mut self, row: Row) {
        self.delete(&row);
        self.rows.push(row);
    }

    /// Deletes the row with the key of `row`, and returns it.
    pub fn delete(&mut self, row: &Row) -> Option<Row> {
        let index = self.rows.iter().position(|other| self.same_key(row, other))?;
        Some(self.rows.swap_remove(index))
    }

    /// Returns the row with the key of `row`.
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

    /// Returns whether two rows are the same record. Key fields must compare as equal, because
    /// stores change keys to a canonical form. Other fields must have equal bytes.
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

    /// Returns a row as JSON, for the messages of failed tests.
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

    /// Answers a query: returns the rows that satisfy all conditions, in the sort order of the
    /// query.
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

    /// Returns whether the filter lists values for some field, and other conditions exclude all of
    /// them. The result of such a query is empty.
    pub fn leaves_no_value(&self, question: &Question) -> bool {
        let mut fields = 0..self.collection.fields.len();
        fields.any(|field| {
            self.values_left(question, field)
                .is_some_and(|values| values.is_empty())
        })
    }

    /// Returns the complete sort order of a query:
    ///
    /// 1. the sort, without fields that the filter fixes to one value
    /// 2. the other order columns of the sort order, reversed if the sort is opposite to the sort order
    /// 3. its other partition columns, by the same rule
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

    /// Returns the values that the filter allows for a field: the values of an equality, or of an
    /// OR of equalities, without those that other conditions on this field exclude. Returns `None`
    /// if no condition lists values.
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

/// Complete result of a query: the matching rows, sorted. Each page is a part of it.
#[derive(Debug, Clone)]
pub struct Sequence {
    order: Vec<(usize, Direction)>,
    collated: Arc<Collated>,
    rows: Vec<Row>,
}

/// Page of a query's result.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Cut<'a> {
    /// Rows of the page.
    pub rows: &'a [Row],
    /// True if the result has rows before the page.
    pub more_before: bool,
    /// True if the result has rows after the page.
    pub more_after: bool,
}

impl Sequence {
    /// Returns all rows of the result.
    pub fn rows(&self) -> &[Row] {
        &self.rows
    }

    /// Returns the indexes (from 0) of the fields by which the rows are sorted, with their
    /// directions.
    pub fn order(&self) -> &[(usize, Direction)] {
        &self.order
    }

    /// Compares two rows by the sort order of the query. The result need not contain them.
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

    /// Returns the page with the first `count` rows.
    pub fn first(&self, count: usize) -> Cut<'_> {
        self.cut(0, count.min(self.rows.len()))
    }

    /// Returns the page with the last `count` rows.
    pub fn last(&self, count: usize) -> Cut<'_> {
        self.cut(self.rows.len().saturating_sub(count), self.rows.len())
    }

    /// Returns the page of the `count` rows after `row`, which need not exist any more.
    pub fn after(&self, row: &Row, count: usize) -> Cut<'_> {
        let from = self
            .rows
            .partition_point(|other| compare_rows(&self.collated, &self.order, other, row).is_le());
        self.cut(from, (from + count).min(self.rows.len()))
    }

    /// Returns the page of the `count` rows before `row`, which need not exist any more.
    pub fn before(&self, row: &Row, count: usize) -> Cut<'_> {
        let to = self
            .rows
            .partition_point(|other| compare_rows(&self.collated, &self.order, other, row).is_lt());
        self.cut(to.saturating_sub(count), to)
    }

    /// Returns a page of `count` rows: half of them before `row`, and the rest from `row` on. If
    /// one side has too few rows, the page has more from the other side.
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

    /// Returns the page of `count` rows from the given values of the first sort fields on.
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
