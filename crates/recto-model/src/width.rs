//! Widths: lengths of time in calendar units, such as one month.

use std::fmt;

/// Maximum length of text such as `15 minutes`, in bytes.
const MAX_TEXT_LENGTH: usize = 64;

/// Length of time in calendar units, such as `1 month` or `15 minutes`. Widths define intervals,
/// for buckets and for rounding.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Width {
    /// Number of calendar units, at least 1.
    pub count: u32,
    /// Calendar unit.
    pub unit: WidthUnit,
}

/// Unit of a [`Width`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[allow(missing_docs)] // each variant is the unit of its name
pub enum WidthUnit {
    Second,
    Minute,
    Hour,
    Day,
    Week,
    Month,
    Year,
}

impl WidthUnit {
    const ALL: [(WidthUnit, &'static str); 7] = [
        (Self::Second, "second"),
        (Self::Minute, "minute"),
        (Self::Hour, "hour"),
        (Self::Day, "day"),
        (Self::Week, "week"),
        (Self::Month, "month"),
        (Self::Year, "year"),
    ];
}

impl Width {
    /// Parses a width: an integer, optional spaces, and a unit in the singular or the plural.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let (count, unit) = number_and_unit(text)?;
        let unit = unit.strip_suffix('s').unwrap_or(unit);
        let (unit, _) = WidthUnit::ALL.into_iter().find(|(_, name)| *name == unit)?;
        let count = u32::try_from(count).ok().filter(|count| *count > 0)?;
        Some(Self { count, unit })
    }
}

/// Writes the width as in the schema language, such as `15 minutes`.
impl fmt::Display for Width {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = WidthUnit::ALL
            .iter()
            .find(|(unit, _)| *unit == self.unit)
            .map_or("", |(_, name)| *name);
        let plural = if self.count == 1 { "" } else { "s" };
        write!(f, "{} {name}{plural}", self.count)
    }
}

/// Splits text such as `15 minutes` into the integer and the unit. `None` if it does not begin with
/// an integer.
pub(crate) fn number_and_unit(text: &str) -> Option<(u64, &str)> {
    if text.len() > MAX_TEXT_LENGTH {
        return None;
    }
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    let count = text[..digits].parse().ok()?;
    Some((count, text[digits..].trim_start_matches(' ')))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn widths_read_and_print() {
        for text in ["1 month", "15 minutes", "2 years", "1 second"] {
            assert_eq!(
                Width::parse(text).map(|width| width.to_string()).as_deref(),
                Some(text)
            );
        }
        assert_eq!(
            Width::parse("1 days").map(|width| width.to_string()).as_deref(),
            Some("1 day")
        );
        for text in [
            "",
            "month",
            "0 days",
            "1 fortnight",
            "-1 day",
            "1.5 days",
            "99999999999 days",
        ] {
            assert_eq!(Width::parse(text), None, "{text}");
        }
    }
}
