//! Tests of shards (partitions of the store that share a bucket). Checks that the shard of a key
//! never changes, that shards have equal numbers of rows, and that shards do not depend on the
//! choice of sampled rows.

use crate::buckets::sampling::hash;
use crate::buckets::{Sampling, Shard, Shards};

#[test]
fn the_shard_of_a_key_never_changes() {
    let eight = Shards::new(8).unwrap();
    let shards: Vec<u32> = [
        &b""[..],
        b"a",
        b"b",
        b"\x80\x00\x00\x00\x00\x00\x00\x2a",
        &[0xff; 300],
    ]
    .map(|key| eight.of(key).0)
    .to_vec();
    assert_eq!(shards, [3, 1, 6, 7, 2]);
    assert_eq!(Shards::ONE.of(b"whatever"), Shard(0));
}

#[test]
fn rows_and_samples_are_spread_over_all_shards() {
    let shards = Shards::new(8).unwrap();
    let sampling = Sampling {
        unit: 64_000,
        mean: 1_000,
    };
    let (mut rows, mut samples) = ([0_u32; 8], [0_u32; 8]);
    for number in 0..64_000_u64 {
        let key = number.to_be_bytes();
        let shard = shards.of(&key).0 as usize;
        rows[shard] += 1;
        samples[shard] += u32::from(sampling.is_sampled(hash(&key), 1_000));
    }
    // Each shard should have 8,000 rows and 125 samples. The limits are four standard deviations.
    assert!(rows.iter().all(|rows| rows.abs_diff(8_000) < 340), "{rows:?}");
    assert!(
        samples.iter().all(|samples| samples.abs_diff(125) < 45),
        "{samples:?}"
    );
}
