//! Rounded order fields: the key of a view contains the rounded value of a field instead of the
//! field.

use crate::Type;
use crate::instants::{MS_PER_DAY, date, ms_of};
use crate::width::{Width, WidthUnit};

/// Names of the types that can be rounded, for error messages.
pub(super) const TYPE_NAMES: &str = "a timestamp, timeuuid or date";

/// Returns whether values of a type can be rounded to a width. A date cannot be rounded to hours,
/// because it has no time of day.
pub(super) fn is_coarser(width: Width, ty: &Type) -> bool {
    let is_of_a_day = matches!(
        width.unit,
        WidthUnit::Second | WidthUnit::Minute | WidthUnit::Hour
    );
    !(is_of_a_day && *ty == Type::Date)
}

/// Returns the type of the rounded values of a field type. Rounded time UUIDs are timestamps,
/// because the start of an interval is a time without the other bytes of a UUID.
pub(super) fn type_of(ty: &Type) -> Type {
    match ty {
        Type::TimeUuid => Type::Timestamp,
        ty => ty.clone(),
    }
}

/// Returns the value of a cell rounded down to `width`, as a cell of the type that [`type_of`]
/// returns.
pub(super) fn rounded(width: Width, ty: &Type, cell: Option<&[u8]>) -> Vec<u8> {
    let start = width.floor_ms(ms_of(ty, cell.unwrap_or_default()));
    match ty {
        // An interval that would begin before the first possible date begins at the first possible
        // date.
        Type::Date => date(start.div_euclid(MS_PER_DAY)),
        _ => start.to_be_bytes().to_vec(),
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use std::cmp::Ordering;

    use proptest::prelude::*;

    use super::*;
    use crate::instants::{EPOCH_DAY, TICKS_PER_MS, TICKS_TO_EPOCH};
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
        // Day 15,842 is 2013-05-17, and day 15,826 is 2013-05-01.
        let date = |day: i64| u32::try_from(day + EPOCH_DAY).unwrap().to_be_bytes();
        assert_eq!(rounded(month, &Type::Date, Some(&date(15_842))), date(15_826));
        let may = 1_367_366_400_000_i64.to_be_bytes();
        // Round 2013-05-17T10:30:00Z as a timestamp and as a time UUID.
        let time = 1_368_786_600_000_i64;
        assert_eq!(rounded(month, &Type::Timestamp, Some(&time.to_be_bytes())), may);
        let ticks = (time * TICKS_PER_MS + TICKS_TO_EPOCH).to_be_bytes();
        let mut uuid = [0x80; 16];
        uuid[..4].copy_from_slice(&ticks[4..]);
        uuid[4..6].copy_from_slice(&ticks[2..4]);
        uuid[6..8].copy_from_slice(&ticks[..2]);
        uuid[6] |= 0x10;
        assert_eq!(rounded(month, &Type::TimeUuid, Some(&uuid)), may);
        // The interval that contains the first date begins at the first date, because no earlier
        // date exists.
        assert_eq!(rounded(month, &Type::Date, Some(&[0; 4])), [0; 4]);
    }

    #[test]
    fn rounds_invalid_cells_to_valid_keys() {
        let day = Width::parse("1 day").unwrap();
        for ty in [Type::Timestamp, Type::TimeUuid, Type::Date] {
            for cell in [None, Some(&b""[..]), Some(b"odd")] {
                crate::cell::validate(&type_of(&ty), &rounded(day, &ty, cell)).unwrap();
            }
        }
    }

    proptest! {
        #[test]
        fn rounding_keeps_the_order_of_values(
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
