//! Sizing of the buckets that partitions are kept in.

pub use recto_protocol::buckets::sizing::{
    DEFAULT_EPSILON, MAX_EPSILON, MAX_SAMPLES, MAX_TARGET_BYTES, MIN_CHANCE, MIN_EPSILON, MIN_TARGET_BYTES,
    RowsPerBucket, Sizing, SizingError, counted_bytes,
};
