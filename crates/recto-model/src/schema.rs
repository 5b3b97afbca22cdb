//! Collections, views, and the TOML they are written in.
//!
//! [`Schema::parse`] reads the language, [`Schema::to_toml`] writes it in one canonical form (what a
//! store records), and [`Schema::difference`] says what changes between two schemas. A schema built in
//! code ([`Collection::new`], which `#[derive(Record)]` calls) goes through the same checks.
//!
//! | module | holds |
//! |---|---|
//! | `model` | what a schema is |
//! | `sort_order` | the sort orders of a collection, as tables |
//! | `queues` | what a schema says of the queues of its store |
//! | `calendar` | widths in the calendar: where one begins, in UTC |
//! | `options` | the values of options: sizes, buckets, where nulls stand |
//! | `rounding` | order fields rounded down |
//! | `collation` | that a field has one collation in a collection |
//! | `names` | what a name may be, and the nearest one to a misspelt one |
//! | `type_text` | types as text |
//! | `type_order` | UDTs before those that hold them |
//! | `parse` | TOML into declarations |
//! | `declared` | declarations: what was written, word by word, with where it stood |
//! | `check` | the rules; declarations into the model |
//! | `problem` | what can be wrong, and what to write instead |
//! | `context` | what the parser and the checks report to |
//! | `position` | lines and columns of a text |
//! | `errors` | errors, and how they are shown |
//! | `print` | the model into canonical TOML |
//! | `difference` | what changes between two schemas |
//! | `keeping` | what of a recorded schema stays when another is applied |

mod attached;
mod calendar;
mod check;
mod collation;
mod context;
mod declared;
mod difference;
mod errors;
mod keeping;
mod model;
mod names;
mod options;
mod parse;
mod position;
mod print;
mod problem;
mod queues;
mod rounding;
mod sort_order;
mod type_order;
mod type_text;

pub use attached::{AttachedTable, AttachedTableError};
pub use collation::CollationConflict;
pub use declared::Declaration;
pub use difference::{Change, ChangeKind};
pub use errors::{CollectionError, SchemaError, SchemaErrors};
pub use model::{Collection, Field, OrderColumn, Schema, View, WriteMode};
pub use names::{NameError, check_name, nearest};
pub use options::{Bucket, BucketStrategy, Nulls};
pub use position::Position;
pub use problem::Problem;
pub use queues::StoreQueues;
pub use sort_order::{ArrangedBy, Derivation, HEAD_COLUMN, Holds, SortOrder, VERSION_COLUMN};
pub use type_text::{TypeTextError, parse_type};

pub use crate::width::{Width, WidthUnit};

/// A commented schema to start from, which `recto init` writes.
pub const EXAMPLE: &str = include_str!("schema/example.toml");

/// The name of the view that `partition` and `order` of an `update` collection declare.
pub const PRIMARY_VIEW: &str = "primary";
/// Name of the base table of an `update` collection among its sort orders.
pub const BASE_SORT_ORDER: &str = "base";

/// The longest schema text, in bytes.
pub const MAX_SCHEMA_BYTES: usize = 1 << 20;
/// The most collections in a schema.
pub const MAX_COLLECTIONS: usize = 1_000;
/// The most UDTs in a schema.
pub const MAX_TYPES: usize = 1_000;
/// The most fields in a collection or a UDT.
pub const MAX_FIELDS: usize = 1_000;
/// How many bytes the cells of an entry's key may have.
pub const MAX_VIEW_KEY_BYTES: usize = 8 << 10;
/// The most fields in a key, and in the partition and order of a view.
pub const MAX_KEY_FIELDS: usize = 32;
/// The most views of a collection.
pub const MAX_VIEWS: usize = 64;
/// The most uniqueness constraints of a collection.
pub const MAX_UNIQUE: usize = 64;
/// The most partitions of the store that a bucket is kept in: a page asks each of them.
pub const MAX_SHARDS: u8 = 64;
/// How deep a type may nest, counting collections, tuples, vectors and UDTs.
pub const MAX_TYPE_DEPTH: usize = 16;
/// How many types a type may consist of when its UDTs are written out. UDTs that each hold the one
/// before twice double with every step; this keeps the whole walkable.
pub const MAX_TYPE_PARTS: usize = 10_000;
/// The highest dimension of a vector, Cassandra's own.
pub const MAX_VECTOR_DIMENSION: u16 = 8_192;
/// The longest name, in characters.
pub const MAX_NAME_LENGTH: usize = 48;
/// The most errors that are reported at once; more are counted.
pub const MAX_ERRORS: usize = 50;
