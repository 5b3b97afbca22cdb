//! Queries in, fewest views out: which views a collection needs so that each query it is asked is served without
//! checking rows one by one.
//!
//! Nothing here does I/O, is async, reads a clock, or knows a store. What is proposed is held against the planner that
//! answers queries: each is planned over the proposed schema, and what is said of it is what that plan says.
//!
//! | module | holds |
//! |---|---|
//! | [`error`] | why nothing is proposed |
//! | [`asked`] | queries as they are given: TOML, or a server's log |
//! | `samples`, `bound` | values in the place of `?`; queries with their meaning in a collection |
//! | [`shape`] | the shape of filter text, without its values |
//! | `needs` | what a query needs of a view, and whether one view can serve two |
//! | `arranged` | the view for several queries |
//! | `cover` | the fewest groups of queries with a view each |
//! | [`design`](mod@design) | all of it together, and what else could be had |
//! | `alternatives` | what becomes of queries without a view |
//! | `words` | what is said of it |
//! | [`schema_text`] | a schema's text with views added |

mod alternatives;
mod arranged;
pub mod asked;
mod bound;
mod cover;
pub mod design;
pub mod error;
mod needs;
mod samples;
pub mod schema_text;
pub mod shape;
mod words;

pub use asked::{Asked, Log, Tally, parse_log, parse_queries, queries_text};
pub use design::{
    Design, Instead, MAX_SHAPES, ProposedView, ServedQuery, Unservable, Without, WithoutQuery, design,
    servable,
};
pub use error::{DesignError, DesignErrorKind};
pub use schema_text::with_views;
pub use shape::{filter_shape, sort_shape};
