//! What is stored of a record: its base row with the hidden columns, and its entries in views.

use std::collections::{BTreeMap, BTreeSet};

use crate::views::rules::{Rule, Rules};

/// How many tokens a row remembers: its own, and those of the versions before.
pub const MAX_TOKENS: usize = 8;
/// How many keys a row may have to remove before it is resolved first; or twice its views, if that is more.
pub const MAX_MUST_GO: usize = 16;

/// How many bytes these keys may have together.
pub const MAX_MUST_GO_BYTES: usize = 64 << 10;

/// Microseconds since 1970, as a wall clock shows them. Nothing is decided by comparing those of two machines, but
/// whether a record has expired.
pub type Micros = i64;

/// A version of a record, and the stamp of all that is written of it to views.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Version(pub Micros);

impl Version {
    /// The version after `before`: at least now, and at least two more, so that between any two there is a stamp.
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

    /// The stamp before it, at which a row is cleared for what this version puts.
    #[must_use]
    pub fn before(self) -> Self {
        Self(self.0.saturating_sub(1))
    }
}

/// The number of a catalog's schema: greater with each change.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Generation(pub u64);

/// The number of a view's table, which never recurs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ViewNumber(pub u64);

/// What a conditional write puts that no other does: random.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Token(pub u128);

/// The tokens of a row, newest first. Conditional writes compare the whole list.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Tokens(Vec<Token>);

impl Tokens {
    /// The list that is stored as `tokens`, newest first; none if there is no token, or there are too many.
    pub fn new(tokens: Vec<Token>) -> Option<Self> {
        (1..=MAX_TOKENS).contains(&tokens.len()).then_some(Self(tokens))
    }

    /// The list after one more.
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

    /// All of them, newest first.
    pub fn as_slice(&self) -> &[Token] {
        &self.0
    }

    /// The token of the version that is there.
    pub fn newest(&self) -> Token {
        self.0[0]
    }

    /// Whether it is remembered that a token was put.
    pub fn contains(&self, token: Token) -> bool {
        self.0.contains(&token)
    }

    /// Whether tokens may have been forgotten. If not, the first one found no row.
    pub fn is_full(&self) -> bool {
        self.0.len() == MAX_TOKENS
    }
}

/// Where an entry stands: in which view's table, and its key there.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct EntryKey<K> {
    /// The view's table.
    pub view: ViewNumber,
    /// The cells of the table's key.
    pub key: K,
}

/// What a view holds of a record, but for the version.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Entry<K, C> {
    /// Where it stands.
    pub key: EntryKey<K>,
    /// The cells of the table's regular columns.
    pub cells: C,
    /// Whether one of them is null.
    pub has_nulls: bool,
}

/// A base row: the columns that only conditional writes touch, all of which each writes.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Row<R, K> {
    /// `recto_tokens`. A row that has none is absent.
    pub tokens: Tokens,
    /// `recto_version`.
    pub version: Version,
    /// By which schema it was written: a writer that knows an older one only must not touch it.
    pub generation: Generation,
    /// The record; none if it is deleted.
    pub record: Option<R>,
    /// From when on there is no record.
    pub expires_at: Option<Micros>,
    /// Keys of entries that earlier versions had and this one has not.
    pub must_go: BTreeSet<EntryKey<K>>,
    /// Its claims.
    pub claims: RowClaims<K>,
}

/// What a row says of its record's claims, where the store has no transactions.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct RowClaims<K> {
    /// The token of each claim that the record has, by the constraint; the values are the record's.
    pub held: BTreeMap<ViewNumber, Token>,
    /// Claims that earlier versions had and this one has not, each with its token.
    pub must_release: BTreeSet<(EntryKey<K>, Token)>,
}

impl<K> RowClaims<K> {
    /// No claims.
    pub const NONE: Self = Self {
        held: BTreeMap::new(),
        must_release: BTreeSet::new(),
    };

    /// Whether there are none.
    pub fn is_none(&self) -> bool {
        self.held.is_empty() && self.must_release.is_empty()
    }
}

impl<R, K> Row<R, K> {
    /// The record, unless it is deleted or has expired.
    pub fn record_at(&self, now: Micros) -> Option<&R> {
        self.record.as_ref().filter(|_| !self.has_expired(now))
    }

    /// Whether its time is over.
    pub fn has_expired(&self, now: Micros) -> bool {
        self.expires_at.is_some_and(|at| at <= now)
    }

    /// Until when its entries live: for as much longer as clocks may be apart. By the base row it is told whether
    /// they still count.
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

    /// How long the base row must be kept, in whole seconds from now; `None`: for ever. One that says
    /// that there is no record is kept for as long as a request of before may still come, and as its version is ahead
    /// of the clock, so that neither the absence of tokens nor a version recurs.
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

/// How long a base row that says that there is no record is kept: ten days.
pub const ABSENT_ROW_SECONDS: i64 = 10 * 24 * 3600;

/// How far clocks may be apart: an hour. A record that expires is in its views for as much longer.
pub const CLOCKS_APART_MICROS: Micros = 3_600 * SECOND;

/// The longest that anything with an end is kept, as in Cassandra: 20 years. What should be kept for longer goes then.
pub const MAX_KEPT_SECONDS: i64 = 630_720_000;

const SECOND: Micros = 1_000_000;

/// So many microseconds in whole seconds, as a store takes them.
fn ttl_of(micros: Micros) -> u32 {
    let seconds = micros.saturating_add(SECOND - 1) / SECOND;
    seconds.clamp(1, MAX_KEPT_SECONDS).unsigned_abs() as u32
}

/// How long what is written now must live to be there until then.
pub fn ttl_until(until: Option<Micros>, now: Micros) -> Option<u32> {
    until.map(|until| ttl_of(until.saturating_sub(now)))
}

/// What reading a record's base row found.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Found<R, K> {
    /// The row; none if it has no tokens.
    pub row: Option<Row<R, K>>,
    /// `recto_done`, which plain writes put: the version whose entries are all written. Whoever replaces the token keeps
    /// version and must-go, so the marks of all tokens of a version say the same.
    pub done: Option<Version>,
}

impl<R, K> Found<R, K> {
    /// No row.
    pub const fn absent() -> Self {
        Self {
            row: None,
            done: None,
        }
    }

    /// Whether all entries of the version that is there are written, so that nothing is left to remove.
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
