//! A database for large sorted lists. Recto returns any page of a filtered, sorted collection, forwards and
//! backwards, at a cost that depends on the size of the page and not on its depth. A store is a folder on one
//! machine, or a keyspace of Apache Cassandra. Both have the same schema, queries, cursors and results.
//!
//! The futures of this crate need [Tokio](https://tokio.rs) with timers (`#[tokio::main]`, or
//! `Builder::enable_all`). Without it, opening a store fails. Programs without async use [`blocking`].
//!
//! ```
//! use recto::schema::Schema;
//! use recto::{OpenOptions, Record, Recto};
//!
//! const SCHEMA: &str = r#"
//! [collection.orders]
//! fields = { id = "bigint", status = "text", created = "timestamp", customer = "text", total = "double" }
//! key = ["id"]
//!
//! [collection.orders.view.by_status]         # one list per status, newest first
//! partition = ["status"]
//! order = ["-created"]
//! "#;
//!
//! #[derive(Debug, Record)]
//! #[record(collection = "orders", key = ["id"])]
//! struct Order {
//!     id: i64,
//!     status: String,
//!     created: recto::types::Timestamp,
//!     customer: Option<String>,
//!     total: f64,
//! }
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> recto::Result<()> {
//! # let folder = tempfile::tempdir().unwrap();
//! # let folder = folder.path().join("shop");
//! let store = Recto::open_with(folder, OpenOptions::new().create()).await?;
//! store.apply(&Schema::parse(SCHEMA).expect("a valid schema")).await?;
//!
//! let orders = store.collection::<Order>()?;
//! for id in 0..100 {
//!     let created = recto::types::Timestamp(1_700_000_000_000 + id);
//!     orders.put(&Order { id, status: "open".into(), created, customer: None, total: 9.5 }).await?;
//! }
//!
//! let open = orders.query().filter(r#"status = "open""#);
//! let page = open.clone().first(20).await?;
//! assert_eq!(page.items()[0].id, 99);
//! let next = open.clone().first(20).after(page.next_cursor().unwrap()).await?;
//! assert_eq!(next.items()[0].id, 79);
//!
//! // An update moves the order from one list to another.
//! orders.update(99).set("status", "paid").await?;
//! assert_eq!(open.first(20).await?.items()[0].id, 98);
//! let paid = orders.query().filter(r#"status = "paid""#).await?;
//! assert_eq!(paid.items()[0].id, 99);
//! # Ok(())
//! # }
//! ```
//!
//! | start at | for |
//! |---|---|
//! | [`Recto`] | opening a store, applying a schema |
//! | [`Collection`] | reading and writing records |
//! | [`PageQuery`] | reading a page, or a stream of all rows |
//! | [`Page`] | rows, cursors, and whether more rows follow in either direction |
//! | [`Error`] | the cause of a failure and a hint at its fix |
//! | [`Scan`] | reading every record, in no particular order |
//! | [`queues`] | sending, receiving and acknowledging durable messages |
//! | [`blocking::Wait`] | the same calls without async |
//! | [`Session`] | the same operations in JSON, for tools |
//!
//! # Features
//!
//! | feature | content |
//! |---|---|
//! | `embedded` (default) | a store in a folder, based on redb |
//! | `cassandra` (default) | a store on Apache Cassandra, through the driver `scylla`, with TLS |
//! | `chrono`, `time` | dates and times of these crates as fields, in filters and in keys |
//!
//! Without both stores, [`Recto::with_store`] accepts your own implementation of a store.
//!
//! # Dropped futures
//!
//! Dropping a future before it completes leaves no operation half done. A dropped read has no effect. A
//! dropped write is either applied whole or not at all, and it may be applied after the drop. A later write
//! through the same handle wins over the dropped write. If you drop a stream while it reads a page, the next
//! stream that starts at the same cursor reads that page again.

mod address;
#[cfg(feature = "cassandra")]
mod attach;
mod batch;
mod beside;
pub mod blocking;
mod bucketed;
pub mod buckets;
mod build;
mod catalog;
mod change;
mod collection;
mod copy;
mod core;
mod covered;
#[cfg(feature = "full")]
pub mod design;
mod entries;
mod error;
mod explain;
pub mod filter;
pub mod filter_text;
mod handle;
mod held;
mod key;
mod keys;
mod load;
mod local_session;
mod misfits;
mod open;
mod options;
mod pace;
mod page;
mod page_text;
mod paging;
mod partition_store;
mod partitions;
mod planned;
mod present;
mod query;
pub mod queues;
mod reach;
mod record;
mod recto;
mod retention;
mod room;
mod row_filter;
mod runtime;
mod scan;
pub mod session;
mod settle;
mod shared;
mod stamps;
pub mod text;
mod verify;
mod viewed;
mod whole_table;
mod writer;
mod writes;

use std::sync::Arc;

pub use address::{CASSANDRA_PORT, CassandraAddress, HttpAddress, Secret, StoreAddress};
pub use batch::WriteBatch;
pub use change::{Change, SetField, Update};
pub use collection::Collection;
pub use core::no_collection;
pub use error::{Error, ErrorKind, Part as ErrorPart, Result, Suggestion, error_node, error_table};
pub use key::{Key, KeyPart, KeyText};
pub use keys::{DEFAULT_EARLIER_CURSOR_KEYS, MAX_EARLIER_CURSOR_KEYS};
pub use load::{check_load_file, check_load_name, detect_load_ending};
pub use local_session::LocalSession;
#[cfg(feature = "embedded")]
pub use open::{check_restore_folder, drop_commit_log_after};
pub use options::OpenOptions;
pub use page::Page;
#[doc(hidden)]
pub use present::Versioned;
pub use query::PageQuery;
pub use record::DynamicRecord;
pub use recto::Recto;
pub use recto_api::pages::{Count, RowCount, Stop};
pub use recto_api::pages::{DEFAULT_PAGE_SIZE, MAX_PAGE_SIZE};
pub use recto_api::problem;
/// ```
/// use recto::filter::field;
/// use recto::{FieldType, Record};
///
/// #[derive(Debug, Clone, Copy, FieldType)]
/// enum Status {
///     #[record(name = "open")]
///     Open,
///     #[record(name = "sent")]
///     Sent,
/// }
///
/// #[derive(Debug, Clone, Copy, FieldType)]
/// struct OrderId(i64);
///
/// #[derive(Debug, Record)]
/// #[record(collection = "orders", key = ["id"])]
/// struct Order {
///     id: OrderId,
///     status: Status,
/// }
///
/// let sent = field("status").equal_to(Status::Sent).and(field("id").greater_than(OrderId(7)));
/// assert_eq!(Order::collection().fields[1].ty, recto::Type::Text);
/// ```
#[cfg(feature = "derive")]
pub use recto_derive::FieldType;
#[cfg(feature = "derive")]
pub use recto_derive::Record;
#[cfg(feature = "embedded")]
pub use recto_embedded::{StoreHolder, store_holder};
pub use recto_model::cell::CellError;
pub use recto_model::native::FieldType;
pub use recto_model::record::{Record, TypedField};
pub use recto_model::{Direction, Environment, Type, Value, schema};
/// Position of the beginning or the end of a page: text that you can hand to a client and parse again
/// later.
///
/// ```
/// # use recto::{Cursor, OpenOptions, Record, Recto};
/// # #[derive(Debug, Clone, PartialEq, Record)]
/// # #[record(collection = "events", key = ["day", "id"], partition = ["day"], order = ["id"], writes = "append")]
/// # struct Event { day: String, id: i64 }
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let folder = tempfile::tempdir().unwrap();
/// # let store = Recto::open_with(folder.path().join("store"), OpenOptions::new().create()).await?;
/// # store.apply(&recto::schema_of([Event::collection()])).await?;
/// # let events = store.collection::<Event>()?;
/// # let event = |id| Event { day: "mon".into(), id };
/// # events.put_all(&(0..60).map(event).collect::<Vec<_>>()).await?;
/// let query = events.query().filter("day = \"mon\"").page_size(20);
/// let page = query.clone().await?;
/// // What a client is given, and gives back for the next page.
/// let token: String = page.next_cursor().unwrap().into_string();
/// let next: Cursor = token.parse()?;
/// let page = query.after(next).await?;
/// assert_eq!(page.items()[0], event(20));
/// # Ok(())
/// # }
/// ```
pub use recto_plan::cursor::Cursor;
pub use recto_store::check::MAX_TTL_SECONDS;
pub use scan::{Scan, ScanPart};
pub use session::RecoveryPass;
pub use session::{ApplyOptions, Session};
pub use writer::WriterMetrics;
pub use writes::{Changed, MAX_BATCH_CHANGES};

/// Rust types for field types that the standard library lacks.
pub mod types {
    pub use recto_model::native::*;
}

/// Storage interface. Implement its trait `Store` to run Recto on another database.
pub use recto_store as store;

/// Checks that the fuzzer runs on texts of loaded files, and on checkpoints of interrupted comparisons of
/// views.
#[cfg(feature = "fuzzing")]
#[doc(hidden)]
pub mod fuzzing {
    pub use crate::load::fuzzing::*;
    pub use crate::verify::place;
}

/// Items that the code generated by `#[derive(Record)]` refers to.
#[doc(hidden)]
pub mod __private {
    pub use crate::filter::literal_of;
    pub use crate::key::write_part;
    pub use recto_model as model;
}

/// Returns a schema with the given collections, as record types declare them.
///
/// ```
/// # use recto::Record;
/// #[derive(Record)]
/// #[record(collection = "notes", key = ["id"], writes = "overwrite")]
/// struct Note {
///     id: i64,
///     text: Option<String>,
/// }
///
/// let schema = recto::schema_of([Note::collection()]);
/// assert_eq!(schema.collections[0].name, "notes");
/// ```
pub fn schema_of(collections: impl IntoIterator<Item = schema::Collection>) -> schema::Schema {
    schema::Schema {
        collections: collections.into_iter().map(Arc::new).collect(),
        ..schema::Schema::default()
    }
}

/// Opens the store at an address as a [`Session`], for tools.
///
/// # Errors
/// The errors of [`Recto::open_with`].
pub async fn open(address: &StoreAddress, options: OpenOptions) -> Result<Arc<dyn Session>> {
    Ok(Arc::new(LocalSession::new(
        Recto::open_with(address, options).await?,
    )))
}

/// Returns the effect of applying `schema` at an address that has no store yet. For a new keyspace, the
/// number of replicas depends on the cluster, so this function asks the cluster for its nodes.
///
/// # Errors
/// - The address is a server's. Its store always exists, because the server keeps it open.
/// - The cluster is unreachable.
pub async fn plan_without_store(
    address: &StoreAddress,
    schema: &schema::Schema,
    options: &ApplyOptions,
) -> Result<session::SchemaPlan> {
    open::plan_without_store(address, &Environment::system(), schema, options).await
}

/// Compiles the snippets of the README and of the guide.
#[cfg(doctest)]
mod guide {
    #[doc = include_str!("../../../README.md")]
    struct Readme;
    #[doc = include_str!("../../../docs/book/changing.md")]
    struct Changing;
    #[doc = include_str!("../../../docs/book/rust.md")]
    struct Rust;
}
