//! Durations as ISO 8601 text.

use std::fmt::Write as _;

use super::calendar::take_fraction;

const NANOS_PER_SECOND: u64 = 1_000_000_000;
const NANOS_PER_MINUTE: u64 = 60 * NANOS_PER_SECOND;
const NANOS_PER_HOUR: u64 = 60 * NANOS_PER_MINUTE;

/// Maximum number of digits of a part of a duration, such as its hours, without the fraction.
const MAX_PART_DIGITS: usize = 19;

/// Returns a duration as text such as `P1Y2M3DT4H5M6.5S`. Parts that are zero are omitted. Zero is
/// `PT0S`.
pub(super) fn text(months: i32, days: i32, nanoseconds: i64) -> String {
    let negative = months < 0 || days < 0 || nanoseconds < 0;
    let (months, days, nanos) = (
        months.unsigned_abs(),
        days.unsigned_abs(),
        nanoseconds.unsigned_abs(),
    );
    let mut text = String::from(if negative { "-P" } else { "P" });
    let mut part = |value: u64, unit: &str| {
        if value > 0 {
            write!(text, "{value}{unit}").expect("writing to a string cannot fail");
        }
    };
    part((months / 12).into(), "Y");
    part((months % 12).into(), "M");
    part(days.into(), "D");
    if nanos > 0 {
        text.push('T');
    } else if text.ends_with('P') {
        return "PT0S".to_owned();
    }
    let mut part = |value: u64, unit: &str| {
        if value > 0 {
            write!(text, "{value}{unit}").expect("writing to a string cannot fail");
        }
    };
    part(nanos / NANOS_PER_HOUR, "H");
    part(nanos / NANOS_PER_MINUTE % 60, "M");
    let (seconds, fraction) = (nanos / NANOS_PER_SECOND % 60, nanos % NANOS_PER_SECOND);
    if fraction == 0 {
        part(seconds, "S");
    } else {
        let fraction = format!("{fraction:09}");
        write!(text, "{seconds}.{}S", fraction.trim_end_matches('0'))
            .expect("writing to a string cannot fail");
    }
    text
}

/// Parses a duration such as `P1Y2M3DT4H5M6.5S` into months, days and nanoseconds. `None` if the
/// text is not a duration, or out of range. Weeks are accepted as seven days. Only seconds may have
/// a fraction.
pub(super) fn parse(text: &str) -> Option<(i32, i32, i64)> {
    let (negative, rest) = match text.strip_prefix('-') {
        Some(rest) => (true, rest),
        None => (false, text),
    };
    let rest = rest.strip_prefix('P')?;
    let (date, time) = match rest.split_once('T') {
        Some((_, "")) => return None,
        Some((date, time)) => (date, time),
        None if rest.is_empty() => return None,
        None => (rest, ""),
    };
    let [years, months, weeks, days] = parts(date, ['Y', 'M', 'W', 'D'])?;
    let [hours, minutes, seconds] = parts(time, ['H', 'M', 'S'])?;
    if [years, months, weeks, days, hours, minutes]
        .iter()
        .any(|part| part.1 != 0)
    {
        return None;
    }
    let months = years.0 * 12 + months.0;
    let days = weeks.0 * 7 + days.0;
    let nanos = hours.0 * i128::from(NANOS_PER_HOUR)
        + minutes.0 * i128::from(NANOS_PER_MINUTE)
        + seconds.0 * i128::from(NANOS_PER_SECOND)
        + i128::from(seconds.1);
    let sign = if negative { -1 } else { 1 };
    Some((
        (sign * months).try_into().ok()?,
        (sign * days).try_into().ok()?,
        (sign * nanos).try_into().ok()?,
    ))
}

/// Parses numbers that are each followed by a unit letter. The units must have the order of
/// `units`, and each occurs at most once. For each unit, returns the integer part of its number,
/// and the fraction in billionths.
fn parts<const N: usize>(text: &str, units: [char; N]) -> Option<[(i128, i64); N]> {
    let mut parts = [(0, 0); N];
    let mut rest = text;
    let mut next_unit = 0;
    while !rest.is_empty() {
        let length = rest.bytes().take_while(u8::is_ascii_digit).count();
        if !(1..=MAX_PART_DIGITS).contains(&length) {
            return None;
        }
        let whole = rest[..length].parse().ok()?;
        rest = &rest[length..];
        let fraction = if rest.starts_with('.') {
            take_fraction(&mut rest)?
        } else {
            0
        };
        let unit = units[next_unit..]
            .iter()
            .position(|unit| rest.starts_with(*unit))?
            + next_unit;
        parts[unit] = (whole, fraction);
        next_unit = unit + 1;
        rest = &rest[1..];
    }
    Some(parts)
}
