//! What a schema is.

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

/// A schema: the collections and UDTs of one store, and what holds for its queues.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Schema {
    /// UDTs, in declaration order; each may hold those before it.
    pub types: Vec<Arc<UdtType>>,
    /// Collections, in declaration order.
    pub collections: Vec<Arc<Collection>>,
    /// What holds for all queues.
    pub queues: StoreQueues,
}

impl Schema {
    /// The collection of this name.
    pub fn collection(&self, name: &str) -> Option<&Arc<Collection>> {
        self.collections.iter().find(|collection| collection.name == name)
    }

    /// The collection name most like `name`, for "did you mean"; none if nothing is close.
    pub fn nearest_collection(&self, name: &str) -> Option<&str> {
        names::nearest(
            name,
            self.collections.iter().map(|collection| collection.name.as_str()),
        )
    }
}

/// How a collection's records may be written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum WriteMode {
    /// Records change and must not drift. The default.
    #[default]
    Update,
    /// Whole rows, last writer wins.
    Overwrite,
    /// Never changed once written.
    Append,
}

impl WriteMode {
    /// The mode as the schema language writes it.
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

/// A field of a collection.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Field {
    /// Its name.
    pub name: String,
    /// Its type.
    pub ty: Type,
}

/// A column of a sort order of the view, by name, with its direction.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct OrderColumn {
    /// The field.
    pub field: String,
    /// Its direction.
    pub direction: Direction,
}

/// As the schema language writes it: the field, with `-` before it if descending.
impl std::fmt::Display for OrderColumn {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        if self.direction == Direction::Descending {
            f.write_str("-")?;
        }
        f.write_str(&self.field)
    }
}

impl OrderColumn {
    /// Reads what `Display` writes. Whether it is a field's name is not asked.
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

/// A further sort order of a collection.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct View {
    /// Its name.
    pub name: String,
    /// Partition fields. Empty only for a view with a bucket: it is one partition then.
    pub partition: Vec<String>,
    /// Order columns as declared; the key fields not named follow by themselves as tie-breaker.
    pub order: Vec<OrderColumn>,
    /// How its partitions are split.
    pub bucket: Option<Bucket>,
    /// Where records stand that lack an order field.
    pub nulls: Nulls,
    /// The collation by which an order field sorts, by field.
    pub collate: BTreeMap<String, Collation>,
    /// How coarsely an order field that changes often is kept in the view, by field.
    pub rounding: BTreeMap<String, Width>,
    /// The fields the view holds; none for all. Partition, order and key fields are held anyway.
    pub fields: Option<Vec<String>>,
    /// Whether a page of the view reads each row's base too, and drops what is stale.
    pub verify: bool,
}

/// Records of one schema, with a key that identifies one record.
///
/// Made by [`Schema::parse`] or [`Collection::new`], which check every rule of the language; the
/// fields are there to be read. How its records are arranged, [`sort_orders`](Self::sort_orders) says.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Collection {
    /// Its name.
    pub name: String,
    /// Its fields, in declaration order.
    pub fields: Vec<Field>,
    /// The key: names of the fields that identify one record, in order.
    pub key: Vec<String>,
    /// The base table's partition fields, in order. The whole key in an `update` collection.
    pub(super) partition: Vec<String>,
    /// The base table's order columns: as declared, completed with the key fields not named.
    pub(super) order: Vec<OrderColumn>,
    /// How records may be written. Those of a table that is attached are as if they were appended, by others.
    pub writes: WriteMode,
    /// The table that they are read from, if it is one that is there and that nobody writes here. Its views are tables of that keyspace, too,
    /// of the names that the views have.
    pub attached: Option<AttachedTable>,
    /// How the base table's partitions are split.
    pub bucket: Option<Bucket>,
    /// Sets of fields whose values no two records may share.
    pub unique: Vec<Vec<String>>,
    /// Further views, in declaration order. `partition` and `order` of an `update` collection are
    /// the first, named [`PRIMARY_VIEW`](super::PRIMARY_VIEW).
    pub views: Vec<View>,
    /// Where things stood in the text.
    pub(super) places: Places,
}

impl Collection {
    /// The collection that `declaration` declares, checked by the rules of the schema language.
    ///
    /// # Errors
    /// Everything that is wrong with it.
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

    /// The field of this name and where it stands.
    pub fn field(&self, name: &str) -> Option<(usize, &Field)> {
        self.fields
            .iter()
            .enumerate()
            .find(|(_, field)| field.name == name)
    }

    /// How text of this field sorts, where a view says it: the same in all views that sort by the field, and in what is
    /// asked of the collection. None: by its bytes.
    pub fn collation_of(&self, field: &str) -> Option<Collation> {
        self.views
            .iter()
            .find_map(|view| view.collate.get(field).copied())
    }

    /// The view of this name.
    pub fn view(&self, name: &str) -> Option<&View> {
        self.views.iter().find(|view| view.name == name)
    }

    /// Where a part of it stands in the schema's text, if it was parsed from one: `writes`, `unique`, `bucket`,
    /// `view.by_status`, `view.by_status.nulls`. What is there by default stands where the collection does.
    pub fn position(&self, part: &str) -> Option<Position> {
        let Places(places) = &self.places;
        places.get(part).or_else(|| places.get("")).copied()
    }

    /// The field name most like `name`, for "did you mean"; none if nothing is close.
    pub fn nearest_field(&self, name: &str) -> Option<&str> {
        names::nearest(name, self.fields.iter().map(|field| field.name.as_str()))
    }

    /// Whether every record has this field: it is part of the key.
    pub fn is_required(&self, field: &str) -> bool {
        self.key.iter().any(|key| key == field)
    }

    /// The table of the base sort order. Its name is the collection's, or the attached table's; its columns are the
    /// partition fields, the order fields in their directions, and all other fields in the order they
    /// were declared, written plainly.
    pub fn base_table(&self) -> Table {
        let base = self.base();
        let (table, _) = (base.table(&base.table_name(0)))
            .expect("a collection's key is orderable and its fields distinct: checked when made");
        table
    }
}

/// Where parts of a collection stood in the text it was parsed from, by path ([`Collection::position`]; the
/// collection itself is the empty path), or those of `[queues]`. All places are equal: where a
/// schema was written is no part of what it says.
#[derive(Debug, Clone, Default)]
pub(super) struct Places(pub(super) BTreeMap<String, Position>);

impl PartialEq for Places {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

impl Eq for Places {}
