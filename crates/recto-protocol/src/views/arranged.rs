//! Interface through which the protocol asks a collection for the view entries and unique values of
//! a record.

use std::fmt::Debug;
use std::hash::Hash;

use crate::views::misfit::Misfit;
use crate::views::row::{Entry, EntryKey, Generation, ViewNumber};

/// Collection with its views, under one version of its schema.
///
/// The engine's implementation is [`ViewedCollection`](crate::views::ViewedCollection). The models have small
/// implementations, so that they can explore all possible states.
pub trait Arranged: Clone + Debug + Eq + Hash {
    /// Record: the values of all fields.
    type Record: Clone + Debug + Eq + Hash;
    /// New values of some fields of a record.
    type Patch: Clone + Debug + Eq + Hash;
    /// Cells of an entry's key in the table of a view. Their `Ord` is not the sort order of the
    /// table: it serves only for sets.
    type Key: Clone + Debug + Ord + Hash;
    /// Other cells of an entry (a record's row in a view).
    type Cells: Clone + Debug + Eq + Hash;

    /// Returns the id of the schema: each change of the schema increases it.
    fn generation(&self) -> Generation;

    /// Returns the entries of a record (its rows in views): at most one in each view that is
    /// written, whether or not the view is ready. A record has no entry in a view that it does not
    /// fit.
    fn entries(&self, record: &Self::Record) -> Vec<Entry<Self::Key, Self::Cells>>;

    /// Returns the claims of a record: its values for each unique constraint, unless one of the
    /// values is null. Each claim contains the id of the constraint's table in `view`. No view has
    /// that id.
    fn claims(&self, record: &Self::Record) -> Vec<EntryKey<Self::Key>> {
        let _ = record;
        Vec::new()
    }

    /// Returns whether the schema still has this unique constraint. If not, the table of the
    /// constraint will soon be dropped.
    fn has_unique(&self, number: ViewNumber) -> bool {
        let _ = number;
        false
    }

    /// Returns the views and unique constraints that should have the record, but whose tables
    /// cannot store its key.
    fn misfits(&self, record: &Self::Record) -> Vec<Misfit>;

    /// Returns whether two versions of a record have the same value in the field with this index.
    fn has_same_value(&self, field: usize, one: &Self::Record, other: &Self::Record) -> bool;

    /// Returns a misfit (view or unique constraint whose key the record violates) that a change
    /// would add; `None` if the change adds none.
    ///
    /// A record that is already a misfit of a view may be changed if the field that causes the
    /// misfit keeps its value. The record then stays without an entry in that view.
    fn new_misfit(&self, before: Option<&Self::Record>, after: &Self::Record) -> Option<Misfit> {
        let misfits = self.misfits(after);
        let before = before
            .filter(|_| !misfits.is_empty())
            .map(|before| (before, self.misfits(before)));
        misfits.into_iter().find(|misfit| {
            !before.as_ref().is_some_and(|(before, misfits)| {
                misfits.iter().any(|one| one.number == misfit.number)
                    && self.has_same_value(misfit.field, before, after)
            })
        })
    }

    /// Returns whether the table of this view is still written. If not, the table will soon be
    /// dropped, so no entries have to be removed from it.
    fn has_view(&self, view: ViewNumber) -> bool;

    /// Returns the number of views that writers must update.
    fn view_count(&self) -> usize;

    /// Returns the size of the key of an entry (row in a view), in bytes.
    fn key_bytes(&self, key: &Self::Key) -> usize;

    /// Returns a copy of the record, with the new values of `patch`.
    fn patched(&self, record: &Self::Record, patch: &Self::Patch) -> Self::Record;

    /// Returns the record's entry in one view; `None` if the view does not contain the record.
    fn entry_in(&self, view: ViewNumber, record: &Self::Record) -> Option<Entry<Self::Key, Self::Cells>> {
        self.entries(record)
            .into_iter()
            .find(|entry| entry.key.view == view)
    }

    /// Returns the view and key of each entry of a record.
    fn keys(&self, record: &Self::Record) -> Vec<EntryKey<Self::Key>> {
        self.entries(record).into_iter().map(|entry| entry.key).collect()
    }
}
