//! Encoding of the content of encrypted texts, such as cursors: bytes, lengths, cells, and
//! identities of queries.

use recto_model::Cells;

use super::{Fingerprint, QueryIdentity};

/// Writer into a buffer whose length is exactly the number of bytes to write.
pub(crate) struct Writer<'b> {
    out: &'b mut [u8],
    at: usize,
}

impl<'b> Writer<'b> {
    pub(crate) fn new(out: &'b mut [u8]) -> Self {
        Self { out, at: 0 }
    }

    /// Returns the number of bytes of the buffer that are still unwritten.
    pub(crate) fn left(&self) -> usize {
        self.out.len() - self.at
    }

    pub(crate) fn bytes(&mut self, bytes: &[u8]) {
        self.out[self.at..self.at + bytes.len()].copy_from_slice(bytes);
        self.at += bytes.len();
    }

    /// Writes an integer with seven bits a byte, the least significant bits first. The high bit of a byte
    /// says that another byte follows (LEB128).
    pub(crate) fn varint(&mut self, mut value: usize) {
        while value >= 0x80 {
            self.bytes(&[value as u8 | 0x80]);
            value >>= 7;
        }
        self.bytes(&[value as u8]);
    }

    /// Writes the length of `bytes` as a varint, then the bytes.
    pub(crate) fn part(&mut self, bytes: &[u8]) {
        self.varint(bytes.len());
        self.bytes(bytes);
    }

    /// Writes bytes that may be absent: 0 if they are absent, otherwise their length plus one and the bytes.
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

/// Returns the number of bytes that [`Writer::part`] writes.
pub(crate) fn part_len(bytes: &[u8]) -> usize {
    varint_len(bytes.len()) + bytes.len()
}

/// Returns the number of bytes that [`Writer::optional`] writes.
pub(crate) fn optional_len(bytes: Option<&[u8]>) -> usize {
    bytes.map_or(1, |bytes| varint_len(bytes.len() + 1) + bytes.len())
}

/// Returns the number of bytes that [`Writer::cells`] writes.
pub(crate) fn cells_len(cells: &Cells) -> usize {
    varint_len(cells.len()) + cells.iter().map(optional_len).sum::<usize>()
}

/// Maximum number of bytes that encode a length. Four bytes hold 28 bits, which is more than any encrypted
/// text needs.
const MAX_VARINT_BYTES: usize = 4;

/// Reader of bytes that [`Writer`] wrote. Its functions return `None` if the bytes have another
/// format.
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

    #[allow(clippy::option_option)] // the results: unreadable, absent, present
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
        // Each cell takes at least one byte, so reject a count above the remaining bytes before
        // allocating memory.
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
