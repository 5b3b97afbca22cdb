//! Conversion of numbers from and to text, in JSON and elsewhere.

use std::borrow::Cow;
use std::fmt::Write as _;

use num_bigint::{BigInt, Sign};

use crate::decimals::BigDecimal;

/// Maximum length of the text of a number, in characters. The text of every varint and decimal of
/// 64 KiB is shorter, and text of this length still parses fast.
pub const MAX_NUMBER_CHARS: usize = 200_000;

/// Maximum number of digits of an integer with a point or an exponent. The largest double has this
/// number of digits, so other programs need no more. Without a limit, an exponent of a few
/// characters could require any amount of memory.
const MAX_EXPANDED_DIGITS: usize = 309;

/// Minimum power of ten of a decimal's first digit for which its text has no exponent.
const MIN_PLAIN_EXPONENT: i64 = -6;

/// Returns the digits of a JSON number, with its sign, if it is an integer: `5` for `5`, `5.0`,
/// `50e-1`. The check is exact: `None` if any digit after the point is not zero.
pub(super) fn whole(text: &str) -> Option<Cow<'_, str>> {
    if !text.contains(['.', 'e', 'E']) {
        return Some(text.into());
    }
    let (sign, rest) = match text.strip_prefix('-') {
        Some(rest) => ("-", rest),
        None => ("", text),
    };
    let (before, after, exponent) = parts(rest)?;
    let digits = format!("{before}{after}");
    let digits = digits.trim_start_matches('0');
    // Number of decimal digits after the point.
    let scale = count(after).checked_sub(exponent)?;
    if digits.is_empty() {
        return Some("0".into());
    }
    let Ok(zeros) = usize::try_from(-scale) else {
        let point = digits.len().checked_sub(usize::try_from(scale).ok()?)?;
        let (whole, fraction) = digits.split_at(point);
        let is_whole =
            point > 0 && point <= MAX_EXPANDED_DIGITS && fraction.bytes().all(|digit| digit == b'0');
        return is_whole.then(|| format!("{sign}{whole}").into());
    };
    let length = digits.len().checked_add(zeros)?;
    (length <= MAX_EXPANDED_DIGITS).then(|| format!("{sign}{digits}{}", "0".repeat(zeros)).into())
}

/// Splits a number into the digits before the point, the digits after it, and the exponent. `None`
/// if the text is not a number.
fn parts(text: &str) -> Option<(&str, &str, i64)> {
    let (mantissa, exponent) = match text.find(['e', 'E']) {
        Some(at) => (&text[..at], text[at + 1..].parse().ok()?),
        None => (text, 0),
    };
    let (before, after) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    whole_digits(before)?;
    if mantissa.contains('.') {
        whole_digits(after)?;
    }
    Some((before, after, exponent))
}

/// Returns the double that JSON shows for a float: the double nearest to the shortest text of the
/// float, so that 0.1 does not become 0.10000000149.
pub(super) fn float_as_double(value: f32) -> f64 {
    let exact = f64::from(value);
    if !value.is_finite() {
        return exact;
    }
    match value.to_string().parse::<f64>() {
        Ok(short) if (short as f32).to_bits() == value.to_bits() => short,
        _ => exact,
    }
}

/// Returns the text of NaN or an infinity, which JSON cannot express as numbers.
pub(super) fn special_text(value: f64) -> &'static str {
    if value.is_nan() {
        "NaN"
    } else if value > 0.0 {
        "Infinity"
    } else {
        "-Infinity"
    }
}

/// Returns the double whose [`special_text`] (NaN or an infinity) is `text`, or `None`.
pub(super) fn special_double(text: &str) -> Option<f64> {
    match text {
        "NaN" => Some(f64::NAN),
        "Infinity" => Some(f64::INFINITY),
        "-Infinity" => Some(f64::NEG_INFINITY),
        _ => None,
    }
}

/// Returns the float whose [`special_text`] (NaN or an infinity) is `text`, or `None`.
pub(super) fn special_float(text: &str) -> Option<f32> {
    special_double(text).map(|value| value as f32)
}

/// Returns whether the text has the form of a JSON number. Rust also parses other forms, such as
/// `inf` and `.5`.
fn is_number(text: &str) -> bool {
    let digits = text.strip_prefix('-').unwrap_or(text);
    text.len() <= MAX_NUMBER_CHARS
        && digits.starts_with(|first: char| first.is_ascii_digit())
        && digits
            .bytes()
            .all(|byte| byte.is_ascii_digit() || matches!(byte, b'.' | b'e' | b'E' | b'+' | b'-'))
}

/// Parses a JSON number as the nearest float. `None` if the text is not a number, or its float is not finite.
pub(super) fn parse_float(text: &str) -> Option<f32> {
    let value = is_number(text).then(|| text.parse::<f32>().ok())??;
    value.is_finite().then_some(value)
}

/// Parses a JSON number as the nearest double. `None` if the text is not a number, or its double is not
/// finite.
pub(super) fn parse_double(text: &str) -> Option<f64> {
    let value = is_number(text).then(|| text.parse::<f64>().ok())??;
    value.is_finite().then_some(value)
}

/// Parses an integer of up to [`MAX_NUMBER_CHARS`] digits.
pub(super) fn parse_varint(text: &str) -> Option<BigInt> {
    let (sign, digits) = split_sign(text);
    whole_digits(digits)?;
    BigInt::from_radix_be(sign, &decimal_digits(digits), 10)
}

fn split_sign(text: &str) -> (Sign, &str) {
    match text.strip_prefix('-') {
        Some(digits) => (Sign::Minus, digits),
        None => (Sign::Plus, text.strip_prefix('+').unwrap_or(text)),
    }
}

/// Returns the text if it consists of digits only, at least one and at most [`MAX_NUMBER_CHARS`].
fn whole_digits(text: &str) -> Option<&str> {
    let whole =
        (1..=MAX_NUMBER_CHARS).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_digit());
    whole.then_some(text)
}

fn decimal_digits(text: &str) -> Vec<u8> {
    text.bytes().map(|byte| byte - b'0').collect()
}

/// Returns the length of `digits` as a signed integer, for arithmetic with exponents.
fn count(digits: &str) -> i64 {
    i64::try_from(digits.len()).unwrap_or(i64::MAX)
}

/// Parses a decimal: digits, optionally a point and more digits, optionally an exponent. The result
/// keeps the scale of the text.
pub(super) fn parse_decimal(text: &str) -> Option<BigDecimal> {
    let (sign, rest) = split_sign(text);
    let (before, after, exponent) = parts(rest)?;
    let scale = i32::try_from(count(after).checked_sub(exponent)?).ok()?;
    let mut digits = decimal_digits(before);
    digits.extend(decimal_digits(after));
    if digits.len() > MAX_NUMBER_CHARS {
        return None;
    }
    let unscaled = BigInt::from_radix_be(sign, &digits, 10)?;
    Some(BigDecimal::new(unscaled, scale.into()))
}

/// Returns the text of a decimal with its scale, in the form of Java and Cassandra. The form is
/// plain (`12.50`), unless that needs additional zeros before the point or many zeros after it. The
/// other form is `1.23E+10`.
pub(super) fn decimal_text(value: &BigDecimal) -> String {
    let (unscaled, scale) = value.as_bigint_and_scale();
    let sign = if unscaled.sign() == Sign::Minus { "-" } else { "" };
    let digits = unscaled.magnitude().to_string();
    // Power of ten of the first digit, as in scientific notation.
    let exponent = count(&digits) - 1 - scale;
    if scale == 0 {
        return format!("{sign}{digits}");
    }
    if scale > 0 && exponent >= MIN_PLAIN_EXPONENT {
        let point = count(&digits) - scale;
        return match usize::try_from(point) {
            Ok(point) if point > 0 => format!("{sign}{}.{}", &digits[..point], &digits[point..]),
            _ => format!("{sign}0.{}{digits}", "0".repeat(point.unsigned_abs() as usize)),
        };
    }
    let mut text = format!("{sign}{}", &digits[..1]);
    if digits.len() > 1 {
        text.push('.');
        text.push_str(&digits[1..]);
    }
    write!(text, "E{exponent:+}").expect("writing to a string cannot fail");
    text
}
