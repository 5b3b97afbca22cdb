//! Tests of the decisions when and at which keys a bucket is split.

use super::SAMPLING;
use crate::buckets::{Arrival, Due, Growth, Sample, position_ahead};

fn growth(bytes_per_second: f64) -> Growth {
    Growth {
        samples: 16,
        bytes_per_second,
        lead_seconds: 20.0,
    }
}

fn samples(count: u32) -> Vec<Sample> {
    let sample = |key: u32| Sample {
        key: key.to_be_bytes().to_vec(),
        bytes: 1_000,
        is_gone: false,
    };
    (0..count).map(sample).collect()
}

#[test]
fn splits_are_due_ahead_or_when_full() {
    let slow = growth(0.0);
    let expected = [(15, Due::No), (16, Due::Ahead), (23, Due::Ahead), (24, Due::Now)];
    for (samples, due) in expected {
        assert_eq!(slow.due(SAMPLING, samples), due, "{samples}");
    }
    let fast = growth(12_000.0);
    assert_eq!(fast.due(SAMPLING, 14), Due::No);
    assert_eq!(fast.due(SAMPLING, 15), Due::Ahead);
}

#[test]
fn fast_growth_makes_a_partition_hot() {
    assert!(!growth(23_000.0).is_hot(SAMPLING));
    assert!(growth(25_000.0).is_hot(SAMPLING));
}

#[test]
fn parts_have_room_for_what_comes_late() {
    for count in [13, 24, 100, 1_000] {
        let samples = samples(count);
        let edges = growth(0.0).quantiles(&samples);
        let starts = edges
            .iter()
            .map(|edge| u32::from_be_bytes(edge.as_slice().try_into().unwrap()));
        let starts: Vec<_> = [0].into_iter().chain(starts).chain([count]).collect();
        for part in starts.windows(2) {
            let in_part = part[1].checked_sub(part[0]).unwrap();
            assert!((1..=12).contains(&in_part), "{in_part} of {count}");
        }
    }
    assert_eq!(growth(0.0).quantiles(&samples(12)), Vec::<Vec<u8>>::new());
}

#[test]
fn neither_splits_single_keys_nor_counts_deleted_rows() {
    let mut at_one = samples(30);
    for sample in &mut at_one {
        sample.key = b"k".to_vec();
    }
    assert_eq!(growth(0.0).quantiles(&at_one), Vec::<Vec<u8>>::new());
    let mut gone = samples(30);
    for sample in &mut gone[..20] {
        sample.is_gone = true;
    }
    assert_eq!(growth(0.0).quantiles(&gone), Vec::<Vec<u8>>::new());
}

fn arrivals(positions: &[i64]) -> Vec<Arrival> {
    let arrival = |(index, position): (usize, &i64)| Arrival {
        at_ms: i64::try_from(index).unwrap() * 1_000,
        position: *position,
    };
    positions.iter().enumerate().map(arrival).collect()
}

#[test]
fn predicts_positions_of_ordered_arrivals() {
    assert_eq!(position_ahead(&arrivals(&[10, 20, 30, 40]), 2_000), Some(60));
    assert_eq!(position_ahead(&arrivals(&[40, 30, 20, 10]), 1_000), Some(0));
    let edge = arrivals(&[i64::MAX - 30, i64::MAX - 20, i64::MAX - 10, i64::MAX]);
    assert_eq!(position_ahead(&edge, 1_000), None);
}

#[test]
fn predicts_nothing_for_unordered_arrivals() {
    for positions in [&[10, 20, 30][..], &[], &[10, 90, 20, 70, 30], &[5, 5, 5, 5]] {
        assert_eq!(position_ahead(&arrivals(positions), 1_000), None, "{positions:?}");
    }
}
