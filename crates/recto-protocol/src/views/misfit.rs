//! Records that a view or a unique constraint should have and cannot hold.

use crate::views::row::{Entry, ViewNumber};

/// Outcome of deriving a record's entry in one view.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum EntryOutcome<K, C> {
    /// Entry of the record.
    Entry(Entry<K, C>),
    /// Record that the view leaves out by rule: a field of the view's key is null.
    LeftOutByRule,
    /// Record that the view should have, and cannot hold. It has no entry.
    DoesNotFit(Misfit),
}

impl<K, C> EntryOutcome<K, C> {
    /// Returns the entry, if there is one.
    pub fn into_entry(self) -> Option<Entry<K, C>> {
        match self {
            Self::Entry(entry) => Some(entry),
            Self::LeftOutByRule | Self::DoesNotFit(_) => None,
        }
    }
}

/// Record that a view should have and cannot hold, or whose unique values cannot be stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Misfit {
    /// Number of the table of the view, or of the unique constraint.
    pub number: ViewNumber,
    /// Index of the field that is the cause: if the key is too large, the field with the most bytes in it.
    pub field: usize,
    /// Limit that the record violates.
    pub cause: MisfitCause,
}

/// Limit that a record violates in a view or a unique constraint.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum MisfitCause {
    /// The only partition column would be empty, which the table of an earlier release does not allow.
    Empty,
    /// The key would have this number of bytes, which is more than
    /// [`MAX_VIEW_KEY_BYTES`](crate::views::collection::MAX_VIEW_KEY_BYTES).
    TooLarge(usize),
}
