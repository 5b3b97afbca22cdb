#![allow(clippy::unwrap_used)]

use proptest::prelude::*;
use recto_model::RowSet;

use super::*;

fn bytes(hex: &str) -> Vec<u8> {
    let digits: Vec<u8> = hex
        .bytes()
        .map(|digit| (digit as char).to_digit(16).unwrap() as u8)
        .collect();
    digits.chunks(2).map(|pair| pair[0] << 4 | pair[1]).collect()
}

fn life(text: &str) -> Life {
    if text == "never" {
        return Life::NONE;
    }
    let (stamp, expiry) = text.split_once('/').unwrap();
    Life {
        stamp: stamp.parse().unwrap(),
        expiry: expiry.parse().unwrap(),
    }
}

#[test]
fn rows_of_version_1_are_written_and_read_as_ever() {
    let golden = include_str!("../tests/golden/row-v1.txt");
    let mut seen = 0;
    for line in golden.lines().filter(|line| !line.starts_with('#')) {
        let fields: Vec<&str> = line.split("; ").collect();
        let [name, table, key, marker, cells, stored] = fields.as_slice() else {
            panic!("{line} has six fields");
        };
        let table: u32 = table.parse().unwrap();
        let checksum = crc32c::crc32c_append(crc32c::crc32c(&table.to_le_bytes()), &bytes(key));
        let cells: Vec<(Life, Option<Vec<u8>>)> = cells
            .split_whitespace()
            .map(|cell| cell.split_once('=').unwrap())
            .map(|(cell_life, value)| (life(cell_life), (value != "null").then(|| bytes(value))))
            .collect();
        let row = Row {
            marker: life(marker),
            cells: cells
                .iter()
                .map(|(life, value)| Cell {
                    life: *life,
                    value: value.as_deref(),
                })
                .collect(),
        };
        let mut encoded = Vec::new();
        row.encode(checksum, &mut encoded);
        assert_eq!(encoded, bytes(stored), "{name}");
        let decoded = StoredRow::open(checksum, &encoded).unwrap().decode(0).unwrap();
        assert_eq!(decoded, row, "{name}");
        seen += 1;
    }
    assert_eq!(seen, 10);
}

fn any_life() -> impl Strategy<Value = Life> {
    (-3_i64..3, prop_oneof![Just(0_u32), 1_u32..4]).prop_map(|(stamp, expiry)| Life { stamp, expiry })
}

fn any_value() -> impl Strategy<Value = Option<Vec<u8>>> {
    let lengths = prop_oneof![4 => 0_usize..4, 1 => 250_usize..260];
    let value = (lengths, any::<u8>()).prop_map(|(length, byte)| vec![byte; length]);
    prop_oneof![1 => Just(None), 3 => value.prop_map(Some)]
}

#[derive(Debug, Clone)]
struct Owned {
    marker: Life,
    cells: Vec<(Life, Option<Vec<u8>>)>,
}

impl Owned {
    fn row(&self) -> Row<'_> {
        let cells = self.cells.iter().map(|(life, value)| Cell {
            life: *life,
            value: value.as_deref(),
        });
        Row {
            marker: self.marker,
            cells: cells.collect(),
        }
    }
}

fn any_row(columns: usize) -> impl Strategy<Value = Owned> {
    let marker = prop_oneof![1 => Just(Life::NONE), 3 => any_life()];
    let cell = prop_oneof![
        1 => Just((Life::NONE, None)),
        4 => (any_life(), any_value()),
    ];
    let mixed =
        (marker, prop::collection::vec(cell, columns)).prop_map(|(marker, cells)| Owned { marker, cells });
    let even = (any_life(), prop::collection::vec(any_value(), columns)).prop_map(|(life, values)| Owned {
        marker: life,
        cells: values.into_iter().map(|value| (life, value)).collect(),
    });
    prop_oneof![mixed, even]
}

fn merged<'a>(rows: &[&'a Owned]) -> Row<'a> {
    let mut result = rows[0].row();
    for row in &rows[1..] {
        result.merge(&row.row());
    }
    result
}

proptest! {
    #[test]
    fn rows_come_back(row in any_row(4), checksum: u32) {
        let row = row.row();
        prop_assume!(row.newest() != NEVER);
        let mut stored = Vec::new();
        row.encode(checksum, &mut stored);
        let opened = StoredRow::open(checksum, &stored).unwrap();
        prop_assert_eq!(opened.decode(0).unwrap(), row);
        prop_assert!(StoredRow::open(checksum.wrapping_add(1), &stored).is_err());
    }

    /// Copying the cells of a row gives the same result as decoding the row. The reader may know fewer or
    /// more columns than the row has cells.
    #[test]
    fn both_ways_of_reading_agree(row in any_row(4), columns in 0_usize..7, now in 0_u32..5) {
        let row = row.row();
        prop_assume!(row.newest() != NEVER);
        let mut stored = Vec::new();
        row.encode(0, &mut stored);
        let opened = StoredRow::open(0, &stored).unwrap();
        let mut expected = opened.decode(columns).unwrap();
        expected.end(now);
        let mut rows = RowSet::new(columns);
        prop_assert_eq!(opened.push_cells(columns, 3, now, &mut rows), Err(Damage::Layout));
        let pushed = opened.push_cells(columns, columns.max(4), now, &mut rows).unwrap();
        prop_assert_eq!(pushed.is_some(), expected.exists());
        prop_assert_eq!(opened.is_gone(now).unwrap(), !expected.exists());
        expected.cells.truncate(columns);
        if pushed.is_some() {
            let cells: Vec<_> = expected.cells.iter().map(|cell| cell.value).collect();
            prop_assert!(columns == 0 || rows.row(0).iter().collect::<Vec<_>>() == cells);
            prop_assert_eq!(pushed.unwrap(), expected.values_life());
        }
    }

    /// Merging gives the same row if writes arrive in another order, or twice.
    #[test]
    fn merging_is_commutative_associative_and_idempotent(a in any_row(3), b in any_row(3), c in any_row(3)) {
        prop_assert_eq!(merged(&[&a, &b]), merged(&[&b, &a]));
        prop_assert_eq!(merged(&[&a, &b, &c]), merged(&[&c, &a, &b]));
        prop_assert_eq!(merged(&[&a, &b, &b, &a]), merged(&[&a, &b]));
    }

    /// A row with a flipped bit is rejected.
    #[test]
    fn a_flipped_bit_is_found(row in any_row(3), at: prop::sample::Index, bit in 0_u8..8) {
        let row = row.row();
        prop_assume!(row.newest() != NEVER);
        let mut stored = Vec::new();
        row.encode(7, &mut stored);
        *at.get_mut(&mut stored) ^= 1 << bit;
        prop_assert!(StoredRow::open(7, &stored).is_err());
    }

    /// Bytes with a valid checksum that are not a row cause an error, and never a panic.
    #[test]
    fn any_bytes_are_read_or_refused(mut bytes in prop::collection::vec(any::<u8>(), 0..80), known: bool) {
        if known && bytes.len() > 1 {
            bytes[0] = ROW_FORMAT_VERSION;
            bytes[1] &= KNOWN_FLAGS;
        }
        let checksum = crc32c::crc32c_append(3, &bytes);
        bytes.extend_from_slice(&checksum.to_le_bytes());
        if let Ok(opened) = StoredRow::open(3, &bytes) {
            let _ = opened.decode(3);
            let mut rows = RowSet::new(3);
            let _ = opened.push_cells(3, 3, 1, &mut rows);
        }
    }
}
