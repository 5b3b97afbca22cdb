//! Declarations: the words of a schema with their positions. The parser creates them from TOML, and
//! [`Collection::new`](super::Collection::new) creates them from a [`Declaration`]. The module `check` checks
//! both.

use std::ops::Range;

use super::attached::AttachedTable;
use super::model::{Field, WriteMode};
use super::options::{BucketStrategy, Nulls};
use crate::Type;
use crate::collation::Collation;
use crate::width::Width;

/// Byte offsets in the text. `0..0` if there is no text.
pub(super) type Span = Range<usize>;

/// Collection that is declared in code.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Declaration {
    /// Name of the collection.
    pub name: String,
    /// Fields of the collection.
    pub fields: Vec<Field>,
    /// Names of the fields that identify one record.
    pub key: Vec<String>,
    /// Names of the partition fields. `None`: the whole key.
    pub partition: Option<Vec<String>>,
    /// Order fields, with `-` before a descending one. The key fields that are not named follow in ascending
    /// order.
    pub order: Vec<String>,
    /// Write mode of the records.
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

/// Value of a schema that is not a word, with its position in the text.
#[derive(Debug, Clone)]
pub(super) struct Placed<T> {
    pub(super) value: T,
    pub(super) span: Span,
}

/// Field of a collection or UDT. The type is `None` if its text was wrong (and reported).
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

/// Options that both a collection and a view can have. The options after `bucket` are only for views. An
/// `update` collection can have them too, because its declared sort order is a view.
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
    /// Returns whether the declaration has no options.
    pub(super) fn is_empty(&self) -> bool {
        self.partition.is_none()
            && self.order.is_none()
            && self.bucket.is_none()
            && self.view_options().is_empty()
    }

    /// Returns the declared options that only a view can have.
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
    /// Position of the field of a bucket by time, or of the option that determines another strategy.
    pub(super) strategy_span: Span,
    pub(super) shards: Option<Placed<u8>>,
    pub(super) keep: Option<Placed<Width>>,
}

/// One value for every order field to which it can apply, or values by field.
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
