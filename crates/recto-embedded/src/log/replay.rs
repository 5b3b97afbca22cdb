//! Recovery: reads the records after the last checkpoint, and applies them to the engine.

use std::collections::BTreeMap;
use std::ops::RangeInclusive;
use std::sync::Arc;

use recto_store::{StoreError, StoreErrorKind};
use redb::{Database, Durability, ReadableDatabase};

use super::changes::Reader;
use super::file::{FILES, FIRST_RECORD, Header, LogFolder, OpenedFile, ReadyFile, decode_header, open_file};
use super::position::{Id, Position};
use super::record::{Record, candidates, decode, first_checksum, is_begun, is_later};
use super::transaction::Transaction;
use crate::error::{corrupt, engine, guarded};

/// Records that the engine does not contain, and the files that can get further records.
#[derive(Default)]
pub(super) struct Found {
    position: Option<Position>,
    pub(super) records: Vec<Unapplied>,
    /// True if the last record is incomplete.
    pub(super) is_incomplete: bool,
    pub(super) ready: [Option<ReadyFile>; FILES],
}

/// Record that the engine does not contain.
pub(super) struct Unapplied {
    pub(super) number: u64,
    changes: Vec<u8>,
}

/// Result of applying records.
pub(super) struct Applied {
    pub(super) position: Option<Position>,
    pub(super) records: u64,
    /// Description of the first record that could not be applied because a page is damaged.
    pub(super) unapplied: Option<String>,
}

/// Returns whether a store that is only to be read needs a recovery first.
///
/// # Errors
/// `Corrupt`: the log is damaged, or does not belong to the data file.
pub(crate) fn is_in_use(
    database: &impl ReadableDatabase,
    folder: &dyn LogFolder,
) -> Result<bool, StoreError> {
    let position = guarded(|| Position::read(database))?;
    if position.is_some_and(|position| position.generation.is_some()) {
        return Ok(true);
    }
    find_at(position, folder)?;
    Ok(false)
}

/// Reads the records that the engine does not contain.
pub(super) fn find(database: &impl ReadableDatabase, folder: &dyn LogFolder) -> Result<Found, StoreError> {
    find_at(guarded(|| Position::read(database))?, folder)
}

pub(super) fn find_at(position: Option<Position>, folder: &dyn LogFolder) -> Result<Found, StoreError> {
    let mut found = Found {
        position,
        ..Found::default()
    };
    let in_use = position.filter(|position| position.generation.is_some());
    let in_use = in_use.map(|position| usize::from(position.file));
    let mut generation_file = None;
    for number in 0..FILES {
        let Some(opened) = open_file(folder, number)? else {
            continue;
        };
        let name = folder.name(number);
        match (decode_header(&opened.start, number), position) {
            (Header::Newer(version), _) => return Err(newer(&name, version)),
            (Header::Log(log), Some(position)) if log == position.log => {
                if opened.bytes > FIRST_RECORD {
                    found.ready[number] = Some(ReadyFile {
                        file: Arc::clone(&opened.file),
                        bytes: opened.bytes,
                        is_synced: false,
                    });
                }
            }
            (Header::Log(log), _) if later_record(&opened, log, 0)?.is_some() => {
                return Err(foreign(&name));
            }
            (Header::Log(_) | Header::Invalid, _) => {}
        }
        if in_use == Some(number) {
            generation_file = Some(opened);
        } else if let Some(position) = position
            && let Some((later, offset)) = later_record(&opened, position.log, position.number)?
        {
            return Err(damaged(
                &name,
                FIRST_RECORD as usize,
                (position.number, later),
                offset,
            ));
        }
    }
    if let Some(number) = in_use {
        let opened = generation_file
            .ok_or_else(|| missing(&folder.name(number), position.map_or(0, |one| one.number)))?;
        find_records(&mut found, &opened.read_whole()?, &folder.name(number))?;
    }
    Ok(found)
}

/// Adds the records of the current generation that the engine does not contain. `content` is the content of
/// its file.
fn find_records(found: &mut Found, content: &[u8], name: &str) -> Result<(), StoreError> {
    let Some((position, generation)) = found
        .position
        .and_then(|position| Some((position, position.generation?)))
    else {
        return Ok(());
    };
    let mut last = position.number;
    let mut chain = Chain::new(content, (position.log, generation));
    while let Some(record) = chain.next() {
        if record.number > last + 1 {
            return Err(gap(name, chain.offset, last));
        }
        if record.number > position.number {
            found.records.push(Unapplied {
                number: record.number,
                changes: record.changes.to_vec(),
            });
            last = record.number;
        }
    }
    let later = has_later(content, position.log, chain.offset, last);
    // Neither the header nor a record is valid, so records may have been lost.
    let has_header = found.ready[usize::from(position.file)].is_some();
    if later.is_none() && chain.number.is_none() && !has_header {
        return Err(missing(name, position.number));
    }
    if let Some((later, offset)) = later {
        return Err(damaged(name, chain.offset, (last, later), offset));
    }
    let rest = content.get(chain.offset..).unwrap_or_default();
    found.is_incomplete = is_begun(rest, position.log, generation);
    Ok(())
}

/// Returns the number and the offset of a valid record of a log after `last` in a file that is not in use.
/// The records of each generation begin at the same offset, and their numbers rise. So the rest of the file is
/// read only if its first record is later.
fn later_record(opened: &OpenedFile, log: Id, last: u64) -> Result<Option<(u64, usize)>, StoreError> {
    let first = opened.start.get(FIRST_RECORD as usize..).unwrap_or_default();
    if !is_later(first, log, last) {
        return Ok(None);
    }
    Ok(has_later(&opened.read_whole()?, log, 0, last))
}

/// Reads the valid records up to the number `last`, and ignores damage after them. Also returns the highest
/// number of a valid record of the log.
pub(super) fn find_until(
    database: &impl ReadableDatabase,
    folder: &dyn LogFolder,
    last: u64,
) -> Result<(Found, u64), StoreError> {
    let mut found = Found {
        position: guarded(|| Position::read(database))?,
        ..Found::default()
    };
    let Some(position) = found.position else {
        return Ok((found, last));
    };
    let mut highest = position.number;
    for number in 0..FILES {
        let Some(opened) = open_file(folder, number)? else {
            continue;
        };
        let content = opened.read_whole()?;
        let mut from = FIRST_RECORD as usize;
        while let Some((number, at)) = has_later(&content, position.log, from, highest) {
            (highest, from) = (number, at);
        }
        let Some(generation) = position
            .generation
            .filter(|_| number == usize::from(position.file))
        else {
            continue;
        };
        let mut chain = Chain::new(&content, (position.log, generation));
        while let Some(record) = chain.next().filter(|record| record.number <= last) {
            if record.number > position.number {
                found.records.push(Unapplied {
                    number: record.number,
                    changes: record.changes.to_vec(),
                });
            }
        }
    }
    Ok((found, highest))
}

/// Returns the number and the offset of a valid record of a log after `last`, from the offset `from` on.
fn has_later(content: &[u8], log: Id, from: usize, last: u64) -> Option<(u64, usize)> {
    let first = from.max(FIRST_RECORD as usize);
    candidates(content, log, first).find_map(|at| {
        let record = &content[at..];
        let record = is_later(record, log, last).then(|| decode(record)).flatten()?;
        Some((record.number, at))
    })
}

/// Iterator over the valid records of a generation.
struct Chain<'a> {
    content: &'a [u8],
    ids: (Id, Id),
    offset: usize,
    checksum: u32,
    number: Option<u64>,
}

impl<'a> Chain<'a> {
    fn new(content: &'a [u8], ids: (Id, Id)) -> Self {
        Self {
            content,
            ids,
            offset: FIRST_RECORD as usize,
            checksum: first_checksum(ids.1),
            number: None,
        }
    }

    fn next(&mut self) -> Option<Record<'a>> {
        let record = decode(self.content.get(self.offset..)?)?;
        let follows = self.number.is_none_or(|number| record.number == number + 1);
        if (record.log, record.generation) != self.ids || record.previous != self.checksum || !follows {
            return None;
        }
        self.offset += record.len;
        self.checksum = record.checksum;
        self.number = Some(record.number);
        Some(record)
    }
}

/// Checks that the file `number` contains these records of a generation. Returns a description of the damage,
/// if there is any.
pub(super) fn check(
    folder: &dyn LogFolder,
    ids: (Id, Id),
    number: usize,
    expected: RangeInclusive<u64>,
) -> Result<Option<String>, StoreError> {
    let name = folder.name(number);
    let Some(opened) = open_file(folder, number)? else {
        return Ok(Some(format!("the commit log {name} is missing")));
    };
    let content = opened.read_whole()?;
    if decode_header(&content, number) != Header::Log(ids.0) {
        return Ok(Some(format!("the commit log {name} is damaged at byte 0")));
    }
    let mut chain = Chain::new(&content, ids);
    for number in expected {
        let at = chain.offset;
        let record = chain.next().filter(|record| record.number == number);
        let is_valid = record.is_some_and(|record| {
            let mut reader = Reader::new(record.changes);
            loop {
                match reader.next() {
                    Ok(Some(_)) => {}
                    Ok(None) => return true,
                    Err(_) => return false,
                }
            }
        });
        if !is_valid {
            return Ok(Some(format!(
                "the commit log {name} is damaged at byte {at}: record {number} is not valid"
            )));
        }
    }
    Ok(None)
}

/// Applies the found records by commits without durability.
///
/// # Errors
/// `Storage`: the file system failed. A damaged page is no error: the records before are applied, and the
/// result describes the rest.
pub(super) fn apply(database: &Database, found: &Found) -> Result<Applied, StoreError> {
    let mut applied = Applied {
        position: found.position,
        records: 0,
        unapplied: None,
    };
    let (Some(position), Some(last)) = (found.position, found.records.last()) else {
        return Ok(applied);
    };
    let at = |number| Position { number, ..position };
    match apply_together(database, &found.records, at(last.number)) {
        Ok(()) => {
            applied.position = Some(at(last.number));
            applied.records = found.records.len() as u64;
            return Ok(applied);
        }
        Err(error) if error.kind() == StoreErrorKind::Corrupt => {}
        Err(error) => return Err(error),
    }
    // Apply the records one by one, up to the one that meets the damaged page.
    for record in &found.records {
        match apply_together(database, std::slice::from_ref(record), at(record.number)) {
            Ok(()) => {
                applied.position = Some(at(record.number));
                applied.records += 1;
            }
            Err(error) if error.kind() == StoreErrorKind::Corrupt => {
                applied.unapplied = Some(format!(
                    "the store can only be read: its state is that of record {} of the commit log, because \
                     record {} cannot be applied: {error}",
                    record.number - 1,
                    record.number
                ));
                break;
            }
            Err(error) => return Err(error),
        }
    }
    Ok(applied)
}

/// Applies records in one transaction. Their changes are merged and sorted by key.
fn apply_together(database: &Database, records: &[Unapplied], position: Position) -> Result<(), StoreError> {
    let mut tables: BTreeMap<&str, BTreeMap<&[u8], Option<&[u8]>>> = BTreeMap::new();
    for record in records {
        let mut reader = Reader::new(&record.changes);
        while let Some(change) = reader.next()? {
            let keys = tables.entry(change.table).or_default();
            keys.insert(change.key, change.value);
        }
    }
    let transaction = guarded(|| Transaction::begin_copy(database))?;
    // Catch a panic here, so that the transaction is rolled back and the engine continues.
    let changed = guarded(|| {
        let names = transaction.table_names()?;
        for (name, keys) in &tables {
            if !names.iter().any(|known| known == name) {
                return Err(corrupt(format!(
                    "the commit log changes the table {name}, which does not exist"
                )));
            }
            let mut table = transaction.open(name)?;
            for (key, value) in keys {
                match value {
                    Some(value) => drop(table.insert(key, value).map_err(engine)?),
                    None => drop(table.remove(key).map_err(engine)?),
                }
            }
        }
        position.store(&transaction)
    });
    if let Err(error) = changed {
        let _ = guarded(|| transaction.abort());
        return Err(error);
    }
    guarded(|| {
        let (mut transaction, _) = transaction.into_parts();
        transaction
            .set_durability(Durability::None)
            .map_err(|error| engine(redb::Error::from(error)))?;
        transaction.commit().map_err(engine)
    })
}

/// Hint of errors of a log that is damaged or does not belong to the data file.
const HINT: &str = "get the files of the store's folder back as they were, or restore the last backup; \
    `recto check --drop-log-after N` gives up the records after number N, so that the store can be opened";

#[cold]
fn damaged(name: &str, end: usize, (last, later): (u64, u64), offset: usize) -> StoreError {
    corrupt(format!(
        "the commit log {name} is damaged at byte {end}, or newer than the data file: it has record {later} at \
         byte {offset}, but record {} is not valid or is missing",
        last + 1
    ))
    .with_hint(HINT)
}

#[cold]
fn gap(name: &str, offset: usize, last: u64) -> StoreError {
    corrupt(format!(
        "the commit log {name} is damaged before byte {offset}: record {} is missing",
        last + 1
    ))
    .with_hint(HINT)
}

#[cold]
fn missing(name: &str, last: u64) -> StoreError {
    corrupt(format!(
        "the commit log {name} is missing or damaged, although the store was not closed properly; the data file \
         contains the records up to {last}"
    ))
    .with_hint(HINT)
}

#[cold]
fn foreign(name: &str) -> StoreError {
    corrupt(format!("the commit log {name} does not belong to the data file")).with_hint(
        "get the data file back that belongs to the log, or remove the log if it is of another store",
    )
}

#[cold]
fn newer(name: &str, version: u32) -> StoreError {
    StoreError::new(
        StoreErrorKind::Version,
        format!("the commit log {name} has version {version}, which this release cannot read"),
    )
    .with_hint("open the store with the newer release that wrote it")
}
