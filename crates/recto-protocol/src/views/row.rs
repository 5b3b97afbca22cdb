//! Stored state of a record: its base row with the hidden columns, and its entries in views.

use std::collections::{BTreeMap, BTreeSet};

use crate::views::rules::{Rule, Rules};

/// Maximum number of tokens of a row: its own token, and the tokens of earlier versions.
pub const MAX_TOKENS: usize = 8;
/// Maximum number of view entries and unique values that a row may list for later removal. The limit is twice
/// the number of views, if that is more. A row beyond the limit is resolved (its removals are executed)
/// before it is changed.
pub const MAX_MUST_GO: usize = 16;

/// Maximum total size of the keys that a row lists for later removal, in bytes.
pub const MAX_MUST_GO_BYTES: usize = 64 << 10;

/// Microseconds since 1970, on a wall clock. The protocol compares times of two machines only to decide whether a
/// record has expired.
pub type Micros = i64;

/// Version of a record, and the write timestamp of all its entries in views.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Version(pub Micros);

impl Version {
    /// Returns the version after `before`: at least `now`, and greater by at least two, so that there is a timestamp
    /// between any two versions.
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

    /// Returns the timestamp just before the version. A writer clears a row at this timestamp before it puts the
    /// version's cells.
    #[must_use]
    pub fn before(self) -> Self {
        Self(self.0.saturating_sub(1))
    }
}

/// Number of a schema in the catalog. Each change of the schema has a greater number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Generation(pub u64);

/// Number of a view's table. A number is never used again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ViewNumber(pub u64);

/// Random value that identifies one conditional write. The write puts it into the row that it changes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Token(pub u128);

/// Tokens of the conditional writes that changed a row, newest first. Conditional writes compare the whole
/// list.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Tokens(Vec<Token>);

impl Tokens {
    /// Returns the list of these tokens, newest first; `None` if there is no token, or more than [`MAX_TOKENS`].
    pub fn new(tokens: Vec<Token>) -> Option<Self> {
        (1..=MAX_TOKENS).contains(&tokens.len()).then_some(Self(tokens))
    }

    /// Returns the list with one more token. A full list forgets its oldest token.
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

    /// Returns all tokens, newest first.
    pub fn as_slice(&self) -> &[Token] {
        &self.0
    }

    /// Returns the newest token, which the last conditional write of the row put.
    pub fn newest(&self) -> Token {
        self.0[0]
    }

    /// Returns whether the list contains a token. The list forgets its oldest tokens.
    pub fn contains(&self, token: Token) -> bool {
        self.0.contains(&token)
    }

    /// Returns whether the list is full, so that it may have forgotten older tokens. If it is not full, its
    /// oldest token is the token of the write that created the row.
    pub fn is_full(&self) -> bool {
        self.0.len() == MAX_TOKENS
    }
}

/// Position of an entry: the table of a view, and a key in that table.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct EntryKey<K> {
    /// Number of the view's table.
    pub view: ViewNumber,
    /// Cells of the key in that table.
    pub key: K,
}

/// Entry of a record: its row in the table of a view, without the version.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Entry<K, C> {
    /// View and key of the entry.
    pub key: EntryKey<K>,
    /// Cells of the entry in the regular columns of the view's table.
    pub cells: C,
    /// True if one of the cells is null.
    pub has_nulls: bool,
}

/// Base row of a record: the columns that only conditional writes change. Each conditional write sets all of
/// them.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Row<R, K> {
    /// Tokens of the conditional writes (`recto_tokens`). A row without tokens counts as absent.
    pub tokens: Tokens,
    /// Version of the record (`recto_version`).
    pub version: Version,
    /// Schema with which the row was written. A writer that knows only older schemas must not change the row.
    pub generation: Generation,
    /// Record; `None` if it is deleted.
    pub record: Option<R>,
    /// Time when the record expires; `None`: never.
    pub expires_at: Option<Micros>,
    /// Positions of view entries that earlier versions had and this version does not have. They must be
    /// removed.
    pub must_go: BTreeSet<EntryKey<K>>,
    /// Claims of the record: the unique values that it has reserved.
    pub claims: RowClaims<K>,
}

/// Claims (reserved unique values) that the base row of a record lists, on a store without transactions.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct RowClaims<K> {
    /// Token of each claim that the record has, by the number of the unique constraint. The claimed values
    /// are the record's values.
    pub held: BTreeMap<ViewNumber, Token>,
    /// Claims that earlier versions had and this version does not have, each with its token. They must be
    /// released.
    pub must_release: BTreeSet<(EntryKey<K>, Token)>,
}

impl<K> RowClaims<K> {
    /// Value of a row that lists no claims.
    pub const NONE: Self = Self {
        held: BTreeMap::new(),
        must_release: BTreeSet::new(),
    };

    /// Returns whether the row lists no claims.
    pub fn is_none(&self) -> bool {
        self.held.is_empty() && self.must_release.is_empty()
    }
}

impl<R, K> Row<R, K> {
    /// Returns the record, unless it is deleted or has expired.
    pub fn record_at(&self, now: Micros) -> Option<&R> {
        self.record.as_ref().filter(|_| !self.has_expired(now))
    }

    /// Returns whether the record has expired by the time `now`.
    pub fn has_expired(&self, now: Micros) -> bool {
        self.expires_at.is_some_and(|at| at <= now)
    }

    /// Returns the time until which the view entries live: the expiry of the record plus the maximum
    /// difference between clocks. A reader uses the base row to decide whether the record of an entry has
    /// expired.
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

    /// Returns the number of whole seconds, from `now`, for which the base row must be kept; `None`: forever.
    ///
    /// A deleted or expired record keeps its row for [`ABSENT_ROW_SECONDS`] more, because an earlier request
    /// may arrive that late. If the row's version is later than `now` or than the expiry, the difference is
    /// added. If the row disappeared earlier, its tokens would be lost and a version could recur while such a
    /// request may still arrive.
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

/// Time for which the base row of a deleted record is kept, in seconds: ten days.
pub const ABSENT_ROW_SECONDS: i64 = 10 * 24 * 3600;

/// Maximum difference between the clocks of two machines, in microseconds: an hour. The entries of a record
/// that expires live longer than the record by this time.
pub const CLOCKS_APART_MICROS: Micros = 3_600 * SECOND;

/// Maximum lifetime of data that expires, in seconds: 20 years, as in Cassandra. A change with a later expiry
/// is rejected. A lifetime that exceeds the limit because of added time is clamped to it.
pub const MAX_KEPT_SECONDS: i64 = 630_720_000;

const SECOND: Micros = 1_000_000;

/// Returns a lifetime in whole seconds, rounded up, within the limits of a store.
fn ttl_of(micros: Micros) -> u32 {
    let seconds = micros.saturating_add(SECOND - 1) / SECOND;
    seconds.clamp(1, MAX_KEPT_SECONDS).unsigned_abs() as u32
}

/// Returns the lifetime in seconds with which data that is written `now` lives until `until`; `None`:
/// forever.
pub fn ttl_until(until: Option<Micros>, now: Micros) -> Option<u32> {
    until.map(|until| ttl_of(until.saturating_sub(now)))
}

/// Result of reading the base row of a record.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Found<R, K> {
    /// The row; `None` if it has no tokens.
    pub row: Option<Row<R, K>>,
    /// Version whose entries are all written (`recto_done`, which plain writes set). The mark is valid for
    /// all tokens of a version: a process that only replaces the token keeps the version and the keys to
    /// remove.
    pub done: Option<Version>,
}

impl<R, K> Found<R, K> {
    /// Returns the result for a record without a row.
    pub const fn absent() -> Self {
        Self {
            row: None,
            done: None,
        }
    }

    /// Returns whether all entries of the stored version are written, so that no entry is left to remove.
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
