//! Effect of a change on a record: its next base row, and the view entries to put and to remove.

use std::collections::BTreeSet;

use crate::views::arranged::Arranged;
use crate::views::claimed::next_claims;
use crate::views::misfit::Misfit;
use crate::views::row::{
    Entry, EntryKey, Found, MAX_KEPT_SECONDS, MAX_MUST_GO, MAX_MUST_GO_BYTES, Micros, Row, RowClaims, Token,
    Tokens, Version, ViewNumber, ttl_until,
};
use crate::views::rules::{Rule, Rules};

/// Row of a record in the base table of the collection `A`.
pub type RowOf<A> = Row<<A as Arranged>::Record, <A as Arranged>::Key>;
/// Result of reading a record in the base table of the collection `A`.
pub type FoundOf<A> = Found<<A as Arranged>::Record, <A as Arranged>::Key>;
/// Writes to views (entries to put and to remove) that a base row of the collection `A` requires.
pub type EntriesOf<A> = Entries<<A as Arranged>::Key, <A as Arranged>::Cells>;

/// Requested change of one record.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Change<R, P> {
    /// Put a new record. Rejected if a record exists.
    Insert {
        /// Values of all fields of the record.
        record: R,
        /// Time when the record expires, in microseconds since 1970; `None`: never.
        expires_at: Option<Micros>,
    },
    /// Put a new record that is copied from another store. Rejected if a record exists. The record
    /// gets no entry in a view that it does not fit.
    Copy {
        /// Values of all fields of the record.
        record: R,
        /// Time when the record expires, in microseconds since 1970; `None`: never.
        expires_at: Option<Micros>,
    },
    /// Put a record, and replace an existing record.
    Put {
        /// Values of all fields of the record.
        record: R,
        /// Time when the record expires, in microseconds since 1970; `None`: never.
        expires_at: Option<Micros>,
    },
    /// Put a record of which the writer knows only some fields. An existing record keeps its other
    /// fields.
    PutKnown {
        /// New values of the fields that the writer knows.
        known: P,
        /// Values of all fields, used if no record exists.
        record: R,
        /// Time when the record expires, in microseconds since 1970; `None`: never.
        expires_at: Option<Micros>,
    },
    /// Set some fields to new values, and keep the expiry. Rejected if no record exists.
    Update(P),
    /// Delete the record. The deletion is written even if no record exists, so that no earlier
    /// write can be applied after it.
    Delete,
    /// Keep the record, but increase its version above the previous version and above this one. Its
    /// view entries are written again, over data that another program may have put there. If no
    /// record exists, only the version is written.
    Raise(Version),
    /// Keep the record and its version, but take all of its unique values again. Rejected if no
    /// record exists.
    Claim,
}

/// Change of one record, with an optional condition on its version.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Request<R, P> {
    /// Requested change.
    pub change: Change<R, P>,
    /// Version that the stored record must have; `None`: any version, or no record.
    pub if_version: Option<Version>,
}

/// Reason why a change is rejected. A rejected change writes nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Refusal {
    /// The change inserts a record, but a record with this version exists.
    Exists(Version),
    /// The change updates a record, but no record exists.
    Absent,
    /// The stored version is not the required version. The value is the stored version; `None`: no
    /// record exists.
    Changed(Option<Version>),
    /// Another record has the same values for this unique constraint.
    Taken(ViewNumber),
    /// The table of a view or of a unique constraint cannot store the record's key.
    DoesNotFit(Misfit),
    /// The expiry is more than [`MAX_KEPT_SECONDS`] in the future, the maximum of a store.
    ExpiresTooLate,
}

/// Outcome of a change for the record: its new values and expiry.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct ChangedRecord<R> {
    /// New record; `None`: deleted.
    pub record: Option<R>,
    /// Time when the record expires, in microseconds since 1970; `None`: never.
    pub expires_at: Option<Micros>,
    /// Version that the new version must exceed, besides the previous one; `None`: there is no such
    /// version.
    pub above: Option<Version>,
}

impl<R> ChangedRecord<R> {
    /// Outcome of deleting a record.
    pub(crate) const DELETED: Self = Self {
        record: None,
        expires_at: None,
        above: None,
    };
}

/// Decides whether a request is allowed, and returns the record after the change.
///
/// # Errors
/// Reason why the request is rejected.
pub fn decide<A: Arranged>(
    request: &Request<A::Record, A::Patch>,
    row: Option<&RowOf<A>>,
    schema: &A,
    now: Micros,
) -> Result<ChangedRecord<A::Record>, Refusal> {
    let there = row.and_then(|row| row.record_at(now).map(|record| (row, record)));
    let version = there.map(|(row, _)| row.version);
    if request.if_version.is_some() && request.if_version != version {
        return Err(Refusal::Changed(version));
    }
    let mut above = None;
    let (record, expires_at) = match (&request.change, there) {
        (Change::Insert { .. } | Change::Copy { .. }, Some((row, _))) => {
            return Err(Refusal::Exists(row.version));
        }
        (
            Change::Insert { record, expires_at }
            | Change::Copy { record, expires_at }
            | Change::Put { record, expires_at },
            _,
        ) => (Some(record.clone()), within_a_life(*expires_at, now)?),
        (
            Change::PutKnown {
                known,
                record,
                expires_at,
            },
            there,
        ) => {
            let merged = there.map(|(_, there)| schema.patched(there, known));
            let record = merged.unwrap_or_else(|| record.clone());
            (Some(record), within_a_life(*expires_at, now)?)
        }
        (Change::Update(_) | Change::Claim, None) => return Err(Refusal::Absent),
        (Change::Update(patch), Some((row, record))) => (Some(schema.patched(record, patch)), row.expires_at),
        (Change::Delete, _) => (None, None),
        (Change::Raise(least), _) => {
            above = Some(*least);
            // Keep the record even if it has expired on this clock, because it may be alive on
            // another clock.
            row.map_or((None, None), |row| (row.record.clone(), row.expires_at))
        }
        (Change::Claim, Some((row, record))) => (Some(record.clone()), row.expires_at),
    };
    let after = ChangedRecord {
        record,
        expires_at,
        above,
    };
    // `Raise`, `Claim` and `Copy` accept a record that does not fit some views, because the record
    // already exists, here or in another store. It gets entries only in the views that it fits.
    let is_kept = matches!(
        request.change,
        Change::Raise(_) | Change::Claim | Change::Copy { .. }
    );
    let record = after.record.as_ref().filter(|_| !is_kept);
    let before = there.map(|(_, record)| record);
    match record.and_then(|record| schema.new_misfit(before, record)) {
        Some(misfit) => Err(Refusal::DoesNotFit(misfit)),
        None => Ok(after),
    }
}

/// Returns the expiry `expires_at`, if a store can keep data for so long.
fn within_a_life(expires_at: Option<Micros>, now: Micros) -> Result<Option<Micros>, Refusal> {
    let latest = now.saturating_add(MAX_KEPT_SECONDS * 1_000_000);
    if expires_at.is_some_and(|at| at > latest) {
        return Err(Refusal::ExpiresTooLate);
    }
    Ok(expires_at)
}

/// Returns the base row (row in the base table) that a change puts in place of the row `found`.
pub fn next_row<A: Arranged>(
    found: &FoundOf<A>,
    after: ChangedRecord<A::Record>,
    schema: &A,
    token: Token,
    now: Micros,
) -> RowOf<A> {
    next_row_by(found, after, schema, token, now, Rules::default())
}

pub(crate) fn next_row_by<A: Arranged>(
    found: &FoundOf<A>,
    after: ChangedRecord<A::Record>,
    schema: &A,
    token: Token,
    now: Micros,
    rules: Rules,
) -> RowOf<A> {
    let before = found.row.as_ref();
    let mut must_go = BTreeSet::new();
    if let Some(before) = before {
        if rules.keeps(Rule::MustGoCarried) && !found.is_done_by(rules) {
            must_go.extend(before.must_go.iter().cloned());
        }
        if rules.keeps(Rule::MustGoOld) {
            must_go.extend(before.record.iter().flat_map(|record| schema.keys(record)));
        }
    }
    if rules.keeps(Rule::MustGoSparesNew) {
        for key in after.record.iter().flat_map(|record| schema.keys(record)) {
            must_go.remove(&key);
        }
    }
    must_go.retain(|key| schema.has_view(key.view));
    let claims = next_claims(found, &after, schema, rules);
    Row {
        tokens: Tokens::pushed_by(before.map(|row| &row.tokens), token, rules),
        version: Version::after_by(before.map(|row| row.version).max(after.above), now, rules),
        generation: schema.generation(),
        record: after.record,
        expires_at: after.expires_at,
        must_go,
        claims,
    }
}

/// Returns the row that a process puts to resolve a pending change (intent) of another process.
/// Only the token and the schema id differ from the row `found`. The new token prevents that an
/// earlier conditional write is still applied. If there was no row, the new row is that of a
/// deleted record.
pub(crate) fn fenced_row<A: Arranged>(
    found: &FoundOf<A>,
    schema: &A,
    token: Token,
    now: Micros,
    rules: Rules,
) -> RowOf<A> {
    let tokens = Tokens::pushed_by(found.row.as_ref().map(|row| &row.tokens), token, rules);
    match &found.row {
        Some(row) => Row {
            tokens,
            generation: if rules.keeps(Rule::FenceGeneration) {
                schema.generation()
            } else {
                row.generation
            },
            ..row.clone()
        },
        None => Row {
            tokens,
            version: Version::after_by(None, now, rules),
            generation: schema.generation(),
            record: None,
            expires_at: None,
            must_go: BTreeSet::new(),
            claims: RowClaims::NONE,
        },
    }
}

/// Returns whether a row lists too many keys for removal from views, so that the removals must be
/// executed before the next change. Each change adds the keys of the previous version to the list,
/// and only the mark `recto_done` clears it.
pub fn must_resolve_first<A: Arranged>(found: &FoundOf<A>, schema: &A) -> bool {
    let limit = MAX_MUST_GO.max(2 * schema.view_count());
    let Some(row) = found.row.as_ref().filter(|_| !found.is_done()) else {
        return false;
    };
    let claims = row.claims.must_release.iter().map(|(key, _)| key);
    let keys = || row.must_go.iter().chain(claims.clone());
    let bytes: usize = keys().map(|key| schema.key_bytes(&key.key)).sum();
    keys().count() > limit || bytes > MAX_MUST_GO_BYTES
}

/// Writes to views that a version of a record requires. They are plain writes, sent in parallel,
/// and repeated until they succeed.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Entries<K, C> {
    /// Version of the record, and write timestamp of its entries (rows in views).
    pub version: Version,
    /// Entries to remove, each with the timestamp of its deletion.
    pub removals: Vec<(EntryKey<K>, Version)>,
    /// Entries to put. [`operations`] returns the writes for each entry (row in a view).
    pub puts: Vec<Entry<K, C>>,
    /// Unique values to release, each with the token (id) of the write that reserved them.
    pub releases: Vec<(EntryKey<K>, Token)>,
    /// Time until which the entries (rows in views) live, in microseconds since 1970; `None`:
    /// forever.
    pub until: Option<Micros>,
}

impl<K, C> Entries<K, C> {
    /// Returns the lifetime of the entries, in seconds; `None`: forever. `now` is the time at which
    /// the entries are sent. Each repetition needs the current time.
    pub fn ttl_seconds(&self, now: Micros) -> Option<u32> {
        ttl_until(self.until, now)
    }
}

/// Returns the writes to views that a base row requires.
///
/// If the record expires, its entries live until [`entries_until`](Row::entries_until). Until then,
/// the result does not depend on `now`. Later, the result puts no entries. Instead it removes the
/// entries that earlier versions had at the same keys. Their deletion has a timestamp just before
/// the row's version, so entries of this version stay, and expire by themselves.
pub fn entries_of<A: Arranged>(row: &RowOf<A>, schema: &A, now: Micros) -> EntriesOf<A> {
    entries_of_by(row, schema, now, Rules::default())
}

pub(crate) fn entries_of_by<A: Arranged>(
    row: &RowOf<A>,
    schema: &A,
    now: Micros,
    rules: Rules,
) -> EntriesOf<A> {
    let until = row.entries_until_by(rules);
    let mut entries = Entries {
        version: row.version,
        removals: Vec::new(),
        puts: Vec::new(),
        releases: Vec::new(),
        until,
    };
    let released = row.claims.must_release.iter();
    let released = released.filter(|(key, _)| schema.has_unique(key.view));
    entries.releases.extend(released.cloned());
    let go = row.must_go.iter().filter(|key| schema.has_view(key.view));
    entries.removals.extend(go.map(|key| (key.clone(), row.version)));
    match &row.record {
        Some(record) if until.is_some_and(|until| until <= now) => {
            let keys = schema.keys(record).into_iter();
            entries
                .removals
                .extend(keys.map(|key| (key, row.version.before())));
        }
        Some(record) => entries.puts = schema.entries(record),
        None => {}
    }
    entries
}

/// Plain write to one row in the table of a view.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum EntryOperation<C> {
    /// Deletes the row, with this write timestamp.
    Delete(Version),
    /// Puts cells into the row, with this write timestamp.
    Put {
        /// Write timestamp of the put.
        stamp: Version,
        /// Cells of the regular columns, except the column with the version: its value is `stamp`.
        cells: C,
        /// True if the put replaces an existing row, so that a null deletes the stored cell.
        replaces: bool,
    },
}

/// Returns the writes that put an entry into a view. The caller sends them as one mutation of the
/// partition. An entry with nulls first clears its row, at the timestamp just before `version`.
/// Clearing creates one tombstone for the row instead of one for each null.
pub fn operations<K, C: Clone>(entry: &Entry<K, C>, version: Version) -> Vec<EntryOperation<C>> {
    operations_by(entry, version, Rules::default())
}

pub(crate) fn operations_by<K, C: Clone>(
    entry: &Entry<K, C>,
    version: Version,
    rules: Rules,
) -> Vec<EntryOperation<C>> {
    let put = EntryOperation::Put {
        stamp: version,
        cells: entry.cells.clone(),
        replaces: !entry.has_nulls,
    };
    if entry.has_nulls && rules.keeps(Rule::NullsRemoved) {
        vec![EntryOperation::Delete(version.before()), put]
    } else {
        vec![put]
    }
}

/// Change as one transaction, for a store with transactions. The store applies the whole
/// transaction if the stored version is `expected`, and nothing otherwise.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Transaction<R, K, C> {
    /// Version that the stored record must have; `None`: no record must exist.
    pub expected: Option<Version>,
    /// Record after the change.
    pub after: ChangedRecord<R>,
    /// View entries to put and to remove, at the new version.
    pub entries: Entries<K, C>,
    /// Unique values that the record reserves after the change.
    pub taken: Vec<EntryKey<K>>,
    /// Unique values that the record had before the change, and no longer has.
    pub released: Vec<EntryKey<K>>,
}

/// Transaction that changes a record of the collection `A`.
pub type TransactionOf<A> =
    Transaction<<A as Arranged>::Record, <A as Arranged>::Key, <A as Arranged>::Cells>;

/// Returns a change as a transaction, which leaves no work for later. So its row needs no tokens,
/// and it removes only entries of the previous version. `now` decides whether a record has expired.
/// `least` is the minimum version. It must exceed the versions of deleted records with the same
/// key, which leave no row.
///
/// # Errors
/// Reason why the request is rejected.
pub fn transaction<A: Arranged>(
    request: &Request<A::Record, A::Patch>,
    row: Option<&RowOf<A>>,
    schema: &A,
    now: Micros,
    least: Version,
) -> Result<TransactionOf<A>, Refusal> {
    let after = decide(request, row, schema, now)?;
    let found = Found {
        row: row.cloned(),
        done: row.map(|row| row.version),
    };
    let next = next_row(&found, after.clone(), schema, Token(0), least.0);
    let mut entries = entries_of(&next, schema, now);
    // On a store with transactions, one clock decides when a record expires. So entries live
    // exactly as long as their record, without extra time for the difference of clocks.
    entries.until = next.expires_at;
    if next.has_expired(now) {
        entries.puts.clear();
    }
    let lives = after.record.as_ref().filter(|_| !next.has_expired(now));
    let taken: Vec<_> = lives.map(|record| schema.claims(record)).unwrap_or_default();
    let before = row.and_then(|row| row.record.as_ref());
    let mut released: Vec<_> = before.map(|record| schema.claims(record)).unwrap_or_default();
    released.retain(|claim| !taken.contains(claim));
    Ok(Transaction {
        expected: row.map(|row| row.version),
        after,
        entries,
        taken,
        released,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::views::row::CLOCKS_APART_MICROS;
    use crate::views::tests::tiny::{BY_PLACE, Tiny, record};

    const SECOND: Micros = 1_000_000;

    fn row(expires_at: Option<Micros>, must_go: &[u8]) -> RowOf<Tiny> {
        let key = |key: &u8| EntryKey {
            view: BY_PLACE,
            key: *key,
        };
        Row {
            tokens: Tokens::pushed(None, Token(1)),
            version: Version(10),
            generation: crate::views::Generation(1),
            record: Some(record(1, None)),
            expires_at,
            must_go: must_go.iter().map(key).collect(),
            claims: RowClaims::NONE,
        }
    }

    fn schema() -> Tiny {
        Tiny::new(1, &[BY_PLACE])
    }

    #[test]
    fn entries_live_for_what_remains() {
        let row = row(Some(5 * SECOND), &[2]);
        let entries = entries_of(&row, &schema(), 3 * SECOND - 1);
        let apart = CLOCKS_APART_MICROS;
        let seconds = entries.ttl_seconds(3 * SECOND - 1);
        assert_eq!((seconds, entries.puts.len()), (Some(3 + 3_600), 1));
        let after = entries_of(&row, &schema(), 4 * SECOND + apart);
        assert_eq!(
            (after.ttl_seconds(4 * SECOND + apart), after.puts.len()),
            (Some(1), 1)
        );
        let over = entries_of(&row, &schema(), 5 * SECOND + apart);
        let removed: Vec<_> = over
            .removals
            .iter()
            .map(|(key, stamp)| (key.key, stamp.0))
            .collect();
        assert_eq!((removed, over.puts.len()), (vec![(2, 10), (1, 9)], 0));
    }

    #[test]
    fn raised_versions_exceed_existing_ones() {
        let row = row(Some(5 * SECOND), &[2]);
        let next = |found: Option<&RowOf<Tiny>>, above| {
            let raise = crate::views::tests::tiny::raise(above);
            let after = decide(&raise, found, &schema(), 7 * SECOND).expect("raised");
            let found = Found {
                row: found.cloned(),
                done: None,
            };
            next_row(&found, after, &schema(), Token(2), 7 * SECOND)
        };
        let raised = next(Some(&row), 9 * SECOND);
        assert_eq!(
            (raised.version, raised.record, raised.expires_at, raised.must_go),
            (
                Version(9 * SECOND + 2),
                row.record,
                row.expires_at,
                row.must_go.clone()
            )
        );
        assert_eq!(next(Some(&row), 0).version, Version(7 * SECOND));
        let absent = next(None, 9 * SECOND);
        assert_eq!((absent.version, absent.record), (Version(9 * SECOND + 2), None));
    }

    #[test]
    fn expired_records_count_as_absent() {
        let row = row(Some(5 * SECOND), &[]);
        let insert = crate::views::tests::tiny::insert(3);
        assert_eq!(
            decide(&insert, Some(&row), &schema(), 5 * SECOND - 1),
            Err(Refusal::Exists(Version(10)))
        );
        assert!(decide(&insert, Some(&row), &schema(), 5 * SECOND).is_ok());
    }

    #[test]
    fn keeps_rows_of_absent_records_for_ten_days() {
        let mut gone = row(None, &[]);
        assert_eq!(gone.ttl_seconds(0), None);
        gone.record = None;
        let days = crate::views::row::ABSENT_ROW_SECONDS as u32;
        assert_eq!(gone.ttl_seconds(20), Some(days));
        gone.version = Version(20 * SECOND);
        assert_eq!(gone.ttl_seconds(0), Some(days + 20));
        let expiring = row(Some(7 * SECOND), &[]);
        assert_eq!(expiring.ttl_seconds(0), Some(days + 7));
    }

    #[test]
    fn nothing_that_ends_is_kept_for_longer_than_a_store_can() {
        let most = Some(MAX_KEPT_SECONDS as u32);
        let mut gone = row(None, &[]);
        gone.record = None;
        gone.version = Version(i64::MAX);
        assert_eq!(gone.ttl_seconds(i64::MIN), most);
        let latest = MAX_KEPT_SECONDS * SECOND;
        let expiring = row(Some(latest), &[]);
        assert_eq!(expiring.ttl_seconds(0), most);
        assert_eq!(entries_of(&expiring, &schema(), 0).ttl_seconds(0), most);
        let put = |at| crate::views::tests::tiny::expiring(3, at);
        assert!(decide(&put(latest), None, &schema(), 0).is_ok());
        let later = decide(&put(latest + 1), None, &schema(), 0);
        assert_eq!(later, Err(Refusal::ExpiresTooLate));
    }

    #[test]
    fn in_a_transaction_entries_live_as_long_as_their_record() {
        let put = crate::views::tests::tiny::expiring(3, 5 * SECOND);
        let of = |now| {
            transaction(&put, None, &schema(), now, Version(now))
                .expect("put")
                .entries
        };
        assert_eq!((of(0).ttl_seconds(0), of(0).puts.len()), (Some(5), 1));
        assert!(of(5 * SECOND).puts.is_empty());
    }

    #[test]
    fn limits_the_keys_to_remove() {
        let many: Vec<u8> = (0..=MAX_MUST_GO as u8).collect();
        let mut found = Found {
            row: Some(row(None, &many)),
            done: None,
        };
        assert!(must_resolve_first(&found, &schema()));
        found.done = Some(Version(10));
        assert!(!must_resolve_first(&found, &schema()));
        found = Found {
            row: Some(row(None, &many[1..])),
            done: None,
        };
        assert!(!must_resolve_first(&found, &schema()));
    }
}
