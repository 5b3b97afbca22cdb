//! Misfits: records that belong in a view or a unique constraint whose table cannot store their
//! key.

use crate::views::row::{Entry, ViewNumber};

/// Result of deriving a record's entry (its row) in one view.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum EntryOutcome<K, C> {
    /// The record has this entry (row in a view).
    Entry(Entry<K, C>),
    /// The view excludes the record: a field of the view's key is null.
    LeftOutByRule,
    /// The record belongs in the view, but the table cannot store its key, so it has no entry.
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

/// Record that belongs in a view or a unique constraint whose table cannot store the record's key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Misfit {
    /// Id of the view's or the constraint's table.
    pub number: ViewNumber,
    /// Index (from 0) of the field that causes the misfit. If the key is too large, it is the field
    /// with the most bytes.
    pub field: usize,
    /// Limit that the record violates.
    pub cause: MisfitCause,
}

/// Limit of a view or of a unique constraint that a record's key violates.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum MisfitCause {
    /// The only partition column would be empty, which the table does not allow because an earlier
    /// release created it.
    Empty,
    /// The key would have this many bytes, more than
    /// [`MAX_VIEW_KEY_BYTES`](crate::views::collection::MAX_VIEW_KEY_BYTES).
    TooLarge(usize),
}
