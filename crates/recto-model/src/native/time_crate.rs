//! Field types for the dates and times of the crate `time`, with the feature `time`.

use ::time::{Date as TimeDate, OffsetDateTime, Time as TimeTime, UtcDateTime};

use super::{Date, FieldType, KeyType, OutOfRange, Time, Timestamp, malformed};
use crate::Type;
use crate::cell::CellError;

/// Julian day number of 1970-01-01, which converts dates of the crate `time` to days since
/// 1970-01-01.
const EPOCH_JULIAN_DAY: i32 = 2_440_588;

const NANOS_PER_SECOND: u64 = 1_000_000_000;
const NANOS_PER_MILLI: i128 = 1_000_000;

impl From<TimeDate> for Date {
    fn from(date: TimeDate) -> Self {
        Self(date.to_julian_day() - EPOCH_JULIAN_DAY)
    }
}

impl TryFrom<Date> for TimeDate {
    type Error = OutOfRange;

    fn try_from(date: Date) -> Result<Self, OutOfRange> {
        let day = date.0.checked_add(EPOCH_JULIAN_DAY).ok_or(OutOfRange)?;
        Self::from_julian_day(day).map_err(|_| OutOfRange)
    }
}

impl From<TimeTime> for Time {
    fn from(time: TimeTime) -> Self {
        let (hour, minute, second, nanos) = time.as_hms_nano();
        let seconds = (u64::from(hour) * 60 + u64::from(minute)) * 60 + u64::from(second);
        Self((seconds * NANOS_PER_SECOND + u64::from(nanos)).cast_signed())
    }
}

impl TryFrom<Time> for TimeTime {
    type Error = OutOfRange;

    fn try_from(time: Time) -> Result<Self, OutOfRange> {
        let nanos = u64::try_from(time.0).map_err(|_| OutOfRange)?;
        let (seconds, nanos) = (nanos / NANOS_PER_SECOND, nanos % NANOS_PER_SECOND);
        let hour = u8::try_from(seconds / 3_600).map_err(|_| OutOfRange)?;
        let (minute, second) = (seconds / 60 % 60, seconds % 60);
        Self::from_hms_nano(hour, minute as u8, second as u8, nanos as u32).map_err(|_| OutOfRange)
    }
}

/// Implements `FieldType` and conversions for the point-in-time types of the crate `time`. Values
/// read from a store are in UTC.
macro_rules! moments {
    ($($native:ident),*) => {$(
        /// Converts a point in time, rounded down to a whole millisecond.
        impl From<$native> for Timestamp {
            fn from(time: $native) -> Self {
                // The cast loses nothing: the crate's years are -999999 to 999999, so the
                // milliseconds fit into 64 bits.
                Self(time.unix_timestamp_nanos().div_euclid(NANOS_PER_MILLI) as i64)
            }
        }

        impl TryFrom<Timestamp> for $native {
            type Error = OutOfRange;

            fn try_from(timestamp: Timestamp) -> Result<Self, OutOfRange> {
                let nanos = i128::from(timestamp.0) * NANOS_PER_MILLI;
                Self::from_unix_timestamp_nanos(nanos).map_err(|_| OutOfRange)
            }
        }
    )*};
}

moments!(OffsetDateTime, UtcDateTime);

converted! {
    TimeDate => Date;
    TimeTime => Time;
    OffsetDateTime => Timestamp;
    UtcDateTime => Timestamp;
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::native::tests::{check_ends, check_round_trip};

    #[test]
    fn dates_and_times_are_the_same_in_both() {
        let date = TimeDate::from_ordinal_date(2013, 31).unwrap();
        assert_eq!(Date::from(date).to_string(), "2013-01-31");
        let time = TimeTime::from_hms_nano(10, 0, 1, 500_000_000).unwrap();
        assert_eq!(Time::from(time).to_string(), "10:00:01.500000000");
        let moment = OffsetDateTime::from_unix_timestamp_nanos(1_359_626_400_123_999_999).unwrap();
        assert_eq!(Timestamp::from(moment).to_string(), "2013-01-31T10:00:00.123Z");
        let before = UtcDateTime::from_unix_timestamp_nanos(-1).unwrap();
        assert_eq!(Timestamp::from(before), Timestamp(-1));
        check_round_trip(&[date, TimeDate::MIN, TimeDate::MAX]);
        check_round_trip(&[time, TimeTime::MIDNIGHT, TimeTime::MAX]);
        check_round_trip(&[OffsetDateTime::UNIX_EPOCH]);
        check_round_trip(&[UtcDateTime::UNIX_EPOCH]);
        check_ends::<TimeDate, TimeTime, OffsetDateTime>();
    }
}
