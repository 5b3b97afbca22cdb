//! Single values of a store, such as its newest timestamp, by name (`docs/format.md`).

use recto_store::{StoreError, StoreErrorKind};
use redb::{ReadableDatabase, ReadableTable, TableDefinition};

use crate::error::{corrupt, engine};
use crate::log::{META_NAME, Transaction};

/// Table of the engine that stores single values by name.
pub(crate) const META: TableDefinition<'static, &[u8], &[u8]> = TableDefinition::new(META_NAME);
/// Name in [`META`] of the id that the next table gets.
const NEXT_TABLE: &[u8] = b"next table";
/// Name in [`META`] of the newest timestamp of a plain write.
const NEWEST_STAMP: &[u8] = b"newest stamp";
/// Name in [`META`] of the clock record: the time that the store recorded last.
const CLOCK: &[u8] = b"clock";
/// Version of the stored form of the clock record (the time that the store recorded last).
const CLOCK_FORMAT_VERSION: u8 = 1;

/// Returns the id for a new table, and increases the stored id, so that no id is used twice.
pub(crate) fn take_table_number(transaction: &Transaction) -> Result<u32, StoreError> {
    let mut meta = transaction.open(META_NAME)?;
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
    meta.insert(NEXT_TABLE, &next.to_le_bytes()).map_err(engine)?;
    Ok(number)
}

/// Name and stored bytes of an entry of [`META`].
pub(crate) type MetaValue = (Vec<u8>, Vec<u8>);

/// Returns the newest timestamp of a plain write. Returns `None` if there was no plain write, or if only
/// releases that did not store the timestamp wrote to the store.
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

/// Stores `stamp` as the newest timestamp of a plain write, with a checksum.
pub(crate) fn set_newest_stamp(transaction: &Transaction, stamp: i64) -> Result<(), StoreError> {
    let bytes = stamp.to_le_bytes();
    let value = [bytes.as_slice(), stamp_checksum(bytes).as_slice()].concat();
    let mut meta = transaction.open(META_NAME)?;
    meta.insert(NEWEST_STAMP, &value).map_err(engine)?;
    Ok(())
}

fn stamp_checksum(stamp: [u8; 8]) -> [u8; 4] {
    crc32c::crc32c_append(crc32c::crc32c(NEWEST_STAMP), &stamp).to_le_bytes()
}

/// Returns the time that the store recorded, in microseconds since 1970; `None` if it has recorded no time yet.
pub(crate) fn clock_record(database: &impl ReadableDatabase) -> Result<Option<i64>, StoreError> {
    let transaction = database.begin_read().map_err(engine)?;
    let meta = transaction.open_table(META).map_err(engine)?;
    let stored = meta.get(CLOCK).map_err(engine)?;
    let bytes = stored.as_ref().map(redb::AccessGuard::value);
    bytes.map(decode_clock).transpose()
}

/// Stores the clock record: a time in microseconds since 1970.
pub(crate) fn set_clock_record(transaction: &Transaction, micros: i64) -> Result<(), StoreError> {
    let mut meta = transaction.open(META_NAME)?;
    meta.insert(CLOCK, &encode_clock(micros)).map_err(engine)?;
    Ok(())
}

fn encode_clock(micros: i64) -> Vec<u8> {
    let mut bytes = vec![CLOCK_FORMAT_VERSION];
    bytes.extend(micros.to_le_bytes());
    bytes.extend(clock_checksum(&bytes));
    bytes
}

fn decode_clock(bytes: &[u8]) -> Result<i64, StoreError> {
    let damaged = || {
        corrupt("the clock record is damaged")
            .with_hint("open the store read-only to read it, and restore the last backup to write")
    };
    let (bytes, checksum) = bytes.split_last_chunk().ok_or_else(damaged)?;
    if *checksum != clock_checksum(bytes) {
        return Err(damaged());
    }
    match bytes.split_first() {
        Some((&CLOCK_FORMAT_VERSION, micros)) => {
            micros.try_into().map(i64::from_le_bytes).map_err(|_| damaged())
        }
        Some((version, _)) if *version > CLOCK_FORMAT_VERSION => Err(StoreError::new(
            StoreErrorKind::Version,
            format!("the clock record has version {version}, this release knows {CLOCK_FORMAT_VERSION}"),
        )
        .with_hint("open the store with the newer release that wrote it")),
        _ => Err(damaged()),
    }
}

fn clock_checksum(bytes: &[u8]) -> [u8; 4] {
    crc32c::crc32c_append(crc32c::crc32c(CLOCK), bytes).to_le_bytes()
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use recto_model::golden::bytes_of_hex;

    use super::*;

    #[test]
    fn reads_and_writes_clock_records_of_version_1() {
        let golden = include_str!("../tests/golden/clock-v1.txt");
        let mut seen = 0;
        for line in golden.lines().filter(|line| !line.starts_with('#')) {
            let (micros, stored) = line.split_once("; ").unwrap();
            let (micros, stored): (i64, _) = (micros.parse().unwrap(), bytes_of_hex(stored));
            assert_eq!(encode_clock(micros), stored);
            assert_eq!(decode_clock(&stored).unwrap(), micros);
            seen += 1;
        }
        assert_eq!(seen, 4);
    }

    #[test]
    fn rejects_clock_records_that_are_not_written() {
        let stored = encode_clock(1_767_225_600_000_000);
        for position in 0..stored.len() {
            for bit in 0..8 {
                let mut altered = stored.clone();
                altered[position] ^= 1 << bit;
                assert!(decode_clock(&altered).is_err(), "{position} {bit}");
            }
            assert!(decode_clock(&stored[..position]).is_err(), "{position}");
        }
        let with_checksum = |mut bytes: Vec<u8>| {
            bytes.extend(clock_checksum(&bytes));
            bytes
        };
        let kind = |bytes: Vec<u8>| decode_clock(&with_checksum(bytes)).unwrap_err().kind();
        assert_eq!(kind([&[2][..], &[0; 8]].concat()), StoreErrorKind::Version);
        assert_eq!(kind([&[0][..], &[0; 8]].concat()), StoreErrorKind::Corrupt);
        assert_eq!(kind([&[1][..], &[0; 7]].concat()), StoreErrorKind::Corrupt);
        assert_eq!(kind([&[1][..], &[0; 9]].concat()), StoreErrorKind::Corrupt);
        assert_eq!(kind(Vec::new()), StoreErrorKind::Corrupt);
    }
}
