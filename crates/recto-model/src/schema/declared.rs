//! Declarations: the words of a schema with their positions, before the rules are checked. The
//! parser creates them from TOML, and [`Collection::new`](super::Collection::new) from a
//! [`Declaration`]. The module `check` checks declarations from both sources.

use std::ops::Range;

use super::attached::AttachedTable;
use super::model::{Field, WriteMode};
use super::options::{BucketStrategy, Nulls};
use crate::Type;
use crate::collation::Collation;
use crate::width::Width;

/// Range of byte offsets in the schema text. `0..0` if the schema was built in code, without text.
pub(super) type Span = Range<usize>;

/// Collection that a program declares in code, without schema text.
/// [`Collection::new`](super::Collection::new) checks it.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Declaration {
    /// Name of the collection.
    pub name: String,
    /// Fields of the collection.
    pub fields: Vec<Field>,
    /// Names of the fields that identify one record.
    pub key: Vec<String>,
    /// Names of the partition fields. `None` means the whole key.
    pub partition: Option<Vec<String>>,
    /// Names of the order fields, with `-` before a descending field. Key fields that are not named
    /// follow in ascending order.
    pub order: Vec<String>,
    /// Write mode: whether records can be updated, overwritten or only appended.
    pub writes: WriteMode,
}

/// Word of a schema, with its position in the text.
#[derive(Debug, Clone)]
pub(super) struct Word {
    pub(super) text: String,
    pub(super) span: Span,
}

impl Word {
    pub(super) fn new(text: impl Into<String>, span: Span) -> Self {
        Self {
            text: text.into(),
            span,
        }
    }

    fn unplaced(text: String) -> Self {
        Self { text, span: 0..0 }
    }
}

/// Value in a schema that is not a word, with its position in the text.
#[derive(Debug, Clone)]
pub(super) struct Placed<T> {
    pub(super) value: T,
    pub(super) span: Span,
}

/// Declared field of a collection or user-defined type. The type is `None` if its text was wrong,
/// which was already reported.
#[derive(Debug)]
pub(super) struct DeclaredField {
    pub(super) name: Word,
    pub(super) ty: Option<Type>,
}

#[derive(Debug)]
pub(super) struct DeclaredCollection {
    pub(super) name: Word,
    pub(super) fields: Vec<DeclaredField>,
    pub(super) key: Vec<Word>,
    pub(super) writes: Option<Placed<WriteMode>>,
    pub(super) attached: Option<Placed<AttachedTable>>,
    pub(super) unique: Option<Placed<Vec<Vec<Word>>>>,
    pub(super) sort_order: DeclaredSortOrder,
    pub(super) views: Vec<DeclaredView>,
}

pub(super) use DeclaredCollection as Declared;

#[derive(Debug)]
pub(super) struct DeclaredView {
    pub(super) name: Word,
    pub(super) sort_order: DeclaredSortOrder,
}

/// Options that a collection and a view can have. The options after `bucket` are only for views. A
/// collection with `writes = "update"` can have them too, because its declared sort order is a
/// view.
#[derive(Debug, Default)]
pub(super) struct DeclaredSortOrder {
    pub(super) partition: Option<Placed<Vec<Word>>>,
    pub(super) order: Option<Placed<Vec<Word>>>,
    pub(super) bucket: Option<Placed<DeclaredBucket>>,
    pub(super) collate: Option<Placed<PerField<Collation>>>,
    pub(super) nulls: Option<Placed<Nulls>>,
    pub(super) rounding: Option<Placed<PerField<Width>>>,
    pub(super) fields: Option<Placed<Vec<Word>>>,
    pub(super) verify: Option<Placed<bool>>,
}

impl DeclaredSortOrder {
    /// Returns whether the declaration sets no option.
    pub(super) fn is_empty(&self) -> bool {
        self.partition.is_none()
            && self.order.is_none()
            && self.bucket.is_none()
            && self.view_options().is_empty()
    }

    /// Returns the name and position of each declared option that only a view can have.
    pub(super) fn view_options(&self) -> Vec<(&'static str, Span)> {
        let mut options = Vec::new();
        let mut add = |key, span: Option<&Span>| {
            if let Some(span) = span {
                options.push((key, span.clone()));
            }
        };
        add("collate", self.collate.as_ref().map(|collate| &collate.span));
        add("nulls", self.nulls.as_ref().map(|nulls| &nulls.span));
        add("rounding", self.rounding.as_ref().map(|rounding| &rounding.span));
        add("verify", self.verify.as_ref().map(|verify| &verify.span));
        options
    }
}

#[derive(Debug)]
pub(super) struct DeclaredBucket {
    pub(super) strategy: BucketStrategy,
    /// Position of the time field of a bucket by time, or of the option (`target` or `rows`) of
    /// another strategy.
    pub(super) strategy_span: Span,
    pub(super) shards: Option<Placed<u8>>,
    pub(super) keep: Option<Placed<Width>>,
}

/// Value of an option for order fields: one value for every field to which the option can apply, or
/// values by field name.
#[derive(Debug)]
pub(super) enum PerField<T> {
    All(T),
    Each(Vec<(Word, T)>),
}

impl From<Declaration> for DeclaredCollection {
    fn from(declaration: Declaration) -> Self {
        let words = |names: Vec<String>| names.into_iter().map(Word::unplaced).collect::<Vec<_>>();
        let placed = |names| Placed {
            value: words(names),
            span: 0..0,
        };
        Self {
            name: Word::unplaced(declaration.name),
            fields: declaration
                .fields
                .into_iter()
                .map(|field| DeclaredField {
                    name: Word::unplaced(field.name),
                    ty: Some(field.ty),
                })
                .collect(),
            key: words(declaration.key),
            writes: Some(Placed {
                value: declaration.writes,
                span: 0..0,
            }),
            attached: None,
            unique: None,
            sort_order: DeclaredSortOrder {
                partition: declaration.partition.map(placed),
                order: (!declaration.order.is_empty()).then(|| placed(declaration.order)),
                ..DeclaredSortOrder::default()
            },
            views: Vec::new(),
        }
    }
}
