//! The tables of those who write, in plain CQL: `recto_writers`, in which processes are registered, and `recto_intents`.
//! `docs/format.md`, "Writers and intents".

use std::fmt;

use recto_model::table::{ColumnKind, Compaction, Direction, TableOptions, WriteKind};
use recto_model::{Cells, Column, RowRef, Table, Type, Value, cell};

use crate::views::member::Registration;
use crate::views::row::{Generation, Micros};
use crate::views::stored::StoredError;

/// The version of a registration, and of the intents in its segments.
pub const WRITERS_VERSION: i32 = 1;
/// In how many partitions registrations stand: few, since each is read whole, and more than one, since each renewal is a
/// conditional write of its partition.
pub const WRITER_PARTITIONS: u8 = 8;

const WRITERS: &str = "recto_writers";
const INTENTS: &str = "recto_intents";
/// How long deletions of intents are kept: longer than a node that was away is told of what it missed. An intent that
/// comes back after that stands in a segment that nobody reads.
const INTENT_GRACE_SECONDS: u32 = 4 * 3600;

/// Which process: random, and another one at each start.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Incarnation(pub [u8; 16]);

impl Incarnation {
    /// The partition of its registration.
    pub fn writers_partition(self) -> Cells {
        let partition = i32::from(self.0[0] % WRITER_PARTITIONS).to_be_bytes();
        std::iter::once(Some(&partition[..])).collect()
    }

    /// The partition of one of its segments.
    pub fn intents_partition(self, segment: u64) -> Cells {
        [Some(&self.0[..]), Some(&segment.to_be_bytes())]
            .into_iter()
            .collect()
    }
}

impl fmt::Display for Incarnation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:032x}", u128::from_be_bytes(self.0))
    }
}

/// A row of `recto_writers`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Writer {
    /// Greater with each renewal.
    pub counter: u64,
    /// The schema it writes by; none before it has read one.
    pub generation: Option<Generation>,
    /// Whether it was found dead.
    pub is_dead: bool,
    /// Where its intents stand, ascending.
    pub segments: Vec<u64>,
    /// How often all of them were resolved since it was found dead.
    pub resolved: u32,
    /// When that was for the first time, by the clock of who did it.
    pub resolved_at: Option<Micros>,
}

impl Writer {
    /// Which regular column conditional writes compare.
    pub const COUNTER: u16 = 1;
    /// The one that they compare when the process is dead.
    pub const RESOLVED: u16 = 5;

    /// What a renewal puts.
    pub fn new(registration: Registration, segments: Vec<u64>) -> Self {
        Self {
            counter: registration.counter,
            generation: registration.generation,
            is_dead: registration.is_dead,
            segments,
            resolved: 0,
            resolved_at: None,
        }
    }

    /// What a barrier asks of it.
    pub fn registration(&self) -> Registration {
        Registration {
            counter: self.counter,
            generation: self.generation,
            is_dead: self.is_dead,
            is_resolved: self.resolved > 0,
        }
    }

    /// The table.
    pub fn table() -> Table {
        let cas = ColumnKind::Regular(WriteKind::Cas);
        let columns = vec![
            column("shard", Type::Int, ColumnKind::Partition),
            column("incarnation", Type::Uuid, ASCENDING),
            column("version", Type::Int, cas),
            column("counter", Type::BigInt, cas),
            column("generation", Type::BigInt, cas),
            column("is_dead", Type::Boolean, cas),
            column("segments", segments_type(), cas),
            column("resolved", Type::Int, cas),
            column("resolved_at", Type::BigInt, cas),
        ];
        Table::new(WRITERS, columns, TableOptions::default()).expect("these columns are a table")
    }

    /// Its regular cells, all of which are set together.
    pub fn cells(&self) -> Cells {
        let segments = self.segments.iter();
        let segments = segments
            .map(|number| Value::BigInt(number.cast_signed()))
            .collect();
        let mut cells = Cells::new();
        cells.push(Some(&WRITERS_VERSION.to_be_bytes()));
        cells.push(Some(&self.counter.to_be_bytes()));
        let generation = self.generation.map(|generation| generation.0.to_be_bytes());
        cells.push(generation.as_ref().map(|bytes| &bytes[..]));
        cells.push(Some(&[u8::from(self.is_dead)]));
        push_value(&mut cells, &segments_type(), &Value::List(segments));
        cells.push(Some(&self.resolved.to_be_bytes()));
        let resolved_at = self.resolved_at.map(i64::to_be_bytes);
        cells.push(resolved_at.as_ref().map(|bytes| &bytes[..]));
        cells
    }

    /// The registration that a row of the table is: all its columns.
    ///
    /// # Errors
    /// It is of a newer release, or damaged. Neither may be taken for absent: it may write.
    pub fn read(row: RowRef<'_>) -> Result<(Incarnation, Self), StoredError> {
        let read = Columns { table: WRITERS, row };
        let version = i32::from_be_bytes(read.fixed(2)?);
        if version != WRITERS_VERSION {
            return Err(StoredError::of_version(WRITERS, version));
        }
        let generation = read.optional(4).map(read.as_fixed()).transpose()?;
        let is_dead = match read.fixed(5)? {
            [0] => false,
            [1] => true,
            _ => return Err(read.damaged()),
        };
        let segments = read.values(6, &segments_type())?;
        let number = |value: Value| match value {
            Value::BigInt(number) => Some(number.cast_unsigned()),
            _ => None,
        };
        let segments: Option<Vec<u64>> = segments.into_iter().map(number).collect();
        let segments = segments.filter(|segments| segments.is_sorted_by(|a, b| a < b));
        let resolved_at = read.optional(8).map(read.as_fixed()).transpose()?;
        let writer = Self {
            counter: u64::from_be_bytes(read.fixed(3)?),
            generation: generation.map(|bytes| Generation(u64::from_be_bytes(bytes))),
            is_dead,
            segments: segments.ok_or(read.damaged())?,
            resolved: u32::from_be_bytes(read.fixed(7)?),
            resolved_at: resolved_at.map(i64::from_be_bytes),
        };
        Ok((Incarnation(read.fixed(1)?), writer))
    }
}

/// A row of `recto_intents`: somebody is about to change this record.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Intent {
    /// The collection.
    pub collection: String,
    /// The cells of the record's key, in the order of the collection's key fields.
    pub key: Cells,
    /// The stamp it is written at: a segment is deleted at that of its newest.
    pub stamp: Micros,
}

impl Intent {
    /// The table.
    pub fn table() -> Table {
        let plain = ColumnKind::Regular(WriteKind::Plain);
        let columns = vec![
            column("incarnation", Type::Uuid, ColumnKind::Partition),
            column("segment", Type::BigInt, ColumnKind::Partition),
            column("row", Type::Int, ASCENDING),
            column("collection", Type::Text, plain),
            column("key", key_type(), plain),
            column("stamp", Type::BigInt, plain),
        ];
        let options = TableOptions {
            compaction: Compaction::Tombstones,
            gc_grace_seconds: INTENT_GRACE_SECONDS,
            ..TableOptions::default()
        };
        Table::new(INTENTS, columns, options).expect("these columns are a table")
    }

    /// Its regular cells.
    pub fn cells(&self) -> Cells {
        let key = self.key.iter().flatten();
        let key = key.map(|cell| Value::Blob(cell.to_vec())).collect();
        let mut cells = Cells::new();
        cells.push(Some(self.collection.as_bytes()));
        push_value(&mut cells, &key_type(), &Value::List(key));
        cells.push(Some(&self.stamp.to_be_bytes()));
        cells
    }

    /// The intent that a row of the table is: all its columns.
    ///
    /// # Errors
    /// It is damaged. It may not be taken for absent.
    pub fn read(row: RowRef<'_>) -> Result<Self, StoredError> {
        let read = Columns { table: INTENTS, row };
        let collection = read.optional(3).and_then(|cell| std::str::from_utf8(cell).ok());
        let cell = |value: &Value| match value {
            Value::Blob(bytes) => Some(bytes.clone()),
            _ => None,
        };
        let key = read.values(4, &key_type())?;
        let key: Vec<Vec<u8>> = key.iter().filter_map(cell).collect();
        Ok(Self {
            collection: collection.ok_or(read.damaged())?.to_owned(),
            key: key.iter().map(|cell| Some(cell.as_slice())).collect(),
            stamp: i64::from_be_bytes(read.fixed(5)?),
        })
    }
}

const ASCENDING: ColumnKind = ColumnKind::Clustering(Direction::Ascending);

fn column(name: &str, ty: Type, kind: ColumnKind) -> Column {
    Column {
        name: name.into(),
        ty,
        kind,
    }
}

fn segments_type() -> Type {
    Type::List(Box::new(Type::BigInt))
}

fn key_type() -> Type {
    Type::List(Box::new(Type::Blob))
}

fn push_value(cells: &mut Cells, ty: &Type, value: &Value) {
    let written = cells.try_push_with(|out| cell::encode(ty, value, out));
    written.expect("a value of its type");
}

/// A row of one of the tables.
#[derive(Clone, Copy)]
struct Columns<'r> {
    table: &'static str,
    row: RowRef<'r>,
}

impl<'r> Columns<'r> {
    fn damaged(self) -> StoredError {
        StoredError::damaged(self.table, "a row has columns that Recto does not write so")
    }

    fn optional(self, column: usize) -> Option<&'r [u8]> {
        self.row.get(column)
    }

    fn fixed<const N: usize>(self, column: usize) -> Result<[u8; N], StoredError> {
        self.optional(column)
            .ok_or(self.damaged())
            .and_then(self.as_fixed())
    }

    fn as_fixed<const N: usize>(self) -> impl Fn(&[u8]) -> Result<[u8; N], StoredError> {
        move |cell| cell.try_into().map_err(|_| self.damaged())
    }

    /// The elements of a list.
    fn values(self, column: usize, ty: &Type) -> Result<Vec<Value>, StoredError> {
        let cell = self.optional(column).ok_or(self.damaged())?;
        match cell::decode(ty, cell) {
            Ok(Value::List(values)) => Ok(values),
            _ => Err(self.damaged()),
        }
    }
}
