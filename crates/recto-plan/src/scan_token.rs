//! Resume tokens of scans (checkpoints of exports): the progress of a scan of a collection,
//! encrypted so that only the same scan can continue.
//!
//! A token contains keys of rows, even of rows that a row filter hides from the holder of the
//! token. Tokens are therefore encrypted, with the keys of cursors. No cursor opens as a resume
//! token, and no resume token opens as a cursor. The section Resume token of `docs/format.md`
//! describes the bytes.

use recto_model::Environment;

use crate::cursor::bytes::{Reader, Writer, cells_len, optional_len, part_len, varint_len};
use crate::cursor::envelope::{Kind, Unopened, check_identity, check_time};
use crate::cursor::{Fingerprint, KeyRing, Position, QueryIdentity, Side};

/// Maximum length of a resume token, in characters.
///
/// The limit is large enough for any scan of 16 ranges: even with the longest keys of Cassandra (64
/// KiB of partition key, 64 KiB of clustering columns), and if the embedded store doubles their
/// length. A scan of more ranges fails if its token would be longer.
pub const MAX_SCAN_TOKEN_CHARACTERS: usize = 32 << 20;

/// Maximum number of unfinished table ranges in a resume token.
const MAX_RANGES: usize = 1_024;
/// First byte of resume tokens. Cursors begin with the version of their format instead.
pub(crate) const MARK: u8 = b'R';
/// Version of the outer layout of a resume token: the header, the encryption algorithm and the
/// authenticated bytes.
const FORMAT_VERSION: u8 = 1;
/// Version of the layout of a resume token's encrypted content.
const CONTENT_VERSION: u8 = 1;
/// Unit, in bytes, to which the content of a resume token is padded. The padding hides the exact
/// length of the keys in the token. Such keys can belong to rows that the holder of the token must
/// not see.
const PADDED_BYTES: usize = 256;
/// Length of the shortest content of a resume token, in bytes: one unit of padding.
const MIN_BYTES: usize = PADDED_BYTES;

/// Format of resume tokens: their first bytes, and the limits of their length.
pub(crate) const SCAN_TOKEN: Kind = Kind {
    prefix: &[MARK, FORMAT_VERSION],
    max_characters: MAX_SCAN_TOKEN_CHARACTERS,
    min_content_bytes: MIN_BYTES,
};

const AT_POSITION: u8 = 1;
const EXPIRES: u8 = 2;
const AFTER: u8 = 4;
const KNOWN_FLAGS: u8 = AT_POSITION | EXPIRES | AFTER;

/// Progress of a scan: the part of the data that is not read yet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ScanProgress {
    /// Progress of a scan that reads whole tables, in the order in which the store keeps them.
    Ranges {
        /// Kind of the store that determines the order, such as `embedded`.
        store: String,
        /// Ranges that are not completely read yet.
        ranges: Vec<ScanRange>,
    },
    /// Progress of a scan that reads the rows of a query plan, in the plan's order: the position at
    /// which the scan continues.
    Position(Position),
}

/// Contiguous part of a table in the store's own order, and the progress of a scan in it. Keys are
/// encoded as the store defines.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ScanRange {
    /// Start of the range. Empty for the start of the table, or if `after` is set and makes the
    /// start redundant.
    pub start: Vec<u8>,
    /// End of the range. Empty for the end of the table.
    pub end: Vec<u8>,
    /// Last row of the range that the scan read. `None` if it read no row of the range.
    pub after: Option<Vec<u8>>,
}

/// Reason why a resume token was not created or not opened.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ScanTokenError {
    /// The text is empty.
    #[error("the resume token is empty")]
    Empty,
    /// The text is longer than any resume token.
    #[error("the resume token has {characters} characters; it has at most {MAX_SCAN_TOKEN_CHARACTERS}")]
    TooLong {
        /// Length of the text, in characters.
        characters: usize,
    },
    /// The text is not base64url without padding, or not in its canonical form.
    #[error("the resume token is not base64url text: character {position} is not allowed")]
    NotBase64 {
        /// Position of the first wrong character, counted in bytes from 1.
        position: usize,
    },
    /// The text is too short for a resume token, or it has a length that base64url text cannot have.
    #[error("the resume token is incomplete, or has an extra character")]
    Truncated,
    /// The text is no resume token: it is the cursor of a page, or a token of an old release, whose
    /// tokens were not encrypted.
    #[error("this is not the resume token of an export or a scan")]
    NotOfScan,
    /// The token has a format that this release does not know.
    #[error("the resume token has format {version}, which this release does not support")]
    UnknownFormat {
        /// Version of the token's format.
        version: u8,
    },
    /// The token was altered, or it was encrypted with a key that is not in the key ring. The two
    /// cases cannot be distinguished.
    #[error("the resume token was altered, or was created with an unknown key")]
    NotOurs,
    /// The token is authentic, but this release does not understand its content.
    #[error("the resume token has content that this release does not support")]
    UnknownContent,
    /// A scan of another collection created the token.
    #[error("the resume token belongs to another collection")]
    OtherCollection,
    /// The collection had another key or order when the token was created.
    #[error("the resume token belongs to an earlier sort order of the collection")]
    OtherSortOrder,
    /// A scan with another filter or other visible rows created the token.
    #[error("the resume token belongs to a scan with another filter, or with other visible rows")]
    OtherFilter,
    /// A scan on a store of another kind, which sorts its rows in another order, created the token.
    #[error("the resume token belongs to a scan of another kind of store")]
    OtherStore,
    /// The lifetime of the token has ended.
    #[error("the resume token expired at {expired_at_seconds} (seconds since 1970-01-01T00:00:00Z)")]
    Expired {
        /// First second in which the token no longer opened, as seconds since 1970-01-01T00:00:00Z.
        expired_at_seconds: u64,
    },
    /// The keys in the token are too large. Occurs only when a token is created.
    #[error("keys of {bytes} bytes do not fit into a resume token of {MAX_SCAN_TOKEN_CHARACTERS} characters")]
    TooLarge {
        /// Size that the encrypted token would have, in bytes.
        bytes: usize,
    },
}

impl ScanTokenError {
    /// Returns a hint that says how to resolve the error.
    pub fn hint(&self) -> &'static str {
        match self {
            Self::Empty => "leave the token out to start at the beginning",
            Self::TooLong { .. } | Self::NotBase64 { .. } | Self::Truncated => {
                "pass the token exactly as the scan returned it, without missing or extra characters"
            }
            Self::NotOfScan => {
                "pass a token of a scan or an export, not a page token; unencrypted tokens of old releases \
                 are invalid: start at the beginning"
            }
            Self::UnknownFormat { .. } | Self::UnknownContent => {
                "start at the beginning, or use the newer release that created the token; the token may also \
                 have been altered"
            }
            Self::NotOurs => {
                "start at the beginning: the key may have been removed in a rotation, or belong to another \
                 store"
            }
            Self::OtherCollection => "pass the token to a scan of the same collection",
            Self::OtherSortOrder => "start at the beginning, because the schema changed",
            Self::OtherFilter => "repeat the filter of the scan that created the token, with the same rights",
            Self::OtherStore => {
                "start at the beginning, or continue on the original store: each kind of store has its own \
                 order"
            }
            Self::Expired { .. } => "start at the beginning",
            Self::TooLarge { .. } => "read fewer ranges in parallel",
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

/// Encrypts the progress of the scan `identity` with the active key of `ring`. Only the same scan
/// can open the token. The token stops opening at `expires_at_seconds` (since
/// 1970-01-01T00:00:00Z); `None` means that it never expires.
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

/// Decrypts a token for the scan `identity` on a store of the kind `store`. The same scan must have
/// created the token, on a store of the same kind. Only a scan that continues from a position in a
/// query's order can continue on a store of another kind.
///
/// No code reads the content of a token before it is authenticated. The duration does not
/// distinguish a forged token from an expired one (see [`cursor::open`](crate::cursor::open)).
///
/// # Errors
/// Every variant of [`ScanTokenError`] except [`ScanTokenError::TooLarge`].
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

/// Content of a resume token before it is encrypted.
struct Content<'a> {
    identity: &'a QueryIdentity,
    progress: &'a ScanProgress,
    expires_at_seconds: Option<u64>,
}

/// Content of a token that was authenticated and decrypted.
struct Found {
    identity: QueryIdentity,
    progress: ScanProgress,
    expires_at_seconds: Option<u64>,
}

impl Content<'_> {
    /// Returns the number of bytes that [`write`](Self::write) writes, without the padding.
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

    /// Writes the content into `out`. The padding at the end of `out` stays zero.
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
        debug_assert!(
            writer.left() < PADDED_BYTES,
            "the padding is as small as possible"
        );
    }
}

/// Reads the decrypted content of a resume token. Returns `None` if it has an unknown version or is
/// malformed.
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
