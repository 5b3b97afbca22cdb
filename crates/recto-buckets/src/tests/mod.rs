//! Tests of this crate.

#![expect(clippy::unwrap_used, clippy::float_cmp, reason = "a test says so by failing")]

mod sizing;
