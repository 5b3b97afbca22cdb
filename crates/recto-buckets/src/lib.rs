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
//! | [`names`] | what things are called by |
//! | [`limits`] | how much there may be of everything, and for how long things wait |
//! | [`sampling`] | [`Sampling`]: which rows are sampled |
//! | [`sizing`] | when a bucket is cut, and how large buckets become of that |
//! | [`directory`] | [`Directory`]: which buckets a partition is kept in |
//! | [`stored`] | the columns of that |

pub mod directory;
pub mod limits;
pub mod names;
pub mod sampling;
pub mod sizing;
pub mod stored;

#[cfg(test)]
mod tests;

pub use directory::{Damage, Directory, Figures, Floor, Kept, Piece, Roles, Span};
pub use limits::Protocol;
pub use names::{Bucket, Key, Micros, Version};
pub use sampling::Sampling;
pub use stored::{PieceColumns, StaticColumns, StoredDirectory, StoredError};
