//! Where a bucket is cut before rows come that it has no room for, so that each goes where it will stay.

use recto_protocol::buckets::Key;

use super::arrivals::End;
use crate::tables::BucketSize;

/// Rows of which at most one in so many lies on the other side are taken to come in at an end.
const STRAYS: u64 = 8;

/// A row that is there or comes, by its key, and how much of a bucket it takes.
pub(crate) type Row = (Key, u64);

/// What becomes of a bucket.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Parts {
    /// Where each part begins but the first one.
    pub(super) edges: Vec<Key>,
    /// Which part stays where it is: that of which most is there.
    pub(super) stays: usize,
    /// Of each part how much is there.
    there: Vec<u64>,
}

/// A row of either kind.
struct Item<'r> {
    key: &'r Key,
    amount: u64,
    there: u64,
}

impl Parts {
    /// Of rows that are there and rows that come, both in the order of their keys, in parts that are no larger than a bucket becomes
    /// before it is cut.
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

    /// The edges behind what stays, from the last one on, of parts of which nothing is there, and then of the others; and likewise those
    /// before it from the first one on.
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

/// Both in the order of their keys; of a row that comes in the place of another the larger one counts.
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

/// At which end rows come in, if nearly all that is there lies on its other side.
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

/// How large parts become that get rows everywhere: two thirds full, and of two the first one is twice as large.
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

/// Where parts begin behind the first one that are not larger than this.
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
    fn what_is_there_of_no_part_is_cut_ahead() {
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
