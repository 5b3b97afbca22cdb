//! Comparison of a view entry with its base row, which was read after the entry. It decides whether
//! the entry is correct, and returns the write that repairs a wrong entry.
//!
//! Pages that verify entries, the commands `verify` and `repair`, and the backfill of a new view
//! use this module.

use crate::views::arranged::Arranged;
use crate::views::change::RowOf;
use crate::views::row::{Entry, EntryKey, Micros, Version, ttl_until};
use crate::views::rules::{Rule, Rules};

/// Entry of a view (row of a record in the view) as it was read.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Seen<K, C> {
    /// View and key of the entry.
    pub key: EntryKey<K>,
    /// Version of the record in the entry (`recto_version`), which is also the entry's write
    /// timestamp.
    pub version: Version,
    /// Other cells of the entry (row in a view), as far as the reader requested them.
    pub cells: C,
}

/// Consistency level at which the base row was read, after the entry (row in a view).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum BaseRead {
    /// Quorum read. It may miss a conditional write that is decided but not acknowledged.
    Quorum,
    /// Serial read. It misses no decided conditional write.
    Serial,
}

/// Result of comparing a view entry with the base row (row in the base table) of its record.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Verdict {
    /// The entry is correct: according to the base row, the record has an entry at this key.
    True,
    /// The record has no entry at this key. An earlier version left the entry behind, or a pending
    /// write will remove it.
    Stale,
    /// The record has expired on the local clock. A reader hides the entry, but does not remove it,
    /// because the record may be alive on another clock. The entry expires by itself.
    Expired,
    /// The base row is older than the entry, so the reader cannot decide. It must read the base row
    /// again, with serial consistency.
    Unknown,
}

/// Compares a view entry with the base row of its record. The base row must be read after the
/// entry, not concurrently.
pub fn judge<A: Arranged>(
    seen: &Seen<A::Key, A::Cells>,
    row: Option<&RowOf<A>>,
    read: BaseRead,
    schema: &A,
    now: Micros,
) -> Verdict {
    judge_by(seen, row, read, schema, now, Rules::default())
}

pub(crate) fn judge_by<A: Arranged>(
    seen: &Seen<A::Key, A::Cells>,
    row: Option<&RowOf<A>>,
    read: BaseRead,
    schema: &A,
    now: Micros,
    rules: Rules,
) -> Verdict {
    let is_older = row.is_none_or(|row| row.version < seen.version);
    if is_older && read == BaseRead::Quorum && rules.keeps(Rule::NewerEntryIsUnknown) {
        return Verdict::Unknown;
    }
    let record = row.and_then(|row| Some((row, row.record.as_ref()?)));
    match record.filter(|(_, record)| stands_there(schema, record, &seen.key)) {
        Some((row, _)) if !row.has_expired(now) => Verdict::True,
        Some(_) if rules.keeps(Rule::ExpiredIsLeft) => Verdict::Expired,
        _ => Verdict::Stale,
    }
}

fn stands_there<A: Arranged>(schema: &A, record: &A::Record, key: &EntryKey<A::Key>) -> bool {
    let entry = schema.entry_in(key.view, record);
    entry.is_some_and(|entry| entry.key == *key)
}

/// Write that repairs a view. It is a plain write, which may be repeated and may arrive late.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Mend<K, C> {
    /// Deletes a stale entry (row in a view), with this write timestamp.
    Remove(EntryKey<K>, Version),
    /// Puts a missing entry, with the writes that [`operations`](crate::views::operations) returns.
    Put {
        /// Entry to put.
        entry: Entry<K, C>,
        /// Version of the record, and write timestamp of the entry (row in a view).
        version: Version,
        /// Lifetime of the entry, in seconds from `now` of the function that created this value;
        /// `None`: forever.
        ttl_seconds: Option<u32>,
    },
}

/// Returns the deletion of a [`Stale`](Verdict::Stale) entry. Its timestamp is that of the entry,
/// so that no newer entry is deleted.
pub fn remove<A: Arranged>(seen: &Seen<A::Key, A::Cells>) -> Mend<A::Key, A::Cells> {
    remove_by::<A>(seen, 0, Rules::default())
}

pub(crate) fn remove_by<A: Arranged>(
    seen: &Seen<A::Key, A::Cells>,
    now: Micros,
    rules: Rules,
) -> Mend<A::Key, A::Cells> {
    let stamp = if rules.keeps(Rule::RemoveAtOwnStamp) {
        seen.version
    } else {
        Version(now)
    };
    Mend::Remove(seen.key.clone(), stamp)
}

/// Returns the write that puts a record's entry into a view, with the row's version; `None` if the
/// view does not contain the record.
///
/// Use it for views that are ready, or that all writers already know. A writer that does not know
/// the view would leave the entry behind when the record's key in the view changes.
pub fn fill<A: Arranged>(
    row: &RowOf<A>,
    view: crate::views::row::ViewNumber,
    schema: &A,
    now: Micros,
) -> Option<Mend<A::Key, A::Cells>> {
    fill_until(row, row.entries_until(), view, schema, now)
}

/// Returns the write that puts a record's entry into a view, where the entry lives until `until`.
/// [`fill`] instead adds time for the difference between clocks. Use this function if the clock
/// that writes entries also decides when their records expire.
pub fn fill_until<A: Arranged>(
    row: &RowOf<A>,
    until: Option<Micros>,
    view: crate::views::row::ViewNumber,
    schema: &A,
    now: Micros,
) -> Option<Mend<A::Key, A::Cells>> {
    if until.is_some_and(|until| until <= now) {
        return None;
    }
    let entry = schema.entry_in(view, row.record.as_ref()?)?;
    Some(Mend::Put {
        entry,
        version: row.version,
        ttl_seconds: ttl_until(until, now),
    })
}

/// Difference between a view and the base table at the key of one entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Difference {
    /// The record has no entry (row in a view) at this key, but should have one.
    Missing,
    /// An entry exists, but its record has its entry at another key, or does not exist.
    Orphan,
    /// The entry (row in a view) has other cells or another version than its record.
    Differing,
}

/// Returns the difference between a view and the base row of a record, at one key; `None` if they
/// agree. `seen` is the entry at that key, read before the row; `None` if there is no entry.
///
/// If the record has expired, its own entry may exist or not. A pending write may still remove a
/// reported difference, so the caller has to check again.
pub fn difference<A: Arranged>(
    seen: Option<&Seen<A::Key, A::Cells>>,
    row: Option<&RowOf<A>>,
    view: crate::views::row::ViewNumber,
    schema: &A,
    now: Micros,
) -> Option<Difference> {
    let row = row.and_then(|row| Some((row, schema.entry_in(view, row.record.as_ref()?)?)));
    match (seen, row) {
        (None, None) => None,
        (None, Some((row, _))) => (!row.has_expired(now)).then_some(Difference::Missing),
        (Some(seen), Some((row, entry))) if entry.key == seen.key && row.has_expired(now) => None,
        (Some(seen), Some((row, entry))) if entry.key == seen.key => {
            let is_same = entry.cells == seen.cells && row.version == seen.version;
            (!is_same).then_some(Difference::Differing)
        }
        (Some(_), _) => Some(Difference::Orphan),
    }
}
