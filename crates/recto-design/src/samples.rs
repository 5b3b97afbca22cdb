//! Values that replace each `?` of a query. Any values are suitable, provided that they do not make
//! the conditions contradictory.

use recto_model::Type;

/// Number of the sample value for an equality. A number selects a value in [`sample`].
pub(crate) const EQUAL: usize = 10;
/// Number of the sample value for the lower end of a range.
pub(crate) const LOWER: usize = 1;
/// Number of the sample value for the upper end of a range.
pub(crate) const UPPER: usize = 126;
/// Number of the sample value for the first value in an OR of equalities.
pub(crate) const FIRST_OF_MANY: usize = EQUAL;
/// Number of different sample values. It is the maximum number of values of a filter.
const COUNT: usize = 128;

/// Returns a sample value of a type as filter text, or `None` if the type has no order. A greater
/// number gives a greater value.
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
