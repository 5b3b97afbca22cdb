//! What can be asked of each field beside what is being asked, as forms offer it.

use recto::Type;
use recto::schema::{Collection, Field};
use recto::session::{FieldChoices, SortChoice};

use super::filter::Operator;

/// What a field can be asked.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct FieldOptions {
    /// Conditions that a view serves.
    pub(super) operators: Vec<Operator>,
    pub(super) sort: SortChoice,
}

/// What each field can be asked, in the collection's order; of a query that is not right nothing is known.
pub(super) fn options(collection: &Collection, choices: &[FieldChoices]) -> Vec<FieldOptions> {
    let fields = collection.fields.iter().enumerate();
    let option = |(index, field): (usize, &Field)| {
        choices
            .get(index)
            .map_or_else(FieldOptions::default, |choices| FieldOptions {
                operators: operators(&field.ty, choices),
                sort: choices.sort,
            })
    };
    fields.map(option).collect()
}

fn operators(ty: &Type, choices: &FieldChoices) -> Vec<Operator> {
    let mut served = Vec::new();
    if choices.equality {
        served.extend([Operator::Equal, Operator::OneOf]);
    }
    if choices.range {
        served.extend(Operator::RANGE);
    }
    if choices.prefix {
        served.push(Operator::StartsWith);
    }
    if is_mostly_ranged(ty) {
        served.sort_by_key(|operator| !Operator::RANGE.contains(operator));
    }
    served
}

/// Whether people ask for ranges of values rather than for one: the operator offered first.
fn is_mostly_ranged(ty: &Type) -> bool {
    matches!(
        ty,
        Type::Timestamp | Type::Date | Type::Time | Type::Float | Type::Double | Type::Decimal
    )
}
