//! View advisor: proposes the minimum number of views with which a collection serves given queries without filter
//! scans.
//!
//! The planner that serves queries checks each proposal: it plans each query with the proposed schema, and the reported properties of a query come from
//! this plan.
//!
//! | module | content |
//! |---|---|
//! | [`error`] | errors |
//! | [`workload`] | given queries: from TOML, or from a server's log |
//! | `samples`, `bound` | values in place of `?`; queries bound to a collection |
//! | [`shape`] | filter text without its values |
//! | `needs` | requirements of a query on a view, and whether one view can serve two queries |
//! | `arranged` | the view for several queries |
//! | `cover` | minimum number of groups of queries with one view each |
//! | [`design`](mod@design) | the whole design, with alternatives |
//! | `alternatives` | ways to serve queries without a proposed view |
//! | `words` | text about a design |
//! | [`schema_text`] | text of a schema with additional views |

mod alternatives;
mod arranged;
mod bound;
mod cover;
pub mod design;
pub mod error;
mod needs;
mod samples;
pub mod schema_text;
pub mod shape;
mod words;
pub mod workload;

pub use design::{
    AffectedQuery, Design, MAX_SHAPES, ProposedView, ServedQuery, Unservable, ViewAlternative, ViewRemoval,
    design, servable,
};
pub use error::{DesignError, DesignErrorKind};
pub use schema_text::with_views;
pub use shape::{filter_shape, sort_shape};
pub use workload::{Log, Tally, WorkloadQuery, parse_log, parse_queries, queries_text};
