//! Conversion of all dates, times and timestamps from and to text.
//!
//! The calendar is the proleptic Gregorian calendar (ISO 8601, as in Cassandra). The year 0000 precedes 0001.
//! The arithmetic counts days in eras of 400 years, which have equal length. It begins years in March, so
//! that a leap day is the last day of a year.

use std::io::Write as _;

/// Number of days in an era of 400 years. All eras have the same length.
const DAYS_PER_ERA: i64 = 146_097;

/// Number of days from 0000-03-01, where the eras begin, to 1970-01-01.
const EPOCH_DAYS: i64 = 719_468;

const MILLIS_PER_DAY: i64 = 86_400_000;
const NANOS_PER_SECOND: i64 = 1_000_000_000;
const SECONDS_PER_DAY: i64 = 86_400;

/// Maximum number of digits of a year: more than the largest year of any date or timestamp has, and few
/// enough that no year overflows.
const MAX_YEAR_DIGITS: usize = 12;

/// Number of digits of a fraction of a second in nanoseconds.
const FRACTION_DIGITS: usize = 9;

const DATE_TEXT_LENGTH: usize = "2013-01-31".len();
const MILLIS_TEXT_LENGTH: usize = "10:00:00.000".len();
const NANOS_TEXT_LENGTH: usize = "10:00:00.000000000".len();

/// Returns the number of days from 1970-01-01 to a date, which must exist.
fn days_of(year: i64, month: i64, day: i64) -> i64 {
    let year = if month <= 2 { year - 1 } else { year };
    let (era, year_of_era) = (year.div_euclid(400), year.rem_euclid(400));
    let month_from_march = (month + 9) % 12;
    let day_of_year = (153 * month_from_march + 2) / 5 + day - 1;
    let day_of_era = year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year;
    era * DAYS_PER_ERA + day_of_era - EPOCH_DAYS
}

/// Returns the year, month and day of the date `days` days after 1970-01-01.
fn date_of(days: i64) -> (i64, i64, i64) {
    let days = days + EPOCH_DAYS;
    let (era, day_of_era) = (days.div_euclid(DAYS_PER_ERA), days.rem_euclid(DAYS_PER_ERA));
    // Subtract the leap days at the end of 4, 100 and 400 years, so that all years have 365 days.
    let leaps = day_of_era / 1_460 - day_of_era / 36_524 + day_of_era / 146_096;
    let year_of_era = (day_of_era - leaps) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_from_march = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month_from_march + 2) / 5 + 1;
    let month = (month_from_march + 2) % 12 + 1;
    let year = era * 400 + year_of_era + i64::from(month <= 2);
    (year, month, day)
}

fn days_in_month(year: i64, month: i64) -> i64 {
    let leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
    match month {
        2 if leap => 29,
        2 => 28,
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    }
}

/// Writes the decimal digits of a number into `place`, which must be long enough, with leading
/// zeros.
fn put_digits(mut number: i64, place: &mut [u8]) {
    for digit in place.iter_mut().rev() {
        *digit = b'0' + (number % 10).unsigned_abs() as u8;
        number /= 10;
    }
}

/// Returns the text that `write` appends, which must be ASCII. `room` is its expected length, for
/// the allocation.
fn text_of(room: usize, write: impl FnOnce(&mut Vec<u8>)) -> String {
    let mut text = Vec::with_capacity(room);
    write(&mut text);
    String::from_utf8(text).expect("digits and signs are ASCII")
}

/// Returns the text of a date if its year has four digits without a sign, as is usual. Otherwise
/// `None`.
fn date_digits((year, month, day): (i64, i64, i64)) -> Option<[u8; DATE_TEXT_LENGTH]> {
    if !(0..=9999).contains(&year) {
        return None;
    }
    let mut text = *b"0000-00-00";
    put_digits(year, &mut text[..4]);
    put_digits(month, &mut text[5..7]);
    put_digits(day, &mut text[8..]);
    Some(text)
}

fn write_long_date((year, month, day): (i64, i64, i64), out: &mut Vec<u8>) {
    // Ignore the result, because writing to a buffer cannot fail.
    let _ = write!(out, "{year:+05}-{month:02}-{day:02}");
}

/// Returns the text of the time of day `units` after midnight. `LENGTH` determines the number of
/// fraction digits, and so the unit: 3 digits mean milliseconds.
fn time_digits<const LENGTH: usize>(units: i64) -> [u8; LENGTH] {
    const FRACTION_START: usize = "00:00:00.".len();
    let units_per_second = 10_i64.pow((LENGTH - FRACTION_START) as u32);
    let (seconds, fraction) = (units / units_per_second, units % units_per_second);
    let mut text = [b'.'; LENGTH];
    text[..FRACTION_START].copy_from_slice(b"00:00:00.");
    put_digits(seconds / 3600, &mut text[0..2]);
    put_digits(seconds / 60 % 60, &mut text[3..5]);
    put_digits(seconds % 60, &mut text[6..8]);
    put_digits(fraction, &mut text[FRACTION_START..]);
    text
}

/// Returns the text of the date `days` days after 1970-01-01, such as `2013-01-31`.
pub(super) fn date_text(days: i32) -> String {
    let date = date_of(days.into());
    text_of(DATE_TEXT_LENGTH, |text| match date_digits(date) {
        Some(digits) => text.extend_from_slice(&digits),
        None => write_long_date(date, text),
    })
}

/// Returns the text of the time `nanos` nanoseconds after midnight, such as `10:00:00.000000000`.
pub(super) fn time_text(nanos: i64) -> String {
    let digits = time_digits::<NANOS_TEXT_LENGTH>(nanos);
    text_of(NANOS_TEXT_LENGTH, |text| text.extend_from_slice(&digits))
}

/// Returns the text of a timestamp in milliseconds since 1970, such as `2013-01-31T10:00:00.000Z`.
pub(super) fn timestamp_text(millis: i64) -> String {
    text_of("2013-01-31T10:00:00.000Z".len(), |text| {
        write_timestamp(millis, text);
    })
}

/// Appends the text of a timestamp in milliseconds since 1970, such as `2013-01-31T10:00:00.000Z`.
pub(super) fn write_timestamp(millis: i64, out: &mut Vec<u8>) {
    let date = date_of(millis.div_euclid(MILLIS_PER_DAY));
    let time = time_digits::<MILLIS_TEXT_LENGTH>(millis.rem_euclid(MILLIS_PER_DAY));
    let Some(date_digits) = date_digits(date) else {
        write_long_date(date, out);
        out.push(b'T');
        out.extend_from_slice(&time);
        out.push(b'Z');
        return;
    };
    // Most timestamps have this length, so append the text in one step.
    let mut text = *b"2013-01-31T10:00:00.000Z";
    text[..DATE_TEXT_LENGTH].copy_from_slice(&date_digits);
    text[DATE_TEXT_LENGTH + 1..][..MILLIS_TEXT_LENGTH].copy_from_slice(&time);
    out.extend_from_slice(&text);
}

/// Parses a date such as `2013-01-31` into days since 1970-01-01. `None` unless the text has this
/// form, the date exists, and the days fit into 32 bits.
pub(super) fn parse_date(text: &str) -> Option<i32> {
    let mut rest = text;
    let days = take_date(&mut rest)?;
    if rest.is_empty() {
        days.try_into().ok()
    } else {
        None
    }
}

/// Parses a time of day such as `10:00:00` or `10:00:00.5` into nanoseconds after midnight, or
/// returns `None`.
pub(super) fn parse_time(text: &str) -> Option<i64> {
    let mut rest = text;
    let nanos = take_time(&mut rest)?;
    rest.is_empty().then_some(nanos)
}

/// Parses a timestamp with an offset into milliseconds since 1970. The error describes the accepted
/// text.
pub(super) fn parse_timestamp(text: &str) -> Result<i64, &'static str> {
    const EXPECTED: &str = "a timestamp such as \"2013-01-31T10:00:00Z\"";
    let mut rest = text;
    let days = take_date(&mut rest).ok_or(EXPECTED)?;
    if rest.is_empty() {
        return Err(
            "a timestamp with a time and an offset, such as \"2013-01-31T00:00:00Z\", not a date alone",
        );
    }
    rest = rest.strip_prefix(['T', 't', ' ']).ok_or(EXPECTED)?;
    let nanos = take_time(&mut rest).ok_or(EXPECTED)?;
    if rest.is_empty() {
        return Err("a timestamp with an offset, such as \"2013-01-31T10:00:00Z\" or \"…+02:00\"");
    }
    let offset_seconds = take_offset(&mut rest).ok_or(EXPECTED)?;
    if !rest.is_empty() {
        return Err(EXPECTED);
    }
    if nanos % 1_000_000 != 0 {
        return Err("a timestamp of whole milliseconds, because a timestamp has no finer resolution");
    }
    // Use 128 bits: with an offset, the local time of a valid timestamp can be outside the range of
    // timestamps.
    let seconds = i128::from(days) * i128::from(SECONDS_PER_DAY) - i128::from(offset_seconds);
    let millis = seconds * 1000 + i128::from(nanos / 1_000_000);
    i64::try_from(millis)
        .map_err(|_| "a timestamp within 64 bits of milliseconds, at most the year 292278994")
}

/// Removes all digits at the front of `rest`, and returns their value. `None` if their number is
/// not in `count`.
fn take_digits(rest: &mut &str, count: std::ops::RangeInclusive<usize>) -> Option<i64> {
    let length = rest.bytes().take_while(u8::is_ascii_digit).count();
    if !count.contains(&length) {
        return None;
    }
    let (digits, tail) = rest.split_at(length);
    *rest = tail;
    digits.parse().ok()
}

fn take_mark(rest: &mut &str, mark: char) -> Option<()> {
    *rest = rest.strip_prefix(mark)?;
    Some(())
}

/// Removes a date from the front of `rest`, and returns it as days since 1970-01-01.
fn take_date(rest: &mut &str) -> Option<i64> {
    let negative = rest.starts_with('-');
    let year = if negative || rest.starts_with('+') {
        *rest = &rest[1..];
        take_digits(rest, 4..=MAX_YEAR_DIGITS)?
    } else {
        take_digits(rest, 4..=4)?
    };
    if negative && year == 0 {
        return None;
    }
    let year = if negative { -year } else { year };
    take_mark(rest, '-')?;
    let month = take_digits(rest, 2..=2)?;
    take_mark(rest, '-')?;
    let day = take_digits(rest, 2..=2)?;
    let exists = (1..=12).contains(&month) && (1..=days_in_month(year, month)).contains(&day);
    exists.then(|| days_of(year, month, day))
}

/// Removes a time of day from the front of `rest`, and returns it in nanoseconds.
fn take_time(rest: &mut &str) -> Option<i64> {
    let hour = take_digits(rest, 2..=2)?;
    take_mark(rest, ':')?;
    let minute = take_digits(rest, 2..=2)?;
    take_mark(rest, ':')?;
    let second = take_digits(rest, 2..=2)?;
    if hour > 23 || minute > 59 || second > 59 {
        return None;
    }
    let fraction = if rest.starts_with('.') {
        take_fraction(rest)?
    } else {
        0
    };
    Some((hour * 3600 + minute * 60 + second) * NANOS_PER_SECOND + fraction)
}

/// Removes a point and one to nine digits from the front of `rest`. Returns the fraction in
/// billionths.
pub(super) fn take_fraction(rest: &mut &str) -> Option<i64> {
    take_mark(rest, '.')?;
    let before = rest.len();
    let digits = take_digits(rest, 1..=FRACTION_DIGITS)?;
    let length = before - rest.len();
    Some(digits * 10_i64.pow((FRACTION_DIGITS - length) as u32))
}

/// Removes `Z` or an offset such as `+02:00` from the front of `rest`, and returns the seconds east of UTC.
fn take_offset(rest: &mut &str) -> Option<i64> {
    if let Some(tail) = rest.strip_prefix(['Z', 'z']) {
        *rest = tail;
        return Some(0);
    }
    let negative = rest.starts_with('-');
    *rest = rest.strip_prefix(['+', '-'])?;
    let hours = take_digits(rest, 2..=2)?;
    take_mark(rest, ':')?;
    let minutes = take_digits(rest, 2..=2)?;
    let seconds = hours * 3600 + minutes * 60;
    (hours <= 23 && minutes <= 59).then_some(if negative { -seconds } else { seconds })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_days() {
        for (days, text) in [
            (0, "1970-01-01"),
            (-1, "1969-12-31"),
            (11_016, "2000-02-29"),
            (11_017, "2000-03-01"),
            (-719_528, "0000-01-01"),
            (-719_529, "-0001-12-31"),
            (2_932_896, "9999-12-31"),
            (2_932_897, "+10000-01-01"),
            (i32::MAX, "+5881580-07-11"),
            (i32::MIN, "-5877641-06-23"),
        ] {
            assert_eq!(date_text(days), text);
            assert_eq!(parse_date(text), Some(days));
        }
    }

    #[test]
    fn timestamps_are_their_date_and_time() {
        // The stride is odd, so the times cover every hour, minute, second and millisecond.
        const STRIDE_MILLIS: usize = 86_399_999_777;
        let (first, last) = (-62_200_000_000_000_i64, 253_500_000_000_000);
        for millis in (first..last).step_by(STRIDE_MILLIS) {
            let days = i32::try_from(millis.div_euclid(MILLIS_PER_DAY)).expect("days are few");
            let time = time_text(millis.rem_euclid(MILLIS_PER_DAY) * 1_000_000);
            let text = timestamp_text(millis);
            let expected = format!("{}T{}Z", date_text(days), &time[..MILLIS_TEXT_LENGTH]);
            assert_eq!(text, expected);
            assert_eq!(parse_timestamp(&text), Ok(millis));
        }
        assert_eq!(timestamp_text(1_359_626_400_987), "2013-01-31T10:00:00.987Z");
    }

    #[test]
    fn each_day_of_an_era_follows_the_one_before() {
        let mut expected = (2000, 1, 1);
        for days in 10_957..10_957 + DAYS_PER_ERA {
            assert_eq!(date_of(days), expected);
            assert_eq!(days_of(expected.0, expected.1, expected.2), days);
            expected.2 += 1;
            if expected.2 > days_in_month(expected.0, expected.1) {
                expected = (expected.0, expected.1 + 1, 1);
            }
            if expected.1 > 12 {
                expected = (expected.0 + 1, 1, 1);
            }
        }
    }
}
