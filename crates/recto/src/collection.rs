//! A collection: typed or dynamic records to read and write.

use std::fmt::Display;
use std::marker::PhantomData;
use std::sync::Arc;
use std::time::Duration;

use recto_model::cell::CellError;
use recto_model::native::{Ascii, Blob, Date, FieldType, Time, TimeUuid, Timestamp};
use recto_model::record::{Record, RecordError};
use recto_model::schema::Collection as Definition;
use recto_model::{Cells, RowRef, Type, Value, cell, json};
use recto_plan::Arrangement;
use recto_store::{PointRead, Snapshot};

use crate::core::CollectionCore;
use crate::error::{Error, ErrorKind, Result};
use crate::query::{Decode, PageQuery};
use crate::record::{DynamicRecord, row_of};
use crate::scan::Scan;
use crate::write::{Change, WriteBatch};

/// The cells of a record, in the base table's column order.
type Encode<T> = fn(&CollectionCore, &T) -> Result<Cells>;

/// A collection of an open store, whose records are `T`s. Cheap to clone.
///
/// ```
/// # use recto::{OpenOptions, Record, Recto};
/// # #[derive(Debug, Clone, PartialEq, Record)]
/// # #[record(collection = "events", key = ["day", "id"], partition = ["day"], order = ["id"], writes = "append")]
/// # struct Event { day: String, id: i64, kind: String }
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> recto::Result<()> {
/// # let folder = tempfile::tempdir().unwrap();
/// # let mut store = Recto::open_with(folder.path().join("store"), OpenOptions::new().create()).await?;
/// # store.apply(&recto::schema_of([Event::collection()])).await?;
/// # let events = store.collection::<Event>()?;
/// # let event = |id| Event { day: "mon".into(), id, kind: if id % 9 == 0 { "alarm" } else { "tick" }.into() };
/// # events.put_all(&(0..60).map(event).collect::<Vec<_>>()).await?;
/// // `Event` has the fields day, id and kind; its key is (day, id).
/// events.put(&event(60)).await?;
/// assert_eq!(events.get(("mon", 60)).await?, Some(event(60)));
/// events.delete(("mon", 60)).await?;
/// assert_eq!(events.get(("mon", 60)).await?, None);
/// assert_eq!(events.query().filter(r#"day = "mon""#).first(10).await?.len(), 10);
/// # Ok(())
/// # }
/// ```
pub struct Collection<T> {
    core: Arc<CollectionCore>,
    decode: Decode<T>,
    encode: Encode<T>,
    records: PhantomData<fn() -> T>,
}

impl<T> Clone for Collection<T> {
    fn clone(&self) -> Self {
        Self {
            core: Arc::clone(&self.core),
            decode: self.decode,
            encode: self.encode,
            records: PhantomData,
        }
    }
}

impl<T> std::fmt::Debug for Collection<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Collection")
            .field("name", &self.core.definition.name)
            .finish_non_exhaustive()
    }
}

impl<T: Record> Collection<T> {
    pub(crate) fn typed(core: Arc<CollectionCore>) -> Self {
        Self {
            core,
            decode: decode_typed::<T>,
            encode: encode_typed::<T>,
            records: PhantomData,
        }
    }
}

impl Collection<DynamicRecord> {
    pub(crate) fn dynamic(core: Arc<CollectionCore>) -> Self {
        Self {
            core,
            decode: DynamicRecord::read,
            encode: encode_dynamic,
            records: PhantomData,
        }
    }
}

fn decode_typed<T: Record>(core: &CollectionCore, _: &Arrangement, row: RowRef<'_>) -> Result<T> {
    T::read(row, &core.columns).map_err(|error| {
        let kind = match error {
            RecordError::Missing { .. } => ErrorKind::InvalidRecord,
            _ => ErrorKind::Corrupt,
        };
        Error::new(kind, format!("a row of {}: {error}", core.definition.name)).with_source(error)
    })
}

fn encode_typed<T: Record>(core: &CollectionCore, record: &T) -> Result<Cells> {
    row_of(core, |field, out| {
        core.places[field].map_or(Ok(false), |place| record.write(place, out))
    })
}

fn encode_dynamic(core: &CollectionCore, record: &DynamicRecord) -> Result<Cells> {
    record.check_is_of(&core.definition)?;
    row_of(core, |field, out| match &record.values()[field] {
        None => Ok(false),
        Some(value) => cell::encode(&core.definition.fields[field].ty, value, out).map(|()| true),
    })
}

impl<T> Collection<T> {
    /// How it is declared.
    pub fn definition(&self) -> &Definition {
        &self.core.definition
    }

    pub(crate) fn core(&self) -> &Arc<CollectionCore> {
        &self.core
    }

    /// A query over all its records; awaited, its first page.
    pub fn query(&self) -> PageQuery<T> {
        PageQuery::new(Arc::clone(&self.core), self.decode)
    }

    /// Every record, or all of a filter, in no order: for exports, copies and counts.
    pub fn scan(&self) -> Scan<T> {
        Scan::new(Arc::clone(&self.core), self.decode)
    }

    /// The record with this key, if there is one.
    ///
    /// # Errors
    /// The key has another number of values than the collection's, or values of other types.
    pub async fn get(&self, key: impl Key) -> Result<Option<T>> {
        let cells = key_cells(&self.core, &key)?;
        let Some((rows, arrangement)) = point_read(&self.core, &cells).await? else {
            return Ok(None);
        };
        rows.iter()
            .next()
            .map(|row| (self.decode)(&self.core, &arrangement, row))
            .transpose()
    }

    /// Stores a record. Durable when it returns.
    ///
    /// It takes the place of one with its key. In a collection with `writes = "append"`, whose records
    /// are never changed, that is a conflict, unless it is the same record: then it is done. (On
    /// Cassandra it is a mistake that goes unnoticed: the fields that are not null take the place of
    /// those that were there.)
    ///
    /// # Errors
    /// As [`WriteBatch::put`] and [`WriteBatch::commit`].
    pub async fn put(&self, record: &T) -> Result<()> {
        self.put_with(record, None).await
    }

    /// Stores a record that lives for a time (whole seconds, at least one).
    ///
    /// In a collection with `writes = "append"`, a record that is there already lives for the longer of
    /// the two times (on Cassandra, for the later given).
    ///
    /// # Errors
    /// As [`WriteBatch::put_for`] and [`WriteBatch::commit`].
    pub async fn put_for(&self, record: &T, time_to_live: Duration) -> Result<()> {
        self.put_with(record, Some(time_to_live)).await
    }

    async fn put_with(&self, record: &T, time_to_live: Option<Duration>) -> Result<()> {
        let mut batch = WriteBatch::new(&self.core.shared);
        batch.add(&self.core, self.put_change(record, time_to_live)?)?;
        batch.commit().await
    }

    /// Stores records, all or none: one transaction on the embedded store, one logged batch on
    /// Cassandra, which is refused above its size limit with nothing sent.
    ///
    /// # Errors
    /// As [`WriteBatch::put`] and [`WriteBatch::commit`].
    pub async fn put_all<'a>(&self, records: impl IntoIterator<Item = &'a T>) -> Result<()>
    where
        T: 'a,
    {
        let mut batch = WriteBatch::new(&self.core.shared);
        for record in records {
            batch.put(self, record)?;
        }
        batch.commit().await
    }

    pub(crate) fn put_change(&self, record: &T, time_to_live: Option<Duration>) -> Result<Change> {
        Ok(Change::Put {
            cells: (self.encode)(&self.core, record)?,
            time_to_live,
        })
    }

    /// Deletes the record with this key; nothing if there is none.
    pub async fn delete(&self, key: impl Key) -> Result<()> {
        let mut batch = WriteBatch::new(&self.core.shared);
        batch.delete(self, key)?;
        batch.commit().await
    }
}

pub(crate) async fn point_read(
    core: &CollectionCore,
    key: &Cells,
) -> Result<Option<(recto_model::RowSet, Arc<Arrangement>)>> {
    core.shared.check_table(&core.definition.name)?;
    let arrangement = core.base();
    let (partition, clustering, _) = core.split(key);
    let limits = core.shared.store.limits();
    if limits.check_partition(&arrangement.table, &partition).is_err()
        || limits.check_clustering(&arrangement.table, &clustering).is_err()
    {
        // No record has a key that cannot be stored.
        return Ok(None);
    }
    let read = PointRead {
        table: Arc::clone(&arrangement.table),
        partition,
        clustering,
    };
    let snapshot: Arc<dyn Snapshot> = core.shared.store.snapshot()?;
    let found = snapshot.get(&read, &core.shared.read_options()).await?;
    Ok((!found.rows.is_empty()).then(|| (found.rows, Arc::clone(arrangement))))
}

/// The values of a collection's key, in the order its schema gives them: one value, a tuple of
/// values, or the texts of all of them ([`KeyText`]).
///
/// ```
/// # use recto::{OpenOptions, Record, Recto};
/// # #[derive(Debug, Clone, PartialEq, Record)]
/// # #[record(collection = "events", key = ["day", "id"], partition = ["day"], order = ["id"], writes = "append")]
/// # struct Event { day: String, id: i64, kind: String }
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> recto::Result<()> {
/// # let folder = tempfile::tempdir().unwrap();
/// # let mut store = Recto::open_with(folder.path().join("store"), OpenOptions::new().create()).await?;
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
    /// How many values there are.
    fn len(&self) -> usize;
    /// Whether there are none.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }
    /// Appends the cell of the value at `index`, of the type given, to `out`.
    fn write(&self, index: usize, ty: &Type, out: &mut Vec<u8>) -> Result<(), CellError>;
}

/// A key as texts: each value as record JSON writes it, without quotes.
///
/// ```
/// # use recto::{OpenOptions, Record, Recto};
/// # #[derive(Debug, Clone, PartialEq, Record)]
/// # #[record(collection = "events", key = ["day", "id"], partition = ["day"], order = ["id"], writes = "append")]
/// # struct Event { day: String, id: i64, kind: String }
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> recto::Result<()> {
/// # let folder = tempfile::tempdir().unwrap();
/// # let mut store = Recto::open_with(folder.path().join("store"), OpenOptions::new().create()).await?;
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

/// A Rust value that can be part of a key: of the key field's type, or text that record JSON reads
/// as one (for a uuid), or another number of the same value (an `i32` for a bigint).
///
/// ```
/// # use recto::{OpenOptions, Record, Recto};
/// # #[derive(Debug, Clone, PartialEq, Record)]
/// # #[record(collection = "events", key = ["day", "id"], partition = ["day"], order = ["id"], writes = "append")]
/// # struct Event { day: String, id: i64, kind: String }
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> recto::Result<()> {
/// # let folder = tempfile::tempdir().unwrap();
/// # let mut store = Recto::open_with(folder.path().join("store"), OpenOptions::new().create()).await?;
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
    /// Appends the cell of this value as a value of `ty` to `out`.
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

/// Appends the cell of a field's value as a value of `ty`.
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
    if own != Type::Text && !(is_number(&own) && is_number(ty)) {
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
        reason: "it is null, and it is part of the key".to_owned(),
    }
}

fn is_number(ty: &Type) -> bool {
    use Type::{BigInt, Decimal, Double, Float, Int, SmallInt, TinyInt, Varint};
    matches!(
        ty,
        TinyInt | SmallInt | Int | BigInt | Varint | Decimal | Float | Double
    )
}

/// Values that are parts of keys, and keys of one part.
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
    bigdecimal::BigDecimal,
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

/// Numbers that are no field types, because CQL has none of their range.
fn write_number(number: &impl Display, ty: &Type, out: &mut Vec<u8>) -> Result<(), CellError> {
    if is_number(ty) {
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

/// What the `Option` holds; without a value it is no key.
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

/// The key's cells in the order of the base table's key columns.
pub(crate) fn key_cells(core: &CollectionCore, key: &impl Key) -> Result<Cells> {
    let names = &core.definition.key;
    if key.len() != names.len() {
        return Err(Error::new(
            ErrorKind::InvalidRecord,
            format!(
                "the key of {} has {} values, {} were given",
                core.definition.name,
                names.len(),
                key.len()
            ),
        )
        .with_hint(format!("its key is {}", names.join(", "))));
    }
    let arrangement = core.base();
    let mut cells = Cells::new();
    for (column, &field) in arrangement.field_of_column[..arrangement.table.key_len()]
        .iter()
        .enumerate()
    {
        let definition = &core.definition.fields[field];
        let index = names
            .iter()
            .position(|name| *name == definition.name)
            .expect("key columns are key fields");
        let ty = arrangement.type_of(column);
        let invalid = |error: CellError| {
            Error::new(ErrorKind::InvalidRecord, format!("{}: {error}", definition.name))
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
