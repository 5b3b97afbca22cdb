//! The words every other crate of Recto speaks: types, values and their order, byte-comparable
//! keys, tables, records and schemas.
//!
//! Nothing here does I/O, is async, or reads a clock but through the handle in [`environment`].
//!
//! | module | holds |
//! |---|---|
//! | [`types`] | [`Type`]: the CQL types a field can have |
//! | [`value`] | [`Value`]: one decoded value, for tools, filters and tests |
//! | [`cell`] | the bytes of one value, exactly as CQL's native protocol serializes it |
//! | [`cells`] | [`Cells`] and [`RowSet`]: rows as cells in one buffer |
//! | [`collation`] | how people of a language sort text |
//! | [`order`] | the one definition of how values compare |
//! | [`key`] | byte-comparable keys: the order as bytes |
//! | [`width`] | [`Width`](width::Width): lengths of time in calendar units, and the calendar they are counted in |
//! | [`instants`] | points in time in cells |
//! | [`table`] | wide-column tables, positions in them and slices of them |
//! | [`schema`] | collections, views, and the TOML they are written in |
//! | [`json`] | record JSON, one mapping for HTTP, command line and files |
//! | [`native`] | Rust types as fields, what `#[derive(Record)]` builds on |
//! | [`record`] | [`Record`](record::Record): records as Rust types, and why a row is not one |
//! | [`decimals`] | the type of decimals |
//! | [`environment`] | the one handle on time and randomness |
//! | `extremes` | values at the edges of each order type, for tests, behind the feature `testing` |
//! | `golden` | reading files of stored bytes, for tests, behind the same |
//! | `decisions` | holding tests of rules against what a decision says of them, behind the same |

pub mod cell;
pub mod cells;
pub mod collation;
pub mod decimals;
#[cfg(any(test, feature = "testing"))]
pub mod decisions;
pub mod environment;
#[cfg(any(test, feature = "testing"))]
pub mod extremes;
#[cfg(any(test, feature = "testing"))]
pub mod golden;
pub mod instants;
pub mod json;
pub mod key;
pub mod native;
pub mod order;
pub mod record;
pub mod schema;
pub mod table;
pub mod types;
pub mod value;
pub mod width;

pub use cells::{Cells, RowRef, RowSet};
pub use environment::Environment;
pub use table::{Bound, Column, Direction, Slice, Table};
pub use types::Type;
pub use value::Value;
