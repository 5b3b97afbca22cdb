//! Tests of random splits of range maps. Checks that each result is a valid range map, and that
//! keys move to new buckets only step by step.

use proptest::prelude::*;

use super::{SAMPLING, directory, piece};
use crate::buckets::copy::{Clock, DirectoryCopy};
use crate::buckets::{
    Bucket, Cut, Directory, Figures, Floor, Kept, Operation, Protocol, ReadAction, ReadEvent, Reading, Roles,
    Room, Sampling, Span, Stays, Unrouted, WriteAction, WriteEvent, Writing,
};

const NEXT_SAMPLING: Sampling = Sampling {
    unit: 480_000,
    mean: 700,
};

fn cut(edges: &[&[u8]], stays: Stays) -> Cut {
    Cut {
        edges: edges.iter().map(|edge| edge.to_vec()).collect(),
        stays,
        sampling: NEXT_SAMPLING,
        figures: Vec::new(),
    }
}

/// Returns the range map (which bucket holds which keys) after the next step of each unfinished
/// split.
fn advanced(directory: &Directory) -> Option<Directory> {
    directory.advanced(&directory.being_cut(), true, Room::default(), Protocol::default())
}

#[test]
fn a_cut_goes_through_its_steps() {
    let figures = Figures {
        rows: 9,
        ..Figures::default()
    };
    let cut = Cut {
        figures: vec![Some(figures), None, Some(figures)],
        ..cut(&[b"c", b"f"], Stays::First)
    };
    let first = Directory::absent(SAMPLING, Protocol::default());
    let one = first.cut(&cut, Protocol::default()).unwrap();
    assert_eq!(one.cut(&cut, Protocol::default()), None);
    assert_eq!((one.version, one.next_bucket), (1, Bucket(3)));
    let known: Vec<_> = one.pieces.iter().map(|piece| piece.figures).collect();
    assert_eq!(known, cut.figures);
    let roles = |directory: &Directory| directory.pieces[1].roles.clone();
    let role = |read, writes: &[u64], deletes: &[u64], old: &[u64]| Roles {
        read: Bucket(read),
        writes: writes.iter().copied().map(Bucket).collect(),
        deletes: deletes.iter().copied().map(Bucket).collect(),
        old: old.iter().copied().map(Bucket).collect(),
    };
    let expected = [
        role(0, &[], &[1], &[]),
        role(0, &[1], &[], &[]),
        role(1, &[0], &[], &[]),
        role(1, &[], &[], &[0]),
        role(1, &[], &[], &[]),
    ];
    assert_eq!(roles(&one), expected[0]);
    assert_eq!(one.pieces[1].next_sampling, Some(NEXT_SAMPLING));
    let two = advanced(&one).unwrap();
    assert_eq!(roles(&two), expected[1]);
    let three = advanced(&two).unwrap();
    assert_eq!(roles(&three), expected[2]);
    let sampled = &three.pieces[1];
    assert_eq!((sampled.sampling, sampled.next_sampling), (NEXT_SAMPLING, None));
    let four = advanced(&three).unwrap();
    assert_eq!(roles(&four), expected[3]);
    assert_eq!(advanced(&four), None);
    let five = cleared(&four).unwrap();
    assert_eq!(roles(&five), expected[4]);
    assert_eq!(five.pieces[0].sampling, SAMPLING);
}

#[test]
fn several_cuts_are_one_change() {
    let protocol = Protocol::default();
    let figures = |rows| {
        Some(Figures {
            rows,
            ..Figures::default()
        })
    };
    let whole = directory(2, vec![piece(b"", 0), piece(b"m", 1)]);
    let cuts = [
        Cut {
            figures: vec![figures(1), figures(4)],
            ..cut(&[b"c"], Stays::First)
        },
        Cut {
            figures: vec![None, None, figures(2)],
            ..cut(&[b"s", b"u"], Stays::Last)
        },
    ];
    let both = whole.cut_all(&cuts, protocol).unwrap();
    assert_eq!(both.version, whole.version + 1);
    assert_eq!(both.next_bucket, Bucket(whole.next_bucket.0 + 3));
    let starts: Vec<_> = both.pieces.iter().map(|piece| piece.start.as_slice()).collect();
    assert_eq!(starts, [&b""[..], b"c", b"m", b"s", b"u"]);
    let known: Vec<_> = both.pieces.iter().map(|piece| piece.figures).collect();
    assert_eq!(known, [figures(1), figures(4), None, None, figures(2)]);
    assert_eq!(both.cut_all(&cuts, protocol), None, "they are made");
}

#[test]
fn a_cut_too_large_for_one_write_is_several() {
    let protocol = Protocol::default();
    let figures: Vec<_> = (0..6)
        .map(|rows| {
            Some(Figures {
                rows,
                ..Figures::default()
            })
        })
        .collect();
    let room = |pieces, bytes| Room { pieces, bytes };
    for stays in [Stays::First, Stays::Last] {
        let large = Cut {
            figures: figures.clone(),
            ..cut(&[b"a", b"c", b"f", b"mmmm", b"x"], stays)
        };
        let at_once = directory(2, vec![piece(b"", 0)]).cut(&large, protocol).unwrap();
        for (room, parts) in [
            (room(2, 10_000), 3),
            (room(9, 600), 3),
            (room(1, 1), 5),
            (room(5, 10_000), 1),
        ] {
            let cuts = large.clone().in_parts(room);
            assert_eq!(cuts.len(), parts);
            let mut cut = directory(2, vec![piece(b"", 0)]);
            for (done, part) in (1..).zip(&cuts) {
                cut = cut.cut(part, protocol).unwrap();
                let at_rest = cut.pieces.iter().filter(|piece| piece.roles.is_at_rest());
                assert_eq!(at_rest.count(), 1, "after {done}");
            }
            let shown = |directory: &Directory| {
                let pieces = directory.pieces.iter();
                let pieces =
                    pieces.map(|piece| (piece.start.clone(), piece.figures, piece.roles.is_at_rest()));
                pieces.collect::<Vec<_>>()
            };
            assert_eq!(shown(&cut), shown(&at_once));
            assert_eq!(cut.next_bucket, at_once.next_bucket);
        }
    }
}

#[test]
fn a_piece_that_changed_since_is_not_ripe() {
    let protocol = Protocol::default();
    let first = Directory::absent(SAMPLING, protocol);
    let one = first.cut(&cut(&[b"c"], Stays::First), protocol).unwrap();
    let ripe = one.being_cut();
    let again = one.cut(&cut(&[b"f"], Stays::First), protocol).unwrap();
    assert_eq!(again.advanced(&ripe, false, Room::default(), protocol), None);
    let beside = one.cut(&cut(&[b"a"], Stays::First), protocol).unwrap();
    let next = beside.advanced(&ripe, false, Room::default(), protocol).unwrap();
    assert!(!next.pieces[2].roles.writes.is_empty());
    assert!(!next.pieces[1].roles.deletes.is_empty());
}

#[test]
fn neither_writes_nor_reads_below_the_retention_bound() {
    let floor = Floor {
        at: b"c".to_vec(),
        kept: Kept::After,
    };
    let directory = Directory {
        floor: Some(floor),
        ..directory(2, vec![piece(b"", 0), piece(b"f", 1)])
    };
    let protocol = Protocol::default();
    let now = Clock::default();
    let copy = DirectoryCopy::new(directory.clone().into(), now, now, protocol);
    let mut writing = Writing::new(b"b".to_vec(), Operation::Put, Some(Bucket(0)), protocol);
    writing.step(WriteEvent::Begin, now);
    writing.step(WriteEvent::Stamped(5), now);
    let stray = WriteAction::Remove {
        bucket: Bucket(0),
        stamp: 5,
    };
    let refused = writing.step(WriteEvent::Copy(copy.clone()), now);
    assert_eq!(refused, [stray, WriteAction::Refuse(Unrouted::BelowFloor)]);
    let mut reading = Reading::new(Span::all(), false, protocol);
    reading.step(ReadEvent::Begin, now);
    let ReadAction::Slices { slices, rest } = reading.step(ReadEvent::Copy(copy), now) else {
        panic!("it is read");
    };
    assert_eq!(rest, None);
    let starts: Vec<_> = slices.iter().map(|slice| slice.span.start.as_slice()).collect();
    assert_eq!(starts, [b"c", b"f"]);
}

#[test]
fn a_reading_says_what_another_window_has() {
    let window = Directory {
        end: Some(b"m".to_vec()),
        ..directory(2, vec![piece(b"", 0), piece(b"f", 1)])
    };
    let span = Span {
        start: b"g".to_vec(),
        end: Some(b"z".to_vec()),
    };
    assert_eq!(window.slices(&span).len(), 1);
    let rest = window.rest(&span).unwrap();
    assert_eq!((rest.start, rest.end), (b"m".to_vec(), Some(b"z".to_vec())));
    assert_eq!(
        window.takers(b"m", Operation::Put, Protocol::default()),
        Err(Unrouted::OutsideWindow)
    );
}

#[test]
fn a_backward_reading_begins_at_the_last_key() {
    let window = directory(2, vec![piece(b"f", 0), piece(b"m", 1)]);
    let span = Span {
        start: b"c".to_vec(),
        end: Some(b"p".to_vec()),
    };
    let (protocol, now) = (Protocol::default(), Clock::default());
    let copy = DirectoryCopy::new(window.into(), now, now, protocol);
    let mut reading = Reading::new(span, true, protocol);
    assert_eq!(reading.step(ReadEvent::Begin, now), ReadAction::Take);
    let ReadAction::Slices { slices, rest } = reading.step(ReadEvent::Copy(copy), now) else {
        panic!("it is read");
    };
    let spans: Vec<_> = slices
        .iter()
        .map(|slice| (slice.bucket.0, slice.span.clone()))
        .collect();
    let span = |start: &[u8], end: &[u8]| Span {
        start: start.to_vec(),
        end: Some(end.to_vec()),
    };
    assert_eq!(spans, [(1, span(b"m", b"p")), (0, span(b"f", b"m"))]);
    assert_eq!(rest, Some(span(b"c", b"f")));
}

#[derive(Debug, Clone)]
enum Step {
    Cut(Vec<u8>, bool),
    Advance,
    Clear,
}

/// Returns the range map after the old buckets of all ranges that are not being split are cleared.
fn cleared(directory: &Directory) -> Option<Directory> {
    directory.cleared(&directory.clearable(&directory.left()))
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let edges = proptest::collection::vec(1..60_u8, 1..4);
    let step = prop_oneof![
        (edges, any::<bool>()).prop_map(|(edges, first)| Step::Cut(edges, first)),
        Just(Step::Advance),
        Just(Step::Advance),
        Just(Step::Clear),
    ];
    proptest::collection::vec(step, 1..40)
}

proptest! {
    #[test]
    fn splits_at_any_time_leave_a_valid_range_map(steps in steps()) {
        let protocol = Protocol::default();
        let mut now = Directory::absent(SAMPLING, protocol);
        for step in steps {
            let next = match step {
                Step::Cut(mut edges, is_first) => {
                    edges.sort_unstable();
                    edges.dedup();
                    let edges: Vec<_> = edges.iter().map(std::slice::from_ref).collect();
                    let stays = if is_first { Stays::First } else { Stays::Last };
                    now.cut(&cut(&edges, stays), protocol)
                }
                Step::Advance => advanced(&now),
                Step::Clear => cleared(&now),
            };
            let Some(next) = next else { continue };
            prop_assert_eq!(next.check(b""), Ok(()));
            prop_assert_eq!(next.version, now.version + 1);
            for key in 0..64_u8 {
                // Processes with the previous and with the next range map run at the same time. So
                // each must write to the bucket that the other reads.
                let takers = now.takers(&[key], Operation::Put, protocol).unwrap();
                let read = next.piece_of(&[key]).unwrap().roles.read;
                prop_assert!(takers.contains(&read), "{:?} of {:?}", read, takers);
                let before = now.piece_of(&[key]).unwrap().roles.read;
                let takers = next.takers(&[key], Operation::Put, protocol).unwrap();
                prop_assert!(takers.contains(&before), "{:?} of {:?}", before, takers);
            }
            now = next;
        }
        // If no more splits begin, all of them complete.
        for _ in 0..4 {
            now = advanced(&now).unwrap_or(now);
        }
        prop_assert!(!now.is_being_cut());
    }
}
