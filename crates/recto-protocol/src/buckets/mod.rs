//! Protocol that keeps a large partition in buckets, so that no partition of the store grows without bound, as step
//! functions.
//!
//! A partition that can become too large for a store is kept in *buckets*. Each bucket contains
//! contiguous ranges of the partition's order, and is stored as a partition of its own. Queries do
//! not see buckets.
//!
//! No function here does I/O, is async, or reads a clock. Functions compare keys only as encoded
//! bytes. `docs/design/buckets.md` gives the reasons.
//!
//! In the names of this module, a `Directory` is a range map, which assigns keys to buckets. A `Piece` is one of its
//! ranges. A `Cut` splits ranges, and a `Join` joins adjacent ranges. A `Floor` is a retention bound.
//!
//! | module | content |
//! |---|---|
//! | [`names`] | types of keys, versions, timestamps and bucket ids |
//! | [`limits`] | limits, and waiting times |
//! | [`sampling`] | [`Sampling`]: choice of sampled rows, and estimates from samples |
//! | [`estimating`] | [`corrected`]: estimated number of rows of many ranges, from the content of some of them |
//! | [`growing`] | [`Growth`]: when and where a bucket is split |
//! | [`sizing`] | split thresholds, and the sizes of buckets that follow from them |
//! | [`directory`] | [`Directory`]: range map of a partition (which bucket holds which keys) |
//! | [`shards`] | [`Shards`]: rows of one bucket, distributed over several partitions of the store |
//! | [`stored`] | stored columns of a range map |
//! | [`mod@copy`] | [`DirectoryCopy`]: cached range map, and the time for which a process may use it |
//! | [`routing`] | choice of the buckets that receive a write, and of the buckets to read |
//! | [`writing`] | [`Writing`]: a write under way |
//! | [`reading`] | [`Reading`]: a read under way, from several buckets |
//! | [`steps`] | effect of each step of a split or join on a range map |
//! | [`splitting`] | [`Splitting`]: a split or join under way |
//! | [`clearing`] | [`Clearing`]: removal of old buckets after a split or join |
//! | [`rebuilding`] | [`Remains`]: reconstruction of a damaged range map |
//! | [`retaining`] | [`Retaining`]: deletion of rows beyond the retention bound |
//! | [`unregistering`] | [`Registration`]: entries of time buckets, and their removal |

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
pub mod unregistering;
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
pub use steps::{Copying, Cut, Join, Room, Stays};
pub use stored::{PieceColumns, StaticColumns, StoredDirectory, StoredError};
pub use unregistering::{Registration, is_registered, registration_stamp, removal_stamp, unregister_wait_ms};
pub use writing::{WriteAction, WriteEvent, Writing};
