//! Whole numbers of any size: how many bytes, then the bytes in two's complement.
//!
//! Of two numbers of one sign the one with more bytes lies further from zero, so the first byte
//! orders numbers of different lengths, and the bytes those of one length.

use super::Reason;
use super::reader::Reader;
use crate::cell::minimal_varint;

/// The first byte of a number that is not negative and has one byte; each further byte adds one.
const POSITIVE: u8 = 0x80;

/// The most bytes that the first byte alone tells.
const MAX_SHORT: usize = 0x78;

/// The first byte of a longer number that is not negative; two bytes of length follow.
const POSITIVE_LONG: u8 = POSITIVE + MAX_SHORT as u8;

/// The first byte of a longer negative number; two bytes of inverted length follow.
const NEGATIVE_LONG: u8 = !POSITIVE_LONG;

/// Appends the component of a varint cell of at most 65,535 bytes.
pub(super) fn encode(cell: &[u8], out: &mut Vec<u8>) {
    let number = minimal_varint(cell);
    let length = number.len();
    // A negative number's head is that of its mirror image, inverted; its bytes rise by themselves.
    let sign = if number[0] >= 0x80 { 0xFF } else { 0x00 };
    if length <= MAX_SHORT {
        out.push((POSITIVE + (length - 1) as u8) ^ sign);
    } else {
        out.push(POSITIVE_LONG ^ sign);
        out.extend((length as u16).to_be_bytes().map(|byte| byte ^ sign));
    }
    out.extend_from_slice(number);
}

/// Appends the cell of a component.
pub(super) fn decode(reader: &mut Reader<'_>, out: &mut Vec<u8>) -> Result<(), Reason> {
    let head = reader.byte()?;
    let sign = if head >= POSITIVE { 0x00 } else { 0xFF };
    let length = match head {
        POSITIVE_LONG | NEGATIVE_LONG => {
            let length = u16::from_be_bytes(reader.array::<2>()?.map(|byte| byte ^ sign)).into();
            if length <= MAX_SHORT {
                return Err("a short number in the long form");
            }
            length
        }
        _ => usize::from((head ^ sign) - POSITIVE) + 1,
    };
    if length > MAX_SHORT && head != POSITIVE_LONG && head != NEGATIVE_LONG {
        return Err("an unknown first byte");
    }
    let start = out.len();
    reader.append(length, out)?;
    let number = &out[start..];
    if (number[0] >= 0x80) != (sign == 0xFF) || minimal_varint(number).len() != length {
        return Err("a number that is not in its shortest form");
    }
    Ok(())
}
