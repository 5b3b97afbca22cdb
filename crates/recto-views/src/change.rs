//! What a change makes of a record: its next row, what must come into views, what must go.

use std::collections::BTreeSet;

use crate::arranged::Arranged;
use crate::row::{
    Entry, EntryKey, Found, MAX_MUST_GO, MAX_MUST_GO_BYTES, Micros, Row, Token, Tokens, Version, ceil_seconds,
};
use crate::rules::{Rule, Rules};

/// The row of a collection's record.
pub type RowOf<A> = Row<<A as Arranged>::Record, <A as Arranged>::Key>;
/// What reading a collection's record found.
pub type FoundOf<A> = Found<<A as Arranged>::Record, <A as Arranged>::Key>;
/// What a collection's row asks of its views.
pub type EntriesOf<A> = Entries<<A as Arranged>::Key, <A as Arranged>::Cells>;

/// What is asked to become of a record.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Change<R, P> {
    /// It is put; refused if there is one.
    Insert {
        /// All its fields.
        record: R,
        /// From when on it is gone.
        expires_at: Option<Micros>,
    },
    /// It is put in the place of what is there.
    Put {
        /// All its fields.
        record: R,
        /// From when on it is gone.
        expires_at: Option<Micros>,
    },
    /// Some fields get new values, and it lives as long as it would have; refused if there is none.
    Update(P),
    /// It is deleted. Where there is none, that is written all the same: no earlier write can come after it.
    Delete,
}

/// A change of one record, and on what condition.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Request<R, P> {
    /// What is asked.
    pub change: Change<R, P>,
    /// The version that must be there.
    pub if_version: Option<Version>,
}

/// Why a change is refused. Nothing is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Refusal {
    /// An insert found a record, of this version.
    Exists(Version),
    /// An update found no record.
    Absent,
    /// Another version is there than was asked for; none if there is no record.
    Changed(Option<Version>),
}

/// A record after a change.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct After<R> {
    /// None: it is deleted.
    pub record: Option<R>,
    /// From when on it is gone.
    pub expires_at: Option<Micros>,
}

/// What becomes of a record by a request.
///
/// # Errors
/// Why it is refused.
pub fn decide<A: Arranged>(
    request: &Request<A::Record, A::Patch>,
    row: Option<&RowOf<A>>,
    schema: &A,
    now: Micros,
) -> Result<After<A::Record>, Refusal> {
    let there = row.and_then(|row| row.record_at(now).map(|record| (row, record)));
    let version = there.map(|(row, _)| row.version);
    if request.if_version.is_some() && request.if_version != version {
        return Err(Refusal::Changed(version));
    }
    match (&request.change, there) {
        (Change::Insert { .. }, Some((row, _))) => Err(Refusal::Exists(row.version)),
        (Change::Insert { record, expires_at } | Change::Put { record, expires_at }, _) => Ok(After {
            record: Some(record.clone()),
            expires_at: *expires_at,
        }),
        (Change::Update(_), None) => Err(Refusal::Absent),
        (Change::Update(patch), Some((row, record))) => Ok(After {
            record: Some(schema.patched(record, patch)),
            expires_at: row.expires_at,
        }),
        (Change::Delete, _) => Ok(After {
            record: None,
            expires_at: None,
        }),
    }
}

/// The row that a change puts in the place of what was found.
pub fn next_row<A: Arranged>(
    found: &FoundOf<A>,
    after: After<A::Record>,
    schema: &A,
    token: Token,
    now: Micros,
) -> RowOf<A> {
    next_row_by(found, after, schema, token, now, Rules::default())
}

pub(crate) fn next_row_by<A: Arranged>(
    found: &FoundOf<A>,
    after: After<A::Record>,
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
    Row {
        tokens: Tokens::pushed_by(before.map(|row| &row.tokens), token, rules),
        version: Version::after_by(before.map(|row| row.version), now, rules),
        generation: schema.generation(),
        record: after.record,
        expires_at: after.expires_at,
        must_go,
    }
}

/// The row that a resolver puts in the place of what was found: another token and its own generation, and nothing else
/// changes. Where there was no row, one that says that the record is deleted.
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
        },
    }
}

/// Whether a row has so much to remove that it is resolved before it is changed: each change adds the keys of the
/// version before, and only a mark clears them.
pub fn must_resolve_first<A: Arranged>(found: &FoundOf<A>, schema: &A) -> bool {
    let limit = MAX_MUST_GO.max(2 * schema.view_count());
    let Some(row) = found.row.as_ref().filter(|_| !found.is_done()) else {
        return false;
    };
    let bytes: usize = row.must_go.iter().map(|key| schema.key_bytes(&key.key)).sum();
    row.must_go.len() > limit || bytes > MAX_MUST_GO_BYTES
}

/// What a version asks of the views: written in parallel, plainly, and again until it is done.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Entries<K, C> {
    /// The stamp of what is put.
    pub version: Version,
    /// Entries to remove, each at a stamp.
    pub removals: Vec<(EntryKey<K>, Version)>,
    /// Entries to write, each as [`operations`] says.
    pub puts: Vec<Entry<K, C>>,
    /// How long they live from now, in seconds: what remains to the record.
    pub ttl_seconds: Option<i64>,
}

/// What a row asks of the views of its collection. It is the same whenever it is asked, but for what remains of a
/// record that expires.
///
/// Of one that has expired, what earlier versions had at its own keys is removed, a stamp before its version: another
/// process, whose clock is behind, may have put its entries for as long as they live there.
pub fn entries_of<A: Arranged>(row: &RowOf<A>, schema: &A, now: Micros) -> EntriesOf<A> {
    let mut entries = Entries {
        version: row.version,
        removals: Vec::new(),
        puts: Vec::new(),
        ttl_seconds: row
            .expires_at
            .map(|at| ceil_seconds(at.saturating_sub(now)).max(1)),
    };
    let go = row.must_go.iter().filter(|key| schema.has_view(key.view));
    entries.removals.extend(go.map(|key| (key.clone(), row.version)));
    match &row.record {
        Some(record) if row.has_expired(now) => {
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

/// A plain write to one row of a view.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum EntryOperation<C> {
    /// The row is deleted.
    Delete(Version),
    /// The row is put; with `replaces`, nulls delete.
    Put {
        /// The stamp.
        stamp: Version,
        /// The regular cells but the version, which is the stamp.
        cells: C,
        /// Whether it takes the place of a row that is there.
        replaces: bool,
    },
}

/// How an entry is written, in one mutation of its partition. One with nulls clears the row a stamp earlier: that is
/// one tombstone for the row, and not one for each null.
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

/// A change as one transaction, for a store that has them: all of it if the version that was read is still there.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Transaction<R, K, C> {
    /// The version that must be there; none: no row.
    pub expected: Option<Version>,
    /// The record afterwards; none: it is deleted.
    pub after: After<R>,
    /// What views are to lose and get, at the new version.
    pub entries: Entries<K, C>,
}

/// The transaction of a collection's record.
pub type TransactionOf<A> =
    Transaction<<A as Arranged>::Record, <A as Arranged>::Key, <A as Arranged>::Cells>;

/// A change where the store has transactions. Nothing is left over there, so a row needs no tokens and has nothing to
/// remove but what its last version had.
///
/// # Errors
/// Why it is refused.
pub fn transaction<A: Arranged>(
    request: &Request<A::Record, A::Patch>,
    row: Option<&RowOf<A>>,
    schema: &A,
    now: Micros,
) -> Result<TransactionOf<A>, Refusal> {
    let after = decide(request, row, schema, now)?;
    let found = Found {
        row: row.cloned(),
        done: row.map(|row| row.tokens.newest()),
    };
    let next = next_row(&found, after.clone(), schema, Token(0), now);
    Ok(Transaction {
        expected: row.map(|row| row.version),
        after,
        entries: entries_of(&next, schema, now),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::tiny::{BY_PLACE, Tiny, record};

    const SECOND: Micros = 1_000_000;

    fn row(expires_at: Option<Micros>, must_go: &[u8]) -> RowOf<Tiny> {
        let key = |key: &u8| EntryKey {
            view: BY_PLACE,
            key: *key,
        };
        Row {
            tokens: Tokens::pushed(None, Token(1)),
            version: Version(10),
            generation: crate::Generation(1),
            record: Some(record(1, None)),
            expires_at,
            must_go: must_go.iter().map(key).collect(),
        }
    }

    fn schema() -> Tiny {
        Tiny::new(1, &[BY_PLACE])
    }

    #[test]
    fn entries_live_for_what_remains() {
        let row = row(Some(5 * SECOND), &[2]);
        let entries = entries_of(&row, &schema(), 3 * SECOND - 1);
        assert_eq!((entries.ttl_seconds, entries.puts.len()), (Some(3), 1));
        let over = entries_of(&row, &schema(), 5 * SECOND);
        let removed: Vec<_> = over
            .removals
            .iter()
            .map(|(key, stamp)| (key.key, stamp.0))
            .collect();
        assert_eq!((removed, over.puts.len()), (vec![(2, 10), (1, 9)], 0));
    }

    #[test]
    fn who_has_expired_is_absent() {
        let row = row(Some(5 * SECOND), &[]);
        let insert = crate::tests::tiny::insert(3);
        assert_eq!(
            decide(&insert, Some(&row), &schema(), 5 * SECOND - 1),
            Err(Refusal::Exists(Version(10)))
        );
        assert!(decide(&insert, Some(&row), &schema(), 5 * SECOND).is_ok());
    }

    #[test]
    fn rows_of_the_absent_are_kept_for_ten_days_and_as_far_as_they_are_ahead() {
        let mut gone = row(None, &[]);
        assert_eq!(gone.ttl_seconds(0), None);
        gone.record = None;
        assert_eq!(gone.ttl_seconds(20), Some(crate::row::ABSENT_ROW_SECONDS));
        gone.version = Version(20 * SECOND);
        assert_eq!(gone.ttl_seconds(0), Some(crate::row::ABSENT_ROW_SECONDS + 20));
        let expiring = row(Some(7 * SECOND), &[]);
        assert_eq!(expiring.ttl_seconds(0), Some(crate::row::ABSENT_ROW_SECONDS + 7));
    }

    #[test]
    fn what_must_go_is_bounded() {
        let many: Vec<u8> = (0..=MAX_MUST_GO as u8).collect();
        let mut found = Found {
            row: Some(row(None, &many)),
            done: None,
        };
        assert!(must_resolve_first(&found, &schema()));
        found.done = Some(Token(1));
        assert!(!must_resolve_first(&found, &schema()));
        found = Found {
            row: Some(row(None, &many[1..])),
            done: None,
        };
        assert!(!must_resolve_first(&found, &schema()));
    }
}
