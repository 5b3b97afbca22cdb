//! Check of a store for damage.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::fs::File;
use std::io;
use std::path::Path;
use std::sync::{Mutex, PoisonError};

use recto_model::{Cells, Table, cell, key};
use recto_store::{StoreError, StoreErrorKind};
use redb::{Builder, ReadableTableMetadata as _, StorageBackend};

use crate::blocks::{BlockAudit, audit_sums};
use crate::catalog::StoredTable;
use crate::clock::Now;
use crate::copy::{Counter, Report, total_rows};
use crate::damage::{damaged, hex};
use crate::error::{engine, file, guarded};
use crate::files::read_at;
use crate::keys;
use crate::limits::MAX_PROBLEMS;
use crate::row::{Damage, Row, StoredRow};
use crate::scan::partition_of;
use crate::state::State;

/// Size of the engine's cache during the check of pages, in bytes.
const CHECK_CACHE_BYTES: usize = 64 << 20;

/// Result of a check of a store for damage.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct CheckReport {
    /// Damage of the pages of the file, if there is any.
    pub page_damage: Option<String>,
    /// Damage of the commit log, if there is any.
    pub log_damage: Option<String>,
    /// Checked tables, sorted by name, each with its number of rows.
    pub tables: Vec<CheckedTable>,
    /// Number of rows that the check read.
    pub rows: u64,
    /// Number of read rows that have expired, but were not yet overwritten or removed by compaction.
    pub ended_rows: u64,
    /// Number of bytes of the keys and values of the read rows.
    pub bytes: u64,
    /// Number of problems found in the tables, including the ones that `problems` leaves out.
    pub problem_count: u64,
    /// The first [`MAX_PROBLEMS`] problems.
    pub problems: Vec<Problem>,
}

impl CheckReport {
    /// Returns whether the check found no damage.
    pub fn is_sound(&self) -> bool {
        self.page_damage.is_none() && self.log_damage.is_none() && self.problem_count == 0
    }
}

/// Table whose rows a check for damage has read.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct CheckedTable {
    /// Name of the table.
    pub name: String,
    /// Number of rows of the table that the check read.
    pub rows: u64,
    /// Number of read rows that have expired.
    pub ended_rows: u64,
    /// Number of unexpired rows that contain static columns. A user does not see these rows.
    pub static_rows: u64,
}

/// Damage of a row, or of the structure that contains a table's rows.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Problem {
    /// Name of the table.
    pub table: String,
    /// Key of the row as it is stored, in hexadecimal; empty if the problem does not concern one row.
    pub key: String,
    /// Description of the problem.
    pub what: String,
}

/// Reads every page of the data file at `path`, and verifies the checksums that the engine keeps of the
/// pages. Returns a description of the damage. No process may write the file during the check. The check does
/// not change the file.
pub(crate) fn pages(path: &Path) -> Result<Option<String>, StoreError> {
    let backend = Overlay::new(path).map_err(|error| file("cannot open the data file", error))?;
    let opened = guarded(|| {
        Builder::new()
            .set_cache_size(CHECK_CACHE_BYTES)
            .set_check_integrity_on_open(true)
            .create_with_backend(backend)
            .map_err(engine)
    });
    match opened {
        Ok(database) => {
            drop(database);
            Ok(None)
        }
        Err(error) if error.kind() == StoreErrorKind::Corrupt => Ok(Some(error.to_string())),
        Err(error) => Err(error),
    }
}

/// Checks every row of every table of a snapshot, and the row counts by key range. Damage is in the returned
/// report.
pub(crate) fn rows(state: &State, report: Report) -> Result<CheckReport, StoreError> {
    let mut check = Check {
        state,
        now: Now::new(&state.environment),
        found: CheckReport::default(),
        counter: Counter::new(total_rows(state)?, report),
        scratch: Vec::new(),
        static_rows: 0,
    };
    for stored in state.catalog.iter() {
        let (rows, ended_rows) = (check.found.rows, check.found.ended_rows);
        check.static_rows = 0;
        // Report a damaged page, which ends the check of its table, and continue with the other tables.
        if let Err(error) = guarded(|| check.table(stored)) {
            if error.kind() == StoreErrorKind::Storage {
                return Err(error);
            }
            check.problem(stored, &[], error.to_string());
        }
        check.found.tables.push(CheckedTable {
            name: stored.definition.name().to_owned(),
            rows: check.found.rows - rows,
            ended_rows: check.found.ended_rows - ended_rows,
            static_rows: check.static_rows,
        });
    }
    check.counter.finish();
    Ok(check.found)
}

struct Check<'a> {
    state: &'a State,
    now: Now<'a>,
    found: CheckReport,
    counter: Counter,
    scratch: Vec<u8>,
    /// Number of unexpired rows with static columns, in the current table.
    static_rows: u64,
}

impl Check<'_> {
    fn problem(&mut self, table: &StoredTable, key: &[u8], what: String) {
        self.found.problem_count += 1;
        if self.found.problems.len() < MAX_PROBLEMS {
            self.found.problems.push(Problem {
                table: table.definition.name().to_owned(),
                key: hex(key),
                what,
            });
        }
    }

    fn table(&mut self, table: &StoredTable) -> Result<(), StoreError> {
        let stored = self
            .state
            .catalog
            .get(table.definition.name())
            .ok_or_else(|| crate::catalog::missing(table.definition.name()))?;
        let open = self.state.open_stored(stored)?;
        let expected = open.rows.len().map_err(engine)?;
        let mut previous: Vec<u8> = Vec::new();
        let mut count = 0_u64;
        let mut audit = match &stored.blocks {
            Some(blocks) => Some(BlockAudit::begin(
                self.state,
                stored,
                blocks,
                &mut |key, what| {
                    self.problem(table, key, what);
                },
            )?),
            None => None,
        };
        for entry in open.rows.range::<&[u8]>(..).map_err(engine)? {
            let (key, value) = entry.map_err(engine)?;
            let (key, value) = (key.value(), value.value());
            count += 1;
            if count > 1 && previous.as_slice() >= key {
                self.problem(
                    table,
                    key,
                    "the key is not greater than the previous key".to_owned(),
                );
            }
            if let Err(what) = self.row(table, key, value) {
                self.problem(table, key, what);
            }
            if let Some(audit) = &mut audit {
                audit.row(key, value, &mut |key, what| self.problem(table, key, what))?;
            }
            previous.clear();
            previous.extend_from_slice(key);
            self.found.rows += 1;
            self.found.bytes += (key.len() + value.len()) as u64;
            self.counter.count();
        }
        if let Some(audit) = audit {
            audit.finish(&mut |key, what| self.problem(table, key, what))?;
            audit_sums(self.state, stored, &mut |key, what| {
                self.problem(table, key, what);
            })?;
        }
        if count != expected {
            self.problem(
                table,
                &[],
                format!("the table should have {expected} rows, but has {count}"),
            );
        }
        Ok(())
    }

    fn row(&mut self, table: &StoredTable, key: &[u8], value: &[u8]) -> Result<(), String> {
        let definition = &*table.definition;
        let partition = partition_of(table, key).map_err(|error| error.to_string())?;
        let is_static = key[partition.len()] == keys::STATIC;
        self.key(definition, key, partition, is_static)?;
        let columns = if is_static {
            definition.statics()
        } else {
            definition.regular()
        };
        let damage = |damage: Damage| damaged(table, key, damage).to_string();
        let stored = StoredRow::open(table.key_checksum(key), value).map_err(damage)?;
        let mut row: Row<'_> = stored.decode(columns.len()).map_err(damage)?;
        if row.cells.len() > columns.len() {
            return Err(format!(
                "the row has {} cells, but the table has {} columns",
                row.cells.len(),
                columns.len()
            ));
        }
        for (column, stored) in columns.iter().zip(&row.cells) {
            if let Some(value) = stored.value {
                cell::validate(&column.ty, value)
                    .map_err(|error| format!("the value of column {}: {error}", column.name))?;
            }
        }
        row.end(self.now.seconds());
        if !row.exists() {
            self.found.ended_rows += 1;
        } else if is_static {
            self.static_rows += 1;
        }
        Ok(())
    }

    /// Checks that a key can be decoded, and that encoding the result gives the same key.
    fn key(&mut self, table: &Table, key: &[u8], partition: &[u8], is_static: bool) -> Result<(), String> {
        let text = |error: key::KeyError| format!("invalid key: {error}");
        let mut rest = key;
        let mut cells = Cells::new();
        keys::decode(table.partition(), &mut rest, &mut cells).map_err(text)?;
        self.scratch.clear();
        key::encode_partition(table, cells.as_row(), &mut self.scratch).map_err(text)?;
        rest = &key[partition.len() + 1..];
        self.scratch.push(key[partition.len()]);
        if !is_static {
            let mut cells = Cells::new();
            keys::decode(table.clustering(), &mut rest, &mut cells).map_err(text)?;
            key::encode_clustering(table, cells.as_row(), &mut self.scratch).map_err(text)?;
        }
        if !rest.is_empty() || self.scratch != key {
            return Err("the key does not decode and encode to the same bytes".to_owned());
        }
        Ok(())
    }
}

/// Size of the units in which an [`Overlay`] keeps written data in memory, in bytes.
const BLOCK_BYTES: usize = 4_096;

/// Data file that is opened for reading only. Writes of the engine stay in memory. The engine must be able to
/// write, because it commits when it opens a file with a check.
#[derive(Debug)]
struct Overlay {
    file: File,
    file_bytes: u64,
    written: Mutex<Written>,
}

#[derive(Debug)]
struct Written {
    bytes: u64,
    blocks: BTreeMap<u64, Box<[u8; BLOCK_BYTES]>>,
}

impl Overlay {
    fn new(path: &Path) -> io::Result<Self> {
        let file = File::open(path)?;
        let file_bytes = file.metadata()?.len();
        Ok(Self {
            file,
            file_bytes,
            written: Mutex::new(Written {
                bytes: file_bytes,
                blocks: BTreeMap::new(),
            }),
        })
    }

    /// Reads from the file. Bytes after the end of the file are zero.
    fn read_file(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        let inside = self.file_bytes.saturating_sub(offset).min(out.len() as u64) as usize;
        let (inside, after) = out.split_at_mut(inside);
        after.fill(0);
        read_at(&self.file, offset, inside)
    }
}

impl StorageBackend for Overlay {
    fn len(&self) -> io::Result<u64> {
        Ok(self.written.lock().unwrap_or_else(PoisonError::into_inner).bytes)
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        let written = self.written.lock().unwrap_or_else(PoisonError::into_inner);
        if offset.saturating_add(out.len() as u64) > written.bytes {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        self.read_file(offset, out)?;
        let block_bytes = BLOCK_BYTES as u64;
        let end = offset + out.len() as u64;
        for (index, block) in written
            .blocks
            .range(offset / block_bytes..end.div_ceil(block_bytes))
        {
            let start = index * block_bytes;
            let (from, to) = (start.max(offset), (start + block_bytes).min(end));
            out[(from - offset) as usize..(to - offset) as usize]
                .copy_from_slice(&block[(from - start) as usize..(to - start) as usize]);
        }
        Ok(())
    }

    fn set_len(&self, bytes: u64) -> io::Result<()> {
        self.written.lock().unwrap_or_else(PoisonError::into_inner).bytes = bytes;
        Ok(())
    }

    fn sync_data(&self) -> io::Result<()> {
        Ok(())
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        let mut written = self.written.lock().unwrap_or_else(PoisonError::into_inner);
        let block_bytes = BLOCK_BYTES as u64;
        let mut done = 0;
        while done < data.len() {
            let at = offset + done as u64;
            let (index, inside) = (at / block_bytes, (at % block_bytes) as usize);
            let count = (BLOCK_BYTES - inside).min(data.len() - done);
            let block = match written.blocks.entry(index) {
                Entry::Occupied(entry) => entry.into_mut(),
                Entry::Vacant(entry) => {
                    let mut block = Box::new([0; BLOCK_BYTES]);
                    self.read_file(index * block_bytes, block.as_mut_slice())?;
                    entry.insert(block)
                }
            };
            block[inside..inside + count].copy_from_slice(&data[done..done + count]);
            done += count;
        }
        Ok(())
    }
}
