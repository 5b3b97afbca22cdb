//! Conversion of text to cells.
//!
//! [`CellRules::value`] defines the conversion. It accepts the text forms of [`json::from_text`],
//! and the forms that other programs write. Types that are frequent in large files also have a fast
//! path. It returns the bytes that the general conversion returns, or nothing.

use recto_model::{Type, Value, cell, json};
use serde_json::value::RawValue;

use super::literals;
use super::times::{TimeError, Times};
use crate::error::Result as RectoResult;
use crate::session::{BlobFormat, CsvOptions};

/// Maximum number of characters of a cell that an error message repeats.
const MAX_SHOWN_CHARS: usize = 60;

/// Maximum number of values in a list, set, map, tuple or UDT of one field. During the conversion each value takes some
/// dozens of bytes.
const MAX_NESTED_VALUES: usize = 1 << 20;

/// Reason why a value does not fit its field. Rejections are counted by the first `class_length`
/// bytes of the text, which contain no details of a single value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Reason {
    text: String,
    class_length: usize,
}

impl Reason {
    /// Creates a reason whose whole text is the same for all rows.
    pub(super) fn general(text: impl Into<String>) -> Self {
        let text = text.into();
        Self {
            class_length: text.len(),
            text,
        }
    }

    /// Creates a reason whose `details` differ from row to row.
    pub(super) fn with_details(class: impl Into<String>, details: &str) -> Self {
        let mut text = class.into();
        let class_length = text.len();
        text.push_str(details);
        Self { text, class_length }
    }

    pub(super) fn text(&self) -> &str {
        &self.text
    }

    /// Returns the part of the text under which the reason is counted.
    pub(super) fn class(&self) -> &str {
        &self.text[..self.class_length]
    }
}

fn wrong_value(field: &str, error: &json::JsonError) -> Reason {
    Reason::with_details(
        format!("{field}: expected {}", error.expected),
        &format!(", found {}", error.found),
    )
}

fn wrong_cell(field: &str, error: &cell::CellError) -> Reason {
    Reason::general(format!("{field}: {error}"))
}

/// Rules by which the text of CSV cells is converted to values.
#[derive(Debug, Default)]
pub(super) struct CellRules {
    blobs: Option<BlobFormat>,
    times: Times,
}

impl CellRules {
    /// Creates the rules from the options of a CSV file.
    ///
    /// # Errors
    /// The pattern or the time zone in the options is invalid.
    pub(super) fn new(options: &CsvOptions) -> RectoResult<Self> {
        Ok(Self {
            blobs: options.blobs,
            times: Times::new(options)?,
        })
    }

    /// Appends the cell of the field `field`, whose value has the text `text`.
    pub(super) fn text_cell(
        &self,
        field: &str,
        ty: &Type,
        text: &str,
        out: &mut Vec<u8>,
    ) -> Result<(), Reason> {
        if self.times.pattern(ty).is_none() && fast(ty, text, out) {
            return Ok(());
        }
        let value = self.value(field, ty, text)?;
        cell::encode(ty, &value, out).map_err(|error| wrong_cell(field, &error))
    }

    /// Converts the text of a field to its value.
    pub(super) fn value(&self, field: &str, ty: &Type, text: &str) -> Result<Value, Reason> {
        let read = |text: &str| json::from_text(ty, text).map_err(|error| wrong_value(field, &error));
        match ty {
            Type::Boolean => boolean(text).map_or_else(|| read(text), |value| Ok(Value::Boolean(value))),
            Type::TinyInt
            | Type::SmallInt
            | Type::Int
            | Type::BigInt
            | Type::Varint
            | Type::Decimal
            | Type::Float
            | Type::Double => read(text).or_else(|reason| json_number(ty, text).ok_or(reason)),
            Type::Blob => self.blob(field, text),
            Type::Date | Type::Time | Type::Timestamp => self
                .times
                .read(ty, text)
                .map_err(|error| self.wrong_time(field, ty, text, &error)),
            Type::Duration => read(text)
                .or_else(|reason| cql_duration(text).and_then(|text| read(&text).ok()).ok_or(reason)),
            ty if ty.is_nested() => {
                check_values(field, text)?;
                // Try JSON before CQL literals, because Recto writes nested values as JSON.
                json::from_text(ty, text).or_else(|error| {
                    let is_json = serde_json::from_str::<&RawValue>(text).is_ok();
                    literals::read(self, field, ty, text).map_err(|reason| {
                        if is_json {
                            wrong_value(field, &error)
                        } else {
                            reason
                        }
                    })
                })
            }
            _ => read(text),
        }
    }

    fn blob(&self, field: &str, text: &str) -> Result<Value, Reason> {
        let expected = |what: &str| {
            Reason::with_details(
                format!("{field}: expected {what}"),
                &format!(", found {}", shown(text)),
            )
        };
        let unprefixed = text.strip_prefix("0x").or_else(|| text.strip_prefix("\\x"));
        if self.blobs == Some(BlobFormat::Hex) {
            let bytes = hex(unprefixed.unwrap_or(text));
            return bytes
                .map(Value::Blob)
                .ok_or_else(|| expected("a blob in hex such as \"0xdeadbeef\""));
        }
        // One of 4,096 base64 texts begins with `0x`. So reject text that is valid both as hex and
        // as base64.
        if self.blobs.is_none() && text.starts_with("0x") && unprefixed.and_then(hex).is_some() {
            let class = format!("{field}: a blob that may be hex or base64 (hint: --blobs hex)");
            return Err(Reason::with_details(class, &format!(": {}", shown(text))));
        }
        json::from_text(&Type::Blob, text).map_err(|error| wrong_value(field, &error))
    }

    fn wrong_time(&self, field: &str, ty: &Type, text: &str, error: &TimeError) -> Reason {
        let found = shown(text);
        match error {
            TimeError::NoOffset => Reason::with_details(
                format!("{field}: a timestamp without an offset (hint: --time-zone)"),
                &format!(": {found}"),
            ),
            TimeError::Ambiguous => Reason::with_details(
                format!("{field}: a time that the time zone has twice or not at all"),
                &format!(": {found}"),
            ),
            TimeError::Form => match (self.times.pattern(ty), json::from_text(ty, text)) {
                (Some(pattern), _) => Reason::with_details(
                    format!("{field}: expected {} as {pattern}", ty.with_article()),
                    &format!(", found {found}"),
                ),
                (None, Err(error)) => Reason::with_details(
                    format!("{field}: expected {} (hint: --time-format)", error.expected),
                    &format!(", found {}", error.found),
                ),
                (None, Ok(_)) => Reason::general(format!("{field}: not {}", ty.with_article())),
            },
        }
    }

    /// Returns a text that [`value`](Self::value) converts back to `value`.
    pub(super) fn write(&self, ty: &Type, value: &Value) -> String {
        match (ty, value) {
            (Type::Blob, Value::Blob(bytes)) if self.blobs == Some(BlobFormat::Hex) => {
                let digits = bytes.iter().map(|byte| format!("{byte:02x}"));
                format!("0x{}", digits.collect::<String>())
            }
            // The conversion rejects base64 that begins with `0x`, because it may be hex. So write
            // the bytes as hex.
            (Type::Blob, Value::Blob(bytes)) => {
                let text = json::to_text(ty, value);
                if text.starts_with("0x") {
                    let digits = bytes.iter().map(|byte| format!("{byte:02x}"));
                    format!("\\x{}", digits.collect::<String>())
                } else {
                    text
                }
            }
            (Type::Date | Type::Time | Type::Timestamp, _) => self.times.write(ty, value),
            _ => json::to_text(ty, value),
        }
    }
}

/// Parses a boolean in any spelling of `PostgreSQL`, ignoring case.
fn boolean(text: &str) -> Option<bool> {
    let is_one_of = |words: &[&str]| words.iter().any(|word| word.eq_ignore_ascii_case(text));
    if is_one_of(&["true", "t", "yes", "y", "on", "1"]) {
        Some(true)
    } else if is_one_of(&["false", "f", "no", "n", "off", "0"]) {
        Some(false)
    } else {
        None
    }
}

/// Parses a number as record JSON does, with an optional plus sign. Record JSON accepts `5.0` as a
/// whole number.
fn json_number(ty: &Type, text: &str) -> Option<Value> {
    let unsigned = text.strip_prefix('+').unwrap_or(text);
    let digits = unsigned.strip_prefix('-').unwrap_or(unsigned);
    let is_number = digits.starts_with(|first: char| first.is_ascii_digit());
    if !is_number || unsigned.len() < text.len() && digits.len() < unsigned.len() {
        return None;
    }
    json::from_json_text(ty, unsigned)
        .ok()
        .flatten()
        .or_else(|| json::from_text(ty, unsigned).ok())
}

/// Decodes text that consists of pairs of hexadecimal digits.
fn hex(text: &str) -> Option<Vec<u8>> {
    let digit = |digit: &u8| char::from(*digit).to_digit(16).map(|digit| digit as u8);
    let (pairs, rest) = text.as_bytes().as_chunks::<2>();
    let bytes = pairs
        .iter()
        .map(|[high, low]| Some(digit(high)? << 4 | digit(low)?));
    if rest.is_empty() { bytes.collect() } else { None }
}

/// Converts a duration from the form of CQL (`1y2mo3d4h5m6s7ms`) to ISO 8601.
fn cql_duration(text: &str) -> Option<String> {
    let (sign, mut rest) = match text.strip_prefix('-') {
        Some(rest) => ("-", rest),
        None => ("", text),
    };
    let (mut date, mut time, mut nanos) = (String::new(), String::new(), 0_u64);
    while !rest.is_empty() {
        let digits = rest.len()
            - rest
                .trim_start_matches(|first: char| first.is_ascii_digit())
                .len();
        let (number, after) = rest
            .split_at_checked(digits)
            .filter(|(number, _)| !number.is_empty())?;
        let unit_length = after
            .find(|first: char| first.is_ascii_digit())
            .unwrap_or(after.len());
        let (unit, after) = after.split_at(unit_length);
        let small = |nanos_each: u64| number.parse::<u64>().ok()?.checked_mul(nanos_each);
        match unit {
            "y" => date.push_str(&format!("{number}Y")),
            "mo" => date.push_str(&format!("{number}M")),
            "d" => date.push_str(&format!("{number}D")),
            "h" => time.push_str(&format!("{number}H")),
            "m" => time.push_str(&format!("{number}M")),
            "s" => nanos = nanos.checked_add(small(1_000_000_000)?)?,
            "ms" => nanos = nanos.checked_add(small(1_000_000)?)?,
            "us" | "µs" => nanos = nanos.checked_add(small(1_000)?)?,
            "ns" => nanos = nanos.checked_add(small(1)?)?,
            _ => return None,
        }
        rest = after;
    }
    if nanos > 0 {
        time.push_str(&format!(
            "{}.{:09}S",
            nanos / 1_000_000_000,
            nanos % 1_000_000_000
        ));
    }
    let time = if time.is_empty() { time } else { format!("T{time}") };
    Some(format!("{sign}P{date}{time}"))
}

/// Returns the text as an error message repeats it: quoted and shortened.
pub(super) fn shown(text: &str) -> String {
    let mut shown: String = text.chars().take(MAX_SHOWN_CHARS).collect();
    if shown.len() < text.len() {
        shown.push('…');
    }
    serde_json::Value::String(shown).to_string()
}

/// Rejects the text of a nested value (such as a list) whose conversion would take too much memory.
pub(super) fn check_values(field: &str, text: &str) -> Result<(), Reason> {
    // Every nested value follows a comma or an opening bracket, so the number of commas and
    // brackets is an upper bound.
    let values = text.bytes().filter(|byte| matches!(byte, b',' | b'[' | b'{'));
    if values.count() > MAX_NESTED_VALUES {
        return Err(Reason::general(format!(
            "{field}: more than {MAX_NESTED_VALUES} values"
        )));
    }
    Ok(())
}

/// Appends the cell of a JSON value that is not null.
pub(super) fn json_cell(field: &str, ty: &Type, json: &RawValue, out: &mut Vec<u8>) -> Result<(), Reason> {
    let json = json.get();
    if plain(ty, json).is_some_and(|text| fast(ty, text, out)) {
        return Ok(());
    }
    match json::from_json_text(ty, json) {
        Ok(Some(value)) => cell::encode(ty, &value, out).map_err(|error| wrong_cell(field, &error)),
        Ok(None) => Err(Reason::general(format!("{field}: null"))),
        Err(error) => Err(wrong_value(field, &error)),
    }
}

/// Returns the text of a JSON value without quotes, if the fast path can read it: the value is a
/// string without escapes, or a number.
fn plain<'a>(ty: &Type, json: &'a str) -> Option<&'a str> {
    let string = json.strip_prefix('"').and_then(|json| json.strip_suffix('"'));
    match (ty, string) {
        (Type::Text | Type::Ascii | Type::Timestamp | Type::BigInt, Some(text)) => {
            (!text.contains('\\')).then_some(text)
        }
        (Type::TinyInt | Type::SmallInt | Type::Int | Type::BigInt | Type::Double, None) => Some(json),
        _ => None,
    }
}

/// Appends the cell if the type and the text have a fast path. Otherwise returns false and appends
/// nothing.
fn fast(ty: &Type, text: &str, out: &mut Vec<u8>) -> bool {
    match ty {
        Type::Text => {
            out.extend_from_slice(text.as_bytes());
            true
        }
        Type::Ascii if text.is_ascii() => {
            out.extend_from_slice(text.as_bytes());
            true
        }
        Type::TinyInt => push(text.parse().ok().map(i8::to_be_bytes), out),
        Type::SmallInt => push(text.parse().ok().map(i16::to_be_bytes), out),
        Type::Int => push(text.parse().ok().map(i32::to_be_bytes), out),
        Type::BigInt => push(text.parse().ok().map(i64::to_be_bytes), out),
        Type::Double => push(plain_double(text).map(f64::to_be_bytes), out),
        Type::Timestamp => push(plain_timestamp(text.as_bytes()).map(i64::to_be_bytes), out),
        _ => false,
    }
}

#[inline]
fn push<const N: usize>(cell: Option<[u8; N]>, out: &mut Vec<u8>) -> bool {
    if let Some(cell) = cell {
        out.extend_from_slice(&cell);
    }
    cell.is_some()
}

/// Parses a double that consists of digits, with or without a minus sign and a fraction.
fn plain_double(text: &str) -> Option<f64> {
    let digits = text.strip_prefix('-').unwrap_or(text).as_bytes();
    let plain = digits.first().is_some_and(u8::is_ascii_digit)
        && digits.iter().all(|byte| byte.is_ascii_digit() || *byte == b'.')
        && digits.len() <= MAX_PLAIN_DIGITS;
    if plain { text.parse().ok() } else { None }
}

/// Maximum number of digits of a double that the fast path reads. A number with so few digits
/// cannot exceed the largest double.
const MAX_PLAIN_DIGITS: usize = 300;

/// Parses `2013-01-28T10:00:00Z`, with three digits of a fraction or none. The day of the month
/// must be at most 28, because every month has these days.
fn plain_timestamp(text: &[u8]) -> Option<i64> {
    let millis = match text {
        [.., b'Z'] if text.len() == 20 => 0,
        [.., b'.', a, b, c, b'Z'] if text.len() == 24 => number(&[*a, *b, *c])?,
        _ => return None,
    };
    let marks = [(4, b'-'), (7, b'-'), (10, b'T'), (13, b':'), (16, b':')];
    if marks.iter().any(|(at, mark)| text[*at] != *mark) {
        return None;
    }
    let (year, month, day) = (number(&text[0..4])?, number(&text[5..7])?, number(&text[8..10])?);
    let (hour, minute, second) = (
        number(&text[11..13])?,
        number(&text[14..16])?,
        number(&text[17..19])?,
    );
    let plain =
        (1..=12).contains(&month) && (1..=28).contains(&day) && hour < 24 && minute < 60 && second < 60;
    let seconds = days(year, month, day) * 86_400 + hour * 3_600 + minute * 60 + second;
    plain.then_some(seconds * 1_000 + millis)
}

#[inline]
fn number(digits: &[u8]) -> Option<i64> {
    digits.iter().try_fold(0, |number, digit| {
        digit
            .is_ascii_digit()
            .then(|| number * 10 + i64::from(digit - b'0'))
    })
}

/// Returns the number of days from 1970-01-01 to a date. Counts years from March, so that a leap
/// day is the last day of a year.
pub(super) fn days(year: i64, month: i64, day: i64) -> i64 {
    let year = if month <= 2 { year - 1 } else { year };
    let leap_days = year.div_euclid(4) - year.div_euclid(100) + year.div_euclid(400);
    let day_of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    year * 365 + leap_days + day_of_year - 719_468
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn agree(ty: &Type, text: &str) -> Result<(), TestCaseError> {
        let (mut short, mut long) = (Vec::new(), Vec::new());
        let taken = fast(ty, text, &mut short);
        let defined = CellRules::default()
            .value("f", ty, text)
            .map(|value| cell::encode(ty, &value, &mut long).unwrap());
        if taken {
            prop_assert_eq!(defined, Ok(()), "{} {:?}", ty, text);
            prop_assert_eq!(short, long, "{} {:?}", ty, text);
        } else {
            prop_assert!(short.is_empty());
        }
        Ok(())
    }

    const TYPES: [Type; 9] = [
        Type::Text,
        Type::Ascii,
        Type::TinyInt,
        Type::SmallInt,
        Type::Int,
        Type::BigInt,
        Type::Double,
        Type::Timestamp,
        Type::Uuid,
    ];

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(2_000))]

        #[test]
        fn the_short_way_is_the_long_way(
            ty in prop::sample::select(TYPES.to_vec()),
            text in prop_oneof![
                any::<String>(),
                any::<i64>().prop_map(|number| number.to_string()),
                any::<i16>().prop_map(|number| format!("{number:+}")),
                any::<f64>().prop_map(|number| number.to_string()),
                "-?[0-9]{1,4}(\\.[0-9]{0,4})?",
                "[0-9]{4}-[0-1][0-9]-[0-3][0-9][T ][0-2][0-9]:[0-6][0-9]:[0-6][0-9](\\.[0-9]{1,4})?(Z|z|[+]01:00)",
            ],
        ) {
            agree(&ty, &text)?;
        }

        #[test]
        fn the_short_way_of_json_is_its_long_way(
            ty in prop::sample::select(TYPES.to_vec()),
            text in prop_oneof![
                any::<String>().prop_map(|text| serde_json::Value::from(text).to_string()),
                any::<i64>().prop_map(|number| number.to_string()),
                any::<i64>().prop_map(|number| format!("\"{number}\"")),
                any::<f64>().prop_filter("JSON has no such number", |number| number.is_finite())
                    .prop_map(|number| number.to_string()),
                "-?(0|[1-9][0-9]{0,20})(\\.[0-9]{1,20})?([eE][+-]?[0-9]{1,3})?",
                "\"(\\\\u00[0-9a-f]{2}|[0-9a-z]){0,4}\"",
                "true|false|\\[\\]|\\{\\}",
            ],
        ) {
            let raw: &RawValue = serde_json::from_str(&text).unwrap();
            let (mut found, mut defined) = (Vec::new(), Vec::new());
            let short = json_cell("f", &ty, raw, &mut found);
            let long = json::from_json_text(&ty, &text).ok().flatten()
                .is_some_and(|value| cell::encode(&ty, &value, &mut defined).is_ok());
            prop_assert_eq!(short.is_ok(), long, "{} {:?}", ty, &text);
            prop_assert_eq!(found, defined, "{} {:?}", ty, &text);
        }

        #[test]
        fn written_values_are_read_back(
            millis in -62_135_000_000_000_i64..253_402_000_000_000,
            bytes in prop::collection::vec(any::<u8>(), 0..6),
            tail in prop::collection::vec(any::<u8>(), 0..6),
        ) {
            let patterns = [None, Some("%A, %e %B %Y %I:%M:%S.%f %p"), Some("%a %b %d %T.%f %Y%z"), Some("%H.%M:%S,%f")];
            for (pattern, blobs) in patterns.into_iter().zip([None, Some(BlobFormat::Hex), Some(BlobFormat::Base64), None]) {
                let options = CsvOptions {
                    blobs,
                    time_format: pattern.map(str::to_owned),
                    time_zone: Some("-09:30".to_owned()),
                    ..CsvOptions::default()
                };
                let rules = CellRules::new(&options).unwrap();
                // The base64 of the bytes D3 1C begins with `0x`, so it looks like hex.
                let doubtful = [&[0xD3, 0x1C], &tail[..]].concat();
                for (ty, value) in [
                    (Type::Timestamp, Value::Timestamp(millis)),
                    (Type::Date, Value::Date(i32::try_from(millis.div_euclid(86_400_000)).unwrap())),
                    (Type::Time, Value::Time(millis.rem_euclid(86_400_000) * 1_000_000)),
                    (Type::Blob, Value::Blob(bytes.clone())),
                    (Type::Blob, Value::Blob(doubtful)),
                ] {
                    let text = rules.write(&ty, &value);
                    prop_assert_eq!(rules.value("f", &ty, &text), Ok(value), "{:?} {}", pattern, text);
                }
            }
        }

        #[test]
        fn every_usual_timestamp_takes_the_short_way(
            year in 0i64..10_000, month in 1i64..=12, day in 1i64..=28,
            second in 0i64..86_400, millis in proptest::option::of(0i64..1_000),
        ) {
            let fraction = millis.map(|millis| format!(".{millis:03}")).unwrap_or_default();
            let (hour, minute, second) = (second / 3_600, second / 60 % 60, second % 60);
            let text = format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}{fraction}Z");
            prop_assert!(plain_timestamp(text.as_bytes()).is_some());
            agree(&Type::Timestamp, &text)?;
        }
    }
}
