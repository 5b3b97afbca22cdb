//! Conditions that no view serves, checked row by row.

use recto_model::RowRef;

use crate::query::{Constraint, satisfies, tuple_satisfies};
use crate::sort_order::SortOrder;
use crate::text::Operator;

/// One condition on the fields of a collection.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ScanCondition {
    /// A field must satisfy a constraint.
    Field {
        /// The field.
        field: usize,
        /// The constraint.
        constraint: Constraint,
    },
    /// The same of a field that rows are sorted by rounded: the slices have all that satisfy it, and in their first and last
    /// intervals some that do not.
    Edges {
        /// The field.
        field: usize,
        /// The constraint.
        constraint: Constraint,
    },
    /// Fields must compare to values, by value.
    Tuple {
        /// The fields.
        fields: Vec<usize>,
        /// How.
        operator: Operator,
        /// The values.
        values: Vec<Vec<u8>>,
    },
}

impl ScanCondition {
    /// Whether a row satisfies it, as far as its table can tell: what that lacks is asked of the base row. A null
    /// satisfies nothing.
    pub fn matches(&self, sort_order: &SortOrder, row: RowRef<'_>) -> bool {
        match self {
            Self::Field { field, constraint } | Self::Edges { field, constraint } => {
                sort_order.column_of_field[*field].is_none_or(|column| {
                    sort_order
                        .cell(row, column)
                        .is_some_and(|cell| satisfies(sort_order.order_of(*field, column), cell, constraint))
                })
            }
            Self::Tuple {
                fields,
                operator,
                values,
            } => {
                let columns = fields
                    .iter()
                    .map(|field| Some((*field, sort_order.column_of_field[*field]?)));
                if columns.clone().any(|column| column.is_none()) {
                    return true;
                }
                let cells = columns.flatten().map(|(field, column)| {
                    (sort_order.order_of(field, column), sort_order.cell(row, column))
                });
                tuple_satisfies(cells, *operator, values)
            }
        }
    }

    /// Whether slices serve it but for their ends, so that few rows are looked at in vain.
    pub fn is_of_edges(&self) -> bool {
        matches!(self, Self::Edges { .. })
    }

    /// The fields that conditions look at row by row, of those that any row may fail.
    pub fn checked_fields(conditions: &[Self]) -> Vec<usize> {
        let checked = conditions.iter().filter(|one| !one.is_of_edges());
        checked.flat_map(Self::fields).copied().collect()
    }

    /// The fields it looks at.
    pub fn fields(&self) -> &[usize] {
        match self {
            Self::Field { field, .. } | Self::Edges { field, .. } => std::slice::from_ref(field),
            Self::Tuple { fields, .. } => fields,
        }
    }
}
