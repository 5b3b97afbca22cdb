//! Reading records in order, and reading all records.

use async_trait::async_trait;
use futures::stream::{self, BoxStream, StreamExt as _};
pub use recto_plan::choices::{Choices, FieldChoices, SortChoice};
use serde_json::Value as Json;

use super::{Explanation, JsonRecord, PageReply, PageRequest, PageText, ScanRequest};
use crate::error::{Error, ErrorKind, Result};

/// Part of a scan's records.
#[derive(Debug, Clone, PartialEq)]
pub struct ScanStep {
    /// Records. Their order depends on the store. They may be empty before the end of the scan.
    pub records: Vec<JsonRecord>,
    /// Token to continue after these records. `None`: the end of the scan.
    pub resume: Option<String>,
    /// If requested: the version of each record, or `None` for a record without a version.
    pub versions: Option<Vec<Option<i64>>>,
}

/// Reads of collections.
#[async_trait]
pub trait Pages: Send + Sync {
    /// Returns a page of a collection.
    async fn page(&self, collection: &str, request: &PageRequest) -> Result<PageReply>;
    /// Returns a page of a collection, like [`page`](Self::page), as JSON text. This saves a caller that only forwards
    /// the records a JSON value for each field of each record.
    async fn page_text(&self, collection: &str, request: &PageRequest) -> Result<PageText> {
        let mut reply = self.page(collection, request).await?;
        let records = std::mem::take(&mut reply.records);
        Ok(PageText {
            count: records.len(),
            records: Json::Array(records.into_iter().map(Json::Object).collect()).to_string(),
            digest: None,
            reply,
        })
    }
    /// Explains how a page is read. With `run`, also reads the page and reports the cost.
    async fn explain(&self, collection: &str, request: &PageRequest, run: bool) -> Result<Explanation>;
    /// Returns the further conditions and sort orders that a collection allows, in addition to those of `request`. The
    /// requested position does not matter. Reads no records.
    async fn choices(&self, collection: &str, _request: &PageRequest) -> Result<Choices> {
        let message = format!("the query choices of {collection} are not available through a server");
        Err(Error::new(ErrorKind::Unsupported, message))
    }
    /// Returns every record of a collection, in parts. Nothing is read until the stream is polled.
    fn scan<'a>(&'a self, collection: &str, request: &ScanRequest) -> BoxStream<'a, Result<ScanStep>>;
    /// Returns the partition fields of each partition of a collection that has a record. They come in parts, in the
    /// store's own order. The cost grows with the number of partitions, not with the number of their records. Nothing
    /// is read until the stream is polled.
    fn partitions<'a>(&'a self, collection: &str) -> BoxStream<'a, Result<Vec<JsonRecord>>> {
        let message = format!("the partitions of {collection} cannot be listed through a server");
        let error = Error::new(ErrorKind::Unsupported, message);
        stream::once(std::future::ready(Err(error))).boxed()
    }
}
