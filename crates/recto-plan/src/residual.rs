//! Conditions that no view serves, checked row by row.

use recto_model::RowRef;

use crate::arrangement::Arrangement;
use crate::query::{Constraint, satisfies, tuple_satisfies};
use crate::text::Operator;

/// One condition on the columns of an arrangement's table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Residual {
    /// A column must satisfy a constraint.
    Column {
        /// The column.
        column: usize,
        /// The constraint.
        constraint: Constraint,
    },
    /// Columns must compare to values, by value.
    Tuple {
        /// The columns.
        columns: Vec<usize>,
        /// How.
        operator: Operator,
        /// The values.
        values: Vec<Vec<u8>>,
    },
}

impl Residual {
    /// Whether a row satisfies it. A null satisfies nothing.
    pub fn matches(&self, arrangement: &Arrangement, row: RowRef<'_>) -> bool {
        match self {
            Self::Column { column, constraint } => arrangement
                .cell(row, *column)
                .is_some_and(|cell| satisfies(arrangement.type_of(*column), cell, constraint)),
            Self::Tuple {
                columns,
                operator,
                values,
            } => {
                let cells = columns
                    .iter()
                    .map(|column| (arrangement.type_of(*column), arrangement.cell(row, *column)));
                tuple_satisfies(cells, *operator, values)
            }
        }
    }

    /// The names of the columns it looks at.
    pub fn columns(&self) -> &[usize] {
        match self {
            Self::Column { column, .. } => std::slice::from_ref(column),
            Self::Tuple { columns, .. } => columns,
        }
    }
}
