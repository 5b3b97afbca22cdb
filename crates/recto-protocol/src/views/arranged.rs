//! What the protocol has to know of a collection: where its records stand in its views.

use std::fmt::Debug;
use std::hash::Hash;

use crate::views::misfit::Misfit;
use crate::views::row::{Entry, EntryKey, Generation, ViewNumber};

/// A collection with its views, as one generation of the schema has them.
///
/// The engine's is [`ViewedCollection`](crate::views::ViewedCollection). The models have small ones, so that all that may happen
/// can be looked at.
pub trait Arranged: Clone + Debug + Eq + Hash {
    /// A record: the values of all fields.
    type Record: Clone + Debug + Eq + Hash;
    /// New values of some fields.
    type Patch: Clone + Debug + Eq + Hash;
    /// The cells of a view's key. Its order is good for sets only.
    type Key: Clone + Debug + Ord + Hash;
    /// The other cells of an entry.
    type Cells: Clone + Debug + Eq + Hash;

    /// Which schema it is of.
    fn generation(&self) -> Generation;

    /// The entries of a record: at most one in each view that is written, ready or not. A view that the record does
    /// not fit has no entry of it.
    fn entries(&self, record: &Self::Record) -> Vec<Entry<Self::Key, Self::Cells>>;

    /// What a record claims: the values of each unique constraint, none of them null. The number is that of the
    /// constraint's table, which no view has.
    fn claims(&self, record: &Self::Record) -> Vec<EntryKey<Self::Key>> {
        let _ = record;
        Vec::new()
    }

    /// Whether this unique constraint is one of the schema. Of one that is not, the table is about to be dropped.
    fn has_unique(&self, number: ViewNumber) -> bool {
        let _ = number;
        false
    }

    /// Returns each view and unique constraint that should have a record and cannot hold it.
    fn misfits(&self, record: &Self::Record) -> Vec<Misfit>;

    /// Whether two versions of a record have the same value of this field.
    fn has_same_value(&self, field: usize, one: &Self::Record, other: &Self::Record) -> bool;

    /// Returns a misfit that a change of a record would make; none if all were there before it.
    ///
    /// A record that did not fit a view before the change may be changed: it stays without an entry there. Only the field
    /// that is the cause must keep its value.
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

    /// Whether this view's table is still written. One that is not is about to be dropped, and nothing in it has to go.
    fn has_view(&self, view: ViewNumber) -> bool;

    /// How many views are written.
    fn view_count(&self) -> usize;

    /// How many bytes a key has.
    fn key_bytes(&self, key: &Self::Key) -> usize;

    /// The record with new values of some fields.
    fn patched(&self, record: &Self::Record, patch: &Self::Patch) -> Self::Record;

    /// The entry of a record in one view.
    fn entry_in(&self, view: ViewNumber, record: &Self::Record) -> Option<Entry<Self::Key, Self::Cells>> {
        self.entries(record)
            .into_iter()
            .find(|entry| entry.key.view == view)
    }

    /// Where a record has entries.
    fn keys(&self, record: &Self::Record) -> Vec<EntryKey<Self::Key>> {
        self.entries(record).into_iter().map(|entry| entry.key).collect()
    }
}
