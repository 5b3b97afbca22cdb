//! Key components of texts and blobs: a zero byte is written as `00 FF`, and `00 00` ends the
//! component.

use super::Reason;
use super::reader::Reader;

/// Byte after a zero byte that is part of the string.
const ESCAPE: u8 = 0xFF;

/// Byte after a zero byte that ends the string. It is less than [`ESCAPE`], so a string sorts
/// before the longer strings that begin with it.
const END: u8 = 0x00;

/// Appends the key component of a text or blob.
#[inline]
pub(super) fn encode(bytes: &[u8], out: &mut Vec<u8>) {
    out.reserve(bytes.len() + 2);
    let mut rest = bytes;
    while let Some(zero) = memchr::memchr(0, rest) {
        out.extend_from_slice(&rest[..=zero]);
        out.push(ESCAPE);
        rest = &rest[zero + 1..];
    }
    out.extend_from_slice(rest);
    out.extend_from_slice(&[0, END]);
}

/// Decodes the key component of a text or blob, and appends its bytes to `out`.
#[inline]
pub(super) fn decode(reader: &mut Reader<'_>, out: &mut Vec<u8>) -> Result<(), Reason> {
    loop {
        reader.append_to_zero(out)?;
        match reader.byte()? {
            END => return Ok(()),
            ESCAPE => out.push(0),
            _ => return Err("a zero byte neither escaped nor at its end"),
        }
    }
}
