//! Time buckets (buckets for fixed periods of time): the key of a row alone determines its bucket,
//! by arithmetic.
//!
//! The bucket of a row is the interval of the calendar, in UTC, that contains the time in the first order column. Rows
//! without a time have their own bucket. No range map is needed, and a time bucket is never split.

use std::time::Duration;

use recto_model::table::{BucketBound, Direction, ReadDirection};
use recto_model::width::Width;
use recto_model::{Table, Type, instants, key};
use recto_protocol::buckets::{Bucket, Floor, Kept, Key, Span};

use crate::error::{PiecesError, PiecesErrorKind, Result};
use crate::keys::direction_of;

/// Id of the time bucket that has the rows without a time.
pub(crate) const TIMELESS: Bucket = Bucket(1);
/// Id of the time bucket that begins at the start of 1970. The id of a bucket is greater by one for
/// each second that the bucket begins later. Bucket 0 is the root, where scans find the partition.
const EPOCH_BUCKET: i64 = 1 << 62;
const MS_PER_SECOND: i64 = 1_000;
/// Number of steps in which the retention bound moves by the retention length, if the table has no time
/// buckets.
const STEPS_OF_LENGTH: i64 = 8;
/// Number of checks for expired data in the time in which the retention bound moves by one step.
const RETAINS_IN_A_STEP: u64 = 4;

/// Mapping from the keys of a table to time buckets.
#[derive(Debug, Clone)]
pub(crate) struct Times {
    width: Width,
    ty: Type,
    direction: Direction,
    /// Sort direction of the column that says whether a row has a time, and that is directly before
    /// the time column. `None`: every row has a time.
    presence: Option<Direction>,
}

/// Time bucket: the keys of one interval of the calendar.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct TimeBucket {
    /// Edge before the first key of the bucket.
    pub(crate) start: Key,
    /// Edge before the first key of the next bucket. `None`: there can be no next bucket.
    pub(crate) end: Option<Key>,
    pub(crate) bucket: Bucket,
}

impl TimeBucket {
    /// Returns the range of the keys that belong to the bucket.
    pub(crate) fn span(&self) -> Span {
        Span {
            start: self.start.clone(),
            end: self.end.clone(),
        }
    }
}

impl Times {
    /// Returns the mapping for a table that is ordered by a time first.
    ///
    /// # Errors
    /// The table is not ordered by a time first.
    pub(crate) fn of(table: &Table, width: Width) -> Result<Self> {
        let columns = table.clustering();
        let (presence, time) = match columns.first() {
            Some(first) if first.ty == Type::Boolean => (Some(direction_of(first)), columns.get(1)),
            first => (None, first),
        };
        let Some(time) = time.filter(|time| instants::is_time(&time.ty)) else {
            let message = format!("the first order column of table {} is not a time", table.name());
            return Err(
                PiecesError::new(PiecesErrorKind::InvalidArgument, message).with_hint(
                    "use a timestamp, timeuuid or date as first order column: buckets by time need it",
                ),
            );
        };
        Ok(Self {
            width,
            ty: time.ty.clone(),
            direction: direction_of(time),
            presence,
        })
    }

    /// Returns the time of a key in milliseconds since 1970, or `None` if the key has no time.
    ///
    /// # Errors
    /// The key is not a key of the table.
    fn time_of(&self, key: &[u8]) -> Result<Option<i64>> {
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
        Ok(Some(instants::ms_of(&self.ty, &cell)))
    }

    /// Returns the time bucket to which a row belongs, by its key.
    ///
    /// # Errors
    /// The key is not a key of the table.
    pub(crate) fn bucket_of(&self, key: &[u8]) -> Result<TimeBucket> {
        match self.time_of(key)? {
            Some(time_ms) => self.bucket_at(time_ms),
            None => self.timeless(),
        }
    }

    /// Returns the time bucket with an id, or `None` if no key belongs to a bucket with this id.
    pub(crate) fn numbered(&self, bucket: Bucket) -> Option<TimeBucket> {
        let found = if bucket == TIMELESS {
            self.presence.and_then(|_| self.timeless().ok())
        } else {
            let seconds = i64::try_from(bucket.0).ok()?.checked_sub(EPOCH_BUCKET)?;
            self.bucket_at(seconds.saturating_mul(MS_PER_SECOND)).ok()
        };
        found.filter(|found| found.bucket == bucket)
    }

    /// Returns the time bucket that contains a time.
    fn bucket_at(&self, time_ms: i64) -> Result<TimeBucket> {
        let start_ms = self.width.floor_ms(time_ms);
        let next_ms = self.width.next_ms(time_ms);
        // The id is never negative: 64 bits of milliseconds have fewer seconds than `EPOCH_BUCKET`.
        let number = EPOCH_BUCKET + start_ms.div_euclid(MS_PER_SECOND);
        let bucket = Bucket(u64::try_from(number).unwrap_or(TIMELESS.0));
        let (first, behind) = match self.direction {
            Direction::Ascending => (
                instants::first_from(&self.ty, start_ms),
                next_ms.and_then(|next| instants::first_from(&self.ty, next)),
            ),
            // In a descending table, the newest keys come first, so the bucket begins at its last
            // time.
            Direction::Descending => {
                let before = self.width.floor_ms(start_ms.saturating_sub(1));
                let is_some = before < start_ms;
                (
                    instants::last_before(&self.ty, next_ms),
                    is_some
                        .then(|| instants::last_before(&self.ty, Some(start_ms)))
                        .flatten(),
                )
            }
        };
        let start = self.edge(&first.ok_or_else(no_such_time)?)?;
        let end = behind.map(|cell| self.edge(&cell)).transpose()?;
        let end = end.filter(|end| *end > start).or(self.end_of_times()?);
        Ok(TimeBucket { start, end, bucket })
    }

    /// Returns the edge between the keys with a time of at least `from_ms` and the older keys. The older
    /// keys come after the edge if the newest keys come first, else before it.
    ///
    /// # Errors
    /// No key of the table can have this time.
    fn edge_of_kept(&self, from_ms: i64) -> Result<Key> {
        let cell = match self.direction {
            Direction::Ascending => instants::first_from(&self.ty, from_ms),
            Direction::Descending => instants::last_before(&self.ty, Some(from_ms)),
        };
        self.edge(&cell.ok_or_else(no_such_time)?)
    }

    /// Returns the direction in which the newest rows come first.
    pub(crate) fn newest_first(&self) -> ReadDirection {
        match self.direction {
            Direction::Ascending => ReadDirection::Backward,
            Direction::Descending => ReadDirection::Forward,
        }
    }

    /// Returns whether rows without a time come after all other rows, or `None` if each row has a time.
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

    /// Returns the edge behind the keys that have a time, or `None` if no other keys follow.
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
}

fn no_such_time() -> PiecesError {
    let message = "the type of the order column has no value for the edge of a bucket by time";
    PiecesError::new(PiecesErrorKind::InvalidArgument, message)
        .with_hint("use a shorter time for the buckets, or for `keep`")
}

/// Retention time of a table: rows whose time in the first order column is older are deleted.
#[derive(Debug, Clone)]
pub(crate) struct Keep {
    times: Times,
    length_ms: i64,
    /// True if the table has time buckets. The retention bound is then always at the edge of a time
    /// bucket.
    is_by_time: bool,
}

impl Keep {
    /// Returns the retention for a table that is ordered by a time first. `by_time` is the mapping of its keys to time
    /// buckets, if it has time buckets.
    ///
    /// # Errors
    /// The table is not ordered by a time first.
    pub(crate) fn of(table: &Table, length: Width, by_time: Option<&Times>) -> Result<Self> {
        Ok(Self {
            times: by_time.map_or_else(|| Times::of(table, length), |times| Ok(times.clone()))?,
            // A month counts 31 days and a year 366 days, so that rows are never kept for less than the length.
            length_ms: length.longest_ms(),
            is_by_time: by_time.is_some(),
        })
    }

    /// Returns the retention that the options of a table declare, or `None` if its rows are kept forever.
    ///
    /// # Errors
    /// The table is not ordered by a time first.
    pub(crate) fn of_table(table: &Table) -> Result<Option<Self>> {
        let Some(buckets) = table.options().buckets else {
            return Ok(None);
        };
        let times = match buckets.bound {
            BucketBound::Time(width) => Some(Times::of(table, width)?),
            _ => None,
        };
        let keep = buckets.keep;
        keep.map(|length| Self::of(table, length, times.as_ref()))
            .transpose()
    }

    /// Returns the retention length: the time for which rows are kept.
    pub(crate) fn length(&self) -> Duration {
        Duration::from_millis(u64::try_from(self.length_ms).unwrap_or(0))
    }

    /// Returns the retention bound at the time `now_ms`. The bound moves by steps: by time buckets, or by
    /// an eighth of the retention length.
    ///
    /// # Errors
    /// No key of the table can have the time of the bound.
    pub(crate) fn floor(&self, now_ms: i64) -> Result<Floor> {
        self.floor_from(self.kept_from_ms(now_ms))
    }

    /// Returns the time from which rows are kept, in milliseconds since 1970.
    pub(crate) fn kept_from_ms(&self, now_ms: i64) -> i64 {
        let from_ms = now_ms.saturating_sub(self.length_ms);
        if self.is_by_time {
            self.times.width.floor_ms(from_ms)
        } else {
            let step = self.step_ms();
            from_ms.saturating_sub(from_ms.rem_euclid(step))
        }
    }

    /// Returns the retention bound (edge beyond which rows are not kept) that keeps the rows with a
    /// time of at least `from_ms`.
    ///
    /// # Errors
    /// No key of the table can have this time.
    pub(crate) fn floor_from(&self, from_ms: i64) -> Result<Floor> {
        Ok(Floor {
            at: self.times.edge_of_kept(from_ms)?,
            kept: self.kept(),
        })
    }

    /// Returns the edges at which buckets end in a table with retention but without time buckets:
    /// the steps of the retention bound, each with its time in milliseconds since 1970. The last
    /// step is in the future.
    ///
    /// # Errors
    /// No key of the table can have the time of a step.
    pub(crate) fn steps(&self, now_ms: i64) -> Result<Vec<(i64, Key)>> {
        let step = self.step_ms();
        let floored = |ms: i64| ms.saturating_sub(ms.rem_euclid(step));
        let (mut at_ms, last) = (
            floored(now_ms.saturating_sub(self.length_ms)),
            floored(now_ms).saturating_add(step),
        );
        let mut steps = Vec::new();
        while at_ms < last {
            at_ms = at_ms.saturating_add(step);
            steps.push((at_ms, self.times.edge_of_kept(at_ms)?));
        }
        Ok(steps)
    }

    /// Returns the approximate time in which the retention bound moves by one step, in
    /// milliseconds. Data expires only when the bound moves.
    fn step_ms(&self) -> i64 {
        let step = if self.is_by_time {
            self.times.width.longest_ms()
        } else {
            self.length_ms / STEPS_OF_LENGTH
        };
        step.max(MS_PER_SECOND)
    }

    /// Returns the interval between two checks for expired data.
    pub(crate) fn retain_every(&self) -> Duration {
        Duration::from_millis(self.step_ms().unsigned_abs() / RETAINS_IN_A_STEP)
    }

    /// Returns the time of a key in milliseconds since 1970.
    ///
    /// # Errors
    /// The key is not a key of the table.
    pub(crate) fn time_of(&self, key: &[u8]) -> Result<i64> {
        // The default is never used, because each key of a table with retention has a time.
        Ok(self.times.time_of(key)?.unwrap_or(i64::MAX))
    }

    /// Returns the side of the retention bound on which rows are kept: after it if the oldest keys come
    /// first.
    pub(crate) fn kept(&self) -> Kept {
        match self.times.direction {
            Direction::Ascending => Kept::After,
            Direction::Descending => Kept::Before,
        }
    }
}

/// Values of the column before the time column: for rows with a time, and for rows without a time.
const PRESENT: &[u8] = &[0];
const ABSENT: &[u8] = &[1];

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use recto_model::table::{ColumnKind, TableOptions, WriteKind};
    use recto_model::width::WidthUnit;
    use recto_model::{Cells, Column};

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

    /// Generates times that are often close to each other.
    fn any_ms() -> impl Strategy<Value = i64> {
        prop_oneof![
            any::<i64>(),
            -100_000_000_000_i64..4_000_000_000_000,
            -100_000..100_000_i64,
            Just(i64::MIN),
            Just(i64::MAX)
        ]
    }

    /// Returns the value of a time type that is nearest to a time. In a timeuuid, the bytes after the time
    /// are set to `other`.
    fn cell(ty: &Type, ms: i64, other: u8) -> Vec<u8> {
        let (first, last) = (instants::first_from(ty, ms), instants::last_before(ty, None));
        if *ty == Type::TimeUuid {
            let mut uuid = first.or(last).expect("there is a last one");
            uuid[8..].fill(other);
            return uuid;
        }
        let not_behind = instants::last_before(ty, ms.checked_add(1));
        not_behind.or(first).expect("it is not behind all")
    }

    proptest! {
        /// Each bucket contains exactly the keys between its edges. Buckets have the order of their keys and distinct
        /// numbers.
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
                prop_assert_eq!(times_of.numbered(bucket.bucket), Some(bucket.clone()));
                let floor = ms.map(|_| width.floor_ms(instants::ms_of(&ty, &value)));
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
            assert!(refused.is_err_and(|error| error.to_string().contains("is not a time")));
        }
    }
}
