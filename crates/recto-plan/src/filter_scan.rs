//! Filter scans: conditions that no view serves and that are checked on each row.

use recto_model::RowRef;

use crate::query::{Constraint, satisfies, tuple_satisfies};
use crate::sort_order::SortOrder;
use crate::text::Operator;

/// One condition on the fields of a collection.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ScanCondition {
    /// The field must satisfy the constraint.
    Field {
        /// Index of the field.
        field: usize,
        /// Constraint on the field.
        constraint: Constraint,
    },
    /// The field must satisfy the constraint, and rows are sorted by the rounded values of the field. The
    /// slices that are read contain all rows that satisfy the constraint. Their first and last intervals also
    /// contain rows that do not.
    Edges {
        /// Index of the field.
        field: usize,
        /// Constraint on the field.
        constraint: Constraint,
    },
    /// The fields must satisfy a comparison with the values, as tuples.
    Tuple {
        /// Indexes of the fields.
        fields: Vec<usize>,
        /// Operator of the comparison.
        operator: Operator,
        /// Values, one for each field.
        values: Vec<Vec<u8>>,
    },
}

impl ScanCondition {
    /// Returns whether a row satisfies the condition, as far as the row's table has the fields. If the table
    /// lacks a field, returns true: the base row is checked later. A null satisfies no condition.
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

    /// Returns whether the slices serve the condition except at their ends, so that the scan discards few
    /// rows.
    pub fn is_of_edges(&self) -> bool {
        matches!(self, Self::Edges { .. })
    }

    /// Returns the fields of the conditions that the scan checks on every row, which are all but the
    /// conditions on edges.
    pub fn checked_fields(conditions: &[Self]) -> Vec<usize> {
        let checked = conditions.iter().filter(|one| !one.is_of_edges());
        checked.flat_map(Self::fields).copied().collect()
    }

    /// Returns the fields of the condition.
    pub fn fields(&self) -> &[usize] {
        match self {
            Self::Field { field, .. } | Self::Edges { field, .. } => std::slice::from_ref(field),
            Self::Tuple { fields, .. } => fields,
        }
    }
}
