//! Cassandra's varying-length integers. The number of leading one bits of the first byte is the number of
//! bytes that follow.

/// Maximum length in bytes: one byte that contains only the count of following bytes, and eight
/// bytes of value.
const MAX_VINT_BYTES: usize = 9;

/// Appends `value` as a varying-length integer.
pub(super) fn write_unsigned(value: u64, out: &mut Vec<u8>) {
    // The first byte has seven bits of value. Each further byte adds only seven bits, because the
    // first byte then needs one more bit for the count.
    let bits = (u64::BITS - value.leading_zeros()).max(1) as usize;
    let extra = ((bits - 1) / 7).min(MAX_VINT_BYTES - 1);
    let bytes = value.to_be_bytes();
    if extra == MAX_VINT_BYTES - 1 {
        out.push(0xFF);
        out.extend_from_slice(&bytes);
        return;
    }
    let count_bits = !(0xFF_u8 >> extra);
    let tail = &bytes[bytes.len() - extra - 1..];
    out.push(count_bits | tail[0]);
    out.extend_from_slice(&tail[1..]);
}

/// Decodes a varying-length integer, and removes it from the front of `bytes`. Returns `None` if
/// the bytes end within the integer.
pub(super) fn read_unsigned(bytes: &mut &[u8]) -> Option<u64> {
    let (&first, rest) = bytes.split_first()?;
    let extra = first.leading_ones() as usize;
    let (tail, rest) = rest.split_at_checked(extra)?;
    let value_bits = 0xFF_u8.checked_shr(extra as u32 + 1).unwrap_or(0);
    let mut value = u64::from(first & value_bits);
    for &byte in tail {
        value = value << 8 | u64::from(byte);
    }
    *bytes = rest;
    Some(value)
}

/// Appends `value` in zigzag form, in which numbers near zero are short, whatever their sign.
pub(super) fn write_signed(value: i64, out: &mut Vec<u8>) {
    write_unsigned(((value << 1) ^ (value >> 63)).cast_unsigned(), out);
}

/// Decodes an integer in zigzag form, and removes it from the front of `bytes`. Returns `None` if
/// the bytes end within the integer.
pub(super) fn read_signed(bytes: &mut &[u8]) -> Option<i64> {
    let zigzag = read_unsigned(bytes)?;
    Some((zigzag >> 1).cast_signed() ^ -(zigzag & 1).cast_signed())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn lengths_are_those_of_cassandra() {
        for (value, bytes) in [
            (0_u64, &[0x00][..]),
            (127, &[0x7F]),
            (128, &[0x80, 0x80]),
            (16_383, &[0xBF, 0xFF]),
            (16_384, &[0xC0, 0x40, 0x00]),
            (u64::MAX >> 8, &[0xFE, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF]),
            ((u64::MAX >> 8) + 1, &[0xFF, 0x01, 0, 0, 0, 0, 0, 0, 0]),
            (u64::MAX, &[0xFF; 9]),
        ] {
            let mut out = Vec::new();
            write_unsigned(value, &mut out);
            assert_eq!(out, bytes, "{value}");
            assert_eq!(read_unsigned(&mut &out[..]), Some(value));
            assert_eq!(read_unsigned(&mut &out[..out.len() - 1]), None);
        }
    }

    #[test]
    fn every_width_round_trips() {
        for shift in 0..64 {
            for value in [
                1_i64 << shift,
                (1_i64 << shift).wrapping_sub(1),
                -(1_i64 << (shift / 2)),
                i64::MIN,
            ] {
                let mut out = Vec::new();
                write_signed(value, &mut out);
                let mut rest = &out[..];
                assert_eq!(read_signed(&mut rest), Some(value));
                assert!(rest.is_empty());
            }
        }
    }
}
