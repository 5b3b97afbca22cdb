//! What things are called by.

/// An encoded clustering key, whole, or an edge between such: compares byte by byte, in sort order.
pub type Key = Vec<u8>;

/// Of a directory: greater by one with each conditional write. 0: there is none.
pub type Version = u64;

/// The stamp of a write, in microseconds.
pub type Micros = i64;

/// A partition of the store, which holds pieces of one that a query names. Its number never recurs there: of two the later
/// one is greater. What there is before any directory is bucket 0.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Bucket(pub u64);
