//! Points in time in cells: what timestamps, dates and time uuids say in milliseconds since 1970-01-01T00:00:00Z, and which of their values
//! lie next to a time.

use crate::Type;

pub(crate) const MS_PER_DAY: i64 = 86_400_000;
/// A date is the day since 1970-01-01 above this.
pub(crate) const EPOCH_DAY: i64 = 1 << 31;
/// Days of dates, counted from 1970-01-01, end here.
const LAST_DAY: i64 = EPOCH_DAY - 1;
/// Time uuids count 100 ns since the beginning of the Gregorian calendar, which are so many before 1970.
pub(crate) const TICKS_TO_EPOCH: i64 = 0x01B2_1DD2_1381_4000;
pub(crate) const TICKS_PER_MS: i64 = 10_000;
const MS_TO_EPOCH: i64 = TICKS_TO_EPOCH / TICKS_PER_MS;
/// The last time that a time uuid has, and all bits of it.
const LAST_TICKS: i64 = (1 << 60) - 1;
/// The first and the last of all time uuids of one time have this in each byte behind it: they are compared as numbers with a sign.
const FIRST_BYTE: u8 = 0x80;
const LAST_BYTE: u8 = 0x7f;

/// Whether values of a type are points in time.
pub fn is_time(ty: &Type) -> bool {
    matches!(ty, Type::Timestamp | Type::TimeUuid | Type::Date)
}

/// The time of a cell of such a type, in milliseconds since 1970, rounded down; 0 of what is no cell of it.
pub fn ms_of(ty: &Type, cell: &[u8]) -> i64 {
    match ty {
        Type::Date => cell.try_into().map_or(0, |day| {
            (i64::from(u32::from_be_bytes(day)) - EPOCH_DAY) * MS_PER_DAY
        }),
        Type::TimeUuid => cell.try_into().map_or(0, ms_of_uuid),
        _ => cell.try_into().map_or(0, i64::from_be_bytes),
    }
}

/// The first value of such a type that is not before a time; none: all are before it.
pub fn first_from(ty: &Type, ms: i64) -> Option<Vec<u8>> {
    match ty {
        Type::Date => {
            let day = ms.div_euclid(MS_PER_DAY) + i64::from(ms.rem_euclid(MS_PER_DAY) > 0);
            (day <= LAST_DAY).then(|| date(day))
        }
        Type::TimeUuid => {
            let ticks = ticks_of(ms);
            (ticks <= LAST_TICKS).then(|| uuid(ticks, FIRST_BYTE))
        }
        _ => Some(ms.to_be_bytes().to_vec()),
    }
}

/// The last value of such a type before a time, or of all; none: none is before it.
pub fn last_before(ty: &Type, ms: Option<i64>) -> Option<Vec<u8>> {
    let Some(ms) = ms else {
        return Some(last(ty));
    };
    match ty {
        Type::Date => {
            let day = ms.saturating_sub(1).div_euclid(MS_PER_DAY);
            (day >= -EPOCH_DAY).then(|| date(day))
        }
        Type::TimeUuid => {
            let ticks = ticks_of(ms).saturating_sub(1);
            (ticks >= 0).then(|| uuid(ticks, LAST_BYTE))
        }
        _ => ms.checked_sub(1).map(|ms| ms.to_be_bytes().to_vec()),
    }
}

fn last(ty: &Type) -> Vec<u8> {
    match ty {
        Type::Date => date(LAST_DAY),
        Type::TimeUuid => uuid(LAST_TICKS, LAST_BYTE),
        _ => i64::MAX.to_be_bytes().to_vec(),
    }
}

/// The nearest date that there is.
pub(crate) fn date(day: i64) -> Vec<u8> {
    let day = day.saturating_add(EPOCH_DAY).clamp(0, u32::MAX.into());
    u32::try_from(day).unwrap_or(u32::MAX).to_be_bytes().to_vec()
}

/// A time as time uuids count it, those included that they cannot hold.
fn ticks_of(ms: i64) -> i64 {
    ms.saturating_add(MS_TO_EPOCH).saturating_mul(TICKS_PER_MS)
}

fn ms_of_uuid(bytes: [u8; 16]) -> i64 {
    let [low_0, low_1, low_2, low_3, mid_0, mid_1, high_0, high_1, ..] = bytes;
    let ticks = i64::from_be_bytes([high_0, high_1, mid_0, mid_1, low_0, low_1, low_2, low_3]) & LAST_TICKS;
    (ticks - TICKS_TO_EPOCH).div_euclid(TICKS_PER_MS)
}

/// The time uuid of the nearest time that there is, with all other bytes the same.
fn uuid(ticks: i64, other: u8) -> Vec<u8> {
    let ticks = ticks.clamp(0, LAST_TICKS).to_be_bytes();
    let mut uuid = vec![other; 16];
    uuid[..4].copy_from_slice(&ticks[4..]);
    uuid[4..6].copy_from_slice(&ticks[2..4]);
    uuid[6..8].copy_from_slice(&ticks[..2]);
    uuid[6] |= 0x10;
    uuid
}
