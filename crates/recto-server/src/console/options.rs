//! Conditions and sorts of each field that the user can add to a query, so that a view still serves
//! it.

use recto::Type;
use recto::schema::{Collection, Field};
use recto::session::{FieldChoices, SortChoice};

use super::filter::Operator;

/// Conditions and sorts of one field that the user can add to the query.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct FieldOptions {
    /// Operators for which a view serves the query with an added condition.
    pub(super) operators: Vec<Operator>,
    pub(super) sort: SortChoice,
}

/// Returns the options of each field, in the collection's order. All options are empty if the query
/// is invalid.
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

/// Returns whether people usually filter a type by ranges. The form then lists range operators
/// first.
fn is_mostly_ranged(ty: &Type) -> bool {
    matches!(
        ty,
        Type::Timestamp | Type::Date | Type::Time | Type::Float | Type::Double | Type::Decimal
    )
}
