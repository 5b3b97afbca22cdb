//! Queries: what is asked of a collection, reduced to one constraint per field.

use std::cmp::Ordering;

use recto_model::collation::Collation;
use recto_model::schema::{Collection, Derivation, Field};
use recto_model::table::Direction;
use recto_model::{Type, cell, order};

use crate::error::{QueryError, QueryErrorKind};
use crate::text::Operator;

use crate::text::filter::{MAX_CONDITIONS, MAX_VALUES};

impl Operator {
    /// Whether something that compares as `ordering` to the value satisfies it.
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

/// One condition on fields, given by their index in the collection. Values are cells of the
/// fields' types.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Condition {
    /// A field compared with a value.
    Compare {
        /// The field.
        field: usize,
        /// How.
        operator: Operator,
        /// The value.
        value: Vec<u8>,
    },
    /// A field equal to one of some values.
    AnyOf {
        /// The field.
        field: usize,
        /// The values.
        values: Vec<Vec<u8>>,
    },
    /// A text field that starts with a text.
    StartsWith {
        /// The field.
        field: usize,
        /// The text.
        prefix: String,
    },
    /// Several fields compared with as many values, by value, the first that differs deciding.
    Tuple {
        /// The fields.
        fields: Vec<usize>,
        /// How.
        operator: Operator,
        /// The values.
        values: Vec<Vec<u8>>,
    },
}

/// One end of a range.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct RangeEnd {
    /// The value.
    pub value: Vec<u8>,
    /// Whether the value itself is in the range.
    pub inclusive: bool,
}

/// What all conditions on one field come to.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Constraint {
    /// One of these values, sorted, each once, at least one.
    In(Vec<Vec<u8>>),
    /// Between two ends.
    Range {
        /// The lower end.
        lower: Option<RangeEnd>,
        /// The upper end.
        upper: Option<RangeEnd>,
    },
}

/// A tuple range over two or more different fields.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct TupleRange {
    /// The fields.
    pub fields: Vec<usize>,
    /// How they compare; never [`Operator::Equal`].
    pub operator: Operator,
    /// The values.
    pub values: Vec<Vec<u8>>,
}

/// A query in normal form: one constraint per field at most, tuple ranges, a sort.
///
/// Two queries that mean the same conditions in another order have one normal form, and so one
/// fingerprint.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Query {
    /// Fields with their constraints, by field index.
    pub constraints: Vec<(usize, Constraint)>,
    /// Tuple ranges, each once, in an order of their own.
    pub tuples: Vec<TupleRange>,
    /// Sort fields with directions, as given; empty: the view's own order.
    pub sort: Vec<(usize, Direction)>,
    /// Whether the conditions contradict, so that no row can match.
    pub contradiction: bool,
}

impl Query {
    /// Whether a list of values that this field may have names the empty one.
    pub fn allows_empty(&self, field: usize) -> bool {
        self.constraints.iter().any(|(of, constraint)| {
            let is_empty = |values: &Vec<Vec<u8>>| values.iter().any(Vec::is_empty);
            *of == field && matches!(constraint, Constraint::In(values) if is_empty(values))
        })
    }

    /// The normal form of `conditions` and `sort`.
    ///
    /// # Errors
    /// Fields that are not there, values that are not of their field's type, ranges over types
    /// without order, too many conditions or values, a field sorted twice.
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
                return Err(QueryError::new(
                    QueryErrorKind::Sort,
                    format!("{name} stands twice in the sort"),
                )
                .with_field(name));
            }
            query.sort.push((field, direction));
        }
        Ok(query)
    }

    /// The constraint on a field.
    pub fn constraint(&self, field: usize) -> Option<&Constraint> {
        self.constraints
            .binary_search_by_key(&field, |(field, _)| *field)
            .ok()
            .map(|index| &self.constraints[index].1)
    }

    /// The fields that there are conditions on.
    pub fn fields(&self) -> impl Iterator<Item = usize> {
        let of_constraints = self.constraints.iter().map(|(field, _)| *field);
        let of_tuples = self.tuples.iter().flat_map(|tuple| tuple.fields.iter().copied());
        of_constraints.chain(of_tuples)
    }

    /// Returns the fields with a condition that excludes everything below some value.
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

    /// The sort without the fields that have one value.
    pub fn sorts(&self) -> impl Iterator<Item = (usize, Direction)> {
        let sort = self.sort.iter().copied();
        sort.filter(|(field, _)| self.pinned(*field).is_none())
    }

    /// The one value a field is pinned to by `=`.
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
                .with_hint("only = can be asked of it"));
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

    /// A prefix is the range from it to the next text that does not start with it.
    fn add_prefix(&mut self, collection: &Collection, field: usize, prefix: &str) -> Result<(), QueryError> {
        let definition = field_of(collection, field)?;
        if !definition.ty.is_textual() {
            return Err(QueryError::new(
                QueryErrorKind::Filter,
                format!(
                    "startsWith needs text, and {} is a {}",
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
                    "a tuple compares as many values as fields: {} fields, {} values",
                    fields.len(),
                    values.len()
                ),
            ));
        }
        for (index, field) in fields.iter().enumerate() {
            let name = &field_of(collection, *field)?.name;
            if fields[..index].contains(field) {
                return Err(QueryError::new(
                    QueryErrorKind::Filter,
                    format!("{name} stands twice in a tuple"),
                )
                .with_field(name));
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

    /// Puts a constraint in the place of the field's own.
    pub fn constrain(&mut self, field: usize, constraint: Constraint) {
        match self.constraints.binary_search_by_key(&field, |(field, _)| *field) {
            Ok(index) => self.constraints[index].1 = constraint,
            Err(index) => self.constraints.insert(index, (field, constraint)),
        }
    }

    /// Narrows a field's constraint by another.
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
        // The list stays, so that the plan does not depend on the order of conditions.
        if matches!(constraint, Constraint::In(_)) {
            *slot = constraint;
        }
    }
}

/// Why no prefix can be asked of a field, and what can be instead: texts that begin alike do not stand together in the order
/// of a collation. None if one can.
pub(crate) fn no_prefix(collection: &Collection, field: &Field) -> Option<(String, String)> {
    let (collation, name) = (collection.collation_of(&field.name)?, &field.name);
    Some((
        format!(
            "{name} sorts by the collation {collation}, in which texts that begin alike do not stand together"
        ),
        format!("ask for a range: {name} >= \"m\" AND {name} < \"n\""),
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
                "the filter has {} conditions, {MAX_CONDITIONS} are the most",
                conditions.len()
            ),
        ));
    }
    if values > MAX_VALUES {
        return Err(QueryError::new(
            QueryErrorKind::Limit,
            format!("the filter has {values} values, {MAX_VALUES} are the most"),
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

/// The value in the form keys use, if it is of the field's type.
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

/// How the values of a field compare: by their type's order, or text by a collation.
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

    /// Compares cells: equal are those that are in all cases.
    pub(crate) fn compare(self, left: &[u8], right: &[u8]) -> Ordering {
        match self.collation {
            Some(collation) => collation.compare(left, right),
            None => compare(self.ty, left, right),
        }
    }

    /// Whether one of some values, which are in the order of their type.
    fn is_among(self, value: &[u8], values: &[Vec<u8>]) -> bool {
        values
            .binary_search_by(|probe| compare(self.ty, probe, value))
            .is_ok()
    }
}

/// Compares cells of any type: by its order, or by bytes where there is none (equality only).
pub(crate) fn compare(ty: &Type, left: &[u8], right: &[u8]) -> Ordering {
    if ty.is_orderable() {
        order::compare(ty, left, right)
    } else {
        left.cmp(right)
    }
}

impl Query {
    /// Whether a record satisfies the conditions; `cell` gives the cell of a field, `None` for null,
    /// which satisfies nothing.
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

/// Whether cells, each with its type, compare to values as a tuple range says. A null satisfies nothing, whatever stands
/// before it: a view that leaves out records which lack one of the fields has all that the range asks for.
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

/// Whether a value satisfies a constraint.
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
    /// The constraint on what is derived from a field that all satisfy which satisfy this one on the field, of type `ty`; and whether all
    /// satisfy this one that satisfy that. What is derived must rise with the field, and never be above it.
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
                    // From where an interval begins on, and up to there, all rows of each rounding are in the range, or none.
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

/// The tighter of two ends of one side, where `wins` says how the tighter value compares.
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

/// The smallest text greater than every text that starts with `prefix`; `None` if there is none.
///
/// UTF-8's byte order is the order of code points, so it is the prefix with its last code point
/// that has a next one replaced by that and the rest dropped. Surrogates are not code points of
/// text and are stepped over; ASCII ends at U+007F.
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
