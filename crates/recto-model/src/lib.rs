//! Basic definitions that every other crate of Recto uses: types, values and their order,
//! byte-comparable keys, tables, records and schemas.
//!
//! This crate does no I/O and has no async code. It reads clocks only through the handle in
//! [`environment`].
//!
//! | module | content |
//! |---|---|
//! | [`types`] | [`Type`]: the CQL types that a field can have |
//! | [`value`] | [`Value`]: a decoded value, for tools, filters and tests |
//! | [`cell`] | the bytes of a value, exactly as CQL's native protocol serializes it |
//! | [`cells`] | [`Cells`] and [`RowSet`]: rows as cells in one buffer |
//! | [`collation`] | sort orders of text by language |
//! | [`order`] | the only definition of how values compare |
//! | [`key`] | byte-comparable keys: byte strings that sort as their values do |
//! | [`width`] | [`Width`](width::Width): lengths of time in calendar units, and the calendar that counts them |
//! | [`instants`] | conversion between cells and points in time |
//! | [`table`] | wide-column tables, positions in tables, and ranges of rows |
//! | [`schema`] | collections, views, and their TOML language |
//! | [`json`] | record JSON, the same mapping for HTTP, command line and files |
//! | [`native`] | Rust types as fields, the basis of `#[derive(Record)]` |
//! | [`record`] | [`Record`](record::Record): records as Rust types, and the errors of converting a row into a record |
//! | [`decimals`] | the type of decimal numbers |
//! | [`environment`] | the handle for time and randomness |
//! | `extremes` | extreme values of each order type, for tests (feature `testing`) |
//! | `golden` | reader for files of stored bytes, for tests (feature `testing`) |
//! | `decisions` | check that each protocol rule of a design decision has a test (feature `testing`) |

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
