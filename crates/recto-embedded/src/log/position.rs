//! Entry of the engine that says which records of the log it contains.

use recto_store::{StoreError, StoreErrorKind};
use redb::{ReadableDatabase, TableDefinition};

use super::transaction::Transaction;
use crate::error::{corrupt, engine};

/// Random id of a log, or of a generation.
pub(crate) type Id = [u8; 16];
/// Id of the generation of a position if no generation is in use.
const NO_GENERATION: Id = [0; 16];
/// Version of the stored position.
const POSITION_VERSION: u8 = 1;
/// Number of stored bytes before the checksum.
const POSITION_BYTES: usize = 42;
/// Name of the engine's table of single values, which contains the position.
pub(crate) const META_NAME: &str = "meta";
/// Name of the position in the table of single values.
pub(crate) const LOG_ENTRY: &[u8] = b"log";

/// Last record whose changes the engine contains.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Position {
    /// Id of the store's log.
    pub(super) log: Id,
    /// Generation of the records after the last checkpoint. `None`: there are none.
    pub(super) generation: Option<Id>,
    /// Number of the file of the generation.
    pub(super) file: u8,
    pub(super) number: u64,
}

impl Position {
    /// Returns the position that the engine contains. Returns `None` if the store never had a log.
    pub(super) fn read(database: &impl ReadableDatabase) -> Result<Option<Self>, StoreError> {
        let meta: TableDefinition<'_, &[u8], &[u8]> = TableDefinition::new(META_NAME);
        let transaction = database.begin_read().map_err(engine)?;
        let meta = transaction.open_table(meta).map_err(engine)?;
        let stored = meta.get(LOG_ENTRY).map_err(engine)?;
        let bytes = stored.as_ref().map(redb::AccessGuard::value);
        bytes.map(Self::decode).transpose()
    }

    /// Stores the position. The change has no place in a record.
    pub(super) fn store(self, transaction: &Transaction) -> Result<(), StoreError> {
        transaction.put_unrecorded(META_NAME, LOG_ENTRY, &self.encode())
    }

    pub(super) fn encode(self) -> Vec<u8> {
        let mut out = vec![POSITION_VERSION];
        out.extend_from_slice(&self.log);
        out.extend_from_slice(&self.generation.unwrap_or(NO_GENERATION));
        out.push(self.file);
        out.extend_from_slice(&self.number.to_le_bytes());
        let checksum = position_checksum(&out);
        out.extend_from_slice(&checksum);
        out
    }

    pub(super) fn decode(bytes: &[u8]) -> Result<Self, StoreError> {
        let damaged = || corrupt("the position in the commit log is damaged");
        let (bytes, checksum) = bytes.split_last_chunk().ok_or_else(damaged)?;
        if *checksum != position_checksum(bytes) {
            return Err(damaged());
        }
        let (version, rest) = bytes.split_first().ok_or_else(damaged)?;
        if *version > POSITION_VERSION {
            return Err(StoreError::new(
                StoreErrorKind::Version,
                format!(
                    "the position in the commit log has version {version}, this release knows \
                     {POSITION_VERSION}"
                ),
            )
            .with_hint("open the store with the newer release that wrote it"));
        }
        if *version != POSITION_VERSION || bytes.len() != POSITION_BYTES {
            return Err(damaged());
        }
        let (log, rest) = rest.split_first_chunk().ok_or_else(damaged)?;
        let (generation, rest) = rest.split_first_chunk().ok_or_else(damaged)?;
        let (file, rest) = rest.split_first().ok_or_else(damaged)?;
        let (number, _) = rest.split_first_chunk().ok_or_else(damaged)?;
        Ok(Self {
            log: *log,
            generation: (*generation != NO_GENERATION).then_some(*generation),
            file: *file,
            number: u64::from_le_bytes(*number),
        })
    }
}

fn position_checksum(bytes: &[u8]) -> [u8; 4] {
    crc32c::crc32c_append(crc32c::crc32c(LOG_ENTRY), bytes).to_le_bytes()
}
