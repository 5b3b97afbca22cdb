//! Checks of flipped bits in keys. Every read reports the damage, or returns the complete correct result. It
//! never returns fewer rows without an error. A flipped bit in an inner page may stay unnoticed by a read,
//! but then a check finds it.

use std::fs;
use std::path::Path;
use std::sync::Arc;

use crate::support::{all, cells, done, key, mutation, open, put, runtime, table, unbounded, write};
use recto_embedded::EmbeddedStore;
use recto_model::table::ReadDirection;
use recto_model::{Bound, Slice, Table};
use recto_store::{PointRead, ScanPosition, Snapshot, Store, StoreError, StoreErrorKind};

/// Number of rows of carrier AA. The rows have the even numbers below `2 * ROWS`.
const ROWS: i64 = 1_500;
const MIDDLE: i64 = ROWS;
/// Number of rows of each neighboring carrier.
const NEIGHBOURS: i64 = 5;
/// Size of a key of carrier AA, in bytes: text, kind byte, number.
const KEY_BYTES: usize = 13;
const PAGE_BYTES: usize = 4_096;
/// First byte of an inner page of the engine.
const BRANCH: u8 = 2;

fn numbers() -> impl DoubleEndedIterator<Item = i64> {
    (0..ROWS).map(|number| number * 2)
}

/// Creates a store with carrier AA between A@ and AB in key order, and closes it. Returns its file.
fn fresh(path: &Path) -> Vec<u8> {
    runtime().block_on(async {
        let store = open(path).unwrap();
        let table = table();
        store.create_table(&table).await.unwrap();
        let name = mutation(
            recto_store::Operation::PatchStatic {
                columns: vec![0],
                cells: cells([b"American"]),
            },
            1,
        );
        let mut writes = vec![write(&table, "AA", vec![name])];
        writes.push(write(
            &table,
            "AA",
            numbers().map(|number| put(number, 1)).collect(),
        ));
        for carrier in ["A@", "AB"] {
            let rows = (0..NEIGHBOURS).map(|number| put(number, 1)).collect();
            writes.push(write(&table, carrier, rows));
        }
        done(&store, writes).await;
    });
    fs::read(path.join("data.redb")).unwrap()
}

/// Returns the stored key of a row of carrier AA, as in `docs/format.md`. The order of the numbers is
/// descending.
fn stored_key(number: i64) -> Vec<u8> {
    let mut stored = b"AA\0\0\x01".to_vec();
    stored.extend((number ^ i64::MIN).to_be_bytes().map(|byte| !byte));
    assert_eq!(stored.len(), KEY_BYTES);
    stored
}

fn places(data: &[u8], needle: &[u8]) -> Vec<usize> {
    (0..=data.len() - needle.len())
        .filter(|at| data[*at..].starts_with(needle))
        .collect()
}

/// Returns the value of a successful read, or `None` if the read reported damage. Panics after any other
/// error.
fn told<T>(read: Result<T, StoreError>, context: &str) -> Option<T> {
    match read {
        Ok(read) => Some(read),
        Err(error) => {
            // The engine stops at a missing page, which can also lead to a `Storage` error.
            let kinds = [StoreErrorKind::Corrupt, StoreErrorKind::Storage];
            assert!(kinds.contains(&error.kind()), "{context}: {error}");
            assert!(error.hint().is_some(), "{context}: {error}");
            None
        }
    }
}

/// Numbers of correct reads, failed reads and wrong reads of one damaged file.
#[derive(Debug, Default, Clone, Copy)]
struct Tally {
    right: usize,
    errors: usize,
    wrong: usize,
}

impl Tally {
    fn count(&mut self, is_right: Option<bool>) {
        match is_right {
            None => self.errors += 1,
            Some(true) => self.right += 1,
            Some(false) => self.wrong += 1,
        }
    }

    fn add(&mut self, other: Self) {
        self.right += other.right;
        self.errors += other.errors;
        self.wrong += other.wrong;
    }
}

/// Reader that reads the carriers of a file in every way, and counts the results.
struct Reader {
    snapshot: Arc<dyn Snapshot>,
    table: Arc<Table>,
    tally: Tally,
}

impl Reader {
    fn new(store: &EmbeddedStore) -> Result<Self, StoreError> {
        Ok(Self {
            snapshot: store.snapshot()?,
            table: table(),
            tally: Tally::default(),
        })
    }

    async fn slice(
        &mut self,
        from: Bound,
        to: Bound,
        direction: ReadDirection,
        limit: u32,
        expected: &[i64],
    ) {
        let context = format!("{from:?} to {to:?} {direction:?} {limit}");
        let slice = Slice {
            from,
            to,
            limit,
            ..all(&self.table, "AA", direction)
        };
        let read = told(self.snapshot.slice(&slice, &unbounded()).await, &context);
        let shown = &expected[..expected.len().min(limit as usize)];
        let is_right = read.map(|read| {
            let found: Vec<i64> = read
                .rows
                .iter()
                .map(|row| i64::from_be_bytes(row.get(1).unwrap().try_into().unwrap()))
                .collect();
            let statics = read.rows.iter().all(|row| row.get(2) == Some(b"American"));
            found == shown && statics && read.exhausted == (expected.len() < limit as usize)
        });
        self.tally.count(is_right);
    }

    async fn slices(&mut self, around: &[i64]) {
        use ReadDirection::{Backward, Forward};
        let descending: Vec<i64> = numbers().rev().collect();
        let ascending: Vec<i64> = numbers().collect();
        let limits = [1, 20, 1_900];
        for limit in limits {
            for (direction, rows) in [(Forward, &descending), (Backward, &ascending)] {
                self.slice(Bound::start(), Bound::end(), direction, limit, rows)
                    .await;
            }
            for edge in around {
                for after in [false, true] {
                    let bound = || {
                        if after {
                            Bound::After(key(*edge))
                        } else {
                            Bound::Before(key(*edge))
                        }
                    };
                    // In clustering order, larger numbers come first, so the rows before an edge
                    // have larger numbers.
                    let is_before = |number: &i64| if after { number >= edge } else { number > edge };
                    let part = |rows: &[i64], before: bool| -> Vec<i64> {
                        rows.iter()
                            .copied()
                            .filter(|number| is_before(number) == before)
                            .collect()
                    };
                    for (direction, rows) in [(Forward, &descending), (Backward, &ascending)] {
                        let (first, second) = (part(rows, true), part(rows, false));
                        self.slice(bound(), Bound::end(), direction, limit, &second).await;
                        self.slice(Bound::start(), bound(), direction, limit, &first)
                            .await;
                    }
                }
            }
        }
    }

    async fn points(&mut self, around: &[i64]) {
        for number in around {
            let point = PointRead {
                table: Arc::clone(&self.table),
                partition: cells([b"AA"]),
                clustering: key(*number),
            };
            let read = told(self.snapshot.get(&point, &unbounded()).await, "a point");
            let is_there = number % 2 == 0 && (0..ROWS * 2).contains(number);
            self.tally
                .count(read.map(|read| read.rows.len() == usize::from(is_there)));
        }
        let statics = self
            .snapshot
            .get_statics(&self.table, &cells([b"AA"]), &unbounded())
            .await;
        let statics = told(statics, "statics");
        self.tally.count(statics.map(|read| read.rows.len() == 1));
    }

    async fn scans(&mut self) {
        for pieces in [1, 4] {
            let scanned = told(self.scan(pieces).await, "a scan");
            let expected = ROWS + 2 * NEIGHBOURS;
            self.tally.count(scanned.map(|count| count == expected));
        }
    }

    async fn scan(&self, pieces: u32) -> Result<i64, StoreError> {
        let mut count = 0;
        for range in self.snapshot.token_ranges(&self.table, pieces).await? {
            let mut after: Option<ScanPosition> = None;
            loop {
                let snapshot = &self.snapshot;
                let read = snapshot
                    .scan(&self.table, &range, after.as_ref(), 100, &unbounded())
                    .await?;
                count += i64::try_from(read.rows.len()).unwrap();
                match read.next {
                    Some(next) => after = Some(next),
                    None => break,
                }
            }
        }
        Ok(count)
    }
}

/// Reads the file in every way, with edges near the row numbers `around`.
async fn read_all(store: &EmbeddedStore, around: &[i64]) -> Tally {
    let Some(mut reader) = told(Reader::new(store), "a snapshot") else {
        return Tally {
            errors: 1,
            ..Tally::default()
        };
    };
    reader.slices(around).await;
    reader.points(around).await;
    reader.scans().await;
    reader.tally
}

/// Opens the damaged file and reads it. Also returns whether a check finds the damage.
fn inspect(path: &Path, data: &[u8], around: &[i64]) -> (Tally, bool) {
    fs::write(path.join("data.redb"), data).unwrap();
    runtime().block_on(async {
        let Some(store) = told(open(path), "opening") else {
            return (
                Tally {
                    errors: 1,
                    ..Tally::default()
                },
                true,
            );
        };
        let tally = read_all(&store, around).await;
        let is_found = match told(store.check(|_| ()).await, "a check") {
            Some(report) => !report.is_sound(),
            None => true,
        };
        (tally, is_found)
    })
}

/// Environment variable with the factor for the number of cases.
const SCALE_VARIABLE: &str = "RECTO_TEST_SCALE";

/// Returns the distance between tested positions: `usual` in a normal run, and smaller in a long run.
fn step(usual: usize) -> usize {
    let scale = std::env::var(SCALE_VARIABLE).map_or(1, |text| text.parse().unwrap());
    (usual / scale).max(1)
}

/// Reads report every flipped bit in the key of a row in the middle, or are still correct. The test also
/// flips some bits in the keys of the neighboring row, the first row, the last row, and the static row.
#[test]
fn every_bit_of_a_key_is_told_of() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("store");
    let data = fresh(&path);
    let around = [
        -1,
        0,
        MIDDLE - 2,
        MIDDLE - 1,
        MIDDLE,
        MIDDLE + 1,
        MIDDLE + 40,
        2 * ROWS - 2,
        2 * ROWS,
    ];
    let (sound, is_found) = inspect(&path, &data, &around);
    assert!(
        sound.wrong == 0 && sound.errors == 0 && !is_found,
        "the file is not damaged yet: {sound:?}"
    );
    let mut statics = stored_key(0);
    statics.truncate(4);
    statics.push(0);
    let others = [MIDDLE - 2, 0, 2 * ROWS - 2].map(stored_key);
    let mut total = Tally::default();
    for (needle, step) in others
        .iter()
        .chain([&statics])
        .map(|needle| (needle, step(26)))
        .chain([(&stored_key(MIDDLE), 1)])
    {
        let found = places(&data, needle);
        assert!(!found.is_empty());
        for at in found {
            for bit in (0..needle.len() * 8).step_by(step) {
                let mut damaged = data.clone();
                damaged[at + bit / 8] ^= 1 << (bit % 8);
                let (tally, is_found) = inspect(&path, &damaged, &around);
                assert_eq!(tally.wrong, 0, "byte {at}, bit {bit}: {tally:?}");
                assert!(
                    is_found || tally.errors == 0,
                    "byte {at}, bit {bit}: the check missed it"
                );
                total.add(tally);
            }
        }
    }
    println!("{total:?}");
    assert!(total.errors > 1_000, "hardly any read met the damage: {total:?}");
}

/// Damage of inner pages, which contain keys and page numbers, is noticed by a read or found by a check.
/// Reads notice a damaged key, and the check finds a wrong page number.
#[test]
fn damaged_branches_are_noticed_or_found() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("store");
    let data = fresh(&path);
    let around = [0, MIDDLE, 2 * ROWS];
    let branches: Vec<usize> = (0..data.len())
        .step_by(PAGE_BYTES)
        .filter(|at| {
            data[*at] == BRANCH
                && data[*at + 2] != 0
                && places(&data[*at..*at + 64.min(data.len() - at)], b"redb").is_empty()
        })
        .collect();
    assert!(!branches.is_empty());
    let (mut total, mut silent) = (Tally::default(), 0);
    for at in branches {
        // Damage the first bytes of the page, which contain its header, counts, checksums, page
        // numbers, key ends and keys.
        for byte in (0..1_300).step_by(step(41)) {
            let mut damaged = data.clone();
            damaged[at + byte] ^= 1 << (byte % 8);
            let (tally, is_found) = inspect(&path, &damaged, &around);
            assert!(
                is_found || tally.wrong == 0,
                "page {at}, byte {byte}: {tally:?}, and no check finds it"
            );
            silent += usize::from(tally.wrong > 0);
            total.add(tally);
        }
    }
    println!("{total:?}; in {silent} files a read was wrong, and the check found each");
}
