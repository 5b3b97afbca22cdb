//! Requests for scans of a collection.

use std::sync::Arc;

use futures::stream::{self, Stream, StreamExt, TryStreamExt};

use recto_model::record::Record;

use super::ScanQuery;
use crate::error::Result;
use crate::handle::Handle;
use crate::query::Decode;
use crate::record::decode_each;

/// Scan of every record of a collection, or of every record that a filter matches. It suits
/// exports, copies and counts. The order of the records differs between stores. The scan reads the
/// whole table; on Cassandra it reads several ranges concurrently. If pages of the filter can be
/// served without a filter scan, the scan reads these pages instead.
///
/// Nothing is read until the stream is polled. An interrupted scan continues with the token of the last
/// received part.
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
    asked: ScanQuery,
}

/// Part of a [`Scan`]: some of its records, and a token to continue.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct ScanPart<T> {
    /// Records. The list may be empty although more records follow.
    pub items: Vec<T>,
    /// Token with which [`Scan::resume`] continues after `items`, or `None` at the end of the scan. The token
    /// is encrypted and valid only for this store.
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
            asked: ScanQuery::default(),
        }
    }

    /// Restricts the scan to records that match the filter `text`. After several calls, all filters must
    /// match. An empty text has no effect.
    #[must_use]
    pub fn filter(mut self, text: impl Into<String>) -> Self {
        let (held, text) = (&mut self.asked.filter, text.into());
        if !held.is_empty() && !text.is_empty() {
            // A plain concatenation is correct, because OR binds tighter than AND.
            held.push_str(" AND ");
        }
        held.push_str(&text);
        self
    }

    /// Sets the number of ranges of the table that are read concurrently. The default is 4, the maximum 64.
    /// An embedded store reads ranges one after another, and by default the whole table as one range.
    #[must_use]
    pub fn parallel(mut self, ranges: u32) -> Self {
        self.asked.parallel = ranges;
        self
    }

    /// Continues a scan after the part that contained `token`.
    #[must_use]
    pub fn resume(mut self, token: impl Into<String>) -> Self {
        self.asked.resume = Some(token.into());
        self
    }
}

impl<T: Record> Scan<T> {
    /// Returns a `Result` for each record, as [`PageQuery::each_result`](crate::PageQuery::each_result) does:
    /// the scan continues after a record that the record type cannot represent.
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
    /// Returns a stream of the records in parts. Each part has the token with which a scan continues after
    /// the part. An error ends the stream.
    pub fn parts(self) -> impl Stream<Item = Result<ScanPart<T>>> + Send + Unpin + use<T> {
        let (decode, asked) = (self.decode, self.asked);
        super::parts(self.handle, Vec::new(), asked, decode)
    }

    /// Returns a stream of the records. An error ends the stream.
    pub fn stream(self) -> impl Stream<Item = Result<T>> + Send + Unpin + use<T> {
        self.parts()
            .map_ok(|part| stream::iter(part.items).map(Ok))
            .try_flatten()
            .boxed()
    }
}
