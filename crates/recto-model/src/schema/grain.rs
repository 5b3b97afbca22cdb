//! Order fields rounded down: what of a field's value stands in the key of a view with a grain on it.

use crate::Type;
use crate::width::{Width, WidthUnit};

const MS_PER_DAY: i64 = 86_400_000;
/// A date is the day since 1970-01-01 above this.
const EPOCH_DAY: i64 = 1 << 31;
/// Time uuids count 100 ns since the beginning of the Gregorian calendar, which are so many before 1970.
const TICKS_TO_EPOCH: i64 = 0x01B2_1DD2_1381_4000;
const TICKS_PER_MS: i64 = 10_000;
const TICK_BITS: i64 = (1 << 60) - 1;

/// Which types can be rounded, as messages name them.
pub(super) const TYPE_NAMES: &str = "a timestamp, timeuuid or date";

/// Whether fields of a type can be rounded.
pub(super) fn takes(ty: &Type) -> bool {
    matches!(ty, Type::Timestamp | Type::TimeUuid | Type::Date)
}

/// Whether rounding to a width does anything to values of a type: a date has no hours.
pub(super) fn is_coarser(width: Width, ty: &Type) -> bool {
    let is_of_a_day = matches!(
        width.unit,
        WidthUnit::Second | WidthUnit::Minute | WidthUnit::Hour
    );
    !(is_of_a_day && *ty == Type::Date)
}

/// The type of the column in which values of a type stand rounded. There is no earliest time uuid of a time that is a time uuid of its own.
pub(super) fn type_of(ty: &Type) -> Type {
    match ty {
        Type::TimeUuid => Type::Timestamp,
        ty => ty.clone(),
    }
}

/// A cell rounded down: of [`type_of`] its type.
pub(super) fn rounded(width: Width, ty: &Type, cell: Option<&[u8]>) -> Vec<u8> {
    let cell = cell.unwrap_or_default();
    if *ty == Type::Date {
        let day = <[u8; 4]>::try_from(cell).map_or(EPOCH_DAY, |cell| i64::from(u32::from_be_bytes(cell)));
        let start = width.floor_ms((day - EPOCH_DAY).saturating_mul(MS_PER_DAY));
        // What begins before the first date that there is begins with it.
        let day = (start.div_euclid(MS_PER_DAY) + EPOCH_DAY).max(0);
        return u32::try_from(day).unwrap_or(u32::MAX).to_be_bytes().to_vec();
    }
    let time_ms = match ty {
        Type::TimeUuid => <[u8; 16]>::try_from(cell).map_or(0, time_of_uuid),
        _ => <[u8; 8]>::try_from(cell).map_or(0, i64::from_be_bytes),
    };
    width.floor_ms(time_ms).to_be_bytes().to_vec()
}

/// The time of a time uuid, in milliseconds since 1970.
fn time_of_uuid(bytes: [u8; 16]) -> i64 {
    let [low_0, low_1, low_2, low_3, mid_0, mid_1, high_0, high_1, ..] = bytes;
    let ticks = i64::from_be_bytes([high_0, high_1, mid_0, mid_1, low_0, low_1, low_2, low_3]) & TICK_BITS;
    (ticks - TICKS_TO_EPOCH).div_euclid(TICKS_PER_MS)
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use std::cmp::Ordering;

    use proptest::prelude::*;

    use super::*;
    use crate::order;

    fn cell_of(ty: &Type, bytes: [u8; 16]) -> Vec<u8> {
        match ty {
            Type::Date => bytes[..4].to_vec(),
            Type::Timestamp => bytes[..8].to_vec(),
            _ => {
                let mut bytes = bytes;
                bytes[6] = 0x10 | bytes[6] & 0x0F;
                bytes.to_vec()
            }
        }
    }

    #[test]
    fn values_are_rounded_in_their_own_types() {
        let month = Width::parse("1 month").unwrap();
        // 2013-05-17, and 2013-05-01.
        let date = |day: i64| u32::try_from(day + EPOCH_DAY).unwrap().to_be_bytes();
        assert_eq!(rounded(month, &Type::Date, Some(&date(15_842))), date(15_826));
        let may = 1_367_366_400_000_i64.to_be_bytes();
        // 2013-05-17T10:30:00Z, as a timestamp and as a time uuid.
        let time = 1_368_786_600_000_i64;
        assert_eq!(rounded(month, &Type::Timestamp, Some(&time.to_be_bytes())), may);
        let ticks = (time * TICKS_PER_MS + TICKS_TO_EPOCH).to_be_bytes();
        let mut uuid = [0x80; 16];
        uuid[..4].copy_from_slice(&ticks[4..]);
        uuid[4..6].copy_from_slice(&ticks[2..4]);
        uuid[6..8].copy_from_slice(&ticks[..2]);
        uuid[6] |= 0x10;
        assert_eq!(rounded(month, &Type::TimeUuid, Some(&uuid)), may);
        // Before 1970-01-01 lies no month that is not whole; before the first date there is none.
        assert_eq!(rounded(month, &Type::Date, Some(&[0; 4])), [0; 4]);
    }

    #[test]
    fn what_is_no_value_can_stand_in_a_key() {
        let day = Width::parse("1 day").unwrap();
        for ty in [Type::Timestamp, Type::TimeUuid, Type::Date] {
            for cell in [None, Some(&b""[..]), Some(b"odd")] {
                crate::cell::validate(&type_of(&ty), &rounded(day, &ty, cell)).unwrap();
            }
        }
    }

    proptest! {
        #[test]
        fn what_is_rounded_is_in_the_order_of_the_values(
            ty in prop::sample::select(vec![Type::Timestamp, Type::TimeUuid, Type::Date]),
            width in prop::sample::select(vec!["1 second", "7 minutes", "1 day", "2 weeks", "1 month", "10 years"]),
            one: [u8; 16],
            other: [u8; 16],
        ) {
            let width = Width::parse(width).unwrap();
            let (one, other) = (cell_of(&ty, one), cell_of(&ty, other));
            let of = |cell: &[u8]| rounded(width, &ty, Some(cell));
            let rounded = order::compare(&type_of(&ty), &of(&one), &of(&other));
            prop_assert!(rounded == Ordering::Equal || rounded == order::compare(&ty, &one, &other));
        }
    }
}
