//! Cursors: positions between rows, sealed so that only the query that made them can use them.
//!
//! A cursor carries key values, and a page read from an altered one would be a page of somebody
//! else's partition. So it is encrypted and authenticated (XChaCha20-Poly1305: a random nonce of 24
//! bytes needs no counter that several servers would have to share), and nothing inside it is
//! looked at before it is authenticated. The bytes are written down in `docs/format.md`, section
//! Cursor.
//!
//! What the query is stands inside as three fingerprints, so that a cursor given to another query
//! is refused with the reason. Which table is read is not among them: a cursor goes on wherever the
//! query is answered in the same total order.

pub(crate) mod bytes;
mod content;
mod digest;
pub(crate) mod envelope;
mod identity;
mod key_ring;

use std::convert::Infallible;
use std::fmt;
use std::str::FromStr;

use recto_model::{Cells, Environment};
use serde::{Deserialize, Serialize};

pub use identity::{Fingerprint, QueryIdentity};
pub use key_ring::{KeyDescription, KeyRing, KeyRingError, MAX_KEYS};

use crate::plan::Travel;
use crate::{place_token, scan_token};
use content::{Content, Found};
use envelope::{Kind, Unopened, check_identity, check_time};

/// The longest cursor text, in characters.
///
/// Cassandra's limits of 64 KiB for a partition key and 64 KiB for all clustering columns of a row
/// leave every position well below it.
pub const MAX_CURSOR_CHARACTERS: usize = 256 * 1024;

/// The version of the outer bytes: header, algorithm, what is authenticated.
const FORMAT_VERSION: u8 = 1;
/// How cursors are sealed.
const CURSOR: Kind = Kind {
    prefix: &[FORMAT_VERSION],
    max_characters: MAX_CURSOR_CHARACTERS,
    min_content_bytes: content::MIN_BYTES,
};

/// On which side of a row an edge lies, in the query's order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Side {
    /// The edge lies before the row.
    Before,
    /// The edge lies after the row.
    After,
}

/// A place between rows in a query's order. It needs no row to exist there.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Position {
    /// Cells of the query's order columns: all of them, or the first few.
    pub values: Cells,
    /// Whether the edge lies before or after what begins with these cells, in the query's order.
    pub side: Side,
}

/// A sealed cursor: base64url without padding.
///
/// It is text to hand to a client and to take back, also by serde; what it says, only the store that sealed it can
/// read, and whether it is one of the query is found out where a page is asked for.
///
/// ```
/// use recto_plan::cursor::Cursor;
///
/// let kept = "AQ".to_owned();
/// let cursor: Cursor = kept.parse()?;
/// assert_eq!(cursor.as_str(), kept);
/// # Ok::<(), std::convert::Infallible>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Cursor(String);

impl Cursor {
    /// Its text.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Its text.
    pub fn into_string(self) -> String {
        self.0
    }
}

impl fmt::Display for Cursor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl From<String> for Cursor {
    fn from(text: String) -> Self {
        Self(text)
    }
}

impl FromStr for Cursor {
    type Err = Infallible;

    fn from_str(text: &str) -> Result<Self, Infallible> {
        Ok(Self(text.to_owned()))
    }
}

impl From<Cursor> for String {
    fn from(cursor: Cursor) -> Self {
        cursor.0
    }
}

/// What an opened cursor holds.
///
/// The cells are those that were sealed. Who seals them answers for their number and types, since
/// the order's fingerprint names both.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct OpenedCursor {
    /// Where the page goes on.
    pub position: Position,
    /// Which way it goes on.
    pub travel: Travel,
    /// Which bucket the position lay in when it was sealed. A hint: the bucket may be gone.
    pub bucket_hint: Option<Vec<u8>>,
}

/// Why a cursor was not made or not opened.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum CursorError {
    /// There is no text.
    Empty,
    /// The text is longer than any cursor.
    TooLong {
        /// How long it is.
        characters: usize,
    },
    /// The text is not base64url without padding, or not in its one canonical form.
    NotBase64 {
        /// The first character that is wrong, counted in bytes from 1.
        position: usize,
    },
    /// The text has a length that no cursor has.
    Truncated,
    /// The cursor says that it is of a format that this release does not know.
    UnknownFormat {
        /// The version of its format.
        version: u8,
    },
    /// It is the resume token of a scan.
    OfScan,
    /// It was not sealed with a key of the ring, or was altered since: these cannot be told apart.
    NotOurs,
    /// It is authentic but holds what this release does not understand.
    UnknownContent,
    /// It was made by a query of another collection.
    OtherCollection,
    /// It was made when the query was served in another order than any view has now.
    OtherSortOrder,
    /// It was made by a query with another filter or sort.
    OtherQuery,
    /// Its time is over.
    Expired {
        /// The first second in which it no longer opened, since 1970-01-01T00:00:00Z.
        expired_at_seconds: u64,
    },
    /// The position's cells are too large for a cursor. Only when sealing.
    PositionTooLarge {
        /// The size it would have, sealed.
        bytes: usize,
    },
}

/// What a cursor is called by those who are told of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum CursorName {
    /// As the crate calls it.
    Cursor,
    /// As lists call where they go on.
    PageToken,
    /// As lists call where a row stands.
    RowToken,
}

impl fmt::Display for CursorName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Cursor => "cursor",
            Self::PageToken => "page token",
            Self::RowToken => "row token",
        })
    }
}

impl CursorError {
    /// What is wrong, in the words of who calls a cursor that.
    pub fn message(&self, name: CursorName) -> String {
        match self {
            Self::Empty => format!("the {name} is empty"),
            Self::TooLong { characters } => format!(
                "the {name} is {characters} characters long; no {name} is longer than {MAX_CURSOR_CHARACTERS}"
            ),
            Self::NotBase64 { position } => {
                format!("the {name} is not base64url text: character {position} does not belong there")
            }
            Self::Truncated => {
                format!("the {name} is not whole: characters are missing, or there is one too many")
            }
            Self::UnknownFormat { version } => {
                format!("this is no {name} that this release knows: it begins as one of format {version}")
            }
            Self::OfScan => format!("this is the resume token of an export or a scan, not a {name}"),
            Self::NotOurs => format!("the {name} was altered, or was made with a key that is not known here"),
            Self::UnknownContent => format!("the {name} holds what this release does not understand"),
            Self::OtherCollection => format!("the {name} is of another collection"),
            Self::OtherSortOrder => {
                format!("the {name} is of another view, or of an earlier sort order of this view")
            }
            Self::OtherQuery => format!("the {name} is of a query with another filter or sort"),
            Self::Expired { expired_at_seconds } => {
                format!("the {name} expired at {expired_at_seconds} (seconds since 1970-01-01T00:00:00Z)")
            }
            Self::PositionTooLarge { bytes } => format!(
                "a position of {bytes} bytes does not fit in a {name} of {MAX_CURSOR_CHARACTERS} characters"
            ),
        }
    }

    /// What to do about it, in the same words.
    pub fn hint(&self, name: CursorName) -> String {
        match self {
            Self::Empty => format!("leave the {name} out to read from the beginning"),
            Self::TooLong { .. } | Self::NotBase64 { .. } | Self::Truncated => {
                format!("pass a {name} exactly as a page gave it: whole, and with nothing before or after it")
            }
            Self::OfScan => "give it to the export that made it, as its resume token".into(),
            Self::UnknownFormat { .. } => {
                format!("pass a {name} exactly as a page gave it; one that a newer release made needs that release")
            }
            Self::UnknownContent => {
                "a newer release made it, or it was altered: read from the beginning, or use that release".into()
            }
            Self::NotOurs => {
                "read from the beginning: the key it was made with may have been rotated away since, or it is of \
                 another store"
                    .into()
            }
            Self::OtherCollection => {
                format!("use a {name} only with the query that made it: ask the same collection")
            }
            Self::OtherSortOrder => {
                "the schema changed, or the query is served by another view now: read from the beginning".into()
            }
            Self::OtherQuery => format!(
                "use a {name} only with the query that made it: repeat its filter and sort. The page size may change"
            ),
            Self::Expired { .. } => "read from the beginning, or from values that you know".into(),
            Self::PositionTooLarge { .. } => "sort by smaller fields".into(),
        }
    }
}

impl fmt::Display for CursorError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message(CursorName::Cursor))
    }
}

impl std::error::Error for CursorError {}

/// Seals `position`, for the query `identity` and no other, with the active key of `ring`. `travel`
/// is the way in which the cursor leads on from it.
///
/// `bucket_hint` comes back when the cursor is opened. From the second `expires_at_seconds` on
/// (since 1970-01-01T00:00:00Z) the cursor no longer opens; without it, it never expires.
///
/// # Errors
/// [`CursorError::PositionTooLarge`] if the cursor would be longer than
/// [`MAX_CURSOR_CHARACTERS`], which keys within Cassandra's limits never are.
pub fn seal(
    ring: &KeyRing,
    environment: &Environment,
    identity: &QueryIdentity,
    position: &Position,
    travel: Travel,
    bucket_hint: Option<&[u8]>,
    expires_at_seconds: Option<u64>,
) -> Result<Cursor, CursorError> {
    let content = Content {
        side: position.side,
        travel,
        identity,
        expires_at_seconds,
        cells: &position.values,
        bucket_hint,
    };
    let length = content.len();
    let sealed = CURSOR.seal(ring, environment, length, |out| content.write(out));
    sealed.map(Cursor).ok_or(CursorError::PositionTooLarge {
        bytes: CURSOR.sealed_bytes(length),
    })
}

/// The id of the key that a cursor, the resume token of a scan, or the token of a place says it was sealed with; `None` if
/// the text does not begin as one of a known format does. Not authenticated: anybody can write it.
pub fn key_id(text: &str) -> Option<u32> {
    CURSOR
        .key_id(text)
        .or_else(|| scan_token::SCAN_TOKEN.key_id(text))
        .or_else(|| place_token::PLACE_TOKEN.key_id(text))
}

/// Opens a cursor, as far as it can be before it is known for which query: [`AuthenticCursor`].
///
/// **What it takes does not tell a forged cursor from an expired one.** In this order:
///
/// 1. What anybody can see of a text: its length, its alphabet, the version in the clear.
/// 2. The clock is read, for every cursor, whatever becomes of it.
/// 3. The tag is computed over header and ciphertext, as long as the text is, with the key that the
///    header names or, where there is none of that id, with the active one; and compared in constant
///    time (`poly1305` through `subtle`). So how much of a forged tag is right does not show, nor
///    whether a key exists. Until here every cursor of one length takes the same steps.
/// 4. Only an authentic cursor is decrypted, read, compared with the query, and at last with the
///    time. A forged one ends before: what stands in its expiry, fingerprints or cells has no
///    effect on anything, so that neither can be probed by altering a cursor.
///
/// That step 4 takes some time shows whether a cursor is authentic, and no more than the answer says
/// in words: altered, or expired.
///
/// # Errors
/// What is wrong with it whatever the query.
pub fn open(ring: &KeyRing, environment: &Environment, text: &str) -> Result<AuthenticCursor, CursorError> {
    CURSOR.open(ring, environment, text, check_version, |now_seconds, body| {
        let (found, opened) = content::read(body).ok_or(CursorError::UnknownContent)?;
        Ok(AuthenticCursor {
            found,
            opened,
            now_seconds,
        })
    })
}

/// A cursor that was sealed here, of which is not known yet whether it is of the query at hand.
#[derive(Debug)]
pub struct AuthenticCursor {
    found: Found,
    opened: OpenedCursor,
    now_seconds: u64,
}

impl AuthenticCursor {
    /// Whether it is of the query `identity`; `of_version_1` is what a cursor of version 1 was bound to.
    ///
    /// # Errors
    /// It is another's: of which kind.
    pub fn check(
        &self,
        identity: &QueryIdentity,
        of_version_1: impl FnOnce() -> QueryIdentity,
    ) -> Result<(), CursorError> {
        let found = &self.found.identity;
        if self.found.is_by_sort_order {
            return Ok(check_identity(found, &of_version_1())?);
        }
        // Another filter may have another order, too.
        if found.collection == identity.collection && found.query != identity.query {
            return Err(CursorError::OtherQuery);
        }
        Ok(check_identity(found, identity)?)
    }

    /// What it holds, for the query `identity` that made it.
    ///
    /// # Errors
    /// As [`check`](Self::check); or its time is over.
    pub fn bind(
        self,
        identity: &QueryIdentity,
        of_version_1: impl FnOnce() -> QueryIdentity,
    ) -> Result<OpenedCursor, CursorError> {
        self.check(identity, of_version_1)?;
        check_time(self.found.expires_at_seconds, self.now_seconds)?;
        Ok(self.opened)
    }
}

fn check_version(sealed: &[u8]) -> Result<(), CursorError> {
    match *sealed.first().ok_or(CursorError::Truncated)? {
        FORMAT_VERSION => Ok(()),
        scan_token::MARK => Err(CursorError::OfScan),
        version => Err(CursorError::UnknownFormat { version }),
    }
}

impl From<Unopened> for CursorError {
    fn from(reason: Unopened) -> Self {
        match reason {
            Unopened::Empty => Self::Empty,
            Unopened::TooLong { characters } => Self::TooLong { characters },
            Unopened::NotBase64 { position } => Self::NotBase64 { position },
            Unopened::Truncated => Self::Truncated,
            Unopened::NotOurs => Self::NotOurs,
            Unopened::OtherCollection => Self::OtherCollection,
            Unopened::OtherSortOrder => Self::OtherSortOrder,
            Unopened::OtherQuery => Self::OtherQuery,
            Unopened::Expired { expired_at_seconds } => Self::Expired { expired_at_seconds },
        }
    }
}
