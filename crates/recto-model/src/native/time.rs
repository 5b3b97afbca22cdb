//! Field types for dates, times, timestamps and durations, and their conversion from and to types
//! of jiff and the standard library.

use std::time::{Duration, SystemTime};

use super::{FieldType, KeyType, malformed, null, scalar};
use crate::cell::{self, CellError, MAX_TIME_NANOS};
use crate::{Environment, Type, Value};

/// Offset that CQL adds to the days since 1970-01-01 in a date, so that all encoded dates are
/// unsigned numbers.
const DATE_OFFSET: u32 = 1 << 31;

/// Error for a date or time that is outside the range of the type to which it is converted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("out of the range of the other type")]
pub struct OutOfRange;

/// CQL date: days since 1970-01-01, in the proleptic Gregorian calendar.
///
/// ```
/// use recto_model::native::Date;
///
/// let date: Date = "2013-01-31".parse()?;
/// assert_eq!(date, Date(15_736));
/// assert_eq!(date.to_string(), "2013-01-31");
/// assert_eq!(Date::from(jiff::civil::date(2013, 1, 31)), date);
/// # Ok::<(), recto_model::json::JsonError>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Date(pub i32);

impl From<jiff::civil::Date> for Date {
    fn from(date: jiff::civil::Date) -> Self {
        // jiff's dates have the years -9999 to 9999, so the number of days fits into 32 bits, and
        // the default 0 is never used.
        Self(date.since(EPOCH).map_or(0, |span| span.get_days()))
    }
}

impl TryFrom<Date> for jiff::civil::Date {
    type Error = OutOfRange;

    fn try_from(date: Date) -> Result<Self, OutOfRange> {
        let days = jiff::SignedDuration::from_hours(i64::from(date.0) * 24);
        EPOCH.checked_add(days).map_err(|_| OutOfRange)
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

/// CQL time of day: nanoseconds since midnight, 0 to 86,399,999,999,999.
///
/// ```
/// use recto_model::native::Time;
///
/// let time: Time = "10:00:00.5".parse()?;
/// assert_eq!(time, Time(36_000_500_000_000));
/// assert_eq!(time.to_string(), "10:00:00.500000000");
/// # Ok::<(), recto_model::json::JsonError>(())
/// ```
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
    type Error = OutOfRange;

    fn try_from(time: Time) -> Result<Self, OutOfRange> {
        let since_midnight = jiff::SignedDuration::from_nanos(time.0);
        jiff::civil::Time::midnight()
            .checked_add(since_midnight)
            .map_err(|_| OutOfRange)
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

/// CQL timestamp: milliseconds since 1970-01-01T00:00:00Z.
///
/// Other time types are finer. A conversion rounds the time down to a whole millisecond, also when
/// the time is stored, compared or looked up. A lookup with the original time therefore finds the
/// record, but the stored time can be up to a millisecond earlier than the original.
///
/// ```
/// use recto_model::native::Timestamp;
///
/// let time: jiff::Timestamp = "2013-01-31T10:00:00.123456Z".parse()?;
/// let timestamp = Timestamp::from(time);
/// assert_eq!(timestamp, Timestamp(1_359_626_400_123));
/// assert_eq!(timestamp.to_string(), "2013-01-31T10:00:00.123Z");
/// assert_eq!("2013-01-31T10:00:00.123Z".parse(), Ok(timestamp));
/// assert!(Timestamp::now() > timestamp);
/// # Ok::<(), jiff::Error>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Timestamp(pub i64);

impl Timestamp {
    /// Returns the current time of the machine's wall clock.
    pub fn now() -> Self {
        Self(Environment::system().now_micros().div_euclid(1_000))
    }
}

/// Converts a point in time, rounded down to a whole millisecond.
impl From<jiff::Timestamp> for Timestamp {
    fn from(time: jiff::Timestamp) -> Self {
        let milliseconds = time.as_nanosecond().div_euclid(1_000_000);
        // jiff's timestamps have the years -9999 to 9999, so the milliseconds fit into 64 bits, and
        // the default 0 is never used.
        Self(i64::try_from(milliseconds).unwrap_or_default())
    }
}

impl TryFrom<Timestamp> for jiff::Timestamp {
    type Error = OutOfRange;

    fn try_from(timestamp: Timestamp) -> Result<Self, OutOfRange> {
        Self::from_millisecond(timestamp.0).map_err(|_| OutOfRange)
    }
}

/// Converts a point in time, rounded down to a whole millisecond. Fails outside the range of
/// timestamps.
impl TryFrom<SystemTime> for Timestamp {
    type Error = OutOfRange;

    fn try_from(time: SystemTime) -> Result<Self, OutOfRange> {
        let milliseconds = match time.duration_since(SystemTime::UNIX_EPOCH) {
            Ok(since) => i64::try_from(since.as_millis()),
            Err(error) => {
                i64::try_from(error.duration().as_nanos().div_ceil(1_000_000)).map(|millis| -millis)
            }
        };
        milliseconds.map(Self).map_err(|_| OutOfRange)
    }
}

impl TryFrom<Timestamp> for SystemTime {
    type Error = OutOfRange;

    fn try_from(timestamp: Timestamp) -> Result<Self, OutOfRange> {
        let distance = Duration::from_millis(timestamp.0.unsigned_abs());
        let time = if timestamp.0 < 0 {
            Self::UNIX_EPOCH.checked_sub(distance)
        } else {
            Self::UNIX_EPOCH.checked_add(distance)
        };
        time.ok_or(OutOfRange)
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

/// CQL duration: months, days and nanoseconds. All parts that are not zero have the same sign.
///
/// ```
/// use recto_model::native::CqlDuration;
///
/// let duration: CqlDuration = "P1Y2DT3S".parse()?;
/// assert_eq!((duration.months, duration.days, duration.nanoseconds), (12, 2, 3_000_000_000));
/// assert_eq!(duration.to_string(), "P1Y2DT3S");
/// # Ok::<(), recto_model::json::JsonError>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct CqlDuration {
    /// Number of months, negative in a negative duration.
    pub months: i32,
    /// Number of days, negative in a negative duration.
    pub days: i32,
    /// Number of nanoseconds, negative in a negative duration.
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

converted! {
    jiff::civil::Date => Date;
    jiff::civil::Time => Time;
    jiff::Timestamp => Timestamp;
}

impl KeyType for Date {}
impl KeyType for Time {}
impl KeyType for Timestamp {}
