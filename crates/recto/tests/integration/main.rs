//! What needs no Cassandra and no process of its own.
#![allow(clippy::unwrap_used)]

mod design;
mod edge_cases;
mod lazy;
mod row_filter;
mod snapshot;
