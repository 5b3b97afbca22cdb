//! Encoding of the hidden columns of base rows (rows of a collection's base table) as bytes. See
//! `docs/format.md`, "Hidden columns". Hidden columns that are not here are plain CQL.
//!
//! A decoder accepts only the exact bytes that a writer of a known version produces, so decoding
//! and encoding returns the same bytes.

use std::collections::{BTreeMap, BTreeSet};

use recto_model::Cells;
use recto_model::schema::HEAD_COLUMN;

use crate::views::collection::KeyCells;
use crate::views::row::{EntryKey, Generation, Micros, Row, RowClaims, Token, Tokens, ViewNumber};

/// Format version of `recto_tokens`: the ids of the last conditional writes of a row.
pub const TOKENS_FORMAT_VERSION: u8 = 1;
/// Format version of `recto_head`: the state of a record except its fields, without unique values.
pub const HEAD_FORMAT_VERSION: u8 = 1;
/// Format version of `recto_head` with claims (reserved unique values).
pub const HEAD_WITH_CLAIMS_VERSION: u8 = 2;

/// Maximum size of `recto_head`, in bytes. It suffices for more than two keys in each view of a
/// collection with the maximum number of views, plus the keys that earlier versions had to remove.
pub const MAX_HEAD_BYTES: usize = 2 << 20;

const TOKEN_BYTES: usize = 16;
const COUNT_BYTES: usize = 4;
/// Maximum bytes of the parts of `recto_head` other than keys and claims: version, lifetime, schema
/// id, expiry, and three counts.
const MAX_FIXED_BYTES: usize = 30;
/// Bytes of a claim (reserved unique values): the id of the constraint, and the token.
const HELD_BYTES: usize = 8 + TOKEN_BYTES;
/// Bytes before the cells of an encoded key: the id of its view, and its length.
const KEY_HEADER_BYTES: usize = 12;

const LIVES: u8 = 0;
const DELETED: u8 = 1;
const EXPIRES: u8 = 2;

/// Reason why a hidden column cannot be decoded or encoded.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum StoredError {
    /// The column or row has a format version that this release does not support.
    #[error("{column} has version {version}, which this release does not support")]
    UnknownVersion {
        /// Name of the column or table.
        column: &'static str,
        /// Format version that was read.
        version: i32,
    },
    /// The bytes are not what any release writes.
    #[error("{column} is damaged: {reason}")]
    Damaged {
        /// Name of the column or table.
        column: &'static str,
        /// Fault of the bytes, such as missing bytes.
        reason: &'static str,
    },
    /// The keys to remove from views are too large together for `recto_head`. Only [`Head::encode`]
    /// returns this error.
    #[error("keys of {bytes} bytes must be removed from views; at most {MAX_HEAD_BYTES} are possible")]
    TooLarge {
        /// Size that `recto_head` would have, in bytes.
        bytes: usize,
    },
}

impl StoredError {
    /// Returns advice for the user, in the imperative.
    pub fn hint(&self) -> &'static str {
        match self {
            Self::UnknownVersion { .. } => "use the newer release that wrote it, or a later one",
            Self::Damaged { .. } => {
                "delete the row with CQL, put the record again, then repair its views: another program wrote \
                 to this table"
            }
            Self::TooLarge { .. } => "use smaller values in the fields of the collection's views",
        }
    }

    pub(crate) fn damaged(column: &'static str, reason: &'static str) -> Self {
        Self::Damaged { column, reason }
    }

    /// Returns the error for a version other than the supported one.
    pub(crate) fn of_version(column: &'static str, version: i32) -> Self {
        if version < 1 {
            return Self::damaged(column, "the version is invalid");
        }
        Self::UnknownVersion { column, version }
    }
}

/// Encodes the ids of a row's last conditional writes as a cell of `recto_tokens`.
pub fn encode_tokens(tokens: &Tokens) -> Vec<u8> {
    let tokens = tokens.as_slice();
    let mut bytes = Vec::with_capacity(1 + tokens.len() * TOKEN_BYTES);
    bytes.push(TOKENS_FORMAT_VERSION);
    bytes.extend(tokens.iter().flat_map(|token| token.0.to_be_bytes()));
    bytes
}

/// Decodes a cell of `recto_tokens`: the ids of a row's last conditional writes.
///
/// # Errors
/// The cell has an unsupported format version, or is damaged.
pub fn decode_tokens(cell: &[u8]) -> Result<Tokens, StoredError> {
    const COLUMN: &str = "recto_tokens";
    let tokens = versioned(COLUMN, TOKENS_FORMAT_VERSION, cell)?;
    let (tokens, rest) = tokens.as_chunks();
    let tokens = tokens.iter().map(|token| Token(u128::from_be_bytes(*token)));
    Tokens::new(tokens.collect())
        .filter(|_| rest.is_empty())
        .ok_or(StoredError::damaged(
            COLUMN,
            "it is not a list of one to eight tokens",
        ))
}

/// Existence and expiry of a record.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Life {
    /// The record exists, and never expires.
    Lives,
    /// The record is deleted.
    Deleted,
    /// The record exists until this time.
    Expires(Micros),
}

impl Life {
    /// Returns the time when the record expires; `None` if it never expires, or is deleted.
    pub fn expires_at(self) -> Option<Micros> {
        match self {
            Self::Expires(at) => Some(at),
            Self::Lives | Self::Deleted => None,
        }
    }
}

/// Content of the hidden column `recto_head`: schema, existence, entries to remove, and unique
/// values of a record.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Head {
    /// Id of the schema with which the row was written.
    pub generation: Generation,
    /// Existence and expiry of the record.
    pub life: Life,
    /// Keys of view entries that earlier versions had and this version lacks, so that they must be
    /// removed.
    pub must_go: BTreeSet<EntryKey<KeyCells>>,
    /// Unique values that the record has reserved, and values to release.
    pub claims: RowClaims<KeyCells>,
}

impl Head {
    /// Returns the content of `recto_head` for a base row (row in the base table).
    pub fn of(row: &Row<Cells, KeyCells>) -> Self {
        let life = match (&row.record, row.expires_at) {
            (None, _) => Life::Deleted,
            (Some(_), None) => Life::Lives,
            (Some(_), Some(at)) => Life::Expires(at),
        };
        Self {
            generation: row.generation,
            life,
            must_go: row.must_go.clone(),
            claims: row.claims.clone(),
        }
    }

    /// Encodes the content as a cell of `recto_head`.
    ///
    /// # Errors
    /// [`StoredError::TooLarge`] beyond [`MAX_HEAD_BYTES`]: the caller must not write the row.
    pub fn encode(&self) -> Result<Vec<u8>, StoredError> {
        let RowClaims { held, must_release } = &self.claims;
        let key_bytes = |key: &EntryKey<KeyCells>| KEY_HEADER_BYTES + key.key.as_bytes().len();
        let released = must_release.iter().map(|(key, _)| TOKEN_BYTES + key_bytes(key));
        let keys =
            self.must_go.iter().map(key_bytes).chain(released).sum::<usize>() + held.len() * HELD_BYTES;
        let mut bytes = Vec::with_capacity(MAX_FIXED_BYTES + keys);
        let has_claims = !self.claims.is_none();
        bytes.push(if has_claims {
            HEAD_WITH_CLAIMS_VERSION
        } else {
            HEAD_FORMAT_VERSION
        });
        bytes.push(match self.life {
            Life::Lives => LIVES,
            Life::Deleted => DELETED,
            Life::Expires(_) => EXPIRES,
        });
        bytes.extend_from_slice(&self.generation.0.to_be_bytes());
        if let Life::Expires(at) = self.life {
            bytes.extend_from_slice(&at.to_be_bytes());
        }
        push_count(&mut bytes, self.must_go.len());
        let length = bytes.len() + keys + if has_claims { 2 * COUNT_BYTES } else { 0 };
        if length > MAX_HEAD_BYTES {
            return Err(StoredError::TooLarge { bytes: length });
        }
        self.must_go.iter().for_each(|key| push_key(&mut bytes, key));
        if has_claims {
            push_count(&mut bytes, held.len());
            for (number, token) in held {
                bytes.extend_from_slice(&number.0.to_be_bytes());
                bytes.extend_from_slice(&token.0.to_be_bytes());
            }
            push_count(&mut bytes, must_release.len());
            for (key, token) in must_release {
                push_key(&mut bytes, key);
                bytes.extend_from_slice(&token.0.to_be_bytes());
            }
        }
        Ok(bytes)
    }

    /// Decodes a cell of `recto_head`.
    ///
    /// # Errors
    /// The cell has an unsupported format version, or is damaged.
    pub fn decode(cell: &[u8]) -> Result<Self, StoredError> {
        let damaged = |reason| StoredError::damaged(HEAD_COLUMN, reason);
        if cell.len() > MAX_HEAD_BYTES {
            return Err(damaged("it is too long"));
        }
        let (version, rest) = head(cell)?;
        read_head(rest, version == HEAD_WITH_CLAIMS_VERSION).map_err(damaged)
    }

    /// Decodes only the existence and expiry of the record from a cell of `recto_head`.
    ///
    /// # Errors
    /// The cell has an unsupported format version, or its first bytes are damaged.
    pub fn life(cell: &[u8]) -> Result<Life, StoredError> {
        let (_, mut rest) = head(cell)?;
        let read = read_life(&mut rest);
        let (life, _) = read.map_err(|reason| StoredError::damaged(HEAD_COLUMN, reason))?;
        Ok(life)
    }
}

impl Life {
    /// Returns whether the record exists at `now`, by its expiry.
    pub fn lives_at(self, now: Micros) -> bool {
        match self {
            Self::Lives => true,
            Self::Deleted => false,
            Self::Expires(at) => at > now,
        }
    }
}

const CUT: &str = "bytes are missing";

fn read_life(rest: &mut &[u8]) -> Result<(Life, Generation), &'static str> {
    let [life] = split(rest)?;
    let generation = Generation(u64::from_be_bytes(split(rest)?));
    let life = match life {
        LIVES => Life::Lives,
        DELETED => Life::Deleted,
        EXPIRES => Life::Expires(Micros::from_be_bytes(split(rest)?)),
        _ => return Err("its lifetime is unknown"),
    };
    Ok((life, generation))
}

fn read_head(mut rest: &[u8], has_claims: bool) -> Result<Head, &'static str> {
    let (life, generation) = read_life(&mut rest)?;
    let must_go = read_set(&mut rest, read_key)?;
    let mut claims = RowClaims::NONE;
    if has_claims {
        let held = read_set(&mut rest, |rest| {
            Ok((ViewNumber(u64::from_be_bytes(split(rest)?)), read_token(rest)?))
        })?;
        let count = held.len();
        claims = RowClaims {
            held: BTreeMap::from_iter(held),
            must_release: read_set(&mut rest, |rest| Ok((read_key(rest)?, read_token(rest)?)))?,
        };
        if claims.held.len() != count {
            return Err("it has two claims of one constraint");
        }
        if claims.is_none() {
            return Err("its version is for claims, but it has none");
        }
    }
    if !rest.is_empty() {
        return Err("bytes follow it");
    }
    Ok(Head {
        generation,
        life,
        must_go,
        claims,
    })
}

/// Reads a count, and then this number of items in ascending order.
fn read_set<T: Ord>(
    rest: &mut &[u8],
    read: impl Fn(&mut &[u8]) -> Result<T, &'static str>,
) -> Result<BTreeSet<T>, &'static str> {
    let count = u32::from_be_bytes(split(rest)?);
    let mut all = BTreeSet::new();
    for _ in 0..count {
        let one = read(rest)?;
        if all.last().is_some_and(|last| *last >= one) {
            return Err("its keys are not in order");
        }
        all.insert(one);
    }
    Ok(all)
}

fn read_token(rest: &mut &[u8]) -> Result<Token, &'static str> {
    split(rest).map(|token| Token(u128::from_be_bytes(token)))
}

fn push_count(bytes: &mut Vec<u8>, count: usize) {
    bytes.extend_from_slice(&(count as u32).to_be_bytes());
}

fn push_key(bytes: &mut Vec<u8>, EntryKey { view, key }: &EntryKey<KeyCells>) {
    bytes.extend_from_slice(&view.0.to_be_bytes());
    push_count(bytes, key.as_bytes().len());
    bytes.extend_from_slice(key.as_bytes());
}

fn read_key(rest: &mut &[u8]) -> Result<EntryKey<KeyCells>, &'static str> {
    let view = ViewNumber(u64::from_be_bytes(split(rest)?));
    let length = u32::from_be_bytes(split(rest)?);
    let (key, after) = rest.split_at_checked(length as usize).ok_or(CUT)?;
    *rest = after;
    let key = KeyCells::from_bytes(key).filter(|_| !key.is_empty());
    Ok(EntryKey {
        view,
        key: key.ok_or("it has an invalid key")?,
    })
}

fn split<const N: usize>(rest: &mut &[u8]) -> Result<[u8; N], &'static str> {
    let (bytes, after) = rest.split_first_chunk().ok_or(CUT)?;
    *rest = after;
    Ok(*bytes)
}

/// Checks the format version of a `recto_head`, and returns the version and the following bytes.
fn head(cell: &[u8]) -> Result<(u8, &[u8]), StoredError> {
    let version = cell.first().copied().unwrap_or_default();
    let known = version.clamp(HEAD_FORMAT_VERSION, HEAD_WITH_CLAIMS_VERSION);
    Ok((version, versioned(HEAD_COLUMN, known, cell)?))
}

/// Checks that the format version, the first byte, is `known`. Returns the following bytes.
fn versioned<'c>(column: &'static str, known: u8, cell: &'c [u8]) -> Result<&'c [u8], StoredError> {
    match cell.split_first() {
        None => Err(StoredError::damaged(column, "it is empty")),
        Some((version, rest)) if *version == known => Ok(rest),
        Some((version, _)) => Err(StoredError::of_version(column, i32::from(*version))),
    }
}
