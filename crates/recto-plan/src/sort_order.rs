//! Sort orders: the tables a collection can be read from, tied to its fields.

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

/// One sort order of a collection: a table, with what each of its columns is to the collection.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SortOrder {
    /// What a query calls it by.
    pub name: String,
    /// Whether it is the base table's, which has every record.
    pub is_base: bool,
    /// The table.
    pub table: Arc<Table>,
    /// What each column of the table holds.
    pub holds: Vec<Holds>,
    /// For each field of the collection, the column that holds it.
    pub column_of_field: Vec<Option<usize>>,
    /// For each field, the column in which it stands rounded: rows are sorted by that, and not by the field.
    rounding_column_of_field: Vec<Option<usize>>,
    /// For each field, the column of the sort keys of its text: rows are sorted by that, then by the field.
    sort_column_of_field: Vec<Option<usize>>,
    /// For each field, the collation by which it is compared, whether rows are sorted by that or not.
    collation_of_field: Vec<Option<Collation>>,
    /// For each column, the one that says that its field is null; empty if no column has such a one.
    null_columns: Vec<Option<usize>>,
    /// The order fields without which a record is not in it, though others of the collection have none.
    pub skips_nulls_of: Vec<usize>,
    /// The column that has a record's version; none if its collection's records have none.
    pub version: Option<usize>,
    /// In the base table of records that change, the column that says how long one lives.
    pub head: Option<usize>,
    /// Whether a row is shown only if the base row, read after it, says that the record stands there. Then all fields
    /// are the base row's.
    pub is_verified: bool,
    /// Maximum number of records that it should have and lacks.
    pub lacks: LackedRecords,
}

/// Maximum number of records that a view should have and lacks, because they do not fit it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct LackedRecords {
    /// Records whose value of the only partition field is empty: they are in no partition of the view.
    pub empty: u64,
    /// Records whose key in the view would be too large: they may be missing from any partition.
    pub too_large: u64,
}

impl SortOrder {
    /// The sort order of a collection's base table.
    pub fn base(collection: &Collection) -> Self {
        let base = collection.base();
        Self::new(&base, base.table_name(0))
            .expect("a collection's key is orderable and its fields distinct: checked when made")
    }

    /// A sort order of a collection, in the table of this name.
    ///
    /// # Errors
    /// A field that it is by cannot be in a key.
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

    /// The field that a column holds; none if it is derived from one, or Recto's own.
    pub fn field_of(&self, column: usize) -> Option<usize> {
        match self.holds[column] {
            Holds::Field(field) => Some(field),
            Holds::Derived(..) | Holds::Hidden => None,
        }
    }

    /// The field whose empty value it lacks records of; none if it has them all.
    pub fn lacks_empty_values_of(&self) -> Option<usize> {
        if self.lacks.empty == 0 || self.table.partition().len() != 1 {
            return None;
        }
        self.field_of(0)
    }

    /// The field that rows are sorted by in a column, be it rounded; none if the column only stands before another of its field,
    /// or is Recto's own.
    pub fn sorted_by(&self, column: usize) -> Option<usize> {
        sorted_by(self.holds[column])
    }

    /// The column of the key by which rows are sorted by a field, be it rounded; none if they are not.
    pub fn sorting_column(&self, field: usize) -> Option<usize> {
        let column = self.column_of_field[field].filter(|column| *column < self.table.key_len());
        column.or(self.rounding_column_of_field[field])
    }

    /// The cell of a column that is derived from a field, for a cell of that; none if the column is not derived.
    pub fn derived(&self, column: usize, cell: Option<&[u8]>) -> Option<Cow<'static, [u8]>> {
        let Holds::Derived(field, derivation) = self.holds[column] else {
            return None;
        };
        // What a view is ordered by it has.
        let ty = self.type_of(self.column_of_field[field]?);
        Some(derivation.of(ty, cell))
    }

    /// The column of the sort keys of a field's text, which stands just before the field's; none if rows are not sorted by
    /// a collation of it.
    pub fn sort_column(&self, field: usize) -> Option<usize> {
        self.sort_column_of_field[field]
    }

    /// The field whose text a column has sort keys of; none if it has none.
    pub fn sort_keys_of(&self, column: usize) -> Option<usize> {
        match self.holds[column] {
            Holds::Derived(field, Derivation::SortKey(_)) => Some(field),
            _ => None,
        }
    }

    /// By which collation the sort keys of a column are; none if it has none.
    pub fn collation_at(&self, column: usize) -> Option<Collation> {
        match self.holds[column] {
            Holds::Derived(_, Derivation::SortKey(collation)) => Some(collation),
            _ => None,
        }
    }

    /// The collation by which a field is compared, if it is, in another order than its column's rows are.
    pub fn unsorted_collation(&self, field: usize) -> Option<Collation> {
        self.collation_of_field[field].filter(|_| self.sort_column_of_field[field].is_none())
    }

    /// How the values of a field compare, which stand in this column.
    pub(crate) fn order_of(&self, field: usize, column: usize) -> FieldOrder<'_> {
        FieldOrder::new(self.type_of(column), self.collation_of_field[field])
    }

    /// How coarsely rows are sorted by a field; none if by its values, or not at all.
    pub fn rounding_of(&self, field: usize) -> Option<Width> {
        match self.holds[self.rounding_column_of_field[field]?] {
            Holds::Derived(_, Derivation::Rounding(width)) => Some(width),
            _ => None,
        }
    }

    /// The columns that hold fields, with the field that each holds.
    pub fn fields(&self) -> impl Iterator<Item = (usize, usize)> {
        let columns = self.holds.iter().enumerate();
        columns.filter_map(|(column, holds)| match *holds {
            Holds::Field(field) => Some((column, field)),
            Holds::Derived(..) | Holds::Hidden => None,
        })
    }

    /// The names of those columns, of the ones given, that hold fields.
    pub fn field_names(&self, columns: &[usize]) -> Vec<String> {
        let of_fields = columns.iter().filter(|column| self.field_of(**column).is_some());
        of_fields.map(|column| self.name_of(*column).to_owned()).collect()
    }

    /// Whether rows have the values of all fields.
    pub fn is_full(&self) -> bool {
        self.column_of_field.iter().all(Option::is_some)
    }

    /// Whether nulls of a field are told by another column: then [`cell`](Self::cell) must be asked.
    pub fn derives_nulls(&self) -> bool {
        !self.null_columns.is_empty()
    }

    /// The cell of a column in a row; none if its field is null.
    pub fn cell<'r>(&self, row: RowRef<'r>, column: usize) -> Option<&'r [u8]> {
        if let Some(Some(nulls)) = self.null_columns.get(column)
            && row.get(*nulls) != Some(&[0])
        {
            return None;
        }
        row.get(column)
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
        if self.is_base {
            format!("collection {}", self.table.name())
        } else {
            format!("view {}", self.name)
        }
    }

    /// The name of the field that a column holds, or is derived from, for people. Recto's own columns have their names.
    pub fn shown_name_of(&self, column: usize) -> &str {
        match self.holds[column] {
            Holds::Derived(field, _) => self.column_of_field[field].map_or("", |column| self.name_of(column)),
            Holds::Field(_) | Holds::Hidden => self.name_of(column),
        }
    }

    /// The name of a column that rows are sorted by, for people: `seen rounded to 1 minute` where the view has an interval.
    pub fn shown_sort_of(&self, column: usize) -> Cow<'_, str> {
        match self.holds[column] {
            Holds::Derived(_, Derivation::Rounding(width)) => {
                Cow::Owned(format!("{} rounded to {width}", self.shown_name_of(column)))
            }
            _ => Cow::Borrowed(self.name_of(column)),
        }
    }

    /// The partition and order of its rows for people: without the columns that Recto derives from fields to
    /// sort by.
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

    /// What its rows are arranged by: columns of fields, and what is derived from them.
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
