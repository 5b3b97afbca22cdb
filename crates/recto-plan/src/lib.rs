//! From filter and sort text to plans: what a query means, which view serves it, what to read.
//!
//! Nothing here does I/O, is async, reads a clock, or knows a store.
//!
//! | module | holds |
//! |---|---|
//! | [`text`] | filter and sort text, parsed with spans |
//! | [`bind`] | their meaning in a collection |
//! | [`query`] | the normal form: one constraint per field |
//! | [`sort_order`] | the tables a collection can be read from |
//! | [`planner`] | choosing one, and laying out what to read of it |
//! | [`segments`] | ranges of values as pieces of clustering order |
//! | [`filter_scan`] | conditions checked row by row |
//! | [`plan`] | the plan, its slices and its order |
//! | [`choices`] | what else can be asked, field by field |
//! | [`refusal`] | no plan: the view that is missing |
//! | [`cursor`] | sealed positions |
//! | [`scan_token`] | how far a scan is, sealed |
//! | [`place_token`] | how far other long work is, sealed |
//! | [`error`] | what is wrong with a query |

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
pub use plan::{Plan, PlanShape, Shape, Travel};
pub use query::Query;
pub use sort_order::SortOrder;
