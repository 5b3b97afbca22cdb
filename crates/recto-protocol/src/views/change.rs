//! Effect of a change on a record: its next row, the entries to put, and the entries to remove.

use std::collections::BTreeSet;

use crate::views::arranged::Arranged;
use crate::views::claimed::next_claims;
use crate::views::misfit::Misfit;
use crate::views::row::{
    Entry, EntryKey, Found, MAX_KEPT_SECONDS, MAX_MUST_GO, MAX_MUST_GO_BYTES, Micros, Row, RowClaims, Token,
    Tokens, Version, ViewNumber, ttl_until,
};
use crate::views::rules::{Rule, Rules};

/// Base row of a record of the collection `A`.
pub type RowOf<A> = Row<<A as Arranged>::Record, <A as Arranged>::Key>;
/// Result of reading the base row of a record of the collection `A`.
pub type FoundOf<A> = Found<<A as Arranged>::Record, <A as Arranged>::Key>;
/// Writes to views that a base row of the collection `A` requires.
pub type EntriesOf<A> = Entries<<A as Arranged>::Key, <A as Arranged>::Cells>;

/// Requested change of a record.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Change<R, P> {
    /// Put a record; rejected if a record exists.
    Insert {
        /// All fields of the record.
        record: R,
        /// Time when the record expires; `None`: never.
        expires_at: Option<Micros>,
    },
    /// Put a record that is copied from another store; rejected if a record exists. The record gets no entry
    /// in a view that it does not fit.
    Copy {
        /// All fields of the record.
        record: R,
        /// Time when the record expires; `None`: never.
        expires_at: Option<Micros>,
    },
    /// Put a record in place of an existing record, if any.
    Put {
        /// All fields of the record.
        record: R,
        /// Time when the record expires; `None`: never.
        expires_at: Option<Micros>,
    },
    /// Put a record of which the writer knows only some fields. An existing record keeps its other fields.
    PutKnown {
        /// New values of the fields that the writer knows.
        known: P,
        /// All fields of the record, for the case that no record exists.
        record: R,
        /// Time when the record expires; `None`: never.
        expires_at: Option<Micros>,
    },
    /// Set some fields to new values, and keep the expiry; rejected if no record exists.
    Update(P),
    /// Delete the record. Even if no record exists, the deletion is written, so that no earlier write can be applied
    /// after it.
    Delete,
    /// Keep the record, but raise its version above the previous version and above this version. The entries are put
    /// again, over any data that another program put at their keys. Even if no record exists, the version is written.
    Raise(Version),
    /// Keep the record and its version, but claim all its unique values again; rejected if no record exists.
    Claim,
}

/// Change of one record, with its condition.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Request<R, P> {
    /// Requested change.
    pub change: Change<R, P>,
    /// Version that must be stored; `None`: any version, or no record.
    pub if_version: Option<Version>,
}

/// Reason why a change is rejected. A rejected change writes nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Refusal {
    /// The change is an insert, and a record of this version exists.
    Exists(Version),
    /// The change is an update, and no record exists.
    Absent,
    /// The stored version is not the required version. The value is the stored version; `None` if there is no record.
    Changed(Option<Version>),
    /// Another record has the values that the record would have for this unique constraint.
    Taken(ViewNumber),
    /// The record does not fit a view that should have it, or its unique values cannot be stored.
    DoesNotFit(Misfit),
    /// The expiry is later than a store can keep data that expires.
    ExpiresTooLate,
}

/// Record after a change, with its expiry and the minimum of its version.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct ChangedRecord<R> {
    /// The record; `None`: it is deleted.
    pub record: Option<R>,
    /// Time when the record expires; `None`: never.
    pub expires_at: Option<Micros>,
    /// Version that the new version must exceed, in addition to the previous version; `None`: no such
    /// version.
    pub above: Option<Version>,
}

impl<R> ChangedRecord<R> {
    /// Result of deleting a record.
    pub(crate) const DELETED: Self = Self {
        record: None,
        expires_at: None,
        above: None,
    };
}

/// Decides whether a request is allowed, and returns the record after the request.
///
/// # Errors
/// The reason why the request is rejected.
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
            // Keep a record that has expired on this clock, too, because it may be alive on other
            // clocks.
            row.map_or((None, None), |row| (row.record.clone(), row.expires_at))
        }
        (Change::Claim, Some((row, record))) => (Some(record.clone()), row.expires_at),
    };
    let after = ChangedRecord {
        record,
        expires_at,
        above,
    };
    // `Raise`, `Claim` and `Copy` accept a record that does not fit some views: the record exists
    // already, here or in another store. It has entries only in the views that it fits.
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

/// Returns the expiry of a record, if a store can keep the record until then.
fn within_a_life(expires_at: Option<Micros>, now: Micros) -> Result<Option<Micros>, Refusal> {
    let latest = now.saturating_add(MAX_KEPT_SECONDS * 1_000_000);
    if expires_at.is_some_and(|at| at > latest) {
        return Err(Refusal::ExpiresTooLate);
    }
    Ok(expires_at)
}

/// Returns the row that a change puts in place of the row that was found.
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

/// Returns the row by which a process that resolves an intent replaces the row that it found. The new row has
/// another token and the generation of the resolving process, and is otherwise the same. If there was no row,
/// the new row is that of a deleted record.
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

/// Returns whether a row must be resolved before it is changed, because it lists too many keys to remove.
/// Each change adds the keys of the previous version to the list, and only the mark `recto_done` clears the
/// list.
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

/// Writes to views that a version requires. They are plain writes, sent in parallel, and each is repeated until it
/// succeeds.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Entries<K, C> {
    /// Write timestamp of the entries to put.
    pub version: Version,
    /// Entries to remove, each with the timestamp of its deletion.
    pub removals: Vec<(EntryKey<K>, Version)>,
    /// Entries to put. [`operations`] returns the operations for each of them.
    pub puts: Vec<Entry<K, C>>,
    /// Claims to release, each with the token with which it was taken.
    pub releases: Vec<(EntryKey<K>, Token)>,
    /// Time until which the entries to put live; `None`: forever.
    pub until: Option<Micros>,
}

impl<K, C> Entries<K, C> {
    /// Returns the lifetime of the entries to put, in seconds; `None`: forever. `now` is the time of sending,
    /// which is read again for each repetition.
    pub fn ttl_seconds(&self, now: Micros) -> Option<u32> {
        ttl_until(self.until, now)
    }
}

/// Returns the writes to views that a row requires.
///
/// The result does not depend on `now` while the entries of the record live, which is until
/// [`entries_until`](Row::entries_until) if the record expires. After that time, the result puts no entries.
/// It removes the entries that earlier versions had at the record's own keys, at the timestamp before the
/// row's version. That timestamp spares entries of this version that another process may have put. They
/// expire by themselves.
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

/// Plain write to one row of a view.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum EntryOperation<C> {
    /// Deletes the row at this timestamp.
    Delete(Version),
    /// Puts the row. With `replaces`, nulls delete cells.
    Put {
        /// Write timestamp of the put.
        stamp: Version,
        /// Cells of the regular columns except the version, whose value is the write timestamp.
        cells: C,
        /// True if the row replaces an existing row, so that nulls delete cells.
        replaces: bool,
    },
}

/// Returns the operations that put an entry, in one mutation of its partition. For an entry with nulls, the
/// first operation clears the row, at the timestamp just before `version`. Clearing makes one tombstone for
/// the row instead of one for each null.
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

/// Change as one transaction, for a store that has transactions. The store applies all of it if the version that was
/// read is still stored, and otherwise nothing.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Transaction<R, K, C> {
    /// Version that must be stored; `None`: no row.
    pub expected: Option<Version>,
    /// Record after the change.
    pub after: ChangedRecord<R>,
    /// Entries to remove from views and to put into views, at the new version.
    pub entries: Entries<K, C>,
    /// Values of unique constraints that the record has afterwards.
    pub taken: Vec<EntryKey<K>>,
    /// Values of unique constraints that the record had before, and does not have afterwards.
    pub released: Vec<EntryKey<K>>,
}

/// Transaction that changes a record of the collection `A`.
pub type TransactionOf<A> =
    Transaction<<A as Arranged>::Record, <A as Arranged>::Key, <A as Arranged>::Cells>;

/// Returns a change as a transaction. A transaction leaves no work for later, so a row needs no tokens, and
/// only the entries of its previous version have to be removed. `now` decides whether a record has expired.
/// `least` is the minimum version. It must be greater than the version of any earlier record with the same
/// key, because a deleted record leaves no row with its version.
///
/// # Errors
/// The reason why the request is rejected.
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
    // On a store with transactions, one clock decides when a record expires. Entries therefore live exactly
    // as long as their record, without a margin for other clocks.
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
