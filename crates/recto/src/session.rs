//! Operations that user interfaces such as the command line request from Recto, in the terms of the
//! HTTP API.
//!
//! The command line uses only a [`Session`], so that it works in the same way with an open store
//! ([`LocalSession`](crate::LocalSession)) and with a running server (`recto-remote`).
//!
//! | module | content |
//! |---|---|
//! | `attached` | attaching an existing table |
//! | `checked_buckets` | defects of buckets |
//! | `copies` | copying one store into another |
//! | `misfits` | records that do not fit a view |
//! | `pages` | reading records in order, and reading all records |
//! | `queues` | queues and their messages |
//! | `records` | records by their keys, and changes to them |
//! | `tools` | maintenance of the store |
//! | `views` | progress and verification of views |

mod attached;
mod checked_buckets;
mod copies;
mod pages;
mod queues;
mod records;
mod tools;
mod views;

use std::fmt;
use std::sync::Arc;

use async_trait::async_trait;
pub use recto_api::buckets::{
    BucketFigures, BucketList, BucketPartition, BucketPartitions, BucketStatus, BucketTarget, BucketsRequest,
    RebalanceProgress, RebalanceReport, RebalanceRequest,
};
pub use recto_api::collections::{
    CollectionDescription, FieldDescription, FilterMethod, Operator, SortOrderDescription, WriteKind,
};
pub use recto_api::csv::{BlobFormat, ColumnMapping, CsvOptions, Delimiter, Escape};
pub use recto_api::explanation::{
    ActualCost, ExplainedBaseRows, ExplainedSource, ExplainedView, Explanation, KnownRowCount, PlanShape,
    RejectedSortOrder, Shape, TableOrder,
};
pub use recto_api::misfits::{ListedMisfit, MAX_LISTED_MISFITS, MisfitCounts, Misfits};
pub use recto_api::pages::{
    Count, JsonRecord, MAX_COUNT_UP_TO, PageCost, PageReply, PageRequest, RowCount, version_json,
};
pub use recto_api::queues::{
    DeadLetterSettings, DeduplicationScope, MovedMessages, OutgoingMessage, PeekedMessage, QueueSettings,
    QueueStatus, QueueTable, QueueTableSettings, QueueTables, QueueTotals, ReceiveRequest, ReceivedMessage,
    ReceivedMessages, SentMessage,
};
pub use recto_api::scans::ScanRequest;
pub use recto_api::store::{ClusterStatus, CommitLog, CursorKey, SchemaPlan, UnavailableCollection};
pub use recto_api::views::ViewStatus;
pub use recto_buckets::BucketMetrics;
use recto_model::schema::Schema;
use recto_model::{Type, json};
use serde_json::Value as Json;

use crate::error::{Error, ErrorKind, Result};
pub use crate::present::Versioned;
pub use attached::{AttachReport, AttachRequest, LeftOut};
pub use checked_buckets::{BucketFault, VerifiedBuckets};
pub use copies::{CopiedCollection, CopyProgress, CopyReport, CopyRequest, RecordSum};
pub use pages::{Choices, FieldChoices, Pages, ScanStep, SortChoice};
pub use queues::{Queues, REDRIVE_TIME, Settling, body_bytes};
pub(crate) use queues::{check_range, check_receive, most_messages, new_message, queue_totals};
pub use records::{Action, Outcome, RecordChange, Records, Written};
pub use tools::{
    Applied, ApplyOptions, Backup, CheckOutcome, CheckedCollection, ErrorHandler, FindingHandler,
    LoadProgress, LoadReport, LoadRequest, LoadedCollection, LoadedView, Progress, RecoveryPass, RowSizes,
    ScrubPosition, ScrubStep, StoreProgress, Tools,
};
pub use views::{Drift, VerifiedView, VerifyReport, VerifyRequest, ViewProgress};

/// Converts the text of a value to the JSON form of records: `7` for an int, `"7"` for a bigint. Paths in
/// URLs and forms contain values as text. Text that is not a value of the type `ty` remains a JSON string,
/// which the store rejects later.
pub fn json_of_text(ty: &Type, text: &str) -> Json {
    match json::from_text(ty, text) {
        Ok(value) => json::to_json(ty, &value),
        Err(_) => text.into(),
    }
}

/// Page of records, with the records as JSON text.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct PageText {
    /// Records of the page as the text of a JSON array.
    pub records: String,
    /// Number of records of the page.
    pub count: usize,
    /// Digest of the page's rows. Processes with the same cursor keys compute equal digests. `None` if the
    /// session computes no digest.
    pub digest: Option<u128>,
    /// Reply for the page, without its records.
    pub reply: PageReply,
}

/// Description of a store for users.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct StoreDescription {
    /// Kind and address of the store, without credentials.
    pub store: String,
    /// Generation of the schema, which grows with each change; 0 without a schema.
    pub generation: u64,
    /// Names of the store's collections.
    pub collections: Vec<String>,
    /// Collections that were unavailable at the last check of the store.
    pub unavailable: Vec<UnavailableCollection>,
    /// Versions of the cluster's nodes and what the cluster cannot do; `None` for an embedded store.
    pub cluster: Option<ClusterStatus>,
}

impl StoreDescription {
    /// Returns the entry in `unavailable` of a collection; `None` if the collection is available.
    pub fn unavailability(&self, collection: &str) -> Option<&UnavailableCollection> {
        self.unavailable.iter().find(|one| one.collection == collection)
    }
}

/// Operations that user interfaces request from Recto: from an open store or from a running server.
///
/// ```
/// use recto::{OpenOptions, Session};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> recto::Result<()> {
/// # let folder = tempfile::tempdir().unwrap();
/// # let folder = folder.path().join("store");
/// # let address = recto::StoreAddress::Embedded(folder);
/// let session = recto::open(&address, OpenOptions::new().create()).await?;
/// assert_eq!(session.describe().await?.generation, 0);
/// # Ok(())
/// # }
/// ```
///
/// The operations are grouped. Every session implements the groups [`Pages`] and [`Records`]. Methods such as
/// [`tools`](Self::tools) return the other groups. For sessions without a group, the default implementation
/// of its method returns an error.
#[async_trait]
pub trait Session: Pages + Records {
    /// Returns a description of the store.
    async fn describe(&self) -> Result<StoreDescription>;
    /// Returns the recorded schema of the store.
    async fn schema(&self) -> Result<Arc<Schema>>;
    /// Returns the operations for the maintenance of the store.
    ///
    /// # Errors
    /// [`ErrorKind::Forbidden`]: the session is restricted to rows. [`ErrorKind::Unsupported`]: the session does not
    /// have these operations.
    fn tools(&self) -> Result<&dyn Tools> {
        Err(Error::new(
            ErrorKind::Unsupported,
            "maintenance needs direct access to the store",
        ))
    }
    /// Returns the operations on the store's queues.
    ///
    /// # Errors
    /// [`ErrorKind::Forbidden`]: the session is restricted to rows. [`ErrorKind::Unsupported`]: the session does not
    /// have these operations.
    fn queues(&self) -> Result<&dyn Queues> {
        Err(Error::new(ErrorKind::Unsupported, "this session has no queues"))
    }
}

impl fmt::Debug for dyn Session {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Session")
    }
}
