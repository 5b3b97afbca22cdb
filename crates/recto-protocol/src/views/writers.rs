//! Tables of processes that write: `recto_writers` with their registrations, and `recto_intents`
//! with their pending changes. All columns are plain CQL. See `docs/format.md`, "Writers and
//! intents".

use std::fmt;

use recto_model::table::{ColumnKind, Compaction, Direction, TableOptions, WriteKind};
use recto_model::{Cells, Column, RowRef, Table, Type, Value, cell};

use crate::views::member::Registration;
use crate::views::row::{Generation, Micros};
use crate::views::stored::StoredError;

/// Format version of a registration, and of the intents (pending changes) that it lists.
pub const WRITERS_VERSION: i32 = 1;
/// Number of partitions among which registrations are distributed. It is small, because a reader of
/// registrations reads all partitions. It is more than 1, because conditional writes in one
/// partition delay each other.
pub const WRITER_PARTITIONS: u8 = 8;

const WRITERS: &str = "recto_writers";
const INTENTS: &str = "recto_intents";
/// Time for which Cassandra keeps tombstones of intents, in seconds. It is longer than nodes keep
/// hints for an unreachable node. An intent that reappears later is harmless: no process reads its
/// segment.
const INTENT_GRACE_SECONDS: u32 = 4 * 3600;

/// Random id of a process. Each start of a process gets a new id.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Incarnation(pub [u8; 16]);

impl Incarnation {
    /// Returns the partition key of the process's registration in `recto_writers`.
    pub fn writers_partition(self) -> Cells {
        let partition = i32::from(self.0[0] % WRITER_PARTITIONS).to_be_bytes();
        std::iter::once(Some(&partition[..])).collect()
    }

    /// Returns the partition key of a segment (group of intents) of the process in `recto_intents`.
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

/// Row of `recto_writers`: the registration of a process, with the list of its segments (groups of
/// intents).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Writer {
    /// Counter that each renewal increases, which shows other processes that this process is alive.
    pub counter: u64,
    /// Id of the oldest schema with which the process may still write; `None` before it has read a
    /// schema.
    pub generation: Option<Generation>,
    /// True if another process declared this process dead.
    pub is_dead: bool,
    /// Ids of the segments that contain the intents (pending changes) of the process, ascending.
    pub segments: Vec<u64>,
    /// How many times all intents (pending changes) of the dead process were resolved.
    pub resolved: u32,
    /// Time when all intents (pending changes) were first resolved, on the clock of the process
    /// that resolved them; `None`: not yet.
    pub resolved_at: Option<Micros>,
}

impl Writer {
    /// Index (from 0) of `counter` among the regular columns. Conditional writes on the row of a
    /// live process compare it.
    pub const COUNTER: u16 = 1;
    /// Index (from 0) of `resolved` among the regular columns. Conditional writes on the row of a
    /// dead process compare it.
    pub const RESOLVED: u16 = 5;

    /// Returns the row that a renewal writes.
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

    /// Returns the registration in this row, without the segments (groups of intents).
    pub fn registration(&self) -> Registration {
        Registration {
            counter: self.counter,
            generation: self.generation,
            is_dead: self.is_dead,
            is_resolved: self.resolved > 0,
        }
    }

    /// Returns the definition of the table `recto_writers`.
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

    /// Returns the cells of the regular columns. Each write of a row sets all of them.
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

    /// Decodes a row of `recto_writers`.
    ///
    /// # Errors
    /// The row has the format of a newer release, or is damaged. The caller must not treat such a
    /// row as absent, because its process may still write.
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

/// Row of `recto_intents`: says that a process is about to change a record.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Intent {
    /// Name of the collection that contains the record.
    pub collection: String,
    /// Cells of the record's key, in the order of the collection's key fields.
    pub key: Cells,
    /// Write timestamp of the intent (note of a pending change), in microseconds. A segment is
    /// deleted at the timestamp of its newest intent.
    pub stamp: Micros,
}

impl Intent {
    /// Returns the definition of the table `recto_intents`.
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

    /// Returns the cells of the regular columns.
    pub fn cells(&self) -> Cells {
        let key = self.key.iter().flatten();
        let key = key.map(|cell| Value::Blob(cell.to_vec())).collect();
        let mut cells = Cells::new();
        cells.push(Some(self.collection.as_bytes()));
        push_value(&mut cells, &key_type(), &Value::List(key));
        cells.push(Some(&self.stamp.to_be_bytes()));
        cells
    }

    /// Decodes a row of `recto_intents`.
    ///
    /// # Errors
    /// The row is damaged. The caller must not treat it as absent.
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
    written.expect("a value has the type of its column");
}

/// Row of `recto_writers` or `recto_intents` that is being decoded.
#[derive(Clone, Copy)]
struct Columns<'r> {
    table: &'static str,
    row: RowRef<'r>,
}

impl<'r> Columns<'r> {
    fn damaged(self) -> StoredError {
        StoredError::damaged(self.table, "a row has columns of an unexpected form")
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

    /// Decodes a list column, and returns its elements.
    fn values(self, column: usize, ty: &Type) -> Result<Vec<Value>, StoredError> {
        let cell = self.optional(column).ok_or(self.damaged())?;
        match cell::decode(ty, cell) {
            Ok(Value::List(values)) => Ok(values),
            _ => Err(self.damaged()),
        }
    }
}
