//! What is inside a cursor, in bytes. Only authentic bytes come here.

use recto_model::Cells;

use super::{Fingerprint, OpenedCursor, Position, QueryIdentity, Side};
use crate::plan::Travel;

/// The version of the content's layout.
const CONTENT_VERSION: u8 = 1;

const AFTER: u8 = 1;
const EXPIRES: u8 = 2;
const HAS_BUCKET: u8 = 4;
const BACKWARD: u8 = 8;
const KNOWN_FLAGS: u8 = AFTER | EXPIRES | HAS_BUCKET | BACKWARD;

/// The content of the smallest cursor: version, flags, identity, no cells.
pub(super) const MIN_BYTES: usize = 1 + 1 + 3 * Fingerprint::BYTES + 1;

/// What goes into a cursor.
pub(super) struct Content<'a> {
    pub(super) side: Side,
    pub(super) travel: Travel,
    pub(super) identity: &'a QueryIdentity,
    pub(super) expires_at_seconds: Option<u64>,
    pub(super) cells: &'a Cells,
    pub(super) bucket_hint: Option<&'a [u8]>,
}

/// What an authentic cursor says about itself.
pub(super) struct Found {
    pub(super) identity: QueryIdentity,
    pub(super) expires_at_seconds: Option<u64>,
}

impl Content<'_> {
    /// How many bytes [`write`](Self::write) writes.
    pub(super) fn len(&self) -> usize {
        let cells: usize = self
            .cells
            .iter()
            .map(|cell| cell.map_or(1, |cell| varint_len(cell.len() + 1) + cell.len()))
            .sum();
        MIN_BYTES - 1
            + self.expires_at_seconds.map_or(0, |_| 8)
            + varint_len(self.cells.len())
            + cells
            + self
                .bucket_hint
                .map_or(0, |hint| varint_len(hint.len()) + hint.len())
    }

    /// Writes all of `out`, which is [`len`](Self::len) bytes long.
    pub(super) fn write(&self, out: &mut [u8]) {
        let mut writer = Writer { out, at: 0 };
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
        let identity = self.identity;
        for part in [identity.collection, identity.arrangement, identity.query] {
            writer.bytes(part.as_bytes());
        }
        if let Some(seconds) = self.expires_at_seconds {
            writer.bytes(&seconds.to_be_bytes());
        }
        writer.varint(self.cells.len());
        for cell in self.cells.iter() {
            match cell {
                None => writer.varint(0),
                Some(cell) => {
                    writer.varint(cell.len() + 1);
                    writer.bytes(cell);
                }
            }
        }
        if let Some(hint) = self.bucket_hint {
            writer.varint(hint.len());
            writer.bytes(hint);
        }
        debug_assert_eq!(writer.at, writer.out.len(), "the content fills its space");
    }
}

/// Reads a content; `None` if it is not one of this version.
pub(super) fn read(bytes: &[u8]) -> Option<(Found, OpenedCursor)> {
    let mut reader = Reader { rest: bytes };
    let [version, flags] = reader.array()?;
    if version != CONTENT_VERSION || flags & !KNOWN_FLAGS != 0 {
        return None;
    }
    let identity = QueryIdentity {
        collection: Fingerprint::from_bytes(reader.array()?),
        arrangement: Fingerprint::from_bytes(reader.array()?),
        query: Fingerprint::from_bytes(reader.array()?),
    };
    let expires_at_seconds = if flags & EXPIRES == 0 {
        None
    } else {
        Some(u64::from_be_bytes(reader.array()?))
    };
    let values = reader.cells()?;
    let bucket_hint = if flags & HAS_BUCKET == 0 {
        None
    } else {
        let length = reader.varint()?;
        Some(reader.bytes(length)?.to_vec())
    };
    let side = if flags & AFTER == 0 {
        Side::Before
    } else {
        Side::After
    };
    reader.rest.is_empty().then_some((
        Found {
            identity,
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

struct Writer<'b> {
    out: &'b mut [u8],
    at: usize,
}

impl Writer<'_> {
    fn bytes(&mut self, bytes: &[u8]) {
        self.out[self.at..self.at + bytes.len()].copy_from_slice(bytes);
        self.at += bytes.len();
    }

    /// Seven bits a byte, least significant first; the high bit says that another follows (LEB128).
    fn varint(&mut self, mut value: usize) {
        while value >= 0x80 {
            self.bytes(&[value as u8 | 0x80]);
            value >>= 7;
        }
        self.bytes(&[value as u8]);
    }
}

fn varint_len(value: usize) -> usize {
    (usize::BITS - (value | 1).leading_zeros()).div_ceil(7) as usize
}

/// The most bytes of a length: 28 bits are more than any cursor holds.
const MAX_VARINT_BYTES: usize = 4;

struct Reader<'b> {
    rest: &'b [u8],
}

impl<'b> Reader<'b> {
    fn bytes(&mut self, length: usize) -> Option<&'b [u8]> {
        let (bytes, rest) = self.rest.split_at_checked(length)?;
        self.rest = rest;
        Some(bytes)
    }

    fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (bytes, rest) = self.rest.split_first_chunk()?;
        self.rest = rest;
        Some(*bytes)
    }

    fn varint(&mut self) -> Option<usize> {
        let mut value = 0;
        for index in 0..MAX_VARINT_BYTES {
            let [byte] = self.array()?;
            value |= usize::from(byte & 0x7f) << (7 * index);
            if byte < 0x80 {
                return Some(value);
            }
        }
        None
    }

    fn cells(&mut self) -> Option<Cells> {
        let count = self.varint()?;
        // Each cell takes a byte at least; what remains bounds what is set aside.
        if count > self.rest.len() {
            return None;
        }
        let mut cells = Cells::with_capacity(count, self.rest.len() - count);
        for _ in 0..count {
            match self.varint()? {
                0 => cells.push(None),
                length => cells.push(Some(self.bytes(length - 1)?)),
            }
        }
        Some(cells)
    }
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
                arrangement: one,
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

    #[test]
    fn varints_take_the_length_they_say() {
        for value in [0, 1, 127, 128, 16_383, 16_384, 2_097_151, 2_097_152, 268_435_455] {
            let mut out = [0; 8];
            let mut writer = Writer { out: &mut out, at: 0 };
            writer.varint(value);
            let length = writer.at;
            assert_eq!(length, varint_len(value), "{value}");
            let mut reader = Reader { rest: &out[..length] };
            assert_eq!(reader.varint(), Some(value));
            assert!(reader.rest.is_empty());
        }
        assert_eq!(Reader { rest: &[0x80; 9] }.varint(), None);
    }

    /// Authentic bytes of a later release, or of a faulty one, must not panic either.
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
        for (at, value) in [(0, 0), (0, 2), (1, 0x1f), (1, 0x87)] {
            let mut altered = bytes.clone();
            altered[at] = value;
            assert!(read(&altered).is_none());
        }
    }
}
