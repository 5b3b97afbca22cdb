//! Tests of the times and keys at which a bucket is split.

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
fn a_bucket_is_cut_ahead_when_it_will_be_full_and_anywhere_when_it_is() {
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
fn a_partition_is_hot_when_much_of_a_bucket_comes_while_it_is_cut() {
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
fn what_lies_at_one_key_is_not_cut_and_what_is_gone_does_not_count() {
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
fn where_keys_run_with_arrival_it_is_known_where_they_will_be() {
    assert_eq!(position_ahead(&arrivals(&[10, 20, 30, 40]), 2_000), Some(60));
    assert_eq!(position_ahead(&arrivals(&[40, 30, 20, 10]), 1_000), Some(0));
    let edge = arrivals(&[i64::MAX - 30, i64::MAX - 20, i64::MAX - 10, i64::MAX]);
    assert_eq!(position_ahead(&edge, 1_000), None);
}

#[test]
fn where_they_do_not_nothing_is_known() {
    for positions in [&[10, 20, 30][..], &[], &[10, 90, 20, 70, 30], &[5, 5, 5, 5]] {
        assert_eq!(position_ahead(&arrivals(positions), 1_000), None, "{positions:?}");
    }
}
