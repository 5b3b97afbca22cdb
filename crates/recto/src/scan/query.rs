//! Asking for all records of a collection, or of a filter, in no order.

use std::sync::Arc;

use futures::stream::{self, Stream, StreamExt, TryStreamExt};

use recto_model::record::Record;

use super::Asked;
use crate::error::Result;
use crate::handle::Handle;
use crate::query::Decode;
use crate::record::decode_each;

/// Every record of a collection, or of a filter, in no order that two stores would share: for exports, copies
/// and counts. It reads the whole table (on Cassandra several ranges side by side), unless pages of its filter are
/// served; then it reads those.
///
/// Nothing is read until the stream is polled. A scan that was cut goes on with the token of its last part.
///
/// ```
/// # use recto::{OpenOptions, Record, Recto};
/// use futures::TryStreamExt;
///
/// #[derive(Debug, Record)]
/// #[record(collection = "notes", key = ["id"], writes = "overwrite")]
/// struct Note {
///     id: i64,
///     text: Option<String>,
/// }
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> recto::Result<()> {
/// # let folder = tempfile::tempdir().unwrap();
/// # let store = Recto::open_with(folder.path().join("notes"), OpenOptions::new().create()).await?;
/// # store.apply(&recto::schema_of([Note::collection()])).await?;
/// let notes = store.collection::<Note>()?;
/// for id in 0..3 {
///     notes.put(&Note { id, text: None }).await?;
/// }
/// let mut all: Vec<Note> = notes.scan().stream().try_collect().await?;
/// all.sort_by_key(|note| note.id);
/// assert_eq!(all[2].id, 2);
/// # Ok(())
/// # }
/// ```
pub struct Scan<T> {
    handle: Arc<Handle>,
    decode: Decode<T>,
    asked: Asked,
}

/// Some records of a [`Scan`].
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct ScanPart<T> {
    /// The records. There may be none, with more to come.
    pub items: Vec<T>,
    /// What [`Scan::resume`] goes on with after these records; absent at the end. It is sealed, and of this
    /// store only.
    pub resume: Option<String>,
}

impl<T> std::fmt::Debug for Scan<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Scan")
            .field("collection", &self.handle.name())
            .field("filter", &self.asked.filter)
            .finish_non_exhaustive()
    }
}

impl<T> Scan<T> {
    pub(crate) fn new(handle: Arc<Handle>, decode: Decode<T>) -> Self {
        Self {
            handle,
            decode,
            asked: Asked::default(),
        }
    }

    /// Only records that satisfy this filter text. Called again, both hold; an empty text says nothing.
    #[must_use]
    pub fn filter(mut self, text: impl Into<String>) -> Self {
        let (held, text) = (&mut self.asked.filter, text.into());
        if !held.is_empty() && !text.is_empty() {
            // OR binds tighter.
            held.push_str(" AND ");
        }
        held.push_str(&text);
        self
    }

    /// How many ranges of the table are read side by side: 4 unless given, 64 at most. An embedded store reads one after
    /// the other, and the whole table as one unless told otherwise.
    #[must_use]
    pub fn parallel(mut self, ranges: u32) -> Self {
        self.asked.parallel = ranges;
        self
    }

    /// Goes on after the part that gave this token.
    #[must_use]
    pub fn resume(mut self, token: impl Into<String>) -> Self {
        self.asked.resume = Some(token.into());
        self
    }
}

impl<T: Record> Scan<T> {
    /// Makes a `Result` of each record, as [`PageQuery::each_result`](crate::PageQuery::each_result) does: the scan continues
    /// after a record that the record type cannot represent.
    #[must_use]
    pub fn each_result(self) -> Scan<Result<T>> {
        Scan {
            handle: self.handle,
            decode: decode_each::<T>,
            asked: self.asked,
        }
    }
}

impl<T: Send + 'static> Scan<T> {
    /// The records in parts, each with the token to go on after it. An error ends it.
    pub fn parts(self) -> impl Stream<Item = Result<ScanPart<T>>> + Send + Unpin + use<T> {
        let (decode, asked) = (self.decode, self.asked);
        super::parts(self.handle, Vec::new(), asked, decode)
    }

    /// The records, one after the other. An error ends it.
    pub fn stream(self) -> impl Stream<Item = Result<T>> + Send + Unpin + use<T> {
        self.parts()
            .map_ok(|part| stream::iter(part.items).map(Ok))
            .try_flatten()
            .boxed()
    }
}
