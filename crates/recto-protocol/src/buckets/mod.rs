//! Partitions that never grow without bound: the protocol as step functions.
//!
//! A partition that can outgrow what a store bears is kept in *buckets*: contiguous pieces of its order, each of which is
//! a partition of the store. No query sees them.
//!
//! Nothing here does I/O, is async, or reads a clock, and nothing knows what a key means: keys are encoded, and compare as
//! bytes. Why it is so stands in `docs/design/buckets.md`.
//!
//! | module | holds |
//! |---|---|
//! | [`names`] | what things are called by |
//! | [`limits`] | how much there may be of everything, and for how long things wait |
//! | [`sampling`] | [`Sampling`]: which rows are sampled, and what samples say of all |
//! | [`estimating`] | [`corrected`]: how many rows many pieces have, when a few are looked at |
//! | [`growing`] | [`Growth`]: when a bucket is cut, and where |
//! | [`sizing`] | when a bucket is cut, and how large buckets become of that |
//! | [`directory`] | [`Directory`]: which buckets a partition is kept in |
//! | [`shards`] | [`Shards`]: the rows of one bucket in several partitions of the store |
//! | [`stored`] | the columns of that |
//! | [`mod@copy`] | [`DirectoryCopy`]: for how long a process goes by what it has read of it |
//! | [`routing`] | which buckets take a write, and which are read |
//! | [`writing`] | [`Writing`]: one write on its way |
//! | [`reading`] | [`Reading`]: one reading, from several buckets |
//! | [`steps`] | what each step of a cut makes of a directory |
//! | [`splitting`] | [`Splitting`]: a cut under way |
//! | [`clearing`] | [`Clearing`]: what is left of it later |
//! | [`rebuilding`] | [`Remains`]: a directory is made anew of what is left of it |
//! | [`retaining`] | [`Retaining`]: what is not kept any more, on its way out |

pub mod clearing;
pub mod copy;
pub mod directory;
pub mod estimating;
pub mod growing;
pub mod limits;
pub mod names;
pub mod reading;
pub mod rebuilding;
pub mod retaining;
pub mod routing;
pub mod sampling;
pub mod shards;
pub mod sizing;
pub mod splitting;
pub mod steps;
pub mod stored;
pub mod writing;

mod rules;
#[cfg(test)]
mod tests;

pub use clearing::{ClearAction, ClearEvent, Clearing};
pub use copy::{Clock, DirectoryCopy};
pub use directory::{Damage, Directory, Figures, Floor, Kept, Piece, Roles, Span};
pub use estimating::{Drawn, Several, corrected};
pub use growing::{Arrival, Due, Growth, position_ahead};
pub use limits::Protocol;
pub use names::{Bucket, Key, Micros, Version};
pub use reading::{ReadAction, ReadEvent, Reading};
pub use rebuilding::{HeldBucket, PieceRemains, Remains};
pub use retaining::{RetainAction, RetainEvent, Retaining};
pub use routing::{Operation, Slice, Unrouted};
pub use sampling::{Sample, Sampling};
pub use shards::{Shard, Shards};
pub use splitting::{Decision, SplitAction, SplitEvent, Splitting};
pub use steps::{Copying, Cut, Room, Stays};
pub use stored::{PieceColumns, StaticColumns, StoredDirectory, StoredError};
pub use writing::{WriteAction, WriteEvent, Writing};
