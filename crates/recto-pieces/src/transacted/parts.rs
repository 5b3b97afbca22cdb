//! Edges at which a bucket is split before rows arrive for which it has no room, so that each row goes to its final
//! bucket.

use recto_protocol::buckets::Key;

use super::arrivals::End;
use crate::tables::BucketSize;

/// Tolerance: rows are taken to arrive at an end if at most one part in this number of the existing rows is on the
/// other side.
const STRAYS: u64 = 8;

/// Key of an existing or arriving row, and its size in the unit of the bucket's limit.
pub(crate) type Row = (Key, u64);

/// Parts into which a bucket is split.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Parts {
    /// Starts of all parts but the first.
    pub(super) edges: Vec<Key>,
    /// Index of the part that stays in the bucket: the part with the most existing rows.
    pub(super) stays: usize,
    /// Size of the existing rows of each part.
    there: Vec<u64>,
}

/// Existing or arriving row.
struct Item<'r> {
    key: &'r Key,
    amount: u64,
    there: u64,
}

impl Parts {
    /// Returns the parts for existing and arriving rows, both in the order of their keys. No part exceeds the size at
    /// which a bucket is split.
    pub(super) fn new(size: BucketSize, there: &[Row], coming: &[&Row]) -> Self {
        let items = merged(there, coming);
        let total: u64 = items.iter().map(|item| item.amount).sum();
        let starts = match end(there, coming) {
            Some(End::Last) => starts(items.iter(), size.due()),
            Some(End::First) => {
                let behind = starts(items.iter().rev(), size.due());
                behind
                    .into_iter()
                    .rev()
                    .map(|start| items.len() - start)
                    .collect()
            }
            None => starts(items.iter(), part(size, total)),
        };
        let mut bounds = vec![0];
        bounds.extend(&starts);
        bounds.push(items.len());
        let of_part = |two: &[usize]| items[two[0]..two[1]].iter().map(|item| item.there).sum();
        let there: Vec<u64> = bounds.windows(2).map(of_part).collect();
        let most = there.iter().copied().max().unwrap_or(0);
        Self {
            edges: starts.iter().map(|start| items[*start].key.clone()).collect(),
            stays: there.iter().position(|there| *there == most).unwrap_or(0),
            there,
        }
    }

    /// Returns the edges for the splits at both ends of the part that stays. For each end, first the edges of outer
    /// parts without existing rows, then the other edges, beginning with the outermost edge.
    pub(super) fn ways(&self) -> [(End, &[Key], Vec<&Key>); 2] {
        let (before, behind) = self.edges.split_at(self.stays);
        let is_empty = |there: &&u64| **there == 0;
        let last = self
            .there
            .iter()
            .rev()
            .take_while(is_empty)
            .count()
            .min(behind.len());
        let first = self.there.iter().take_while(is_empty).count().min(before.len());
        let (moved_behind, ahead) = behind.split_at(behind.len() - last);
        let (before, moved_before) = before.split_at(first);
        [
            (End::Last, ahead, moved_behind.iter().rev().collect()),
            (End::First, before, moved_before.iter().collect()),
        ]
    }
}

/// Returns the rows of both kinds in the order of their keys. If an arriving row replaces an existing one, the larger
/// size counts.
fn merged<'r>(there: &'r [Row], coming: &[&'r Row]) -> Vec<Item<'r>> {
    let (mut there, mut coming) = (there.iter().peekable(), coming.iter().copied().peekable());
    let mut items: Vec<Item<'r>> = Vec::new();
    loop {
        let takes_there = match (there.peek(), coming.peek()) {
            (None, None) => return items,
            (there, None) => there.is_some(),
            (None, _) => false,
            (Some(one), Some(other)) => one.0 <= other.0,
        };
        let row = if takes_there { there.next() } else { coming.next() };
        let Some((key, amount)) = row else { continue };
        let is_there = if takes_there { *amount } else { 0 };
        match items.last_mut().filter(|last| last.key == key) {
            Some(last) => last.amount = last.amount.max(*amount),
            None => items.push(Item {
                key,
                amount: *amount,
                there: is_there,
            }),
        }
    }
}

/// Returns the end at which rows arrive, if nearly all existing rows are on its other side.
fn end(there: &[Row], coming: &[&Row]) -> Option<End> {
    let (Some(first), Some(last)) = (coming.first(), coming.last()) else {
        return Some(End::Last);
    };
    let sum = |rows: &mut dyn Iterator<Item = &Row>| rows.map(|row| row.1).sum::<u64>();
    let few = sum(&mut there.iter()) / STRAYS;
    if sum(&mut there.iter().filter(|row| row.0 > first.0)) <= few {
        return Some(End::Last);
    }
    let is_before = sum(&mut there.iter().filter(|row| row.0 < last.0)) <= few;
    is_before.then_some(End::First)
}

/// Returns the size of parts if rows arrive everywhere. Parts become two thirds full. If there are two parts, the first
/// one is twice as large as the second one.
fn part(size: BucketSize, total: u64) -> u64 {
    let due = size.due();
    if total <= due {
        return due;
    }
    let count = total.div_ceil((due - due / 3).max(1)).max(2);
    let part = if count == 2 {
        total - total / 3
    } else {
        total.div_ceil(count) + size.room()
    };
    part.clamp(1, due)
}

/// Returns the indexes at which parts of at most this size begin, apart from the first part.
fn starts<'i>(items: impl Iterator<Item = &'i Item<'i>>, most: u64) -> Vec<usize> {
    let (mut starts, mut amount) = (Vec::new(), 0_u64);
    for (index, item) in items.enumerate() {
        if amount > 0 && amount + item.amount > most {
            starts.push(index);
            amount = 0;
        }
        amount += item.amount;
    }
    starts
}

#[cfg(test)]
mod tests {
    use super::*;

    const SIZE: BucketSize = BucketSize::Rows(10);

    fn rows(keys: impl Iterator<Item = u8>) -> Vec<Row> {
        keys.map(|key| (vec![key], 1)).collect()
    }

    fn parts(there: impl Iterator<Item = u8>, coming: impl Iterator<Item = u8>) -> (Vec<u8>, usize) {
        let coming = rows(coming);
        let parts = Parts::new(SIZE, &rows(there), &coming.iter().collect::<Vec<_>>());
        (parts.edges.iter().map(|edge| edge[0]).collect(), parts.stays)
    }

    #[test]
    fn rows_at_an_end_fill_what_is_there_and_then_others() {
        assert_eq!(parts(0..7, 100..118), (vec![103, 113], 0));
        assert_eq!(parts(100..107, 10..28), (vec![15, 25], 2));
        assert_eq!(parts(0..0, 0..25), (vec![10, 20], 0));
        assert_eq!(parts(0..7, 100..103), (vec![], 0));
    }

    #[test]
    fn rows_everywhere_make_parts_that_have_room() {
        let even = |from: u8, to: u8| (from..to).map(|key| key * 2);
        let (edges, stays) = parts(even(0, 10), even(0, 3).map(|key| key * 3 + 1));
        assert_eq!((edges, stays), (vec![13], 0), "a third of 13 goes");
        let (edges, _) = parts(even(0, 10), even(0, 20).map(|key| key + 1));
        assert_eq!(edges.len(), 4, "{edges:?}");
    }

    #[test]
    fn rows_that_are_there_already_count_once() {
        assert_eq!(parts(0..10, 0..10), (vec![], 0));
    }

    #[test]
    fn splits_ahead_without_moving_existing_rows() {
        let coming = rows(100..118);
        let parts = Parts::new(SIZE, &rows(0..7), &coming.iter().collect::<Vec<_>>());
        let [(end, ahead, moved), (_, before, others)] = parts.ways();
        assert_eq!((end, ahead.len(), moved.len()), (End::Last, 2, 0));
        assert_eq!((before.len(), others.len()), (0, 0));
        let coming = rows(10..28);
        let parts = Parts::new(SIZE, &rows(100..107), &coming.iter().collect::<Vec<_>>());
        let [(_, ahead, moved), (end, before, others)] = parts.ways();
        assert_eq!((end, before.len(), others.len()), (End::First, 2, 0));
        assert_eq!((ahead.len(), moved.len()), (0, 0));
    }
}
