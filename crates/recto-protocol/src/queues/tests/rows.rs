//! Tests that compare the rows of a log with a plain list.

use super::entry;
use crate::queues::rows::Rows;
use crate::queues::{Chunk, LogRow, Seq};

/// Returns rows with one to three messages, each with the position of its first message.
fn rows(count: u128) -> Vec<(Seq, LogRow)> {
    let mut first = 0;
    let row = |number: u128| {
        let entries: Vec<_> = (0..=number % 3)
            .map(|index| entry(number * 3 + index, 1))
            .collect();
        let row = LogRow {
            chunk: Chunk(number.wrapping_mul(0x9e37_79b9_7f4a_7c15)),
            entries: entries.into(),
        };
        let own = first;
        first += row.entries.len() as Seq;
        (own, row)
    };
    (0..count).map(row).collect()
}

#[test]
fn finds_rows_by_position_and_chunk_in_any_block() {
    for count in [0, 1, 63, 64, 65, 128, 200] {
        let plain = rows(count);
        let shared: Rows = plain.iter().cloned().collect();
        assert!(shared.iter().eq(plain.iter().map(|(first, row)| (*first, row))));
        assert_eq!(shared.last(), plain.last().map(|(first, row)| (*first, row)));
        assert_eq!(shared.of_chunk(Chunk(1)), None);
        for (first, row) in &plain {
            assert_eq!(shared.of_chunk(row.chunk), Some((*first, row)));
            for seq in *first..first + row.entries.len() as Seq {
                assert_eq!(shared.at(seq), Some((*first, row)));
            }
        }
        assert_eq!(usize::from(shared.count()), plain.len());
        for number in 0..=plain.len() {
            let from = plain[number..].iter().map(|(_, row)| row);
            assert!(shared.from(number as Seq).eq(from), "{number} of {count}");
        }
    }
}

#[test]
fn copies_do_not_share_added_rows() {
    for count in [1, 64, 100] {
        let mut plain = rows(count + 1);
        let (first, row) = plain.pop().unwrap_or_else(|| unreachable!());
        let before: Rows = plain.iter().cloned().collect();
        let mut copy = before.clone();
        assert_eq!(copy, before);
        copy.push(first, row.clone());
        assert_eq!(before.of_chunk(row.chunk), None);
        assert_eq!(copy.of_chunk(row.chunk), Some((first, &row)));
        assert_ne!(copy, before);
        assert_eq!(copy.iter().count(), before.iter().count() + 1);
    }
}
