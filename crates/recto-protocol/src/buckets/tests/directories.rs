//! Tests of range maps: which range a key belongs to, and which range maps are rejected as damaged.

use std::collections::BTreeSet;

use super::{SAMPLING, directory, piece};
use crate::buckets::limits::{MAX_FURTHER_BUCKETS, MAX_SLICES, MAX_WINDOW_PIECES};
use crate::buckets::{Bucket, Damage, Directory, Floor, Kept, Protocol, Roles, Span};

fn buckets(numbers: &[u64]) -> BTreeSet<Bucket> {
    numbers.iter().copied().map(Bucket).collect()
}

#[test]
fn all_keys_are_in_bucket_0_without_a_range_map() {
    let absent = Directory::absent(SAMPLING, Protocol::default());
    assert!(absent.is_whole());
    for key in [&b""[..], b"a", b"\xff\xff"] {
        assert_eq!(
            absent.piece_of(key).map(|piece| piece.roles.read),
            Some(Bucket(0))
        );
    }
    assert_eq!(absent.check(b""), Ok(()));
}

#[test]
fn a_key_belongs_to_the_piece_that_begins_with_it_or_before() {
    let directory = directory(3, vec![piece(b"", 0), piece(b"c", 1), piece(b"cc", 2)]);
    let read = |key: &[u8]| directory.piece_of(key).map(|piece| piece.roles.read.0);
    let expected = [
        (&b"b"[..], 0),
        (b"bz", 0),
        (b"c", 1),
        (b"cb", 1),
        (b"cc", 2),
        (b"d", 2),
    ];
    for (key, bucket) in expected {
        assert_eq!(read(key), Some(bucket), "{key:?}");
    }
    for (span, piece) in directory.spans() {
        assert!(span.has(&piece.start));
        assert!(span.end.is_none_or(|end| read(&end) != Some(piece.roles.read.0)));
    }
}

#[test]
fn a_window_knows_nothing_of_what_is_outside() {
    let mut window = directory(9, vec![piece(b"c", 3), piece(b"e", 4)]);
    window.end = Some(b"g".to_vec());
    assert!(!window.is_whole());
    assert_eq!(window.piece_of(b"b"), None);
    assert_eq!(window.piece_of(b"g"), None);
    assert_eq!(window.piece_of(b"fz"), Some(&window.pieces[1]));
    assert_eq!(window.check(b"d"), Ok(()));
    assert_eq!(window.check(b"b"), Err(Damage::Gap(b"c".to_vec())));
}

#[test]
fn spans_have_in_common_what_is_in_both() {
    let span = |start: &[u8], end: Option<&[u8]>| Span {
        start: start.to_vec(),
        end: end.map(<[u8]>::to_vec),
    };
    let all = Span::all();
    let middle = span(b"c", Some(b"f"));
    assert_eq!(all.common(&middle), Some(middle.clone()));
    assert_eq!(middle.common(&span(b"d", None)), Some(span(b"d", Some(b"f"))));
    assert_eq!(
        middle.common(&span(b"a", Some(b"d"))),
        Some(span(b"c", Some(b"d")))
    );
    assert_eq!(middle.common(&span(b"f", None)), None);
    assert_eq!(middle.common(&span(b"a", Some(b"c"))), None);
}

#[test]
fn below_a_floor_is_what_is_older() {
    let floor = |kept| Floor {
        at: b"m".to_vec(),
        kept,
    };
    assert!(floor(Kept::After).hides(b"l") && !floor(Kept::After).hides(b"m"));
    assert!(floor(Kept::Before).hides(b"m") && !floor(Kept::Before).hides(b"l"));
}

/// Returns damaged range maps with the expected errors.
fn damages() -> Vec<(Directory, Damage)> {
    let whole = || directory(5, vec![piece(b"", 0), piece(b"c", 1), piece(b"f", 2)]);
    let spoilt = |spoil: &dyn Fn(&mut Directory)| {
        let mut directory = whole();
        spoil(&mut directory);
        directory
    };
    let start = b"c".to_vec();
    let twice = |bucket| Damage::Twice {
        bucket,
        start: start.clone(),
    };
    let out_of_turn = |bucket| Damage::OutOfTurn {
        bucket,
        start: start.clone(),
    };
    let many = |count: usize| {
        (0..count)
            .map(|at| piece(&(at as u32).to_be_bytes(), 4))
            .collect()
    };
    vec![
        (spoilt(&|it| it.pieces.clear()), Damage::Empty),
        (
            spoilt(&|it| drop(it.pieces.remove(0))),
            Damage::Gap(start.clone()),
        ),
        (
            spoilt(&|it| it.pieces[2].start = b"c".to_vec()),
            Damage::Overlap(start.clone()),
        ),
        (
            spoilt(&|it| it.pieces[2].start = b"b".to_vec()),
            Damage::Overlap(b"b".to_vec()),
        ),
        (
            spoilt(&|it| it.end = Some(b"f".to_vec())),
            Damage::Overlap(b"f".to_vec()),
        ),
        (
            spoilt(&|it| it.pieces[2].start = vec![b'x'; 70_000]),
            Damage::LongEdge(70_000),
        ),
        (
            directory(5, many(MAX_WINDOW_PIECES + 1)),
            Damage::TooMany(MAX_WINDOW_PIECES + 1),
        ),
        (
            spoilt(&|it| it.pieces[1].roles.writes = buckets(&[5])),
            Damage::NotMade {
                bucket: Bucket(5),
                next: Bucket(5),
            },
        ),
        (
            spoilt(&|it| {
                it.pieces[1].roles.writes = buckets(&[3]);
                it.pieces[1].roles.deletes = buckets(&[3]);
            }),
            twice(Bucket(3)),
        ),
        (
            spoilt(&|it| it.pieces[1].roles.old = buckets(&[1])),
            twice(Bucket(1)),
        ),
        (
            spoilt(&|it| it.pieces[2].roles.read = Bucket(0)),
            Damage::Scattered(Bucket(0)),
        ),
        (
            spoilt(&|it| it.pieces[1].roles.deletes = buckets(&[0])),
            out_of_turn(Bucket(0)),
        ),
        (
            spoilt(&|it| it.pieces[1].roles.old = buckets(&[4])),
            out_of_turn(Bucket(4)),
        ),
        (
            spoilt(&|it| {
                it.next_bucket = Bucket(90);
                let crowd = 0..=MAX_FURTHER_BUCKETS as u64;
                it.pieces[1].roles.writes = crowd.map(|number| Bucket(40 + number)).collect();
            }),
            Damage::Crowded(start.clone()),
        ),
    ]
}

#[test]
fn a_bucket_may_be_read_on_both_sides_of_what_was_cut_out_of_it() {
    let mut directory = directory(5, vec![piece(b"", 0), piece(b"c", 3), piece(b"f", 0)]);
    assert_eq!(directory.check(b""), Err(Damage::Scattered(Bucket(0))));
    directory.pieces[2].roles.deletes = buckets(&[4]);
    assert_eq!(directory.check(b""), Ok(()));
    directory.pieces.push(piece(b"i", 0));
    assert_eq!(directory.check(b""), Err(Damage::Scattered(Bucket(0))));
    directory.pieces[0].roles.writes = buckets(&[2]);
    assert_eq!(directory.check(b""), Ok(()));
}

#[test]
fn a_join_may_be_done_in_any_order() {
    let moving = Roles {
        writes: buckets(&[4]),
        ..Roles::of(Bucket(1))
    };
    let mut directory = directory(5, vec![piece(b"", 4), piece(b"c", 1), piece(b"f", 4)]);
    assert_eq!(directory.check(b""), Err(Damage::Scattered(Bucket(4))));
    directory.pieces[1].roles = moving;
    assert_eq!(directory.check(b""), Ok(()));
    directory.pieces[0].roles = Roles::of(Bucket(0));
    directory.pieces.push(piece(b"i", 0));
    assert_eq!(directory.check(b""), Err(Damage::Scattered(Bucket(0))));
}

#[test]
fn damage_is_named() {
    for (directory, damage) in damages() {
        assert_eq!(directory.check(b""), Err(damage));
    }
}

/// Checks that the slices of a hundred ranges can be returned in several parts. Adjacent ranges share a
/// bucket, and some ranges are below the retention bound or outside the window.
#[test]
fn slices_are_had_some_at_a_time() {
    let pieces =
        (0..100_u8).map(|number| piece(&[number], u64::from(number) / 2 * 2 + u64::from(number % 3 / 2)));
    let mut window = directory(9, pieces.collect());
    window.end = Some(vec![100]);
    window.floor = Some(Floor {
        at: vec![7, 7],
        kept: Kept::After,
    });
    let spans = [
        Span::all(),
        Span {
            start: vec![3],
            end: Some(vec![90, 1]),
        },
        Span {
            start: vec![9],
            end: Some(vec![9, 1]),
        },
        Span {
            start: vec![1],
            end: Some(vec![2]),
        },
    ];
    for span in spans {
        for is_backward in [false, true] {
            let mut all = window.slices(&span);
            let mut left = Some(span.clone());
            let mut found = Vec::new();
            while let Some(rest) = left {
                let (slices, behind) = window.first_slices(&rest, is_backward);
                assert!(slices.len() <= MAX_SLICES);
                let is_over = slices.is_empty();
                found.extend(slices);
                left = behind.filter(|_| !is_over);
            }
            if is_backward {
                all.reverse();
            }
            assert_eq!(found, all, "{span:?}");
        }
    }
}
