//! Queries of a collection in normal form: at most one constraint for each field.

use std::cmp::Ordering;

use recto_model::collation::Collation;
use recto_model::schema::{Collection, Derivation, Field};
use recto_model::table::Direction;
use recto_model::{Type, cell, order};

use crate::error::{QueryError, QueryErrorKind};
use crate::text::Operator;

use crate::text::filter::{MAX_CONDITIONS, MAX_VALUES};

impl Operator {
    /// Returns whether a value satisfies a condition with this operator. `ordering` compares the value with
    /// the condition's value.
    pub fn holds(self, ordering: Ordering) -> bool {
        match self {
            Self::Equal => ordering.is_eq(),
            Self::Less => ordering.is_lt(),
            Self::LessOrEqual => ordering.is_le(),
            Self::Greater => ordering.is_gt(),
            Self::GreaterOrEqual => ordering.is_ge(),
        }
    }
}

/// Condition of a filter. Fields are indexes into the fields of the collection, and values are
/// cells (encoded values) of the fields' types.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Condition {
    /// Comparison of a field with a value.
    Compare {
        /// Index of the field in the collection.
        field: usize,
        /// Operator of the comparison.
        operator: Operator,
        /// Value with which the field is compared.
        value: Vec<u8>,
    },
    /// Condition that a field equals one of several values.
    AnyOf {
        /// Index of the field in the collection.
        field: usize,
        /// Values, one of which the field must have.
        values: Vec<Vec<u8>>,
    },
    /// Condition that a text field starts with a text.
    StartsWith {
        /// Index of the field in the collection.
        field: usize,
        /// Text with which the field must start.
        prefix: String,
    },
    /// Comparison of several fields with the same number of values, as tuples. The first field that
    /// differs from its value decides the comparison.
    Tuple {
        /// Indexes of the fields in the collection.
        fields: Vec<usize>,
        /// Operator of the comparison.
        operator: Operator,
        /// Values with which the fields are compared, one for each field.
        values: Vec<Vec<u8>>,
    },
}

/// Lower or upper end of a range of values.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct RangeEnd {
    /// Value at the end of the range, as a cell (encoded value).
    pub value: Vec<u8>,
    /// True if the range includes the value.
    pub inclusive: bool,
}

/// All conditions on one field combined into one, except tuple comparisons.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Constraint {
    /// The field has one of these values. The list is sorted, without duplicates, and not empty.
    In(Vec<Vec<u8>>),
    /// The value of the field is between two ends.
    Range {
        /// Lower end. `None`: the range has no lower end.
        lower: Option<RangeEnd>,
        /// Upper end. `None`: the range has no upper end.
        upper: Option<RangeEnd>,
    },
}

/// Comparison of two or more different fields with values, as tuples: `(a, b) > (1, 2)`.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct TupleRange {
    /// Indexes of the fields in the collection.
    pub fields: Vec<usize>,
    /// Operator of the comparison; never [`Operator::Equal`].
    pub operator: Operator,
    /// Values with which the fields are compared, one for each field.
    pub values: Vec<Vec<u8>>,
}

/// Query in normal form: at most one constraint per field, tuple comparisons, and a sort.
///
/// Queries that have the same conditions in different orders have the same normal form, and so the same
/// fingerprint.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Query {
    /// Constrained fields with their constraints, sorted by the index of the field.
    pub constraints: Vec<(usize, Constraint)>,
    /// Tuple comparisons without duplicates, in an order that does not depend on the order of the
    /// filter.
    pub tuples: Vec<TupleRange>,
    /// Fields of the sort with their directions, as given. If the list is empty, rows come in the
    /// order of the view that serves the query.
    pub sort: Vec<(usize, Direction)>,
    /// True if the conditions contradict each other, so that no row can match.
    pub contradiction: bool,
}

impl Query {
    /// Returns whether the query fixes a field to a list of values that contains the empty value.
    pub fn allows_empty(&self, field: usize) -> bool {
        self.constraints.iter().any(|(of, constraint)| {
            let is_empty = |values: &Vec<Vec<u8>>| values.iter().any(Vec::is_empty);
            *of == field && matches!(constraint, Constraint::In(values) if is_empty(values))
        })
    }

    /// Returns the query in normal form, so that equivalent filters become equal.
    ///
    /// # Errors
    /// A field does not exist, or is twice in the sort. A value does not have the type of its
    /// field. A range is over a type without order. The query has too many conditions or values.
    pub fn new(
        collection: &Collection,
        conditions: &[Condition],
        sort: &[(usize, Direction)],
    ) -> Result<Self, QueryError> {
        check_limits(conditions)?;
        let mut query = Self::default();
        for condition in conditions {
            query.add(collection, condition)?;
        }
        let order = |tuple: &TupleRange| {
            (
                tuple.fields.clone(),
                tuple.operator.as_str(),
                tuple.values.clone(),
            )
        };
        query.tuples.sort_by_cached_key(order);
        for &(field, direction) in sort {
            let name = &field_of(collection, field)?.name;
            if query.sort.iter().any(|&(earlier, _)| earlier == field) {
                return Err(
                    QueryError::new(QueryErrorKind::Sort, format!("the sort has {name} twice"))
                        .with_field(name),
                );
            }
            query.sort.push((field, direction));
        }
        Ok(query)
    }

    /// Returns the constraint on the field with index `field`, or `None` if there is none.
    pub fn constraint(&self, field: usize) -> Option<&Constraint> {
        self.constraints
            .binary_search_by_key(&field, |(field, _)| *field)
            .ok()
            .map(|index| &self.constraints[index].1)
    }

    /// Returns the indexes of the fields that have conditions, including tuple comparisons.
    pub fn fields(&self) -> impl Iterator<Item = usize> {
        let of_constraints = self.constraints.iter().map(|(field, _)| *field);
        let of_tuples = self.tuples.iter().flat_map(|tuple| tuple.fields.iter().copied());
        of_constraints.chain(of_tuples)
    }

    /// Returns the indexes of the fields with a condition that excludes all values below some
    /// value.
    pub fn fields_bounded_below(&self) -> impl Iterator<Item = usize> {
        let of_constraints = self.constraints.iter().filter_map(|(field, constraint)| {
            let has_lower = matches!(
                constraint,
                Constraint::In(_) | Constraint::Range { lower: Some(_), .. }
            );
            has_lower.then_some(*field)
        });
        let of_tuples = self.tuples.iter().filter_map(|tuple| {
            let is_lower = matches!(tuple.operator, Operator::Greater | Operator::GreaterOrEqual);
            tuple.fields.first().copied().filter(|_| is_lower)
        });
        of_constraints.chain(of_tuples)
    }

    /// Returns the sort without the fields that the filter fixes to one value, because these do not
    /// affect the order.
    pub fn sorts(&self) -> impl Iterator<Item = (usize, Direction)> {
        let sort = self.sort.iter().copied();
        sort.filter(|(field, _)| self.pinned(*field).is_none())
    }

    /// Returns the value to which the filter fixes a field by `=`, or `None`.
    pub fn pinned(&self, field: usize) -> Option<&[u8]> {
        match self.constraint(field) {
            Some(Constraint::In(values)) if values.len() == 1 => Some(&values[0]),
            _ => None,
        }
    }

    fn add(&mut self, collection: &Collection, condition: &Condition) -> Result<(), QueryError> {
        match condition {
            Condition::Compare {
                field,
                operator,
                value,
            } => self.add_compare(collection, *field, *operator, value),
            Condition::AnyOf { field, values } => {
                let definition = field_of(collection, *field)?;
                let ty = &definition.ty;
                let mut canonical = Vec::with_capacity(values.len());
                for value in values {
                    canonical.push(checked(collection, *field, value)?);
                }
                canonical.sort_by(|left, right| compare(ty, left, right));
                canonical.dedup_by(|left, right| compare(ty, left, right).is_eq());
                if canonical.is_empty() {
                    self.contradiction = true;
                    return Ok(());
                }
                self.merge(
                    FieldOrder::of(collection, definition),
                    *field,
                    Constraint::In(canonical),
                );
                Ok(())
            }
            Condition::StartsWith { field, prefix } => self.add_prefix(collection, *field, prefix),
            Condition::Tuple {
                fields,
                operator,
                values,
            } => self.add_tuple(collection, fields, *operator, values),
        }
    }

    fn add_compare(
        &mut self,
        collection: &Collection,
        field: usize,
        operator: Operator,
        value: &[u8],
    ) -> Result<(), QueryError> {
        let definition = field_of(collection, field)?;
        let value = checked(collection, field, value)?;
        let end = |inclusive| {
            Some(RangeEnd {
                value: value.clone(),
                inclusive,
            })
        };
        let constraint = match operator {
            Operator::Equal => Constraint::In(vec![value]),
            _ if !definition.ty.is_orderable() => {
                return Err(QueryError::new(
                    QueryErrorKind::Filter,
                    format!("{} is a {}, which has no order", definition.name, definition.ty),
                )
                .with_field(&definition.name)
                .with_hint("use only = with this field"));
            }
            Operator::Less => Constraint::Range {
                lower: None,
                upper: end(false),
            },
            Operator::LessOrEqual => Constraint::Range {
                lower: None,
                upper: end(true),
            },
            Operator::Greater => Constraint::Range {
                lower: end(false),
                upper: None,
            },
            Operator::GreaterOrEqual => Constraint::Range {
                lower: end(true),
                upper: None,
            },
        };
        self.merge(FieldOrder::of(collection, definition), field, constraint);
        Ok(())
    }

    /// Adds `startsWith` as an equivalent range: from the prefix to the first text after all texts
    /// that start with the prefix.
    fn add_prefix(&mut self, collection: &Collection, field: usize, prefix: &str) -> Result<(), QueryError> {
        let definition = field_of(collection, field)?;
        if !definition.ty.is_textual() {
            return Err(QueryError::new(
                QueryErrorKind::Filter,
                format!(
                    "startsWith needs a text field, but {} is a {}",
                    definition.name, definition.ty
                ),
            )
            .with_field(&definition.name));
        }
        if let Some((message, hint)) = no_prefix(collection, definition) {
            let error = QueryError::new(QueryErrorKind::Filter, message);
            return Err(error.with_field(&definition.name).with_hint(hint));
        }
        checked(collection, field, prefix.as_bytes())?;
        let upper = text_successor(prefix, &definition.ty).map(|next| RangeEnd {
            value: next.into_bytes(),
            inclusive: false,
        });
        let lower = Some(RangeEnd {
            value: prefix.as_bytes().to_vec(),
            inclusive: true,
        });
        let constraint = Constraint::Range { lower, upper };
        self.merge(FieldOrder::of(collection, definition), field, constraint);
        Ok(())
    }

    fn add_tuple(
        &mut self,
        collection: &Collection,
        fields: &[usize],
        operator: Operator,
        values: &[Vec<u8>],
    ) -> Result<(), QueryError> {
        if fields.is_empty() || fields.len() != values.len() {
            return Err(QueryError::new(
                QueryErrorKind::Filter,
                format!(
                    "a tuple needs one value for each field: it has {} fields and {} values",
                    fields.len(),
                    values.len()
                ),
            ));
        }
        for (index, field) in fields.iter().enumerate() {
            let name = &field_of(collection, *field)?.name;
            if fields[..index].contains(field) {
                return Err(
                    QueryError::new(QueryErrorKind::Filter, format!("a tuple has {name} twice"))
                        .with_field(name),
                );
            }
        }
        if operator == Operator::Equal || fields.len() == 1 {
            for (field, value) in fields.iter().zip(values) {
                self.add_compare(collection, *field, operator, value)?;
            }
            return Ok(());
        }
        let mut canonical = Vec::with_capacity(values.len());
        for (field, value) in fields.iter().zip(values) {
            let definition = field_of(collection, *field)?;
            if !definition.ty.is_orderable() {
                return Err(QueryError::new(
                    QueryErrorKind::Filter,
                    format!("{} is a {}, which has no order", definition.name, definition.ty),
                )
                .with_field(&definition.name));
            }
            canonical.push(checked(collection, *field, value)?);
        }
        let tuple = TupleRange {
            fields: fields.to_vec(),
            operator,
            values: canonical,
        };
        if !self.tuples.contains(&tuple) {
            self.tuples.push(tuple);
        }
        Ok(())
    }

    /// Sets the constraint of a field. Replaces a constraint that the field already has.
    pub fn constrain(&mut self, field: usize, constraint: Constraint) {
        match self.constraints.binary_search_by_key(&field, |(field, _)| *field) {
            Ok(index) => self.constraints[index].1 = constraint,
            Err(index) => self.constraints.insert(index, (field, constraint)),
        }
    }

    /// Combines the existing constraint of a field with `constraint`: the field must satisfy both.
    /// Sets `contradiction` if no value can.
    fn merge(&mut self, order: FieldOrder<'_>, field: usize, constraint: Constraint) {
        let slot = match self.constraints.binary_search_by_key(&field, |(field, _)| *field) {
            Err(index) => {
                self.contradiction |= is_empty(order, &constraint);
                self.constraints.insert(index, (field, constraint));
                return;
            }
            Ok(index) => &mut self.constraints[index].1,
        };
        let merged = intersect(order, slot, &constraint);
        if let Some(merged) = merged {
            self.contradiction |= is_empty(order, &merged);
            *slot = merged;
            return;
        }
        self.contradiction = true;
        // Keep the list of values, because the plan must not depend on the order of the conditions.
        if matches!(constraint, Constraint::In(_)) {
            *slot = constraint;
        }
    }
}

/// Returns the error message and the hint for `startsWith` on a field with a collation, or `None`
/// if the field has no collation. In the order of a collation, texts with the same prefix are not
/// adjacent, so `startsWith` is no range.
pub(crate) fn no_prefix(collection: &Collection, field: &Field) -> Option<(String, String)> {
    let (collation, name) = (collection.collation_of(&field.name)?, &field.name);
    Some((
        format!(
            "{name} sorts by the collation {collation}, which does not keep texts with the same prefix \
             together"
        ),
        format!("use a range: {name} >= \"m\" AND {name} < \"n\""),
    ))
}

fn check_limits(conditions: &[Condition]) -> Result<(), QueryError> {
    let values: usize = conditions
        .iter()
        .map(|condition| match condition {
            Condition::Compare { .. } | Condition::StartsWith { .. } => 1,
            Condition::AnyOf { values, .. } | Condition::Tuple { values, .. } => values.len(),
        })
        .sum();
    if conditions.len() > MAX_CONDITIONS {
        return Err(QueryError::new(
            QueryErrorKind::Limit,
            format!(
                "the filter has {} conditions; at most {MAX_CONDITIONS} are allowed",
                conditions.len()
            ),
        ));
    }
    if values > MAX_VALUES {
        return Err(QueryError::new(
            QueryErrorKind::Limit,
            format!("the filter has {values} values; at most {MAX_VALUES} are allowed"),
        ));
    }
    Ok(())
}

fn field_of(collection: &Collection, field: usize) -> Result<&Field, QueryError> {
    collection.fields.get(field).ok_or_else(|| {
        QueryError::new(
            QueryErrorKind::Filter,
            format!("collection {} has no field number {field}", collection.name),
        )
    })
}

/// Returns a value of a condition in the canonical form that keys use. Fails if the value does not
/// have the type of the field.
fn checked(collection: &Collection, field: usize, value: &[u8]) -> Result<Vec<u8>, QueryError> {
    let definition = field_of(collection, field)?;
    let malformed = |error: cell::CellError| {
        QueryError::new(QueryErrorKind::Filter, format!("{}: {error}", definition.name))
            .with_field(&definition.name)
    };
    let mut canonical = Vec::with_capacity(value.len());
    cell::validate(&definition.ty, value).map_err(malformed)?;
    cell::canonical_key(&definition.ty, value, &mut canonical).map_err(malformed)?;
    Ok(canonical)
}

/// Order of the values of a field: the order of the type, or for text the order of a collation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct FieldOrder<'a> {
    ty: &'a Type,
    collation: Option<Collation>,
}

impl<'a> FieldOrder<'a> {
    pub(crate) fn new(ty: &'a Type, collation: Option<Collation>) -> Self {
        Self { ty, collation }
    }

    fn of(collection: &'a Collection, field: &'a Field) -> Self {
        Self::new(&field.ty, collection.collation_of(&field.name))
    }

    /// Compares two cells (encoded values). With a collation, only cells with the same bytes are
    /// equal.
    pub(crate) fn compare(self, left: &[u8], right: &[u8]) -> Ordering {
        match self.collation {
            Some(collation) => collation.compare(left, right),
            None => compare(self.ty, left, right),
        }
    }

    /// Returns whether a value is in `values`, a list that is sorted in the order of the type.
    fn is_among(self, value: &[u8], values: &[Vec<u8>]) -> bool {
        values
            .binary_search_by(|probe| compare(self.ty, probe, value))
            .is_ok()
    }
}

/// Compares two cells (encoded values) of any type: in the order of the type, or by bytes if the
/// type has no order. The byte order is suitable only to test equality.
pub(crate) fn compare(ty: &Type, left: &[u8], right: &[u8]) -> Ordering {
    if ty.is_orderable() {
        order::compare(ty, left, right)
    } else {
        left.cmp(right)
    }
}

impl Query {
    /// Returns whether a record satisfies the conditions. `cell` returns the record's cell of a
    /// field, or `None` for null. A null satisfies no condition.
    pub fn matches<'a>(&self, collection: &Collection, cell: impl Fn(usize) -> Option<&'a [u8]>) -> bool {
        let order = |field: usize| FieldOrder::of(collection, &collection.fields[field]);
        let satisfied = |(field, constraint): &(usize, Constraint)| {
            cell(*field).is_some_and(|cell| satisfies(order(*field), cell, constraint))
        };
        let inside = |tuple: &TupleRange| {
            let fields = tuple.fields.iter().map(|field| (order(*field), cell(*field)));
            tuple_satisfies(fields, tuple.operator, &tuple.values)
        };
        !self.contradiction && self.constraints.iter().all(satisfied) && self.tuples.iter().all(inside)
    }
}

/// Returns whether a tuple of cells, each with the order of its field, satisfies a tuple
/// comparison. A tuple with a null never satisfies the comparison, even if an earlier cell decides
/// it. A view that omits records with nulls in these fields therefore contains all matching
/// records.
pub(crate) fn tuple_satisfies<'a>(
    cells: impl Iterator<Item = (FieldOrder<'a>, Option<&'a [u8]>)>,
    operator: Operator,
    values: &[Vec<u8>],
) -> bool {
    let mut decided = Ordering::Equal;
    for ((order, cell), value) in cells.zip(values) {
        let Some(cell) = cell else {
            return false;
        };
        if decided.is_eq() {
            decided = order.compare(cell, value);
        }
    }
    operator.holds(decided)
}

/// Returns whether a value (a cell of a field) satisfies a constraint.
pub(crate) fn satisfies(order: FieldOrder<'_>, value: &[u8], constraint: &Constraint) -> bool {
    match constraint {
        Constraint::In(values) => order.is_among(value, values),
        Constraint::Range { lower, upper } => {
            lower.as_ref().is_none_or(|end| {
                let ordering = order.compare(value, &end.value);
                ordering.is_gt() || (end.inclusive && ordering.is_eq())
            }) && upper.as_ref().is_none_or(|end| {
                let ordering = order.compare(value, &end.value);
                ordering.is_lt() || (end.inclusive && ordering.is_eq())
            })
        }
    }
}

impl Constraint {
    /// Converts a constraint on a field to a constraint on a value that is derived from it, such as
    /// the time rounded down. Every value that satisfies `self` has a derived value that satisfies
    /// the result. The flag is true if the converse holds too. The derivation must be monotonic and
    /// never increase a value.
    pub(crate) fn rounded(&self, derivation: Derivation, ty: &Type) -> (Self, bool) {
        let rounded = |value: &[u8]| derivation.of(ty, Some(value)).into_owned();
        let of = derivation.ty(ty);
        match self {
            Self::In(values) => {
                let mut values: Vec<_> = values.iter().map(|value| rounded(value)).collect();
                values.sort_by(|one, other| compare(&of, one, other));
                values.dedup();
                (Self::In(values), false)
            }
            Self::Range { lower, upper } => {
                let mut is_exact = true;
                let mut end = |end: &Option<RangeEnd>, is_lower: bool| {
                    let end = end.as_ref()?;
                    let value = rounded(&end.value);
                    // If the end of the range is the start of a rounding interval, the range
                    // contains each interval completely or not at all.
                    let is_start = of == *ty && value == end.value && end.inclusive == is_lower;
                    is_exact &= is_start;
                    Some(RangeEnd {
                        value,
                        inclusive: !is_start || is_lower,
                    })
                };
                let (lower, upper) = (end(lower, true), end(upper, false));
                (Self::Range { lower, upper }, is_exact)
            }
        }
    }
}

fn intersect(order: FieldOrder<'_>, left: &Constraint, right: &Constraint) -> Option<Constraint> {
    match (left, right) {
        (Constraint::In(values), other) | (other, Constraint::In(values)) => {
            let kept: Vec<_> = values
                .iter()
                .filter(|value| satisfies(order, value, other))
                .cloned()
                .collect();
            (!kept.is_empty()).then_some(Constraint::In(kept))
        }
        (
            Constraint::Range {
                lower: left_lower,
                upper: left_upper,
            },
            Constraint::Range {
                lower: right_lower,
                upper: right_upper,
            },
        ) => Some(Constraint::Range {
            lower: tighter(
                order,
                left_lower.as_ref(),
                right_lower.as_ref(),
                Ordering::Greater,
            ),
            upper: tighter(order, left_upper.as_ref(), right_upper.as_ref(), Ordering::Less),
        }),
    }
}

/// Returns the tighter of two lower ends, or of two upper ends, of ranges. `wins` is the result of
/// comparing the tighter value with the other value: greater for lower ends, less for upper ends.
fn tighter(
    order: FieldOrder<'_>,
    left: Option<&RangeEnd>,
    right: Option<&RangeEnd>,
    wins: Ordering,
) -> Option<RangeEnd> {
    let (left, right) = match (left, right) {
        (Some(left), Some(right)) => (left, right),
        (one, other) => return one.or(other).cloned(),
    };
    let ordering = order.compare(&left.value, &right.value);
    let left_wins = ordering == wins || (ordering.is_eq() && !left.inclusive);
    Some(if left_wins { left.clone() } else { right.clone() })
}

fn is_empty(order: FieldOrder<'_>, constraint: &Constraint) -> bool {
    match constraint {
        Constraint::In(values) => values.is_empty(),
        Constraint::Range {
            lower: Some(lower),
            upper: Some(upper),
        } => match order.compare(&lower.value, &upper.value) {
            Ordering::Less => false,
            Ordering::Equal => !(lower.inclusive && upper.inclusive),
            Ordering::Greater => true,
        },
        Constraint::Range { .. } => false,
    }
}

/// Returns the smallest text that is greater than every text that starts with `prefix`, or `None`
/// if no such text exists.
///
/// The byte order of UTF-8 is the order of code points. The function finds the last code point of the prefix
/// that has a successor, replaces it by the successor, and drops the rest. Surrogates are not code points of
/// text, so the function skips them. The last code point of ASCII is U+007F.
fn text_successor(prefix: &str, ty: &Type) -> Option<String> {
    let last_scalar = if matches!(ty, Type::Ascii) {
        '\u{7F}'
    } else {
        char::MAX
    };
    let mut text = prefix.to_owned();
    while let Some(last) = text.pop() {
        if last < last_scalar {
            let next = match last {
                '\u{D7FF}' => '\u{E000}',
                other => char::from_u32(other as u32 + 1).expect("only surrogates are not characters"),
            };
            text.push(next);
            return Some(text);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_successor_of_a_prefix_steps_over_surrogates_and_ends() {
        let next = |text: &str| text_successor(text, &Type::Text);
        assert_eq!(next("N14"), Some("N15".into()));
        assert_eq!(next("a\u{D7FF}"), Some("a\u{E000}".into()));
        assert_eq!(next("a\u{10FFFF}"), Some("b".into()));
        assert_eq!(next("\u{10FFFF}"), None);
        assert_eq!(next(""), None);
        assert_eq!(text_successor("a\u{7F}", &Type::Ascii), Some("b".into()));
    }
}
