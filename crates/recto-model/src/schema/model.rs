//! Model of a schema that satisfies all rules: collections, fields, and views.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::attached::AttachedTable;
use super::context::Context;
use super::declared::{Declaration, Declared};
use super::errors::CollectionError;
use super::options::{Bucket, Nulls};
use super::position::Position;
use super::queues::StoreQueues;
use super::{check, names};
use crate::Type;
use crate::collation::Collation;
use crate::table::{Direction, Table};
use crate::types::UdtType;
use crate::width::Width;

/// Schema: the collections and UDTs of one store, and the options of its queues.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Schema {
    /// UDTs, in declaration order. Each can contain the UDTs before it.
    pub types: Vec<Arc<UdtType>>,
    /// Collections, in declaration order.
    pub collections: Vec<Arc<Collection>>,
    /// Options that apply to all queues of the store.
    pub queues: StoreQueues,
}

impl Schema {
    /// Returns the collection of this name.
    pub fn collection(&self, name: &str) -> Option<&Arc<Collection>> {
        self.collections.iter().find(|collection| collection.name == name)
    }

    /// Returns the collection name that is most similar to `name`, for the hint "did you mean". `None` if no
    /// name is similar.
    pub fn nearest_collection(&self, name: &str) -> Option<&str> {
        names::nearest(
            name,
            self.collections.iter().map(|collection| collection.name.as_str()),
        )
    }
}

/// Write mode of the records of a collection.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum WriteMode {
    /// Records can change, and their views must stay consistent. The default.
    #[default]
    Update,
    /// A write replaces the whole row, and the last writer wins.
    Overwrite,
    /// Records never change after they are written.
    Append,
}

impl WriteMode {
    /// Returns the mode as the schema language writes it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Update => "update",
            Self::Overwrite => "overwrite",
            Self::Append => "append",
        }
    }
}

impl std::fmt::Display for WriteMode {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.as_str())
    }
}

/// Field of a collection.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Field {
    /// Name of the field.
    pub name: String,
    /// Type of the field.
    pub ty: Type,
}

/// Column of the order of a view or a base table, by name, with its direction.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct OrderColumn {
    /// Name of the field by which rows are sorted.
    pub field: String,
    /// Direction in which rows are sorted by the field.
    pub direction: Direction,
}

/// Writes the column as in the schema language: the field, with `-` before it if descending.
impl std::fmt::Display for OrderColumn {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        if self.direction == Direction::Descending {
            f.write_str("-")?;
        }
        f.write_str(&self.field)
    }
}

impl OrderColumn {
    /// Parses the output of `Display`. Does not check that the text is the name of a field.
    pub(super) fn read(text: &str) -> Self {
        let (field, direction) = match text.strip_prefix('-') {
            Some(field) => (field, Direction::Descending),
            None => (text, Direction::Ascending),
        };
        Self {
            field: field.to_owned(),
            direction,
        }
    }
}

/// View: an additional sort order of a collection, with some or all fields.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct View {
    /// Name of the view.
    pub name: String,
    /// Partition fields. Empty only for a view with a bucket, which then is one partition.
    pub partition: Vec<String>,
    /// Order columns as declared. The key fields that are not named follow automatically as tie-breakers.
    pub order: Vec<OrderColumn>,
    /// Rule that splits the partitions into buckets. `None`: partitions are not split.
    pub bucket: Option<Bucket>,
    /// Position of records in which an order field is null.
    pub nulls: Nulls,
    /// Collations of order fields, by the name of the field.
    pub collate: BTreeMap<String, Collation>,
    /// Widths to which the view rounds order fields that change often, by field.
    pub rounding: BTreeMap<String, Width>,
    /// Fields that the view contains. `None`: all fields. Partition, order and key fields are always
    /// contained.
    pub fields: Option<Vec<String>>,
    /// True if a page of the view also reads the base row of each row, and omits stale rows.
    pub verify: bool,
}

/// Collection: records with the same fields, and a key that identifies one record.
///
/// [`Schema::parse`] and [`Collection::new`] create collections and check every rule of the language. The
/// fields are public only for reading. [`sort_orders`](Self::sort_orders) returns the sort orders of the
/// records.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Collection {
    /// Name of the collection.
    pub name: String,
    /// Fields, in declaration order.
    pub fields: Vec<Field>,
    /// Key: names of the fields that identify one record, in order.
    pub key: Vec<String>,
    /// Partition fields of the base table, in order. In an `update` collection, the whole key.
    pub(super) partition: Vec<String>,
    /// Order columns of the base table: the declared columns, completed with the key fields that are not
    /// named.
    pub(super) order: Vec<OrderColumn>,
    /// Write mode of the records. Records of an attached table count as appended, by other programs.
    pub writes: WriteMode,
    /// Existing table that contains the records and that Recto does not write. Its views are also tables of
    /// that keyspace, and have the names of the views. `None` for a collection of the store's own.
    pub attached: Option<AttachedTable>,
    /// Rule that splits the partitions of the base table into buckets. `None`: partitions are not split.
    pub bucket: Option<Bucket>,
    /// Unique constraints: no two records can have the same values of these fields.
    pub unique: Vec<Vec<String>>,
    /// Views, in declaration order. In an `update` collection, `partition` and `order` are the first view,
    /// named [`PRIMARY_VIEW`](super::PRIMARY_VIEW).
    pub views: Vec<View>,
    /// Positions of the collection's parts in the text of the schema.
    pub(super) places: Places,
}

impl Collection {
    /// Returns the collection that `declaration` declares. Checks the rules of the schema language.
    ///
    /// # Errors
    /// All errors in the declaration.
    ///
    /// ```
    /// use recto_model::Type;
    /// use recto_model::schema::{Collection, Declaration, Field, WriteMode};
    ///
    /// let timeline = Collection::new(Declaration {
    ///     name: "timeline".into(),
    ///     fields: vec![
    ///         Field { name: "user_id".into(), ty: Type::Uuid },
    ///         Field { name: "post_id".into(), ty: Type::TimeUuid },
    ///         Field { name: "content".into(), ty: Type::Text },
    ///     ],
    ///     key: vec!["user_id".into(), "post_id".into()],
    ///     partition: Some(vec!["user_id".into()]),
    ///     order: vec!["-post_id".into()],
    ///     writes: WriteMode::Append,
    /// })?;
    /// assert_eq!(timeline.base_table().partition()[0].name, "user_id");
    /// # Ok::<(), recto_model::schema::CollectionError>(())
    /// ```
    pub fn new(declaration: Declaration) -> Result<Self, CollectionError> {
        let name = declaration.name.clone();
        let mut context = Context::without_text();
        let collection = check::collection(&Declared::from(declaration), &mut context);
        match (collection, context.into_problems()) {
            (Some(collection), problems) if problems.is_empty() => Ok(collection),
            (_, problems) => Err(CollectionError {
                collection: name,
                problems: problems.into_iter().map(|(_, problem)| problem).collect(),
            }),
        }
    }

    /// Returns the field of this name and its index.
    pub fn field(&self, name: &str) -> Option<(usize, &Field)> {
        self.fields
            .iter()
            .enumerate()
            .find(|(_, field)| field.name == name)
    }

    /// Returns the collation of a field's text, if a view declares one. All views that sort by the field, and
    /// all queries of the collection, use it. `None`: text is sorted by its bytes.
    pub fn collation_of(&self, field: &str) -> Option<Collation> {
        self.views
            .iter()
            .find_map(|view| view.collate.get(field).copied())
    }

    /// Returns the view of this name.
    pub fn view(&self, name: &str) -> Option<&View> {
        self.views.iter().find(|view| view.name == name)
    }

    /// Returns the position of a part of the collection in the text of the schema, if it was parsed from a
    /// text. Examples of parts: `writes`, `unique`, `bucket`, `view.by_status`, `view.by_status.nulls`. The
    /// position of a part that exists by default is the position of the collection.
    pub fn position(&self, part: &str) -> Option<Position> {
        let Places(places) = &self.places;
        places.get(part).or_else(|| places.get("")).copied()
    }

    /// Returns the field name that is most similar to `name`, for the hint "did you mean". `None` if no name
    /// is similar.
    pub fn nearest_field(&self, name: &str) -> Option<&str> {
        names::nearest(name, self.fields.iter().map(|field| field.name.as_str()))
    }

    /// Returns whether every record has this field, because it is part of the key.
    pub fn is_required(&self, field: &str) -> bool {
        self.key.iter().any(|key| key == field)
    }

    /// Returns the table of the base sort order. Its name is the name of the collection, or of the attached
    /// table. Its columns are the partition fields, the order fields in their directions, and all other
    /// fields in declaration order, with plain writes.
    pub fn base_table(&self) -> Table {
        let base = self.base();
        let (table, _) = (base.table(&base.table_name(0)))
            .expect("a collection's key is orderable and its fields are distinct, as its constructor checks");
        table
    }
}

/// Positions of parts of a collection, or of `[queues]`, in the text of the schema, by path
/// ([`Collection::position`]). The path of the collection itself is empty. All values of this type are equal,
/// because the position of a declaration is not part of its meaning.
#[derive(Debug, Clone, Default)]
pub(super) struct Places(pub(super) BTreeMap<String, Position>);

impl PartialEq for Places {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

impl Eq for Places {}
