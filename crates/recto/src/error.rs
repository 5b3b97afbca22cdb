//! Error type of the public API, re-exported from `recto-api`.

use recto_plan::cursor::{CursorError, CursorName};
use recto_store::StoreError;

/// A caller uses the kind to decide how to continue:
/// ```
/// # use recto::{OpenOptions, Record, Recto};
/// # #[derive(Debug, Clone, PartialEq, Record)]
/// # #[record(collection = "events", key = ["day", "id"], partition = ["day"], order = ["id"], writes = "append")]
/// # struct Event { day: String, id: i64, kind: String }
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> recto::Result<()> {
/// # let folder = tempfile::tempdir().unwrap();
/// # let store = Recto::open_with(folder.path().join("store"), OpenOptions::new().create()).await?;
/// # store.apply(&recto::schema_of([Event::collection()])).await?;
/// # let events = store.collection::<Event>()?;
/// # let event = |id| Event { day: "mon".into(), id, kind: if id % 9 == 0 { "alarm" } else { "tick" }.into() };
/// # events.put_all(&(0..60).map(event).collect::<Vec<_>>()).await?;
/// use recto::ErrorKind;
///
/// let error = events.query().filter(r#"kind = "alarm""#).await.unwrap_err();
/// match error.kind() {
///     ErrorKind::NoPlan => println!("a view is missing: {}", error.hint().unwrap_or_default()),
///     _ if error.is_retryable() => println!("again, a little later"),
///     _ => return Err(error),
/// }
/// # Ok(())
/// # }
/// ```
///
/// An error names the part of the request that it refers to:
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> recto::Result<()> {
/// use recto::{ErrorPart, OpenOptions, Record, Recto};
///
/// # #[derive(Debug, Record)]
/// # #[record(collection = "events", key = ["day", "id"], partition = ["day"], order = ["id"], writes = "append")]
/// # struct Event { day: String, id: i64 }
/// # let folder = tempfile::tempdir().unwrap();
/// # let store = Recto::open_with(folder.path().join("store"), OpenOptions::new().create()).await?;
/// # store.apply(&recto::schema_of([Event::collection()])).await?;
/// let events = store.collection::<Event>()?;
/// let error = events.query().filter("day = 7").await.unwrap_err();
/// assert_eq!((error.part(), error.column()), (Some(ErrorPart::Filter), Some(7)));
/// // What has no partition is no mistake of one part.
/// let error = events.query().await.unwrap_err();
/// assert_eq!((error.part(), error.missing_partition_fields()), (None, &["day".to_owned()][..]));
/// # Ok(())
/// # }
/// ```
///
/// If no view serves a query, the error suggests one:
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> recto::Result<()> {
/// # use recto::{OpenOptions, Record, Recto};
/// # #[derive(Debug, Record)]
/// # #[record(collection = "events", key = ["day", "id"], partition = ["day"], order = ["id"], writes = "append")]
/// # struct Event { day: String, id: i64, kind: String }
/// # let folder = tempfile::tempdir().unwrap();
/// # let store = Recto::open_with(folder.path().join("store"), OpenOptions::new().create()).await?;
/// # store.apply(&recto::schema_of([Event::collection()])).await?;
/// let events = store.collection::<Event>()?;
/// let error = events.query().filter(r#"kind = "alarm""#).await.unwrap_err();
/// let suggestion = error.suggestion().unwrap();
/// assert_eq!(suggestion.view.as_ref().unwrap().partition, ["kind"]);
/// assert!(suggestion.declaration().starts_with("[collection.events.view.by_kind]"));
/// # Ok(())
/// # }
/// ```
#[doc(inline)]
pub use recto_api::Error;
#[doc(inline)]
pub use recto_api::suggestion::Suggestion;
#[doc(inline)]
pub use recto_api::{ErrorKind, ErrorPart as Part, Result};

/// Returns the error for an invalid cursor. The message uses the caller's term for a cursor (`name`).
pub(crate) fn of_cursor(error: &CursorError, name: CursorName) -> Error {
    Error::new(ErrorKind::InvalidCursor, error.message(name)).with_hint(error.hint(name))
}

/// Returns the node of the cluster that received the last request before an error, as
/// `address:port`, if there was one. Programs can log it.
pub fn error_node(error: &Error) -> Option<&str> {
    error.cause::<StoreError>()?.node()
}

/// Returns the table whose read or write failed, if the store reports it. Programs can log it.
pub fn error_table(error: &Error) -> Option<&str> {
    error.cause::<StoreError>()?.table()
}
