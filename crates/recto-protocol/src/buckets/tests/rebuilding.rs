//! Tests of the reconstruction of damaged range maps. Checks that the result is always valid, and
//! contains all buckets.

use proptest::prelude::*;

use super::stored::columns_of;
use super::{SAMPLING, directory, piece};
use crate::buckets::stored::{piece_columns, read_directory, static_columns};
use crate::buckets::{
    Bucket, Directory, Floor, HeldBucket, Kept, PieceRemains, Protocol, Remains, StoredDirectory, StoredError,
};

const VERSION: u64 = 1_767_225_600_000_000;

fn held(bucket: u64, first: &[u8], last: &[u8]) -> HeldBucket {
    HeldBucket {
        bucket: Bucket(bucket),
        first: first.to_vec(),
        last: last.to_vec(),
    }
}

fn rebuilt(remains: &Remains, held: &[HeldBucket]) -> Directory {
    let rebuilt = remains.rebuilt(held, SAMPLING, VERSION, Protocol::default());
    let rebuilt = rebuilt.unwrap();
    let stored = StoredDirectory {
        shared: static_columns(&rebuilt),
        pieces: columns_of(&rebuilt),
        end: None,
    };
    assert_eq!(read_directory(stored, &[]).as_ref(), Ok(&rebuilt));
    assert_eq!(Remains::from(&rebuilt).directory().as_ref(), Ok(&rebuilt));
    assert!(
        held.iter().all(|one| one.bucket < rebuilt.next_bucket),
        "{rebuilt:?}"
    );
    rebuilt
}

fn read(directory: &Directory) -> Vec<(&[u8], u64)> {
    let pieces = directory.pieces.iter();
    pieces
        .map(|piece| (piece.start.as_slice(), piece.roles.read.0))
        .collect()
}

/// Returns a range map with three ranges, of which the last is being split, and the content of each
/// bucket.
fn whole() -> (Directory, Vec<HeldBucket>) {
    let mut moving = piece(b"m", 2);
    moving.roles.writes = [Bucket(1)].into();
    let whole = directory(4, vec![piece(b"", 0), piece(b"d", 3), moving]);
    let held = vec![
        held(0, b"a", b"c"),
        held(1, b"d", b"y"),
        held(2, b"m", b"z"),
        held(3, b"e", b"l"),
    ];
    (whole, held)
}

#[test]
fn keeps_readable_ranges() {
    let (whole, held) = whole();
    let mut remains = Remains::from(&whole);
    assert_eq!(remains.directory(), Ok(whole.clone()));
    remains.next_bucket = Some(1);
    assert!(remains.directory().is_err());
    let raised = rebuilt(&remains, &held);
    assert_eq!((raised.version, raised.next_bucket), (8, Bucket(4)));
    assert_eq!(raised.pieces, whole.pieces, "who is at it goes on");
    assert_eq!(raised.longest_ms, Protocol::default().long_life_ms);
    // Bucket 9 exists, although the stored next id is lower, so the new next id must be greater
    // than 9.
    let mut more = held.clone();
    more.push(self::held(9, b"f", b"g"));
    assert_eq!(rebuilt(&remains, &more).next_bucket, Bucket(10));
}

#[test]
fn rebuilds_unreadable_ranges_from_existing_buckets() {
    let (whole, held) = whole();
    let mut remains = Remains::from(&whole);
    remains.pieces[1].columns = None;
    let unreadable = rebuilt(&remains, &held);
    assert_eq!(read(&unreadable), [(&b""[..], 0), (b"d", 3), (b"m", 2)]);
    // If the bucket of the second range is unknown, the range gets the newest bucket that has rows
    // there and that no range names. An older bucket may only have rows from before a split.
    remains.pieces[1].bucket = None;
    assert_eq!(read(&rebuilt(&remains, &held)), read(&unreadable));
    // The first range is missing, so a range is added that begins at the first key.
    let mut remains = Remains::from(&whole);
    remains.pieces.remove(0);
    assert!(remains.directory().is_err());
    assert_eq!(read(&rebuilt(&remains, &held)), read(&unreadable));
    // Two ranges name bucket 2. It stays with the range in which it has rows.
    let mut remains = Remains::from(&whole);
    remains.pieces[0] = PieceRemains::from_bucket(b"", 2);
    assert!(remains.directory().is_err());
    assert_eq!(read(&rebuilt(&remains, &held)), read(&unreadable));
    // The shared columns are unreadable, so the version and the next bucket id get new values.
    let nothing = Remains {
        pieces: remains.pieces.clone(),
        ..Remains::default()
    };
    let new = rebuilt(&nothing, &held);
    assert_eq!((new.version, new.next_bucket), (VERSION, Bucket(4 + (1 << 32))));
}

#[test]
fn keeps_unfinished_joins_as_one_run() {
    let joined = |start: &[u8], bucket| {
        let mut piece = piece(start, bucket);
        piece.roles.deletes = [Bucket(4)].into();
        piece
    };
    let (_, held) = whole();
    let whole = directory(5, vec![joined(b"", 0), joined(b"d", 3), joined(b"m", 2)]);
    let mut remains = Remains::from(&whole);
    assert_eq!(remains.directory(), Ok(whole.clone()));
    remains.next_bucket = Some(1);
    assert_eq!(rebuilt(&remains, &held).pieces, whole.pieces);
    // The range in the middle has lost its join, so only one of the others may keep the bucket of
    // the join.
    remains.pieces[1].columns = None;
    let broken = rebuilt(&remains, &held);
    assert_eq!(read(&broken), [(&b""[..], 0), (b"d", 3), (b"m", 2)]);
    let being_joined = broken.pieces.iter().filter(|piece| !piece.roles.is_at_rest());
    assert_eq!(being_joined.count(), 1);
}

#[test]
fn rebuilds_a_missing_range_map_from_buckets() {
    let gone = Remains::default();
    let held = [
        held(0, b"a", b"x"),
        held(1, b"d", b"h"),
        held(2, b"i", b"z"),
        held(4, b"e", b"f"),
    ];
    // Bucket 0 still has old rows in the ranges of other buckets. So has bucket 1, from which
    // bucket 4 was split off.
    let rebuilt_of = |held: &[HeldBucket]| rebuilt(&gone, held);
    assert_eq!(
        read(&rebuilt_of(&held)),
        [(&b""[..], 0), (b"d", 1), (b"e", 4), (b"i", 2)]
    );
    let within = [self::held(0, b"k", b"l"), held[2].clone()];
    assert_eq!(
        read(&rebuilt_of(&within)),
        [(&b""[..], 2)],
        "no one is read there"
    );
    assert_eq!(read(&rebuilt_of(&[])), [(&b""[..], 0)]);
}

#[test]
fn rejects_range_maps_of_newer_releases() {
    let (whole, held) = whole();
    let refused = |remains: &Remains| remains.rebuilt(&held, SAMPLING, VERSION, Protocol::default());
    let mut remains = Remains::from(&whole);
    remains.pieces[2].columns.as_mut().unwrap().further = Some(vec![3, 0]);
    assert!(matches!(
        refused(&remains),
        Err(StoredError::UnknownVersion { .. })
    ));
    // Rows beyond the retention bound must not reappear, so an unreadable bound is an error.
    let mut remains = Remains::from(&Directory {
        floor: Some(Floor {
            at: b"b".to_vec(),
            kept: Kept::After,
        }),
        ..whole
    });
    assert!(rebuilt(&remains, &held).floor.is_some());
    remains.floor = Some(vec![1, 9]);
    assert!(matches!(refused(&remains), Err(StoredError::Bytes { .. })));
}

impl PieceRemains {
    fn from_bucket(start: &[u8], bucket: u64) -> Self {
        let mut columns = piece_columns(&piece(start, bucket), None);
        columns.further = None;
        Self {
            start: start.to_vec(),
            bucket: Some(columns.bucket),
            columns: Some(columns),
        }
    }
}

proptest! {
    #[test]
    fn rebuilds_a_valid_range_map_from_any_remains(
        pieces in prop::collection::btree_map(prop::collection::vec(any::<u8>(), 0..2), (any::<bool>(), -1..6_i64), 0..300),
        shared in prop::array::uniform4(prop::option::of(-1..9_i64)),
        ranges in prop::collection::btree_map(0..9_u64, (any::<u8>(), any::<u8>()), 0..9),
    ) {
        let pieces = pieces.into_iter().map(|(start, (is_whole, bucket))| {
            let mut piece = PieceRemains::from_bucket(&start, bucket.unsigned_abs());
            piece.bucket = (bucket > -1).then_some(bucket);
            piece.columns = piece.columns.filter(|_| is_whole && bucket > -1);
            piece
        });
        let [version, next_bucket, life_ms, longest_ms] = shared;
        let remains = Remains { version, next_bucket, life_ms, longest_ms, floor: None, pieces: pieces.collect() };
        let held: Vec<_> = ranges
            .into_iter()
            .map(|(bucket, (one, other))| held(bucket, &[one.min(other)], &[one.max(other)]))
            .collect();
        let rebuilt = remains.rebuilt(&held, SAMPLING, VERSION, Protocol::default()).unwrap();
        prop_assert_eq!(Remains::from(&rebuilt).directory(), Ok(rebuilt.clone()));
        prop_assert!(held.iter().all(|one| one.bucket < rebuilt.next_bucket));
        prop_assert!(version.is_none_or(|version| rebuilt.version.cast_signed() > version));
    }
}
