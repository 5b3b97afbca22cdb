//! Properties of Recto that hold for any bytes.
//!
//! A target is a function of bytes that panics if a property does not hold. The properties are more
//! than the absence of panics. A parsed value is written back unchanged, order is kept, errors
//! point into the text, and memory is proportional to the input.
//!
//! The functions run in three ways:
//!
//! * on the corpus, in `cargo test`;
//! * on mutations of the corpus, by the program of this crate, which needs only cargo
//!   (`scripts/test fuzz`);
//! * under libFuzzer, guided by coverage (`scripts/fuzz`). These runs extend the corpus.
//!
//! | module | content |
//! |---|---|
//! | `target` | definition and list of targets |
//! | `memory` | memory limit in proportion to an input |
//! | `cursor` | cursors, their encrypted content, and stored cursor keys |
//! | `place` | checkpoint tokens of comparisons, and their encrypted content |
//! | `text` | text of filters and sort orders, bound to a collection with every type |
//! | `schema` | schema TOML |
//! | `keys` | byte-comparable keys and cells |
//! | `stored` | stored rows and table definitions of the embedded store |
//! | `queues` | stored data of queues, and receipts |
//! | `load` | CSV and NDJSON |
//! | `corpus` | storage of inputs |
//! | `mutate` | seeded mutation of inputs |

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
