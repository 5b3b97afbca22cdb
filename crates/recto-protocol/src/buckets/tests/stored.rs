//! Tests of the stored columns of range maps. Checks that their format never changes, and that
//! invalid content is an error.

use proptest::prelude::*;
use recto_model::golden::bytes_of_hex;

use super::{directory, piece};
use crate::buckets::stored::{piece_columns, read_directory, static_columns};
use crate::buckets::{
    Bucket, Damage, Directory, Figures, Floor, Kept, Key, Piece, PieceColumns, Roles, Span, StaticColumns,
    StoredDirectory, StoredError,
};

/// Returns the rows of all ranges.
pub(super) fn columns_of(directory: &Directory) -> Vec<PieceColumns> {
    let columns = |(span, piece): (Span, &Piece)| piece_columns(piece, span.end.as_ref());
    directory.spans().map(columns).collect()
}

fn stored(directory: &Directory) -> StoredDirectory {
    StoredDirectory {
        shared: static_columns(directory),
        pieces: columns_of(directory),
        end: directory.end.clone(),
    }
}

fn sample() -> Directory {
    let mut moving = piece(b"c", 1);
    moving.roles.writes = [Bucket(0), Bucket(3)].into();
    moving.roles.deletes = [Bucket(4)].into();
    moving.next_sampling = Some(crate::buckets::Sampling {
        unit: 480_000,
        mean: 1_100,
    });
    moving.figures = Some(Figures {
        rows: 40_960,
        rows_variance: 2_000_000,
        bytes: 10_000_000,
        bytes_variance: 0,
    });
    let mut left = piece(b"f", 2);
    left.roles.old = [Bucket(1)].into();
    Directory {
        floor: Some(Floor {
            at: b"b".to_vec(),
            kept: Kept::After,
        }),
        ..directory(9, vec![piece(b"", 0), moving, left])
    }
}

/// Decodes a list of bucket ids from a field of the golden file.
fn buckets(text: &str) -> std::collections::BTreeSet<Bucket> {
    let numbers = text.split(',').filter(|text| *text != "-");
    numbers
        .map(|text| Bucket(text.parse().expect("a number")))
        .collect()
}

/// Returns a range map of one range, with the buckets in a line of the golden file.
fn with_buckets(parts: &[&str]) -> Directory {
    let roles = Roles {
        read: Bucket(500),
        writes: buckets(parts[1]),
        deletes: buckets(parts[2]),
        old: buckets(parts[3]),
    };
    Directory {
        next_bucket: Bucket(u64::MAX >> 1),
        pieces: vec![Piece {
            roles,
            ..piece(b"", 500)
        }],
        ..sample()
    }
}

#[test]
fn bytes_of_version_2_are_as_ever() {
    let lines = include_str!("golden/buckets-v2.txt").lines();
    let mut seen = 0;
    for line in lines.filter(|line| !line.starts_with('#')) {
        let parts: Vec<_> = line.split("; ").collect();
        let mut directory = with_buckets(&parts);
        directory.end = (parts[4] != "-").then(|| bytes_of_hex(parts[4]));
        let columns = piece_columns(&directory.pieces[0], directory.end.as_ref());
        assert_eq!(columns.further, Some(bytes_of_hex(parts[5])), "{line}");
        assert_eq!(read_directory(stored(&directory), b""), Ok(directory), "{line}");
        seen += 1;
    }
    assert!(seen > 5, "{seen} lines");
}

#[test]
fn bytes_of_version_1_can_be_read() {
    let lines = include_str!("golden/buckets-v1.txt").lines();
    let mut seen = 0;
    for line in lines.filter(|line| !line.starts_with('#')) {
        let parts: Vec<_> = line.split("; ").collect();
        let mut directory = sample();
        let mut stored_further = None;
        match parts[0] {
            "further" => {
                directory = with_buckets(&parts);
                stored_further = Some(bytes_of_hex(parts[4]));
            }
            "floor" => {
                let kept = if parts[1] == "after" {
                    Kept::After
                } else {
                    Kept::Before
                };
                let at = bytes_of_hex(parts[2]);
                directory.floor = Some(Floor { at, kept });
                let columns = static_columns(&directory);
                assert_eq!(columns.floor, Some(bytes_of_hex(parts[3])), "{line}");
            }
            other => panic!("{other}"),
        }
        let mut stored = stored(&directory);
        if stored_further.is_some() {
            stored.pieces[0].further = stored_further;
        }
        assert_eq!(read_directory(stored, b""), Ok(directory), "{line}");
        seen += 1;
    }
    assert!(seen > 5, "{seen} lines");
}

#[test]
fn round_trips_a_range_map() {
    let directory = sample();
    assert_eq!(read_directory(stored(&directory), b""), Ok(directory));
}

/// Returns the rows of a range map whose ranges from `b` to `e` were joined, with the former rows of these ranges.
fn with_returned_rows(end: Option<Key>) -> (Directory, StoredDirectory) {
    let before = directory(
        3,
        [(b"b", 1), (b"c", 2), (b"d", 3), (b"e", 4)]
            .map(|(start, bucket)| piece(start, bucket))
            .to_vec(),
    );
    let mut joined = directory(9, vec![piece(b"b", 5), piece(b"e", 4)]);
    joined.end = end;
    let mut rows = stored(&joined);
    let returned = columns_of(&before).into_iter().skip(1).take(2);
    rows.pieces.splice(1..1, returned);
    (joined, rows)
}

#[test]
fn leaves_out_rows_of_removed_ranges() {
    for end in [None, Some(b"k".to_vec())] {
        let (joined, rows) = with_returned_rows(end);
        assert_eq!(read_directory(rows.clone(), b"b"), Ok(joined.clone()));
        // The returned row is the row behind the window.
        let (mut joined, mut rows) = (joined, rows);
        joined.pieces.truncate(1);
        joined.end = Some(b"e".to_vec());
        rows.pieces.truncate(1);
        rows.end = Some(b"c".to_vec());
        assert_eq!(read_directory(rows, b"b"), Ok(joined));
    }
    // The removed ranges are behind the last range.
    let last = directory(9, vec![piece(b"", 5)]);
    let mut rows = stored(&last);
    rows.pieces
        .extend(columns_of(&directory(3, vec![piece(b"c", 1), piece(b"d", 2)])));
    assert_eq!(read_directory(rows, b""), Ok(last));
}

#[test]
fn a_missing_row_is_a_gap() {
    let whole = directory(9, vec![piece(b"", 0), piece(b"c", 1), piece(b"f", 2)]);
    let mut rows = stored(&whole);
    rows.pieces.remove(1);
    let gap = Err(Damage::Gap(b"f".to_vec()).into());
    assert_eq!(read_directory(rows.clone(), b""), gap);
    // Rows of version 1 have no ends, so the gap is not seen.
    rows.pieces[0].further = None;
    assert!(read_directory(rows, b"").is_ok());
}

/// Returns the error of a range map whose columns were damaged by `spoil`.
fn said(spoil: impl Fn(&mut StaticColumns, &mut PieceColumns)) -> StoredError {
    let mut stored = stored(&sample());
    spoil(&mut stored.shared, &mut stored.pieces[1]);
    read_directory(stored, b"").expect_err("it is spoilt")
}

#[test]
fn a_newer_form_is_refused_and_said_to_be_newer() {
    for error in [
        said(|_, piece| piece.further = Some(vec![3, 0, 0, 0, 0])),
        said(|shared, _| shared.floor = Some(vec![3, 0])),
    ] {
        assert!(
            matches!(error, StoredError::UnknownVersion { version: 3, .. }),
            "{error}"
        );
        assert!(error.hint().contains("newer release"), "{}", error.hint());
    }
}

#[test]
fn numbers_that_no_cut_gives_are_damage() {
    let life = |life_ms, longest_ms| Damage::Life { life_ms, longest_ms };
    for (error, damage) in [
        (said(|shared, _| shared.life_ms = 0), life(0, 2_000)),
        (said(|shared, _| shared.longest_ms = 1_999), life(2_000, 1_999)),
        (said(|shared, _| shared.longest_ms = 20_001), life(2_000, 20_001)),
        (
            said(|shared, _| shared.version = 0),
            Damage::Number {
                what: "version",
                value: 0,
            },
        ),
        (
            said(|shared, _| shared.next_bucket = -1),
            Damage::Number {
                what: "next bucket",
                value: -1,
            },
        ),
        (
            said(|_, piece| piece.bucket = -4),
            Damage::Number {
                what: "bucket",
                value: -4,
            },
        ),
        (
            said(|_, piece| piece.sampling[0] = 0),
            Damage::Sampling {
                start: b"c".to_vec(),
                unit: 0,
                mean: 64,
            },
        ),
        (
            said(|_, piece| piece.next_sampling = Some([9, -1])),
            Damage::Sampling {
                start: b"c".to_vec(),
                unit: 9,
                mean: -1,
            },
        ),
        (
            said(|_, piece| piece.figures = Some([1, 2, -3, 4])),
            Damage::Figures(b"c".to_vec()),
        ),
    ] {
        assert_eq!(error, StoredError::Damaged(damage));
        assert!(error.hint().contains("recto repair"), "{}", error.hint());
    }
}

proptest! {
    #[test]
    fn any_bytes_are_read_as_what_is_written_so_or_not_at_all(
        further in proptest::option::of(proptest::collection::vec(0..4_u8, 0..40)),
        floor in proptest::option::of(proptest::collection::vec(0..3_u8, 0..8)),
    ) {
        let mut stored = stored(&sample());
        stored.shared.next_bucket = i64::MAX;
        stored.pieces[1].further = further;
        stored.shared.floor = floor;
        if let Ok(read) = read_directory(stored.clone(), b"") {
            let again = self::stored(&read);
            // Rows of version 1 have no ends, so they are written in another form.
            if stored.pieces[1].further.as_ref().is_some_and(|further| further[0] == 2) {
                prop_assert_eq!(again, stored);
            } else {
                prop_assert_eq!(read_directory(again, b""), Ok(read));
            }
        }
    }

    #[test]
    fn cut_short_or_prolonged_they_are_refused(length in 0..34_usize, more in 1..9_usize) {
        let columns = piece_columns(&sample().pieces[1], None);
        let further = columns.further.expect("it has further ones");
        prop_assert_eq!(further.len(), 29);
        let (cut, long) = (further[..length.min(28)].to_vec(), [further, vec![0; more]].concat());
        for further in [cut, long] {
            let error = said(|_, piece| piece.further = Some(further.clone()));
            let is_damaged = matches!(error, StoredError::Bytes { .. });
            prop_assert!(is_damaged, "{}", error);
        }
    }
}
