//! Interface of a collection for the protocol: the entries and the claims of each record.

use std::fmt::Debug;
use std::hash::Hash;

use crate::views::misfit::Misfit;
use crate::views::row::{Entry, EntryKey, Generation, ViewNumber};

/// Collection with its views, in one generation of the schema.
///
/// The engine's implementation is [`ViewedCollection`](crate::views::ViewedCollection). The models have small
/// implementations, so that they can explore all possible states.
pub trait Arranged: Clone + Debug + Eq + Hash {
    /// Record: the values of all fields.
    type Record: Clone + Debug + Eq + Hash;
    /// New values of some fields of a record.
    type Patch: Clone + Debug + Eq + Hash;
    /// Cells of an entry's key in the table of a view. Their `Ord` is not the order of the table; it serves
    /// only for sets.
    type Key: Clone + Debug + Ord + Hash;
    /// Cells of an entry that are not part of its key.
    type Cells: Clone + Debug + Eq + Hash;

    /// Returns the generation of the schema.
    fn generation(&self) -> Generation;

    /// Returns the entries of a record: at most one in each view that is written, whether or not the view is ready. A
    /// record has no entry in a view that it does not fit.
    fn entries(&self, record: &Self::Record) -> Vec<Entry<Self::Key, Self::Cells>>;

    /// Returns the claims of a record: its values for each unique constraint, if none of these values is null. The
    /// number in a claim is the number of the constraint's table. No view has that number.
    fn claims(&self, record: &Self::Record) -> Vec<EntryKey<Self::Key>> {
        let _ = record;
        Vec::new()
    }

    /// Returns whether the schema has this unique constraint. If not, the table of the constraint will soon be dropped.
    fn has_unique(&self, number: ViewNumber) -> bool {
        let _ = number;
        false
    }

    /// Returns each view and unique constraint that should have a record but cannot store its key.
    fn misfits(&self, record: &Self::Record) -> Vec<Misfit>;

    /// Returns whether two versions of a record have the same value of this field.
    fn has_same_value(&self, field: usize, one: &Self::Record, other: &Self::Record) -> bool;

    /// Returns a misfit that a change of a record would add; `None` if all misfits existed before the change.
    ///
    /// A record that is already a misfit of a view may be changed, if the field that causes the misfit keeps
    /// its value. The record then stays without an entry in that view.
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

    /// Returns whether the table of this view is still written. If not, the table will soon be dropped, and no entry
    /// has to be removed from it.
    fn has_view(&self, view: ViewNumber) -> bool;

    /// Returns the number of views that are written.
    fn view_count(&self) -> usize;

    /// Returns the number of bytes of a key.
    fn key_bytes(&self, key: &Self::Key) -> usize;

    /// Returns the record with new values of some fields.
    fn patched(&self, record: &Self::Record, patch: &Self::Patch) -> Self::Record;

    /// Returns the entry of a record in one view; `None` if the record has no entry in the view.
    fn entry_in(&self, view: ViewNumber, record: &Self::Record) -> Option<Entry<Self::Key, Self::Cells>> {
        self.entries(record)
            .into_iter()
            .find(|entry| entry.key.view == view)
    }

    /// Returns the positions of the entries of a record.
    fn keys(&self, record: &Self::Record) -> Vec<EntryKey<Self::Key>> {
        self.entries(record).into_iter().map(|entry| entry.key).collect()
    }
}
