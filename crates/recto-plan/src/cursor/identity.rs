//! Identity of the query to which a cursor is bound.

use std::fmt;

/// Digest that distinguishes queries: the first 16 bytes of a BLAKE3 hash.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Fingerprint([u8; Self::BYTES]);

impl Fingerprint {
    /// Length of a fingerprint, in bytes.
    pub const BYTES: usize = 16;

    /// Returns the fingerprint of a list of byte strings. The hash covers the length of each part
    /// (8 bytes, least significant first) before the part. Dividing the same bytes into other parts
    /// therefore gives another fingerprint.
    ///
    /// Cursors outlive releases. A change of the parts that describe a query would make every
    /// existing cursor invalid, so avoid such changes.
    pub fn of(parts: &[&[u8]]) -> Self {
        let mut hasher = blake3::Hasher::new();
        for part in parts {
            hasher.update(&(part.len() as u64).to_le_bytes());
            hasher.update(part);
        }
        let mut bytes = [0; Self::BYTES];
        bytes.copy_from_slice(&hasher.finalize().as_bytes()[..Self::BYTES]);
        Self(bytes)
    }

    /// Returns the fingerprint with the given bytes, for example as read from a cursor.
    pub const fn from_bytes(bytes: [u8; Self::BYTES]) -> Self {
        Self(bytes)
    }

    /// Returns the fingerprint as bytes, the inverse of [`from_bytes`](Self::from_bytes).
    pub const fn as_bytes(&self) -> &[u8; Self::BYTES] {
        &self.0
    }
}

impl fmt::Display for Fingerprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for Fingerprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Fingerprint({self})")
    }
}

/// Identity of a query, to which a cursor or the resume token of a scan is bound.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct QueryIdentity {
    /// Fingerprint of the name of the collection.
    pub collection: Fingerprint,
    /// Fingerprint of the query's total order: its columns, their types and directions. Resume tokens of
    /// scans and cursors of version 1 have the fingerprint of the sort order that is read instead.
    pub order: Fingerprint,
    /// Fingerprint of the normalized filter. In cursors of version 1, it also covers the sort, which `order`
    /// covers now.
    pub query: Fingerprint,
}
