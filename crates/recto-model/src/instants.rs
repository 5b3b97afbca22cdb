//! Points in time in cells: conversion of timestamps, dates and time uuids to milliseconds since
//! 1970-01-01T00:00:00Z, and the values that are nearest to a point in time.

use crate::Type;

pub(crate) const MS_PER_DAY: i64 = 86_400_000;
/// Offset that a date cell adds to the days since 1970-01-01.
pub(crate) const EPOCH_DAY: i64 = 1 << 31;
/// Last possible date, in days since 1970-01-01.
const LAST_DAY: i64 = EPOCH_DAY - 1;
/// Number of 100 ns units between 1582-10-15, where the time of time UUIDs starts, and 1970-01-01.
pub(crate) const TICKS_TO_EPOCH: i64 = 0x01B2_1DD2_1381_4000;
pub(crate) const TICKS_PER_MS: i64 = 10_000;
const MS_TO_EPOCH: i64 = TICKS_TO_EPOCH / TICKS_PER_MS;
/// Last time that a time UUID can contain, in 100 ns units: its 60 bits are all set.
const LAST_TICKS: i64 = (1 << 60) - 1;
/// Byte that fills the rest of the first time UUID of a time; [`LAST_BYTE`] fills the last one.
/// These bytes are compared as signed numbers.
const FIRST_BYTE: u8 = 0x80;
const LAST_BYTE: u8 = 0x7f;

/// Returns whether the values of a type are points in time.
pub fn is_time(ty: &Type) -> bool {
    matches!(ty, Type::Timestamp | Type::TimeUuid | Type::Date)
}

/// Returns the point in time that a cell of type `ty` contains, in milliseconds since
/// 1970-01-01T00:00:00Z, rounded down. Returns 0 if the bytes are not a cell of the type.
pub fn ms_of(ty: &Type, cell: &[u8]) -> i64 {
    match ty {
        Type::Date => cell.try_into().map_or(0, |day| {
            (i64::from(u32::from_be_bytes(day)) - EPOCH_DAY) * MS_PER_DAY
        }),
        Type::TimeUuid => cell.try_into().map_or(0, ms_of_uuid),
        _ => cell.try_into().map_or(0, i64::from_be_bytes),
    }
}

/// Returns the cell of the first value of type `ty` at or after `ms` (milliseconds since
/// 1970-01-01T00:00:00Z). `None` if all values of the type are before `ms`.
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

/// Returns the cell of the last value of type `ty` before `ms` (milliseconds since
/// 1970-01-01T00:00:00Z). Without `ms`, returns the last value of the type. `None` if no value is
/// before `ms`.
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

/// Returns the cell of the date `day` days after 1970-01-01, clamped to the range of dates.
pub(crate) fn date(day: i64) -> Vec<u8> {
    let day = day.saturating_add(EPOCH_DAY).clamp(0, u32::MAX.into());
    u32::try_from(day).unwrap_or(u32::MAX).to_be_bytes().to_vec()
}

/// Converts milliseconds since 1970-01-01T00:00:00Z to the 100 ns units of time UUIDs, which count
/// from 1582-10-15. The result may be outside the range of time UUIDs.
fn ticks_of(ms: i64) -> i64 {
    ms.saturating_add(MS_TO_EPOCH).saturating_mul(TICKS_PER_MS)
}

fn ms_of_uuid(bytes: [u8; 16]) -> i64 {
    let [low_0, low_1, low_2, low_3, mid_0, mid_1, high_0, high_1, ..] = bytes;
    let ticks = i64::from_be_bytes([high_0, high_1, mid_0, mid_1, low_0, low_1, low_2, low_3]) & LAST_TICKS;
    (ticks - TICKS_TO_EPOCH).div_euclid(TICKS_PER_MS)
}

/// Returns a time UUID with the time `ticks` in 100 ns units, clamped to the range of time UUIDs.
/// All bytes after the time have the value `other`.
fn uuid(ticks: i64, other: u8) -> Vec<u8> {
    let ticks = ticks.clamp(0, LAST_TICKS).to_be_bytes();
    let mut uuid = vec![other; 16];
    uuid[..4].copy_from_slice(&ticks[4..]);
    uuid[4..6].copy_from_slice(&ticks[2..4]);
    uuid[6..8].copy_from_slice(&ticks[..2]);
    uuid[6] |= 0x10;
    uuid
}
