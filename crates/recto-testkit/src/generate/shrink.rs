//! Simplification of failing test cases. It tries large simplifications first.

use std::sync::Arc;

use bigdecimal::BigDecimal;
use num_bigint::BigInt;
use recto_model::schema::{Collection, Declaration};
use recto_model::table::Direction;
use recto_model::{Type, Value};

use super::case::{Case, Change, Move, Place};
use crate::oracle::{Condition, Row};

impl Case {
    /// Returns cases that are simpler in one respect each. To shrink a failing case, replace it by
    /// the first result that still fails, and repeat. This always ends.
    pub fn simpler(&self) -> Vec<Self> {
        let mut simpler = Vec::new();
        for rows in without(&self.rows) {
            // A page names its row by an index modulo the number of rows. With fewer rows, it names
            // another row, so also try the last row.
            let mut last = Self { rows, ..self.clone() };
            simpler.push(last.clone());
            let most = last.rows.len().saturating_sub(1);
            if last.moves.iter().any(|page| page.row > most) {
                last.moves
                    .iter_mut()
                    .for_each(|page| page.row = page.row.min(most));
                simpler.push(last);
            }
        }
        let moves = without(&self.moves).into_iter().filter(|moves| !moves.is_empty());
        simpler.extend(moves.map(|moves| Self {
            moves,
            ..self.clone()
        }));
        self.simpler_questions(&mut simpler);
        self.simpler_moves(&mut simpler);
        for field in 0..self.collection.fields.len() {
            simpler.extend(self.without_field(field));
            simpler.extend(self.with_simple_values(field));
        }
        for field in self.collations.keys() {
            let mut case = self.clone();
            case.collations.remove(field);
            simpler.push(case);
        }
        if self.built {
            simpler.push(Self {
                built: false,
                ..self.clone()
            });
        }
        simpler
    }

    fn simpler_questions(&self, simpler: &mut Vec<Self>) {
        let mut with = |conditions: Vec<Condition>, sort: Vec<(usize, Direction)>| {
            let mut case = self.clone();
            case.question.conditions = conditions;
            case.question.sort = sort;
            case.keep_from_values(self);
            simpler.push(case);
        };
        let (conditions, sort) = (&self.question.conditions, &self.question.sort);
        for index in 0..conditions.len() {
            let mut fewer = conditions.clone();
            fewer.remove(index);
            with(fewer, sort.clone());
        }
        for (index, condition) in conditions.iter().enumerate() {
            if let Condition::AnyOf { field, values } = condition {
                for at in (0..values.len()).filter(|_| values.len() > 1) {
                    let (mut fewer, mut conditions) = (values.clone(), conditions.clone());
                    fewer.remove(at);
                    conditions[index] = Condition::AnyOf {
                        field: *field,
                        values: fewer,
                    };
                    with(conditions, sort.clone());
                }
            }
        }
        for index in 0..sort.len() {
            let mut fewer = sort.clone();
            fewer.remove(index);
            with(conditions.clone(), fewer);
        }
    }

    /// Removes the start values of all pages if the sort order differs from that of `before`,
    /// because the values belong to fields of the old order.
    fn keep_from_values(&mut self, before: &Self) {
        if self.order() != before.order() {
            self.moves.iter_mut().for_each(|page| page.from.clear());
        }
    }

    fn simpler_moves(&self, simpler: &mut Vec<Self>) {
        for (index, page) in self.moves.iter().enumerate() {
            let mut with = |change: &dyn Fn(&mut Move)| {
                let mut case = self.clone();
                change(&mut case.moves[index]);
                simpler.push(case);
            };
            for writes in without(&page.writes) {
                with(&|page| page.writes.clone_from(&writes));
            }
            if !page.from.is_empty() {
                with(&|page| page.from.clear());
            }
            let counted_round = page.row.checked_rem(self.rows.len()).unwrap_or(0);
            if page.row != counted_round {
                with(&|page| page.row = counted_round);
            }
            if page.place != Place::default() {
                with(&|page| page.place = Place::default());
            }
            for (is_set, unset) in [
                (
                    page.by_row,
                    (|page: &mut Move| page.by_row = false) as fn(&mut Move),
                ),
                (page.both_edges, |page| page.both_edges = false),
                (page.backwards, |page| page.backwards = false),
                (page.scan_budget != 0, |page| page.scan_budget = 0),
                (page.byte_budget != 0, |page| page.byte_budget = 0),
                (page.row != 0, |page| page.row = 0),
                (page.row > 1, |page| page.row /= 2),
                (page.size > 1, |page| page.size = 1),
                (page.size > 2, |page| page.size /= 2),
                (page.size > 2, |page| page.size -= 1),
            ] {
                if is_set {
                    with(&unset);
                }
            }
        }
    }

    /// Returns the case without a field, and without conditions on this field alone. Rows that then
    /// have equal keys become one row. Returns `None` if the field is needed: for sorting, for a
    /// tuple condition, or as the only partition or sort column.
    fn without_field(&self, field: usize) -> Option<Self> {
        let name = &self.collection.fields[field].name;
        let is_tuple =
            |one: &Condition| matches!(one, Condition::Tuple { fields, .. } if fields.contains(&field));
        let is_asked = self.question.conditions.iter().any(is_tuple);
        let is_sorted = self.question.sort.iter().any(|(sorted, _)| *sorted == field);
        let base = self.collection.base();
        let (partition, order) = (base.partition, &base.order);
        let is_only = *partition == [name.clone()] || (order.len() == 1 && order[0].field == *name);
        if is_asked || is_sorted || is_only {
            return None;
        }
        let keep = |other: &&String| *other != name;
        let declaration = Declaration {
            name: self.collection.name.clone(),
            fields: self
                .collection
                .fields
                .iter()
                .filter(|one| one.name != *name)
                .cloned()
                .collect(),
            key: self.collection.key.iter().filter(keep).cloned().collect(),
            partition: Some(partition.iter().filter(keep).cloned().collect()),
            order: order
                .iter()
                .filter(|one| one.field != *name)
                .map(ToString::to_string)
                .collect(),
            writes: self.collection.writes,
        };
        let mut case = self.clone();
        case.collection = Arc::new(Collection::new(declaration).ok()?);
        case.collations.remove(name);
        case.question.conditions.retain(|one| fields_of(one) != [field]);
        let shift = |other: &mut usize| *other -= usize::from(*other > field);
        case.question
            .conditions
            .iter_mut()
            .for_each(|one| fields_mut(one).into_iter().for_each(shift));
        case.question
            .sort
            .iter_mut()
            .for_each(|(sorted, _)| shift(sorted));
        let order: Vec<usize> = self.order().iter().map(|(field, _)| *field).collect();
        for page in &mut case.moves {
            if order.contains(&field) {
                page.from.clear();
            }
            for change in &mut page.writes {
                if let Change::Put(row) = change {
                    row.remove(field);
                }
            }
        }
        case.rows.iter_mut().for_each(|row| {
            row.remove(field);
        });
        case.rows = distinct(&case);
        Some(case)
    }

    /// Replaces the values of a field by the simplest values of its type, in the same order.
    /// Returns `None` if the field has the simplest values already, or cannot be simplified.
    fn with_simple_values(&self, field: usize) -> Option<Self> {
        let ty = &self.collection.fields[field].ty;
        let has_prefix =
            |one: &Condition| matches!(one, Condition::StartsWith { field: own, .. } if *own == field);
        if !ty.is_orderable() || self.question.conditions.iter().any(has_prefix) {
            return None;
        }
        let mut case = self.clone();
        let mut values: Vec<Value> = Vec::new();
        case.each_value(field, &mut |value| values.push(value.clone()));
        let oracle = self.oracle();
        values.sort_by(|left, right| oracle.compare(field, left, right));
        values.dedup_by(|left, right| oracle.compare(field, left, right).is_eq());
        let simple: Vec<Value> = (0..values.len())
            .map(|index| simple(ty, index))
            .collect::<Option<_>>()?;
        let mut is_same = true;
        case.each_value(field, &mut |value| {
            let place = values
                .iter()
                .position(|one| oracle.compare(field, one, value).is_eq());
            let next = &simple[place.expect("it was collected")];
            is_same &= *value == *next;
            *value = next.clone();
        });
        (!is_same).then_some(case)
    }

    fn each_value(&mut self, field: usize, change: &mut dyn FnMut(&mut Value)) {
        let order = self.order();
        self.rows
            .iter_mut()
            .filter_map(|row| row[field].as_mut())
            .for_each(&mut *change);
        for page in &mut self.moves {
            for one in &mut page.writes {
                if let Change::Put(row) = one {
                    row[field].iter_mut().for_each(&mut *change);
                }
            }
            let both = order.iter().zip(&mut page.from);
            both.filter(|((own, _), _)| *own == field)
                .for_each(|(_, value)| change(value));
        }
        for condition in &mut self.question.conditions {
            match condition {
                Condition::Compare {
                    field: own, value, ..
                } if *own == field => change(value),
                Condition::AnyOf { field: own, values } if *own == field => {
                    values.iter_mut().for_each(&mut *change);
                }
                Condition::Tuple { fields, values, .. } => {
                    let both = fields.iter().zip(values);
                    both.filter(|(own, _)| **own == field)
                        .for_each(|(_, value)| change(value));
                }
                _ => {}
            }
        }
    }
}

/// Returns shorter versions of a list: without each half, without each quarter, and so on, down to
/// without each item.
fn without<T: Clone>(list: &[T]) -> Vec<Vec<T>> {
    let mut lists = Vec::new();
    let mut size = list.len().div_ceil(2);
    while size > 0 {
        for start in (0..list.len()).step_by(size) {
            let mut fewer = list.to_vec();
            fewer.drain(start..(start + size).min(list.len()));
            lists.push(fewer);
        }
        size /= 2;
    }
    lists
}

fn distinct(case: &Case) -> Vec<Row> {
    let mut oracle = case.oracle();
    for row in &case.rows {
        if oracle.get(row).is_none() {
            oracle.put(row.clone());
        }
    }
    oracle.rows().to_vec()
}

fn fields_of(condition: &Condition) -> Vec<usize> {
    match condition {
        Condition::Compare { field, .. }
        | Condition::AnyOf { field, .. }
        | Condition::StartsWith { field, .. } => {
            vec![*field]
        }
        Condition::Tuple { fields, .. } => fields.clone(),
    }
}

fn fields_mut(condition: &mut Condition) -> Vec<&mut usize> {
    match condition {
        Condition::Compare { field, .. }
        | Condition::AnyOf { field, .. }
        | Condition::StartsWith { field, .. } => {
            vec![field]
        }
        Condition::Tuple { fields, .. } => fields.iter_mut().collect(),
    }
}

/// Returns a readable value of a type, such as `1` or `b`; a greater index gives a greater value.
fn simple(ty: &Type, index: usize) -> Option<Value> {
    let number = i8::try_from(index).ok()?;
    let letters = || (index < 26).then(|| char::from(b'a' + number.unsigned_abs()).to_string());
    Some(match ty {
        Type::Ascii => Value::Ascii(letters()?),
        Type::Text => Value::Text(letters()?),
        Type::Blob => Value::Blob(vec![number.unsigned_abs()]),
        Type::TinyInt => Value::TinyInt(number),
        Type::SmallInt => Value::SmallInt(number.into()),
        Type::Int => Value::Int(number.into()),
        Type::BigInt => Value::BigInt(number.into()),
        Type::Varint => Value::Varint(BigInt::from(number)),
        Type::Decimal => Value::Decimal(BigDecimal::from(number)),
        Type::Float => Value::Float(number.into()),
        Type::Double => Value::Double(number.into()),
        Type::Date => Value::Date(number.into()),
        Type::Time => Value::Time(number.into()),
        Type::Timestamp => Value::Timestamp(number.into()),
        _ => return None,
    })
}
