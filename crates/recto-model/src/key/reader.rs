//! Reader of the bytes of a key, in either direction.

use super::Reason;
use crate::Direction;

/// Error message of a component if the key ends within it.
const ENDS: Reason = "the key ends within it";

/// Reader of the components of a key. It returns descending components as if they were ascending.
pub(super) struct Reader<'a> {
    rest: &'a [u8],
    /// Mask that is combined with each byte. 0xFF inverts the bytes of a descending component.
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

    /// Returns the bytes that were not read, as they are in the key.
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

    /// Appends the next `length` bytes to `out`.
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

    /// Appends the bytes before the next zero to `out`, and skips the zero.
    #[inline]
    pub(super) fn append_to_zero(&mut self, out: &mut Vec<u8>) -> Result<(), Reason> {
        let length = memchr::memchr(self.mask, self.rest).ok_or(ENDS)?;
        self.append(length, out)?;
        self.rest = &self.rest[1..];
        Ok(())
    }
}
