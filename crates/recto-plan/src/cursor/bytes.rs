//! How the content of sealed texts is laid out: bytes, lengths, cells, what it is bound to.

use recto_model::Cells;

use super::{Fingerprint, QueryIdentity};

/// Writes into a space of the right length.
pub(crate) struct Writer<'b> {
    out: &'b mut [u8],
    at: usize,
}

impl<'b> Writer<'b> {
    pub(crate) fn new(out: &'b mut [u8]) -> Self {
        Self { out, at: 0 }
    }

    /// How much of the space is not written yet.
    pub(crate) fn left(&self) -> usize {
        self.out.len() - self.at
    }

    pub(crate) fn bytes(&mut self, bytes: &[u8]) {
        self.out[self.at..self.at + bytes.len()].copy_from_slice(bytes);
        self.at += bytes.len();
    }

    /// Seven bits a byte, least significant first; the high bit says that another follows (LEB128).
    pub(crate) fn varint(&mut self, mut value: usize) {
        while value >= 0x80 {
            self.bytes(&[value as u8 | 0x80]);
            value >>= 7;
        }
        self.bytes(&[value as u8]);
    }

    /// Bytes behind their length.
    pub(crate) fn part(&mut self, bytes: &[u8]) {
        self.varint(bytes.len());
        self.bytes(bytes);
    }

    /// Bytes that may be absent: 0, or their length and one, and they.
    pub(crate) fn optional(&mut self, bytes: Option<&[u8]>) {
        match bytes {
            None => self.varint(0),
            Some(bytes) => {
                self.varint(bytes.len() + 1);
                self.bytes(bytes);
            }
        }
    }

    pub(crate) fn cells(&mut self, cells: &Cells) {
        self.varint(cells.len());
        cells.iter().for_each(|cell| self.optional(cell));
    }

    pub(crate) fn identity(&mut self, identity: &QueryIdentity) {
        for part in [identity.collection, identity.order, identity.query] {
            self.bytes(part.as_bytes());
        }
    }
}

pub(crate) fn varint_len(value: usize) -> usize {
    (usize::BITS - (value | 1).leading_zeros()).div_ceil(7) as usize
}

/// How many bytes [`Writer::part`] writes.
pub(crate) fn part_len(bytes: &[u8]) -> usize {
    varint_len(bytes.len()) + bytes.len()
}

/// How many bytes [`Writer::optional`] writes.
pub(crate) fn optional_len(bytes: Option<&[u8]>) -> usize {
    bytes.map_or(1, |bytes| varint_len(bytes.len() + 1) + bytes.len())
}

/// How many bytes [`Writer::cells`] writes.
pub(crate) fn cells_len(cells: &Cells) -> usize {
    varint_len(cells.len()) + cells.iter().map(optional_len).sum::<usize>()
}

/// The most bytes of a length: 28 bits are more than any sealed text holds.
const MAX_VARINT_BYTES: usize = 4;

/// Reads what [`Writer`] writes; `None` where it is not that.
pub(crate) struct Reader<'b> {
    rest: &'b [u8],
}

impl<'b> Reader<'b> {
    pub(crate) fn new(bytes: &'b [u8]) -> Self {
        Self { rest: bytes }
    }

    pub(crate) fn rest(&self) -> &'b [u8] {
        self.rest
    }

    pub(crate) fn is_at_end(&self) -> bool {
        self.rest.is_empty()
    }

    pub(crate) fn bytes(&mut self, length: usize) -> Option<&'b [u8]> {
        let (bytes, rest) = self.rest.split_at_checked(length)?;
        self.rest = rest;
        Some(bytes)
    }

    pub(crate) fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (bytes, rest) = self.rest.split_first_chunk()?;
        self.rest = rest;
        Some(*bytes)
    }

    pub(crate) fn varint(&mut self) -> Option<usize> {
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

    pub(crate) fn part(&mut self) -> Option<&'b [u8]> {
        let length = self.varint()?;
        self.bytes(length)
    }

    #[allow(clippy::option_option)] // unreadable, absent, there
    pub(crate) fn optional(&mut self) -> Option<Option<&'b [u8]>> {
        Some(match self.varint()? {
            0 => None,
            length => Some(self.bytes(length - 1)?),
        })
    }

    pub(crate) fn identity(&mut self) -> Option<QueryIdentity> {
        Some(QueryIdentity {
            collection: Fingerprint::from_bytes(self.array()?),
            order: Fingerprint::from_bytes(self.array()?),
            query: Fingerprint::from_bytes(self.array()?),
        })
    }

    pub(crate) fn cells(&mut self) -> Option<Cells> {
        let count = self.varint()?;
        // Each cell takes a byte at least; what remains bounds what is set aside.
        if count > self.rest.len() {
            return None;
        }
        let mut cells = Cells::with_capacity(count, self.rest.len() - count);
        for _ in 0..count {
            cells.push(self.optional()?);
        }
        Some(cells)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

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
}
