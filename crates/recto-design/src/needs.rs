//! What a query needs of a view, and whether one view can serve two queries.
//!
//! The columns of a view, partition and order and the rest of the key, are one sequence. It serves a query, without
//! checking rows, exactly if the fields that the query pins (by `=` or an OR of equalities) are the sequence's first, in
//! whatever order, of which the partition is part; and if those follow, in their order, that the query sorts by or has
//! a range on: its *tail*, whose directions are the view's or all the reverse.
//!
//! So each query fixes, counted from the number of fields it pins, which field stands where. Queries contradict each
//! other in pairs or not at all: where two of any three agree on a place, on what stands before it, and on whether
//! neighbours go the same way, so do the three.

use std::collections::BTreeSet;

use recto_model::schema::{Collection, MAX_KEY_FIELDS, WriteMode};
use recto_model::table::Direction;
use recto_plan::Query;
use recto_plan::query::Constraint;

use crate::bound::{BY_ROWS, Subject};

/// What a query needs of a view.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Needs {
    /// The fields it pins.
    pub(crate) pinned: BTreeSet<usize>,
    /// What has to follow them.
    pub(crate) tail: Vec<(usize, Direction)>,
    /// Whether it says in which direction.
    pub(crate) is_sorted: bool,
    /// Whether nothing may stand between its fields that says which of them are null: the view then has no records
    /// without one of its order fields, and serves only who asks for none.
    pub(crate) skips_nulls: bool,
    /// The fields it has conditions on.
    conditions: BTreeSet<usize>,
    /// The fields that a view for it is by and that a record may lack.
    nullable: BTreeSet<usize>,
}

/// Why no view can serve a query.
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

const ONE_RANGE: &str = "a view serves equalities and then one range; take the range out, or ask with allow_filter_scan, which checks \
rows one by one, and design for the rest";

impl Needs {
    /// What a query needs.
    ///
    /// # Errors
    /// No one view can serve it.
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
                let message = format!("{} is a {ty}, which no view can be by", name(field));
                return wrong(message, BY_ROWS);
            }
            if collection.writes == WriteMode::Overwrite && is_nullable(&field) {
                let message = format!(
                    "{} is no field of the key, and views of records that are overwritten are by these only",
                    name(field)
                );
                return wrong(
                    message,
                    "writes = \"append\" or \"update\" have views on any field; or a second collection with it in its key",
                );
            }
        }
        if by().count() > MAX_KEY_FIELDS {
            return Err(Unserved {
                subject: Subject::Filter,
                field: None,
                message: format!("a view is by {MAX_KEY_FIELDS} fields at most"),
                hint: "ask for less at a time",
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

    /// The place of the first column of its tail.
    fn start(&self) -> usize {
        self.pinned.len()
    }

    /// The place after its last column.
    pub(crate) fn end(&self) -> usize {
        self.pinned.len() + self.tail.len()
    }

    /// What it needs at a place of the sequence.
    pub(crate) fn at(&self, place: usize) -> Option<(usize, Direction)> {
        self.tail.get(place.checked_sub(self.start())?).copied()
    }

    /// Whether one view can serve both.
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

    /// Whether the fields that this needs stand where the other, which pins at least as many, needs them.
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

    /// Whether both go the same way, or each the reverse of the other, where both say which way.
    fn goes_as(&self, many: &Self) -> bool {
        let shared =
            (many.start()..self.end()).map_while(|place| Some((self.at(place)?.1, many.at(place)?.1)));
        let mut is_same = shared.map(|(one, other)| one == other);
        match is_same.next() {
            Some(first) => is_same.all(|next| next == first),
            None => true,
        }
    }

    /// Whether the other may be asked of a view that has no records without one of these fields, if this needs it so. Fewer
    /// may share one than could: it is rare.
    fn may_share_nulls(&self, other: &Self) -> bool {
        !self.skips_nulls
            || (self.nullable.is_subset(&other.conditions) && other.nullable.is_subset(&self.nullable))
    }
}

/// The fields that have to follow those that are pinned: the sort, or the range, or the fields of a tuple range; and whether the sort says
/// in which direction.
fn tail(
    collection: &Collection,
    query: &Query,
    pinned: &BTreeSet<usize>,
) -> Result<(Vec<(usize, Direction)>, bool), Unserved> {
    let name = |field: usize| collection.fields[field].name.as_str();
    // Where the values of a list stand in the sort says how what is read for each is put together, not how it is read.
    let sort = query.sort.iter().filter(|(field, _)| !pinned.contains(field));
    let mut tail: Vec<(usize, Direction)> = sort.copied().collect();
    let is_sorted = !tail.is_empty();
    let ranges = query.constraints.iter();
    let ranges = ranges.filter(|(_, constraint)| matches!(constraint, Constraint::Range { .. }));
    let ranges: Vec<usize> = ranges.map(|(field, _)| *field).collect();
    if let [first, .., last] = ranges[..] {
        let message = format!("a range on {} and one on {}", name(first), name(last));
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
            let message = format!("{} is pinned and stands behind fields that are not", name(*late));
            return Err(Unserved::new(
                Subject::Filter,
                *late,
                message,
                "name pinned fields first in a tuple",
            ));
        }
        let differs = free.iter().zip(&tail).find(|(field, (other, _))| *field != other);
        match differs {
            Some((field, (other, _))) if is_sorted => {
                let message = format!("a range on {}, where the sort has {}", name(*field), name(*other));
                let hint = "a sort begins with the field that has a range; sort by it first, or by nothing";
                return Err(Unserved::new(Subject::Sort, *other, message, hint));
            }
            Some((field, (other, _))) => {
                let message = format!("a range on {} and one on {}", name(*other), name(*field));
                return Err(Unserved::new(Subject::Filter, *field, message, ONE_RANGE));
            }
            None => {}
        }
        // In one direction a tuple range is one piece of the order.
        let direction = tail
            .first()
            .map_or(Direction::Ascending, |(_, direction)| *direction);
        let further = free.iter().skip(tail.len());
        tail.extend(further.map(|field| (*field, direction)));
    }
    Ok((tail, is_sorted))
}
