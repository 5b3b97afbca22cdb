//! Formatting of numbers, sizes and times for people, and parsing of times.

use std::time::Duration;

/// Formats a number with a comma between thousands: `336,776`.
pub fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::with_capacity(digits.len() + digits.len() / 3);
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// Formats a count with its noun in the singular or the plural: `1 row`, `1,024 rows`.
pub fn counted(number: u64, singular: &str, plural: &str) -> String {
    format!(
        "{} {}",
        grouped(number),
        if number == 1 { singular } else { plural }
    )
}

/// Formats a number of bytes in the largest decimal unit in which it is at least 1: `512 B`,
/// `9.8 kB`, `8.3 MB`.
pub fn bytes(number: u64) -> String {
    const UNITS: [&str; 5] = ["kB", "MB", "GB", "TB", "PB"];
    if number < 1_000 {
        return format!("{number} B");
    }
    let mut value = number as f64 / 1_000.0;
    let mut unit = 0;
    while value >= 999.95 && unit + 1 < UNITS.len() {
        value /= 1_000.0;
        unit += 1;
    }
    format!("{value:.1} {}", UNITS[unit])
}

/// Formats a time in a suitable unit: `212 µs`, `3.4 ms`, `2.1 s`, `1 min 05 s`, `2 h 10 min`.
pub fn duration(time: Duration) -> String {
    let micros = time.as_micros();
    let seconds = time.as_secs();
    match micros {
        0..1_000 => format!("{micros} µs"),
        1_000..1_000_000 => format!("{:.1} ms", micros as f64 / 1_000.0),
        1_000_000..60_000_000 => format!("{:.1} s", time.as_secs_f64()),
        60_000_000..3_600_000_000 => format!("{} min {:02} s", seconds / 60, seconds % 60),
        _ => format!("{} h {:02} min", seconds / 3_600, seconds / 60 % 60),
    }
}

/// Parses a time with its unit: `90s`, `10m`, `12h`, `3d`, `4w`. Returns the time in seconds, or
/// `None` if the text has another form.
pub fn span_seconds(text: &str) -> Option<u64> {
    let minute = 60;
    let (hour, day) = (60 * minute, 24 * 60 * minute);
    let units = [("s", 1), ("m", minute), ("h", hour), ("d", day), ("w", 7 * day)];
    let (number, unit) = units
        .into_iter()
        .find_map(|(letter, unit)| Some((text.strip_suffix(letter)?, unit)))?;
    number.parse::<u64>().ok()?.checked_mul(unit)
}

/// Parses a time in seconds (no unit: `30`) or with a unit (`90s`, `10m`, `12h`, `3d`, `4w`).
///
/// # Errors
/// The text has neither form. The error text describes the expected forms.
pub fn time_seconds(text: &str) -> Result<u32, String> {
    let seconds = text.parse().ok();
    seconds
        .or_else(|| u32::try_from(span_seconds(text)?).ok())
        .ok_or_else(|| "a whole number of seconds, or with s, m, h, d or w: 30, 90s, 10m, 12h".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_seconds_or_have_units() {
        for (text, seconds) in [
            ("0", 0),
            ("30", 30),
            ("90s", 90),
            ("10m", 600),
            ("12h", 43_200),
            ("4w", 2_419_200),
        ] {
            assert_eq!(time_seconds(text), Ok(seconds), "{text}");
        }
        for text in [
            "",
            "s",
            "-1",
            "1.5",
            "1y",
            "4294967296",
            "99999999999999999999w",
            "1é",
        ] {
            assert!(time_seconds(text).is_err(), "{text}");
        }
    }

    #[test]
    fn numbers_are_grouped_by_thousands() {
        let shown: Vec<_> = [0, 7, 999, 1_000, 12_345, 336_776, 1_000_000].map(grouped).into();
        assert_eq!(
            shown,
            ["0", "7", "999", "1,000", "12,345", "336,776", "1,000,000"]
        );
        let rows = |number| counted(number, "row", "rows");
        assert_eq!(
            (rows(0), rows(1), rows(2_512)),
            ("0 rows".into(), "1 row".into(), "2,512 rows".into())
        );
    }

    #[test]
    fn bytes_take_the_unit_that_fits() {
        let shown: Vec<_> = [0, 999, 1_000, 9_760, 999_949, 999_950, 8_258_905, u64::MAX]
            .map(bytes)
            .into();
        assert_eq!(
            shown,
            [
                "0 B",
                "999 B",
                "1.0 kB",
                "9.8 kB",
                "999.9 kB",
                "1.0 MB",
                "8.3 MB",
                "18446.7 PB"
            ]
        );
    }

    #[test]
    fn times_take_the_unit_that_fits() {
        let shown: Vec<_> = [0, 999, 1_000, 3_449, 2_100_000, 65_000_000, 7_800_000_000]
            .map(|micros| duration(Duration::from_micros(micros)))
            .into();
        assert_eq!(
            shown,
            [
                "0 µs",
                "999 µs",
                "1.0 ms",
                "3.4 ms",
                "2.1 s",
                "1 min 05 s",
                "2 h 10 min"
            ]
        );
    }
}
