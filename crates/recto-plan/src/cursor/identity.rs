//! What a cursor is bound to.

use std::fmt;

/// A digest that tells queries apart: the first 16 bytes of a BLAKE3 hash.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Fingerprint([u8; Self::BYTES]);

impl Fingerprint {
    /// How many bytes it has.
    pub const BYTES: usize = 16;

    /// The fingerprint of a list of parts. Each part goes in behind its length (8 bytes, least
    /// significant first), so that other parts of the same bytes have another fingerprint.
    ///
    /// Cursors outlive releases: what the parts of a query are must not change between releases
    /// without need, since every cursor in someone's hands is refused then.
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

    /// The fingerprint of these bytes.
    pub const fn from_bytes(bytes: [u8; Self::BYTES]) -> Self {
        Self(bytes)
    }

    /// Its bytes.
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

/// What a sealed text is bound to.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct QueryIdentity {
    /// Of the collection.
    pub collection: Fingerprint,
    /// Of the query's total order: what it is by, types and directions. In the resume tokens of scans, which
    /// have a store's own order, and in cursors of version 1: of the sort order that is read.
    pub order: Fingerprint,
    /// Of the normalised filter; in cursors of version 1 of the sort, too, which the order says.
    pub query: Fingerprint,
}
