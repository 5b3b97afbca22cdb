//! Integers and decimals of any size, as cells.

use num_bigint::BigInt;

/// Error message for bytes that are not a decimal.
pub(super) const TOO_SHORT: &str = "fewer than four bytes of scale and one of value";

/// Removes redundant sign bytes at the start of an integer in big-endian two's complement. The
/// result is empty only if `bytes` is empty.
#[inline]
pub(crate) fn minimal_varint(bytes: &[u8]) -> &[u8] {
    let mut rest = bytes;
    while let [sign, next, ..] = rest {
        let repeats = (*sign == 0x00 && *next < 0x80) || (*sign == 0xFF && *next >= 0x80);
        if !repeats {
            break;
        }
        rest = &rest[1..];
    }
    rest
}

/// Decodes an integer in big-endian two's complement. Returns `None` if it does not fit into 16
/// bytes.
#[inline]
pub(crate) fn small_integer(bytes: &[u8]) -> Option<i128> {
    let bytes = minimal_varint(bytes);
    let fill = if *bytes.first()? >= 0x80 { 0xFF } else { 0x00 };
    let mut wide = [fill; 16];
    let start = 16_usize.checked_sub(bytes.len())?;
    wide[start..].copy_from_slice(bytes);
    Some(i128::from_be_bytes(wide))
}

/// Parts of a decimal cell. The value is `unscaled` times ten to the power of minus `scale`.
#[derive(Debug, Clone, Copy)]
pub(crate) struct DecimalCell<'a> {
    /// Number of digits after the decimal point. A negative scale is a number of zeros before the
    /// point.
    pub(crate) scale: i32,
    /// Integer in big-endian two's complement. It has at least one byte, and may have redundant sign bytes.
    pub(crate) unscaled: &'a [u8],
}

impl<'a> DecimalCell<'a> {
    /// Splits a decimal cell into its parts, or returns `None` if the cell is too short.
    #[inline]
    pub(crate) fn parse(cell: &'a [u8]) -> Option<Self> {
        let (scale, unscaled) = cell.split_first_chunk::<4>()?;
        if unscaled.is_empty() {
            return None;
        }
        Some(Self {
            scale: i32::from_be_bytes(*scale),
            unscaled,
        })
    }

    /// Appends the canonical cell of the number: without trailing zeros, as far as a 32-bit scale
    /// permits. Zero has scale 0.
    pub(super) fn write_canonical(&self, out: &mut Vec<u8>) {
        if let Some(mut unscaled) = small_integer(self.unscaled) {
            let mut scale = if unscaled == 0 { 0 } else { self.scale };
            while unscaled != 0 && unscaled % 10 == 0 && scale > i32::MIN {
                unscaled /= 10;
                scale -= 1;
            }
            out.extend_from_slice(&scale.to_be_bytes());
            out.extend_from_slice(minimal_varint(&unscaled.to_be_bytes()));
            return;
        }
        let (unscaled, scale) = strip_zeros(BigInt::from_signed_bytes_be(self.unscaled), self.scale);
        out.extend_from_slice(&scale.to_be_bytes());
        out.extend_from_slice(&unscaled.to_signed_bytes_be());
    }
}

/// Divides `unscaled` by ten, and reduces `scale`, as often as the result is an integer and `scale`
/// permits.
///
/// The divisors are powers of ten whose exponents halve at each step, so that removing many zeros
/// takes few divisions.
fn strip_zeros(mut unscaled: BigInt, mut scale: i32) -> (BigInt, i32) {
    // Each factor of ten contains a factor of two, so the number of trailing binary zeros bounds
    // the number of divisions.
    let room = u64::from(scale.abs_diff(i32::MIN));
    let most = unscaled.trailing_zeros().unwrap_or(0).min(room);
    if most == 0 {
        return (unscaled, scale);
    }
    let mut stripped = 0;
    for power in (0..=most.ilog2()).rev() {
        let zeros = 1_u64 << power;
        if stripped + zeros > most {
            continue;
        }
        let divisor = BigInt::from(10).pow(zeros as u32);
        let quotient = &unscaled / &divisor;
        if &quotient * &divisor == unscaled {
            unscaled = quotient;
            scale -= zeros as i32;
            stripped += zeros;
        }
    }
    (unscaled, scale)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn redundant_sign_bytes_go() {
        assert_eq!(minimal_varint(&[0, 0, 0]), [0]);
        assert_eq!(minimal_varint(&[0, 0, 0x80]), [0, 0x80]);
        assert_eq!(minimal_varint(&[0xFF, 0xFF, 0x80]), [0x80]);
        assert_eq!(minimal_varint(&[0xFF, 0x7F]), [0xFF, 0x7F]);
        assert_eq!(small_integer(&[0xFF, 0x7F]), Some(-129));
        assert_eq!(small_integer(&[]), None);
        assert_eq!(small_integer(&[1; 17]), None);
    }

    #[test]
    fn zeros_go_as_far_as_the_scale_allows() {
        let thousand_digits = BigInt::from(7) * BigInt::from(10).pow(1000);
        assert_eq!(strip_zeros(thousand_digits.clone(), 3), (BigInt::from(7), -997));
        let (unscaled, scale) = strip_zeros(thousand_digits, i32::MIN + 999);
        assert_eq!((unscaled, scale), (BigInt::from(70), i32::MIN));
        let mut cell = Vec::new();
        DecimalCell::parse(&[0x80, 0, 0, 0, 100])
            .unwrap()
            .write_canonical(&mut cell);
        assert_eq!(cell, [0x80, 0, 0, 0, 100]);
    }
}
