//! Arrangements: the tables a collection can be read from, tied to its fields.

use std::sync::Arc;

use recto_model::schema::Collection;
use recto_model::table::Direction;
use recto_model::{Table, Type};

/// One arrangement of a collection: a table, with what each of its columns is to the collection.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Arrangement {
    /// The view's name; empty for the base table.
    pub view: String,
    /// The table.
    pub table: Arc<Table>,
    /// For each column of the table, the field it holds.
    pub field_of_column: Vec<usize>,
    /// For each field of the collection, the column that holds it.
    pub column_of_field: Vec<Option<usize>>,
}

impl Arrangement {
    /// The arrangement of a collection's base table.
    pub fn base(collection: &Collection) -> Self {
        let table = collection.base_table();
        let field_of_column = table
            .columns()
            .iter()
            .map(|column| {
                collection
                    .field(&column.name)
                    .expect("a base table holds fields only")
                    .0
            })
            .collect();
        let column_of_field = collection
            .fields
            .iter()
            .map(|field| table.column_index(&field.name))
            .collect();
        Self {
            view: String::new(),
            table: Arc::new(table),
            field_of_column,
            column_of_field,
        }
    }

    /// How many partition columns there are; clustering columns follow them.
    pub fn partition_len(&self) -> usize {
        self.table.partition().len()
    }

    /// Whether a column is a partition column.
    pub fn is_partition(&self, column: usize) -> bool {
        column < self.partition_len()
    }

    /// The direction in which the table holds a key column; partition columns count as ascending.
    pub fn direction(&self, column: usize) -> Direction {
        match column.checked_sub(self.partition_len()) {
            None => Direction::Ascending,
            Some(index) => self.table.clustering_direction(index),
        }
    }

    /// The type of a column.
    pub fn type_of(&self, column: usize) -> &Type {
        &self.table.columns()[column].ty
    }

    /// The name of a column.
    pub fn name_of(&self, column: usize) -> &str {
        &self.table.columns()[column].name
    }

    /// What the view is called in messages.
    pub fn title(&self) -> String {
        if self.view.is_empty() {
            format!("the arrangement of {}", self.table.name())
        } else {
            format!("view {}", self.view)
        }
    }

    /// The arrangement as text, for fingerprints and messages: `(carrier), -time_hour, flight`.
    pub fn describe(&self) -> String {
        let partition: Vec<&str> = self
            .table
            .partition()
            .iter()
            .map(|column| column.name.as_str())
            .collect();
        let mut text = format!("({})", partition.join(", "));
        for (index, column) in self.table.clustering().iter().enumerate() {
            text.push_str(", ");
            if self.table.clustering_direction(index) == Direction::Descending {
                text.push('-');
            }
            text.push_str(&column.name);
        }
        text
    }
}
