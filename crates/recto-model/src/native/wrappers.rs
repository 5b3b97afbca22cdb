//! Wrappers for CQL types that share a Rust type with another CQL type: bytes, 7-bit text, version
//! 1 UUIDs.

use std::ops::{Deref, DerefMut};

use uuid::Uuid;

use super::{FieldType, KeyType, malformed, null, scalar};
use crate::Type;
use crate::cell::CellError;
use crate::order::sortable::timeuuid;

/// CQL blob: bytes. A plain `Vec<u8>` would be a CQL list.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Blob(pub Vec<u8>);

impl From<Vec<u8>> for Blob {
    fn from(bytes: Vec<u8>) -> Self {
        Self(bytes)
    }
}

impl From<&[u8]> for Blob {
    fn from(bytes: &[u8]) -> Self {
        Self(bytes.to_vec())
    }
}

impl From<Blob> for Vec<u8> {
    fn from(blob: Blob) -> Self {
        blob.0
    }
}

impl Deref for Blob {
    type Target = Vec<u8>;

    fn deref(&self) -> &Vec<u8> {
        &self.0
    }
}

impl DerefMut for Blob {
    fn deref_mut(&mut self) -> &mut Vec<u8> {
        &mut self.0
    }
}

impl AsRef<[u8]> for Blob {
    fn as_ref(&self) -> &[u8] {
        &self.0
    }
}

impl FieldType for Blob {
    fn field_type() -> Type {
        Type::Blob
    }

    #[inline]
    fn write_cell(&self, out: &mut Vec<u8>) -> Result<bool, CellError> {
        out.extend_from_slice(&self.0);
        Ok(true)
    }

    #[inline]
    fn read_cell(cell: Option<&[u8]>) -> Result<Self, CellError> {
        cell.map(Self::from).ok_or_else(null::<Self>)
    }
}

impl KeyType for Blob {}

/// CQL ascii: text with ASCII characters only.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Ascii(String);

/// Error for text with non-ASCII characters, which a CQL ascii field cannot contain.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the text has non-ASCII characters; use a text field for it")]
pub struct NotAscii;

impl TryFrom<String> for Ascii {
    type Error = NotAscii;

    fn try_from(text: String) -> Result<Self, NotAscii> {
        if text.is_ascii() {
            Ok(Self(text))
        } else {
            Err(NotAscii)
        }
    }
}

impl TryFrom<&str> for Ascii {
    type Error = NotAscii;

    fn try_from(text: &str) -> Result<Self, NotAscii> {
        text.to_owned().try_into()
    }
}

impl From<Ascii> for String {
    fn from(text: Ascii) -> Self {
        text.0
    }
}

impl Deref for Ascii {
    type Target = str;

    fn deref(&self) -> &str {
        &self.0
    }
}

impl std::fmt::Display for Ascii {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

impl FieldType for Ascii {
    fn field_type() -> Type {
        Type::Ascii
    }

    #[inline]
    fn write_cell(&self, out: &mut Vec<u8>) -> Result<bool, CellError> {
        out.extend_from_slice(self.0.as_bytes());
        Ok(true)
    }

    #[inline]
    fn read_cell(cell: Option<&[u8]>) -> Result<Self, CellError> {
        let bytes = cell.ok_or_else(null::<Self>)?;
        let text = std::str::from_utf8(bytes).map_err(|_| malformed::<Self>("not ASCII"))?;
        Self::try_from(text).map_err(|_| malformed::<Self>("a byte above 0x7F"))
    }
}

impl KeyType for Ascii {}

/// CQL timeuuid: a UUID of version 1. Values compare as Cassandra sorts them: by time, then by the
/// other bytes, each as a signed number (CASSANDRA-8730).
///
/// ```
/// # use recto_model::native::TimeUuid;
/// # use uuid::Uuid;
/// // The time's lowest bits are written first.
/// let earlier = Uuid::parse_str("ffffffff-0000-1000-8000-000000000000").unwrap();
/// let later = Uuid::parse_str("00000000-0001-1000-8000-000000000000").unwrap();
/// assert!(earlier > later);
/// assert!(TimeUuid::try_from(earlier).unwrap() < TimeUuid::try_from(later).unwrap());
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct TimeUuid(Uuid);

impl Ord for TimeUuid {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        timeuuid(self.0.into_bytes()).cmp(&timeuuid(other.0.into_bytes()))
    }
}

impl PartialOrd for TimeUuid {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

/// Error for a UUID whose version is not 1, which a CQL timeuuid field cannot contain.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the UUID does not have version 1; use a uuid field for it")]
pub struct NotTimeUuid;

impl TryFrom<Uuid> for TimeUuid {
    type Error = NotTimeUuid;

    fn try_from(uuid: Uuid) -> Result<Self, NotTimeUuid> {
        if uuid.get_version_num() == 1 {
            Ok(Self(uuid))
        } else {
            Err(NotTimeUuid)
        }
    }
}

impl From<TimeUuid> for Uuid {
    fn from(uuid: TimeUuid) -> Self {
        uuid.0
    }
}

impl Deref for TimeUuid {
    type Target = Uuid;

    fn deref(&self) -> &Uuid {
        &self.0
    }
}

impl std::fmt::Display for TimeUuid {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0.fmt(f)
    }
}

impl FieldType for TimeUuid {
    fn field_type() -> Type {
        Type::TimeUuid
    }

    #[inline]
    fn write_cell(&self, out: &mut Vec<u8>) -> Result<bool, CellError> {
        out.extend_from_slice(self.0.as_bytes());
        Ok(true)
    }

    #[inline]
    fn read_cell(cell: Option<&[u8]>) -> Result<Self, CellError> {
        let uuid = scalar::fixed::<Self, 16>(cell).map(Uuid::from_bytes)?;
        Self::try_from(uuid).map_err(|_| malformed::<Self>("a UUID of a version other than 1"))
    }
}

impl KeyType for TimeUuid {}
