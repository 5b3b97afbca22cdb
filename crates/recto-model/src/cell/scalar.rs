//! Cells of the types that contain no other values.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use num_bigint::BigInt;
use uuid::Uuid;

use super::decimal::{DecimalCell, TOO_SHORT};
use super::{CellError, MAX_TIME_NANOS, vint};
use crate::decimals::BigDecimal;
use crate::{Type, Value};

/// Encoding of every NaN of a float. Java uses the same.
pub(crate) const FLOAT_NAN: [u8; 4] = [0x7F, 0xC0, 0, 0];

/// Encoding of every NaN of a double. Java uses the same.
pub(crate) const DOUBLE_NAN: [u8; 8] = [0x7F, 0xF8, 0, 0, 0, 0, 0, 0];

/// Offset that a date cell adds to the days since 1970-01-01, so that unsigned bytes sort like
/// dates.
const DATE_OFFSET: u32 = 1 << 31;

/// Checks that `cell` encodes a value of the scalar type `ty`. The error says what is wrong.
#[inline]
pub(super) fn check(ty: &Type, cell: &[u8]) -> Result<(), &'static str> {
    let length = |expected: usize, reason: &'static str| {
        if cell.len() == expected {
            Ok(())
        } else {
            Err(reason)
        }
    };
    match ty {
        Type::Varint if cell.is_empty() => Err("no bytes"),
        Type::Blob | Type::Varint => Ok(()),
        Type::Text => std::str::from_utf8(cell).map(drop).map_err(|_| "not UTF-8"),
        Type::Ascii if cell.is_ascii() => Ok(()),
        Type::Ascii => Err("a byte above 0x7F"),
        Type::Boolean | Type::TinyInt => length(1, "not one byte"),
        Type::SmallInt => length(2, "not two bytes"),
        Type::Int | Type::Float | Type::Date => length(4, "not four bytes"),
        Type::BigInt | Type::Timestamp | Type::Double => length(8, "not eight bytes"),
        Type::Uuid => length(16, "not sixteen bytes"),
        Type::Time => match cell.try_into().map(i64::from_be_bytes) {
            Ok(0..=MAX_TIME_NANOS) => Ok(()),
            Ok(_) => Err("not between midnight and midnight"),
            Err(_) => Err("not eight bytes"),
        },
        Type::TimeUuid => match <&[u8; 16]>::try_from(cell) {
            Ok(bytes) if bytes[6] >> 4 == 1 => Ok(()),
            Ok(_) => Err("a UUID of a version other than 1"),
            Err(_) => Err("not sixteen bytes"),
        },
        Type::Inet if matches!(cell.len(), 4 | 16) => Ok(()),
        Type::Inet => Err("neither four bytes nor sixteen"),
        Type::Decimal => DecimalCell::parse(cell).map(drop).ok_or(TOO_SHORT),
        Type::Duration => read_duration(cell).map(drop),
        Type::List(_) | Type::Set(_) | Type::Map(..) | Type::Tuple(_) | Type::Udt(_) | Type::Vector(..) => {
            Err("not a scalar type")
        }
    }
}

/// Returns the bytes of a float cell, with NaN in its only canonical encoding. `None` if the cell
/// does not have four bytes.
pub(crate) fn canonical_float(cell: &[u8]) -> Option<[u8; 4]> {
    let bytes: [u8; 4] = cell.try_into().ok()?;
    Some(if f32::from_be_bytes(bytes).is_nan() {
        FLOAT_NAN
    } else {
        bytes
    })
}

/// Returns the bytes of a double cell, with NaN in its only canonical encoding. `None` if the cell
/// does not have eight bytes.
pub(crate) fn canonical_double(cell: &[u8]) -> Option<[u8; 8]> {
    let bytes: [u8; 8] = cell.try_into().ok()?;
    Some(if f64::from_be_bytes(bytes).is_nan() {
        DOUBLE_NAN
    } else {
        bytes
    })
}

/// Decodes a duration cell into months, days and nanoseconds.
fn read_duration(cell: &[u8]) -> Result<(i32, i32, i64), &'static str> {
    const ENDS: &str = "it ends within a number";
    let mut rest = cell;
    let months = vint::read_signed(&mut rest).ok_or(ENDS)?;
    let days = vint::read_signed(&mut rest).ok_or(ENDS)?;
    let nanoseconds = vint::read_signed(&mut rest).ok_or(ENDS)?;
    if !rest.is_empty() {
        return Err("bytes follow the value");
    }
    let months = i32::try_from(months).map_err(|_| "months out of range")?;
    let days = i32::try_from(days).map_err(|_| "days out of range")?;
    if !one_sign(months, days, nanoseconds) {
        return Err("months, days and nanoseconds of different signs");
    }
    Ok((months, days, nanoseconds))
}

/// Returns whether all parts of a duration that are not zero have the same sign, as CQL requires.
fn one_sign(months: i32, days: i32, nanoseconds: i64) -> bool {
    let negative = months < 0 || days < 0 || nanoseconds < 0;
    let positive = months > 0 || days > 0 || nanoseconds > 0;
    !(negative && positive)
}

/// Appends the cell of a value of a scalar type.
pub(super) fn encode(ty: &Type, value: &Value, out: &mut Vec<u8>) -> Result<(), CellError> {
    match (ty, value) {
        (Type::Text, Value::Text(text)) => out.extend_from_slice(text.as_bytes()),
        (Type::Ascii, Value::Ascii(text)) if text.is_ascii() => out.extend_from_slice(text.as_bytes()),
        (Type::Ascii, Value::Ascii(_)) => {
            return Err(CellError::malformed(ty, "it has non-ASCII letters"));
        }
        (Type::Blob, Value::Blob(bytes)) => out.extend_from_slice(bytes),
        (Type::Boolean, Value::Boolean(value)) => out.push(u8::from(*value)),
        (Type::TinyInt, Value::TinyInt(value)) => out.extend_from_slice(&value.to_be_bytes()),
        (Type::SmallInt, Value::SmallInt(value)) => out.extend_from_slice(&value.to_be_bytes()),
        (Type::Int, Value::Int(value)) => out.extend_from_slice(&value.to_be_bytes()),
        (Type::BigInt, Value::BigInt(value)) | (Type::Timestamp, Value::Timestamp(value)) => {
            out.extend_from_slice(&value.to_be_bytes());
        }
        (Type::Varint, Value::Varint(value)) => out.extend_from_slice(&value.to_signed_bytes_be()),
        (Type::Decimal, Value::Decimal(value)) => encode_decimal(ty, value, out)?,
        (Type::Float, Value::Float(value)) => {
            out.extend_from_slice(&if value.is_nan() {
                FLOAT_NAN
            } else {
                value.to_be_bytes()
            });
        }
        (Type::Double, Value::Double(value)) => {
            out.extend_from_slice(&if value.is_nan() {
                DOUBLE_NAN
            } else {
                value.to_be_bytes()
            });
        }
        (Type::Date, Value::Date(days)) => {
            out.extend_from_slice(&(days.cast_unsigned() ^ DATE_OFFSET).to_be_bytes());
        }
        (Type::Time, Value::Time(nanos @ 0..=MAX_TIME_NANOS)) => out.extend_from_slice(&nanos.to_be_bytes()),
        (Type::Time, Value::Time(_)) => {
            return Err(CellError::malformed(ty, "not between midnight and midnight"));
        }
        (Type::Uuid, Value::Uuid(uuid)) => out.extend_from_slice(uuid.as_bytes()),
        (Type::TimeUuid, Value::TimeUuid(uuid)) if uuid.get_version_num() == 1 => {
            out.extend_from_slice(uuid.as_bytes());
        }
        (Type::TimeUuid, Value::TimeUuid(_)) => {
            return Err(CellError::malformed(ty, "a UUID of a version other than 1"));
        }
        (Type::Inet, Value::Inet(IpAddr::V4(address))) => out.extend_from_slice(&address.octets()),
        (Type::Inet, Value::Inet(IpAddr::V6(address))) => out.extend_from_slice(&address.octets()),
        (
            Type::Duration,
            Value::Duration {
                months,
                days,
                nanoseconds,
            },
        ) => {
            if !one_sign(*months, *days, *nanoseconds) {
                return Err(CellError::malformed(
                    ty,
                    "months, days and nanoseconds of different signs",
                ));
            }
            vint::write_signed((*months).into(), out);
            vint::write_signed((*days).into(), out);
            vint::write_signed(*nanoseconds, out);
        }
        _ => return Err(CellError::wrong_type(ty)),
    }
    Ok(())
}

fn encode_decimal(ty: &Type, value: &BigDecimal, out: &mut Vec<u8>) -> Result<(), CellError> {
    let (unscaled, scale) = value.as_bigint_and_scale();
    let scale =
        i32::try_from(scale).map_err(|_| CellError::malformed(ty, "its scale has more than 32 bits"))?;
    out.extend_from_slice(&scale.to_be_bytes());
    out.extend_from_slice(&unscaled.to_signed_bytes_be());
    Ok(())
}

/// Decodes a cell of a scalar type.
pub(super) fn decode(ty: &Type, cell: &[u8]) -> Result<Value, CellError> {
    decode_checked(ty, cell).map_err(|reason| CellError::malformed(ty, reason))
}

fn decode_checked(ty: &Type, cell: &[u8]) -> Result<Value, &'static str> {
    check(ty, cell)?;
    Ok(match ty {
        Type::Text => Value::Text(text(cell)?),
        Type::Ascii => Value::Ascii(text(cell)?),
        Type::Blob => Value::Blob(cell.to_vec()),
        Type::Boolean => Value::Boolean(cell != [0]),
        Type::TinyInt => Value::TinyInt(i8::from_be_bytes(fixed(cell)?)),
        Type::SmallInt => Value::SmallInt(i16::from_be_bytes(fixed(cell)?)),
        Type::Int => Value::Int(i32::from_be_bytes(fixed(cell)?)),
        Type::BigInt => Value::BigInt(i64::from_be_bytes(fixed(cell)?)),
        Type::Varint => Value::Varint(BigInt::from_signed_bytes_be(cell)),
        Type::Decimal => {
            let decimal = DecimalCell::parse(cell).ok_or(TOO_SHORT)?;
            let unscaled = BigInt::from_signed_bytes_be(decimal.unscaled);
            Value::Decimal(BigDecimal::new(unscaled, decimal.scale.into()))
        }
        Type::Float => Value::Float(f32::from_be_bytes(fixed(cell)?)),
        Type::Double => Value::Double(f64::from_be_bytes(fixed(cell)?)),
        Type::Date => Value::Date((u32::from_be_bytes(fixed(cell)?) ^ DATE_OFFSET).cast_signed()),
        Type::Time => Value::Time(i64::from_be_bytes(fixed(cell)?)),
        Type::Timestamp => Value::Timestamp(i64::from_be_bytes(fixed(cell)?)),
        Type::TimeUuid => Value::TimeUuid(Uuid::from_bytes(fixed(cell)?)),
        Type::Uuid => Value::Uuid(Uuid::from_bytes(fixed(cell)?)),
        Type::Inet => Value::Inet(match fixed::<4>(cell) {
            Ok(octets) => Ipv4Addr::from(octets).into(),
            Err(_) => Ipv6Addr::from(fixed::<16>(cell)?).into(),
        }),
        Type::Duration => {
            let (months, days, nanoseconds) = read_duration(cell)?;
            Value::Duration {
                months,
                days,
                nanoseconds,
            }
        }
        Type::List(_) | Type::Set(_) | Type::Map(..) | Type::Tuple(_) | Type::Udt(_) | Type::Vector(..) => {
            return Err("not a scalar type");
        }
    })
}

fn text(cell: &[u8]) -> Result<String, &'static str> {
    String::from_utf8(cell.to_vec()).map_err(|_| "not UTF-8")
}

fn fixed<const N: usize>(cell: &[u8]) -> Result<[u8; N], &'static str> {
    cell.try_into().map_err(|_| "of another length")
}
