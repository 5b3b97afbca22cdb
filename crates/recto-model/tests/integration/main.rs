//! Tests of values, keys and schemas through the public interface of the crate `recto-model`.
#![allow(clippy::unwrap_used)]

mod cells;
mod collation;
mod golden;
mod json;
mod keys;
mod schema;
mod schema_attached;
mod schema_difference;
mod schema_native;
mod schema_random;
mod values;
