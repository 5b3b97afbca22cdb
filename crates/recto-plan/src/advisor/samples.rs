//! Sample values that replace each `?` of a query, so that it can be planned. Any values are
//! suitable that do not make the query's conditions contradictory.

use recto_model::Type;

/// Index of the sample value for an equality. [`sample`] returns the value of an index.
pub(crate) const EQUAL: usize = 10;
/// Index of the sample value for the lower end of a range.
pub(crate) const LOWER: usize = 1;
/// Index of the sample value for the upper end of a range.
pub(crate) const UPPER: usize = 126;
/// Index of the sample value for the first value in an OR of equalities.
pub(crate) const FIRST_OF_MANY: usize = EQUAL;
/// Number of different sample values: the maximum number of values in a filter.
const COUNT: usize = 128;

/// Returns the sample value with index `number` of a type, as filter text. A greater index gives a
/// greater value. Returns `None` if the type has no order.
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
