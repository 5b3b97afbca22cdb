//! Number of rows that match a query: ways to count them, and the result.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::display::grouped;
use crate::pages::is_false;
use crate::parameters::ParameterError;

/// Maximum number of rows that [`Count::UpTo`] can count.
pub const MAX_COUNT_UP_TO: u32 = 10_000;

/// Text of [`Count::Exact`]. The next two constants are the text of [`Count::Estimate`] and the
/// prefix of [`Count::UpTo`].
const EXACT: &str = "exact";
const ESTIMATE: &str = "estimate";
const UP_TO: &str = "up_to:";

/// Way of counting the rows of a query.
///
/// ```
/// use recto_api::pages::Count;
///
/// assert_eq!("up_to:1000".parse(), Ok(Count::UpTo(1_000)));
/// assert_eq!(Count::Estimate.to_string(), "estimate");
/// assert!("up_to:10001".parse::<Count>().is_err());
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Count {
    /// Counts all rows exactly, if the store can do so without reading them, as an embedded store
    /// can.
    Exact,
    /// Estimates the number of rows from statistics that Recto keeps about buckets, on Cassandra. An
    /// embedded store counts the rows.
    Estimate,
    /// Reads rows until more than the given number are found. The number is from 1 to
    /// [`MAX_COUNT_UP_TO`].
    UpTo(u32),
}

impl FromStr for Count {
    type Err = ParameterError;

    fn from_str(text: &str) -> Result<Self, ParameterError> {
        match text {
            EXACT => return Ok(Self::Exact),
            ESTIMATE => return Ok(Self::Estimate),
            _ => {}
        }
        let number = text.strip_prefix(UP_TO).and_then(|number| number.parse().ok());
        let number = number.filter(|number| (1..=MAX_COUNT_UP_TO).contains(number));
        number.map(Self::UpTo).ok_or_else(|| {
            ParameterError::new("count", format!("{text:?} is no way to count rows")).with_hint(format!(
                "write {EXACT}, {ESTIMATE}, or {UP_TO}N with a number from 1 to {MAX_COUNT_UP_TO}"
            ))
        })
    }
}

/// Writes the way of counting as in a request: `exact`, `estimate` or `up_to:N`.
impl fmt::Display for Count {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Exact => f.write_str(EXACT),
            Self::Estimate => f.write_str(ESTIMATE),
            Self::UpTo(number) => write!(f, "{UP_TO}{number}"),
        }
    }
}

/// Number of rows of a query, and of those before a page.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct RowCount {
    /// Number of rows of the query, if `count` asked for it.
    pub total_size: u64,
    /// Maximum error of `total_size` in 95 of 100 cases; 0: it is exact, unless `total_size_is_minimum`.
    #[serde(default)]
    pub total_size_error: u64,
    /// Whether the query has `total_size` rows or more, because counting ended there; absent if not.
    #[serde(default, skip_serializing_if = "is_false")]
    pub total_size_is_minimum: bool,
    /// Number of rows before the page, if `count` asked for it and Recto knows it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(test, schemars(with = "u64"))]
    pub offset: Option<u64>,
    /// Maximum error of `offset` in 95 of 100 cases; 0: it is exact.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(test, schemars(with = "u64"))]
    pub offset_error: Option<u64>,
}

impl RowCount {
    /// Describes the position of a page of `rows` rows, such as
    /// `rows 202,066 to 202,085 of 336,776 (60 %)`. If the number of rows before the page is
    /// unknown, describes only the total number of rows, such as `10,000 rows or more`.
    pub fn in_words(&self, rows: usize) -> String {
        let Some(offset) = self.offset else {
            return self.total_in_words();
        };
        let total = format!(
            "{}{}",
            grouped(self.total_size),
            error_in_words(self.total_size_error)
        );
        if rows == 0 {
            return format!("no row of {total}");
        }
        // Compute the percentage for the row in the middle of the page, rounded to a whole number.
        let total_size = u128::from(self.total_size);
        let share = (u128::from(offset) + rows as u128 / 2) * 100 + total_size / 2;
        let share = share.checked_div(total_size).unwrap_or(0);
        let (first, last) = (grouped(offset + 1), grouped(offset + rows as u64));
        let error = error_in_words(self.offset_error.unwrap_or(0));
        format!("rows {first} to {last}{error} of {total} ({share} %)")
    }

    fn total_in_words(&self) -> String {
        let noun = if self.total_size == 1 { "row" } else { "rows" };
        let more = if self.total_size_is_minimum {
            " or more"
        } else {
            ""
        };
        let error = error_in_words(self.total_size_error);
        format!("{}{error} {noun}{more}", grouped(self.total_size))
    }
}

fn error_in_words(error: u64) -> String {
    match error {
        0 => String::new(),
        error => format!(" ± {}", grouped(error)),
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn parses_what_it_writes() {
        for count in [
            Count::Exact,
            Count::Estimate,
            Count::UpTo(1),
            Count::UpTo(MAX_COUNT_UP_TO),
        ] {
            assert_eq!(count.to_string().parse(), Ok(count));
        }
        for text in [
            "",
            "exactly",
            "up_to",
            "up_to:",
            "up_to:0",
            "up_to:10001",
            "up_to:-1",
            "up_to:1.5",
            "UP_TO:5",
        ] {
            let error = text.parse::<Count>().unwrap_err();
            assert_eq!(error.name.as_deref(), Some("count"), "{text}");
        }
    }

    #[test]
    fn describes_the_position_of_a_page() {
        let count = RowCount {
            total_size: 336_776,
            offset: Some(202_062),
            ..RowCount::default()
        };
        assert_eq!(count.in_words(6), "rows 202,063 to 202,068 of 336,776 (60 %)");
        let estimate = RowCount {
            total_size_error: 900,
            offset_error: Some(12),
            ..count
        };
        assert_eq!(
            estimate.in_words(1),
            "rows 202,063 to 202,063 ± 12 of 336,776 ± 900 (60 %)"
        );
        let empty = RowCount {
            offset: Some(0),
            ..RowCount::default()
        };
        assert_eq!(empty.in_words(0), "no row of 0");
    }

    #[test]
    fn describes_a_count_without_a_position() {
        let exactly = |total_size| RowCount {
            total_size,
            ..RowCount::default()
        };
        assert_eq!(exactly(0).in_words(0), "0 rows");
        assert_eq!(exactly(1).in_words(1), "1 row");
        assert_eq!(exactly(12_345).in_words(50), "12,345 rows");
        let minimum = RowCount {
            total_size_is_minimum: true,
            ..exactly(10_000)
        };
        assert_eq!(minimum.in_words(50), "10,000 rows or more");
    }
}
