#![allow(clippy::unwrap_used)]

use recto_model::golden::bytes_of_hex;

use super::*;

fn table(automatic_snapshots: bool, counts_rows: bool) -> Table {
    let column = |name: &str, ty, kind| Column {
        name: name.to_owned(),
        ty,
        kind,
    };
    let udt = UdtType {
        name: "money".to_owned(),
        fields: vec![
            ("amount".to_owned(), Type::Decimal),
            ("currency".to_owned(), Type::Ascii),
        ],
    };
    let mut columns = vec![
        column("p", Type::Text, ColumnKind::Partition),
        column("c", Type::Int, ColumnKind::Clustering(Direction::Ascending)),
        column("d", Type::Uuid, ColumnKind::Clustering(Direction::Descending)),
        column("s", Type::Int, ColumnKind::Static(WriteKind::Plain)),
        column("t", Type::Int, ColumnKind::Static(WriteKind::Cas)),
        column(
            "price",
            Type::Udt(Arc::new(udt)),
            ColumnKind::Regular(WriteKind::Cas),
        ),
    ];
    let nested = Type::Map(
        Box::new(Type::Text),
        Box::new(Type::List(Box::new(Type::Tuple(vec![
            Type::Set(Box::new(Type::Inet)),
            Type::Vector(Box::new(Type::Float), 3),
        ])))),
    );
    columns.push(column("nested", nested, ColumnKind::Regular(WriteKind::Plain)));
    for (index, ty) in PLAIN_TYPES.into_iter().enumerate() {
        columns.push(column(
            &format!("r{index}"),
            ty,
            ColumnKind::Regular(WriteKind::Plain),
        ));
    }
    let options = TableOptions {
        compaction: Compaction::Tombstones,
        gc_grace_seconds: 14_400,
        automatic_snapshots,
        counts_rows,
        buckets: None,
        allows_empty_partition: false,
    };
    Table::new("every_type", columns, options).unwrap()
}

#[test]
fn definitions_come_back() {
    for options in 0..4 {
        let table = table(options & 1 != 0, options & 2 != 0);
        let stored = encode(&StoredTable::new(77, Arc::new(table.clone()), false));
        let decoded = decode(&stored).unwrap();
        assert_eq!(decoded.id, 77);
        assert_eq!(*decoded.definition, table);
    }
}

#[test]
fn definitions_are_written_as_ever() {
    for (automatic_snapshots, counts_rows, has_sums, golden) in [
        (true, false, false, include_str!("../tests/golden/table-v1.txt")),
        (false, false, false, include_str!("../tests/golden/table-v2.txt")),
        (false, true, false, include_str!("../tests/golden/table-v4.txt")),
        (false, true, true, include_str!("../tests/golden/table-v5.txt")),
    ] {
        let table = table(automatic_snapshots, counts_rows);
        let golden = bytes_of_hex(golden.trim());
        let stored = StoredTable::new(77, Arc::new(table.clone()), has_sums);
        assert_eq!(encode(&stored), golden);
        let decoded = decode(&golden).unwrap();
        assert_eq!(*decoded.definition, table);
        assert_eq!(decoded.sums.is_some(), has_sums);
    }
}

#[test]
fn a_table_in_buckets_of_an_earlier_release_is_refused() {
    let golden = bytes_of_hex(include_str!("../tests/golden/table-v3.txt").trim());
    let error = decode(&golden).unwrap_err();
    assert_eq!(error.kind(), StoreErrorKind::Version);
    assert!(error.to_string().contains("every_type"), "{error}");
    assert!(error.hint().unwrap().starts_with("export the collections"));
}

#[test]
fn damaged_and_newer_definitions_are_refused() {
    let stored = encode(&StoredTable::new(1, Arc::new(table(true, false)), false));
    for at in 0..stored.len() {
        let mut damaged = stored.clone();
        damaged[at] ^= 0x10;
        assert_eq!(decode(&damaged).unwrap_err().kind(), StoreErrorKind::Corrupt);
    }
    let mut newer = stored[..stored.len() - 4].to_vec();
    newer[0] = TABLE_FORMAT_VERSION + 1;
    let checksum = crc32c::crc32c(&newer);
    newer.extend_from_slice(&checksum.to_le_bytes());
    assert_eq!(decode(&newer).unwrap_err().kind(), StoreErrorKind::Version);
    // A definition is corrupt if its version is later than its options need.
    let mut other = stored[..stored.len() - 4].to_vec();
    other[0] = TABLE_FORMAT_VERSION;
    let checksum = crc32c::crc32c(&other);
    other.extend_from_slice(&checksum.to_le_bytes());
    assert_eq!(decode(&other).unwrap_err().kind(), StoreErrorKind::Corrupt);
    // A definition that is cut short is rejected even if its checksum is valid.
    for length in 1..stored.len() - 4 {
        let mut cut = stored[..length].to_vec();
        let checksum = crc32c::crc32c(&cut);
        cut.extend_from_slice(&checksum.to_le_bytes());
        assert!(decode(&cut).is_err());
    }
}
