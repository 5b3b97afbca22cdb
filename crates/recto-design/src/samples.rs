//! Values in the place of `?`: which one it is does not matter, as long as conditions do not contradict.

use recto_model::Type;

/// The value of `=`.
pub(crate) const EQUAL: usize = 10;
/// The value of a range's lower end.
pub(crate) const LOWER: usize = 1;
/// The value of a range's upper end.
pub(crate) const UPPER: usize = 126;
/// The first value of an OR of equalities.
pub(crate) const FIRST_OF_MANY: usize = EQUAL;
/// How many different ones there are: as many as a filter may have.
const COUNT: usize = 128;

/// A value of a type as filter text; values rise with their numbers. None of types that no view can be by.
pub(crate) fn sample(ty: &Type, number: usize) -> Option<String> {
    let number = number % COUNT;
    let day = || format!("2000-{:02}-{:02}", 1 + number / 28, 1 + number % 28);
    Some(match ty {
        _ if ty.is_number() => number.to_string(),
        Type::Ascii | Type::Text => format!("\"v{number:03}\""),
        Type::Blob => format!("\"\\\\x{number:02x}\""),
        Type::Boolean => (number > EQUAL).to_string(),
        Type::Date => format!("\"{}\"", day()),
        Type::Time => format!("\"00:{:02}:{:02}\"", number / 60, number % 60),
        Type::Timestamp => format!("\"{}T00:00:00Z\"", day()),
        Type::TimeUuid => format!("\"{number:08x}-0000-1000-8000-000000000000\""),
        Type::Uuid => format!("\"00000000-0000-4000-8000-0000000000{number:02x}\""),
        Type::Inet => format!("\"10.0.0.{number}\""),
        _ => return None,
    })
}
