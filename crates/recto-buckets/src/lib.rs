//! Partitions that never grow without bound: the protocol as step functions.
//!
//! A partition that can outgrow what a store bears is kept in *buckets*: contiguous pieces of its order, each of which is
//! a partition of the store. No query sees them.
//!
//! Nothing here does I/O, is async, or reads a clock, and nothing knows what a key means: keys are encoded, and compare as
//! bytes.
