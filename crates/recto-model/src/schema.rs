//! Collections, views, and their TOML language.
//!
//! [`Schema::parse`] reads the language. [`Schema::to_toml`] writes the canonical form, which
//! stores keep. [`Schema::difference`] returns the changes between two schemas. A schema built in
//! code ([`Collection::new`], which `#[derive(Record)]` calls) goes through the same checks.
//!
//! | module | content |
//! |---|---|
//! | `model` | the checked schema: collections, fields, views |
//! | `sort_order` | the sort orders of a collection, as tables |
//! | `queues` | the settings of the store's queues |
//! | `calendar` | calendar intervals and their start times, in UTC |
//! | `options` | values of options: sizes, buckets, position of nulls |
//! | `rounding` | order fields rounded down |
//! | `collation` | the rule that a field has one collation in a collection |
//! | `names` | the rules for names, and the nearest name to a misspelled one |
//! | `type_text` | types as text |
//! | `type_order` | an order of UDTs in which each UDT follows the UDTs that it contains |
//! | `parse` | the TOML parser, which produces declarations |
//! | `declared` | declarations: the text of the schema, item by item, with positions |
//! | `check` | the rules; converts declarations into the model |
//! | `problem` | the problems that a schema can have, with hints |
//! | `context` | the sink for problems that the parser and the checks report |
//! | `position` | lines and columns of a text |
//! | `errors` | errors and their display |
//! | `print` | the printer of canonical TOML |
//! | `difference` | the changes between two schemas |
//! | `keeping` | the settings that a recorded schema passes on when another schema is applied |

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

/// Commented example schema, which `recto init` writes.
pub const EXAMPLE: &str = include_str!("schema/example.toml");

/// Name of the view that the options `partition` and `order` of a collection with `writes =
/// "update"` declare.
pub const PRIMARY_VIEW: &str = "primary";
/// Name of the base table among the sort orders of a collection with `writes = "update"`.
pub const BASE_SORT_ORDER: &str = "base";

/// Maximum length of a schema text, in bytes.
pub const MAX_SCHEMA_BYTES: usize = 1 << 20;
/// Maximum number of collections in a schema.
pub const MAX_COLLECTIONS: usize = 1_000;
/// Maximum number of user-defined types in a schema.
pub const MAX_TYPES: usize = 1_000;
/// Maximum number of fields in a collection or a UDT.
pub const MAX_FIELDS: usize = 1_000;
/// Maximum size of the key of a view's row, in bytes: the total of its cells (encoded values).
pub const MAX_VIEW_KEY_BYTES: usize = 8 << 10;
/// Maximum number of fields in a key, and in the partition and order of a view together.
pub const MAX_KEY_FIELDS: usize = 32;
/// Maximum number of views of a collection.
pub const MAX_VIEWS: usize = 64;
/// Maximum number of uniqueness constraints of a collection.
pub const MAX_UNIQUE: usize = 64;
/// Maximum number of shards of a bucket: partitions of the store that together contain it. Reading
/// a page queries each shard.
pub const MAX_SHARDS: u8 = 64;
/// Maximum nesting depth of a type. `list<int>` has depth 2. Each user-defined type counts as a
/// level.
pub const MAX_TYPE_DEPTH: usize = 16;
/// Maximum number of types that a type contains after its user-defined types are expanded. If each
/// user-defined type contains the previous one twice, this number doubles with each. The limit
/// keeps the expanded type small enough to traverse.
pub const MAX_TYPE_PARTS: usize = 10_000;
/// Maximum dimension of a vector; Cassandra has the same limit.
pub const MAX_VECTOR_DIMENSION: u16 = 8_192;
/// Maximum length of a name, in characters.
pub const MAX_NAME_LENGTH: usize = 48;
/// Maximum number of errors that are listed for a schema. Further errors are only counted.
pub const MAX_ERRORS: usize = 50;
