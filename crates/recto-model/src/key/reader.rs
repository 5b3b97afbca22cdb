//! Reader of key components, in ascending or descending direction.

use super::Reason;
use crate::Direction;

/// Error message if the key ends within a component.
const ENDS: Reason = "the key ends within it";

/// Reader of the components of a key. It returns the bytes of a descending component as if it were
/// ascending.
pub(super) struct Reader<'a> {
    rest: &'a [u8],
    /// Mask that is combined with each byte by XOR: 0xFF for descending components, whose bytes are
    /// inverted, otherwise 0.
    mask: u8,
}

impl<'a> Reader<'a> {
    #[inline]
    pub(super) fn new(bytes: &'a [u8], direction: Direction) -> Self {
        let mask = match direction {
            Direction::Ascending => 0x00,
            Direction::Descending => 0xFF,
        };
        Self { rest: bytes, mask }
    }

    /// Returns the bytes that were not read yet, as the key contains them.
    #[inline]
    pub(super) fn rest(&self) -> &'a [u8] {
        self.rest
    }

    #[inline]
    pub(super) fn byte(&mut self) -> Result<u8, Reason> {
        self.array::<1>().map(|[byte]| byte)
    }

    #[inline]
    pub(super) fn array<const N: usize>(&mut self) -> Result<[u8; N], Reason> {
        let (bytes, rest) = self.rest.split_first_chunk::<N>().ok_or(ENDS)?;
        self.rest = rest;
        Ok(bytes.map(|byte| byte ^ self.mask))
    }

    /// Reads the next `length` bytes, and appends them to `out`.
    #[inline]
    pub(super) fn append(&mut self, length: usize, out: &mut Vec<u8>) -> Result<(), Reason> {
        let (bytes, rest) = self.rest.split_at_checked(length).ok_or(ENDS)?;
        self.rest = rest;
        let start = out.len();
        out.extend_from_slice(bytes);
        if self.mask != 0 {
            super::invert(&mut out[start..]);
        }
        Ok(())
    }

    /// Reads the bytes before the next zero byte, appends them to `out`, and skips the zero byte.
    #[inline]
    pub(super) fn append_to_zero(&mut self, out: &mut Vec<u8>) -> Result<(), Reason> {
        let length = memchr::memchr(self.mask, self.rest).ok_or(ENDS)?;
        self.append(length, out)?;
        self.rest = &self.rest[1..];
        Ok(())
    }
}
