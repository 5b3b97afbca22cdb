//! Reads of records: in order, page by page, or all records in no particular order.

use async_trait::async_trait;
use futures::stream::{self, BoxStream, StreamExt as _};
pub use recto_plan::choices::{Choices, FieldChoices, SortChoice};
use serde_json::Value as Json;

use super::{Explanation, JsonRecord, PageReply, PageRequest, PageText, ScanRequest};
use crate::error::{Error, ErrorKind, Result};

/// Part of a scan: some of its records.
#[derive(Debug, Clone, PartialEq)]
pub struct ScanStep {
    /// Records, in the order of the store. The list may be empty before the end of the scan.
    pub records: Vec<JsonRecord>,
    /// Token with which a scan continues after these records. `None`: the end of the scan.
    pub resume: Option<String>,
    /// Version of each record, if the request asked for versions; `None` for a record without a
    /// version.
    pub versions: Option<Vec<Option<i64>>>,
}

/// Reads of collections: pages, scans and lists of partitions.
#[async_trait]
pub trait Pages: Send + Sync {
    /// Returns a page of a collection.
    async fn page(&self, collection: &str, request: &PageRequest) -> Result<PageReply>;
    /// Returns a page of a collection, like [`page`](Self::page), with the records as JSON text. A
    /// caller that only forwards the records then needs no JSON value for each field.
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
    /// Explains how a page is read. If `run` is true, also reads the page and reports the cost.
    async fn explain(&self, collection: &str, request: &PageRequest, run: bool) -> Result<Explanation>;
    /// Returns the conditions and sort orders that can be added to `request`, for user interfaces
    /// that offer them. The requested position has no effect. Reads no records.
    async fn choices(&self, collection: &str, _request: &PageRequest) -> Result<Choices> {
        let message = format!("the query choices of {collection} are not available through a server");
        Err(Error::new(ErrorKind::Unsupported, message))
    }
    /// Returns every record of a collection, in parts. Nothing is read until the stream is polled.
    fn scan<'a>(&'a self, collection: &str, request: &ScanRequest) -> BoxStream<'a, Result<ScanStep>>;
    /// Returns the values of the partition fields of each partition that has a record, in parts and
    /// in the store's own order. The cost grows with the number of partitions, not with the number
    /// of their records. Nothing is read until the stream is polled.
    fn partitions<'a>(&'a self, collection: &str) -> BoxStream<'a, Result<Vec<JsonRecord>>> {
        let message = format!("the partitions of {collection} cannot be listed through a server");
        let error = Error::new(ErrorKind::Unsupported, message);
        stream::once(std::future::ready(Err(error))).boxed()
    }
}
