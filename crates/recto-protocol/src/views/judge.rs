//! Compares an entry of a view with its base row, which was read after the entry. Decides whether the entry is true,
//! and returns the write that repairs a false entry.
//!
//! Verified pages, `verify`, `repair` and the backfill of a new view use this module.

use crate::views::arranged::Arranged;
use crate::views::change::RowOf;
use crate::views::row::{Entry, EntryKey, Micros, Version, ttl_until};
use crate::views::rules::{Rule, Rules};

/// Entry as it was read from a view.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Seen<K, C> {
    /// View and key of the entry.
    pub key: EntryKey<K>,
    /// Write timestamp of the entry: `recto_version`.
    pub version: Version,
    /// Other cells of the entry, as far as they were read.
    pub cells: C,
}

/// Consistency of the read of the base row. In either case the base row is read after the entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum BaseRead {
    /// Quorum read. It may miss a conditional write that is decided but not yet acknowledged.
    Quorum,
    /// Serial read, which misses no decided conditional write.
    Serial,
}

/// Result of comparing an entry of a view with its base row.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Verdict {
    /// The record has an entry at this position. Its fields and its version are those of the base row.
    True,
    /// The record has no entry at this position. The entry is left over from an earlier version, or a write
    /// under way will remove it.
    Stale,
    /// The record has an entry at this position, but has expired on the local clock. A reader neither shows nor removes
    /// the entry, because the record may be alive on other clocks. The entry expires by itself.
    Expired,
    /// The base row that was read is older than the entry. The caller has to read it again, serially.
    Unknown,
}

/// Returns the verdict on an entry, given the base row of its record. The base row must be read after the entry, and
/// not concurrently with it.
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

/// Repair of a view: a plain write, which may be repeated and may arrive late.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Mend<K, C> {
    /// Deletes an entry that should not exist, at this timestamp.
    Remove(EntryKey<K>, Version),
    /// Puts an entry that should exist, at this timestamp, with the operations that
    /// [`operations`](crate::views::operations) returns.
    Put {
        /// Entry to put.
        entry: Entry<K, C>,
        /// Write timestamp of the entry.
        version: Version,
        /// Lifetime of the entry in seconds, from the time that the caller passed; `None`: forever.
        ttl_seconds: Option<u32>,
    },
}

/// Returns the removal of an entry that is [`Stale`](Verdict::Stale). It has the entry's own timestamp, so that it
/// removes no entry of another version.
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

/// Returns the write that puts a record's entry into a view, at the row's version; `None` if the record has no entry
/// there.
///
/// Use it for views that are ready, and to fill a view that all writers know. A writer that does not know the view
/// would leave the entry behind when the record's key in the view changes.
pub fn fill<A: Arranged>(
    row: &RowOf<A>,
    view: crate::views::row::ViewNumber,
    schema: &A,
    now: Micros,
) -> Option<Mend<A::Key, A::Cells>> {
    fill_until(row, row.entries_until(), view, schema, now)
}

/// Returns the same write as [`fill`], but the entry lives until `until`, without additional time for the difference
/// between clocks. Use it if the clock that decides when a record expires is also the clock that writes its entries.
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

/// Fault of a view at the key of one entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Difference {
    /// A record does not have the entry that it should have.
    Missing,
    /// An entry exists, but its record has its entry at another key, or does not exist.
    Orphan,
    /// An entry has other cells, or another version, than its record.
    Differing,
}

/// Compares a view at one key with the base row of the record, and returns the fault; `None` if there is no
/// fault. `seen` is the entry at that key, read before the row; `None` if there is no entry.
///
/// If the record has expired, its own entry is not a fault, whether the entry exists or not. A difference
/// that a write under way will still remove counts as a fault. A caller has to check again to exclude such a
/// difference.
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
