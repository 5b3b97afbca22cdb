//! Partitions of bounded size on a store: the engine of `recto_protocol::buckets`.
//!
//! The protocol says what is to be done, and this does it: it reads directories and changes them by conditional writes, keeps
//! copies of them, writes rows to the buckets that take them and reads them from those that have them, samples them, and cuts what
//! has grown. A *piece* is what lies between two edges of a partition's order; which bucket has it is nobody's business above. Why
//! it is so stands in `docs/design/buckets.md`.
//!
//! Most of this is for stores without transactions; what is for those that have them is in [`transacted`]. A [`BucketedStore`] goes by
//! the one that suits its store.
//!
//! | module | holds |
//! |---|---|
//! | [`error`] | [`PiecesError`] |
//! | [`limits`] | how much there may be of everything |
//! | [`tables`] | [`PiecedTable`], and the tables of directories and samples |
//! | [`place`] | [`PieceStore`]: the store and its clocks; [`Partition`]: one that a query names |
//! | `directory` | directories are read and changed |
//! | `copies` | what is known of them, and for how long |
//! | `samples` | samples are written and read |
//! | `shards` | the shards of a bucket are read as one, and scans meet a partition whose first shard is empty |
//! | [`writer`] | [`RowChange`]: a row is written |
//! | `sending` | rows are taken to the buckets that take them |
//! | `room` | room is made for rows that are to be loaded |
//! | `loading` | who loads waits where buckets are cut too late |
//! | `reader` | rows are read |
//! | `times` | which bucket by time a key belongs to |
//! | `registry` | which of those there are |
//! | `retaining` | what is not kept any more goes |
//! | `notices` | what is noticed of partitions, for who cuts |
//! | `growth` | whether a bucket is to be cut, and where |
//! | `holding` | samples are held to the rows that they are of |
//! | `copying` | rows go from one bucket to another |
//! | `bucketed` | [`BucketedStore`]: a store over a store, whose tables show nothing of it |
//! | `counters` | what a process does for buckets, counted |
//! | `bytes` | bytes of positions |
//! | [`check`] | whether buckets are as they should be |
//! | `forget` | what goes with a table |
//! | `splitter` | cuts are made, gone on with, and cleared |
//! | `sums` | what pieces hold is summed up, for some of them at a time |
//! | `survey` | how many rows there are, by those sums and by looking at a few pieces |
//! | [`list`] | buckets as who looks after a store sees them |
//! | `mend` | [`Mended`]: that is done by hand |
//! | [`transacted`] | [`Transacted`]: all of that where a transaction moves rows |

mod bucketed;
mod bytes;
pub mod check;
mod copies;
mod copying;
mod counters;
mod directory;
pub mod error;
mod forget;
mod growth;
mod holding;
pub mod limits;
pub mod list;
mod loading;
mod mend;
mod notices;
pub mod place;
mod reader;
mod registry;
mod retaining;
mod room;
mod samples;
mod sending;
mod shards;
mod splitter;
mod sums;
mod survey;
pub mod tables;
#[cfg(test)]
mod tests;
mod times;
pub mod transacted;
pub mod writer;

pub use bucketed::{BucketedStore, Partitions, PartitionsPosition, table_in_store};
pub use check::{BucketCheck, CheckStep, Fault, FaultKind, FaultOutcome};
pub use counters::BucketMetrics;
pub use error::{PiecesError, PiecesErrorKind, Result};
pub use mend::Mended;
pub use place::{Partition, PieceStore, Place, Stamps};
pub use tables::{BucketSize, PiecedTable};
pub use transacted::Transacted;
pub use writer::{Change, RowChange};
