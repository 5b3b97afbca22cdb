//! Tests of this crate.

#![expect(clippy::unwrap_used, clippy::float_cmp, reason = "a test says so by failing")]

mod directories;
mod sizing;
mod stored;

use crate::{Bucket, Directory, Piece, Protocol, Roles, Sampling};

const SAMPLING: Sampling = Sampling {
    unit: 240_000,
    mean: 64,
};

/// A piece in one bucket.
fn piece(start: &[u8], bucket: u64) -> Piece {
    Piece {
        start: start.to_vec(),
        roles: Roles::of(Bucket(bucket)),
        sampling: SAMPLING,
        figures: None,
    }
}

/// A whole directory of these pieces.
fn directory(next_bucket: u64, pieces: Vec<Piece>) -> Directory {
    Directory {
        version: 7,
        next_bucket: Bucket(next_bucket),
        pieces,
        ..Directory::absent(SAMPLING, Protocol::default())
    }
}
