//! Key components of integers of any size: the number of bytes, then the bytes in two's complement.
//!
//! If two numbers have the same sign, the number with more bytes has the larger absolute value. The
//! length at the start therefore orders numbers of different lengths, and the following bytes order
//! numbers of equal length.

use super::Reason;
use super::reader::Reader;
use crate::cell::minimal_varint;

/// First byte of a non-negative number of one byte. For each further byte of the number, the first
/// byte is greater by one.
const POSITIVE: u8 = 0x80;

/// Maximum length of a number, in bytes, that the first byte of a component can express.
const MAX_SHORT: usize = 0x78;

/// First byte of a non-negative number of more than [`MAX_SHORT`] bytes. Its length follows in two
/// bytes.
const POSITIVE_LONG: u8 = POSITIVE + MAX_SHORT as u8;

/// First byte of a negative number of more than [`MAX_SHORT`] bytes. Its length follows in two
/// bytes, inverted.
const NEGATIVE_LONG: u8 = !POSITIVE_LONG;

/// Appends the key component of a varint cell of at most 65,535 bytes.
pub(super) fn encode(cell: &[u8], out: &mut Vec<u8>) {
    let number = minimal_varint(cell);
    let length = number.len();
    // Invert the length of a negative number, so that longer negative numbers sort first. The
    // number's own bytes already sort correctly.
    let sign = if number[0] >= 0x80 { 0xFF } else { 0x00 };
    if length <= MAX_SHORT {
        out.push((POSITIVE + (length - 1) as u8) ^ sign);
    } else {
        out.push(POSITIVE_LONG ^ sign);
        out.extend((length as u16).to_be_bytes().map(|byte| byte ^ sign));
    }
    out.extend_from_slice(number);
}

/// Decodes the key component of an integer, and appends its cell to `out`.
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
