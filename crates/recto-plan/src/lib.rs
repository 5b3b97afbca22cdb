//! Query planning: parses filter and sort text, chooses a view that serves the query, and lists the slices to
//! read.
//!
//! This crate does no I/O, has no async code, reads no clock, and depends on no store.
//!
//! | module | holds |
//! |---|---|
//! | [`text`] | parser of filter and sort text, with spans |
//! | [`bind`] | translation of parsed text into fields, types and values of a collection |
//! | [`query`] | normal form of a query: at most one constraint per field |
//! | [`sort_order`] | tables from which a collection can be read |
//! | [`planner`] | choice of a sort order, and layout of the slices to read |
//! | [`segments`] | ranges of values as segments of the clustering order |
//! | [`filter_scan`] | conditions that are checked on each row |
//! | [`plan`] | plan: its slices and its order |
//! | [`choices`] | further conditions and sorts that a view serves, for each field |
//! | [`refusal`] | rejection of a query, with the missing view |
//! | [`cursor`] | encrypted page tokens |
//! | [`scan_token`] | encrypted checkpoints of scans |
//! | [`place_token`] | encrypted checkpoints of long-running work, such as `verify` |
//! | `advisor` | proposals of views for given queries, behind the feature `advisor` |
//! | [`error`] | errors in queries |

#[cfg(feature = "advisor")]
pub mod advisor;
pub mod bind;
pub mod choices;
pub mod cursor;
pub mod error;
pub mod filter_scan;
pub mod place_token;
pub mod plan;
pub mod planner;
pub mod query;
pub mod refusal;
pub mod scan_token;
pub mod segments;
pub mod sort_order;
pub mod text;

pub use cursor::{Position, Side};
pub use error::{QueryError, QueryErrorKind};
pub use plan::{Plan, Travel};
pub use query::Query;
pub use recto_api::explanation::{PlanShape, Shape};
pub use sort_order::SortOrder;
