//! Stored state of a record: its base row (row in the base table), and its entries (rows in views).

use std::collections::{BTreeMap, BTreeSet};

use crate::views::rules::{Rule, Rules};

/// Maximum number of tokens (ids of conditional writes) that a row remembers, including the newest
/// one.
pub const MAX_TOKENS: usize = 8;
/// Maximum number of view entries and unique values that a row may list for later removal, or twice
/// the number of views, if that is more. The removals of a longer list are executed before the next
/// change of the row.
pub const MAX_MUST_GO: usize = 16;

/// Maximum total size of the keys that a row lists for later removal, in bytes.
pub const MAX_MUST_GO_BYTES: usize = 64 << 10;

/// Time of a wall clock, in microseconds since 1970. The protocol compares times of two machines
/// only to decide whether a record has expired.
pub type Micros = i64;

/// Version of a record, in microseconds since 1970. It is also the write timestamp of the record's
/// view entries.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Version(pub Micros);

impl Version {
    /// Returns the version that follows `before`: at least `now`, and greater than `before` by at
    /// least 2, so that there is a timestamp between any two versions.
    pub fn after(before: Option<Self>, now: Micros) -> Self {
        Self::after_by(before, now, Rules::default())
    }

    pub(crate) fn after_by(before: Option<Self>, now: Micros, rules: Rules) -> Self {
        let gap = if rules.keeps(Rule::VersionGap) { 2 } else { 1 };
        match before {
            Some(Self(before)) if rules.keeps(Rule::VersionsRise) => {
                Self(now.max(before.saturating_add(gap)))
            }
            _ => Self(now),
        }
    }

    /// Returns the timestamp just before the version. A writer clears a view row with it before the
    /// writer puts the cells.
    #[must_use]
    pub fn before(self) -> Self {
        Self(self.0.saturating_sub(1))
    }
}

/// Id of a schema in the catalog. Each change of the schema increases it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Generation(pub u64);

/// Id of the table of a view or of a unique constraint. Ids are never reused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ViewNumber(pub u64);

/// Random id of one conditional write, which the write stores in the row that it changes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Token(pub u128);

/// Tokens (random ids) of the last conditional writes of a row, newest first. Conditional writes
/// compare the whole list.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Tokens(Vec<Token>);

impl Tokens {
    /// Creates a list of tokens (ids of conditional writes), newest first; `None` if there are no
    /// tokens, or more than [`MAX_TOKENS`].
    pub fn new(tokens: Vec<Token>) -> Option<Self> {
        (1..=MAX_TOKENS).contains(&tokens.len()).then_some(Self(tokens))
    }

    /// Returns the list of write ids with `token` in front. A full list loses its oldest one.
    pub fn pushed(before: Option<&Self>, token: Token) -> Self {
        Self::pushed_by(before, token, Rules::default())
    }

    pub(crate) fn pushed_by(before: Option<&Self>, token: Token, rules: Rules) -> Self {
        let remembered = if rules.keeps(Rule::TokensRemembered) {
            MAX_TOKENS
        } else {
            1
        };
        let before = before.iter().flat_map(|before| &before.0).copied();
        Self(std::iter::once(token).chain(before).take(remembered).collect())
    }

    /// Returns all tokens (ids of writes), newest first.
    pub fn as_slice(&self) -> &[Token] {
        &self.0
    }

    /// Returns the token (id) of the last conditional write of the row.
    pub fn newest(&self) -> Token {
        self.0[0]
    }

    /// Returns whether the list contains `token`. A full list may have lost it.
    pub fn contains(&self, token: Token) -> bool {
        self.0.contains(&token)
    }

    /// Returns whether the list is full, so that older tokens (ids of writes) may be lost.
    /// Otherwise, the oldest token is that of the write that created the row.
    pub fn is_full(&self) -> bool {
        self.0.len() == MAX_TOKENS
    }
}

/// Position of a view entry: the table of the view, and a key in that table.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct EntryKey<K> {
    /// Id of the view's table.
    pub view: ViewNumber,
    /// Cells of the entry's key in the view's table.
    pub key: K,
}

/// Entry: the row of a record in the table of a view, without the version.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Entry<K, C> {
    /// View and key of the entry.
    pub key: EntryKey<K>,
    /// Cells of the entry in the regular columns of the view's table.
    pub cells: C,
    /// True if one of the cells is null.
    pub has_nulls: bool,
}

/// Base row of a record: its row in the base table, without the column `recto_done`. Each
/// conditional write sets all of these columns.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Row<R, K> {
    /// Tokens (ids) of the last conditional writes: `recto_tokens`. A row without tokens counts as
    /// absent.
    pub tokens: Tokens,
    /// Version of the record (`recto_version`).
    pub version: Version,
    /// Id of the schema with which the row was written. A writer that knows only older schemas must
    /// not change the row.
    pub generation: Generation,
    /// Values of the record; `None`: the record is deleted.
    pub record: Option<R>,
    /// Time when the record expires; `None`: never.
    pub expires_at: Option<Micros>,
    /// Positions of view entries that earlier versions had and this version lacks, so that they
    /// must be removed.
    pub must_go: BTreeSet<EntryKey<K>>,
    /// Unique values that the record has reserved.
    pub claims: RowClaims<K>,
}

/// Claims (reserved unique values) that the base row of a record lists, on a store without
/// transactions.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct RowClaims<K> {
    /// Token of each claim (reservation of unique values) that the record has, by the id of the
    /// unique constraint. The claimed values are the record's values.
    pub held: BTreeMap<ViewNumber, Token>,
    /// Claims (reserved unique values) that earlier versions of the record had and this version
    /// lacks, so that they must be released, each with its token.
    pub must_release: BTreeSet<(EntryKey<K>, Token)>,
}

impl<K> RowClaims<K> {
    /// No claims (reserved unique values).
    pub const NONE: Self = Self {
        held: BTreeMap::new(),
        must_release: BTreeSet::new(),
    };

    /// Returns whether there are neither claims (reserved unique values) nor releases.
    pub fn is_none(&self) -> bool {
        self.held.is_empty() && self.must_release.is_empty()
    }
}

impl<R, K> Row<R, K> {
    /// Returns the record; `None` if it is deleted, or has expired at `now`.
    pub fn record_at(&self, now: Micros) -> Option<&R> {
        self.record.as_ref().filter(|_| !self.has_expired(now))
    }

    /// Returns whether the record has expired at `now`.
    pub fn has_expired(&self, now: Micros) -> bool {
        self.expires_at.is_some_and(|at| at <= now)
    }

    /// Returns the time when the record's view entries expire: [`CLOCKS_APART_MICROS`] after the
    /// record. Entries outlive their record because readers check expiry in the base row, by clocks
    /// that differ.
    pub fn entries_until(&self) -> Option<Micros> {
        self.entries_until_by(Rules::default())
    }

    pub(crate) fn entries_until_by(&self, rules: Rules) -> Option<Micros> {
        let apart = if rules.keeps(Rule::EntriesOutlive) {
            CLOCKS_APART_MICROS
        } else {
            0
        };
        self.expires_at.map(|at| at.saturating_add(apart))
    }

    /// Returns the remaining lifetime of the base row, in whole seconds from `now`; `None`:
    /// forever.
    ///
    /// The row of a deleted or expired record lives for [`ABSENT_ROW_SECONDS`] more, because an
    /// earlier request may arrive that late. Without the row, its tokens would be lost, and a
    /// version could recur. If the row's version is later than `now` or than the expiry, the row
    /// lives longer by the difference.
    pub fn ttl_seconds(&self, now: Micros) -> Option<u32> {
        let ends = match (&self.record, self.expires_at) {
            (Some(_), None) => return None,
            (Some(_), Some(at)) => at.max(now),
            (None, _) => now,
        };
        let ahead = self.version.0.saturating_sub(ends).max(0);
        let micros = ends.saturating_sub(now).saturating_add(ahead);
        Some(ttl_of(
            micros.saturating_add(ABSENT_ROW_SECONDS.saturating_mul(SECOND)),
        ))
    }
}

/// Time for which the base row of a deleted or expired record is kept, in seconds: ten days.
pub const ABSENT_ROW_SECONDS: i64 = 10 * 24 * 3600;

/// Assumed maximum difference between the clocks of two machines, in microseconds. View entries
/// outlive an expired record by this time.
pub const CLOCKS_APART_MICROS: Micros = 3_600 * SECOND;

/// Maximum lifetime of data that expires, in seconds: 20 years, as in Cassandra. Changes with a
/// later expiry are rejected.
pub const MAX_KEPT_SECONDS: i64 = 630_720_000;

const SECOND: Micros = 1_000_000;

/// Returns a lifetime in whole seconds, rounded up, and clamped to 1 to [`MAX_KEPT_SECONDS`].
fn ttl_of(micros: Micros) -> u32 {
    let seconds = micros.saturating_add(SECOND - 1) / SECOND;
    seconds.clamp(1, MAX_KEPT_SECONDS).unsigned_abs() as u32
}

/// Returns the lifetime, in seconds, of data that is written at `now` and expires at `until`;
/// `None`: forever.
pub fn ttl_until(until: Option<Micros>, now: Micros) -> Option<u32> {
    until.map(|until| ttl_of(until.saturating_sub(now)))
}

/// Result of reading the base row of a record (its row in the base table).
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Found<R, K> {
    /// Base row; `None`: there is no row, or the row has no tokens (ids of writes).
    pub row: Option<Row<R, K>>,
    /// Newest version whose view entries are all written: column `recto_done`, which plain writes
    /// set. A process that only replaces the row's token keeps the version, so the mark stays
    /// valid.
    pub done: Option<Version>,
}

impl<R, K> Found<R, K> {
    /// Returns the result for a record without a base row (row in the base table).
    pub const fn absent() -> Self {
        Self {
            row: None,
            done: None,
        }
    }

    /// Returns whether all view entries of the stored version are written, so that none is left to
    /// put or remove.
    pub fn is_done(&self) -> bool {
        self.is_done_by(Rules::default())
    }

    pub(crate) fn is_done_by(&self, rules: Rules) -> bool {
        match (&self.row, self.done) {
            (Some(row), Some(done)) => done == row.version || !rules.keeps(Rule::DoneByVersion),
            _ => false,
        }
    }
}
