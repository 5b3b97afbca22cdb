//! Buckets by time: which one a key belongs to, by arithmetic alone.
//!
//! The bucket of a row is the width of the calendar, in UTC, that its first order column lies in. Rows without a time have one of their
//! own. So nothing says where a row belongs but its key, and nothing is ever cut.

use recto_buckets::{Bucket, Floor, Kept, Key};
use recto_model::table::Direction;
use recto_model::width::Width;
use recto_model::{Column, Table, Type, key};

use crate::error::{PiecesError, PiecesErrorKind, Result};
use crate::tables::direction_of;

/// The bucket of rows that have no time.
const TIMELESS: Bucket = Bucket(1);
/// The number of the bucket that begins in 1970; each second is one more. Bucket 0 is the root, where scans meet the partition.
const EPOCH_BUCKET: i64 = 1 << 62;
const MS_PER_SECOND: i64 = 1_000;
/// Buckets that are not by time go by so many steps of the length that they are kept for.
const STEPS_OF_LENGTH: i64 = 8;
const MS_PER_DAY: i64 = 86_400_000;
/// The day of 1970-01-01, in cells of dates.
const EPOCH_DAY: i64 = 1 << 31;
/// Days of dates, counted from 1970-01-01, end here.
const LAST_DAY: i64 = EPOCH_DAY - 1;
/// From 1582-10-15, where UUIDs count from, to 1970-01-01.
const UUID_EPOCH_MS: i64 = -12_219_292_800_000;
/// UUIDs count 100 ns.
const UUID_TICKS_PER_MS: i64 = 10_000;
/// The last time that a UUID of version 1 has.
const LAST_UUID_TICKS: i64 = (1 << 60) - 1;

/// How keys of a table are put into buckets by time.
#[derive(Debug, Clone)]
pub(crate) struct Times {
    width: Width,
    ty: Type,
    direction: Direction,
    /// The direction of the column before the time that says whether there is one.
    presence: Option<Direction>,
}

/// A bucket by time.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct TimeBucket {
    /// The edge before its first key.
    pub(crate) start: Key,
    /// The edge before the first key of the one behind it; none: there can be none.
    pub(crate) end: Option<Key>,
    pub(crate) bucket: Bucket,
}

impl Times {
    /// Of a table that is ordered by a time first.
    ///
    /// # Errors
    /// It is not.
    pub(crate) fn of(table: &Table, width: Width) -> Result<Self> {
        let is_time = |column: &&Column| matches!(column.ty, Type::Timestamp | Type::TimeUuid | Type::Date);
        let columns = table.clustering();
        let (presence, time) = match columns.first() {
            Some(first) if first.ty == Type::Boolean => (Some(direction_of(first)), columns.get(1)),
            first => (None, first),
        };
        let Some(time) = time.filter(is_time) else {
            let message = format!("table {} is not ordered by a time first", table.name());
            return Err(PiecesError::new(PiecesErrorKind::InvalidArgument, message)
                .with_hint("buckets by time need a timestamp, timeuuid or date as first order column"));
        };
        Ok(Self {
            width,
            ty: time.ty.clone(),
            direction: direction_of(time),
            presence,
        })
    }

    /// The time of a key, in milliseconds since 1970; none: it has none.
    ///
    /// # Errors
    /// It is none of the table's keys.
    pub(crate) fn time_of(&self, key: &[u8]) -> Result<Option<i64>> {
        let mut rest = key;
        if let Some(direction) = self.presence {
            let mut cell = Vec::new();
            key::decode(&Type::Boolean, direction, &mut rest, &mut cell).map_err(PiecesError::from)?;
            if cell != PRESENT {
                return Ok(None);
            }
        }
        let mut cell = Vec::new();
        key::decode(&self.ty, self.direction, &mut rest, &mut cell).map_err(PiecesError::from)?;
        Ok(Some(self.ms_of(&cell)))
    }

    /// The bucket that a key belongs to.
    ///
    /// # Errors
    /// It is none of the table's keys.
    pub(crate) fn bucket_of(&self, key: &[u8]) -> Result<TimeBucket> {
        match self.time_of(key)? {
            Some(time_ms) => self.bucket_at(time_ms),
            None => self.timeless(),
        }
    }

    /// The bucket of a time.
    fn bucket_at(&self, time_ms: i64) -> Result<TimeBucket> {
        let start_ms = self.width.floor_ms(time_ms);
        let next_ms = self.width.next_ms(time_ms);
        // Never less than nothing: seconds of 64 bits of milliseconds are fewer than half of what there is room for.
        let number = EPOCH_BUCKET + start_ms.div_euclid(MS_PER_SECOND);
        let bucket = Bucket(u64::try_from(number).unwrap_or(TIMELESS.0));
        let (first, behind) = match self.direction {
            Direction::Ascending => (
                self.first_from(start_ms),
                next_ms.and_then(|next| self.first_from(next)),
            ),
            // The newest keys are the first.
            Direction::Descending => {
                let before = self.width.floor_ms(start_ms.saturating_sub(1));
                let is_some = before < start_ms;
                (
                    self.last_before(next_ms),
                    is_some.then(|| self.last_before(Some(start_ms))).flatten(),
                )
            }
        };
        let start = self.edge(&first.ok_or_else(no_such_time)?)?;
        let end = behind.map(|cell| self.edge(&cell)).transpose()?;
        let end = end.filter(|end| *end > start).or(self.end_of_times()?);
        Ok(TimeBucket { start, end, bucket })
    }

    /// The edge at which the buckets lie whose widths ended before a time: those that lie behind it where the newest keys are the
    /// first, else those before it.
    ///
    /// # Errors
    /// There can be no such key.
    fn edge_of_kept(&self, from_ms: i64) -> Result<Key> {
        let cell = match self.direction {
            Direction::Ascending => self.first_from(from_ms),
            Direction::Descending => self.last_before(Some(from_ms)),
        };
        self.edge(&cell.ok_or_else(no_such_time)?)
    }

    /// Whether rows without a time stand behind the others; none: each has one.
    fn has_timeless_last(&self) -> Option<bool> {
        self.presence.map(|direction| direction == Direction::Ascending)
    }

    fn timeless(&self) -> Result<TimeBucket> {
        let start = self.presence_edge(ABSENT)?;
        let end = match self.has_timeless_last() {
            Some(false) => Some(self.presence_edge(PRESENT)?),
            _ => None,
        };
        Ok(TimeBucket {
            start,
            end,
            bucket: TIMELESS,
        })
    }

    /// Where keys end that have a time; none: there are no others behind them.
    fn end_of_times(&self) -> Result<Option<Key>> {
        match self.has_timeless_last() {
            Some(true) => self.presence_edge(ABSENT).map(Some),
            _ => Ok(None),
        }
    }

    fn presence_edge(&self, cell: &[u8]) -> Result<Key> {
        let mut edge = Key::new();
        if let Some(direction) = self.presence {
            key::encode(&Type::Boolean, direction, cell, &mut edge)?;
        }
        Ok(edge)
    }

    fn edge(&self, cell: &[u8]) -> Result<Key> {
        let mut edge = self.presence_edge(PRESENT)?;
        key::encode(&self.ty, self.direction, cell, &mut edge)?;
        Ok(edge)
    }

    fn ms_of(&self, cell: &[u8]) -> i64 {
        match self.ty {
            Type::Date => {
                let day = cell.try_into().map_or(0, u32::from_be_bytes);
                (i64::from(day) - EPOCH_DAY) * MS_PER_DAY
            }
            Type::TimeUuid => ticks_of(cell).div_euclid(UUID_TICKS_PER_MS) + UUID_EPOCH_MS,
            _ => cell.try_into().map_or(0, i64::from_be_bytes),
        }
    }

    /// The first value that is not before a time; none: all are before it.
    fn first_from(&self, ms: i64) -> Option<Vec<u8>> {
        match self.ty {
            Type::Date => {
                let day = ms.div_euclid(MS_PER_DAY) + i64::from(ms.rem_euclid(MS_PER_DAY) > 0);
                (day <= LAST_DAY).then(|| date_cell(day))
            }
            Type::TimeUuid => {
                let ticks = uuid_ticks(ms);
                // The other bytes are compared as numbers with a sign.
                (ticks <= LAST_UUID_TICKS).then(|| uuid_cell(ticks, 0x80))
            }
            _ => Some(ms.to_be_bytes().to_vec()),
        }
    }

    /// The last value before a time, or of all; none: none is before it.
    fn last_before(&self, ms: Option<i64>) -> Option<Vec<u8>> {
        let Some(ms) = ms else {
            return Some(self.last());
        };
        match self.ty {
            Type::Date => {
                let day = ms.saturating_sub(1).div_euclid(MS_PER_DAY);
                (day >= -EPOCH_DAY).then(|| date_cell(day))
            }
            Type::TimeUuid => {
                let ticks = uuid_ticks(ms).saturating_sub(1);
                (ticks >= 0).then(|| uuid_cell(ticks, 0x7f))
            }
            _ => ms.checked_sub(1).map(|ms| ms.to_be_bytes().to_vec()),
        }
    }

    /// The last value that there is.
    fn last(&self) -> Vec<u8> {
        match self.ty {
            Type::Date => date_cell(LAST_DAY),
            Type::TimeUuid => uuid_cell(LAST_UUID_TICKS, 0x7f),
            _ => i64::MAX.to_be_bytes().to_vec(),
        }
    }
}

fn no_such_time() -> PiecesError {
    let message = "the order's type has no value at the edge of a bucket by time";
    PiecesError::new(PiecesErrorKind::InvalidArgument, message)
        .with_hint("make the buckets, or what is kept, shorter")
}

/// For how long rows are kept, by the time that they are ordered by first.
#[derive(Debug, Clone)]
pub(crate) struct Keep {
    times: Times,
    length_ms: i64,
    /// Whether the floor stands at the edges of buckets by time.
    is_by_time: bool,
}

impl Keep {
    /// Of a table that is ordered by a time first, in buckets of a width if they are by time.
    ///
    /// # Errors
    /// It is not.
    pub(crate) fn of(table: &Table, length: Width, bucket: Option<Width>) -> Result<Self> {
        Ok(Self {
            times: Times::of(table, bucket.unwrap_or(length))?,
            // Months have 31 days, and years 366: what is kept is kept for no less.
            length_ms: length.longest_ms(),
            is_by_time: bucket.is_some(),
        })
    }

    /// What is not kept any more when it is so late. It moves by steps: those of buckets by time, or an eighth of the length.
    ///
    /// # Errors
    /// There is no such edge.
    pub(crate) fn floor(&self, now_ms: i64) -> Result<Floor> {
        let from_ms = now_ms.saturating_sub(self.length_ms);
        let from_ms = if self.is_by_time {
            self.times.width.floor_ms(from_ms)
        } else {
            let step = (self.length_ms / STEPS_OF_LENGTH).max(MS_PER_SECOND);
            from_ms.saturating_sub(from_ms.rem_euclid(step))
        };
        Ok(Floor {
            at: self.times.edge_of_kept(from_ms)?,
            kept: self.kept(),
        })
    }

    /// On which side of a floor rows are kept.
    pub(crate) fn kept(&self) -> Kept {
        match self.times.direction {
            Direction::Ascending => Kept::After,
            Direction::Descending => Kept::Before,
        }
    }
}

/// Whether a floor is to be raised to another one.
pub(crate) fn is_raised(floor: Option<&Floor>, to: &Floor) -> bool {
    floor.is_none_or(|floor| match to.kept {
        Kept::After => floor.at < to.at,
        Kept::Before => floor.at > to.at,
    })
}

/// What the column before a time holds where there is one, and where there is none.
const PRESENT: &[u8] = &[0];
const ABSENT: &[u8] = &[1];

/// The nearest date that there is.
fn date_cell(day: i64) -> Vec<u8> {
    let day = day.saturating_add(EPOCH_DAY).clamp(0, u32::MAX.into());
    u32::try_from(day).unwrap_or(u32::MAX).to_be_bytes().to_vec()
}

/// A time as UUIDs count it, those included that they cannot hold.
fn uuid_ticks(ms: i64) -> i64 {
    ms.saturating_sub(UUID_EPOCH_MS).saturating_mul(UUID_TICKS_PER_MS)
}

fn ticks_of(cell: &[u8]) -> i64 {
    let Ok(uuid) = <[u8; 16]>::try_from(cell) else {
        return 0;
    };
    let high = i64::from(u16::from_be_bytes([uuid[6] & 0x0f, uuid[7]]));
    let middle = i64::from(u16::from_be_bytes([uuid[4], uuid[5]]));
    let low = i64::from(u32::from_be_bytes([uuid[0], uuid[1], uuid[2], uuid[3]]));
    high << 48 | middle << 32 | low
}

/// The UUID of version 1 of the nearest time that there is, with all other bytes the same.
fn uuid_cell(ticks: i64, other: u8) -> Vec<u8> {
    let ticks = ticks.clamp(0, LAST_UUID_TICKS).to_be_bytes();
    let mut uuid = vec![other; 16];
    uuid[..4].copy_from_slice(&ticks[4..]);
    uuid[4..6].copy_from_slice(&ticks[2..4]);
    uuid[6..8].copy_from_slice(&ticks[..2]);
    uuid[6] |= 0x10;
    uuid
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use recto_model::Cells;
    use recto_model::table::{ColumnKind, TableOptions, WriteKind};
    use recto_model::width::WidthUnit;

    use super::*;

    fn table(ty: Type, direction: Direction, presence: Option<Direction>) -> Table {
        let column = |name: &str, ty, kind| Column {
            name: name.to_owned(),
            ty,
            kind,
        };
        let mut columns = vec![column("p", Type::Int, ColumnKind::Partition)];
        columns
            .extend(presence.map(|direction| column("n", Type::Boolean, ColumnKind::Clustering(direction))));
        columns.push(column("at", ty, ColumnKind::Clustering(direction)));
        columns.push(column("v", Type::Int, ColumnKind::Regular(WriteKind::Plain)));
        Table::new("t", columns, TableOptions::default()).expect("it is one")
    }

    fn key_of(table: &Table, cells: &Cells) -> Key {
        let mut key = Key::new();
        key::encode_clustering(table, cells.as_row(), &mut key).expect("it is one");
        key
    }

    fn any_direction() -> impl Strategy<Value = Direction> {
        prop::sample::select(vec![Direction::Ascending, Direction::Descending])
    }

    fn any_width() -> impl Strategy<Value = Width> {
        use WidthUnit::{Day, Hour, Minute, Month, Second, Week, Year};
        let units = vec![Second, Minute, Hour, Day, Week, Month, Year];
        let count = prop_oneof![1_u32..40, any::<u32>().prop_map(|count| count.max(1))];
        (count, prop::sample::select(units)).prop_map(|(count, unit)| Width { count, unit })
    }

    /// Times, near each other as often as not.
    fn any_ms() -> impl Strategy<Value = i64> {
        prop_oneof![
            any::<i64>(),
            -100_000_000_000_i64..4_000_000_000_000,
            -100_000..100_000_i64,
            Just(i64::MIN),
            Just(i64::MAX)
        ]
    }

    fn cell(ty: &Type, ms: i64, other: u8) -> Vec<u8> {
        match ty {
            Type::Date => date_cell(ms.div_euclid(MS_PER_DAY)),
            Type::TimeUuid => uuid_cell(uuid_ticks(ms), other),
            _ => ms.to_be_bytes().to_vec(),
        }
    }

    proptest! {
        /// Buckets hold what lies between their edges and nothing else, follow each other as their keys do, and are called by one
        /// number each.
        #[test]
        fn each_key_is_in_one_bucket(
            ty in prop::sample::select(vec![Type::Timestamp, Type::Date, Type::TimeUuid]),
            direction in any_direction(),
            presence in prop::option::of(any_direction()),
            width in any_width(),
            times in prop::collection::vec((prop::option::weighted(0.9, any_ms()), any::<u8>()), 2..6),
        ) {
            let table = table(ty.clone(), direction, presence);
            let times_of = Times::of(&table, width).expect("it is ordered by a time");
            let mut found = Vec::new();
            for (ms, other) in times {
                let ms = ms.or_else(|| presence.is_none().then_some(0));
                let value = cell(&ty, ms.unwrap_or_default(), other);
                let rank = presence.map(|_| if ms.is_some() { PRESENT } else { ABSENT });
                let cells: Cells = rank.into_iter().chain([&value[..]]).map(Some).collect();
                let key = key_of(&table, &cells);
                let bucket = times_of.bucket_of(&key).expect("it is a key");
                prop_assert!(bucket.start <= key);
                prop_assert!(bucket.end.as_ref().is_none_or(|end| key < *end));
                prop_assert!(bucket.bucket.0 > 0 && i64::try_from(bucket.bucket.0).is_ok());
                prop_assert_eq!(&times_of.bucket_of(&bucket.start).expect("it is a key"), &bucket);
                let floor = ms.map(|_| width.floor_ms(times_of.ms_of(&value)));
                found.push((key, bucket, floor));
            }
            found.sort();
            for pair in found.windows(2) {
                let ((_, one, floor), (_, other, other_floor)) = (&pair[0], &pair[1]);
                prop_assert_eq!(one == other, floor == other_floor);
                prop_assert_eq!(one.bucket == other.bucket, one == other);
                if one != other {
                    prop_assert!(one.end.as_ref().is_some_and(|end| *end <= other.start));
                }
            }
        }
    }

    #[test]
    fn only_times_are_put_into_buckets_by_time() {
        let width = Width {
            count: 1,
            unit: WidthUnit::Day,
        };
        for ty in [Type::Int, Type::Time, Type::Uuid] {
            let refused = Times::of(&table(ty, Direction::Ascending, None), width);
            assert!(refused.is_err_and(|error| error.to_string().contains("not ordered by a time")));
        }
    }
}
