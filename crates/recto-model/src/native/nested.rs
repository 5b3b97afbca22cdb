//! Rust's collections, tuples and arrays. They go by way of decoded values, so that
//! [`cell`](crate::cell) alone knows how nested values lie in bytes, and in which order.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::hash::{BuildHasher, Hash};

use super::{FieldType, KeyType, malformed, null};
use crate::cell::{self, CellError};
use crate::schema::MAX_VECTOR_DIMENSION;
use crate::{Type, Value};

fn element<T: FieldType>(value: &T) -> Result<Value, CellError> {
    value
        .to_value()?
        .ok_or_else(|| malformed::<T>("null, which cannot be inside a list, set, map or vector"))
}

fn elements<'a, T: FieldType + 'a>(values: impl Iterator<Item = &'a T>) -> Result<Vec<Value>, CellError> {
    values.map(element).collect()
}

/// What all types here share: cells by way of values, and another type's value.
macro_rules! cells_by_value {
    () => {
        fn write_cell(&self, out: &mut Vec<u8>) -> Result<bool, CellError> {
            let Some(value) = self.to_value()? else {
                return Ok(false);
            };
            cell::encode(&Self::field_type(), &value, out).map(|()| true)
        }

        fn read_cell(cell: Option<&[u8]>) -> Result<Self, CellError> {
            let cell = cell.ok_or_else(null::<Self>)?;
            Self::from_value(Some(cell::decode(&Self::field_type(), cell)?))
        }
    };
}

#[cold]
fn other<T: FieldType>(value: Option<&Value>) -> CellError {
    match value {
        None => null::<T>(),
        Some(_) => CellError::WrongType {
            expected: T::field_type().to_string(),
        },
    }
}

impl<T: FieldType> FieldType for Vec<T> {
    fn field_type() -> Type {
        Type::List(Box::new(T::field_type()))
    }

    cells_by_value!();

    fn to_value(&self) -> Result<Option<Value>, CellError> {
        Ok(Some(Value::List(elements(self.iter())?)))
    }

    fn from_value(value: Option<Value>) -> Result<Self, CellError> {
        match value {
            Some(Value::List(values)) => values
                .into_iter()
                .map(|value| T::from_value(Some(value)))
                .collect(),
            value => Err(other::<Self>(value.as_ref())),
        }
    }
}

macro_rules! sets {
    ($(impl[$($generics:tt)*] $set:ty;)*) => {$(
        /// A set. Cells hold the elements in CQL's order, which need not be Rust's.
        impl<$($generics)*> FieldType for $set {
            fn field_type() -> Type {
                Type::Set(Box::new(T::field_type()))
            }

            cells_by_value!();

            fn to_value(&self) -> Result<Option<Value>, CellError> {
                Ok(Some(Value::Set(elements(self.iter())?)))
            }

            fn from_value(value: Option<Value>) -> Result<Self, CellError> {
                match value {
                    Some(Value::Set(values)) => values
                        .into_iter()
                        .map(|value| T::from_value(Some(value)))
                        .collect(),
                    value => Err(other::<Self>(value.as_ref())),
                }
            }
        }
    )*};
}

sets! {
    impl[T: KeyType + Ord] BTreeSet<T>;
    impl[T: KeyType + Eq + Hash, S: BuildHasher + Default] HashSet<T, S>;
}

macro_rules! maps {
    ($(impl[$($generics:tt)*] $map:ty;)*) => {$(
        /// A map. Cells hold the keys in CQL's order, which need not be Rust's.
        impl<$($generics)*> FieldType for $map {
            fn field_type() -> Type {
                Type::Map(Box::new(K::field_type()), Box::new(V::field_type()))
            }

            cells_by_value!();

            fn to_value(&self) -> Result<Option<Value>, CellError> {
                let pairs = self
                    .iter()
                    .map(|(key, value)| Ok((element(key)?, element(value)?)));
                Ok(Some(Value::Map(pairs.collect::<Result<_, CellError>>()?)))
            }

            fn from_value(value: Option<Value>) -> Result<Self, CellError> {
                match value {
                    Some(Value::Map(pairs)) => pairs
                        .into_iter()
                        .map(|(key, value)| Ok((K::from_value(Some(key))?, V::from_value(Some(value))?)))
                        .collect(),
                    value => Err(other::<Self>(value.as_ref())),
                }
            }
        }
    )*};
}

maps! {
    impl[K: KeyType + Ord, V: FieldType] BTreeMap<K, V>;
    impl[K: KeyType + Eq + Hash, V: FieldType, S: BuildHasher + Default] HashMap<K, V, S>;
}

/// A vector of 1 to 8,192 elements; other lengths do not compile.
impl<T: FieldType, const N: usize> FieldType for [T; N] {
    fn field_type() -> Type {
        const {
            assert!(
                N >= 1 && N <= MAX_VECTOR_DIMENSION as usize,
                "a vector has 1 to 8192 elements"
            );
        }
        Type::Vector(Box::new(T::field_type()), N as u16)
    }

    cells_by_value!();

    fn to_value(&self) -> Result<Option<Value>, CellError> {
        Ok(Some(Value::Vector(elements(self.iter())?)))
    }

    fn from_value(value: Option<Value>) -> Result<Self, CellError> {
        let Some(Value::Vector(values)) = value else {
            return Err(other::<Self>(value.as_ref()));
        };
        let values: Vec<T> = values
            .into_iter()
            .map(|value| T::from_value(Some(value)))
            .collect::<Result<_, _>>()?;
        values
            .try_into()
            .map_err(|values: Vec<T>| malformed::<Self>(&format!("{} elements, not {N}", values.len())))
    }
}

macro_rules! tuples {
    ($($count:literal: $($part:ident $index:tt),+;)*) => {$(
        impl<$($part: FieldType),+> FieldType for ($($part,)+) {
            fn field_type() -> Type {
                Type::Tuple(vec![$($part::field_type()),+])
            }

            cells_by_value!();

            fn to_value(&self) -> Result<Option<Value>, CellError> {
                Ok(Some(Value::Tuple(vec![$(self.$index.to_value()?),+])))
            }

            fn from_value(value: Option<Value>) -> Result<Self, CellError> {
                let Some(Value::Tuple(parts)) = value else {
                    return Err(other::<Self>(value.as_ref()));
                };
                let parts: [Option<Value>; $count] = parts
                    .try_into()
                    .map_err(|_| malformed::<Self>("of another number of parts"))?;
                let mut parts = parts.into_iter();
                Ok(($($part::from_value(parts.next().flatten())?,)+))
            }
        }
    )*};
}

tuples! {
    1: A 0;
    2: A 0, B 1;
    3: A 0, B 1, C 2;
    4: A 0, B 1, C 2, D 3;
    5: A 0, B 1, C 2, D 3, E 4;
    6: A 0, B 1, C 2, D 3, E 4, F 5;
}
