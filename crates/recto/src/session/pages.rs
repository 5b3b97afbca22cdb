//! Asking for records in their order, and for all of them.

use async_trait::async_trait;
use futures::stream::{self, BoxStream, StreamExt as _};
pub use recto_plan::choices::{Choices, FieldChoices, SortChoice};
use serde_json::Value as Json;

use super::{Explanation, JsonRecord, PageReply, PageRequest, PageText, ScanRequest};
use crate::error::{Error, ErrorKind, Result};

/// One step of a scan.
#[derive(Debug, Clone, PartialEq)]
pub struct ScanStep {
    /// Records, in no order that the other store would share. There may be none, with more to come.
    pub records: Vec<JsonRecord>,
    /// Goes on after these records; absent at the end.
    pub resume: Option<String>,
    /// If asked for: the version of each record, none of those that have none.
    pub versions: Option<Vec<Option<i64>>>,
}

/// What a session is asked of collections.
#[async_trait]
pub trait Pages: Send + Sync {
    /// One page of a collection.
    async fn page(&self, collection: &str, request: &PageRequest) -> Result<PageReply>;
    /// One page of a collection, for who only passes its records on: the same as
    /// [`page`](Self::page), without a JSON value for each field of each record.
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
    /// How a page would be answered; `run`: also run it and say what it cost.
    async fn explain(&self, collection: &str, request: &PageRequest, run: bool) -> Result<Explanation>;
    /// What else can be asked of a collection, beside what `request` asks; which page it asks for does not
    /// matter. Nothing is read.
    async fn choices(&self, collection: &str, _request: &PageRequest) -> Result<Choices> {
        let message = format!("what can be asked of {collection} is not told through a server");
        Err(Error::new(ErrorKind::Unsupported, message))
    }
    /// Every record of a collection, in steps; nothing is read until it is polled.
    fn scan<'a>(&'a self, collection: &str, request: &ScanRequest) -> BoxStream<'a, Result<ScanStep>>;
    /// The partitions of a collection that have a record, in steps and in the store's own order: of
    /// each the partition fields. What it costs grows with them and not with their records. Nothing is
    /// read until it is polled.
    fn partitions<'a>(&'a self, collection: &str) -> BoxStream<'a, Result<Vec<JsonRecord>>> {
        let message = format!("the partitions of {collection} are not listed through a server");
        let error = Error::new(ErrorKind::Unsupported, message);
        stream::once(std::future::ready(Err(error))).boxed()
    }
}
