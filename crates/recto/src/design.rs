//! Design of views: finds the fewest views that serve given queries.
//!
//! ```
//! use recto::design::{design, parse_queries};
//! use recto::schema::Schema;
//!
//! let schema = Schema::parse(
//!     r#"
//! [collection.tasks]
//! fields = { id = "uuid", team = "text", status = "text", due = "date" }
//! key = ["id"]
//! "#,
//! )?;
//! let queries = parse_queries(
//!     r#"
//! [[query]]
//! name = "of a team"
//! filter = 'team = ?'
//! [[query]]
//! name = "due soon"
//! filter = 'team = ? AND status = "open" AND due <= ?'
//! "#,
//! )?;
//! let design = design(&schema.collections[0], &queries)?;
//! // One view serves both.
//! assert_eq!(design.views[0].sort_order, "(team), status, due, id");
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

pub use recto_plan::advisor::workload::{
    LOG_MESSAGE, LogReader, MAX_LOG_LINE_BYTES, MAX_QUERIES_BYTES, Tally,
};
pub use recto_plan::advisor::{
    AffectedQuery, Design, DesignError, DesignErrorKind, Log, MAX_SHAPES, ProposedView, ServedQuery,
    Unservable, ViewAlternative, ViewRemoval, WorkloadQuery, design, filter_shape, parse_log, parse_queries,
    queries_text, servable, sort_shape, with_views,
};
