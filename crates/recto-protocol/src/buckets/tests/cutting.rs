//! Model of splits: one row, with processes that write, delete and read the row, and processes that
//! split its range. For each rule of the protocol, a test disables the rule and finds a broken
//! invariant.

use super::model::{B1, B2, B3, B4, Config};
use super::{SAMPLING, usually};
use crate::buckets::rules::Rule;
use crate::buckets::{Cut, Operation, Room, Span, Stays};

use Operation::{Delete, Put};

/// Returns a split at these keys. If a key is before the row, the row moves to a new bucket.
fn cut(edges: &[&str], stays: Stays) -> Cut {
    Cut {
        edges: edges.iter().map(|edge| edge.as_bytes().to_vec()).collect(),
        stays,
        sampling: SAMPLING,
        figures: Vec::new(),
    }
}

/// Returns a model without faults: the row moves to a new bucket while these writers and a reader
/// use it.
fn moved(writers: &[&[Operation]]) -> Config {
    Config {
        has_row: true,
        writers: writers.iter().map(|script| script.to_vec()).collect(),
        reads: true,
        splitters: vec![Some(cut(&["c"], Stays::First))],
        ..Config::default()
    }
}

/// Returns the model of `moved` with a second splitting process, which continues unfinished splits.
fn gone_on(writers: &[&[Operation]]) -> Config {
    let mut config = moved(writers);
    config.splitters.push(None);
    config
}

#[test]
fn a_writer_and_a_deleter() {
    let config = Config {
        losses: usually(0, 1),
        ..moved(&[&[Put], &[Delete]])
    };
    config.holds("a writer and a deleter");
}

#[test]
fn a_row_is_written_and_deleted() {
    moved(&[&[Put, Delete]]).holds("written and deleted");
}

#[test]
fn two_writers() {
    let config = Config {
        reads: usually(0, 1) > 0,
        ..moved(&[&[Put], &[Put]])
    };
    config.holds("two writers");
}

#[test]
fn a_lost_request() {
    let config = Config {
        losses: 1,
        reads: usually(0, 1) > 0,
        ..moved(&[&[Put]])
    };
    config.holds("a lost request of a writer");
    let config = Config {
        losses: 1,
        ..moved(&[&[Delete]])
    };
    config.holds("a lost request of a deleter");
}

#[test]
fn another_process_continues_a_split() {
    let config = Config {
        crashes: 1,
        reads: usually(0, 1) > 0,
        ..gone_on(&[&[Put]])
    };
    config.holds("who cuts dies, with a writer");
    let config = Config {
        crashes: 1,
        reads: usually(0, 1) > 0,
        ..gone_on(&[&[Delete]])
    };
    config.holds("who cuts dies, with a deleter");
}

#[test]
fn cuts_overlap() {
    let two = |script: &[Operation]| {
        let mut config = moved(&[script]);
        config.reads = usually(0, 1) > 0;
        config.splitters.push(Some(cut(&["e"], Stays::First)));
        config
    };
    two(&[Put]).holds("cuts overlap, with a writer");
    two(&[Delete]).holds("cuts overlap, with a deleter");
}

/// Checks that a process can continue a split although it sees only one window of the range map.
/// The split makes three ranges. The second process sees only the middle range, which contains the
/// row. So the middle range may be read in its new bucket while its neighbors are still read in the
/// old bucket.
#[test]
fn a_piece_of_a_cut_is_moved_on_by_its_window() {
    let middle = Span {
        start: "c".into(),
        end: Some("x".into()),
    };
    for script in [Put, Delete] {
        let config = Config {
            reads: usually(0, 1) > 0,
            splitters: vec![Some(cut(&["c", "x"], Stays::Last)), None],
            windows: vec![None, Some(middle.clone())],
            ..moved(&[&[script]])
        };
        config.holds("a piece of a cut by its window");
    }
}

/// Checks that a split that is too large for one conditional write uses several, and only one wait
/// after the last.
#[test]
fn a_cut_is_made_by_several_conditional_writes() {
    for (script, stays) in [(Put, Stays::First), (Put, Stays::Last), (Delete, Stays::First)] {
        let config = Config {
            reads: usually(0, 1) > 0,
            splitters: vec![Some(cut(&["c", "x"], stays)), None],
            room: Room {
                pieces: 1,
                ..Room::default()
            },
            ..moved(&[&[script]])
        };
        config.holds("a cut by several conditional writes");
    }
}

#[test]
fn several_cuts_at_once_and_before_the_row_or_behind() {
    for (edges, stays) in [
        (&["c", "x"][..], Stays::First),
        (&["x"], Stays::Last),
        (&["c", "x"], Stays::Last),
    ] {
        let config = Config {
            splitters: vec![Some(cut(edges, stays))],
            ..moved(&[&[Put]])
        };
        config.holds("several cuts");
    }
}

#[test]
fn a_cut_ahead_of_the_row() {
    let config = Config {
        has_row: false,
        ..moved(&[&[Put]])
    };
    config.holds("ahead");
}

#[test]
fn a_guess_beside_the_reading() {
    let config = Config {
        guesses: true,
        reads: usually(0, 1) > 0,
        ..moved(&[&[Put], &[Delete]])
    };
    config.holds("a guess");
}

#[test]
fn a_store_that_keeps_no_tombstones() {
    let config = Config {
        transacts: true,
        clears: true,
        ..moved(&[&[Put], &[Delete]])
    };
    config.holds("without tombstones");
}

#[test]
fn copies_that_live_long() {
    let config = Config {
        is_calm: true,
        ..moved(&[&[Put]])
    };
    config.holds("long-lived copies");
}

/// Returns a model with a writer whose clocks stop for too long, and a process that clears old
/// buckets.
fn stood_still() -> Config {
    Config {
        standstills: 1,
        clears: true,
        reads: false,
        ..moved(&[&[Put]])
    }
}

#[test]
fn clocks_that_stood_still() {
    stood_still().holds("clocks that stood still");
}

#[test]
fn a_bucket_is_cleared_when_tombstones_are_gone() {
    let config = Config {
        clears: true,
        purges: 1,
        ..moved(&[&[Delete]])
    };
    config.holds("tombstones that are gone");
}

#[test]
fn without_the_copy_before_the_stamp() {
    moved(&[&[Put], &[Delete]]).breaks(Rule::StampAfterCopy, &[B2]);
}

#[test]
fn without_a_living_copy() {
    moved(&[&[Put]]).breaks(Rule::AcknowledgedByLivingCopy, &[B1]);
}

#[test]
fn without_a_new_stamp() {
    moved(&[&[Put], &[Delete]]).breaks(Rule::NewStampForNewCopy, &[B2]);
}

#[test]
fn without_a_look_at_the_guess() {
    let config = Config {
        guesses: true,
        ..moved(&[&[Put]])
    };
    config.breaks(Rule::GuessIsChecked, &[B1]);
}

#[test]
fn without_clipping() {
    moved(&[]).breaks(Rule::ReadsClipped, &[B3]);
}

#[test]
fn without_reading_again() {
    moved(&[&[Put]]).breaks(Rule::ReadAgainWhenOver, &[B1]);
}

#[test]
fn without_deletions_first() {
    moved(&[&[Put], &[Delete]]).breaks(Rule::DeletionsFirst, &[B2]);
}

#[test]
fn without_a_wait_for_deleters() {
    moved(&[&[Put], &[Delete]]).breaks(Rule::WaitAfterDeletions, &[B2]);
}

#[test]
fn without_a_wait_for_writers() {
    moved(&[&[Put]]).breaks(Rule::WaitAfterWrites, &[B1]);
}

#[test]
fn without_copying() {
    moved(&[]).breaks(Rule::CopiedBeforeRead, &[B1]);
}

#[test]
fn without_the_stamps_of_rows() {
    moved(&[&[Delete]]).breaks(Rule::CopiedAtOwnStamp, &[B2]);
}

#[test]
fn without_writing_what_is_still_read() {
    moved(&[&[Put]]).breaks(Rule::WrittenWhileRead, &[B1]);
}

#[test]
fn without_a_wait_for_readers() {
    moved(&[&[Put]]).breaks(Rule::WaitBeforeLeaving, &[B1]);
}

#[test]
fn without_versions() {
    let mut config = moved(&[&[Put]]);
    config.splitters.push(Some(cut(&["e"], Stays::First)));
    config.breaks(Rule::ChangedByVersion, &[B1]);
}

#[test]
fn without_reading_what_is_unknown() {
    let config = Config {
        losses: 1,
        ..moved(&[&[Put]])
    };
    config.breaks(Rule::UnknownIsRead, &[B1]);
}

#[test]
fn without_serial_reads() {
    let config = Config {
        losses: 1,
        ..moved(&[&[Put]])
    };
    config.breaks(Rule::ReadSerially, &[B1]);
}

#[test]
fn without_waiting_anew() {
    gone_on(&[&[Put]]).breaks(Rule::WaitedByOneself, &[B1]);
}

#[test]
fn without_copying_anew() {
    let config = Config {
        crashes: 1,
        ..gone_on(&[])
    };
    config.breaks(Rule::CopiedByOneself, &[B1]);
}

#[test]
fn without_the_longest_life() {
    let config = Config {
        is_calm: true,
        ..moved(&[&[Put]])
    };
    config.breaks(Rule::LongestLifeRemembered, &[B1]);
}

#[test]
fn without_a_margin() {
    moved(&[&[Put]]).breaks(Rule::MarginForStandstill, &[B1]);
}

#[test]
fn without_a_mark_of_the_root() {
    moved(&[]).breaks(Rule::RootMarkedFirst, &[B4]);
}

#[test]
fn without_copying_what_was_left() {
    stood_still().breaks(Rule::CopiedBeforeCleared, &[B1]);
}

#[test]
fn without_deleting_where_it_was_left() {
    let config = Config {
        clears: true,
        purges: 1,
        ..moved(&[&[Delete]])
    };
    config.breaks(Rule::DeletionsReachOld, &[B2]);
}

#[test]
fn without_looking_again_before_clearing() {
    let mut config = stood_still();
    config.splitters.push(Some(cut(&["e"], Stays::First)));
    config.breaks(Rule::LookedAgainBeforeClearing, &[B1]);
}
