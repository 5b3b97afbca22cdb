//! Existing tables, and the stored form of their definitions (`docs/format.md`).

use std::collections::BTreeMap;
use std::sync::Arc;

use recto_model::table::{ColumnKind, Compaction, TableOptions, WriteKind};
use recto_model::types::UdtType;
use recto_model::{Column, Direction, Table, Type};
use recto_store::tables::serves;
use recto_store::{StoreError, StoreErrorKind};
use redb::{ReadableDatabase, ReadableTable, ReadableTableMetadata as _, TableDefinition};

use crate::error::{corrupt, engine};

/// Newest version of stored table definitions. Only definitions that need it have it. Other definitions have an earlier
/// version, which earlier releases read.
pub const TABLE_FORMAT_VERSION: u8 = 4;

/// Option of a definition: compaction for tombstones.
const COMPACTION_BIT: u8 = 1;
/// Option of a definition, from version 2 on: no automatic snapshots.
const WITHOUT_SNAPSHOTS_BIT: u8 = 2;
/// Option of a definition, from version 3 on: the rows of partitions are counted.
const COUNTS_BIT: u8 = 4;
/// Option of a definition, from version 4 on: the rows are counted by block.
const BLOCKS_BIT: u8 = 8;
/// Maximum depth of nested types in a stored definition. CQL types in use have a depth of two or three.
const MAX_TYPE_DEPTH: u32 = 32;

/// Table of the store.
#[derive(Debug)]
pub(crate) struct StoredTable {
    /// Number of the table. No number is used twice in a store.
    pub(crate) id: u32,
    /// Name of the engine's table that stores its rows.
    pub(crate) rows: String,
    pub(crate) definition: Arc<Table>,
    /// Counts of its partitions, if the table counts them: stored rows, by the components of partitions.
    pub(crate) counts: Option<Arc<StoredTable>>,
    /// Blocks of its rows, if the table counts its rows: stored rows, by the lower bounds of blocks.
    pub(crate) blocks: Option<Arc<StoredTable>>,
    /// Word for an entry of this table, in messages.
    pub(crate) entry: &'static str,
    /// Checksum of the number. Checksums of rows begin with it, so that a row of another table is not taken for a row
    /// of this table.
    pub(crate) checksum: u32,
}

impl StoredTable {
    pub(crate) fn new(id: u32, definition: Arc<Table>) -> Self {
        let checksum = crc32c::crc32c(&id.to_le_bytes());
        let options = definition.options();
        let companion = |entry, name: &str| {
            Arc::new(Self {
                id,
                rows: format!("{name} {id}"),
                definition: Arc::clone(&definition),
                counts: None,
                blocks: None,
                entry,
                checksum: crc32c::crc32c_append(checksum, name.as_bytes()),
            })
        };
        let counts = options.counts_partitions.then(|| companion("count", COUNTS));
        let blocks = options.counts_rows.then(|| companion("block", BLOCKS));
        Self {
            id,
            rows: format!("rows {id}"),
            definition,
            counts,
            blocks,
            entry: "row",
            checksum,
        }
    }

    /// Returns the engine's tables that describe the rows of this table.
    pub(crate) fn companions(&self) -> impl Iterator<Item = &Arc<Self>> {
        self.counts.iter().chain(&self.blocks)
    }

    /// Returns the checksum of `key` in this table. The checksum of its row continues it.
    #[inline]
    pub(crate) fn key_checksum(&self, key: &[u8]) -> u32 {
        crc32c::crc32c_append(self.checksum, key)
    }
}

/// Beginnings of the names of the engine's tables with counts and with blocks. They also follow the table's number in the
/// checksums of their entries, so that a row is not taken for a count.
const COUNTS: &str = "counts";
const BLOCKS: &str = "blocks";

/// Tables of a store, by name.
#[derive(Debug, Default, Clone)]
pub(crate) struct Catalog {
    tables: BTreeMap<String, Arc<StoredTable>>,
}

impl Catalog {
    pub(crate) fn get(&self, name: &str) -> Option<&Arc<StoredTable>> {
        self.tables.get(name)
    }

    pub(crate) fn insert(&mut self, table: StoredTable) {
        self.tables
            .insert(table.definition.name().to_owned(), Arc::new(table));
    }

    pub(crate) fn remove(&mut self, name: &str) {
        self.tables.remove(name);
    }

    /// Returns the table whose rows, counts or blocks are stored in the engine's table of this name.
    pub(crate) fn of_engine(&self, name: &[u8]) -> Option<&Arc<StoredTable>> {
        let mut each = self
            .iter()
            .flat_map(|table| std::iter::once(table).chain(table.companions()));
        each.find(|table| table.rows.as_bytes() == name)
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &Arc<StoredTable>> {
        self.tables.values()
    }

    /// Returns the stored table that the caller means by `table`. It has the same name and columns, and may have
    /// columns that were added since the caller read the definition.
    pub(crate) fn find(&self, table: &Table) -> Result<&Arc<StoredTable>, StoreError> {
        let stored = self.get(table.name()).ok_or_else(|| missing(table.name()))?;
        if std::ptr::eq(&raw const *stored.definition, table) || serves(&stored.definition, table) {
            return Ok(stored);
        }
        Err(different(table.name()))
    }
}

#[cold]
pub(crate) fn missing(name: &str) -> StoreError {
    StoreError::new(StoreErrorKind::Table, format!("there is no table {name}"))
        .with_hint("create the tables of the schema first")
}

#[cold]
pub(crate) fn different(name: &str) -> StoreError {
    StoreError::new(
        StoreErrorKind::Table,
        format!("table {name} exists with other columns or options"),
    )
    .with_hint("use the schema that created it, another table name, or another store")
}

/// Returns the version of a definition with these options.
fn version_of(bits: u8) -> u8 {
    if bits & BLOCKS_BIT != 0 {
        4
    } else if bits & COUNTS_BIT != 0 {
        3
    } else if bits & WITHOUT_SNAPSHOTS_BIT != 0 {
        2
    } else {
        1
    }
}

/// Returns the stored form of a table's definition.
pub(crate) fn encode(id: u32, table: &Table) -> Vec<u8> {
    let options = table.options();
    let mut bits = match options.compaction {
        Compaction::Default => 0,
        Compaction::Tombstones => COMPACTION_BIT,
    };
    if !options.automatic_snapshots {
        bits |= WITHOUT_SNAPSHOTS_BIT;
    }
    if options.counts_partitions {
        bits |= COUNTS_BIT;
    }
    if options.counts_rows {
        bits |= BLOCKS_BIT;
    }
    let mut out = vec![version_of(bits)];
    out.extend_from_slice(&id.to_le_bytes());
    push_text(table.name(), &mut out);
    out.push(bits);
    out.extend_from_slice(&options.gc_grace_seconds.to_le_bytes());
    out.extend_from_slice(&(table.columns().len() as u16).to_le_bytes());
    for column in table.columns() {
        push_text(&column.name, &mut out);
        out.push(kind_byte(column.kind));
        push_type(&column.ty, &mut out);
    }
    let checksum = crc32c::crc32c(&out);
    out.extend_from_slice(&checksum.to_le_bytes());
    out
}

/// Returns the table of a stored definition.
pub(crate) fn decode(bytes: &[u8]) -> Result<StoredTable, StoreError> {
    let (bytes, checksum) = bytes.split_last_chunk().ok_or_else(damaged)?;
    if crc32c::crc32c(bytes) != u32::from_le_bytes(*checksum) {
        return Err(damaged());
    }
    let mut reader = Reader(bytes);
    let version = reader.byte()?;
    if !(1..=TABLE_FORMAT_VERSION).contains(&version) {
        return Err(StoreError::new(
            StoreErrorKind::Version,
            format!("a table definition has version {version}; this release supports {TABLE_FORMAT_VERSION}"),
        )
        .with_hint("open the store with the newer release that wrote it"));
    }
    let id = u32::from_le_bytes(reader.take()?);
    let name = reader.text()?;
    let bits = reader.byte()?;
    let known = COMPACTION_BIT | WITHOUT_SNAPSHOTS_BIT | COUNTS_BIT | BLOCKS_BIT;
    if bits & !known != 0 || version != version_of(bits) {
        return Err(damaged());
    }
    let compaction = if bits & COMPACTION_BIT == 0 {
        Compaction::Default
    } else {
        Compaction::Tombstones
    };
    let gc_grace_seconds = u32::from_le_bytes(reader.take()?);
    let count = u16::from_le_bytes(reader.take()?);
    let mut columns = Vec::new();
    for _ in 0..count {
        columns.push(Column {
            name: reader.text()?,
            kind: kind_of(reader.byte()?)?,
            ty: reader.ty(0)?,
        });
    }
    if !reader.0.is_empty() {
        return Err(damaged());
    }
    let options = TableOptions {
        compaction,
        gc_grace_seconds,
        automatic_snapshots: bits & WITHOUT_SNAPSHOTS_BIT == 0,
        counts_partitions: bits & COUNTS_BIT != 0,
        counts_rows: bits & BLOCKS_BIT != 0,
        buckets: None,
        // The stored definition does not contain this option, because this store writes an empty
        // partition key like any other key.
        allows_empty_partition: false,
    };
    let table = Table::new(name, columns, options).map_err(|error| damaged().with_source(error))?;
    Ok(StoredTable::new(id, Arc::new(table)))
}

#[cold]
fn damaged() -> StoreError {
    corrupt("a table definition is damaged")
}

fn push_text(text: &str, out: &mut Vec<u8>) {
    out.extend_from_slice(&(text.len() as u16).to_le_bytes());
    out.extend_from_slice(text.as_bytes());
}

fn kind_byte(kind: ColumnKind) -> u8 {
    match kind {
        ColumnKind::Partition => 0,
        ColumnKind::Clustering(Direction::Ascending) => 1,
        ColumnKind::Clustering(Direction::Descending) => 2,
        ColumnKind::Static(WriteKind::Plain) => 3,
        ColumnKind::Static(WriteKind::Cas) => 4,
        ColumnKind::Regular(WriteKind::Plain) => 5,
        ColumnKind::Regular(WriteKind::Cas) => 6,
    }
}

fn kind_of(byte: u8) -> Result<ColumnKind, StoreError> {
    Ok(match byte {
        0 => ColumnKind::Partition,
        1 => ColumnKind::Clustering(Direction::Ascending),
        2 => ColumnKind::Clustering(Direction::Descending),
        3 => ColumnKind::Static(WriteKind::Plain),
        4 => ColumnKind::Static(WriteKind::Cas),
        5 => ColumnKind::Regular(WriteKind::Plain),
        6 => ColumnKind::Regular(WriteKind::Cas),
        _ => return Err(damaged()),
    })
}

/// Types that are stored as one byte, which is their index here. Never reorder them.
const PLAIN_TYPES: [Type; 19] = [
    Type::Ascii,
    Type::Text,
    Type::Blob,
    Type::Boolean,
    Type::TinyInt,
    Type::SmallInt,
    Type::Int,
    Type::BigInt,
    Type::Varint,
    Type::Decimal,
    Type::Float,
    Type::Double,
    Type::Date,
    Type::Time,
    Type::Timestamp,
    Type::TimeUuid,
    Type::Uuid,
    Type::Inet,
    Type::Duration,
];

const LIST: u8 = 0x20;
const SET: u8 = 0x21;
const MAP: u8 = 0x22;
const TUPLE: u8 = 0x23;
const UDT: u8 = 0x24;
const VECTOR: u8 = 0x25;

fn push_type(ty: &Type, out: &mut Vec<u8>) {
    match ty {
        Type::List(element) => {
            out.push(LIST);
            push_type(element, out);
        }
        Type::Set(element) => {
            out.push(SET);
            push_type(element, out);
        }
        Type::Map(key, value) => {
            out.push(MAP);
            push_type(key, out);
            push_type(value, out);
        }
        Type::Tuple(elements) => {
            out.push(TUPLE);
            out.extend_from_slice(&(elements.len() as u16).to_le_bytes());
            for element in elements {
                push_type(element, out);
            }
        }
        Type::Udt(udt) => {
            out.push(UDT);
            push_text(&udt.name, out);
            out.extend_from_slice(&(udt.fields.len() as u16).to_le_bytes());
            for (name, field) in &udt.fields {
                push_text(name, out);
                push_type(field, out);
            }
        }
        Type::Vector(element, dimension) => {
            out.push(VECTOR);
            out.extend_from_slice(&dimension.to_le_bytes());
            push_type(element, out);
        }
        plain => {
            let place = PLAIN_TYPES.iter().position(|known| known == plain);
            out.push(place.expect("every type without parameters is listed") as u8);
        }
    }
}

struct Reader<'a>(&'a [u8]);

impl Reader<'_> {
    fn take<const N: usize>(&mut self) -> Result<[u8; N], StoreError> {
        let (front, rest) = self.0.split_first_chunk().ok_or_else(damaged)?;
        self.0 = rest;
        Ok(*front)
    }

    fn byte(&mut self) -> Result<u8, StoreError> {
        self.take::<1>().map(|[byte]| byte)
    }

    fn count(&mut self) -> Result<usize, StoreError> {
        Ok(usize::from(u16::from_le_bytes(self.take()?)))
    }

    fn text(&mut self) -> Result<String, StoreError> {
        let length = self.count()?;
        let (front, rest) = self.0.split_at_checked(length).ok_or_else(damaged)?;
        self.0 = rest;
        String::from_utf8(front.to_vec()).map_err(|_| damaged())
    }

    fn ty(&mut self, depth: u32) -> Result<Type, StoreError> {
        if depth > MAX_TYPE_DEPTH {
            return Err(damaged());
        }
        let depth = depth + 1;
        Ok(match self.byte()? {
            LIST => Type::List(Box::new(self.ty(depth)?)),
            SET => Type::Set(Box::new(self.ty(depth)?)),
            MAP => Type::Map(Box::new(self.ty(depth)?), Box::new(self.ty(depth)?)),
            TUPLE => {
                let count = self.count()?;
                Type::Tuple((0..count).map(|_| self.ty(depth)).collect::<Result<_, _>>()?)
            }
            UDT => {
                let name = self.text()?;
                let count = self.count()?;
                let field = |reader: &mut Self| Ok((reader.text()?, reader.ty(depth)?));
                let fields = (0..count)
                    .map(|_| field(self))
                    .collect::<Result<_, StoreError>>()?;
                Type::Udt(Arc::new(UdtType { name, fields }))
            }
            VECTOR => {
                let dimension = u16::from_le_bytes(self.take()?);
                Type::Vector(Box::new(self.ty(depth)?), dimension)
            }
            plain => PLAIN_TYPES.get(usize::from(plain)).ok_or_else(damaged)?.clone(),
        })
    }
}

/// Table of the engine that stores the definitions of all tables, by name.
pub(crate) const CATALOG: TableDefinition<'static, &[u8], &[u8]> = TableDefinition::new("catalog");

/// Returns the existing tables.
pub(crate) fn read_catalog(database: &impl ReadableDatabase) -> Result<Catalog, StoreError> {
    let transaction = database.begin_read().map_err(engine)?;
    let definitions = transaction.open_table(CATALOG).map_err(engine)?;
    let mut catalog = Catalog::default();
    for entry in ReadableTable::iter(&definitions).map_err(engine)? {
        let (_, definition) = entry.map_err(engine)?;
        catalog.insert(decode(definition.value())?);
    }
    let (expected, found) = (definitions.len().map_err(engine)?, catalog.iter().count());
    if expected != found as u64 {
        return Err(corrupt(format!(
            "the store should have {expected} tables, but has {found}"
        )));
    }
    Ok(catalog)
}

#[cfg(test)]
#[path = "catalog_tests.rs"]
mod tests;
