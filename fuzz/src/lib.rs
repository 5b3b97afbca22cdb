//! What Recto must do with any bytes at all.
//!
//! A target is a function of bytes that panics if a property does not hold: not only that nothing
//! else panics, but that what was read is written back the same, that order is kept, that errors
//! point into the text, and that memory stays in proportion to the input.
//!
//! The same functions run three ways: on the corpus, in `cargo test`; on mutations of the corpus,
//! by this crate's program, which needs nothing but cargo (`scripts/test fuzz`); and under
//! libFuzzer, guided by coverage, which is how the corpus grows (`scripts/fuzz`).
//!
//! | module | holds |
//! |---|---|
//! | `target` | what a target is, and the list of them |
//! | `memory` | the limit on memory in proportion to an input |
//! | `cursor` | cursors, their content behind the seal, and stored cursor keys |
//! | `place` | tokens of the place where a comparison is, and what is behind their seal |
//! | `text` | filter and sort text, bound to a collection of every type |
//! | `schema` | schema TOML |
//! | `keys` | byte-comparable keys and cells |
//! | `stored` | stored rows and table definitions of the embedded store |
//! | `queues` | what is stored of queues, and receipts |
//! | `load` | CSV and NDJSON |
//! | `corpus` | where inputs are kept |
//! | `mutate` | new inputs from old ones, by a seed |

pub mod corpus;
mod cursor;
mod keys;
mod load;
mod memory;
pub mod mutate;
mod place;
mod queues;
mod schema;
mod stored;
pub mod target;
mod text;

pub use target::{TARGETS, Target};
