//! Misfits: records that belong in a view or a unique constraint, but whose key the table cannot store.

use crate::views::row::{Entry, ViewNumber};

/// Outcome of deriving a record's entry in one view.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum EntryOutcome<K, C> {
    /// The record has this entry.
    Entry(Entry<K, C>),
    /// The view leaves the record out by rule: a field of the view's key is null.
    LeftOutByRule,
    /// The record belongs in the view, but the table cannot store its key. The record has no entry.
    DoesNotFit(Misfit),
}

impl<K, C> EntryOutcome<K, C> {
    /// Returns the entry; `None` if the record has no entry in the view.
    pub fn into_entry(self) -> Option<Entry<K, C>> {
        match self {
            Self::Entry(entry) => Some(entry),
            Self::LeftOutByRule | Self::DoesNotFit(_) => None,
        }
    }
}

/// Record that belongs in a view whose table cannot store its key, or whose unique values cannot be stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Misfit {
    /// Number of the view, or of the unique constraint.
    pub number: ViewNumber,
    /// Index of the field that is the cause: if the key is too large, the field with the most bytes in it.
    pub field: usize,
    /// Limit that the record violates.
    pub cause: MisfitCause,
}

/// Limit that a record violates in a view or a unique constraint.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum MisfitCause {
    /// The only partition column would be empty. A table that an earlier release created does not allow that.
    Empty,
    /// The key would have this number of bytes, which is more than
    /// [`MAX_VIEW_KEY_BYTES`](crate::views::collection::MAX_VIEW_KEY_BYTES).
    TooLarge(usize),
}
