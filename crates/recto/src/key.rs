//! Keys of records, as Rust values and as texts.

use std::fmt::Display;

use recto_model::cell::CellError;
use recto_model::native::{Ascii, Blob, Date, FieldType, Time, TimeUuid, Timestamp};
use recto_model::{Cells, Type, Value, cell, json};

use crate::core::CollectionCore;
use crate::error::{Error, ErrorKind, Part, Result};

/// The values of a collection's key, in the order of the schema: one value, a tuple of values, or the texts
/// of all values ([`KeyText`]).
///
/// ```
/// # use recto::{OpenOptions, Record, Recto};
/// # #[derive(Debug, Clone, PartialEq, Record)]
/// # #[record(collection = "events", key = ["day", "id"], partition = ["day"], order = ["id"], writes = "append")]
/// # struct Event { day: String, id: i64, kind: String }
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> recto::Result<()> {
/// # let folder = tempfile::tempdir().unwrap();
/// # let store = Recto::open_with(folder.path().join("store"), OpenOptions::new().create()).await?;
/// # store.apply(&recto::schema_of([Event::collection()])).await?;
/// # let events = store.collection::<Event>()?;
/// # let event = |id| Event { day: "mon".into(), id, kind: if id % 9 == 0 { "alarm" } else { "tick" }.into() };
/// # events.put_all(&(0..60).map(event).collect::<Vec<_>>()).await?;
/// assert_eq!(events.get(("mon", 7)).await?, Some(event(7)));
/// assert_eq!(events.get("mon").await.unwrap_err().field(), None); // a value is missing
/// # Ok(())
/// # }
/// ```
pub trait Key {
    /// Returns the number of values of the key.
    fn len(&self) -> usize;
    /// Returns whether the key has no values.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }
    /// Appends the cell of the value at `index`, encoded as a value of `ty`, to `out`.
    fn write(&self, index: usize, ty: &Type, out: &mut Vec<u8>) -> Result<(), CellError>;
}

/// A key as texts: each value in the form of record JSON, without quotes.
///
/// ```
/// # use recto::{OpenOptions, Record, Recto};
/// # #[derive(Debug, Clone, PartialEq, Record)]
/// # #[record(collection = "events", key = ["day", "id"], partition = ["day"], order = ["id"], writes = "append")]
/// # struct Event { day: String, id: i64, kind: String }
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> recto::Result<()> {
/// # let folder = tempfile::tempdir().unwrap();
/// # let store = Recto::open_with(folder.path().join("store"), OpenOptions::new().create()).await?;
/// # store.apply(&recto::schema_of([Event::collection()])).await?;
/// # let events = store.collection::<Event>()?;
/// # let event = |id| Event { day: "mon".into(), id, kind: if id % 9 == 0 { "alarm" } else { "tick" }.into() };
/// # events.put_all(&(0..60).map(event).collect::<Vec<_>>()).await?;
/// let key = ["mon".to_string(), "7".to_string()];
/// assert_eq!(events.get(recto::KeyText(&key)).await?, Some(event(7)));
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone)]
pub struct KeyText<'a>(pub &'a [String]);

impl Key for KeyText<'_> {
    fn len(&self) -> usize {
        self.0.len()
    }

    fn write(&self, index: usize, ty: &Type, out: &mut Vec<u8>) -> Result<(), CellError> {
        write_text(&self.0[index], ty, out)
    }
}

impl Key for &[Value] {
    fn len(&self) -> usize {
        <[Value]>::len(self)
    }

    fn write(&self, index: usize, ty: &Type, out: &mut Vec<u8>) -> Result<(), CellError> {
        cell::encode(ty, &self[index], out)
    }
}

/// A Rust value that can be a part of a key: a value of the key field's type, or a text in the form of record
/// JSON (for a uuid). It may also be a number of another type with the same value (an `i32` for a bigint).
///
/// ```
/// # use recto::{OpenOptions, Record, Recto};
/// # #[derive(Debug, Clone, PartialEq, Record)]
/// # #[record(collection = "events", key = ["day", "id"], partition = ["day"], order = ["id"], writes = "append")]
/// # struct Event { day: String, id: i64, kind: String }
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> recto::Result<()> {
/// # let folder = tempfile::tempdir().unwrap();
/// # let store = Recto::open_with(folder.path().join("store"), OpenOptions::new().create()).await?;
/// # store.apply(&recto::schema_of([Event::collection()])).await?;
/// # let events = store.collection::<Event>()?;
/// # let event = |id| Event { day: "mon".into(), id, kind: if id % 9 == 0 { "alarm" } else { "tick" }.into() };
/// # events.put_all(&(0..60).map(event).collect::<Vec<_>>()).await?;
/// // The key is (text, bigint): other numbers of the same value do as well.
/// assert_eq!(events.get(("mon", 7_i32)).await?, Some(event(7)));
/// # Ok(())
/// # }
/// ```
pub trait KeyPart {
    /// Appends the cell of this value, encoded as a value of `ty`, to `out`.
    fn write(&self, ty: &Type, out: &mut Vec<u8>) -> Result<(), CellError>;
}

impl KeyPart for &str {
    fn write(&self, ty: &Type, out: &mut Vec<u8>) -> Result<(), CellError> {
        write_text(self, ty, out)
    }
}

fn write_text(text: &str, ty: &Type, out: &mut Vec<u8>) -> Result<(), CellError> {
    let value = json::from_text(ty, text)?;
    cell::encode(ty, &value, out)
}

/// Appends the cell of a field's value to `out`, encoded as a value of `ty`. Converts texts, and numbers of
/// another type.
#[doc(hidden)]
pub fn write_part<F: FieldType>(part: &F, ty: &Type, out: &mut Vec<u8>) -> Result<(), CellError> {
    let own = F::field_type();
    if own == *ty {
        return if part.write_cell(out)? {
            Ok(())
        } else {
            Err(null(ty))
        };
    }
    if own != Type::Text && !(own.is_number() && ty.is_number()) {
        return Err(CellError::WrongType {
            expected: ty.to_string(),
        });
    }
    let mut bytes = Vec::new();
    part.write_cell(&mut bytes)?;
    write_text(&json::to_text(&own, &cell::decode(&own, &bytes)?), ty, out)
}

#[cold]
fn null(ty: &Type) -> CellError {
    CellError::Malformed {
        type_name: ty.to_string(),
        reason: "it is null, but part of the key".to_owned(),
    }
}

/// Implements [`KeyPart`] and [`Key`] for types that can be a part of a key, or a key with one part.
macro_rules! key_parts {
    ($write:path: $($part:ty),+ $(,)?) => {
        $(
            impl KeyPart for $part {
                fn write(&self, ty: &Type, out: &mut Vec<u8>) -> Result<(), CellError> {
                    $write(self, ty, out)
                }
            }

            impl Key for $part {
                fn len(&self) -> usize {
                    1
                }

                fn write(&self, _: usize, ty: &Type, out: &mut Vec<u8>) -> Result<(), CellError> {
                    KeyPart::write(self, ty, out)
                }
            }
        )+
    };
}

key_parts!(
    write_part: String,
    bool,
    i8,
    i16,
    i32,
    i64,
    f32,
    f64,
    num_bigint::BigInt,
    recto_model::decimals::BigDecimal,
    uuid::Uuid,
    std::net::IpAddr,
    Ascii,
    Blob,
    Date,
    Time,
    TimeUuid,
    Timestamp,
    jiff::civil::Date,
    jiff::civil::Time,
    jiff::Timestamp,
);

#[cfg(feature = "chrono")]
key_parts!(write_part: chrono::NaiveDate, chrono::NaiveTime, chrono::DateTime<chrono::Utc>);

#[cfg(feature = "time")]
key_parts!(write_part: time::Date, time::Time, time::OffsetDateTime, time::UtcDateTime);

/// Appends the cell of a number whose Rust type (such as `u64`) is not a field type, because CQL
/// has no type with its range.
fn write_number(number: &impl Display, ty: &Type, out: &mut Vec<u8>) -> Result<(), CellError> {
    if ty.is_number() {
        return write_text(&number.to_string(), ty, out);
    }
    Err(CellError::WrongType {
        expected: ty.to_string(),
    })
}

key_parts!(write_number: i128, isize, u8, u16, u32, u64, u128, usize);

impl KeyPart for &String {
    fn write(&self, ty: &Type, out: &mut Vec<u8>) -> Result<(), CellError> {
        write_text(self, ty, out)
    }
}

impl Key for &String {
    fn len(&self) -> usize {
        1
    }

    fn write(&self, _: usize, ty: &Type, out: &mut Vec<u8>) -> Result<(), CellError> {
        write_text(self, ty, out)
    }
}

/// Writes the value in the `Option`. Fails for `None`, because a key cannot be null.
impl<T: KeyPart> KeyPart for Option<T> {
    fn write(&self, ty: &Type, out: &mut Vec<u8>) -> Result<(), CellError> {
        self.as_ref().ok_or_else(|| null(ty))?.write(ty, out)
    }
}

impl Key for &str {
    fn len(&self) -> usize {
        1
    }

    fn write(&self, _: usize, ty: &Type, out: &mut Vec<u8>) -> Result<(), CellError> {
        write_text(self, ty, out)
    }
}

macro_rules! tuple_keys {
    ($count:literal: $($name:ident $index:tt),+) => {
        impl<$($name: KeyPart),+> Key for ($($name,)+) {
            fn len(&self) -> usize {
                $count
            }

            fn write(&self, index: usize, ty: &Type, out: &mut Vec<u8>) -> Result<(), CellError> {
                match index {
                    $($index => self.$index.write(ty, out),)+
                    _ => Err(CellError::WrongType { expected: ty.to_string() }),
                }
            }
        }
    };
}

tuple_keys!(1: A 0);
tuple_keys!(2: A 0, B 1);
tuple_keys!(3: A 0, B 1, C 2);
tuple_keys!(4: A 0, B 1, C 2, D 3);
tuple_keys!(5: A 0, B 1, C 2, D 3, E 4);
tuple_keys!(6: A 0, B 1, C 2, D 3, E 4, F 5);
tuple_keys!(7: A 0, B 1, C 2, D 3, E 4, F 5, G 6);
tuple_keys!(8: A 0, B 1, C 2, D 3, E 4, F 5, G 6, H 7);

/// Returns the cells of a key in the order of the base table's key columns.
pub(crate) fn key_cells(core: &CollectionCore, key: &impl Key) -> Result<Cells> {
    let names = &core.definition.key;
    if key.len() != names.len() {
        return Err(Error::new(
            ErrorKind::InvalidRecord,
            format!(
                "the key of {} has {} values, but the request has {}",
                core.definition.name,
                names.len(),
                key.len()
            ),
        )
        .with_part(Part::Key)
        .with_hint(format!("its key is {}", names.join(", "))));
    }
    let sort_order = core.base();
    let mut cells = Cells::new();
    for (column, field) in sort_order.fields().take(sort_order.table.key_len()) {
        let definition = &core.definition.fields[field];
        let index = names
            .iter()
            .position(|name| *name == definition.name)
            .expect("key columns are key fields");
        let ty = sort_order.type_of(column);
        let invalid = |error: CellError| {
            Error::new(ErrorKind::InvalidRecord, format!("{}: {error}", definition.name))
                .with_part(Part::Key)
                .with_field(&definition.name)
        };
        let mut bytes = Vec::new();
        key.write(index, ty, &mut bytes).map_err(invalid)?;
        cells
            .try_push_with(|out| cell::canonical_key(ty, &bytes, out))
            .map_err(invalid)?;
    }
    Ok(cells)
}
