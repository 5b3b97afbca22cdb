//! Calendar arithmetic of widths (such as one month): the start of the interval that contains a
//! time, in UTC.
//!
//! The module supports all times that 64 bits of milliseconds can express, in the proleptic Gregorian
//! calendar. It uses no library: rounded values are in stored keys, so the results must never change.

use crate::width::{Width, WidthUnit};

const MS_PER_SECOND: i64 = 1_000;
const MS_PER_DAY: i64 = 86_400 * MS_PER_SECOND;
/// Number of days from a Monday to 1970-01-01, which was a Thursday. Weeks begin on Mondays.
const DAYS_FROM_MONDAY_TO_EPOCH: i64 = 3;
const DAYS_PER_ERA: i64 = 146_097;
const YEARS_PER_ERA: i64 = 400;
/// Number of days from 0000-03-01 to 1970-01-01. The calculation begins years in March, so that a
/// leap day is the last day of a year.
const DAYS_FROM_MARCH_0_TO_EPOCH: i64 = 719_468;

impl Width {
    /// Returns the start of the interval of this width that contains `time_ms`. Both times are in
    /// milliseconds since 1970-01-01T00:00:00Z.
    ///
    /// Seconds, minutes, hours and days are counted from 1970-01-01T00:00:00Z, weeks from the
    /// Monday before that day, and months and years from January of year 0. So 3 months are a
    /// quarter, and 10 years are a decade. An interval that would begin before the first possible
    /// time begins at the first possible time.
    ///
    /// ```
    /// use recto_model::schema::{Width, WidthUnit};
    ///
    /// let quarter = Width { count: 3, unit: WidthUnit::Month };
    /// // 2013-05-17T10:30:00Z, and 2013-04-01T00:00:00Z.
    /// assert_eq!(quarter.floor_ms(1_368_786_600_000), 1_364_774_400_000);
    /// ```
    pub fn floor_ms(self, time_ms: i64) -> i64 {
        let count = i64::from(self.count.max(1));
        let months = |months: i64| {
            let (year, month) = month_of(time_ms.div_euclid(MS_PER_DAY));
            let start = (year * 12 + month).div_euclid(months) * months;
            days_to(start.div_euclid(12), start.rem_euclid(12)).saturating_mul(MS_PER_DAY)
        };
        let ms = match self.unit {
            WidthUnit::Month => return months(count),
            WidthUnit::Year => return months(count * 12),
            WidthUnit::Week => {
                let shift = DAYS_FROM_MONDAY_TO_EPOCH * MS_PER_DAY;
                let into = (i128::from(time_ms) + i128::from(shift))
                    .rem_euclid(i128::from(count) * i128::from(7 * MS_PER_DAY));
                // If the interval would begin before the first possible time, begin it at the first
                // possible time.
                return i64::try_from(i128::from(time_ms) - into).unwrap_or(i64::MIN);
            }
            // All intervals of these units have the same length, so compute their starts by
            // division.
            WidthUnit::Second | WidthUnit::Minute | WidthUnit::Hour | WidthUnit::Day => {
                self.unit.longest_ms()
            }
        };
        time_ms.saturating_sub(time_ms.rem_euclid(count.saturating_mul(ms)))
    }

    /// Returns the start of the interval after the interval that contains `time_ms`, in
    /// milliseconds since 1970. `None` if no later interval begins in the range of 64 bits.
    ///
    /// ```
    /// use recto_model::schema::{Width, WidthUnit};
    ///
    /// let month = Width { count: 1, unit: WidthUnit::Month };
    /// // 2016-02-10T00:00:00Z, and 2016-03-01T00:00:00Z.
    /// assert_eq!(month.next_ms(1_455_062_400_000), Some(1_456_790_400_000));
    /// ```
    pub fn next_ms(self, time_ms: i64) -> Option<i64> {
        let start = self.floor_ms(time_ms);
        // Add the maximum length of an interval, which leads to a time in the next interval, never
        // beyond.
        let longest = i128::from(self.count.max(1)) * i128::from(self.unit.longest_ms());
        let within = (i128::from(start) + longest).min(i128::from(i64::MAX));
        let next = self.floor_ms(i64::try_from(within).unwrap_or(i64::MAX));
        // The first interval can be shorter than the others, because it begins at the first
        // possible time. In this case, the added length can lead beyond the next interval.
        let before = self.floor_ms(next.saturating_sub(1));
        let next = if before > start { before } else { next };
        (next > start).then_some(next)
    }

    /// Returns the maximum length of an interval of this width, in milliseconds.
    pub fn longest_ms(self) -> i64 {
        self.unit
            .longest_ms()
            .saturating_mul(i64::from(self.count.max(1)))
    }
}

impl WidthUnit {
    fn longest_ms(self) -> i64 {
        match self {
            Self::Second => MS_PER_SECOND,
            Self::Minute => 60 * MS_PER_SECOND,
            Self::Hour => 3_600 * MS_PER_SECOND,
            Self::Day => MS_PER_DAY,
            Self::Week => 7 * MS_PER_DAY,
            Self::Month => 31 * MS_PER_DAY,
            Self::Year => 366 * MS_PER_DAY,
        }
    }
}

/// Returns the year and the month (0 for January) of the day `day` days after 1970-01-01.
fn month_of(day: i64) -> (i64, i64) {
    let day = day + DAYS_FROM_MARCH_0_TO_EPOCH;
    let (era, of_era) = (day.div_euclid(DAYS_PER_ERA), day.rem_euclid(DAYS_PER_ERA));
    // Subtract the leap days at the end of 4, 100 and 400 years that begin in March. All years then
    // have 365 days.
    let year = (of_era - of_era / 1_460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year + year / 4 - year / 100);
    // The five months from March on have 153 days together, and so have the next five months.
    // Compute the month by division.
    let since_march = (5 * of_year + 2) / 153;
    let month = (since_march + 2) % 12;
    (era * YEARS_PER_ERA + year + i64::from(month < 2), month)
}

/// Returns the first day of a month (0 for January) as the number of days since 1970-01-01.
fn days_to(year: i64, month: i64) -> i64 {
    let year = year - i64::from(month < 2);
    let (era, of_era) = (year.div_euclid(YEARS_PER_ERA), year.rem_euclid(YEARS_PER_ERA));
    let since_march = (month + 10) % 12;
    let of_year = (153 * since_march + 2) / 5;
    let days = of_era * 365 + of_era / 4 - of_era / 100 + of_year;
    era * DAYS_PER_ERA + days - DAYS_FROM_MARCH_0_TO_EPOCH
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use jiff::{Timestamp, ToSpan, tz::TimeZone};
    use proptest::prelude::*;

    use super::*;

    const UNITS: [WidthUnit; 7] = [
        WidthUnit::Second,
        WidthUnit::Minute,
        WidthUnit::Hour,
        WidthUnit::Day,
        WidthUnit::Week,
        WidthUnit::Month,
        WidthUnit::Year,
    ];

    fn ms(text: &str) -> i64 {
        text.parse::<Timestamp>().unwrap().as_millisecond()
    }

    #[test]
    fn widths_begin_where_calendars_say() {
        for (width, time, start) in [
            ("1 second", "2013-05-17T10:30:01.999Z", "2013-05-17T10:30:01Z"),
            ("15 minutes", "2013-05-17T10:44:59.999Z", "2013-05-17T10:30:00Z"),
            ("6 hours", "1969-12-31T23:59:59Z", "1969-12-31T18:00:00Z"),
            ("1 day", "2016-02-29T23:59:59.999Z", "2016-02-29T00:00:00Z"),
            ("1 week", "2026-11-25T02:00:00Z", "2026-11-23T00:00:00Z"),
            ("1 week", "1970-01-01T00:00:00Z", "1969-12-29T00:00:00Z"),
            ("1 month", "1900-03-01T00:00:00Z", "1900-03-01T00:00:00Z"),
            ("1 month", "1900-02-28T23:59:59Z", "1900-02-01T00:00:00Z"),
            ("3 months", "2013-06-30T00:00:00Z", "2013-04-01T00:00:00Z"),
            ("1 year", "2000-12-31T23:59:59Z", "2000-01-01T00:00:00Z"),
            ("10 years", "1979-07-01T00:00:00Z", "1970-01-01T00:00:00Z"),
            ("100 years", "1979-07-01T00:00:00Z", "1900-01-01T00:00:00Z"),
        ] {
            let width = Width::parse(width).unwrap();
            assert_eq!(width.floor_ms(ms(time)), ms(start), "{width} of {time}");
        }
    }

    /// Returns a strategy for times over the whole range of 64 bits, which no calendar library
    /// supports.
    fn any_time() -> impl Strategy<Value = i64> {
        prop_oneof![
            any::<i64>(),
            -100_000_000_000_i64..4_000_000_000_000,
            Just(i64::MIN),
            Just(i64::MAX)
        ]
    }

    fn any_width() -> impl Strategy<Value = Width> {
        let count = prop_oneof![1_u32..40, 1_u32..=u32::MAX];
        (count, prop::sample::select(&UNITS[..])).prop_map(|(count, unit)| Width { count, unit })
    }

    proptest! {
        #[test]
        fn rounding_keeps_the_order_and_goes_down(width in any_width(), one in any_time(), other in any_time()) {
            let (low, high) = (one.min(other), one.max(other));
            let (start, of_high) = (width.floor_ms(low), width.floor_ms(high));
            prop_assert!(start <= low && start <= of_high);
            // Rounding a rounded time must not change it.
            prop_assert_eq!(width.floor_ms(start), start);
            // The last millisecond before an interval must belong to an earlier interval.
            if start > i64::MIN {
                prop_assert!(width.floor_ms(start - 1) < start);
            }
        }

        #[test]
        fn widths_follow_each_other(width in any_width(), time in any_time()) {
            let start = width.floor_ms(time);
            match width.next_ms(time) {
                None => prop_assert_eq!(width.floor_ms(i64::MAX), start),
                Some(next) => {
                    prop_assert!(next > time);
                    prop_assert_eq!(width.floor_ms(next), next);
                    prop_assert_eq!(width.floor_ms(next - 1), start);
                }
            }
        }

        #[test]
        fn days_and_months_are_those_of_the_calendar(time in -377_000_000_000_000_i64..253_000_000_000_000) {
            let date = Timestamp::from_millisecond(time).unwrap().to_zoned(TimeZone::UTC).date();
            let day = time.div_euclid(MS_PER_DAY);
            prop_assert_eq!(month_of(day), (i64::from(date.year()), i64::from(date.month()) - 1));
            let first = days_to(i64::from(date.year()), i64::from(date.month()) - 1);
            prop_assert_eq!(day - first, i64::from(date.day()) - 1);
            let monday = date - i64::from(date.weekday().to_monday_zero_offset()).days();
            let week = Width { count: 1, unit: WidthUnit::Week };
            let start = Timestamp::from_millisecond(week.floor_ms(time)).unwrap().to_zoned(TimeZone::UTC).date();
            prop_assert_eq!(start, monday);
        }
    }
}
