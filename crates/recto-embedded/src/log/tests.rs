//! Tests of the bytes of the log, and of damage at every byte.
#![allow(clippy::unwrap_used)]

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;

use recto_model::golden::bytes_of_hex;
use recto_store::StoreErrorKind;

use super::changes::{Changes, Reader};
use super::file::{FILES, FIRST_RECORD, Header, LogFile, LogFolder, decode_header, encode_header, prepare};
use super::position::{Id, Position};
use super::record::{decode, encode, first_checksum};
use super::replay::{Found, find_at};
use super::*;

const LOG: Id = [7; 16];
const GENERATION: Id = [9; 16];
/// Number of records of a log whose bits are flipped.
const RECORDS: u64 = 20;

/// Folder in memory, and the number of bytes that were read from it.
#[derive(Default, Clone)]
struct Memory(Arc<Mutex<[Option<Vec<u8>>; FILES]>>, Arc<AtomicUsize>);

struct MemoryFile(Memory, usize);

impl LogFile for MemoryFile {
    fn len(&self) -> std::io::Result<u64> {
        Ok(self.0.bytes(self.1).len() as u64)
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> std::io::Result<()> {
        let bytes = self.0.bytes(self.1);
        self.0.1.fetch_add(out.len(), Ordering::Relaxed);
        out.copy_from_slice(&bytes[offset as usize..offset as usize + out.len()]);
        Ok(())
    }

    fn write(&self, offset: u64, bytes: &[u8]) -> std::io::Result<()> {
        let mut files = self.0.0.lock().unwrap();
        let file = files[self.1].get_or_insert_default();
        let end = offset as usize + bytes.len();
        if file.len() < end {
            file.resize(end, 0);
        }
        file[offset as usize..end].copy_from_slice(bytes);
        Ok(())
    }

    fn sync(&self) -> std::io::Result<()> {
        Ok(())
    }

    fn clear(&self) -> std::io::Result<()> {
        self.0.set(self.1, Some(Vec::new()));
        Ok(())
    }
}

impl Memory {
    fn bytes(&self, number: usize) -> Vec<u8> {
        self.0.lock().unwrap()[number].clone().unwrap()
    }

    fn set(&self, number: usize, bytes: Option<Vec<u8>>) {
        self.0.lock().unwrap()[number] = bytes;
    }
}

impl LogFolder for Memory {
    fn open(&self, number: usize) -> std::io::Result<Option<Arc<dyn LogFile>>> {
        let exists = self.0.lock().unwrap()[number].is_some();
        Ok(exists.then(|| Arc::new(MemoryFile(self.clone(), number)) as Arc<dyn LogFile>))
    }

    fn create(&self, number: usize) -> std::io::Result<Arc<dyn LogFile>> {
        self.0.lock().unwrap()[number].get_or_insert_default();
        Ok(Arc::new(MemoryFile(self.clone(), number)))
    }

    fn sync(&self) -> Result<(), recto_store::StoreError> {
        Ok(())
    }

    fn raise_format(&self) -> Result<(), recto_store::StoreError> {
        Ok(())
    }

    fn run_beside(&self, work: Box<dyn FnOnce() + Send>) -> Option<JoinHandle<()>> {
        work();
        None
    }

    fn name(&self, number: usize) -> String {
        format!("log.{number}")
    }
}

fn changes(number: u64) -> Changes {
    let mut changes = Changes::recorded();
    let value = vec![number as u8; 3 + number as usize % 9];
    changes.put("rows 1", &number.to_be_bytes(), &value);
    changes.remove("rows 1", b"gone");
    changes.put("blocks 1", b"", &value);
    changes
}

/// Writes records with the numbers `first` to `last` of a generation. Returns the offset after each record.
fn write(folder: &Memory, number: usize, generation: Id, first: u64, last: u64) -> Vec<usize> {
    let file = folder.open(number).unwrap().unwrap();
    let (mut offset, mut previous) = (FIRST_RECORD, first_checksum(generation));
    let mut ends = Vec::new();
    for record in first..=last {
        let changes = changes(record);
        let (bytes, checksum) = encode((LOG, generation), record, previous, changes.bytes().unwrap());
        file.write(offset, &bytes).unwrap();
        offset += bytes.len() as u64;
        previous = checksum;
        ends.push(offset as usize);
    }
    ends
}

#[allow(clippy::unnecessary_wraps)] // the position of a store may be missing
fn position(number: u64) -> Option<Position> {
    Some(Position {
        log: LOG,
        generation: Some(GENERATION),
        file: 0,
        number,
    })
}

fn numbers(found: &Found) -> Vec<u64> {
    found.records.iter().map(|record| record.number).collect()
}

fn log_of_20() -> (Memory, Vec<usize>) {
    let folder = Memory::default();
    prepare(&folder, LOG, 0, 16 << 10).unwrap();
    let ends = write(&folder, 0, GENERATION, 1, RECORDS);
    (folder, ends)
}

#[test]
fn reads_and_writes_version_1() {
    let golden = include_str!("../../tests/golden/commit-log-v1.txt");
    let id = |text: &str| -> Id { bytes_of_hex(text).try_into().unwrap() };
    let mut seen = 0;
    for line in golden.lines().filter(|line| !line.starts_with('#')) {
        let parts: Vec<_> = line.split("; ").collect();
        let [kind, inputs, stored] = parts[..] else {
            panic!("{line}")
        };
        let stored = bytes_of_hex(stored);
        let mut inputs = inputs.splitn(5, ' ');
        let mut next = || inputs.next().unwrap();
        let log = id(next());
        match kind {
            "header" => {
                let number = next().parse().unwrap();
                assert_eq!(encode_header(log, number).as_slice(), stored);
                assert_eq!(decode_header(&stored, number), Header::Log(log));
                assert_eq!(decode_header(&stored, 1 - number), Header::Invalid);
            }
            "record" => {
                let generation = id(next());
                let (number, previous) = (next().parse().unwrap(), next().parse().unwrap());
                let mut changes = Changes::recorded();
                let listed = next();
                for change in listed.split(", ") {
                    let fields: Vec<_> = change.split('|').collect();
                    match fields[2] {
                        "-" => changes.remove(fields[0], &bytes_of_hex(fields[1])),
                        value => changes.put(fields[0], &bytes_of_hex(fields[1]), &bytes_of_hex(value)),
                    }
                }
                let bytes = changes.bytes().unwrap();
                assert_eq!(encode((log, generation), number, previous, bytes).0, stored);
                let record = decode(&stored).unwrap();
                assert_eq!((record.log, record.generation), (log, generation));
                assert_eq!((record.number, record.previous), (number, previous));
                let mut reader = Reader::new(record.changes);
                for change in listed.split(", ") {
                    let read = reader.next().unwrap().unwrap();
                    let fields: Vec<_> = change.split('|').collect();
                    assert_eq!((read.table, read.key), (fields[0], &*bytes_of_hex(fields[1])));
                    let value = (fields[2] != "-").then(|| bytes_of_hex(fields[2]));
                    assert_eq!(read.value.map(<[u8]>::to_vec), value);
                }
                assert_eq!(reader.next().unwrap(), None);
            }
            "position" => {
                let generation = id(next());
                let position = Position {
                    log,
                    generation: (generation != [0; 16]).then_some(generation),
                    file: next().parse().unwrap(),
                    number: next().parse().unwrap(),
                };
                assert_eq!(position.encode(), stored);
                assert_eq!(Position::decode(&stored).unwrap(), position);
            }
            other => panic!("{other}"),
        }
        seen += 1;
    }
    assert_eq!(seen, 7);
}

#[test]
fn rejects_positions_with_a_flipped_bit() {
    let stored = position(5).unwrap().encode();
    for at in 0..stored.len() {
        for bit in 0..8 {
            let mut altered = stored.clone();
            altered[at] ^= 1 << bit;
            assert!(Position::decode(&altered).is_err(), "{at} {bit}");
        }
        assert!(Position::decode(&stored[..at]).is_err(), "{at}");
    }
}

#[test]
fn finds_only_later_records() {
    let (folder, _) = log_of_20();
    for applied in 0..=RECORDS {
        let found = find_at(position(applied), &folder).unwrap();
        assert_eq!(numbers(&found), (applied + 1..=RECORDS).collect::<Vec<_>>());
        assert!(!found.is_incomplete);
    }
    // A later engine state than the last record, as after a checkpoint that also contains other commits.
    assert!(numbers(&find_at(position(RECORDS + 1), &folder).unwrap()).is_empty());
}

/// A store that was closed properly opens at once, however large its log is.
#[test]
fn reads_only_the_start_of_files_that_are_not_in_use() {
    let (folder, _) = log_of_20();
    prepare(&folder, LOG, 1, 1 << 20).unwrap();
    let closed = |number| {
        Some(Position {
            generation: None,
            ..position(number).unwrap()
        })
    };
    let found = find_at(closed(RECORDS + 1), &folder).unwrap();
    assert!(found.records.is_empty() && found.ready.iter().all(Option::is_some));
    assert!(folder.1.load(Ordering::Relaxed) < 3 * FIRST_RECORD as usize);
    // An older data file beside the log.
    let older = find_at(closed(0), &folder).err().unwrap();
    assert_eq!(older.kind(), StoreErrorKind::Corrupt);
}

/// No flipped bit makes recovery lose a record silently, except the last record, whose loss is reported.
#[test]
fn notices_a_flipped_bit_at_every_byte() {
    let (folder, ends) = log_of_20();
    let sound = folder.bytes(0);
    let last_start = ends[ends.len() - 2];
    let header = 0..encode_header(LOG, 0).len();
    for at in header.chain(FIRST_RECORD as usize..ends[ends.len() - 1]) {
        for bit in 0..8 {
            let mut altered = sound.clone();
            altered[at] ^= 1 << bit;
            folder.set(0, Some(altered));
            match find_at(position(0), &folder) {
                Err(error) if at < FIRST_RECORD as usize => {
                    assert!(
                        matches!(error.kind(), StoreErrorKind::Corrupt | StoreErrorKind::Version),
                        "{at} {bit}: {error}"
                    );
                }
                Err(error) => {
                    assert_eq!(error.kind(), StoreErrorKind::Corrupt, "{at} {bit}: {error}");
                    assert!(error.to_string().contains("log.0"), "{error}");
                    assert!(at < last_start, "{at} {bit}: the last record may be incomplete");
                }
                Ok(found) if at < FIRST_RECORD as usize => {
                    assert_eq!(numbers(&found).len() as u64, RECORDS, "{at} {bit}");
                    assert!(found.ready[0].is_none(), "a damaged header gets no more records");
                }
                Ok(found) => {
                    assert!(at >= last_start, "{at} {bit}: damage was not noticed");
                    assert_eq!(numbers(&found).len() as u64, RECORDS - 1, "{at} {bit}");
                    // Without the ids, the last record looks like unused space.
                    let in_ids = (8..40).contains(&(at - last_start));
                    assert!(found.is_incomplete || in_ids, "{at} {bit}");
                }
            }
        }
    }
}

#[test]
fn ignores_old_records_of_a_recycled_file() {
    let (folder, _) = log_of_20();
    let next: Id = [11; 16];
    write(&folder, 0, next, RECORDS + 2, RECORDS + 4);
    let position = |number| {
        Some(Position {
            generation: Some(next),
            ..position(number).unwrap()
        })
    };
    let found = find_at(position(RECORDS + 1), &folder).unwrap();
    assert_eq!(numbers(&found), [RECORDS + 2, RECORDS + 3, RECORDS + 4]);
    // An older state of the engine beside a newer log.
    let older = find_at(self::position(RECORDS), &folder).err().unwrap();
    assert_eq!(older.kind(), StoreErrorKind::Corrupt);
    let gap = find_at(position(RECORDS), &folder).err().unwrap();
    assert_eq!(gap.kind(), StoreErrorKind::Corrupt);
}

#[test]
fn rejects_missing_and_foreign_files() {
    let (folder, _) = log_of_20();
    let sound = folder.bytes(0);
    let kind = |position| find_at(position, &folder).err().map(|error| error.kind());
    // The data file has no position, but the log has records.
    assert_eq!(kind(None), Some(StoreErrorKind::Corrupt));
    let other = Position {
        log: [8; 16],
        ..position(RECORDS).unwrap()
    };
    assert_eq!(kind(Some(other)), Some(StoreErrorKind::Corrupt));
    // A clean data file that is older than the log. Such a file is from before a generation, because a
    // durable commit ends the generation.
    let clean = Position {
        generation: None,
        ..position(0).unwrap()
    };
    assert_eq!(kind(Some(clean)), Some(StoreErrorKind::Corrupt));
    folder.set(0, None);
    assert_eq!(kind(position(0)), Some(StoreErrorKind::Corrupt));
    folder.set(0, Some(vec![0; sound.len()]));
    assert_eq!(kind(position(0)), Some(StoreErrorKind::Corrupt));
    // Without a generation in use, a missing file is no loss.
    folder.set(0, None);
    assert_eq!(
        kind(Some(Position {
            generation: None,
            ..clean
        })),
        None
    );
    let mut newer = encode_header(LOG, 0).to_vec();
    newer[8] = 2;
    let checksum = crc32c::crc32c(&newer[..32]);
    newer[32..].copy_from_slice(&checksum.to_le_bytes());
    folder.set(0, Some(newer));
    assert_eq!(kind(position(0)), Some(StoreErrorKind::Version));
}

/// A user's value may contain a copy of the log. Its records are never mistaken for records.
#[test]
fn ignores_a_copy_of_the_log_in_a_value() {
    let (folder, ends) = log_of_20();
    let copied = folder.bytes(0)[..ends[ends.len() - 1]].to_vec();
    let mut with_copy = Changes::recorded();
    with_copy.put("rows 1", b"copy", &copied);
    let last = decode(&folder.bytes(0)[ends[ends.len() - 2]..]).unwrap().checksum;
    let (record, _) = encode((LOG, GENERATION), RECORDS + 1, last, with_copy.bytes().unwrap());
    let file = folder.open(0).unwrap().unwrap();
    file.write(ends[ends.len() - 1] as u64, &record).unwrap();
    assert_eq!(
        numbers(&find_at(position(0), &folder).unwrap()).len() as u64,
        RECORDS + 1
    );
    // The record with the copy is incomplete.
    file.write((ends[ends.len() - 1] + 60) as u64, &[0xff; 4])
        .unwrap();
    let found = find_at(position(0), &folder).unwrap();
    assert_eq!(numbers(&found).len() as u64, RECORDS);
    assert!(found.is_incomplete);
}

#[test]
fn gives_up_a_record_that_is_too_large() {
    let mut changes = Changes::recorded();
    let value = vec![0; 100_000];
    for number in 0..10_u8 {
        changes.put("rows 1", &[number], &value);
    }
    assert!(
        changes
            .bytes()
            .is_some_and(|bytes| bytes.len() <= MAX_RECORD_BYTES)
    );
    changes.put("rows 1", &[10], &value);
    assert_eq!(changes.bytes(), None);
    changes.put("rows 1", &[11], b"");
    assert_eq!(changes.bytes(), None);
}
