//! Whether an entry of a view is true, by the base row that was read after it; and how what is false is mended.
//!
//! Verified pages, `verify`, `repair` and the filling of a new view all ask here.

use crate::views::arranged::Arranged;
use crate::views::change::RowOf;
use crate::views::row::{Entry, EntryKey, Micros, Version, ttl_until};
use crate::views::rules::{Rule, Rules};

/// An entry as it was read from a view.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Seen<K, C> {
    /// Where it stands.
    pub key: EntryKey<K>,
    /// Its stamp: `recto_version`.
    pub version: Version,
    /// Its other cells, as far as they were read.
    pub cells: C,
}

/// How the base row was read: in either case after the entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum BaseRead {
    /// At quorum. It may miss a conditional write that is decided and not acknowledged.
    Quorum,
    /// Serially.
    Serial,
}

/// What is to be thought of an entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Verdict {
    /// The record stands there. Fields and version are the base's.
    True,
    /// It does not; the entry was left over, or will be removed by a write that is under way.
    Stale,
    /// The record stands there, and its time is over by the clock here: it is not shown, and not removed, since by other
    /// clocks it may live. It goes by itself.
    Expired,
    /// The base row is older than the entry: it is to be read again, serially.
    Unknown,
}

/// Whether a record stands where an entry says, by its base row, which was read after the entry and never beside it.
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

/// What makes a view true again: a plain write, which may be repeated and may come late.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Mend<K, C> {
    /// An entry that should not be is deleted, at this stamp.
    Remove(EntryKey<K>, Version),
    /// An entry that should be is put, at this stamp, as [`operations`](crate::views::operations) says.
    Put {
        /// The entry.
        entry: Entry<K, C>,
        /// The stamp.
        version: Version,
        /// How long it lives, by the clock that was given.
        ttl_seconds: Option<u32>,
    },
}

/// How an entry that is [`Stale`](Verdict::Stale) is removed: at its own stamp, so that no other version's goes with
/// it.
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

/// How a view gets a record's entry, at the row's version; none if the record has none there.
///
/// It is for views that are ready, and for filling one that all writers know: a writer that does not would
/// leave the entry behind when the record moves.
pub fn fill<A: Arranged>(
    row: &RowOf<A>,
    view: crate::views::row::ViewNumber,
    schema: &A,
    now: Micros,
) -> Option<Mend<A::Key, A::Cells>> {
    fill_until(row, row.entries_until(), view, schema, now)
}

/// The same, where entries live until then, and not for as much longer as clocks may be apart: they are written by the
/// clock that their record expires by.
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

/// What is wrong with a view at one key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Difference {
    /// A record has no entry where it should.
    Missing,
    /// An entry is there of a record that stands elsewhere, or not at all.
    Orphan,
    /// An entry has other cells, or another version, than its record.
    Differing,
}

/// What is wrong where a row has, or should have, its entry in a view; `seen` is what is there, read before the
/// row. Where the record of a row has expired, nothing is wrong with its own entry, be it there or not. What a write under way will still change counts as wrong: who asks settles that by asking again.
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
