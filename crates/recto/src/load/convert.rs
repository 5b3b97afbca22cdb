//! Text into cells.
//!
//! [`slow`] is the definition: the value that [`json::from_text`] reads, encoded. The types that
//! large files are made of have a short way, which gives the same bytes or nothing.

use recto_model::{Type, cell, json};
use serde_json::value::RawValue;

/// Why a value does not fit its field: the whole reason, and how much of it is alike for all
/// values of its kind.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Reason {
    text: String,
    class_length: usize,
}

impl Reason {
    /// A reason that is the same for all its rows.
    pub(super) fn general(text: impl Into<String>) -> Self {
        let text = text.into();
        Self {
            class_length: text.len(),
            text,
        }
    }

    /// A reason of which `details` differ from row to row.
    pub(super) fn with_details(class: impl Into<String>, details: &str) -> Self {
        let mut text = class.into();
        let class_length = text.len();
        text.push_str(details);
        Self { text, class_length }
    }

    pub(super) fn text(&self) -> &str {
        &self.text
    }

    /// What it is counted under.
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

/// Appends the cell that `text` writes for a field.
pub(super) fn text_cell(field: &str, ty: &Type, text: &str, out: &mut Vec<u8>) -> Result<(), Reason> {
    if fast(ty, text, out) {
        return Ok(());
    }
    slow(field, ty, text, out)
}

/// Appends the cell of JSON that is not null.
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

/// The text of JSON that means the same as text of its own: a string without escapes, or a number.
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

fn slow(field: &str, ty: &Type, text: &str, out: &mut Vec<u8>) -> Result<(), Reason> {
    let value = json::from_text(ty, text).map_err(|error| wrong_value(field, &error))?;
    cell::encode(ty, &value, out).map_err(|error| wrong_cell(field, &error))
}

/// Appends the cell where there is a short way to it; false (and nothing) where there is none.
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

/// Digits with or without a sign and a fraction.
fn plain_double(text: &str) -> Option<f64> {
    let digits = text.strip_prefix('-').unwrap_or(text).as_bytes();
    let plain = digits.first().is_some_and(u8::is_ascii_digit)
        && digits.iter().all(|byte| byte.is_ascii_digit() || *byte == b'.')
        && digits.len() <= MAX_PLAIN_DIGITS;
    if plain { text.parse().ok() } else { None }
}

/// Digits that are certainly no number beyond a double's largest.
const MAX_PLAIN_DIGITS: usize = 300;

/// `2013-01-28T10:00:00Z`, with three digits of fraction or none, on a day that every month has.
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

/// Days since 1970-01-01. Years are counted from March, so that a leap day is a year's last.
fn days(year: i64, month: i64, day: i64) -> i64 {
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
        let defined = slow("f", ty, text, &mut long);
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
