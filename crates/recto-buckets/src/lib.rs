//! Partitions that never grow without bound: the protocol as step functions.
//!
//! A partition that can outgrow what a store bears is kept in *buckets*: contiguous pieces of its order, each of which is
//! a partition of the store. No query sees them.
//!
//! Nothing here does I/O, is async, or reads a clock, and nothing knows what a key means: keys are encoded, and compare as
//! bytes.
//!
//! | module | holds |
//! |---|---|
//! | [`sizing`] | when a bucket is cut, and how large buckets become of that |

pub mod sizing;

#[cfg(test)]
mod tests;
