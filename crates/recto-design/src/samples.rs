//! Values in place of `?`. Any values are suitable that do not make conditions contradictory.

use recto_model::Type;

/// Number of the value of an equality.
pub(crate) const EQUAL: usize = 10;
/// Number of the value of the lower end of a range.
pub(crate) const LOWER: usize = 1;
/// Number of the value of the upper end of a range.
pub(crate) const UPPER: usize = 126;
/// Number of the first value of an OR of equalities.
pub(crate) const FIRST_OF_MANY: usize = EQUAL;
/// Number of different values: the maximum number of values of a filter.
const COUNT: usize = 128;

/// Returns a value of a type as filter text, or `None` if no view can be ordered by the type. A greater number gives a
/// greater value.
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
