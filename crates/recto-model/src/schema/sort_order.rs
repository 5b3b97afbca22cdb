//! Sort orders of a collection's records (base table and views), and the tables that store them.

use std::borrow::Cow;
use std::fmt;
use std::str::FromStr;

use super::model::{Collection, OrderColumn, View, WriteMode};
use super::options::{Bucket, Nulls};
use super::{BASE_SORT_ORDER, MAX_NAME_LENGTH, PRIMARY_VIEW, rounding};
use crate::Type;
use crate::collation::Collation;
use crate::table::{Buckets, Column, ColumnKind, Direction, Table, TableError, TableOptions, WriteKind};
use crate::width::Width;

/// Prefix of the names of columns that say whether an order field is null. The field's name follows
/// the prefix.
const NULL_PREFIX: &str = "recto_null_";
/// Prefix of the names of columns with the sort keys of an order field that has a collation. The
/// field's name follows the prefix.
const SORT_PREFIX: &str = "recto_sort_";
/// Prefix of the names of columns that contain rounded order fields. The field's name follows the
/// prefix.
const ROUNDING_PREFIX: &str = "recto_grain_";
/// Name of the hidden column with a record's version, which is also the write timestamp of the
/// record's rows in views.
pub const VERSION_COLUMN: &str = "recto_version";
/// Name of the hidden column with the state of an updatable record: its expiry, the view rows to
/// remove, and the unique values that it claims.
pub const HEAD_COLUMN: &str = "recto_head";
/// Hidden columns of the base table of updatable records. They are the first regular columns, so
/// that new fields can be appended after them.
const HIDDEN_COLUMNS: [(&str, Type, WriteKind); 4] = [
    ("recto_tokens", Type::Blob, WriteKind::Cas),
    (VERSION_COLUMN, Type::BigInt, WriteKind::Cas),
    (HEAD_COLUMN, Type::Blob, WriteKind::Cas),
    ("recto_done", Type::BigInt, WriteKind::Plain),
];

/// Sort order of a collection's records (base table or view): the partition of each record, and the
/// order within a partition.
///
/// ```
/// use recto_model::schema::Schema;
///
/// let schema = Schema::parse(
///     r#"
/// [collection.flights]
/// fields = { carrier = "text", at = "timestamp", number = "int" }
/// key = ["carrier", "at", "number"]
/// partition = ["carrier"]
/// order = ["-at"]
/// writes = "append"
/// "#,
/// )?;
/// let flights = &schema.collections[0];
/// assert_eq!(flights.base().to_string(), "(carrier), -at, number");
/// assert_eq!(flights.sort_orders().len(), 1);
/// # Ok::<(), recto_model::schema::SchemaErrors>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct SortOrder<'a> {
    /// Collection whose records are sorted.
    pub collection: &'a Collection,
    /// View with this sort order. `None` for the base table.
    pub view: Option<&'a View>,
    /// Names of the partition fields, in order.
    pub partition: &'a [String],
    /// Order columns as declared, followed by the key fields that are in neither the partition nor
    /// the order.
    pub order: Cow<'a, [OrderColumn]>,
    /// True if a record with an empty value of the only partition field is stored. Not every store
    /// supports empty partition keys.
    pub allows_empty_partition: bool,
}

/// Content of a column in the table of a sort order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Holds {
    /// Internal data of Recto, not a part of the record.
    Field(usize),
    /// Value derived from the order field with the given index. The column precedes the field's
    /// column, or replaces it.
    Derived(usize, Derivation),
    /// Data of Recto itself that is not part of a record.
    Hidden,
}

/// Function that derives a value from an order field. Rows are sorted by the derived value before
/// the field, or instead of the field.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Derivation {
    /// Whether the field is null, as a boolean. If it is null, the field's own column contains a
    /// placeholder, because clustering columns cannot be null.
    IsNull,
    /// Sort key of a text in a collation: bytes that sort like the text in its language. Rows are
    /// sorted by the sort key, then by the text. The sort key of null is empty.
    SortKey(Collation),
    /// Field rounded down, which replaces the field in the key. A row then keeps its position in
    /// the view as long as the rounded value stays the same.
    Rounding(Width),
}

impl Derivation {
    /// Returns the type of the value derived from a field of type `of`.
    pub fn ty(self, of: &Type) -> Type {
        match self {
            Self::IsNull => Type::Boolean,
            Self::SortKey(_) => Type::Blob,
            Self::Rounding(_) => rounding::type_of(of),
        }
    }

    /// Returns the derived value for a cell (encoded value) of a field. Null and invalid bytes also
    /// give a cell that is valid in a key.
    pub fn of(self, ty: &Type, cell: Option<&[u8]>) -> Cow<'static, [u8]> {
        match (self, cell) {
            (Self::IsNull, None) => Cow::Borrowed(&[1]),
            (Self::IsNull, Some(_)) => Cow::Borrowed(&[0]),
            (Self::SortKey(_), None) => Cow::Borrowed(&[]),
            (Self::SortKey(collation), Some(cell)) => Cow::Owned(collation.sort_key(cell)),
            (Self::Rounding(width), cell) => Cow::Owned(rounding::rounded(width, ty, cell)),
        }
    }

    /// Returns whether the derived value replaces the field in the key, so that rows are not sorted
    /// by the field itself.
    pub fn replaces_field(self) -> bool {
        match self {
            Self::IsNull | Self::SortKey(_) => false,
            Self::Rounding(_) => true,
        }
    }
}

impl<'a> SortOrder<'a> {
    /// Sets whether the value of the only partition field may be empty. On some stores, this
    /// changes how the table encodes its partition key.
    #[must_use]
    pub fn allow_empty_partition(self, is_allowed: bool) -> Self {
        Self {
            allows_empty_partition: is_allowed,
            ..self
        }
    }

    /// Returns the name of the sort order in queries. For a view, it is the view's name. For the
    /// base table, it is `primary`, or `base` if the collection has a view named `primary`.
    pub fn name(&self) -> &'a str {
        match self.view {
            Some(view) => &view.name,
            None if self.collection.writes == WriteMode::Update => BASE_SORT_ORDER,
            None => PRIMARY_VIEW,
        }
    }

    /// Returns the name of the table that stores the sort order. For a view, the name consists of
    /// the collection's name, the view's name and `number` (truncated if necessary). For the base
    /// table, it is the collection's name. An attached table has its own name, after its keyspace.
    pub fn table_name(&self, number: u64) -> String {
        if let Some(attached) = &self.collection.attached {
            return self
                .view
                .map_or_else(|| attached.to_string(), |view| attached.beside(&view.name));
        }
        let Some(view) = self.view else {
            return self.collection.name.clone();
        };
        let number = format!("_{number}");
        let mut name = format!("{}_{}", self.collection.name, view.name);
        name.truncate(MAX_NAME_LENGTH - number.len());
        name + &number
    }

    /// Returns the names of the partition fields, then of the order fields.
    pub fn fields(&self) -> impl Iterator<Item = &str> {
        let order = self.order.iter().map(|column| column.field.as_str());
        self.partition.iter().map(String::as_str).chain(order)
    }

    /// Returns whether the field is in the partition or in the order.
    pub fn is_by(&self, field: &str) -> bool {
        self.fields().any(|name| name == field)
    }

    /// Returns whether the rows contain the value of the field.
    pub fn has(&self, field: &str) -> bool {
        self.is_by(field) || self.holds(field)
    }

    /// Returns the sort order as one line of canonical text, with types and directions. Two sort
    /// orders have the same text exactly if a position in one is a position in the other. A
    /// fingerprint that binds a position to a sort order must cover this text.
    pub fn canonical(&self) -> String {
        let ty = |name: &str| {
            let field = self.collection.field(name);
            field.map_or_else(String::new, |(_, field)| field.ty.to_string())
        };
        let partition = self.partition.iter().map(|name| format!("{name} {}", ty(name)));
        let order = self.order.iter();
        let order = order.map(|column| format!("{column} {}", ty(&column.field)));
        format!(
            "{} partition({}) order({})",
            self.collection.name,
            partition.collect::<Vec<_>>().join(", "),
            order.collect::<Vec<_>>().join(", ")
        )
    }

    /// Returns the rule that splits partitions into buckets. `None` if partitions are not split.
    pub fn bucket(&self) -> Option<&'a Bucket> {
        self.view
            .map_or(self.collection.bucket.as_ref(), |view| view.bucket.as_ref())
    }

    /// Returns the table, named `name`, that stores this sort order, and the content of each of its
    /// columns. The columns are, in this order:
    ///
    /// 1. The partition fields.
    /// 2. The order fields in their directions. A derived column precedes its field, or replaces it if it is
    ///    rounded.
    /// 3. Internal columns of Recto: in a view, the write timestamp of the row; in the base table
    ///    of updatable records, the columns for conditional writes.
    /// 4. The other fields of the sort order in declaration order, so that added fields are the last columns.
    ///
    /// If partitions are split into buckets, the options of the table say so. The functions that
    /// read and write rows hide the data that a store adds for buckets.
    ///
    /// # Errors
    /// A field of the partition or the order cannot be in a key, which the rules of the schema prevent.
    pub fn table(&self, name: &str) -> Result<(Table, Vec<Holds>), TableError> {
        let mut columns = Vec::new();
        let mut add = |name: String, ty: Type, kind: ColumnKind, holds: Holds| {
            columns.push((Column { name, ty, kind }, holds));
        };
        let field = |name: &str| {
            let (index, field) = self.collection.field(name)?;
            Some((index, field.ty.clone()))
        };
        for name in self.partition {
            if let Some((index, ty)) = field(name) {
                add(name.clone(), ty, ColumnKind::Partition, Holds::Field(index));
            }
        }
        for order in self.order.iter() {
            let Some((index, ty)) = field(&order.field) else {
                continue;
            };
            if let Some(nulls) = self.nulls_of(&order.field) {
                let direction = if nulls == Nulls::First {
                    Direction::Descending
                } else {
                    Direction::Ascending
                };
                let name = derived_name(NULL_PREFIX, &order.field);
                let kind = ColumnKind::Clustering(direction);
                let derivation = Derivation::IsNull;
                add(name, derivation.ty(&ty), kind, Holds::Derived(index, derivation));
            }
            let kind = ColumnKind::Clustering(order.direction);
            if let Some(derivation) = self.collation_of(&order.field).map(Derivation::SortKey) {
                let name = derived_name(SORT_PREFIX, &order.field);
                add(name, derivation.ty(&ty), kind, Holds::Derived(index, derivation));
            }
            match self.rounding_of(&order.field).map(Derivation::Rounding) {
                None => add(order.field.clone(), ty, kind, Holds::Field(index)),
                Some(derivation) => {
                    let name = derived_name(ROUNDING_PREFIX, &order.field);
                    add(name, derivation.ty(&ty), kind, Holds::Derived(index, derivation));
                }
            }
        }
        let changes = self.view.is_none() && self.collection.writes == WriteMode::Update;
        let hidden = match self.view {
            Some(_) if self.collection.attached.is_some() => Vec::new(),
            Some(_) => vec![(VERSION_COLUMN, Type::BigInt, WriteKind::Plain)],
            None if changes => HIDDEN_COLUMNS.to_vec(),
            None => Vec::new(),
        };
        for (name, ty, kind) in hidden {
            add(name.into(), ty, ColumnKind::Regular(kind), Holds::Hidden);
        }
        let kind = ColumnKind::Regular(if changes { WriteKind::Cas } else { WriteKind::Plain });
        for (index, field) in self.collection.fields.iter().enumerate() {
            let is_in_key = self.is_by(&field.name) && self.rounding_of(&field.name).is_none();
            if !is_in_key && self.has(&field.name) {
                add(field.name.clone(), field.ty.clone(), kind, Holds::Field(index));
            }
        }
        let (columns, holds) = columns.into_iter().unzip();
        let buckets = self.bucket().map(|bucket| Buckets {
            leaves_out_late: self.view.is_some(),
            ..bucket.of_tables()
        });
        let options = TableOptions {
            buckets,
            counts_rows: true,
            allows_empty_partition: self.allows_empty_partition,
            ..TableOptions::default()
        };
        Ok((Table::new(name, columns, options)?, holds))
    }

    /// Returns the position in the view of records in which the order field is null. `None` if the
    /// field is never null, or if the view omits such records.
    fn nulls_of(&self, field: &str) -> Option<Nulls> {
        let nulls = self.view?.nulls;
        (nulls != Nulls::Skip && !self.collection.is_required(field)).then_some(nulls)
    }

    /// Returns the width to which the view rounds an order field. `None` if it does not round the
    /// field.
    pub fn rounding_of(&self, field: &str) -> Option<Width> {
        self.view?.rounding.get(field).copied()
    }

    /// Returns the collation of an order field. `None` if rows are sorted by the bytes of the
    /// field.
    pub fn collation_of(&self, field: &str) -> Option<Collation> {
        self.view?.collate.get(field).copied()
    }

    /// Returns whether rows contain the value of a field that is neither in the partition nor in
    /// the order.
    fn holds(&self, field: &str) -> bool {
        let narrowed = self.view.and_then(|view| view.fields.as_ref());
        narrowed.is_none_or(|fields| fields.iter().any(|name| name == field))
            || self.collection.is_required(field)
    }
}

/// Returns the name of the column for a value derived from a field, truncated to the maximum
/// length.
fn derived_name(prefix: &str, field: &str) -> String {
    let mut name = format!("{prefix}{field}");
    name.truncate(MAX_NAME_LENGTH);
    name
}

/// Writes the sort order in one line, as in the schema language: `(carrier), -time_hour, flight`.
impl fmt::Display for SortOrder<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_arranged(f, self.partition, &self.order)
    }
}

/// Partition and order of the rows of a table, as names, for texts. Unlike [`SortOrder`], it needs
/// no schema.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct ArrangedBy {
    /// Names of the partition columns, in order.
    pub partition: Vec<String>,
    /// Clustering columns, in order.
    pub order: Vec<OrderColumn>,
}

impl From<SortOrder<'_>> for ArrangedBy {
    fn from(sort_order: SortOrder<'_>) -> Self {
        Self {
            partition: sort_order.partition.to_vec(),
            order: sort_order.order.into_owned(),
        }
    }
}

/// Writes partition and order in one line: `(carrier), -time_hour, flight`.
impl fmt::Display for ArrangedBy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_arranged(f, &self.partition, &self.order)
    }
}

/// Parses the line that `Display` writes.
impl FromStr for ArrangedBy {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let inside = text.strip_prefix('(').and_then(|text| text.split_once(')'));
        let (partition, order) = inside.ok_or("a sort order must begin with its partition in parentheses")?;
        let names = |text: &str| -> Vec<String> {
            let names = text.split(", ").filter(|name| !name.is_empty());
            names.map(str::to_owned).collect()
        };
        Ok(Self {
            partition: names(partition),
            order: names(order).iter().map(|name| OrderColumn::read(name)).collect(),
        })
    }
}

fn write_arranged(f: &mut fmt::Formatter<'_>, partition: &[String], order: &[OrderColumn]) -> fmt::Result {
    write!(f, "({})", partition.join(", "))?;
    order.iter().try_for_each(|column| write!(f, ", {column}"))
}

impl View {
    /// Returns a view with all fields, for views that are declared in code. The view contains only
    /// records with values in all partition and order fields.
    pub fn new(
        name: impl Into<String>,
        partition: impl IntoIterator<Item = String>,
        order: impl IntoIterator<Item = OrderColumn>,
    ) -> Self {
        Self {
            name: name.into(),
            partition: partition.into_iter().collect(),
            order: order.into_iter().collect(),
            bucket: None,
            nulls: Nulls::Skip,
            collate: std::collections::BTreeMap::new(),
            rounding: std::collections::BTreeMap::new(),
            fields: None,
            verify: true,
        }
    }

    /// Sets the collations of the order fields to those in the collection's other views, because a
    /// field has the same collation in all views.
    #[must_use]
    pub fn collated_as(mut self, collection: &Collection) -> Self {
        let collate =
            |column: &OrderColumn| Some((column.field.clone(), collection.collation_of(&column.field)?));
        self.collate = self.order.iter().filter_map(collate).collect();
        self
    }
}

impl Collection {
    /// Returns the sort order of the base table.
    pub fn base(&self) -> SortOrder<'_> {
        SortOrder {
            collection: self,
            view: None,
            partition: &self.partition,
            order: Cow::Borrowed(&self.order),
            allows_empty_partition: false,
        }
    }

    /// Returns the sort order of a view of the collection, completed with the key fields that the
    /// view does not name.
    pub fn arranged<'a>(&'a self, view: &'a View) -> SortOrder<'a> {
        let mut order = view.order.clone();
        for key in &self.key {
            let is_named = view.partition.contains(key) || order.iter().any(|column| column.field == *key);
            if !is_named {
                order.push(OrderColumn {
                    field: key.clone(),
                    direction: Direction::Ascending,
                });
            }
        }
        SortOrder {
            collection: self,
            view: Some(view),
            partition: &view.partition,
            order: Cow::Owned(order),
            allows_empty_partition: false,
        }
    }

    /// Returns all sort orders of the collection: the base table, then the views in declaration
    /// order.
    pub fn sort_orders(&self) -> Vec<SortOrder<'_>> {
        let views = self.views.iter().map(|view| self.arranged(view));
        std::iter::once(self.base()).chain(views).collect()
    }
}
