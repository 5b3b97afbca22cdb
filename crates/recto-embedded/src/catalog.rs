//! Existing tables, and the stored form of their definitions (`docs/format.md`).

use std::collections::BTreeMap;
use std::sync::Arc;

use recto_model::table::{BucketBound, ColumnKind, Compaction, TableOptions, WriteKind};
use recto_model::types::UdtType;
use recto_model::{Column, Direction, Table, Type};
use recto_store::tables::serves;
use recto_store::{StoreError, StoreErrorKind};
use redb::{ReadableDatabase, ReadableTable, ReadableTableMetadata as _, TableDefinition};

use crate::error::{corrupt, engine};

/// Newest version of stored table definitions. Each definition is stored in the oldest version that has its
/// options, so that earlier releases can read it.
pub const TABLE_FORMAT_VERSION: u8 = 5;

/// Option bit of a stored definition: the table has compaction for tombstones.
const COMPACTION_BIT: u8 = 1;
/// Option bit of a stored definition, from version 2 on: the table has no automatic snapshots.
const WITHOUT_SNAPSHOTS_BIT: u8 = 2;
/// Option bit of a stored definition of version 3: an earlier release kept the table in buckets and counted
/// their rows. Recto rejects this definition.
const COUNTS_BIT: u8 = 4;
/// Option bit of a stored definition, from version 4 on: the rows are counted by block (key range).
const BLOCKS_BIT: u8 = 8;
/// Option bit of a stored definition, from version 5 on: sums over groups of blocks are stored.
const SUMS_BIT: u8 = 16;
/// Maximum depth of nested types in a stored definition. CQL types in use have a depth of two or three.
const MAX_TYPE_DEPTH: u32 = 32;

/// Definition of a table of the store, and the engine's tables that contain its data.
#[derive(Debug)]
pub(crate) struct StoredTable {
    /// Id of the table. A store never uses an id twice.
    pub(crate) id: u32,
    /// Name of the engine's table that stores the rows.
    pub(crate) rows: String,
    pub(crate) definition: Arc<Table>,
    /// Blocks (row counts by key range), if the table counts its rows. They are stored like rows, by their
    /// lower bounds.
    pub(crate) blocks: Option<Arc<StoredTable>>,
    /// Sums over groups of blocks, if the table has many blocks. They are stored like rows, by the lower
    /// bounds of the groups.
    pub(crate) sums: Option<Arc<StoredTable>>,
    /// Word for an entry of this table in error messages: `row`, `block` or `sum`.
    pub(crate) entry: &'static str,
    /// Checksum of the table's id. The checksum of each row begins with it, so that a row of another table is
    /// never taken for one of this table.
    pub(crate) checksum: u32,
}

impl StoredTable {
    /// Returns the description of a table with the id `id`. `has_sums` is true if its blocks (row counts by
    /// key range) have sums.
    pub(crate) fn new(id: u32, definition: Arc<Table>, has_sums: bool) -> Self {
        let checksum = crc32c::crc32c(&id.to_le_bytes());
        let options = definition.options();
        let companion = |entry, name: &str| {
            Arc::new(Self {
                id,
                rows: format!("{name} {id}"),
                definition: Arc::clone(&definition),
                blocks: None,
                sums: None,
                entry,
                checksum: crc32c::crc32c_append(checksum, name.as_bytes()),
            })
        };
        let blocks = options.counts_rows.then(|| companion("block", BLOCKS));
        let sums = (options.counts_rows && has_sums).then(|| companion("sum", SUMS));
        Self {
            id,
            rows: format!("rows {id}"),
            definition,
            blocks,
            sums,
            entry: "row",
            checksum,
        }
    }

    /// Returns the tables of the engine that belong to this table: its rows, its blocks and their sums.
    pub(crate) fn with_companions(self: &Arc<Self>) -> impl Iterator<Item = &Arc<Self>> {
        std::iter::once(self).chain(&self.blocks).chain(&self.sums)
    }

    /// Returns the checksum of `key` in this table. The checksum of the stored row begins with it.
    #[inline]
    pub(crate) fn key_checksum(&self, key: &[u8]) -> u32 {
        crc32c::crc32c_append(self.checksum, key)
    }
}

/// Prefix of the names of the engine's tables that contain blocks. The checksums of blocks include the prefix
/// after the table's id, so that a row is never mistaken for a block.
const BLOCKS: &str = "blocks";
/// Prefix of the names of the engine's tables that contain sums over blocks. The checksums of sums include
/// the prefix, so that a row or a block is never mistaken for a sum.
const SUMS: &str = "sums";

/// Tables of a store (catalog), by name.
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

    /// Returns the table whose rows or blocks are stored in the engine's table of this name.
    pub(crate) fn of_engine(&self, name: &[u8]) -> Option<&Arc<StoredTable>> {
        let mut each = self.iter().flat_map(StoredTable::with_companions);
        each.find(|table| table.rows.as_bytes() == name)
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &Arc<StoredTable>> {
        self.tables.values()
    }

    /// Returns the stored table that has the name of `table`. The stored table has the columns of `table`.
    /// Columns that were added since the caller read the definition may follow.
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

/// Returns the oldest version of stored definitions that has these option bits.
fn version_of(bits: u8) -> u8 {
    if bits & SUMS_BIT != 0 {
        5
    } else if bits & BLOCKS_BIT != 0 {
        4
    } else if bits & WITHOUT_SNAPSHOTS_BIT != 0 {
        2
    } else {
        1
    }
}

/// Returns the bytes in which the engine stores a table's definition: version, id, name, options, columns,
/// and a checksum.
pub(crate) fn encode(stored: &StoredTable) -> Vec<u8> {
    let (id, table) = (stored.id, &stored.definition);
    let options = table.options();
    let mut bits = match options.compaction {
        Compaction::Default => 0,
        Compaction::Tombstones => COMPACTION_BIT,
    };
    if !options.automatic_snapshots {
        bits |= WITHOUT_SNAPSHOTS_BIT;
    }
    if options.counts_rows {
        bits |= BLOCKS_BIT;
        if stored.sums.is_some() {
            bits |= SUMS_BIT;
        }
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

/// Decodes a stored definition of a table. Fails if the definition is damaged, or has an unknown version.
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
    if bits & COUNTS_BIT != 0 {
        return Err(in_buckets(&name));
    }
    let known = COMPACTION_BIT | WITHOUT_SNAPSHOTS_BIT | BLOCKS_BIT | SUMS_BIT;
    let has_sums = bits & SUMS_BIT != 0;
    let has_lone_sums = has_sums && bits & BLOCKS_BIT == 0;
    if bits & !known != 0 || has_lone_sums || version != version_of(bits) {
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
    let is_one_partition = columns.iter().all(|column| column.kind != ColumnKind::Partition);
    let options = TableOptions {
        compaction,
        gc_grace_seconds,
        automatic_snapshots: bits & WITHOUT_SNAPSHOTS_BIT == 0,
        counts_rows: bits & BLOCKS_BIT != 0,
        // A table without partition columns is one partition, which requires the option of buckets. This
        // store ignores the option.
        buckets: is_one_partition.then(|| BucketBound::Bytes(u64::MAX).into()),
        // The option does not change the stored bytes, so this store does not record it.
        allows_empty_partition: false,
    };
    let table = Table::new(name, columns, options).map_err(|error| damaged().with_source(error))?;
    Ok(StoredTable::new(id, Arc::new(table), has_sums))
}

/// Returns the error of a table that an earlier release kept in buckets. Version 3 of definitions was for such tables.
#[cold]
fn in_buckets(name: &str) -> StoreError {
    StoreError::new(
        StoreErrorKind::Version,
        format!("table {name} has its rows in buckets, which this release does not use in an embedded store"),
    )
    .with_hint("export the collections with the release that wrote the store, and load them into a new store")
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

/// Reads the definitions of all tables from the engine.
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
