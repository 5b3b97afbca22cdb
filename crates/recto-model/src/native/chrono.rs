//! Field types for the dates and times of the crate chrono, with the feature `chrono`.

use chrono::{DateTime, Datelike as _, NaiveDate, NaiveTime, Timelike as _, Utc};

use super::{Date, FieldType, KeyType, OutOfRange, Time, Timestamp, malformed};
use crate::Type;
use crate::cell::CellError;

/// Number of the day 1970-01-01 in chrono, which counts days from 0001-01-01, day 1.
const EPOCH_DAYS: i32 = 719_163;

const NANOS_PER_SECOND: i64 = 1_000_000_000;

impl From<NaiveDate> for Date {
    fn from(date: NaiveDate) -> Self {
        Self(date.num_days_from_ce() - EPOCH_DAYS)
    }
}

impl TryFrom<Date> for NaiveDate {
    type Error = OutOfRange;

    fn try_from(date: Date) -> Result<Self, OutOfRange> {
        let days = date.0.checked_add(EPOCH_DAYS);
        days.and_then(Self::from_num_days_from_ce_opt).ok_or(OutOfRange)
    }
}

/// Fails for a leap second, which CQL cannot express as a time of day.
impl TryFrom<NaiveTime> for Time {
    type Error = OutOfRange;

    fn try_from(time: NaiveTime) -> Result<Self, OutOfRange> {
        let nanos = i64::from(time.nanosecond());
        if nanos >= NANOS_PER_SECOND {
            return Err(OutOfRange);
        }
        Ok(Self(
            i64::from(time.num_seconds_from_midnight()) * NANOS_PER_SECOND + nanos,
        ))
    }
}

impl TryFrom<Time> for NaiveTime {
    type Error = OutOfRange;

    fn try_from(time: Time) -> Result<Self, OutOfRange> {
        let seconds = u32::try_from(time.0.div_euclid(NANOS_PER_SECOND)).map_err(|_| OutOfRange)?;
        let nanos = time.0.rem_euclid(NANOS_PER_SECOND) as u32;
        Self::from_num_seconds_from_midnight_opt(seconds, nanos).ok_or(OutOfRange)
    }
}

/// Converts a point in time, rounded down to a whole millisecond.
impl From<DateTime<Utc>> for Timestamp {
    fn from(time: DateTime<Utc>) -> Self {
        Self(time.timestamp_millis())
    }
}

impl TryFrom<Timestamp> for DateTime<Utc> {
    type Error = OutOfRange;

    fn try_from(timestamp: Timestamp) -> Result<Self, OutOfRange> {
        Self::from_timestamp_millis(timestamp.0).ok_or(OutOfRange)
    }
}

converted! {
    NaiveDate => Date;
    NaiveTime => Time;
    DateTime<Utc> => Timestamp;
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::native::tests::{check_ends, check_round_trip};

    #[test]
    fn dates_and_times_are_the_same_in_both() {
        let date = NaiveDate::from_ymd_opt(2013, 1, 31).unwrap();
        assert_eq!(Date::from(date).to_string(), "2013-01-31");
        let time = NaiveTime::from_hms_nano_opt(10, 0, 1, 500_000_000).unwrap();
        assert_eq!(Time::try_from(time).unwrap().to_string(), "10:00:01.500000000");
        let moment: DateTime<Utc> = "2013-01-31T10:00:00.123999Z".parse().unwrap();
        assert_eq!(Timestamp::from(moment).to_string(), "2013-01-31T10:00:00.123Z");
        let before: DateTime<Utc> = "1969-12-31T23:59:59.9995Z".parse().unwrap();
        assert_eq!(Timestamp::from(before), Timestamp(-1));
        check_round_trip(&[date, NaiveDate::MIN, NaiveDate::MAX]);
        check_round_trip(&[time, NaiveTime::MIN]);
        check_round_trip(&[DateTime::<Utc>::UNIX_EPOCH]);
        check_ends::<NaiveDate, NaiveTime, DateTime<Utc>>();
    }

    #[test]
    fn a_leap_second_is_refused() {
        let leap = NaiveTime::from_hms_nano_opt(23, 59, 59, 1_500_000_000).unwrap();
        assert!(leap.write_cell(&mut Vec::new()).is_err());
    }
}
