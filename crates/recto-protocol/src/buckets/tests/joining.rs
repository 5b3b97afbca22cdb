//! Model of a join of three ranges, one of which contains the row. Meanwhile, other processes
//! write, delete and read the row, split the ranges, or continue the join. For each rule of joins,
//! a test disables the rule and finds a broken invariant.

use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;

use super::model::{B1, B2, B5, B6, Config};
use super::places::check_places_by_read;
use super::store::put_window;
use super::stored::columns_of;
use super::{SAMPLING, directory, piece};
use crate::buckets::limits::MAX_JOINED_PIECES;
use crate::buckets::rules::Rule;
use crate::buckets::stored::{read_directory, static_columns};
use crate::buckets::{
    Bucket, Cut, Directory, Figures, Floor, Join, Kept, Key, Operation, Piece, PieceColumns, Protocol, Roles,
    Room, Sampling, Span, SplitAction, SplitEvent, Splitting, Stays, StoredDirectory, StoredError,
};

use Operation::{Delete, Put};

/// Returns the buckets of a range that is read in the bucket `read` and is moving to the bucket
/// `to`.
fn moving(read: u64, to: u64) -> Roles {
    Roles {
        deletes: [Bucket(to)].into(),
        ..of(read)
    }
}

/// Returns the buckets of a range that has moved from the bucket `old` to the bucket `read`.
fn moved(read: u64, old: u64) -> Roles {
    Roles {
        old: [Bucket(old)].into(),
        ..of(read)
    }
}

fn of(read: u64) -> Roles {
    Roles::of(Bucket(read))
}

fn cut(edges: &[&str], stays: Stays) -> Cut {
    Cut {
        edges: edges.iter().map(|edge| edge.as_bytes().to_vec()).collect(),
        stays,
        sampling: SAMPLING,
        figures: Vec::new(),
    }
}

fn join(pieces: &[(&str, u64)]) -> Join {
    let pieces = pieces.iter();
    Join {
        pieces: pieces
            .map(|(start, read)| (start.as_bytes().to_vec(), Bucket(*read)))
            .collect(),
        sampling: SAMPLING,
        figures: Vec::new(),
    }
}

fn span(start: &str, end: Option<&str>) -> Span {
    Span {
        start: start.into(),
        end: end.map(Into::into),
    }
}

const ALL: [(&str, u64); 3] = [("", 0), ("f", 1), ("x", 2)];

/// Returns a model in which three ranges are joined, while these writers use the row of the middle
/// range.
fn joined(writers: &[&[Operation]]) -> Config {
    Config {
        has_row: true,
        row_bucket: 1,
        pieces: vec![("", of(0)), ("f", of(1)), ("x", of(2))],
        writers: writers.iter().map(|script| script.to_vec()).collect(),
        reads: true,
        splitters: vec![None],
        joins: vec![Some(join(&ALL))],
        ..Config::default()
    }
}

/// Returns the model of `joined` with a second process, which continues an unfinished join.
fn continued(writers: &[&[Operation]]) -> Config {
    let mut config = joined(writers);
    config.splitters.push(None);
    config
}

#[test]
fn a_writer_and_a_deleter() {
    joined(&[&[Put], &[Delete]]).holds("join: a writer and a deleter");
}

#[test]
#[ignore = "slow: models with up to 3 million states, minutes"]
fn a_writer_and_a_deleter_and_a_lost_request() {
    let config = Config {
        losses: 1,
        ..joined(&[&[Put], &[Delete]])
    };
    config.holds("join: a writer, a deleter and a lost request");
}

/// Checks joins of three ranges, of which the first or the last contains the row.
fn holds_in_the_first_or_last_range(writers: &[&[Operation]]) {
    for (starts, row_bucket) in [(["", "p", "x"], 0), (["", "c", "f"], 2)] {
        let all: Vec<(&'static str, u64)> = starts.into_iter().zip(0..).collect();
        let config = Config {
            row_bucket,
            pieces: all.iter().map(|(start, read)| (*start, of(*read))).collect(),
            joins: vec![Some(join(&all))],
            ..joined(writers)
        };
        config.holds("join: the row is in the first or last range");
    }
}

#[test]
fn the_row_is_in_the_first_or_last_range() {
    holds_in_the_first_or_last_range(&[&[Put, Delete]]);
}

#[test]
#[ignore = "slow: models with 700,000 states, a minute"]
fn the_row_is_in_the_first_or_last_range_of_two_writers() {
    holds_in_the_first_or_last_range(&[&[Put], &[Delete]]);
}

#[test]
fn a_row_is_written_and_deleted() {
    joined(&[&[Put, Delete]]).holds("join: written and deleted");
}

#[test]
fn a_lost_request() {
    for script in [Put, Delete] {
        let config = Config {
            losses: 1,
            ..joined(&[&[script]])
        };
        config.holds("join: a lost request");
    }
}

/// Checks that another process continues the join of a process that dies.
fn holds_if_another_process_continues(has_page: bool) {
    for script in [Put, Delete] {
        let config = Config {
            crashes: 1,
            reads: has_page,
            ..continued(&[&[script]])
        };
        config.holds("join: another process continues");
    }
}

#[test]
fn another_process_continues_a_join() {
    holds_if_another_process_continues(false);
}

#[test]
#[ignore = "slow: models with 700,000 states, a minute"]
fn another_process_continues_a_join_with_a_page() {
    holds_if_another_process_continues(true);
}

#[test]
fn old_buckets_are_cleared_and_edges_removed() {
    for script in [Put, Delete] {
        let config = Config {
            clears: true,
            purges: 1,
            ..joined(&[&[script]])
        };
        config.holds("join: old buckets are cleared");
    }
}

#[test]
#[ignore = "slow: models with up to 3 million states, minutes"]
fn two_processes_join_and_old_buckets_are_cleared() {
    for script in [Put, Delete] {
        let config = Config {
            clears: true,
            purges: 1,
            ..continued(&[&[script]])
        };
        config.holds("join: two processes, and old buckets are cleared");
    }
}

/// Returns a model of a join with a writer whose clocks stop for longer than allowed.
fn stood_still() -> Config {
    Config {
        standstills: 1,
        clears: true,
        reads: false,
        ..joined(&[&[Put]])
    }
}

#[test]
fn clocks_that_stood_still() {
    stood_still().holds("join: clocks that stood still");
}

/// Returns a model in which a join moves the rows of one range to a new bucket without tombstones.
fn rewritten(writers: &[&[Operation]]) -> Config {
    Config {
        joins: vec![Some(join(&[("f", 1)]))],
        ..joined(writers)
    }
}

#[test]
fn one_range_is_rewritten() {
    for script in [Put, Delete] {
        let config = Config {
            clears: true,
            purges: 1,
            ..rewritten(&[&[script]])
        };
        config.holds("join: one range is rewritten and cleared");
    }
}

#[test]
#[ignore = "slow: a model with 400,000 states, half a minute"]
fn one_range_is_rewritten_with_two_writers() {
    rewritten(&[&[Put], &[Delete]]).holds("join: one range is rewritten");
}

/// Returns a model in which two processes continue the join, each by its own window of the range
/// map.
fn by_windows(writers: &[&[Operation]]) -> Config {
    let mut config = joined(writers);
    config.splitters.extend([None, None]);
    config.windows = vec![None, Some(span("", Some("f"))), Some(span("x", None))];
    config
}

#[test]
fn windows_continue_a_join() {
    let config = Config {
        reads: false,
        ..by_windows(&[])
    };
    config.holds("join: by windows");
}

#[test]
#[ignore = "slow: models with millions of states, minutes"]
fn windows_continue_a_join_with_a_writer_or_a_page() {
    by_windows(&[]).holds("join: by windows, with a page");
    for script in [Put, Delete] {
        let config = Config {
            reads: false,
            ..by_windows(&[&[script]])
        };
        config.holds("join: by windows, with a writer");
    }
}

/// Checks that a process can continue a join by a window that shows only the range with the row.
#[test]
#[ignore = "slow: models with up to 3 million states, minutes"]
fn a_window_continues_a_join_with_a_writer_and_a_page() {
    for script in [Put, Delete] {
        let config = Config {
            windows: vec![None, Some(span("f", Some("x")))],
            ..continued(&[&[script]])
        };
        config.holds("join: by a window, with a writer and a page");
    }
}

#[test]
fn without_places_by_destination() {
    by_windows(&[]).breaks(Rule::PlacedByDestination, &[B5]);
}

#[test]
fn each_conditional_write_moves_one_range() {
    let config = Config {
        row_bucket: 1,
        pieces: vec![("", moving(0, 3)), ("f", moving(1, 3)), ("x", moving(2, 3))],
        joins: Vec::new(),
        room: Room {
            pieces: 1,
            ..Room::default()
        },
        ..joined(&[&[Put]])
    };
    config.holds("join: each conditional write moves one range");
}

/// Returns a model in which a process splits two of the joined ranges at any time.
fn split_meanwhile(writers: &[&[Operation]]) -> Config {
    let mut config = joined(writers);
    config.splitters.push(Some(cut(&["c", "k"], Stays::First)));
    config
}

#[test]
fn a_split_meanwhile() {
    split_meanwhile(&[]).holds("join: a split meanwhile");
    let config = Config {
        reads: false,
        ..split_meanwhile(&[&[Put]])
    };
    config.holds("join: a split meanwhile, with a writer");
}

#[test]
#[ignore = "slow: models with millions of states, minutes"]
fn a_split_meanwhile_with_a_deleter_and_a_page() {
    for script in [Put, Delete] {
        split_meanwhile(&[&[script]]).holds("join: a split meanwhile, with a page");
    }
}

#[test]
#[ignore = "slow: models with millions of states, minutes"]
fn a_split_meanwhile_and_cleared() {
    for script in [Put, Delete] {
        let config = Config {
            reads: false,
            clears: true,
            ..split_meanwhile(&[&[script]])
        };
        config.holds("join: a split meanwhile, and old buckets are cleared");
    }
}

/// Returns a model in which joined ranges are split before the edges between them are removed.
fn split_before_clearing(writers: &[&[Operation]]) -> Config {
    Config {
        row_bucket: 3,
        pieces: vec![("", moved(3, 0)), ("f", moved(3, 1)), ("x", moved(3, 2))],
        splitters: vec![Some(cut(&["c", "k"], Stays::First))],
        joins: Vec::new(),
        ..joined(writers)
    }
}

#[test]
fn a_split_before_the_edges_are_removed() {
    split_before_clearing(&[&[Put, Delete]]).holds("join: a split before the edges are removed");
}

#[test]
#[ignore = "slow: a model with 400,000 states, half a minute"]
fn a_split_before_the_edges_are_removed_with_two_writers() {
    split_before_clearing(&[&[Put], &[Delete]]).holds("join: a split before the edges are removed");
}

#[test]
fn without_splitting_by_runs() {
    split_meanwhile(&[]).breaks(Rule::SplitByRuns, &[B5]);
    split_before_clearing(&[]).breaks(Rule::SplitByRuns, &[B5]);
}

#[test]
fn a_split_while_edges_are_removed() {
    for script in [Put, Delete] {
        let config = Config {
            row_bucket: 3,
            pieces: vec![("", of(3)), ("f", of(3)), ("x", of(3))],
            splitters: vec![Some(cut(&["h"], Stays::First))],
            joins: Vec::new(),
            clears: true,
            ..joined(&[&[script]])
        };
        config.holds("join: a split while edges are removed");
    }
}

/// Returns a model in which a process splits ranges of one bucket, of which its window shows only
/// some.
fn split_beyond_window() -> Config {
    Config {
        row_bucket: 1,
        pieces: vec![("", moved(1, 0)), ("f", moved(1, 0)), ("x", of(2))],
        splitters: vec![Some(cut(&["c"], Stays::First))],
        windows: vec![Some(span("", Some("f")))],
        joins: Vec::new(),
        row_stays: true,
        ..joined(&[])
    }
}

/// Returns a model in which a process joins ranges of one bucket, of which its window shows only
/// some.
fn joined_beyond_window() -> Config {
    Config {
        row_bucket: 1,
        pieces: vec![
            ("", of(0)),
            ("c", of(1)),
            ("f", of(1)),
            ("x", of(1)),
            ("z", of(2)),
        ],
        windows: vec![Some(span("f", Some("x")))],
        joins: vec![Some(join(&[("f", 1)]))],
        row_stays: true,
        ..joined(&[])
    }
}

#[test]
fn runs_that_continue_outside_the_window() {
    split_beyond_window().holds("join: a split of a run that continues behind the window");
    joined_beyond_window().holds("join: a part of a run is joined");
}

#[test]
fn without_whole_runs() {
    split_beyond_window().breaks(Rule::WholeRuns, &[B5]);
    joined_beyond_window().breaks(Rule::WholeRuns, &[B5]);
}

/// Returns a model with two joins that have one range in common.
fn two_joins(script: &[Operation]) -> Config {
    let mut config = joined(&[script]);
    config.splitters.push(None);
    config.joins = vec![Some(join(&ALL[..2])), Some(join(&ALL[1..]))];
    config.reads = false;
    config
}

#[test]
fn two_joins_that_overlap() {
    two_joins(&[Put]).holds("join: two joins that overlap, with a writer");
    two_joins(&[Delete]).holds("join: two joins that overlap, with a deleter");
}

#[test]
fn without_joining_only_at_rest() {
    let config = Config {
        losses: 1,
        ..joined(&[])
    };
    config.breaks(Rule::JoinedAtRest, &[B6]);
}

#[test]
fn without_joining_only_as_decided() {
    let config = Config {
        losses: 1,
        ..continued(&[])
    };
    config.breaks(Rule::JoinedAsDecided, &[B6]);
}

/// Returns a model in which bucket 0 still has an unknown copy of the row, which was deleted in its
/// present bucket.
fn stray() -> Config {
    Config {
        has_row: false,
        is_deleted: true,
        stray: Some(0),
        clears: true,
        ..joined(&[])
    }
}

/// Returns a model with a writer that wrongly guesses bucket 0. The deletion of the row there may
/// arrive late or never.
fn guessed() -> Config {
    Config {
        guesses: true,
        clears: true,
        reads: false,
        ..joined(&[&[Put, Delete]])
    }
}

#[test]
fn stray_rows_stay_invisible() {
    stray().holds("join: a stray row");
    guessed().holds("join: a wrong guess");
}

#[test]
fn without_removing_edges_last() {
    stray().breaks(Rule::EdgesGoLast, &[B2]);
    guessed().breaks(Rule::EdgesGoLast, &[B2]);
}

/// Returns a model with two ranges that were split off bucket 0. The range with the row is still
/// read in bucket 0, and is in another window than the joined ranges.
fn stalled() -> Config {
    Config {
        row_bucket: 0,
        pieces: vec![("", of(2)), ("c", of(0)), ("f", of(1)), ("k", moving(0, 3))],
        splitters: vec![None, None],
        windows: vec![Some(span("", Some("k"))), Some(span("k", None))],
        joins: vec![Some(join(&[("", 2), ("c", 0)]))],
        clears: true,
        ..joined(&[])
    }
}

#[test]
fn a_bucket_that_another_window_reads() {
    stalled().holds("join: a bucket that another window reads");
}

#[test]
fn without_clearing_by_span() {
    stalled().breaks(Rule::ClearedBySpan, &[B1]);
}

/// Checks that joins, too, fail without the rules of splits.
#[test]
fn joins_need_the_rules_of_splits() {
    joined(&[&[Put], &[Delete]]).breaks(Rule::DeletionsFirst, &[B2]);
    joined(&[&[Put], &[Delete]]).breaks(Rule::WaitAfterDeletions, &[B2]);
    joined(&[&[Put]]).breaks(Rule::WaitAfterWrites, &[B1]);
    joined(&[]).breaks(Rule::CopiedBeforeRead, &[B1]);
    joined(&[&[Delete]]).breaks(Rule::CopiedAtOwnStamp, &[B2]);
    joined(&[&[Put]]).breaks(Rule::WrittenWhileRead, &[B1]);
    joined(&[&[Put]]).breaks(Rule::WaitBeforeLeaving, &[B1]);
    continued(&[&[Put]]).breaks(Rule::WaitedByOneself, &[B1]);
    let crashing = Config {
        crashes: 1,
        ..continued(&[])
    };
    crashing.breaks(Rule::CopiedByOneself, &[B1]);
    let purging = Config {
        clears: true,
        purges: 1,
        ..joined(&[&[Delete]])
    };
    purging.breaks(Rule::DeletionsReachOld, &[B2]);
    stood_still().breaks(Rule::CopiedBeforeCleared, &[B1]);
}

/// Returns the range map (which bucket holds which keys) after the next step of each unfinished
/// split or join.
fn advanced(directory: &Directory) -> Option<Directory> {
    directory.advanced(&directory.being_cut(), true, Room::default(), Protocol::default())
}

#[test]
fn a_join_goes_through_its_steps() {
    let protocol = Protocol::default();
    let figures = |rows| Figures {
        rows,
        ..Figures::default()
    };
    let mut first = directory(3, vec![piece(b"", 0), piece(b"f", 1), piece(b"x", 2)]);
    first.pieces[0].figures = Some(figures(700));
    let sampling = Sampling {
        unit: 480_000,
        mean: 700,
    };
    let wanted = Join {
        sampling,
        figures: vec![figures(4), figures(5)],
        ..join(&ALL[..2])
    };
    let mut now = first.join(&wanted, protocol).unwrap();
    assert_eq!((now.version, now.next_bucket), (8, Bucket(4)));
    assert_eq!(now.join(&wanted, protocol), None, "it is made");
    let mut roles = Vec::new();
    loop {
        roles.push(now.pieces[1].roles.clone());
        assert_eq!(now.check(b""), Ok(()));
        assert_eq!(now.pieces[2], first.pieces[2]);
        match advanced(&now) {
            Some(next) => now = next,
            None => break,
        }
    }
    let expected = [
        moving(1, 3),
        Roles {
            writes: [Bucket(3)].into(),
            ..of(1)
        },
        Roles {
            writes: [Bucket(1)].into(),
            ..of(3)
        },
        moved(3, 1),
    ];
    assert_eq!(roles, expected);
    assert_eq!(now.join(&wanted, protocol), None, "it is done");
    assert!(
        now.without_inner_edges(protocol).is_none(),
        "old buckets are not cleared"
    );
    let cleared = now.cleared(&now.clearable(&now.left())).unwrap();
    let (last, gone) = cleared.without_inner_edges(protocol).unwrap();
    assert_eq!(gone, [b"f".to_vec()]);
    let expected = Piece {
        sampling,
        figures: Some(figures(9)),
        ..piece(b"", 3)
    };
    assert_eq!(last.pieces, [expected, first.pieces[2].clone()]);
}

#[test]
fn rejects_joins_that_are_not_possible() {
    let protocol = Protocol::default();
    let whole = directory(3, vec![piece(b"", 0), piece(b"f", 1), piece(b"x", 2)]);
    for pieces in [
        &[][..],
        &[("c", 0)],
        &[("", 0), ("x", 2)],
        &[("x", 2), ("z", 3)],
        &[("f", 7)],
    ] {
        assert_eq!(whole.join(&join(pieces), protocol), None, "{pieces:?}");
    }
    let hidden = Directory {
        floor: Some(Floor {
            at: b"f".to_vec(),
            kept: Kept::After,
        }),
        ..whole.clone()
    };
    assert_eq!(hidden.join(&join(&ALL), protocol), None);
    assert!(hidden.join(&join(&ALL[1..]), protocol).is_some());
    let window = Directory {
        pieces: whole.pieces[1..2].to_vec(),
        end: Some(b"x".to_vec()),
        ..whole.clone()
    };
    assert_eq!(window.join(&join(&ALL[1..2]), protocol), None);
}

/// Checks that a join in a partition without a range map first marks bucket 0, so that scans find
/// the partition. Checks also that a join that does not fit into one conditional write is not made.
#[test]
fn a_join_marks_the_root_and_fits_into_one_write() {
    let protocol = Protocol::default();
    let begin = |join: Join, room: Room, directory: Directory| {
        let mut machine = Splitting::new([], true, room, protocol).with_joins([join]);
        machine.step(SplitEvent::Begin);
        machine.step(SplitEvent::Read(directory))
    };
    let absent = Directory::absent(SAMPLING, protocol);
    let rewritten = begin(join(&ALL[..1]), Room::default(), absent);
    assert_eq!(rewritten, SplitAction::MarkRoot);
    let whole = || directory(3, vec![piece(b"", 0), piece(b"f", 1), piece(b"x", 2)]);
    let made = begin(join(&ALL), Room::default(), whole());
    assert!(matches!(made, SplitAction::Cas { .. }));
    let narrow = Room {
        pieces: 2,
        ..Room::default()
    };
    assert_eq!(begin(join(&ALL), narrow, whole()), SplitAction::Over);
    let many: Vec<(Vec<u8>, Bucket)> = (0..=MAX_JOINED_PIECES as u8)
        .map(|index| (vec![index], Bucket(index.into())))
        .collect();
    let pieces = many.iter().map(|(start, bucket)| piece(start, bucket.0));
    let mut crowded = directory(100, pieces.collect());
    crowded.pieces[0].start = Vec::new();
    let mut all = Join {
        pieces: many,
        sampling: SAMPLING,
        figures: Vec::new(),
    };
    all.pieces[0].0 = Vec::new();
    assert_eq!(
        begin(all.clone(), Room::default(), crowded.clone()),
        SplitAction::Over
    );
    all.pieces.pop();
    let made = begin(all, Room::default(), crowded);
    assert!(matches!(made, SplitAction::Cas { .. }));
}

/// Rows of a range map on a node that misses each removal of rows.
#[derive(Default)]
struct Rows(BTreeMap<Key, PieceColumns>);

impl Rows {
    /// Writes the ranges that a change puts. Unchanged ranges are not written.
    fn put(&mut self, before: &Directory, window: &Directory) {
        let before: BTreeMap<Key, PieceColumns> = columns_of(before)
            .into_iter()
            .map(|row| (row.start.clone(), row))
            .collect();
        for row in columns_of(window) {
            if before.get(&row.start) != Some(&row) {
                self.0.insert(row.start.clone(), row);
            }
        }
    }

    fn read(&self, shared: &Directory) -> Result<Directory, StoredError> {
        let stored = StoredDirectory {
            shared: static_columns(shared),
            pieces: self.0.values().cloned().collect(),
            end: None,
        };
        read_directory(stored, b"")
    }
}

/// Change of a range map, or of a window of it.
#[derive(Debug, Clone)]
enum Change {
    Cut(Vec<u8>, bool),
    Join(usize, usize),
    Advance,
    Clear,
    RemoveEdges,
}

/// Returns random changes, each with the index of the first range and the number of ranges of its
/// window.
fn changes() -> impl Strategy<Value = Vec<(Change, usize, usize)>> {
    let edges = proptest::collection::vec(1..60_u8, 1..4);
    let change = prop_oneof![
        3 => (edges, any::<bool>()).prop_map(|(edges, first)| Change::Cut(edges, first)),
        3 => (0..8_usize, 1..5_usize).prop_map(|(from, count)| Change::Join(from, count)),
        5 => Just(Change::Advance),
        2 => Just(Change::Clear),
        1 => Just(Change::RemoveEdges),
    ];
    proptest::collection::vec((change, 0..8_usize, 1..8_usize), 1..60)
}

impl Change {
    /// Returns the window after the change; `None` if the change is not possible.
    fn applied(self, window: &Directory) -> Option<Directory> {
        let protocol = Protocol::default();
        match self {
            Self::Cut(mut edges, is_first) => {
                edges.sort_unstable();
                edges.dedup();
                let cut = Cut {
                    edges: edges.into_iter().map(|edge| vec![edge]).collect(),
                    stays: if is_first { Stays::First } else { Stays::Last },
                    sampling: SAMPLING,
                    figures: Vec::new(),
                };
                window.cut(&cut, protocol)
            }
            Self::Join(first, count) => {
                let pieces = window.pieces.iter().skip(first).take(count);
                let join = Join {
                    pieces: pieces
                        .map(|piece| (piece.start.clone(), piece.roles.read))
                        .collect(),
                    sampling: SAMPLING,
                    figures: Vec::new(),
                };
                window.join(&join, protocol)
            }
            Self::Advance => advanced(window),
            Self::Clear => window.cleared(&window.clearable(&window.left())),
            Self::RemoveEdges => window.without_inner_edges(protocol).map(|(next, _)| next),
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1_000))]
    #[test]
    fn splits_and_joins_by_windows_leave_a_valid_range_map(changes in changes()) {
        let protocol = Protocol::default();
        let mut now = Directory::absent(SAMPLING, protocol);
        let mut rows = Rows::default();
        rows.put(&Directory { pieces: Vec::new(), ..now.clone() }, &now);
        for (change, from, count) in changes {
            // Half of the changes see the whole range map, and the others only a window.
            let (from, count) = if count % 2 == 0 { (0, now.pieces.len()) } else { (from, count) };
            let from = from.min(now.pieces.len() - 1);
            let end = (from + count).min(now.pieces.len());
            let window = Directory {
                pieces: now.pieces[from..end].to_vec(),
                end: now.pieces.get(end).map(|piece| piece.start.clone()),
                ..now.clone()
            };
            let Some(next) = change.applied(&window) else { continue };
            rows.put(&window, &next);
            let next = put_window(&now, &next);
            prop_assert_eq!(next.check(b""), Ok(()));
            // The rows of removed ranges do no harm.
            let read = rows.read(&next);
            prop_assert_eq!(read.as_ref(), Ok(&next));
            for key in 0..64_u8 {
                let takers = now.takers(&[key], Put, protocol).unwrap();
                let read = next.piece_of(&[key]).unwrap().roles.read;
                prop_assert!(takers.contains(&read), "{:?} of {:?}", read, takers);
                let before = now.piece_of(&[key]).unwrap().roles.read;
                let takers = next.takers(&[key], Put, protocol).unwrap();
                prop_assert!(takers.contains(&before), "{:?} of {:?}", before, takers);
            }
            now = next;
        }
        // If no more splits and joins begin, all of them complete, and each bucket is then read in
        // only one range.
        for _ in 0..4 {
            now = advanced(&now).unwrap_or(now);
        }
        prop_assert!(!now.is_being_cut());
        prop_assert_eq!(now.check(b""), Ok(()));
        prop_assert_eq!(check_places_by_read(&now), Ok(()));
        now = now.cleared(&now.clearable(&now.left())).unwrap_or(now);
        now = now.without_inner_edges(protocol).map_or(now, |(next, _)| next);
        let read: BTreeSet<Bucket> = now.pieces.iter().map(|piece| piece.roles.read).collect();
        prop_assert_eq!(read.len(), now.pieces.len());
    }
}
