//! Protocols by which Recto keeps its data consistent, as step functions.
//!
//! No function here does I/O, is async, or reads a clock. An engine reports each event to a step function, and executes
//! the actions that the function returns. The models in the tests drive the same functions through all possible events.
//!
//! | module | protocol | design |
//! |---|---|---|
//! | [`views`] | keeps the views and unique constraints of a collection equal to its records | `docs/design/views.md` |
//! | [`queues`] | keeps queues without tombstones | `docs/design/queues.md` |
//! | [`buckets`] | keeps partitions in buckets, so that no stored partition grows without bound | `docs/design/buckets.md` |
//!
//! The modules do not use each other.

pub mod buckets;
pub mod queues;
pub mod views;

mod rules;
