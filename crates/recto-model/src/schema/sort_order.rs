//! The ways in which a collection's records are arranged: its base table's, and its views'.

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

/// What the columns are called that stand before nullable order fields: with the field's name behind it.
const NULL_PREFIX: &str = "recto_null_";
/// What the columns are called that stand before text that sorts by a collation: with the field's name behind it.
const SORT_PREFIX: &str = "recto_sort_";
/// What the columns are called that stand in the place of order fields that are rounded: with the field's name behind it.
const ROUNDING_PREFIX: &str = "recto_grain_";
/// What the hidden column is called that holds a record's version: the stamp of its entries in views.
pub const VERSION_COLUMN: &str = "recto_version";
/// What the hidden column of base tables is called that says how long a record that changes lives.
pub const HEAD_COLUMN: &str = "recto_head";
/// What stands before the fields among the regular columns of the base table of records that change, so that fields may
/// be added behind them.
const HIDDEN_COLUMNS: [(&str, Type, WriteKind); 4] = [
    ("recto_tokens", Type::Blob, WriteKind::Cas),
    (VERSION_COLUMN, Type::BigInt, WriteKind::Cas),
    (HEAD_COLUMN, Type::Blob, WriteKind::Cas),
    ("recto_done", Type::BigInt, WriteKind::Plain),
];

/// One way in which the records of a collection are arranged: in partitions, each in an order.
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
    /// The collection.
    pub collection: &'a Collection,
    /// The view; none for the base table.
    pub view: Option<&'a View>,
    /// The partition fields, in order.
    pub partition: &'a [String],
    /// The order columns, completed with the key fields that are named nowhere.
    pub order: Cow<'a, [OrderColumn]>,
    /// True if the value of its only partition field may be empty.
    pub allows_empty_partition: bool,
}

/// Content of a column of a sort order's table.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Holds {
    /// The field of this index.
    Field(usize),
    /// What is derived from the order field of this index: it stands before the field, or in its place.
    Derived(usize, Derivation),
    /// What is Recto's own and no record has.
    Hidden,
}

/// A pure function of an order field, by which rows are sorted before they are by the field itself, or instead.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Derivation {
    /// Whether the field is null. The field's own column holds any value then, since no clustering column
    /// can be null.
    IsNull,
    /// The sort key of a text by a collation: rows are sorted by it, then by the text itself. For null it is empty.
    SortKey(Collation),
    /// The field rounded down, which stands in its place: the field itself is not in the key, so that an entry stays where it is while the
    /// field changes by less.
    Rounding(Width),
}

impl Derivation {
    /// The type of what it gives for a field of this one.
    pub fn ty(self, of: &Type) -> Type {
        match self {
            Self::IsNull => Type::Boolean,
            Self::SortKey(_) => Type::Blob,
            Self::Rounding(_) => rounding::type_of(of),
        }
    }

    /// The cell that it gives for a field's; for null, and for what is no value of the type, one that can stand in a key.
    pub fn of(self, ty: &Type, cell: Option<&[u8]>) -> Cow<'static, [u8]> {
        match (self, cell) {
            (Self::IsNull, None) => Cow::Borrowed(&[1]),
            (Self::IsNull, Some(_)) => Cow::Borrowed(&[0]),
            (Self::SortKey(_), None) => Cow::Borrowed(&[]),
            (Self::SortKey(collation), Some(cell)) => Cow::Owned(collation.sort_key(cell)),
            (Self::Rounding(width), cell) => Cow::Owned(rounding::rounded(width, ty, cell)),
        }
    }

    /// Whether rows are sorted by it instead of by the field, which is not in their keys.
    pub fn replaces_field(self) -> bool {
        match self {
            Self::IsNull | Self::SortKey(_) => false,
            Self::Rounding(_) => true,
        }
    }
}

impl<'a> SortOrder<'a> {
    /// Sets whether the value of its only partition field may be empty. Its table is of another form then.
    #[must_use]
    pub fn allow_empty_partition(self, is_allowed: bool) -> Self {
        Self {
            allows_empty_partition: is_allowed,
            ..self
        }
    }

    /// The name that a query calls it by: a view's own. The base table's is `primary`, or `base` where the
    /// schema's `partition` and `order` declare the view `primary`.
    pub fn name(&self) -> &'a str {
        match self.view {
            Some(view) => &view.name,
            None if self.collection.writes == WriteMode::Update => BASE_SORT_ORDER,
            None => PRIMARY_VIEW,
        }
    }

    /// The name of the table of a view: the collection's, the view's and a number, of which the longest that
    /// fits is kept. The base table has the collection's. Tables that are attached have their own, with that of their keyspace before it.
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

    /// The fields that it arranges records by: those of the partition, then those of the order.
    pub fn fields(&self) -> impl Iterator<Item = &str> {
        let order = self.order.iter().map(|column| column.field.as_str());
        self.partition.iter().map(String::as_str).chain(order)
    }

    /// Whether it arranges records by this field.
    pub fn is_by(&self, field: &str) -> bool {
        self.fields().any(|name| name == field)
    }

    /// Whether rows of it have this field's value.
    pub fn has(&self, field: &str) -> bool {
        self.is_by(field) || self.holds(field)
    }

    /// One line of canonical text, with types and directions: what a fingerprint of a position in it
    /// must cover. Two sort orders have the same text exactly if positions in one are positions in the
    /// other.
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

    /// How its partitions are split; none if each is one.
    pub fn bucket(&self) -> Option<&'a Bucket> {
        self.view
            .map_or(self.collection.bucket.as_ref(), |view| view.bucket.as_ref())
    }

    /// The table of this name that it is kept in, and what each column of it holds: the partition fields,
    /// the order fields in their directions, each behind what is derived from it (or, where it is rounded, only that), then what is
    /// Recto's own (in views the entry's stamp; in the base table of records that change what conditional writes need), and all other fields
    /// that it has, in the order they were declared: fields that are added are the last columns. Where its partitions are split, its options say
    /// so: what more a store then keeps with rows is hidden by what reads and writes them.
    ///
    /// # Errors
    /// A field that it names cannot be in a key: the schema's rules were not kept.
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
            allows_empty_partition: self.allows_empty_partition,
            ..TableOptions::default()
        };
        Ok((Table::new(name, columns, options)?, holds))
    }

    /// Where a nullable order field's nulls stand; none if the field is never null, or a record without it
    /// is not in the view.
    fn nulls_of(&self, field: &str) -> Option<Nulls> {
        let nulls = self.view?.nulls;
        (nulls != Nulls::Skip && !self.collection.is_required(field)).then_some(nulls)
    }

    /// How coarsely it is by an order field; none if by its values.
    pub fn rounding_of(&self, field: &str) -> Option<Width> {
        self.view?.rounding.get(field).copied()
    }

    /// By which collation it is by an order field; none if by its bytes.
    pub fn collation_of(&self, field: &str) -> Option<Collation> {
        self.view?.collate.get(field).copied()
    }

    /// Whether rows have this field's value, beside those that it arranges records by.
    fn holds(&self, field: &str) -> bool {
        let narrowed = self.view.and_then(|view| view.fields.as_ref());
        narrowed.is_none_or(|fields| fields.iter().any(|name| name == field))
            || self.collection.is_required(field)
    }
}

/// The name of a column that is derived from a field.
fn derived_name(prefix: &str, field: &str) -> String {
    let mut name = format!("{prefix}{field}");
    name.truncate(MAX_NAME_LENGTH);
    name
}

/// As the schema language has it, in one line: `(carrier), -time_hour, flight`.
impl fmt::Display for SortOrder<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_arranged(f, self.partition, &self.order)
    }
}

/// What the rows of a table are arranged by, apart from the schema that says so.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct ArrangedBy {
    /// The columns of the partition.
    pub partition: Vec<String>,
    /// The columns of the order.
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

/// As a [`SortOrder`] is written.
impl fmt::Display for ArrangedBy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_arranged(f, &self.partition, &self.order)
    }
}

/// Reads what `Display` writes.
impl FromStr for ArrangedBy {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let inside = text.strip_prefix('(').and_then(|text| text.split_once(')'));
        let (partition, order) = inside.ok_or("a sort order begins with its partition, in parentheses")?;
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
    /// A view that is declared in code: with all fields, of the records that have those it is by.
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

    /// It with the collations that other views of the collection have for its order fields, since a field has one.
    #[must_use]
    pub fn collated_as(mut self, collection: &Collection) -> Self {
        let collate =
            |column: &OrderColumn| Some((column.field.clone(), collection.collation_of(&column.field)?));
        self.collate = self.order.iter().filter_map(collate).collect();
        self
    }
}

impl Collection {
    /// The sort order of the base table.
    pub fn base(&self) -> SortOrder<'_> {
        SortOrder {
            collection: self,
            view: None,
            partition: &self.partition,
            order: Cow::Borrowed(&self.order),
            allows_empty_partition: false,
        }
    }

    /// The sort order of a view of it.
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

    /// All sort orders it has: the base table's, then its views' as they were declared.
    pub fn sort_orders(&self) -> Vec<SortOrder<'_>> {
        let views = self.views.iter().map(|view| self.arranged(view));
        std::iter::once(self.base()).chain(views).collect()
    }
}
