//! Conversions of fixed-size values to unsigned numbers that sort like the values, and back.
//!
//! The module [`order`](super) compares these numbers, and [`key`](crate::key) writes them into
//! keys.

use crate::cell::{DOUBLE_NAN, FLOAT_NAN};

/// Mask for XOR that converts eight signed bytes to unsigned bytes with the same order.
const SIGNED_BYTES: u64 = 0x8080_8080_8080_8080;

/// Converts a float cell to an unsigned number that sorts like the float. Inverts the sign bit, and
/// all other bits of negative floats. All NaNs become the same number.
#[inline]
pub(crate) fn float(cell: [u8; 4]) -> u32 {
    let bits = if f32::from_be_bytes(cell).is_nan() {
        u32::from_be_bytes(FLOAT_NAN)
    } else {
        u32::from_be_bytes(cell)
    };
    if bits >> 31 == 0 { bits | 1 << 31 } else { !bits }
}

/// Converts a sortable number back to a float cell, the inverse of [`float`].
#[inline]
pub(crate) fn float_cell(sortable: u32) -> [u8; 4] {
    let bits = if sortable >> 31 == 1 {
        sortable & !(1 << 31)
    } else {
        !sortable
    };
    bits.to_be_bytes()
}

/// Converts a double cell to an unsigned number that sorts like the double, as [`float`] does for
/// floats.
#[inline]
pub(crate) fn double(cell: [u8; 8]) -> u64 {
    let bits = if f64::from_be_bytes(cell).is_nan() {
        u64::from_be_bytes(DOUBLE_NAN)
    } else {
        u64::from_be_bytes(cell)
    };
    if bits >> 63 == 0 { bits | 1 << 63 } else { !bits }
}

/// Converts a sortable number back to a double cell, the inverse of [`double`].
#[inline]
pub(crate) fn double_cell(sortable: u64) -> [u8; 8] {
    let bits = if sortable >> 63 == 1 {
        sortable & !(1 << 63)
    } else {
        !sortable
    };
    bits.to_be_bytes()
}

/// Reorders the upper half of a version 1 UUID, so that it sorts by time. A UUID contains its time
/// as low (32 bits), middle and high (16 bits each). The result has the order high, middle, low,
/// and begins with the version.
#[inline]
fn time_first(high: u64) -> u64 {
    high << 48 | (high << 16 & 0xFFFF_0000_0000) | high >> 32
}

/// Restores the upper half of a version 1 UUID, the inverse of [`time_first`].
#[inline]
fn time_last(sortable: u64) -> u64 {
    sortable << 32 | (sortable >> 16 & 0xFFFF_0000) | sortable >> 48
}

#[inline]
fn halves(cell: [u8; 16]) -> (u64, u64) {
    let whole = u128::from_be_bytes(cell);
    ((whole >> 64) as u64, whole as u64)
}

#[inline]
fn whole(high: u64, low: u64) -> u128 {
    u128::from(high) << 64 | u128::from(low)
}

/// Converts a version 1 UUID to a number in the order of the CQL type timeuuid: by time, then by
/// signed bytes.
#[inline]
pub(crate) fn timeuuid(cell: [u8; 16]) -> u128 {
    let (high, low) = halves(cell);
    whole(time_first(high), low ^ SIGNED_BYTES)
}

/// Converts a sortable number back to a version 1 UUID, the inverse of [`timeuuid`].
#[inline]
pub(crate) fn timeuuid_cell(sortable: u128) -> [u8; 16] {
    let (high, low) = ((sortable >> 64) as u64, sortable as u64);
    whole(time_last(high), low ^ SIGNED_BYTES).to_be_bytes()
}

/// Converts a UUID to a number in the order of the CQL type uuid: by version, then for version 1 by
/// time, then by unsigned bytes.
#[inline]
pub(crate) fn uuid(cell: [u8; 16]) -> u128 {
    let (high, low) = halves(cell);
    let version = high >> 12 & 0xF;
    let high = if version == 1 {
        time_first(high)
    } else {
        version << 60 | high >> 16 << 12 | high & 0xFFF
    };
    whole(high, low)
}

/// Converts a sortable number back to a UUID, the inverse of [`uuid`].
#[inline]
pub(crate) fn uuid_cell(sortable: u128) -> [u8; 16] {
    let (high, low) = ((sortable >> 64) as u64, sortable as u64);
    let version = high >> 60;
    let high = if version == 1 {
        time_last(high)
    } else {
        (high << 4 >> 16) << 16 | version << 12 | high & 0xFFF
    };
    whole(high, low).to_be_bytes()
}
