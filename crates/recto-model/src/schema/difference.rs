//! Differences between two schemas, and the reasons why a store with records cannot apply a change.

use std::fmt;

use super::model::{Collection, Schema};
use super::options::print_size;
use super::{Bucket, BucketStrategy, View};
use crate::types::UdtType;

/// One change between two schemas, and the reason if a store with records cannot apply the change.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Change {
    /// Kind of the change.
    pub kind: ChangeKind,
    /// Reason why a store with records cannot apply the change. `None` if it can.
    pub obstacle: Option<&'static str>,
}

/// Kind of a change from one schema to another.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
#[allow(missing_docs)] // the names of the fields describe them: the collection, the type, old and new
pub enum ChangeKind {
    /// A user-defined type was added.
    TypeAdded { name: String },
    /// A user-defined type was removed.
    TypeRemoved { name: String },
    /// A user-defined type has additional fields at its end.
    TypeExtended { name: String, fields: Vec<String> },
    /// Existing fields of a user-defined type were changed.
    TypeChanged { name: String },
    /// A collection was added.
    CollectionAdded { name: String },
    /// A collection was removed.
    CollectionRemoved { name: String },
    /// A collection has an additional field.
    FieldAdded {
        collection: String,
        field: String,
        type_name: String,
    },
    /// A field of a collection was removed.
    FieldRemoved { collection: String, field: String },
    /// The type of a field was changed.
    FieldRetyped {
        collection: String,
        field: String,
        from: String,
        to: String,
    },
    /// The order of a collection's existing fields was changed.
    FieldsReordered { collection: String },
    /// An option of a collection was changed: `writes`, `attached`, `key`, `partition`, `order`, `bucket`.
    OptionChanged {
        collection: String,
        option: &'static str,
        from: String,
        to: String,
    },
    /// A unique constraint was added.
    UniqueAdded { collection: String, fields: Vec<String> },
    /// A unique constraint was removed.
    UniqueRemoved { collection: String, fields: Vec<String> },
    /// A view was added.
    ViewAdded { collection: String, view: String },
    /// A view was removed.
    ViewRemoved { collection: String, view: String },
    /// The declaration of a view was changed.
    ViewChanged { collection: String, view: String },
    /// An option of `[queues]`, which applies to all queues of the store, was changed.
    QueueOptionChanged {
        option: &'static str,
        from: Option<u32>,
        to: u32,
    },
}

impl ChangeKind {
    /// Returns the name of the changed collection. `None` for a change of types or queues, and for
    /// an added or removed collection.
    pub fn collection(&self) -> Option<&String> {
        match self {
            Self::FieldAdded { collection, .. }
            | Self::FieldRemoved { collection, .. }
            | Self::FieldRetyped { collection, .. }
            | Self::FieldsReordered { collection }
            | Self::OptionChanged { collection, .. }
            | Self::UniqueAdded { collection, .. }
            | Self::UniqueRemoved { collection, .. }
            | Self::ViewAdded { collection, .. }
            | Self::ViewRemoved { collection, .. }
            | Self::ViewChanged { collection, .. } => Some(collection),
            _ => None,
        }
    }
}

impl Schema {
    /// Returns the changes from this schema to `to`: types first, then collections in the order of
    /// `to`, then removed parts, then options of queues. Options of queues that `to` does not set
    /// count as unchanged. The order of collections and types has no meaning, so reordering them is
    /// no change.
    pub fn difference(&self, to: &Self) -> Vec<Change> {
        let mut changes = Changes(Vec::new());
        for udt in &to.types {
            match self.types.iter().find(|old| old.name == udt.name) {
                None => changes.possible(ChangeKind::TypeAdded {
                    name: udt.name.clone(),
                }),
                Some(old) => changes.udt(old, udt),
            }
        }
        for collection in &to.collections {
            match self.collection(&collection.name) {
                None => changes.possible(ChangeKind::CollectionAdded {
                    name: collection.name.clone(),
                }),
                Some(old) => changes.collection(old, collection),
            }
        }
        for old in &self.types {
            if !to.types.iter().any(|udt| udt.name == old.name) {
                let name = old.name.clone();
                changes.refused(
                    ChangeKind::TypeRemoved { name },
                    "stored records may have values of this type",
                );
            }
        }
        for old in &self.collections {
            if to.collection(&old.name).is_none() {
                let name = old.name.clone();
                changes.refused(
                    ChangeKind::CollectionRemoved { name },
                    "its records would be lost; a schema never deletes records",
                );
            }
        }
        for (option, to) in to.queues.said() {
            let mut before = self.queues.said().filter(|(name, _)| *name == option);
            let from = before.next().map(|(_, number)| number);
            if from != Some(to) {
                changes.possible(ChangeKind::QueueOptionChanged { option, from, to });
            }
        }
        changes.0
    }
}

const MODES_NEVER_MEET: &str =
    "plain and conditional writes must never be mixed on a record, and the modes have different guarantees";
const ELSEWHERE: &str = "its records are in another place: give the collection another name, or remove the \
    existing collection first";
const MOVES_RECORDS: &str = "every stored record would have to move: copy the records into a new collection";
const KEPT_FROM_THE_FIRST: &str = "other processes would not know the retention time, and would write and \
    read expired records: set it when you create the collection";

struct Changes(Vec<Change>);

impl Changes {
    fn possible(&mut self, kind: ChangeKind) {
        self.0.push(Change { kind, obstacle: None });
    }

    fn refused(&mut self, kind: ChangeKind, obstacle: &'static str) {
        let obstacle = Some(obstacle);
        self.0.push(Change { kind, obstacle });
    }

    fn udt(&mut self, old: &UdtType, new: &UdtType) {
        // Compare the types of the fields as text. If a field contains another user-defined type
        // that changed, the change is then reported only for that type.
        let text = |udt: &UdtType| -> Vec<(String, String)> {
            let fields = udt.fields.iter();
            fields.map(|(name, ty)| (name.clone(), ty.to_string())).collect()
        };
        let (before, after) = (text(old), text(new));
        let name = new.name.clone();
        if before == after {
            return;
        }
        if after.starts_with(&before) {
            let fields = after[before.len()..]
                .iter()
                .map(|(field, _)| field.clone())
                .collect();
            self.possible(ChangeKind::TypeExtended { name, fields });
        } else {
            self.refused(
                ChangeKind::TypeChanged { name },
                "stored values have the old order and types of its fields; only new fields at the end are \
                 possible",
            );
        }
    }

    fn collection(&mut self, old: &Collection, new: &Collection) {
        let before = self.0.len();
        self.parts(old, new);
        if old.attached.is_some() && new.attached.is_some() {
            // The store contains no data of an attached collection, so stored records cannot
            // prevent a change.
            for change in &mut self.0[before..] {
                change.obstacle = None;
            }
        }
    }

    fn parts(&mut self, old: &Collection, new: &Collection) {
        let texts = |of: &Collection| {
            [
                ("writes", of.writes.to_string(), Some(MODES_NEVER_MEET)),
                ("attached", attached(of), Some(ELSEWHERE)),
                ("key", list(&of.key), Some(MOVES_RECORDS)),
                ("partition", list(&of.partition), Some(MOVES_RECORDS)),
                ("order", list(&of.order), Some(MOVES_RECORDS)),
                ("bucket", bucket(of.bucket.as_ref()), bucket_obstacle(old, new)),
            ]
        };
        let options = texts(old).into_iter().zip(texts(new));
        for ((option, from, obstacle), (_, to, _)) in options.filter(|(old, new)| old.1 != new.1) {
            self.option(new, option, (from, to), obstacle);
        }
        self.fields(old, new);
        self.unique(old, new);
        self.views(old, new);
    }

    fn option(
        &mut self,
        of: &Collection,
        option: &'static str,
        (from, to): (String, String),
        obstacle: Option<&'static str>,
    ) {
        let collection = of.name.clone();
        let kind = ChangeKind::OptionChanged {
            collection,
            option,
            from,
            to,
        };
        self.0.push(Change { kind, obstacle });
    }

    fn fields(&mut self, old: &Collection, new: &Collection) {
        let collection = || new.name.clone();
        for field in &new.fields {
            let type_name = field.ty.to_string();
            match old.field(&field.name) {
                None if new.is_required(&field.name) => self.refused(
                    ChangeKind::FieldAdded {
                        collection: collection(),
                        field: field.name.clone(),
                        type_name,
                    },
                    "stored records have no value for it, and a key field is required",
                ),
                None => self.possible(ChangeKind::FieldAdded {
                    collection: collection(),
                    field: field.name.clone(),
                    type_name,
                }),
                Some((_, before)) if before.ty.to_string() != type_name => self.refused(
                    ChangeKind::FieldRetyped {
                        collection: collection(),
                        field: field.name.clone(),
                        from: before.ty.to_string(),
                        to: type_name,
                    },
                    "stored values have the old type: add a field with another name",
                ),
                Some(_) => {}
            }
        }
        for field in old.fields.iter().filter(|field| new.field(&field.name).is_none()) {
            self.refused(
                ChangeKind::FieldRemoved {
                    collection: collection(),
                    field: field.name.clone(),
                },
                "its values would be lost, and return with a new field of its name: keep the field, and stop \
                 writing it",
            );
        }
        let kept = |of: &Collection, other: &Collection| -> Vec<String> {
            let names = of.fields.iter().map(|field| field.name.clone());
            names.filter(|name| other.field(name).is_some()).collect()
        };
        if kept(old, new) != kept(new, old) {
            self.refused(
                ChangeKind::FieldsReordered {
                    collection: collection(),
                },
                "the order of fields is the order of columns: keep it, and add new fields at the end",
            );
        }
    }

    /// Reports added and removed unique constraints. The order of constraints, and of the fields of
    /// a constraint, has no meaning.
    fn unique(&mut self, old: &Collection, new: &Collection) {
        let collection = || new.name.clone();
        for fields in old.unique.iter().filter(|fields| !new.is_unique(fields)) {
            let (collection, fields) = (collection(), fields.clone());
            self.possible(ChangeKind::UniqueRemoved { collection, fields });
        }
        for fields in new.unique.iter().filter(|fields| !old.is_unique(fields)) {
            let (collection, fields) = (collection(), fields.clone());
            self.possible(ChangeKind::UniqueAdded { collection, fields });
        }
    }

    fn views(&mut self, old: &Collection, new: &Collection) {
        let collection = || new.name.clone();
        for View { name: view, .. } in old.views.iter().filter(|view| new.view(&view.name).is_none()) {
            let (collection, view) = (collection(), view.clone());
            self.possible(ChangeKind::ViewRemoved { collection, view });
        }
        for declared in &new.views {
            let (collection, view) = (collection(), declared.name.clone());
            match old.view(&view) {
                None => self.possible(ChangeKind::ViewAdded { collection, view }),
                Some(before) if before != declared => {
                    self.possible(ChangeKind::ViewChanged { collection, view });
                }
                Some(_) => {}
            }
        }
    }
}

/// Writes a description of the change and, if there is one, of the obstacle.
impl fmt::Display for Change {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.kind)?;
        if let Some(obstacle) = self.obstacle {
            write!(f, " (not possible: {obstacle})")?;
        }
        Ok(())
    }
}

/// Writes a description of the change.
impl fmt::Display for ChangeKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TypeAdded { name } => write!(f, "type {name}: new"),
            Self::TypeRemoved { name } => write!(f, "type {name}: removed"),
            Self::TypeExtended { name, fields } => write!(f, "type {name}: new fields {}", fields.join(", ")),
            Self::TypeChanged { name } => write!(f, "type {name}: other fields"),
            Self::CollectionAdded { name } => write!(f, "collection {name}: new"),
            Self::CollectionRemoved { name } => write!(f, "collection {name}: removed"),
            Self::FieldAdded {
                collection,
                field,
                type_name,
            } => {
                write!(f, "collection {collection}: new field {field} {type_name}")
            }
            Self::FieldRemoved { collection, field } => {
                write!(f, "collection {collection}: field {field} removed")
            }
            Self::FieldRetyped {
                collection,
                field,
                from,
                to,
            } => {
                write!(f, "collection {collection}: field {field} from {from} to {to}")
            }
            Self::FieldsReordered { collection } => {
                write!(f, "collection {collection}: fields in another order")
            }
            Self::OptionChanged {
                collection,
                option,
                from,
                to,
            } => {
                if from == to {
                    write!(f, "collection {collection}: other {option}")
                } else {
                    write!(f, "collection {collection}: {option} from {from} to {to}")
                }
            }
            Self::UniqueAdded { collection, fields } => {
                write!(f, "collection {collection}: new unique ({})", fields.join(", "))
            }
            Self::UniqueRemoved { collection, fields } => {
                write!(
                    f,
                    "collection {collection}: unique ({}) removed",
                    fields.join(", ")
                )
            }
            Self::ViewAdded { collection, view } => write!(f, "collection {collection}: new view {view}"),
            Self::ViewRemoved { collection, view } => {
                write!(f, "collection {collection}: view {view} removed")
            }
            Self::ViewChanged { collection, view } => {
                write!(f, "collection {collection}: view {view} changed")
            }
            Self::QueueOptionChanged {
                option,
                from: Some(from),
                to,
            } => write!(f, "queues: {option} from {from} to {to}"),
            Self::QueueOptionChanged {
                option,
                from: None,
                to,
            } => write!(f, "queues: {option} {to}"),
        }
    }
}

fn attached(collection: &Collection) -> String {
    collection
        .attached
        .as_ref()
        .map_or_else(|| "nothing".into(), ToString::to_string)
}

fn list<T: fmt::Display>(names: &[T]) -> String {
    let names: Vec<String> = names.iter().map(ToString::to_string).collect();
    format!("[{}]", names.join(", "))
}

/// Returns the reason why a store with records cannot change the bucket option of a collection from
/// `old` to `new`. `None` if it can: the target size and the retention time can always change.
fn bucket_obstacle(old: &Collection, new: &Collection) -> Option<&'static str> {
    let (Some(old), Some(new)) = (&old.bucket, &new.bucket) else {
        return Some(MOVES_RECORDS);
    };
    let by_time = |bucket: &Bucket| match &bucket.strategy {
        BucketStrategy::Time { field, width } => Some((field.clone(), *width)),
        _ => None,
    };
    if by_time(old) != by_time(new) || old.shards != new.shards {
        return Some(MOVES_RECORDS);
    }
    (old.keep.is_some() != new.keep.is_some()).then_some(KEPT_FROM_THE_FIRST)
}

fn bucket(bucket: Option<&Bucket>) -> String {
    match bucket {
        None => "none".into(),
        Some(bucket) => {
            let mut text = match &bucket.strategy {
                BucketStrategy::Time { field, width } => format!("{width} of {field}"),
                BucketStrategy::Rows(rows) => format!("{rows} rows"),
                BucketStrategy::Target { bytes } => print_size(*bytes),
            };
            if bucket.shards > 1 {
                text += &format!(" in {} shards", bucket.shards);
            }
            if let Some(keep) = bucket.keep {
                text += &format!(" kept for {keep}");
            }
            text
        }
    }
}
