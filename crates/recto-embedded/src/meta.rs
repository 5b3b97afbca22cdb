//! Single values of a store, by name (`docs/format.md`).

use recto_store::StoreError;
use redb::{ReadableDatabase, ReadableTable, TableDefinition, WriteTransaction};

use crate::error::{corrupt, engine};

/// The engine's table that holds single values by name.
pub(crate) const META: TableDefinition<'static, &[u8], &[u8]> = TableDefinition::new("meta");
/// The value of [`META`] that is the number the next table gets.
const NEXT_TABLE: &[u8] = b"next table";
/// The value of [`META`] that is the newest stamp of a plain write.
const NEWEST_STAMP: &[u8] = b"newest stamp";

/// Takes the number the next table gets.
pub(crate) fn take_table_number(transaction: &WriteTransaction) -> Result<u32, StoreError> {
    let mut meta = transaction.open_table(META).map_err(engine)?;
    let stored = meta.get(NEXT_TABLE).map_err(engine)?;
    let number = match stored.as_ref().map(redb::AccessGuard::value) {
        None => 1,
        Some(bytes) => bytes
            .try_into()
            .map(u32::from_le_bytes)
            .map_err(|_| corrupt("the number of the next table is damaged"))?,
    };
    drop(stored);
    let next = number
        .checked_add(1)
        .ok_or_else(|| corrupt("the number of the next table is damaged"))?;
    meta.insert(NEXT_TABLE, next.to_le_bytes().as_slice())
        .map_err(engine)?;
    Ok(number)
}

/// A name and its value.
pub(crate) type MetaValue = (Vec<u8>, Vec<u8>);

/// The newest stamp of a plain write; `None` if none was made, or only by releases that did not keep it.
pub(crate) fn newest_stamp(database: &impl ReadableDatabase) -> Result<Option<i64>, StoreError> {
    let transaction = database.begin_read().map_err(engine)?;
    let meta = transaction.open_table(META).map_err(engine)?;
    let stored = meta.get(NEWEST_STAMP).map_err(engine)?;
    let Some(bytes) = stored.as_ref().map(redb::AccessGuard::value) else {
        return Ok(None);
    };
    match bytes.split_first_chunk() {
        Some((stamp, checksum)) if *checksum == stamp_checksum(*stamp) => {
            Ok(Some(i64::from_le_bytes(*stamp)))
        }
        _ => Err(corrupt("the newest stamp is damaged")
            .with_hint("open the store read-only to read it, and restore the last backup to write")),
    }
}

/// Makes `stamp` the newest.
pub(crate) fn set_newest_stamp(transaction: &WriteTransaction, stamp: i64) -> Result<(), StoreError> {
    let bytes = stamp.to_le_bytes();
    let value = [bytes.as_slice(), stamp_checksum(bytes).as_slice()].concat();
    let mut meta = transaction.open_table(META).map_err(engine)?;
    meta.insert(NEWEST_STAMP, value.as_slice()).map_err(engine)?;
    Ok(())
}

fn stamp_checksum(stamp: [u8; 8]) -> [u8; 4] {
    crc32c::crc32c_append(crc32c::crc32c(NEWEST_STAMP), &stamp).to_le_bytes()
}
