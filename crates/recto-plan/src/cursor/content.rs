//! Encoding of the content of a cursor. This module sees only bytes that were authenticated.

use recto_model::Cells;

use super::bytes::{Reader, Writer, cells_len, varint_len};
use super::{Fingerprint, OpenedCursor, Position, QueryIdentity, Side};
use crate::plan::Travel;

/// Version of the content that this release writes. Version 1 has the same layout, but contains the
/// fingerprint of the sort order that was read instead of the fingerprint of the query's order.
const CONTENT_VERSION: u8 = 2;
/// Content version 1, in which a cursor is bound to the sort order that was read, not to the
/// query's order.
const BY_SORT_ORDER: u8 = 1;

const AFTER: u8 = 1;
const EXPIRES: u8 = 2;
const HAS_BUCKET: u8 = 4;
const BACKWARD: u8 = 8;
const KNOWN_FLAGS: u8 = AFTER | EXPIRES | HAS_BUCKET | BACKWARD;

/// Length of the shortest content in bytes: version, flags, identity, no cells.
pub(super) const MIN_BYTES: usize = 1 + 1 + 3 * Fingerprint::BYTES + 1;

/// Content of a cursor before it is encrypted.
pub(super) struct Content<'a> {
    pub(super) side: Side,
    pub(super) travel: Travel,
    pub(super) identity: &'a QueryIdentity,
    pub(super) expires_at_seconds: Option<u64>,
    pub(super) cells: &'a Cells,
    pub(super) bucket_hint: Option<&'a [u8]>,
}

/// Part of a decrypted cursor that is compared with the query and the current time before the
/// cursor is used.
#[derive(Debug)]
pub(super) struct Found {
    pub(super) identity: QueryIdentity,
    /// True if the content has version 1, which binds a cursor to the sort order that was read.
    pub(super) is_by_sort_order: bool,
    pub(super) expires_at_seconds: Option<u64>,
}

impl Content<'_> {
    /// Returns the number of bytes that [`write`](Self::write) writes.
    pub(super) fn len(&self) -> usize {
        MIN_BYTES - 1
            + self.expires_at_seconds.map_or(0, |_| 8)
            + cells_len(self.cells)
            + self
                .bucket_hint
                .map_or(0, |hint| varint_len(hint.len()) + hint.len())
    }

    /// Writes the content. `out` must have [`len`](Self::len) bytes.
    pub(super) fn write(&self, out: &mut [u8]) {
        let mut writer = Writer::new(out);
        let mut flags = 0;
        if self.side == Side::After {
            flags |= AFTER;
        }
        if self.travel == Travel::Backward {
            flags |= BACKWARD;
        }
        if self.expires_at_seconds.is_some() {
            flags |= EXPIRES;
        }
        if self.bucket_hint.is_some() {
            flags |= HAS_BUCKET;
        }
        writer.bytes(&[CONTENT_VERSION, flags]);
        writer.identity(self.identity);
        if let Some(seconds) = self.expires_at_seconds {
            writer.bytes(&seconds.to_be_bytes());
        }
        writer.cells(self.cells);
        if let Some(hint) = self.bucket_hint {
            writer.part(hint);
        }
        debug_assert_eq!(writer.left(), 0, "the content has the computed length");
    }
}

/// Reads the decrypted content of a cursor. Returns `None` if its version is unknown or it is
/// malformed.
pub(super) fn read(bytes: &[u8]) -> Option<(Found, OpenedCursor)> {
    let mut reader = Reader::new(bytes);
    let [version, flags] = reader.array()?;
    if !matches!(version, BY_SORT_ORDER | CONTENT_VERSION) || flags & !KNOWN_FLAGS != 0 {
        return None;
    }
    let identity = reader.identity()?;
    let expires_at_seconds = if flags & EXPIRES == 0 {
        None
    } else {
        Some(u64::from_be_bytes(reader.array()?))
    };
    let values = reader.cells()?;
    let bucket_hint = if flags & HAS_BUCKET == 0 {
        None
    } else {
        Some(reader.part()?.to_vec())
    };
    let side = if flags & AFTER == 0 {
        Side::Before
    } else {
        Side::After
    };
    reader.is_at_end().then_some((
        Found {
            identity,
            is_by_sort_order: version == BY_SORT_ORDER,
            expires_at_seconds,
        },
        OpenedCursor {
            position: Position { values, side },
            travel: if flags & BACKWARD == 0 {
                Travel::Forward
            } else {
                Travel::Backward
            },
            bucket_hint,
        },
    ))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    fn written(cells: &Cells) -> Vec<u8> {
        let one = Fingerprint::from_bytes([7; 16]);
        let content = Content {
            side: Side::After,
            travel: Travel::Forward,
            identity: &QueryIdentity {
                collection: one,
                order: one,
                query: one,
            },
            expires_at_seconds: Some(9),
            cells,
            bucket_hint: Some(b"hint"),
        };
        let mut out = vec![0; content.len()];
        content.write(&mut out);
        out
    }

    /// Checks that altered content does not cause a panic. A later or faulty release could write
    /// such content with a valid tag.
    #[test]
    fn any_alteration_is_read_or_refused() {
        let cells: Cells = [Some(&[1; 200][..]), None, Some(b"")].into_iter().collect();
        let bytes = written(&cells);
        assert_eq!(read(&bytes).unwrap().1.position.values, cells);
        for length in 0..bytes.len() {
            assert!(read(&bytes[..length]).is_none(), "cut to {length}");
        }
        assert!(read(&[&bytes[..], &[0]].concat()).is_none());
        for at in 0..bytes.len() {
            for value in 0..=u8::MAX {
                let mut altered = bytes.clone();
                altered[at] = value;
                let _ = read(&altered);
            }
        }
        for (at, value) in [(0, 0), (0, 3), (1, 0x1f), (1, 0x87)] {
            let mut altered = bytes.clone();
            altered[at] = value;
            assert!(read(&altered).is_none());
        }
    }
}
