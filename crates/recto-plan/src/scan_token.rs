//! Resume tokens of scans: how far a scan of a collection is, sealed so that only that scan goes on.
//!
//! A token holds keys of rows, of rows too that a row filter hides from whoever holds the token. So it
//! is sealed as cursors are, with the same keys, and no cursor opens as a resume token nor the reverse.
//! The bytes are written down in `docs/format.md`, section Resume token.

use recto_model::Environment;

use crate::cursor::bytes::{Reader, Writer, cells_len, optional_len, part_len, varint_len};
use crate::cursor::envelope::{Kind, Unopened, check_identity, check_time};
use crate::cursor::{Fingerprint, KeyRing, Position, QueryIdentity, Side};

/// The longest resume token, in characters.
///
/// A scan of 16 ranges with the longest keys that Cassandra takes (64 KiB of partition key, 64 KiB of
/// clustering columns) stays below it, though the embedded store may make a key twice as long. One of
/// more that does not is an error.
pub const MAX_SCAN_TOKEN_CHARACTERS: usize = 32 << 20;

/// The most ranges in a token.
const MAX_RANGES: usize = 1_024;
/// The first byte of resume tokens; cursors begin with the version of their format.
pub(crate) const MARK: u8 = b'R';
/// The version of the outer bytes: header, algorithm, what is authenticated.
const FORMAT_VERSION: u8 = 1;
/// The version of the content's layout.
const CONTENT_VERSION: u8 = 1;
/// The content's length is a multiple of this: how long a token is says little of how long the keys in
/// it are, which may be of rows that its holder does not see.
const PADDED_BYTES: usize = 256;
/// The content of the smallest token: version, flags, identity, padding.
const MIN_BYTES: usize = PADDED_BYTES;

/// How resume tokens are sealed.
pub(crate) const SCAN_TOKEN: Kind = Kind {
    prefix: &[MARK, FORMAT_VERSION],
    max_characters: MAX_SCAN_TOKEN_CHARACTERS,
    min_content_bytes: MIN_BYTES,
};

const AT_POSITION: u8 = 1;
const EXPIRES: u8 = 2;
const AFTER: u8 = 4;
const KNOWN_FLAGS: u8 = AT_POSITION | EXPIRES | AFTER;

/// How far a scan is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ScanProgress {
    /// It reads whole tables, in the store's own order.
    Ranges {
        /// The kind of store whose order that is.
        store: String,
        /// What is not read to its end.
        ranges: Vec<ScanRange>,
    },
    /// It reads what a plan says, in the plan's order, and goes on from here.
    Position(Position),
}

/// A piece of a table in the store's own order, and how far it is read; all in the store's own form.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ScanRange {
    /// Where it begins; empty for the beginning of the table, and where `after` says more.
    pub start: Vec<u8>,
    /// Where it ends; empty for the end of the table.
    pub end: Vec<u8>,
    /// The last row that was read of it.
    pub after: Option<Vec<u8>>,
}

/// Why a resume token was not made or not opened.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ScanTokenError {
    /// There is no text.
    #[error("the resume token is empty")]
    Empty,
    /// The text is longer than any token.
    #[error(
        "the resume token is {characters} characters long; none is longer than {MAX_SCAN_TOKEN_CHARACTERS}"
    )]
    TooLong {
        /// How long it is.
        characters: usize,
    },
    /// The text is not base64url without padding, or not in its one canonical form.
    #[error("the resume token is not base64url text: character {position} does not belong there")]
    NotBase64 {
        /// The first character that is wrong, counted in bytes from 1.
        position: usize,
    },
    /// The text has a length that no token has.
    #[error("the resume token is not whole: characters are missing, or there is one too many")]
    Truncated,
    /// It is something else: the cursor of a page, or a token made before they were sealed.
    #[error("this is not the resume token of an export or a scan")]
    NotOfScan,
    /// The token says that it is of a format that this release does not know.
    #[error("the resume token is of format {version}, which this release does not know")]
    UnknownFormat {
        /// The version of its format.
        version: u8,
    },
    /// It was not sealed with a key of the ring, or was altered since: these cannot be told apart.
    #[error("the resume token was altered, or was made with a key that is not known here")]
    NotOurs,
    /// It is authentic but holds what this release does not understand.
    #[error("the resume token holds what this release does not understand")]
    UnknownContent,
    /// It was made by a scan of another collection.
    #[error("the resume token is of another collection")]
    OtherCollection,
    /// The collection's key or order was another one.
    #[error("the resume token is of an earlier sort order of the collection")]
    OtherSortOrder,
    /// It was made by a scan of other rows.
    #[error("the resume token is of a scan with another filter, or of other rows than may be seen here")]
    OtherFilter,
    /// It was made on a store of another kind, which has its rows in another order.
    #[error("the resume token is of a scan on another kind of store")]
    OtherStore,
    /// Its time is over.
    #[error("the resume token expired at {expired_at_seconds} (seconds since 1970-01-01T00:00:00Z)")]
    Expired {
        /// The first second in which it no longer opened, since 1970-01-01T00:00:00Z.
        expired_at_seconds: u64,
    },
    /// The keys in it are too large. Only when sealing.
    #[error("keys of {bytes} bytes do not fit in a resume token of {MAX_SCAN_TOKEN_CHARACTERS} characters")]
    TooLarge {
        /// The size it would have, sealed.
        bytes: usize,
    },
}

impl ScanTokenError {
    /// What to do about it.
    pub fn hint(&self) -> &'static str {
        match self {
            Self::Empty => "leave the token out to begin at the beginning",
            Self::TooLong { .. } | Self::NotBase64 { .. } | Self::Truncated => {
                "give the token exactly as the scan gave it: whole, and with nothing before or after it"
            }
            Self::NotOfScan => {
                "give a token that a scan or an export gave. A page's token goes to the list; tokens made before \
                 they were sealed cannot be used: begin at the beginning"
            }
            Self::UnknownFormat { .. } | Self::UnknownContent => {
                "a newer release made it, or it was altered: begin at the beginning, or use that release"
            }
            Self::NotOurs => {
                "begin at the beginning: the key it was made with may have been rotated away since, or it is of \
                 another store"
            }
            Self::OtherCollection => "give it to a scan of the collection that made it",
            Self::OtherSortOrder => "the schema changed: begin at the beginning",
            Self::OtherFilter => "repeat the filter of the scan that made it, with the rights of who made it",
            Self::OtherStore => {
                "each kind of store has an order of its own: begin at the beginning, or go on where it was made"
            }
            Self::Expired { .. } => "begin at the beginning",
            Self::TooLarge { .. } => "read fewer ranges side by side",
        }
    }
}

impl From<Unopened> for ScanTokenError {
    fn from(reason: Unopened) -> Self {
        match reason {
            Unopened::Empty => Self::Empty,
            Unopened::TooLong { characters } => Self::TooLong { characters },
            Unopened::NotBase64 { position } => Self::NotBase64 { position },
            Unopened::Truncated => Self::Truncated,
            Unopened::NotOurs => Self::NotOurs,
            Unopened::OtherCollection => Self::OtherCollection,
            Unopened::OtherSortOrder => Self::OtherSortOrder,
            Unopened::OtherQuery => Self::OtherFilter,
            Unopened::Expired { expired_at_seconds } => Self::Expired { expired_at_seconds },
        }
    }
}

/// Seals how far the scan `identity` is, for it and no other, with the active key of `ring`. From the
/// second `expires_at_seconds` on (since 1970-01-01T00:00:00Z) the token no longer opens; without it,
/// it never expires.
///
/// # Errors
/// [`ScanTokenError::TooLarge`] if the token would be longer than [`MAX_SCAN_TOKEN_CHARACTERS`].
pub fn seal(
    ring: &KeyRing,
    environment: &Environment,
    identity: &QueryIdentity,
    progress: &ScanProgress,
    expires_at_seconds: Option<u64>,
) -> Result<String, ScanTokenError> {
    let content = Content {
        identity,
        progress,
        expires_at_seconds,
    };
    let length = content.len().next_multiple_of(PADDED_BYTES);
    let sealed = SCAN_TOKEN.seal(ring, environment, length, |out| content.write(out));
    sealed.ok_or(ScanTokenError::TooLarge {
        bytes: SCAN_TOKEN.sealed_bytes(length),
    })
}

/// Opens a token that the scan `identity` made, on a store of the kind `store`; a scan that goes on
/// from a position does so on any.
///
/// As with cursors, nothing in it is looked at before it is authenticated, and what it takes does not
/// tell a forged token from an expired one ([`cursor::open`](crate::cursor::open)).
///
/// # Errors
/// [`ScanTokenError`], every variant but [`ScanTokenError::TooLarge`].
pub fn open(
    ring: &KeyRing,
    environment: &Environment,
    text: &str,
    identity: &QueryIdentity,
    store: &str,
) -> Result<ScanProgress, ScanTokenError> {
    SCAN_TOKEN.open(ring, environment, text, check_prefix, |now_seconds, content| {
        let found = read(content).ok_or(ScanTokenError::UnknownContent)?;
        check_identity(&found.identity, identity)?;
        if matches!(&found.progress, ScanProgress::Ranges { store: of, .. } if of != store) {
            return Err(ScanTokenError::OtherStore);
        }
        check_time(found.expires_at_seconds, now_seconds)?;
        Ok(found.progress)
    })
}

fn check_prefix(sealed: &[u8]) -> Result<(), ScanTokenError> {
    match sealed {
        [MARK, FORMAT_VERSION, ..] => Ok(()),
        [MARK, version, ..] => Err(ScanTokenError::UnknownFormat { version: *version }),
        [] | [MARK] => Err(ScanTokenError::Truncated),
        _ => Err(ScanTokenError::NotOfScan),
    }
}

/// What goes into a token.
struct Content<'a> {
    identity: &'a QueryIdentity,
    progress: &'a ScanProgress,
    expires_at_seconds: Option<u64>,
}

/// What an authentic token holds.
struct Found {
    identity: QueryIdentity,
    progress: ScanProgress,
    expires_at_seconds: Option<u64>,
}

impl Content<'_> {
    /// How many bytes [`write`](Self::write) writes before the padding.
    fn len(&self) -> usize {
        let expiry = self.expires_at_seconds.map_or(0, |_| 8);
        let progress = match self.progress {
            ScanProgress::Position(position) => cells_len(&position.values),
            ScanProgress::Ranges { store, ranges } => {
                let of_range = |range: &ScanRange| {
                    part_len(&range.start) + part_len(&range.end) + optional_len(range.after.as_deref())
                };
                part_len(store.as_bytes())
                    + varint_len(ranges.len())
                    + ranges.iter().map(of_range).sum::<usize>()
            }
        };
        2 + 3 * Fingerprint::BYTES + expiry + progress
    }

    /// Writes into `out`, whose end stays zero.
    fn write(&self, out: &mut [u8]) {
        let mut flags = self.expires_at_seconds.map_or(0, |_| EXPIRES);
        if let ScanProgress::Position(position) = self.progress {
            flags |= AT_POSITION;
            if position.side == Side::After {
                flags |= AFTER;
            }
        }
        let mut writer = Writer::new(out);
        writer.bytes(&[CONTENT_VERSION, flags]);
        writer.identity(self.identity);
        if let Some(seconds) = self.expires_at_seconds {
            writer.bytes(&seconds.to_be_bytes());
        }
        match self.progress {
            ScanProgress::Position(position) => writer.cells(&position.values),
            ScanProgress::Ranges { store, ranges } => {
                writer.part(store.as_bytes());
                writer.varint(ranges.len());
                for range in ranges {
                    writer.part(&range.start);
                    writer.part(&range.end);
                    writer.optional(range.after.as_deref());
                }
            }
        }
        debug_assert!(writer.left() < PADDED_BYTES, "no more padding than is needed");
    }
}

/// Reads a content; `None` if it is not one of this version.
fn read(content: &[u8]) -> Option<Found> {
    let mut reader = Reader::new(content);
    let [version, flags] = reader.array()?;
    if version != CONTENT_VERSION || flags & !KNOWN_FLAGS != 0 {
        return None;
    }
    let identity = reader.identity()?;
    let expires_at_seconds = if flags & EXPIRES == 0 {
        None
    } else {
        Some(u64::from_be_bytes(reader.array()?))
    };
    let progress = if flags & AT_POSITION != 0 {
        let side = if flags & AFTER == 0 {
            Side::Before
        } else {
            Side::After
        };
        ScanProgress::Position(Position {
            values: reader.cells()?,
            side,
        })
    } else if flags & AFTER == 0 {
        read_ranges(&mut reader)?
    } else {
        return None;
    };
    let padding = reader.rest();
    let is_padding = padding.len() < PADDED_BYTES && padding.iter().all(|byte| *byte == 0);
    (is_padding && content.len().is_multiple_of(PADDED_BYTES)).then_some(Found {
        identity,
        progress,
        expires_at_seconds,
    })
}

fn read_ranges(reader: &mut Reader<'_>) -> Option<ScanProgress> {
    let store = std::str::from_utf8(reader.part()?).ok()?.to_owned();
    let count = reader.varint()?;
    if count > MAX_RANGES {
        return None;
    }
    let mut ranges = Vec::new();
    for _ in 0..count {
        ranges.push(ScanRange {
            start: reader.part()?.to_vec(),
            end: reader.part()?.to_vec(),
            after: reader.optional()?.map(<[u8]>::to_vec),
        });
    }
    Some(ScanProgress::Ranges { store, ranges })
}
