//! Sort orders: the base table and views from which a collection can be read, and how their columns
//! relate to the collection's fields.

use std::borrow::Cow;
use std::sync::Arc;

use recto_model::collation::Collation;
use recto_model::schema::{
    self, ArrangedBy, Collection, Derivation, HEAD_COLUMN, Holds, OrderColumn, VERSION_COLUMN, Width,
    WriteMode,
};
use recto_model::table::{Direction, TableError};
use recto_model::{RowRef, Table, Type};

use crate::query::FieldOrder;

/// Sort order of a collection: a table (base table or view), and the meaning of each of its
/// columns.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SortOrder {
    /// Name of the sort order in queries, such as the name of its view.
    pub name: String,
    /// True if the table is the base table, which contains every record.
    pub is_base: bool,
    /// Table that stores the rows in this sort order.
    pub table: Arc<Table>,
    /// For each column of the table, the field that it contains, or the field from which its values
    /// are derived.
    pub holds: Vec<Holds>,
    /// For each field of the collection, the index of the column that contains it. `None` if the
    /// table lacks the field.
    pub column_of_field: Vec<Option<usize>>,
    /// For each field, the index of the column with its rounded value, if the order rounds the
    /// field. Rows are sorted by the rounded value and not by the field.
    rounding_column_of_field: Vec<Option<usize>>,
    /// For each field, the index of the column with the sort keys of its text, if the order uses a
    /// collation. Rows are sorted by the sort keys, then by the field.
    sort_column_of_field: Vec<Option<usize>>,
    /// For each field, the collation in which queries compare its values. Rows are not necessarily
    /// sorted by it.
    collation_of_field: Vec<Option<Collation>>,
    /// For each column, the index of the column that marks whether its field is null. Empty if the
    /// table has no such marker columns.
    null_columns: Vec<Option<usize>>,
    /// Indexes of the sort fields that can be null in the collection. This sort order omits records
    /// in which one of these fields is null.
    pub skips_nulls_of: Vec<usize>,
    /// Index of the column with the version of a record. `None` if the collection's records have no
    /// version.
    pub version: Option<usize>,
    /// Index of the column with the state of a record, such as its expiry. `None` except in the
    /// base table of a collection whose records can be updated.
    pub head: Option<usize>,
    /// True if Recto shows a row only after its base row confirms that the record has this
    /// position. Recto then reads the base row after the row, and takes all field values from it.
    pub is_verified: bool,
    /// Upper bound of the number of records that this sort order should contain but lacks.
    pub lacks: LackedRecords,
}

/// Upper bounds of the number of records that a view should contain but lacks, because they do not
/// fit into it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct LackedRecords {
    /// Number of records with an empty value of the view's only partition field. The store allows
    /// no partition with an empty key.
    pub empty: u64,
    /// Number of records whose key in the view would be too large. They can be missing from any
    /// partition.
    pub too_large: u64,
}

impl SortOrder {
    /// Returns the sort order of a collection's base table.
    pub fn base(collection: &Collection) -> Self {
        let base = collection.base();
        Self::new(&base, base.table_name(0))
            .expect("a collection's key is orderable and its fields are distinct, as its constructor checks")
    }

    /// Returns the sort order that `arranged` describes, whose rows are in the table with the name
    /// `table`.
    ///
    /// # Errors
    /// A field of the partition or the order cannot be in a key.
    pub fn new(arranged: &schema::SortOrder<'_>, table: impl Into<String>) -> Result<Self, TableError> {
        let (table, holds) = arranged.table(&table.into())?;
        let fields = arranged.collection.fields.len();
        let mut column_of_field = vec![None; fields];
        let mut null_column_of_field = vec![None; fields];
        let mut rounding_column_of_field = vec![None; fields];
        let mut sort_column_of_field = vec![None; fields];
        for (column, holds) in holds.iter().enumerate() {
            match *holds {
                Holds::Field(field) => column_of_field[field] = Some(column),
                Holds::Derived(field, Derivation::IsNull) => null_column_of_field[field] = Some(column),
                Holds::Derived(field, Derivation::SortKey(_)) => sort_column_of_field[field] = Some(column),
                Holds::Derived(field, _) => rounding_column_of_field[field] = Some(column),
                Holds::Hidden => {}
            }
        }
        let nulls_of = |holds: &Holds| match *holds {
            Holds::Field(field) => null_column_of_field[field],
            _ => None,
        };
        let null_columns: Vec<Option<usize>> = holds.iter().map(nulls_of).collect();
        let key_len = table.key_len();
        let skips = |column: usize| {
            let field = sorted_by(holds[column])?;
            let is_required = arranged
                .collection
                .is_required(&arranged.collection.fields[field].name);
            (!is_required && null_column_of_field[field].is_none()).then_some(field)
        };
        let changes = arranged.collection.writes == WriteMode::Update;
        let hidden = |name: &str| {
            let columns = table.columns().iter().zip(&holds);
            let mut columns = columns.take_while(|_| changes);
            columns.position(|(column, holds)| *holds == Holds::Hidden && column.name == name)
        };
        Ok(Self {
            version: hidden(VERSION_COLUMN),
            head: hidden(HEAD_COLUMN),
            is_verified: false,
            lacks: LackedRecords::default(),
            name: arranged.name().to_owned(),
            is_base: arranged.view.is_none(),
            skips_nulls_of: (table.partition().len()..key_len).filter_map(skips).collect(),
            null_columns: if null_columns.iter().all(Option::is_none) {
                Vec::new()
            } else {
                null_columns
            },
            table: Arc::new(table),
            holds,
            column_of_field,
            rounding_column_of_field,
            sort_column_of_field,
            collation_of_field: arranged
                .collection
                .fields
                .iter()
                .map(|field| arranged.collection.collation_of(&field.name))
                .collect(),
        })
    }

    /// Returns the index of the field that a column contains. `None` if the column is derived from
    /// a field, or is internal to Recto.
    pub fn field_of(&self, column: usize) -> Option<usize> {
        match self.holds[column] {
            Holds::Field(field) => Some(field),
            Holds::Derived(..) | Holds::Hidden => None,
        }
    }

    /// Returns the partition field of a view that lacks records in which this field is empty.
    /// `None` if no records are missing for that reason.
    pub fn lacks_empty_values_of(&self) -> Option<usize> {
        if self.lacks.empty == 0 || self.table.partition().len() != 1 {
            return None;
        }
        self.field_of(0)
    }

    /// Returns the field by whose exact or rounded values a column sorts rows. `None` if the column
    /// is internal to Recto, or is an additional column before the field's own column.
    pub fn sorted_by(&self, column: usize) -> Option<usize> {
        sorted_by(self.holds[column])
    }

    /// Returns the key column that sorts rows by the exact or rounded values of a field. `None` if
    /// no column does.
    pub fn sorting_column(&self, field: usize) -> Option<usize> {
        let column = self.column_of_field[field].filter(|column| *column < self.table.key_len());
        column.or(self.rounding_column_of_field[field])
    }

    /// Computes the cell of a derived column from the cell of its field. `None` if the column is
    /// not derived from a field.
    pub fn derived(&self, column: usize, cell: Option<&[u8]>) -> Option<Cow<'static, [u8]>> {
        let Holds::Derived(field, derivation) = self.holds[column] else {
            return None;
        };
        // A view contains every field by which it sorts, so the field of a derived column has a
        // column.
        let ty = self.type_of(self.column_of_field[field]?);
        Some(derivation.of(ty, cell))
    }

    /// Returns the column with the sort keys of a field's text, which directly precedes the field's
    /// own column. `None` if rows are not sorted by a collation of the field.
    pub fn sort_column(&self, field: usize) -> Option<usize> {
        self.sort_column_of_field[field]
    }

    /// Returns the field whose sort keys a column contains. `None` if the column contains no sort keys.
    pub fn sort_keys_of(&self, column: usize) -> Option<usize> {
        match self.holds[column] {
            Holds::Derived(field, Derivation::SortKey(_)) => Some(field),
            _ => None,
        }
    }

    /// Returns the collation of the sort keys that a column contains. `None` if the column contains no sort
    /// keys.
    pub fn collation_at(&self, column: usize) -> Option<Collation> {
        match self.holds[column] {
            Holds::Derived(_, Derivation::SortKey(collation)) => Some(collation),
            _ => None,
        }
    }

    /// Returns the collation in which queries compare a field, if this sort order has no column with
    /// the field's sort keys. The rows are then sorted by the bytes of the field, or not by the
    /// field, so ranges and sorts of the field cannot use this sort order. `None`: the field has no
    /// collation, or the rows are sorted by its collation.
    pub fn unsorted_collation(&self, field: usize) -> Option<Collation> {
        self.collation_of_field[field].filter(|_| self.sort_column_of_field[field].is_none())
    }

    /// Returns how values of a field compare, if `column` contains the field: in the order of its
    /// type or its collation.
    pub(crate) fn order_of(&self, field: usize, column: usize) -> FieldOrder<'_> {
        FieldOrder::new(self.type_of(column), self.collation_of_field[field])
    }

    /// Returns the interval to which the order rounds a field, such as one hour. `None` if rows are sorted by
    /// the exact values, or not by the field.
    pub fn rounding_of(&self, field: usize) -> Option<Width> {
        match self.holds[self.rounding_column_of_field[field]?] {
            Holds::Derived(_, Derivation::Rounding(width)) => Some(width),
            _ => None,
        }
    }

    /// Returns the columns that contain fields, as pairs of column index and field index.
    pub fn fields(&self) -> impl Iterator<Item = (usize, usize)> {
        let columns = self.holds.iter().enumerate();
        columns.filter_map(|(column, holds)| match *holds {
            Holds::Field(field) => Some((column, field)),
            Holds::Derived(..) | Holds::Hidden => None,
        })
    }

    /// Returns the field names of those given columns that contain fields.
    pub fn field_names(&self, columns: &[usize]) -> Vec<String> {
        let of_fields = columns.iter().filter(|column| self.field_of(**column).is_some());
        of_fields.map(|column| self.name_of(*column).to_owned()).collect()
    }

    /// Returns whether the rows of the sort order contain all fields of the collection.
    pub fn is_full(&self) -> bool {
        self.column_of_field.iter().all(Option::is_some)
    }

    /// Returns whether the table has columns that mark other fields as null. If so, read cells with
    /// [`cell`](Self::cell), because the cell of a null field contains a placeholder.
    pub fn derives_nulls(&self) -> bool {
        !self.null_columns.is_empty()
    }

    /// Returns the cell of a column in a row, or `None` if the column's field is null.
    pub fn cell<'r>(&self, row: RowRef<'r>, column: usize) -> Option<&'r [u8]> {
        if let Some(Some(nulls)) = self.null_columns.get(column)
            && row.get(*nulls) != Some(&[0])
        {
            return None;
        }
        row.get(column)
    }

    /// Returns the number of partition columns, which are the first columns of the table.
    pub fn partition_len(&self) -> usize {
        self.table.partition().len()
    }

    /// Returns whether a column is a partition column.
    pub fn is_partition(&self, column: usize) -> bool {
        column < self.partition_len()
    }

    /// Returns the direction in which the table sorts a key column. For partition columns, returns ascending.
    pub fn direction(&self, column: usize) -> Direction {
        match column.checked_sub(self.partition_len()) {
            None => Direction::Ascending,
            Some(index) => self.table.clustering_direction(index),
        }
    }

    /// Returns the type of the column with this index.
    pub fn type_of(&self, column: usize) -> &Type {
        &self.table.columns()[column].ty
    }

    /// Returns the name of the column with this index.
    pub fn name_of(&self, column: usize) -> &str {
        &self.table.columns()[column].name
    }

    /// Returns a description of the sort order for messages, such as `view by_team`.
    pub fn title(&self) -> String {
        if self.is_base {
            format!("collection {}", self.table.name())
        } else {
            format!("view {}", self.name)
        }
    }

    /// Returns the name, for users, of the field that a column contains or is derived from. For an
    /// internal column of Recto, returns the column's name.
    pub fn shown_name_of(&self, column: usize) -> &str {
        match self.holds[column] {
            Holds::Derived(field, _) => self.column_of_field[field].map_or("", |column| self.name_of(column)),
            Holds::Field(_) | Holds::Hidden => self.name_of(column),
        }
    }

    /// Returns the name, for users, of a column that sorts rows. With rounding, the name has the form
    /// `seen rounded to 1 minute`.
    pub fn shown_sort_of(&self, column: usize) -> Cow<'_, str> {
        match self.holds[column] {
            Holds::Derived(_, Derivation::Rounding(width)) => {
                Cow::Owned(format!("{} rounded to {width}", self.shown_name_of(column)))
            }
            _ => Cow::Borrowed(self.name_of(column)),
        }
    }

    /// Returns the partition and the order of the rows, for users. Omits columns that Recto derives
    /// from fields only to sort by the fields.
    pub fn shown_by(&self) -> ArrangedBy {
        let is_shown = |column: usize| match self.holds[column] {
            Holds::Derived(_, derivation) => derivation.replaces_field(),
            Holds::Field(_) | Holds::Hidden => true,
        };
        let ArrangedBy { partition, order } = self.arranged_by();
        let order = order.into_iter().zip(self.partition_len()..);
        let order = order.filter(|(_, column)| is_shown(*column));
        let shown = |(term, column): (OrderColumn, usize)| OrderColumn {
            field: self.shown_sort_of(column).into_owned(),
            ..term
        };
        ArrangedBy {
            partition,
            order: order.map(shown).collect(),
        }
    }

    /// Returns the partition and the order of the rows, as columns of fields and derived columns.
    pub fn arranged_by(&self) -> ArrangedBy {
        let partition = self.table.partition().iter();
        let clustering = self.table.clustering().iter().enumerate();
        ArrangedBy {
            partition: partition.map(|column| column.name.clone()).collect(),
            order: clustering
                .map(|(index, column)| OrderColumn {
                    field: column.name.clone(),
                    direction: self.table.clustering_direction(index),
                })
                .collect(),
        }
    }
}

fn sorted_by(holds: Holds) -> Option<usize> {
    match holds {
        Holds::Field(field) => Some(field),
        Holds::Derived(field, derivation) => derivation.replaces_field().then_some(field),
        Holds::Hidden => None,
    }
}
