//! Model of a schema that satisfies all rules: its collections, fields and views.

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

/// Schema of one store: its collections and user-defined types, and the options of its queues.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Schema {
    /// User-defined types, in declaration order. A type can contain only the types before it.
    pub types: Vec<Arc<UdtType>>,
    /// Collections, in declaration order.
    pub collections: Vec<Arc<Collection>>,
    /// Options that apply to all queues of the store.
    pub queues: StoreQueues,
}

impl Schema {
    /// Returns the collection with the given name, or `None`.
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

/// Write mode of a collection: whether its records can be updated, overwritten or only appended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum WriteMode {
    /// Records can be updated, and Recto keeps their views consistent. The default.
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

/// Column of the order of a view or base table: a field and its direction.
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
    /// Parses a field with an optional `-` before it, as `Display` writes it. Does not check that
    /// the field exists.
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

/// View: an additional sort order of a collection, with all or some of its fields.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct View {
    /// Name of the view.
    pub name: String,
    /// Names of the partition fields. Empty only for a view with a bucket, whose records are then
    /// in one partition.
    pub partition: Vec<String>,
    /// Order columns as declared. Key fields that are not named follow automatically, to make the
    /// order total.
    pub order: Vec<OrderColumn>,
    /// Rule that splits partitions into buckets. `None` if partitions are not split.
    pub bucket: Option<Bucket>,
    /// Position of records in which an order field is null.
    pub nulls: Nulls,
    /// Collations (language-specific orders) of order fields, by field name.
    pub collate: BTreeMap<String, Collation>,
    /// Widths to which the view rounds order fields that change often, by field name.
    pub rounding: BTreeMap<String, Width>,
    /// Names of the fields that the view contains, in addition to the partition, order and key
    /// fields. `None` means all fields.
    pub fields: Option<Vec<String>>,
    /// True if a page of the view also reads the base row of each row, to omit rows that are no
    /// longer current.
    pub verify: bool,
}

/// Collection: records with the same fields, and a key that identifies one record.
///
/// [`Schema::parse`] and [`Collection::new`] create collections and check every rule of the schema
/// language. The fields are public only for reading. [`sort_orders`](Self::sort_orders) returns the
/// base table and the views.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Collection {
    /// Name of the collection.
    pub name: String,
    /// Fields, in declaration order.
    pub fields: Vec<Field>,
    /// Names of the key fields, which identify one record, in order.
    pub key: Vec<String>,
    /// Names of the partition fields of the base table, in order. In an `update` collection, the
    /// whole key.
    pub(super) partition: Vec<String>,
    /// Order columns of the base table: the declared columns, followed by the key fields that are
    /// not named.
    pub(super) order: Vec<OrderColumn>,
    /// Write mode of the records. For an attached table it is [`WriteMode::Append`], because Recto
    /// does not change the records.
    pub writes: WriteMode,
    /// Existing table of another program that contains the records, and that Recto does not write.
    /// Its views are tables of the same keyspace with the names of the views. `None` for a
    /// collection whose tables Recto creates.
    pub attached: Option<AttachedTable>,
    /// Rule that splits partitions of the base table into buckets. `None` if partitions are not
    /// split.
    pub bucket: Option<Bucket>,
    /// Unique constraints: lists of fields whose values no two records can share.
    pub unique: Vec<Vec<String>>,
    /// Views, in declaration order. In an `update` collection, the options `partition` and `order`
    /// declare the first view, named [`PRIMARY_VIEW`](super::PRIMARY_VIEW).
    pub views: Vec<View>,
    /// Positions of the collection's parts in the schema text.
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

    /// Returns the field with the given name, and its index in `fields`.
    pub fn field(&self, name: &str) -> Option<(usize, &Field)> {
        self.fields
            .iter()
            .enumerate()
            .find(|(_, field)| field.name == name)
    }

    /// Returns the collation of a field's text, or `None` if text is sorted by its bytes. All views
    /// that sort by the field, and all queries of the collection, use the same collation.
    pub fn collation_of(&self, field: &str) -> Option<Collation> {
        self.views
            .iter()
            .find_map(|view| view.collate.get(field).copied())
    }

    /// Returns the view with the given name, or `None`.
    pub fn view(&self, name: &str) -> Option<&View> {
        self.views.iter().find(|view| view.name == name)
    }

    /// Returns the position of a part of the collection in the schema text, or `None` if the schema
    /// was not parsed from text. Examples of parts are `writes`, `unique`, `bucket`,
    /// `view.by_status` and `view.by_status.nulls`. For a part that exists by default, returns the
    /// position of the collection.
    pub fn position(&self, part: &str) -> Option<Position> {
        let Places(places) = &self.places;
        places.get(part).or_else(|| places.get("")).copied()
    }

    /// Returns the field name that is most similar to `name`, for the hint "did you mean". `None` if no name
    /// is similar.
    pub fn nearest_field(&self, name: &str) -> Option<&str> {
        names::nearest(name, self.fields.iter().map(|field| field.name.as_str()))
    }

    /// Returns whether every record has a value of the field, because the field is in the key.
    pub fn is_required(&self, field: &str) -> bool {
        self.key.iter().any(|key| key == field)
    }

    /// Returns the base table. Its name is the name of the collection, or of the attached table.
    /// Its columns are the partition fields, the order fields in their directions, and all other
    /// fields in declaration order, with plain writes.
    pub fn base_table(&self) -> Table {
        let base = self.base();
        let (table, _) = (base.table(&base.table_name(0)))
            .expect("a collection's key is orderable and its fields are distinct, as its constructor checks");
        table
    }
}

/// Positions of the parts of a collection, or of `[queues]`, in the schema text, by path (see
/// [`Collection::position`]). The path of the collection itself is empty. All values of this type
/// compare as equal, because the position of a declaration is not part of its meaning.
#[derive(Debug, Clone, Default)]
pub(super) struct Places(pub(super) BTreeMap<String, Position>);

impl PartialEq for Places {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

impl Eq for Places {}
