//! Cursors: positions between rows, encrypted so that only the query that created them can use them.
//!
//! A cursor contains key values. An altered cursor could return a page of another user's partition. Cursors
//! are therefore encrypted and authenticated with XChaCha20-Poly1305. The random nonce of 24 bytes needs no
//! counter that several servers would have to share. No code reads the content of a cursor before it is
//! authenticated. The section Cursor of `docs/format.md` describes the bytes.
//!
//! A cursor contains three fingerprints of its query: of the collection, the order and the filter. An error
//! can therefore say in which part a query differs from the query of the cursor. The fingerprints do not
//! contain the table that is read: a cursor continues on every table that serves the query in the same total
//! order.

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

/// Maximum length of a cursor text, in characters.
///
/// Cassandra's limits of 64 KiB for a partition key and of 64 KiB for all clustering columns of a row keep
/// every position well below this length.
pub const MAX_CURSOR_CHARACTERS: usize = 256 * 1024;

/// Version of the outer layout of a cursor: the header, the encryption algorithm and the
/// authenticated bytes.
const FORMAT_VERSION: u8 = 1;
/// Format of a cursor: its first bytes, and the limits of its length.
const CURSOR: Kind = Kind {
    prefix: &[FORMAT_VERSION],
    max_characters: MAX_CURSOR_CHARACTERS,
    min_content_bytes: content::MIN_BYTES,
};

/// Side of a row, in the query's order, on which a cursor's position is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Side {
    /// The position is directly before the row.
    Before,
    /// The position is directly after the row.
    After,
}

/// Position between rows in a query's order. A row with the values of the position need not exist.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Position {
    /// Cells (encoded values) of the query's order columns: all of them, or the first few.
    pub values: Cells,
    /// Whether the position is before or after all rows that begin with `values`, in the query's
    /// order.
    pub side: Side,
}

/// Encrypted cursor: base64url without padding.
///
/// An application can give the text to a client and accept it back, also with serde. Only the store that
/// encrypted the cursor can decrypt it. A request for a page checks that the cursor belongs to the query.
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
    /// Returns the text of the cursor.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Returns the text of the cursor.
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

/// Content of a decrypted cursor: where a page continues.
///
/// The position's cells have the number and the types with which the cursor was created. They are
/// not checked again, because the fingerprint of the order covers the columns and their types.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct OpenedCursor {
    /// Position at which the page continues.
    pub position: Position,
    /// Direction in which the page continues.
    pub travel: Travel,
    /// Bucket (part of a large partition) that contained the position when the cursor was created.
    /// The bucket may no longer exist, so this is only a hint.
    pub bucket_hint: Option<Vec<u8>>,
}

/// Reason why a cursor was not created or not opened.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum CursorError {
    /// The text of the cursor is empty.
    Empty,
    /// The text is longer than any cursor.
    TooLong {
        /// Length of the text, in characters.
        characters: usize,
    },
    /// The text is not base64url without padding, or not in its canonical form.
    NotBase64 {
        /// Position of the first wrong character, counted in bytes from 1.
        position: usize,
    },
    /// The text is too short for a cursor, or it has a length that base64url text cannot have.
    Truncated,
    /// The cursor has a format that this release does not know.
    UnknownFormat {
        /// Version of the cursor's format.
        version: u8,
    },
    /// The text is the resume token of a scan, not a cursor.
    OfScan,
    /// The cursor was altered, or it was encrypted with a key that is not in the key ring. The two
    /// cases cannot be distinguished.
    NotOurs,
    /// The cursor is authentic, but this release does not understand its content.
    UnknownContent,
    /// A query of another collection created the cursor.
    OtherCollection,
    /// No view serves the query in the order that the cursor continues.
    OtherSortOrder,
    /// A query with another filter or sort created the cursor.
    OtherQuery,
    /// The lifetime of the cursor has ended.
    Expired {
        /// First second in which the cursor no longer opened, as seconds since
        /// 1970-01-01T00:00:00Z.
        expired_at_seconds: u64,
    },
    /// The encoded position is too large for a cursor. Occurs only when a cursor is created.
    PositionTooLarge {
        /// Size that the encrypted cursor would have, in bytes.
        bytes: usize,
    },
}

/// Word for a cursor in an error message, depending on the interface of the user.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum CursorName {
    /// Word in the messages of the Rust crate.
    Cursor,
    /// Word in messages about a cursor at an edge of a page, which continues after or before that
    /// page.
    PageToken,
    /// Word in messages about the position of a single row.
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
    /// Returns the error message. It calls the cursor by the word `name`.
    pub fn message(&self, name: CursorName) -> String {
        match self {
            Self::Empty => format!("the {name} is empty"),
            Self::TooLong { characters } => format!(
                "the {name} has {characters} characters; a {name} has at most {MAX_CURSOR_CHARACTERS}"
            ),
            Self::NotBase64 { position } => {
                format!("the {name} is not base64url text: character {position} is not allowed")
            }
            Self::Truncated => {
                format!("the {name} is incomplete, or has an extra character")
            }
            Self::UnknownFormat { version } => {
                format!("this release does not know this {name}: it begins like format {version}")
            }
            Self::OfScan => format!("this is the resume token of an export or a scan, not a {name}"),
            Self::NotOurs => format!("the {name} was altered, or was created with an unknown key"),
            Self::UnknownContent => format!("the {name} has content that this release does not support"),
            Self::OtherCollection => format!("the {name} belongs to another collection"),
            Self::OtherSortOrder => {
                format!("the {name} belongs to another view, or to an earlier sort order of this view")
            }
            Self::OtherQuery => format!("the {name} belongs to a query with another filter or sort"),
            Self::Expired { expired_at_seconds } => {
                format!("the {name} expired at {expired_at_seconds} (seconds since 1970-01-01T00:00:00Z)")
            }
            Self::PositionTooLarge { bytes } => format!(
                "a position of {bytes} bytes does not fit into a {name} of {MAX_CURSOR_CHARACTERS} characters"
            ),
        }
    }

    /// Returns a hint on how to fix the error. It calls the cursor by the word `name`.
    pub fn hint(&self, name: CursorName) -> String {
        match self {
            Self::Empty => format!("leave the {name} out to read from the beginning"),
            Self::TooLong { .. } | Self::NotBase64 { .. } | Self::Truncated => {
                format!("pass the {name} exactly as the page had it, without missing or extra characters")
            }
            Self::OfScan => "pass it as the resume token to the export that created it".into(),
            Self::UnknownFormat { .. } => {
                format!(
                    "pass the {name} exactly as the page had it; use the newer release that created it, if \
                     there is one"
                )
            }
            Self::UnknownContent => {
                "read from the beginning, or use the newer release that created it; the token may also have \
                 been altered"
                    .into()
            }
            Self::NotOurs => {
                "read from the beginning: the key may have been removed in a rotation, or belong to another \
                 store"
                    .into()
            }
            Self::OtherCollection => {
                format!("use a {name} only with the query that created it: query the same collection")
            }
            Self::OtherSortOrder => {
                "read from the beginning: the schema changed, or another view now serves the query".into()
            }
            Self::OtherQuery => format!(
                "repeat the filter and the sort of the query that created the {name}. The page size may \
                 change"
            ),
            Self::Expired { .. } => "read from the beginning, or from known values".into(),
            Self::PositionTooLarge { .. } => "sort by fields with smaller values".into(),
        }
    }
}

impl fmt::Display for CursorError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message(CursorName::Cursor))
    }
}

impl std::error::Error for CursorError {}

/// Encrypts `position`, for the query `identity` only, with the active key of `ring`. `travel` is the
/// direction in which the cursor continues.
///
/// `bucket_hint` is stored in the cursor and returned when it is opened. The cursor stops opening
/// at `expires_at_seconds` (since 1970-01-01T00:00:00Z). `None` means that it never expires.
///
/// # Errors
/// [`CursorError::PositionTooLarge`] if the cursor would be longer than [`MAX_CURSOR_CHARACTERS`]. Keys
/// within Cassandra's limits never cause this error.
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

/// Returns the key id in the header of a cursor, of the resume token of a scan, or of a place token. `None`
/// if the text does not begin like a known format. The id is not authenticated: anybody can write it.
pub fn key_id(text: &str) -> Option<u32> {
    CURSOR
        .key_id(text)
        .or_else(|| scan_token::SCAN_TOKEN.key_id(text))
        .or_else(|| place_token::PLACE_TOKEN.key_id(text))
}

/// Decrypts a cursor before its query is known. [`AuthenticCursor`] then compares it with the
/// query.
///
/// **The duration does not distinguish a forged cursor from an expired one.** The steps, in this order:
///
/// 1. Check the public properties of the text: its length, its alphabet, the version in the clear.
/// 2. Read the clock, for every cursor, regardless of the outcome.
/// 3. Compute the tag over the header and the ciphertext, which are the whole text. Use the key that the
///    header names, or the active key if the ring has no key of that id. Compare the tag in constant time
///    (`poly1305` through `subtle`). The duration therefore does not show how much of a forged tag is right,
///    nor whether a key exists. Up to this point, every cursor of one length takes the same steps.
/// 4. Only an authentic cursor is decrypted, read, compared with the query, and finally compared with the
///    time. A forged cursor is rejected before this step. Its expiry, fingerprints and cells have no effect,
///    so no client can probe them by altering a cursor.
///
/// The time of step 4 shows whether a cursor is authentic. It shows no more than the error message, which
/// says "altered" or "expired".
///
/// # Errors
/// A [`CursorError`] that does not depend on the query, such as [`CursorError::NotOurs`].
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

/// Cursor that this store encrypted, and that has not been compared with a query yet.
#[derive(Debug)]
pub struct AuthenticCursor {
    found: Found,
    opened: OpenedCursor,
    now_seconds: u64,
}

impl AuthenticCursor {
    /// Checks that the cursor belongs to the query `identity`. `of_version_1` returns the identity of the
    /// same query in the form that cursors of version 1 contain.
    ///
    /// # Errors
    /// The cursor belongs to another query. The error says how the queries differ.
    pub fn check(
        &self,
        identity: &QueryIdentity,
        of_version_1: impl FnOnce() -> QueryIdentity,
    ) -> Result<(), CursorError> {
        let found = &self.found.identity;
        if self.found.is_by_sort_order {
            return Ok(check_identity(found, &of_version_1())?);
        }
        // Compare the filters first, because another filter can also lead to another order. The
        // error should name the cause.
        if found.collection == identity.collection && found.query != identity.query {
            return Err(CursorError::OtherQuery);
        }
        Ok(check_identity(found, identity)?)
    }

    /// Returns the content of the cursor. Checks before that the cursor belongs to the query
    /// `identity`, and that its lifetime has not ended.
    ///
    /// # Errors
    /// The errors of [`check`](Self::check), and [`CursorError::Expired`].
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
