//! Checks of properties that any bytes must satisfy when they are read as a stored row or as a stored table
//! definition. The crate `recto-fuzz` calls these functions.

use recto_model::RowSet;

use crate::catalog;
use crate::row::{Life, NEVER, Row, StoredRow};

/// Checksum of the key at which each tested row is assumed to be stored.
const KEY_CHECKSUM: u32 = 0x5eed;
/// Exclusive upper bound of the number of cells that are decoded from a row.
const MAX_COLUMNS: usize = 24;

/// Checks the properties of bytes that are read as a stored row. The first four bytes are a time, and the fifth is a
/// number of columns.
///
/// # Panics
/// If a property does not hold.
pub fn stored_row(data: &[u8]) {
    let Some(([a, b, c, d, columns], rest)) = data.split_first_chunk() else {
        return;
    };
    let now_seconds = u32::from_le_bytes([*a, *b, *c, *d]);
    let columns = usize::from(*columns) % MAX_COLUMNS;
    // Open the unchanged bytes first. Their checksum is wrong, except for one of four billion inputs.
    let _ = StoredRow::open(KEY_CHECKSUM, rest).map(|row| row.decode(columns));
    let (left, right) = rest.split_at(rest.len() / 2);
    let halves = (decoded(left), decoded(right));
    if let (Some(left), Some(right)) = &halves {
        merges(left, right);
    }
    let stored = with_checksum(rest);
    let Ok(row) = StoredRow::open(KEY_CHECKSUM, &stored) else {
        return;
    };
    let apart = row.decode(columns);
    // Skip rows that no writer stores. `NEVER` is not the time of any clock, so no row has it as
    // the timestamp of its existence.
    let never = |apart: &Row<'_>| apart.marker.stamp == NEVER && row.newest_at_once() == Some(NEVER);
    if apart
        .as_ref()
        .is_ok_and(|apart| never(apart) || *apart != plain(apart.clone()))
    {
        return;
    }
    copied_as_decoded(&row, &apart, columns, now_seconds);
    if let Ok(apart) = apart {
        written_again(&apart);
    }
}

fn with_checksum(bytes: &[u8]) -> Vec<u8> {
    let checksum = crc32c::crc32c_append(KEY_CHECKSUM, bytes);
    [bytes, &checksum.to_le_bytes()].concat()
}

/// Returns the row without the expiries and values of parts that were never written, because no writer stores
/// them.
fn plain(mut row: Row<'_>) -> Row<'_> {
    if row.marker.stamp == NEVER {
        row.marker = Life::NONE;
    }
    for cell in &mut row.cells {
        if cell.life.stamp == NEVER {
            *cell = crate::row::Cell::UNWRITTEN;
        }
    }
    row
}

fn decoded(bytes: &[u8]) -> Option<Vec<u8>> {
    let stored = with_checksum(bytes);
    StoredRow::open(KEY_CHECKSUM, &stored).ok()?.decode(0).ok()?;
    Some(stored)
}

fn read(stored: &[u8]) -> Row<'_> {
    let row = StoredRow::open(KEY_CHECKSUM, stored).expect("it opened before");
    plain(row.decode(0).expect("it decoded before"))
}

/// Checks that a decoded row can be encoded, and decoded again without a change.
fn written_again(row: &Row<'_>) {
    let row = plain(row.clone());
    let mut stored = Vec::new();
    row.encode(KEY_CHECKSUM, &mut stored);
    let opened = StoredRow::open(KEY_CHECKSUM, &stored).expect("it was just written");
    assert_eq!(opened.decode(0).as_ref(), Ok(&row));
    if let Some(newest) = opened.newest_at_once() {
        assert_eq!(newest, row.newest());
    }
    let mut again = Vec::new();
    opened
        .decode(0)
        .expect("it decoded")
        .encode(KEY_CHECKSUM, &mut again);
    assert_eq!(again, stored, "a row has one stored form");
}

/// Checks that copying cells gives the same result as decoding the row, and that it does not read beyond the row.
fn copied_as_decoded(
    row: &StoredRow<'_>,
    apart: &Result<Row<'_>, crate::row::Damage>,
    columns: usize,
    now_seconds: u32,
) {
    let mut rows = RowSet::new(columns);
    let copied = row.push_cells(columns, usize::from(u16::MAX), now_seconds, &mut rows);
    match (apart, copied) {
        (Ok(apart), Ok(copied)) => {
            let mut left = apart.clone();
            left.end(now_seconds);
            assert_eq!(copied.is_some(), left.exists());
            assert_eq!(row.is_gone(now_seconds), Ok(!left.exists()));
            if copied.is_some() && columns > 0 {
                let cells = left.cells.iter().take(columns).map(|cell| cell.value);
                let found = rows.iter().next().expect("a row was appended");
                assert!(found.iter().eq(cells));
            }
        }
        // The copy skips an expired row before it reads the cells, so damage in these cells causes
        // no error.
        (Err(_), Ok(copied)) => assert_eq!(copied, None),
        (Ok(_), Err(damage)) => panic!("{damage:?} in a row that can be taken apart"),
        (Err(_), Err(_)) => {}
    }
}

/// Checks that two writes give the same row in either order, and that repeated writes change nothing.
fn merges(left: &[u8], right: &[u8]) {
    let (left, right) = (read(left), read(right));
    let mut one = left.clone();
    one.merge(&right);
    let mut other = right.clone();
    other.merge(&left);
    assert_eq!(one, other);
    let mut twice = one.clone();
    twice.merge(&left);
    twice.merge(&right);
    assert_eq!(twice, one);
    written_again(&one);
}

/// Checks the properties of bytes that are read as a stored table definition.
///
/// # Panics
/// If a property does not hold.
pub fn stored_table(data: &[u8]) {
    assert!(catalog::decode(data).is_err() || data.len() > 12);
    let stored = [data, &crc32c::crc32c(data).to_le_bytes()].concat();
    if let Ok(table) = catalog::decode(&stored) {
        // Compare definitions, not the original bytes: encoding puts the partition columns first
        // and then the clustering columns, but decoding accepts any order.
        let written = catalog::encode(&table);
        let again = catalog::decode(&written).expect("it was just written");
        assert_eq!((again.id, &again.definition), (table.id, &table.definition));
        assert_eq!(catalog::encode(&again), written);
    }
}
