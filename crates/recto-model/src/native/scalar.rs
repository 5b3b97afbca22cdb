//! Rust types that contain no other values, as field types. Every page reads such fields. Most of
//! the types therefore read a cell with one check of its length and one conversion, without an
//! intermediate value.

use std::net::IpAddr;

use num_bigint::BigInt;
use uuid::Uuid;

use super::{FieldType, KeyType, malformed, null};
use crate::cell::{self, CellError};
use crate::decimals::BigDecimal;
use crate::{Type, Value};

/// Returns a cell as an array of `N` bytes. Null, or another length, is an error.
#[inline]
pub(super) fn fixed<T: FieldType, const N: usize>(cell: Option<&[u8]>) -> Result<[u8; N], CellError> {
    match cell {
        Some(bytes) => bytes
            .try_into()
            .map_err(|_| malformed::<T>(&format!("{} bytes, not {N}", bytes.len()))),
        None => Err(null::<T>()),
    }
}

macro_rules! integers {
    ($($native:ty => $cql:ident),*) => {$(
        impl FieldType for $native {
            fn field_type() -> Type {
                Type::$cql
            }

            #[inline]
            fn write_cell(&self, out: &mut Vec<u8>) -> Result<bool, CellError> {
                out.extend_from_slice(&self.to_be_bytes());
                Ok(true)
            }

            #[inline]
            fn read_cell(cell: Option<&[u8]>) -> Result<Self, CellError> {
                fixed::<Self, { size_of::<$native>() }>(cell).map(<$native>::from_be_bytes)
            }
        }

        impl KeyType for $native {}
    )*};
}

integers!(i8 => TinyInt, i16 => SmallInt, i32 => Int, i64 => BigInt);

macro_rules! floats {
    ($($native:ty => $cql:ident, $nan:path);*) => {$(
        impl FieldType for $native {
            fn field_type() -> Type {
                Type::$cql
            }

            #[inline]
            fn write_cell(&self, out: &mut Vec<u8>) -> Result<bool, CellError> {
                // Write the same bytes for every NaN: all NaN values are equal in order, so they
                // must have equal keys.
                out.extend_from_slice(&if self.is_nan() { $nan } else { self.to_be_bytes() });
                Ok(true)
            }

            #[inline]
            fn read_cell(cell: Option<&[u8]>) -> Result<Self, CellError> {
                fixed::<Self, { size_of::<$native>() }>(cell).map(<$native>::from_be_bytes)
            }
        }

        impl KeyType for $native {}
    )*};
}

floats!(f32 => Float, cell::FLOAT_NAN; f64 => Double, cell::DOUBLE_NAN);

impl FieldType for bool {
    fn field_type() -> Type {
        Type::Boolean
    }

    #[inline]
    fn write_cell(&self, out: &mut Vec<u8>) -> Result<bool, CellError> {
        out.push(u8::from(*self));
        Ok(true)
    }

    #[inline]
    fn read_cell(cell: Option<&[u8]>) -> Result<Self, CellError> {
        fixed::<Self, 1>(cell).map(|[byte]| byte != 0)
    }
}

impl KeyType for bool {}

impl FieldType for String {
    fn field_type() -> Type {
        Type::Text
    }

    #[inline]
    fn write_cell(&self, out: &mut Vec<u8>) -> Result<bool, CellError> {
        out.extend_from_slice(self.as_bytes());
        Ok(true)
    }

    #[inline]
    fn read_cell(cell: Option<&[u8]>) -> Result<Self, CellError> {
        let bytes = cell.ok_or_else(null::<Self>)?;
        match std::str::from_utf8(bytes) {
            Ok(text) => Ok(text.to_owned()),
            Err(_) => Err(malformed::<Self>("not UTF-8")),
        }
    }
}

impl KeyType for String {}

impl FieldType for Uuid {
    fn field_type() -> Type {
        Type::Uuid
    }

    #[inline]
    fn write_cell(&self, out: &mut Vec<u8>) -> Result<bool, CellError> {
        out.extend_from_slice(self.as_bytes());
        Ok(true)
    }

    #[inline]
    fn read_cell(cell: Option<&[u8]>) -> Result<Self, CellError> {
        fixed::<Self, 16>(cell).map(Self::from_bytes)
    }
}

impl KeyType for Uuid {}

/// Implements `FieldType` for types whose cells are written and read through an intermediate
/// decoded value.
macro_rules! by_value {
    ($($native:ty => $cql:ident, $variant:ident);*) => {$(
        impl FieldType for $native {
            fn field_type() -> Type {
                Type::$cql
            }

            fn write_cell(&self, out: &mut Vec<u8>) -> Result<bool, CellError> {
                cell::encode(&Type::$cql, &Value::$variant(self.clone()), out).map(|()| true)
            }

            fn read_cell(cell: Option<&[u8]>) -> Result<Self, CellError> {
                match cell::decode(&Type::$cql, cell.ok_or_else(null::<Self>)?)? {
                    Value::$variant(value) => Ok(value),
                    _ => Err(malformed::<Self>("a value of another type")),
                }
            }
        }

        impl KeyType for $native {}
    )*};
}

by_value!(IpAddr => Inet, Inet; BigInt => Varint, Varint; BigDecimal => Decimal, Decimal);
