//! Tests of the clearing of old buckets (left by splits). Checks that they are cleared even if
//! their ranges are split again during the wait, and that a range never has too many of them.

use std::collections::BTreeSet;

use super::{directory, piece};
use crate::buckets::limits::{CLEARING_MS, MAX_CLEARING_LOOKS, MAX_FURTHER_BUCKETS};
use crate::buckets::{
    Bucket, ClearAction, ClearEvent, Clearing, Cut, Decision, Directory, Protocol, Sampling, Stays,
};

/// Splits the last range at a key behind its rows, with all steps of the split.
fn cut_ahead(directory: &Directory, at: u8) -> Option<Directory> {
    let protocol = Protocol::default();
    let cut = Cut {
        edges: vec![vec![at]],
        stays: Stays::First,
        sampling: Sampling { unit: 1, mean: 1 },
        figures: Vec::new(),
    };
    let mut now = directory.cut(&cut, protocol)?;
    while now.is_being_cut() {
        now = now.advanced(&now.being_cut(), true, crate::buckets::Room::default(), protocol)?;
        assert_eq!(now.check(b""), Ok(()));
    }
    Some(now)
}

/// Returns the old buckets (left by splits) of the last range.
fn left(directory: &Directory) -> BTreeSet<Bucket> {
    directory
        .pieces
        .last()
        .map(|piece| piece.roles.old.clone())
        .unwrap_or_default()
}

#[test]
fn does_not_split_with_too_many_old_buckets() {
    let mut now = directory(1, vec![piece(b"", 0)]);
    let mut cuts = 0;
    for at in 1..=200 {
        match cut_ahead(&now, at) {
            Some(next) => now = next,
            None => break,
        }
        cuts += 1;
    }
    assert_eq!(cuts, MAX_FURTHER_BUCKETS - 1);
    assert_eq!(now.check(b""), Ok(()));
}

/// Clears the old buckets of a range map, while the last range is split `cuts` times during each
/// wait. Returns the range map that the clearing finally writes (`None`: none), and the number of
/// waits.
fn clears(now: &mut Directory, at: &mut u8, cuts: usize) -> (Option<Directory>, u32) {
    let mut machine = Clearing::new(Protocol::default());
    let (mut event, mut waits) = (ClearEvent::Begin, 0);
    loop {
        event = match machine.step(event) {
            ClearAction::Read => ClearEvent::Read(now.clone()),
            ClearAction::Wait { ms } => {
                assert_eq!(ms, CLEARING_MS / u64::from(MAX_CLEARING_LOOKS));
                for _ in 0..cuts {
                    *at += 1;
                    *now = cut_ahead(now, *at).expect("there is room");
                }
                waits += 1;
                ClearEvent::Waited
            }
            ClearAction::Copy(_) => ClearEvent::Copied,
            ClearAction::Delete(_) => ClearEvent::Deleted,
            ClearAction::Cas { expected, put, .. } => {
                assert_eq!(expected, now.version);
                assert_eq!(
                    machine.step(ClearEvent::Decided(Decision::Applied)),
                    ClearAction::Over
                );
                return (Some(put), waits);
            }
            ClearAction::Over => return (None, waits),
        };
    }
}

#[test]
fn clears_old_buckets_despite_further_splits() {
    let mut now = directory(1, vec![piece(b"", 0)]);
    let mut at = 1;
    now = cut_ahead(&now, at).unwrap();
    assert_eq!(left(&now), BTreeSet::from([Bucket(0)]));
    // Without further splits, all old buckets are cleared after the last wait.
    let (put, waits) = clears(&mut now.clone(), &mut at, 0);
    assert_eq!((left(&put.unwrap()).len(), waits), (0, MAX_CLEARING_LOOKS));
    // With frequent splits, buckets that were old before the last wait are cleared, and newer ones
    // stay.
    let (put, waits) = clears(&mut now, &mut at, 3);
    assert!(waits < MAX_CLEARING_LOOKS, "{waits}");
    let before = left(&now);
    let after = left(&put.unwrap());
    assert_eq!(after.len(), 3);
    assert!(after.iter().all(|bucket| before.contains(bucket)));
}

#[test]
fn frequent_splits_stay_below_the_bucket_limit() {
    let mut now = directory(1, vec![piece(b"", 0)]);
    let mut at = 0;
    for _ in 0..8 {
        at += 1;
        now = cut_ahead(&now, at).unwrap();
        // Ten splits during each wait of 150 s are one split every 15 s.
        let (put, _) = clears(&mut now, &mut at, 10);
        now = put.unwrap();
    }
    assert!(left(&now).len() < MAX_FURTHER_BUCKETS / 2);
}
