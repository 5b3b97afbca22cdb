//! Dates, times, timestamps and durations, and jiff's and the standard library's for them.

use std::time::{Duration, SystemTime};

use super::{FieldType, KeyType, malformed, null, scalar};
use crate::cell::{self, CellError, MAX_TIME_NANOS};
use crate::{Type, Value};

/// What CQL adds to the days of a date, so that all dates are unsigned numbers on the wire.
const DATE_OFFSET: u32 = 1 << 31;

/// A time that the other type cannot hold exactly: out of its range, or finer than it goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct InexactTime(&'static str);

const FINER: InexactTime =
    InexactTime("finer than a millisecond; round it first, for example with Timestamp::floor");
const OUT_OF_RANGE: InexactTime = InexactTime("out of the range of the other type");

/// Days since 1970-01-01, in the proleptic Gregorian calendar.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Date(pub i32);

impl From<jiff::civil::Date> for Date {
    fn from(date: jiff::civil::Date) -> Self {
        // jiff's dates are of the years -9999 to 9999: under four million days.
        Self(date.since(EPOCH).map_or(0, |span| span.get_days()))
    }
}

impl TryFrom<Date> for jiff::civil::Date {
    type Error = InexactTime;

    fn try_from(date: Date) -> Result<Self, InexactTime> {
        let days = jiff::SignedDuration::from_hours(i64::from(date.0) * 24);
        EPOCH.checked_add(days).map_err(|_| OUT_OF_RANGE)
    }
}

const EPOCH: jiff::civil::Date = jiff::civil::Date::constant(1970, 1, 1);

impl FieldType for Date {
    fn field_type() -> Type {
        Type::Date
    }

    #[inline]
    fn write_cell(&self, out: &mut Vec<u8>) -> Result<bool, CellError> {
        out.extend_from_slice(&(self.0.cast_unsigned() ^ DATE_OFFSET).to_be_bytes());
        Ok(true)
    }

    #[inline]
    fn read_cell(cell: Option<&[u8]>) -> Result<Self, CellError> {
        scalar::fixed::<Self, 4>(cell)
            .map(|bytes| Self((u32::from_be_bytes(bytes) ^ DATE_OFFSET).cast_signed()))
    }
}

/// Nanoseconds since midnight, 0 to 86,399,999,999,999.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Time(pub i64);

impl From<jiff::civil::Time> for Time {
    fn from(time: jiff::civil::Time) -> Self {
        let seconds =
            (i64::from(time.hour()) * 60 + i64::from(time.minute())) * 60 + i64::from(time.second());
        Self(seconds * 1_000_000_000 + i64::from(time.subsec_nanosecond()))
    }
}

impl TryFrom<Time> for jiff::civil::Time {
    type Error = InexactTime;

    fn try_from(time: Time) -> Result<Self, InexactTime> {
        let since_midnight = jiff::SignedDuration::from_nanos(time.0);
        jiff::civil::Time::midnight()
            .checked_add(since_midnight)
            .map_err(|_| OUT_OF_RANGE)
    }
}

impl FieldType for Time {
    fn field_type() -> Type {
        Type::Time
    }

    #[inline]
    fn write_cell(&self, out: &mut Vec<u8>) -> Result<bool, CellError> {
        if !(0..=MAX_TIME_NANOS).contains(&self.0) {
            return Err(malformed::<Self>("not between midnight and midnight"));
        }
        out.extend_from_slice(&self.0.to_be_bytes());
        Ok(true)
    }

    #[inline]
    fn read_cell(cell: Option<&[u8]>) -> Result<Self, CellError> {
        let nanoseconds = scalar::fixed::<Self, 8>(cell).map(i64::from_be_bytes)?;
        if !(0..=MAX_TIME_NANOS).contains(&nanoseconds) {
            return Err(malformed::<Self>("not between midnight and midnight"));
        }
        Ok(Self(nanoseconds))
    }
}

/// Milliseconds since 1970-01-01T00:00:00Z.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Timestamp(pub i64);

impl Timestamp {
    /// The last whole millisecond at or before `time`.
    pub fn floor(time: jiff::Timestamp) -> Self {
        let milliseconds = time.as_nanosecond().div_euclid(1_000_000);
        // jiff's timestamps are of the years -9999 to 9999.
        Self(i64::try_from(milliseconds).unwrap_or_default())
    }
}

impl TryFrom<jiff::Timestamp> for Timestamp {
    type Error = InexactTime;

    fn try_from(time: jiff::Timestamp) -> Result<Self, InexactTime> {
        if time.as_nanosecond() % 1_000_000 == 0 {
            Ok(Self::floor(time))
        } else {
            Err(FINER)
        }
    }
}

impl TryFrom<Timestamp> for jiff::Timestamp {
    type Error = InexactTime;

    fn try_from(timestamp: Timestamp) -> Result<Self, InexactTime> {
        Self::from_millisecond(timestamp.0).map_err(|_| OUT_OF_RANGE)
    }
}

impl TryFrom<SystemTime> for Timestamp {
    type Error = InexactTime;

    fn try_from(time: SystemTime) -> Result<Self, InexactTime> {
        let (distance, sign) = match time.duration_since(SystemTime::UNIX_EPOCH) {
            Ok(since) => (since, 1),
            Err(error) => (error.duration(), -1),
        };
        if distance.subsec_nanos() % 1_000_000 != 0 {
            return Err(FINER);
        }
        i64::try_from(distance.as_millis())
            .map(|milliseconds| Self(milliseconds * sign))
            .map_err(|_| OUT_OF_RANGE)
    }
}

impl TryFrom<Timestamp> for SystemTime {
    type Error = InexactTime;

    fn try_from(timestamp: Timestamp) -> Result<Self, InexactTime> {
        let distance = Duration::from_millis(timestamp.0.unsigned_abs());
        let time = if timestamp.0 < 0 {
            Self::UNIX_EPOCH.checked_sub(distance)
        } else {
            Self::UNIX_EPOCH.checked_add(distance)
        };
        time.ok_or(OUT_OF_RANGE)
    }
}

impl FieldType for Timestamp {
    fn field_type() -> Type {
        Type::Timestamp
    }

    #[inline]
    fn write_cell(&self, out: &mut Vec<u8>) -> Result<bool, CellError> {
        out.extend_from_slice(&self.0.to_be_bytes());
        Ok(true)
    }

    #[inline]
    fn read_cell(cell: Option<&[u8]>) -> Result<Self, CellError> {
        scalar::fixed::<Self, 8>(cell).map(|bytes| Self(i64::from_be_bytes(bytes)))
    }
}

/// Months, days and nanoseconds, all of one sign (or zero).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct CqlDuration {
    /// Months.
    pub months: i32,
    /// Days.
    pub days: i32,
    /// Nanoseconds.
    pub nanoseconds: i64,
}

impl FieldType for CqlDuration {
    fn field_type() -> Type {
        Type::Duration
    }

    fn write_cell(&self, out: &mut Vec<u8>) -> Result<bool, CellError> {
        let value = Value::Duration {
            months: self.months,
            days: self.days,
            nanoseconds: self.nanoseconds,
        };
        cell::encode(&Type::Duration, &value, out).map(|()| true)
    }

    fn read_cell(cell: Option<&[u8]>) -> Result<Self, CellError> {
        match cell::decode(&Type::Duration, cell.ok_or_else(null::<Self>)?)? {
            Value::Duration {
                months,
                days,
                nanoseconds,
            } => Ok(Self {
                months,
                days,
                nanoseconds,
            }),
            _ => Err(malformed::<Self>("a value of another type")),
        }
    }
}

/// jiff's types are the newtypes above in other clothes.
macro_rules! jiff_types {
    ($($native:ty => $newtype:ident),*) => {$(
        impl FieldType for $native {
            fn field_type() -> Type {
                $newtype::field_type()
            }

            #[inline]
            fn write_cell(&self, out: &mut Vec<u8>) -> Result<bool, CellError> {
                $newtype::try_from(*self)
                    .map_err(|error| malformed::<Self>(&error.to_string()))?
                    .write_cell(out)
            }

            #[inline]
            fn read_cell(cell: Option<&[u8]>) -> Result<Self, CellError> {
                <$native>::try_from($newtype::read_cell(cell)?)
                    .map_err(|error| malformed::<Self>(&error.to_string()))
            }
        }

        impl KeyType for $native {}
        impl KeyType for $newtype {}
    )*};
}

jiff_types!(jiff::civil::Date => Date, jiff::civil::Time => Time, jiff::Timestamp => Timestamp);
