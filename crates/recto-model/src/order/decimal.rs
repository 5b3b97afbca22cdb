//! Comparison of decimals by value, also if their scales differ.

use std::cmp::Ordering;

use num_bigint::{BigInt, Sign};

use super::compare_varints;
use crate::cell::{DecimalCell, small_integer};

/// Exponent of the largest power of ten that fits into 128 bits.
const MAX_SMALL_POWER: u32 = 38;

/// Compares two decimals by value: 1.0 and 1.00 are equal.
pub(super) fn compare(left: DecimalCell<'_>, right: DecimalCell<'_>) -> Ordering {
    if left.scale == right.scale {
        return compare_varints(left.unscaled, right.unscaled);
    }
    if let (Some(left_unscaled), Some(right_unscaled)) =
        (small_integer(left.unscaled), small_integer(right.unscaled))
    {
        let by_sign = left_unscaled.signum().cmp(&right_unscaled.signum());
        if by_sign.is_ne() || left_unscaled == 0 {
            return by_sign;
        }
        if let Some(ordering) = compare_small((left_unscaled, left.scale), (right_unscaled, right.scale)) {
            return ordering;
        }
    }
    compare_large(
        &BigInt::from_signed_bytes_be(left.unscaled),
        left.scale.into(),
        &BigInt::from_signed_bytes_be(right.unscaled),
        right.scale.into(),
    )
}

/// Compares two nonzero decimals of the same sign, each given as unscaled value and scale. Returns
/// `None` if one of them, converted to the scale of the other, does not fit into 128 bits.
fn compare_small(left: (i128, i32), right: (i128, i32)) -> Option<Ordering> {
    if left.1 > right.1 {
        return compare_small(right, left).map(Ordering::reverse);
    }
    let difference = right.1.abs_diff(left.1);
    if difference > MAX_SMALL_POWER {
        return None;
    }
    let scaled = left.0.checked_mul(10_i128.pow(difference))?;
    Some(scaled.cmp(&right.0))
}

/// Compares two decimals of any size, each given as unscaled value and scale.
fn compare_large(left: &BigInt, left_scale: i64, right: &BigInt, right_scale: i64) -> Ordering {
    let by_sign = left.sign().cmp(&right.sign());
    if by_sign.is_ne() || left.bits() == 0 {
        return by_sign;
    }
    let positive = |ordering: Ordering| {
        if left.sign() == Sign::Minus {
            ordering.reverse()
        } else {
            ordering
        }
    };
    // Compare the powers of ten of the leading digits first. They are exact to one digit, so they
    // decide between numbers that are far apart. For other numbers, the multiplication below adds
    // at most as many digits as the numbers have.
    let (left_lead, right_lead) = (digits(left) - left_scale, digits(right) - right_scale);
    if left_lead.abs_diff(right_lead) > 2 {
        return positive(left_lead.cmp(&right_lead));
    }
    let power = |exponent: i64| BigInt::from(10).pow(exponent.unsigned_abs() as u32);
    if left_scale < right_scale {
        (left * power(right_scale - left_scale)).cmp(right)
    } else {
        left.cmp(&(right * power(left_scale - right_scale)))
    }
}

/// log10(2) times 10^18, rounded down, to convert a number of bits to a number of decimal digits.
const LOG10_OF_2: u128 = 301_029_995_663_981_195;

/// Returns the number of decimal digits of a nonzero number, or one less.
fn digits(number: &BigInt) -> i64 {
    let bits = u128::from(number.bits() - 1);
    (bits * LOG10_OF_2 / 1_000_000_000_000_000_000) as i64 + 1
}
