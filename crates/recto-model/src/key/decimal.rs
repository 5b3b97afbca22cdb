//! Key components of decimals of any size: sign and exponent, then digits in base 100.
//!
//! A number other than zero is ±0.D1D2D3… times 100 to the power of the exponent. Each D is from 0 to 99, and
//! neither the first nor the last D is zero. Each number therefore has one form, which does not depend on its
//! scale. The component of a negative number is the component of its absolute value with every byte inverted.

use num_bigint::{BigInt, BigUint, Sign};

use super::Reason;
use super::reader::Reader;
use crate::cell::{DecimalCell, minimal_varint, small_integer};

/// Component of zero. The first byte of a negative number is less, the first byte of a positive
/// number is greater.
const ZERO: u8 = 0x80;

/// First byte of a positive number with exponent 0. Greater exponents have greater first bytes.
const EXPONENT_ZERO: u8 = 0xC0;

/// Maximum absolute value of an exponent that the first byte alone can express.
const MAX_SHORT_EXPONENT: i64 = 40;

/// First byte of a positive number whose exponent is above [`MAX_SHORT_EXPONENT`]. The exponent
/// follows in four bytes.
const EXPONENT_ABOVE: u8 = EXPONENT_ZERO + MAX_SHORT_EXPONENT as u8 + 1;

/// First byte of a positive number whose exponent is below `-MAX_SHORT_EXPONENT`. The exponent
/// follows in four bytes.
const EXPONENT_BELOW: u8 = EXPONENT_ZERO - MAX_SHORT_EXPONENT as u8 - 1;

/// Sign bit of an exponent of four bytes. It is inverted, so that bytes sort like exponents.
const EXPONENT_SIGN: u32 = 1 << 31;

/// Offset that is added to each digit in base 100, so that the end marker is less than every digit.
const DIGIT_OFFSET: u8 = 1;

/// End marker: the byte after the last digit.
const END: u8 = 0x00;

/// Maximum number of base-100 digits of a decimal cell of 65,535 bytes.
const MAX_DIGITS: usize = 78_910;

/// Maximum number of decimal zeros at the end of the number in a decimal cell of 65,535 bytes.
const MAX_ZEROS: u32 = 2 * MAX_DIGITS as u32;

/// Maximum length of an unscaled value, in bytes, whose tenfold fits into 128 bits.
const MAX_SMALL_BYTES: usize = 15;

/// Maximum number of base-100 digits that fit into 128 bits.
const MAX_SMALL_DIGITS: usize = 19;

/// Appends the key component of a decimal cell.
pub(super) fn encode(cell: &[u8], out: &mut Vec<u8>) -> Result<(), Reason> {
    let decimal = DecimalCell::parse(cell).ok_or("too short")?;
    let unscaled = minimal_varint(decimal.unscaled);
    let scale = i64::from(decimal.scale);
    let start = out.len();
    let negative = match small_integer(unscaled) {
        Some(0) => {
            out.push(ZERO);
            return Ok(());
        }
        Some(number) if unscaled.len() <= MAX_SMALL_BYTES => {
            let mut digits = [0; MAX_SMALL_DIGITS];
            write_magnitude(
                small_digits(number.unsigned_abs(), scale, &mut digits),
                scale,
                out,
            )?;
            number < 0
        }
        _ => {
            let number = BigInt::from_signed_bytes_be(unscaled);
            write_magnitude(&large_digits(number.magnitude(), scale), scale, out)?;
            number.sign() == Sign::Minus
        }
    };
    if negative {
        super::invert(&mut out[start..]);
    }
    Ok(())
}

/// Returns whether a number with this scale needs one more decimal zero at its end, so that its
/// decimal digits form complete base-100 digits.
fn is_odd(scale: i64) -> bool {
    scale & 1 == 1
}

fn small_digits(number: u128, scale: i64, digits: &mut [u8; MAX_SMALL_DIGITS]) -> &[u8] {
    let mut number = if is_odd(scale) { number * 10 } else { number };
    let mut first = digits.len();
    while number > 0 {
        first -= 1;
        digits[first] = (number % 100) as u8;
        number /= 100;
    }
    &digits[first..]
}

fn large_digits(number: &BigUint, scale: i64) -> Vec<u8> {
    if is_odd(scale) {
        (number * 10_u32).to_radix_be(100)
    } else {
        number.to_radix_be(100)
    }
}

/// Returns the number of digits as a signed integer, for arithmetic with exponents.
fn count(digits: &[u8]) -> i64 {
    i64::try_from(digits.len()).unwrap_or(i64::MAX)
}

/// Returns the first byte of a positive number with this exponent, or `None` if the exponent needs
/// four further bytes.
fn short_exponent(exponent: i64) -> Option<u8> {
    let short = exponent.abs() <= MAX_SHORT_EXPONENT;
    short.then(|| EXPONENT_ZERO.wrapping_add_signed(exponent as i8))
}

/// A base-100 digit is two decimal digits, so the number of base-100 digits after the point is half
/// the scale, rounded up.
fn write_magnitude(digits: &[u8], scale: i64, out: &mut Vec<u8>) -> Result<(), Reason> {
    let last = digits.iter().rposition(|digit| *digit != 0).ok_or("no digits")?;
    // A digit in base 100 is two decimal digits, so the number of such digits after the point is
    // half the scale, rounded up.
    let after_point = scale.div_euclid(2) + scale.rem_euclid(2);
    let exponent = count(digits) - after_point;
    if let Some(short) = short_exponent(exponent) {
        out.push(short);
    } else {
        out.push(if exponent > 0 {
            EXPONENT_ABOVE
        } else {
            EXPONENT_BELOW
        });
        let exponent = i32::try_from(exponent).map_err(|_| "an exponent beyond 32 bits")?;
        out.extend_from_slice(&(exponent.cast_unsigned() ^ EXPONENT_SIGN).to_be_bytes());
    }
    out.extend(digits[..=last].iter().map(|digit| digit + DIGIT_OFFSET));
    out.push(END);
    Ok(())
}

/// Decodes the key component of a decimal, and appends its cell to `out`.
pub(super) fn decode(reader: &mut Reader<'_>, out: &mut Vec<u8>) -> Result<(), Reason> {
    let head = reader.byte()?;
    if head == ZERO {
        out.extend_from_slice(&[0, 0, 0, 0, 0]);
        return Ok(());
    }
    let sign = if head > ZERO { 0x00 } else { 0xFF };
    let exponent = read_exponent(head ^ sign, sign, reader)?;
    let mut digits = Vec::new();
    loop {
        match reader.byte()? ^ sign {
            END => break,
            digit @ 1..=100 => digits.push(digit - DIGIT_OFFSET),
            _ => return Err("a digit beyond 99"),
        }
        if digits.len() > MAX_DIGITS {
            return Err("more digits than a key part can have");
        }
    }
    if digits.first().is_none_or(|digit| *digit == 0) || digits.last() == Some(&0) {
        return Err("a digit too many or too few");
    }
    // Scale of the last base-100 digit. It is even, because such a digit is two decimal digits.
    let scale = 2 * (count(&digits) - exponent);
    write_cell(sign != 0, &digits, scale, out)
}

fn read_exponent(head: u8, sign: u8, reader: &mut Reader<'_>) -> Result<i64, Reason> {
    if head != EXPONENT_ABOVE && head != EXPONENT_BELOW {
        return if (EXPONENT_BELOW..EXPONENT_ABOVE).contains(&head) {
            Ok(i64::from(head) - i64::from(EXPONENT_ZERO))
        } else {
            Err("an unknown first byte")
        };
    }
    let bytes = reader.array::<4>()?.map(|byte| byte ^ sign);
    let exponent = i64::from((u32::from_be_bytes(bytes) ^ EXPONENT_SIGN).cast_signed());
    let above = exponent > MAX_SHORT_EXPONENT && head == EXPONENT_ABOVE;
    let below = exponent < -MAX_SHORT_EXPONENT && head == EXPONENT_BELOW;
    if above || below {
        Ok(exponent)
    } else {
        Err("a short exponent in the long form")
    }
}

/// Appends the canonical cell of a decimal, given by its base-100 digits and the scale of the last
/// digit.
fn write_cell(negative: bool, digits: &[u8], scale: i64, out: &mut Vec<u8>) -> Result<(), Reason> {
    // The last base-100 digit is not zero, so the number ends with at most one decimal zero. Remove
    // that zero.
    let odd = digits.last().is_some_and(|digit| digit % 10 == 0);
    let scale = if odd { scale - 1 } else { scale };
    if digits.len() <= MAX_SMALL_DIGITS
        && let Ok(small_scale) = i32::try_from(scale)
    {
        let number = digits
            .iter()
            .fold(0_i128, |number, digit| number * 100 + i128::from(*digit));
        let number = if odd { number / 10 } else { number };
        let number = if negative { -number } else { number };
        out.extend_from_slice(&small_scale.to_be_bytes());
        out.extend_from_slice(minimal_varint(&number.to_be_bytes()));
        return Ok(());
    }
    let mut number = BigUint::from_radix_be(digits, 100).ok_or("a digit beyond 99")?;
    if odd {
        number /= 10_u32;
    }
    // If the scale does not fit into 32 bits, append zeros to the number instead.
    let zeros = u32::try_from((i64::from(i32::MIN) - scale).max(0))
        .ok()
        .filter(|zeros| *zeros <= MAX_ZEROS)
        .ok_or("an exponent beyond what a key part can have")?;
    number *= BigUint::from(10_u32).pow(zeros);
    let scale = i32::try_from(scale + i64::from(zeros)).map_err(|_| "a scale beyond 32 bits")?;
    let number = BigInt::from_biguint(if negative { Sign::Minus } else { Sign::Plus }, number);
    out.extend_from_slice(&scale.to_be_bytes());
    out.extend_from_slice(&number.to_signed_bytes_be());
    Ok(())
}
