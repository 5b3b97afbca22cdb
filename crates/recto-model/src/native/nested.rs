//! Rust's collections, tuples and arrays as field types. Sets, maps and tuples are converted
//! through decoded values, because only [`cell`](crate::cell) knows the layout and the order of
//! nested values.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::hash::{BuildHasher, Hash};
use std::ops::{Deref, DerefMut};

use super::{FieldType, KeyType, malformed, null};
use crate::cell::{self, CellError, nested};
use crate::schema::MAX_VECTOR_DIMENSION;
use crate::{Type, Value};

fn element<T: FieldType>(value: &T) -> Result<Value, CellError> {
    value.to_value()?.ok_or_else(null_inside::<T>)
}

#[cold]
fn null_inside<T: FieldType>() -> CellError {
    malformed::<T>("null, which cannot be inside a list, set, map or vector")
}

fn elements<'a, T: FieldType + 'a>(values: impl Iterator<Item = &'a T>) -> Result<Vec<Value>, CellError> {
    values.map(element).collect()
}

/// Implements `write_cell` and `read_cell` through an intermediate decoded value, for sets, maps
/// and tuples.
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

/// Implements `write_cell` and `read_cell` of lists and vectors element by element. A vector of
/// 1,536 floats therefore needs no intermediate memory.
macro_rules! cells_by_element {
    ($of_elements:expr) => {
        fn write_cell(&self, out: &mut Vec<u8>) -> Result<bool, CellError> {
            let write = |element: &T, out: &mut Vec<u8>| match element.write_cell(out)? {
                true => Ok(()),
                false => Err(null_inside::<T>()),
            };
            nested::encode_elements(&Self::field_type(), self, out, write).map(|()| true)
        }

        fn read_cell(cell: Option<&[u8]>) -> Result<Self, CellError> {
            let cell = cell.ok_or_else(null::<Self>)?;
            let elements = nested::decode_elements(&Self::field_type(), cell, T::read_cell)?;
            $of_elements(elements)
        }
    };
}

impl<T: FieldType> FieldType for Vec<T> {
    fn field_type() -> Type {
        Type::List(Box::new(T::field_type()))
    }

    cells_by_element!(Ok);

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
        /// Set field. The cell contains the elements in CQL's order, which can differ from Rust's.
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
        /// Map field. The cell contains the keys in CQL's order, which can differ from Rust's.
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

/// Vector field with 1 to 8,192 elements. An array of another length does not compile as a field.
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

    cells_by_element!(of_length);

    fn to_value(&self) -> Result<Option<Value>, CellError> {
        Ok(Some(Value::Vector(elements(self.iter())?)))
    }

    fn from_value(value: Option<Value>) -> Result<Self, CellError> {
        Vector::<T, N>::from_value(value).and_then(|vector| of_length(vector.0))
    }
}

fn of_length<T: FieldType, const N: usize>(elements: Vec<T>) -> Result<[T; N], CellError> {
    elements
        .try_into()
        .map_err(|elements: Vec<T>| other_length::<T, N>(elements.len()))
}

#[cold]
fn other_length<T: FieldType, const N: usize>(found: usize) -> CellError {
    malformed::<[T; N]>(&format!("{found} elements, not {N}"))
}

/// Vector field with 1 to 8,192 elements on the heap, in a [`Vec`]. Use it instead of an array if
/// the elements should not be inside the record, for example for an embedding of 1,536 floats.
///
/// ```
/// use recto_model::native::{FieldType, Vector};
///
/// let embedding: Vector<f32, 3> = vec![0.25, -1.0, 0.5].try_into()?;
/// assert_eq!(embedding[2], 0.5);
/// assert_eq!(Vector::<f32, 3>::field_type().to_string(), "vector<float, 3>");
/// assert!(Vector::<f32, 3>::try_from(vec![0.25]).is_err());
/// # Ok::<(), recto_model::cell::CellError>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Hash)]
pub struct Vector<T, const N: usize>(Vec<T>);

impl<T: FieldType, const N: usize> TryFrom<Vec<T>> for Vector<T, N> {
    type Error = CellError;

    fn try_from(elements: Vec<T>) -> Result<Self, CellError> {
        if elements.len() == N {
            Ok(Self(elements))
        } else {
            Err(other_length::<T, N>(elements.len()))
        }
    }
}

impl<T, const N: usize> From<Vector<T, N>> for Vec<T> {
    fn from(vector: Vector<T, N>) -> Self {
        vector.0
    }
}

impl<T, const N: usize> Deref for Vector<T, N> {
    type Target = [T];

    fn deref(&self) -> &[T] {
        &self.0
    }
}

impl<T, const N: usize> DerefMut for Vector<T, N> {
    fn deref_mut(&mut self) -> &mut [T] {
        &mut self.0
    }
}

impl<T: FieldType, const N: usize> FieldType for Vector<T, N> {
    fn field_type() -> Type {
        <[T; N]>::field_type()
    }

    cells_by_element!(Self::try_from);

    fn to_value(&self) -> Result<Option<Value>, CellError> {
        Ok(Some(Value::Vector(elements(self.iter())?)))
    }

    fn from_value(value: Option<Value>) -> Result<Self, CellError> {
        let Some(Value::Vector(values)) = value else {
            return Err(other::<Self>(value.as_ref()));
        };
        let values = values.into_iter().map(|value| T::from_value(Some(value)));
        values.collect::<Result<Vec<T>, _>>()?.try_into()
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
                    .map_err(|_| malformed::<Self>("of a different number of parts"))?;
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
