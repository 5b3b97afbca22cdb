//! Calculation of bucket sizes. Buckets are the parts into which a large partition is split.

pub use recto_protocol::buckets::sizing::{
    DEFAULT_EPSILON, MAX_EPSILON, MAX_SAMPLES, MAX_TARGET_BYTES, MIN_CHANCE, MIN_EPSILON, MIN_TARGET_BYTES,
    RowsPerBucket, Sizing, SizingError, counted_bytes,
};
