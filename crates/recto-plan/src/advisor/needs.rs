//! Requirements of a query on a view, and whether one view can serve two queries.
//!
//! The columns of a view form one sequence: its partition, its order, and the rest of the key. A view serves a query
//! without a filter scan exactly if both conditions hold:
//!
//! - The fields that the query fixes (by `=` or by an OR of equalities) are the first fields of the
//!   sequence, in any order. They include the partition.
//! - The fields by which the query sorts, or on which it has a range, follow in this order. They
//!   are the *tail* of the query. The directions of the tail are those of the view, or all of them
//!   are reversed.
//!
//! Each query thus determines the field at each place of its tail, which begins after its fixed
//! fields. It is enough to compare queries in pairs. Two queries agree at a place if they have the
//! same field there, the same fields before it, and the same relative directions of neighbors. If
//! every two of several queries agree, one view can serve all of them.

use std::collections::BTreeSet;

use crate::Query;
use crate::query::Constraint;
use recto_model::schema::{Collection, MAX_KEY_FIELDS, WriteMode};
use recto_model::table::Direction;

use crate::advisor::bound::{BY_ROWS, Subject};

/// Requirements of one query on a view that serves it. Fields are indexes into the fields of the
/// collection.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Needs {
    /// Fields that the query fixes, by `=` or by an OR of equalities.
    pub(crate) pinned: BTreeSet<usize>,
    /// Fields that must directly follow the fixed fields in the view, with their directions.
    pub(crate) tail: Vec<(usize, Direction)>,
    /// True if the query has a sort, which determines the directions of the columns. A range alone
    /// accepts both directions.
    pub(crate) is_sorted: bool,
    /// True if the view must omit records that lack one of its order fields. The reason is a tuple
    /// range, which needs adjacent columns, without columns between them that mark null values. A
    /// view that omits records serves only queries that exclude the omitted records.
    pub(crate) skips_nulls: bool,
    /// Fields on which the query has conditions.
    conditions: BTreeSet<usize>,
    /// Fields of `pinned` and `tail` that a record may lack.
    nullable: BTreeSet<usize>,
}

/// Reason why no view can serve a query, with the field and the part of the query (filter or sort)
/// that cause it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Unserved {
    pub(crate) subject: Subject,
    pub(crate) field: Option<usize>,
    pub(crate) message: String,
    pub(crate) hint: &'static str,
}

impl Unserved {
    fn new(subject: Subject, field: usize, message: String, hint: &'static str) -> Self {
        Self {
            subject,
            field: Some(field),
            message,
            hint,
        }
    }
}

const ONE_RANGE: &str = "remove the range, or query with allow_filter_scan, which checks rows one by one, \
    and design views for the rest: a view serves equalities and then one range";

impl Needs {
    /// Returns what a query requires of a view.
    ///
    /// # Errors
    /// No single view can serve the query.
    pub(crate) fn new(collection: &Collection, query: &Query) -> Result<Self, Unserved> {
        let name = |field: usize| collection.fields[field].name.as_str();
        let is_pinned = |field: &usize| matches!(query.constraint(*field), Some(Constraint::In(_)));
        let pinned: BTreeSet<usize> = query.fields().filter(is_pinned).collect();
        let (tail, is_sorted) = tail(collection, query, &pinned)?;
        let by = || pinned.iter().copied().chain(tail.iter().map(|(field, _)| *field));
        let is_nullable = |field: &usize| !collection.is_required(name(*field));
        for field in by() {
            let subject = if query.fields().any(|one| one == field) {
                Subject::Filter
            } else {
                Subject::Sort
            };
            let wrong = |message, hint| Err(Unserved::new(subject, field, message, hint));
            let ty = &collection.fields[field].ty;
            if !ty.is_orderable() {
                let message = format!("{} is a {ty}, and no view can be ordered by it", name(field));
                return wrong(message, BY_ROWS);
            }
            if collection.writes == WriteMode::Overwrite && is_nullable(&field) {
                let message = format!(
                    "{} is not a key field, and a collection with writes = \"overwrite\" has only views by \
                     key fields",
                    name(field)
                );
                return wrong(
                    message,
                    "use writes = \"append\" or \"update\", which allow views by any field; or add a second \
                     collection with this field in its key",
                );
            }
        }
        if by().count() > MAX_KEY_FIELDS {
            return Err(Unserved {
                subject: Subject::Filter,
                field: None,
                message: format!("a view has at most {MAX_KEY_FIELDS} fields"),
                hint: "use fewer fields in a query",
            });
        }
        let nullable = by().filter(is_nullable).collect();
        let skips_nulls = query.tuples.iter().any(|tuple| {
            let free = tuple.fields.iter().filter(|field| !pinned.contains(field));
            free.skip(1).any(is_nullable)
        });
        Ok(Self {
            conditions: query.fields().collect(),
            nullable,
            skips_nulls,
            is_sorted,
            pinned,
            tail,
        })
    }

    /// Returns the index at which the tail (sort and range fields) begins in the view's columns:
    /// after the fixed fields.
    fn start(&self) -> usize {
        self.pinned.len()
    }

    /// Returns the index after the last column of the tail (sort and range fields) in the view's
    /// columns.
    pub(crate) fn end(&self) -> usize {
        self.pinned.len() + self.tail.len()
    }

    /// Returns the field and direction that the query requires at index `place` of the view's
    /// columns. `None` if that column is not in the query's tail (sort and range fields).
    pub(crate) fn at(&self, place: usize) -> Option<(usize, Direction)> {
        self.tail.get(place.checked_sub(self.start())?).copied()
    }

    /// Returns whether one view can serve the queries of `self` and `other`.
    pub(crate) fn agrees(&self, other: &Self) -> bool {
        let (few, many) = if self.start() <= other.start() {
            (self, other)
        } else {
            (other, self)
        };
        few.pinned.is_subset(&many.pinned)
            && few.stands_before(many)
            && few.goes_as(many)
            && self.may_share_nulls(other)
            && other.may_share_nulls(self)
    }

    /// Returns whether one view can have the tail (sort and range fields) of this query and the
    /// columns of `many`, a query that fixes at least as many fields.
    fn stands_before(&self, many: &Self) -> bool {
        let mut places = self.start()..self.end();
        places.all(|place| {
            let (Some((field, _)), is_pinned) = (self.at(place), place < many.start()) else {
                return true;
            };
            match many.at(place) {
                Some((other, _)) => field == other,
                None => many.pinned.contains(&field) == is_pinned,
            }
        })
    }

    /// Returns whether one view can have the sort directions of this query and of `many`. In the
    /// columns that are in the tails (sort and range fields) of both, the directions must all be
    /// equal, or all be opposite. A table can be read backward, so one view serves both cases.
    fn goes_as(&self, many: &Self) -> bool {
        let shared =
            (many.start()..self.end()).map_while(|place| Some((self.at(place)?.1, many.at(place)?.1)));
        let mut is_same = shared.map(|(one, other)| one == other);
        match is_same.next() {
            Some(first) => is_same.all(|next| next == first),
            None => true,
        }
    }

    /// Returns whether this query and `other` can share a view as far as null values matter. If
    /// this query requires a view without records that lack an order field, `other` must exclude
    /// such records too. The test is stricter than necessary, because the case is rare.
    fn may_share_nulls(&self, other: &Self) -> bool {
        !self.skips_nulls
            || (self.nullable.is_subset(&other.conditions) && other.nullable.is_subset(&self.nullable))
    }
}

/// Returns the fields that must follow the fixed fields in the view: the fields of the sort, of the
/// range, or of the tuple range. The flag is true if the sort determines the directions.
fn tail(
    collection: &Collection,
    query: &Query,
    pinned: &BTreeSet<usize>,
) -> Result<(Vec<(usize, Direction)>, bool), Unserved> {
    let name = |field: usize| collection.fields[field].name.as_str();
    // Leave fields with a list of values out of the tail. Each slice is read for one value, so such
    // fields affect only the merge of the slices.
    let sort = query.sort.iter().filter(|(field, _)| !pinned.contains(field));
    let mut tail: Vec<(usize, Direction)> = sort.copied().collect();
    let is_sorted = !tail.is_empty();
    let ranges = query.constraints.iter();
    let ranges = ranges.filter(|(_, constraint)| matches!(constraint, Constraint::Range { .. }));
    let ranges: Vec<usize> = ranges.map(|(field, _)| *field).collect();
    if let [first, .., last] = ranges[..] {
        let message = format!(
            "the query has a range on {} and another on {}",
            name(first),
            name(last)
        );
        return Err(Unserved::new(Subject::Filter, last, message, ONE_RANGE));
    }
    let tuples = query.tuples.iter().map(|tuple| tuple.fields.clone());
    for fields in ranges.iter().map(|field| vec![*field]).chain(tuples) {
        let free: Vec<usize> = fields
            .iter()
            .copied()
            .skip_while(|field| pinned.contains(field))
            .collect();
        if let Some(late) = free.iter().find(|field| pinned.contains(field)) {
            let message = format!("{} is fixed by = and follows fields that are not", name(*late));
            return Err(Unserved::new(
                Subject::Filter,
                *late,
                message,
                "name fields that are fixed by = first in a tuple",
            ));
        }
        let differs = free.iter().zip(&tail).find(|(field, (other, _))| *field != other);
        match differs {
            Some((field, (other, _))) if is_sorted => {
                let message = format!(
                    "the query has a range on {}, but its sort has {} there",
                    name(*field),
                    name(*other)
                );
                let hint = "sort by the field with the range first, or remove the sort";
                return Err(Unserved::new(Subject::Sort, *other, message, hint));
            }
            Some((field, (other, _))) => {
                let message = format!(
                    "the query has a range on {} and another on {}",
                    name(*other),
                    name(*field)
                );
                return Err(Unserved::new(Subject::Filter, *field, message, ONE_RANGE));
            }
            None => {}
        }
        // Use the same direction for all fields of a tuple range, so that the range is one slice of
        // the order.
        let direction = tail
            .first()
            .map_or(Direction::Ascending, |(_, direction)| *direction);
        let further = free.iter().skip(tail.len());
        tail.extend(further.map(|field| (*field, direction)));
    }
    Ok((tail, is_sorted))
}
