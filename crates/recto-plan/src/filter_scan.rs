//! Filter scans: conditions that no view serves and that are checked on each row.

use recto_model::RowRef;

use crate::query::{Constraint, satisfies, tuple_satisfies};
use crate::sort_order::SortOrder;
use crate::text::Operator;

/// Condition that Recto checks on each row that it reads, because the plan's slices (row ranges)
/// also contain rows without it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ScanCondition {
    /// One field must satisfy a constraint.
    Field {
        /// Index of the field in the collection.
        field: usize,
        /// Constraint that the field must satisfy.
        constraint: Constraint,
    },
    /// One field must satisfy a constraint, and the rows are sorted by rounded values of the field,
    /// such as whole hours. The slices contain all rows that satisfy the constraint. Only their
    /// first and last rounding interval can contain other rows.
    Edges {
        /// Index of the field in the collection.
        field: usize,
        /// Constraint that the field must satisfy.
        constraint: Constraint,
    },
    /// Several fields, as a tuple, must satisfy a comparison with a tuple of values.
    Tuple {
        /// Indexes of the fields in the collection.
        fields: Vec<usize>,
        /// Operator of the comparison.
        operator: Operator,
        /// Values with which the fields are compared, one for each field.
        values: Vec<Vec<u8>>,
    },
}

impl ScanCondition {
    /// Returns whether a row satisfies the condition. Also returns true if the row's table lacks a
    /// field of the condition, because the condition is later checked on the base row. A null
    /// satisfies no condition.
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

    /// Returns whether only rows in the first and last rounding interval of the slices can fail the
    /// condition. The scan then discards few rows.
    pub fn is_of_edges(&self) -> bool {
        matches!(self, Self::Edges { .. })
    }

    /// Returns the fields of the conditions that any row can fail: all except
    /// [`Edges`](Self::Edges) conditions, which only rows at the ends of the slices can fail.
    pub fn checked_fields(conditions: &[Self]) -> Vec<usize> {
        let checked = conditions.iter().filter(|one| !one.is_of_edges());
        checked.flat_map(Self::fields).copied().collect()
    }

    /// Returns the indexes of the fields of the condition.
    pub fn fields(&self) -> &[usize] {
        match self {
            Self::Field { field, .. } | Self::Edges { field, .. } => std::slice::from_ref(field),
            Self::Tuple { fields, .. } => fields,
        }
    }
}
