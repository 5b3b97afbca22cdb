//! Tests of the hidden columns of base rows. Checks that formats never change, and that invalid
//! bytes are an error.

use std::collections::BTreeSet;

use proptest::prelude::*;
use recto_model::golden::bytes_of_hex;
use recto_model::schema::Schema;
use recto_model::table::{ColumnKind, WriteKind};
use recto_model::{Cells, cell};

use crate::views::collection::KeyCells;
use crate::views::row::{
    EntryKey, Found, Generation, MAX_TOKENS, Row, RowClaims, Token, Tokens, Version, ViewNumber,
};
use crate::views::stored::{Head, Life, MAX_HEAD_BYTES, StoredError, decode_tokens, encode_tokens};
use crate::views::{BaseTable, Incarnation, Intent, Writer};

fn lines(golden: &'static str) -> impl Iterator<Item = Vec<&'static str>> {
    let lines = golden.lines().filter(|line| !line.starts_with('#'));
    lines.map(|line| line.split("; ").collect())
}

fn key(view: u64, cells: &[Vec<u8>]) -> EntryKey<KeyCells> {
    EntryKey {
        view: ViewNumber(view),
        key: KeyCells::of(cells.iter().map(Vec::as_slice)),
    }
}

fn golden_tokens() -> Vec<(Tokens, Vec<u8>)> {
    let token = |hex| Token(u128::from_str_radix(hex, 16).expect("a token"));
    let lines = lines(include_str!("golden/tokens-v1.txt"));
    let read = lines.map(|line| {
        let tokens = line[0].split(',').map(token).collect();
        (Tokens::new(tokens).expect("not too many"), bytes_of_hex(line[1]))
    });
    read.collect()
}

fn golden_heads() -> Vec<(Head, Vec<u8>)> {
    let key_of = |text: &str| {
        let (view, cells) = text.split_once(':').expect("a view and cells");
        let cells: Vec<_> = cells.split(',').map(bytes_of_hex).collect();
        key(view.parse().expect("a number"), &cells)
    };
    let all = |text: &'static str| text.split(' ').filter(|one| *one != "-");
    let token = |text: &str| Token(u128::from_str_radix(text, 16).expect("a token"));
    let held = |text: &str| {
        let (number, held) = text.split_once(':').expect("a constraint and a token");
        (ViewNumber(number.parse().expect("a number")), token(held))
    };
    let released = |text: &str| {
        let (key, of) = text.split_once('=').expect("a key and a token");
        (key_of(key), token(of))
    };
    let without = lines(include_str!("golden/head-v1.txt"));
    let with = lines(include_str!("golden/head-v2.txt"));
    let read = without.chain(with).map(|line| {
        let [held_by, to_release] = if line.len() == 6 {
            [line[3], line[4]]
        } else {
            ["-"; 2]
        };
        let head = Head {
            generation: Generation(line[0].parse().expect("a number")),
            life: match line[1] {
                "lives" => Life::Lives,
                "deleted" => Life::Deleted,
                at => Life::Expires(at.parse().expect("a number")),
            },
            must_go: all(line[2]).map(key_of).collect(),
            claims: RowClaims {
                held: all(held_by).map(held).collect(),
                must_release: all(to_release).map(released).collect(),
            },
        };
        (head, bytes_of_hex(line[line.len() - 1]))
    });
    read.collect()
}

#[test]
fn cells_are_written_and_read_as_ever() {
    for (tokens, cell) in golden_tokens() {
        assert_eq!(encode_tokens(&tokens), cell);
        assert_eq!(decode_tokens(&cell), Ok(tokens));
    }
    for (head, cell) in golden_heads() {
        assert_eq!(head.encode().as_ref(), Ok(&cell));
        assert_eq!(Head::decode(&cell), Ok(head));
    }
    assert_eq!((golden_tokens().len(), golden_heads().len()), (3, 8));
}

/// Checks that the bytes are invalid, or that the decoded value is encoded as the same bytes.
fn is_strict(cell: &[u8]) -> Result<(), TestCaseError> {
    if let Ok(tokens) = decode_tokens(cell) {
        prop_assert_eq!(encode_tokens(&tokens), cell);
    }
    if let Ok(head) = Head::decode(cell) {
        prop_assert_eq!(head.encode(), Ok(cell.to_vec()));
    }
    Ok(())
}

#[test]
fn detects_truncated_extended_and_altered_bytes() -> Result<(), TestCaseError> {
    let tokens = golden_tokens().into_iter().map(|(_, cell)| cell);
    for cell in tokens.chain(golden_heads().into_iter().map(|(_, cell)| cell)) {
        for length in 0..cell.len() {
            assert!(Head::decode(&cell[..length]).is_err());
            is_strict(&cell[..length])?;
        }
        let longer = [&cell[..], &[0]].concat();
        assert!(Head::decode(&longer).is_err() && decode_tokens(&longer).is_err());
        // Try other format versions here, because no single bit flip turns version 1 into 2.
        for version in 0..=3 {
            is_strict(&[&[version], &cell[1..]].concat())?;
        }
        for bit in 0..cell.len() * 8 {
            let mut altered = cell.clone();
            altered[bit / 8] ^= 1 << (bit % 8);
            is_strict(&altered)?;
        }
    }
    Ok(())
}

#[test]
fn other_versions_are_refused() {
    let unknown = |column, version| StoredError::UnknownVersion {
        column,
        version: i32::from(version),
    };
    for version in [2, 255] {
        assert_eq!(
            decode_tokens(&[version; 17]),
            Err(unknown("recto_tokens", version))
        );
    }
    for version in [3, 255] {
        let error = Head::decode(&[version]).expect_err("another version");
        assert_eq!(error, unknown("recto_head", version));
        assert!(error.hint().contains("newer release"));
    }
    let none = Head::decode(&[0; 14]);
    assert!(matches!(none, Err(StoredError::Damaged { .. })));
}

#[test]
fn keys_that_must_go_stand_in_order_and_once() {
    let head = |cells: &[&str]| {
        let count = (cells.len() as u32).to_be_bytes();
        let mut head = [&[1, 0][..], &[0; 8], &count].concat();
        for cell in cells {
            head.extend_from_slice(&[&[0; 11][..], &[5], &[0, 0, 0, 1], cell.as_bytes()].concat());
        }
        Head::decode(&head)
    };
    assert_eq!(head(&["a", "b"]).expect("in order").must_go.len(), 2);
    for cells in [["b", "a"], ["a", "a"]] {
        assert!(matches!(head(&cells), Err(StoredError::Damaged { .. })));
    }
    assert!(Head::decode(&[&[1, 0][..], &[0; 8], &[0, 0, 0, 1], &[0; 12]].concat()).is_err());
}

#[test]
fn a_head_has_a_limit() {
    let with = |bytes| Head {
        generation: Generation(1),
        life: Life::Lives,
        must_go: BTreeSet::from([key(1, &[vec![0; bytes]])]),
        claims: RowClaims::NONE,
    };
    let most = MAX_HEAD_BYTES - 30;
    let cell = with(most).encode().expect("the longest");
    assert_eq!(Head::decode(&cell), Ok(with(most)));
    let bytes = MAX_HEAD_BYTES + 1;
    assert_eq!(with(most + 1).encode(), Err(StoredError::TooLarge { bytes }));
    assert!(Head::decode(&[cell, vec![0]].concat()).is_err());
}

fn heads() -> impl Strategy<Value = Head> {
    let life = prop_oneof![
        Just(Life::Lives),
        Just(Life::Deleted),
        any::<i64>().prop_map(Life::Expires)
    ];
    let keys = || {
        let cells = proptest::collection::vec(proptest::collection::vec(any::<u8>(), 0..5), 1..4);
        (0..3_u64, cells).prop_map(|(view, cells)| key(view, &cells))
    };
    let token = || any::<u128>().prop_map(Token);
    let held = proptest::collection::btree_map((0..5_u64).prop_map(ViewNumber), token(), 0..4);
    let must_release = proptest::collection::btree_set((keys(), token()), 0..4);
    let claims = (held, must_release).prop_map(|(held, must_release)| RowClaims { held, must_release });
    let claims = prop_oneof![Just(RowClaims::NONE), claims];
    let must_go = proptest::collection::btree_set(keys(), 0..6);
    (any::<u64>(), life, must_go, claims).prop_map(|(generation, life, must_go, claims)| Head {
        generation: Generation(generation),
        life,
        must_go,
        claims,
    })
}

proptest! {
    #[test]
    fn any_bytes_are_refused_or_read(
        version in 0..3_u8,
        life in 0..4_u8,
        rest in proptest::collection::vec(prop_oneof![Just(0_u8), 0..9_u8, any::<u8>()], 0..80),
    ) {
        is_strict(&rest)?;
        is_strict(&[&[version, life][..], &rest].concat())?;
    }

    #[test]
    fn decodes_encoded_values(
        head in heads(),
        tokens in proptest::collection::vec(any::<u128>().prop_map(Token), 1..=MAX_TOKENS),
    ) {
        prop_assert_eq!(Head::decode(&head.encode().expect("small")), Ok(head));
        let tokens = Tokens::new(tokens).expect("not too many");
        prop_assert_eq!(decode_tokens(&encode_tokens(&tokens)), Ok(tokens));
    }
}

const SCHEMA: &str = r#"
[collection.suspensions]
fields = { reason = "text", user = "int", since = "bigint", site = "text" }
key = ["site", "user"]

[collection.suspensions.view.by_reason]
partition = ["reason"]
"#;

fn base() -> BaseTable {
    let schema = Schema::parse(SCHEMA).expect("a schema");
    BaseTable::new(&schema.collections[0]).expect("a table")
}

fn row(record: Option<[Option<&[u8]>; 4]>, expires_at: Option<i64>) -> Row<Cells, KeyCells> {
    Row {
        tokens: Tokens::pushed(None, Token(7)),
        version: Version(1_800_000_000_000_000),
        generation: Generation(3),
        record: record.map(|cells| cells.into_iter().collect()),
        expires_at,
        must_go: BTreeSet::from([key(2, &[b"old".to_vec()])]),
        claims: RowClaims::NONE,
    }
}

/// Returns the row of the base table as a store returns it after the conditional write of `row`,
/// and after the mark `done`.
fn stored(table: &BaseTable, row: &Row<Cells, KeyCells>, done: Option<Version>) -> Cells {
    let user = 7_i32.to_be_bytes();
    let mut cells: Vec<Option<Vec<u8>>> = vec![None; table.table().columns().len()];
    cells[..2].clone_from_slice(&[Some(b"de".to_vec()), Some(user.to_vec())]);
    let written = table.conditional_cells(row).expect("small");
    for (column, cell) in table.conditional_columns().into_iter().zip(written.iter()) {
        cells[2 + usize::from(column)] = cell.map(<[u8]>::to_vec);
    }
    let mark = done.map(BaseTable::done_cell);
    cells[2 + usize::from(BaseTable::DONE)] = mark.and_then(|mark| mark.get(0).map(<[u8]>::to_vec));
    cells.iter().map(|cell| cell.as_deref()).collect()
}

#[test]
fn a_base_table_has_hidden_columns_before_its_fields() {
    let base = base();
    let columns = base.table().columns().iter();
    let columns: Vec<_> = columns
        .map(|column| (column.name.as_str(), column.kind))
        .collect();
    let regular = |name, kind| (name, ColumnKind::Regular(kind));
    assert_eq!(
        columns[2..],
        [
            regular("recto_tokens", WriteKind::Cas),
            regular("recto_version", WriteKind::Cas),
            regular("recto_head", WriteKind::Cas),
            regular("recto_done", WriteKind::Plain),
            regular("reason", WriteKind::Cas),
            regular("since", WriteKind::Cas),
        ]
    );
    assert_eq!(base.conditional_columns(), [0, 1, 2, 4, 5]);
}

#[test]
fn rows_are_read_as_they_were_written() {
    let base = base();
    let user = 7_i32.to_be_bytes();
    let record: [Option<&[u8]>; 4] = [Some(b"spam"), Some(&user), None, Some(b"de")];
    let rows = [
        row(Some(record), None),
        row(Some(record), Some(5)),
        row(None, None),
    ];
    for row in rows {
        for done in [None, Some(Version(7))] {
            let cells = stored(&base, &row, done);
            let found = Found {
                row: Some(row.clone()),
                done,
            };
            assert_eq!(base.found(cells.as_row()), Ok(found));
        }
    }
}

#[test]
fn rows_without_tokens_are_absent_or_damaged() {
    let base = base();
    let row = row(None, None);
    let without = |column: usize| {
        let cells = stored(&base, &row, Some(Version(9)));
        let cells = cells.iter().enumerate();
        let cells: Cells = cells
            .map(|(index, cell)| cell.filter(|_| index != 2 + column))
            .collect();
        base.found(cells.as_row())
    };
    let done = Some(Version(9));
    assert_eq!(without(0), Ok(Found { row: None, done }));
    for column in [1, 2] {
        assert!(matches!(without(column), Err(StoredError::Damaged { .. })));
    }
}

fn cells_of(text: &str) -> Cells {
    let cell = |text: &str| match text {
        "-" => None,
        "empty" => Some(Vec::new()),
        hex => Some(bytes_of_hex(hex)),
    };
    let cells: Vec<_> = text.split(' ').map(cell).collect();
    cells.iter().map(|cell| cell.as_deref()).collect()
}

fn number<N: std::str::FromStr>(text: &str) -> Option<N> {
    text.parse().ok()
}

fn check_writer(line: &[&str], cells: &Cells) {
    let incarnation = Incarnation(bytes_of_hex(line[1]).try_into().expect("16 bytes"));
    let writer = Writer {
        counter: number(line[2]).expect("a number"),
        generation: number(line[3]).map(Generation),
        is_dead: line[4] == "dead",
        segments: line[5].split(',').filter_map(number).collect(),
        resolved: number(line[6]).expect("a number"),
        resolved_at: number(line[7]),
    };
    assert_eq!(Writer::read(cells.as_row()), Ok((incarnation, writer.clone())));
    let partition = incarnation.writers_partition();
    let key = partition.iter().chain([Some(&incarnation.0[..])]);
    let written: Cells = key.chain(writer.cells().iter()).collect();
    assert_eq!(written, *cells);
    let registration = writer.registration();
    assert_eq!(registration.is_resolved, writer.resolved > 0);
    if writer.resolved == 0 {
        assert_eq!(Writer::new(registration, writer.segments.clone()), writer);
    }
}

fn check_intent(line: &[&str], cells: &Cells) {
    let incarnation = Incarnation(bytes_of_hex(line[1]).try_into().expect("16 bytes"));
    let intent = Intent {
        collection: line[4].to_owned(),
        key: cells_of(&line[5].replace(',', " ")),
        stamp: number(line[6]).expect("a number"),
    };
    assert_eq!(Intent::read(cells.as_row()).as_ref(), Ok(&intent));
    let partition = incarnation.intents_partition(number(line[2]).expect("a number"));
    let row = number::<i32>(line[3]).expect("a number").to_be_bytes();
    let key = partition.iter().chain([Some(&row[..])]);
    let written: Cells = key.chain(intent.cells().iter()).collect();
    assert_eq!(written, *cells);
}

fn golden_rows() -> impl Iterator<Item = (Vec<&'static str>, Cells)> {
    let lines = lines(include_str!("golden/writers-v1.txt"));
    lines.map(|line| {
        let cells = cells_of(line.last().expect("cells"));
        (line, cells)
    })
}

#[test]
fn writers_and_intents_match_version_1() {
    for (line, cells) in golden_rows() {
        let table = if line[0] == "writer" {
            check_writer(&line, &cells);
            Writer::table()
        } else {
            check_intent(&line, &cells);
            Intent::table()
        };
        assert_eq!(cells.len(), table.columns().len());
        for (column, bytes) in table.columns().iter().zip(cells.iter()) {
            if let Some(bytes) = bytes {
                cell::validate(&column.ty, bytes).expect("a cell of its column");
            }
        }
    }
    assert_eq!(golden_rows().count(), 5);
    let writers = Writer::table();
    assert_eq!(writers.regular()[usize::from(Writer::COUNTER)].name, "counter");
}

#[test]
fn a_writer_of_another_version_is_an_error() {
    let (_, cells) = golden_rows().next().expect("a writer");
    let with = |index: usize, cell: Option<&[u8]>| {
        let cells = cells.iter().enumerate();
        let cells: Cells = cells
            .map(|(at, there)| if at == index { cell } else { there })
            .collect();
        Writer::read(cells.as_row())
    };
    let error = with(2, Some(&[0, 0, 0, 2])).expect_err("another version");
    assert!(error.hint().contains("newer release"), "{error}");
    let unsorted = [&[0, 0, 0, 2][..], &[0, 0, 0, 8], &[0; 8], &[0, 0, 0, 8], &[0; 8]].concat();
    for (index, cell) in [
        (2, None),
        (3, None),
        (5, Some(&[2][..])),
        (6, None),
        (6, Some(&unsorted)),
        (7, Some(&[])),
        (8, Some(&[0])),
    ] {
        let error = with(index, cell).expect_err("damaged");
        assert!(matches!(error, StoredError::Damaged { .. }), "{index}: {error}");
    }
}

proptest! {
    #[test]
    fn any_rows_of_writers_and_intents_are_refused_or_read(
        column in 0..9_usize,
        bytes in proptest::option::of(proptest::collection::vec(any::<u8>(), 0..24)),
    ) {
        for (line, cells) in golden_rows() {
            let changed = cells.iter().enumerate();
            let changed: Cells = changed
                .map(|(at, cell)| if at == column { bytes.as_deref() } else { cell })
                .collect();
            if line[0] == "writer" {
                let _ = Writer::read(changed.as_row());
            } else {
                let _ = Intent::read(changed.as_row());
            }
        }
    }
}
