//! Bodies of requests and replies for the maintenance of a store.

use serde::{Deserialize, Serialize};

use crate::misfits::Misfits;
use crate::parameters::{at_least_one, present};

/// Body of `POST /v1/store:backup`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct BackupRequest {
    /// Name of the backup: letters, digits, `-`, `_` and `.`. The server creates a folder with this name in
    /// its backup folder.
    #[cfg_attr(test, schemars(regex(pattern = "^[A-Za-z0-9_-][A-Za-z0-9._-]{0,99}$")))]
    pub name: String,
}

/// Body of `POST /v1/store:plan` and `POST /v1/store:apply`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct SchemaRequest {
    /// Collections, as a schema file declares them.
    pub toml: String,
    /// Names of things to remove: collections with all their records (`orders`), views
    /// (`orders.by_customer`) and unique constraints (`users.unique.email`,
    /// `users.unique.tenant,slug`). The schema must not name them. The store keeps everything else.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub remove: Vec<String>,
    /// Maximum number of records per second with which Recto fills new views; absent, there is no limit.
    #[serde(
        default,
        deserialize_with = "at_least_one",
        skip_serializing_if = "Option::is_none"
    )]
    #[cfg_attr(test, schemars(with = "std::num::NonZeroU32"))]
    pub rows_per_second: Option<u32>,
    /// Add views and unique constraints although records do not fit them. These records are missing from the views.
    #[serde(default)]
    pub allow_misfits: bool,
}

/// Reply to `POST /v1/store:plan`: changes that applying a schema would make.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[cfg_attr(test, schemars(rename = "Plan"))]
pub struct SchemaPlan {
    /// Generation of the schema in the store; 0 if it has none.
    pub generation: u64,
    /// Changes, a line each; empty if the store has this schema.
    pub changes: Vec<String>,
    /// Statements that would create and change keyspace, types and tables, in order: CQL, or the
    /// tables of an embedded store in words. After them, rows of the table `recto_catalog` record
    /// the schema and, the first time, cursor keys.
    pub statements: Vec<String>,
    /// Parts of the store that the schema does not name, a line each. They do not change.
    #[serde(default)]
    pub kept: Vec<String>,
    /// Changes that cannot be made, with reasons. If there is any, applying the schema fails.
    pub rejected: Vec<String>,
    /// What an operator should know before the changes are made, a line each.
    #[serde(default)]
    pub notes: Vec<String>,
    /// Records that do not fit the views and unique constraints to add, one element for each view or
    /// constraint.
    #[serde(default)]
    pub misfits: Vec<Misfits>,
}

/// Reply to `GET /v1/schema`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct StoreSchema {
    /// Generation of the schema, which each change of the schema raises.
    pub generation: u64,
    /// Collections, as a schema file declares them, and `[queues]` for a token that may read all queues.
    pub toml: String,
    /// Collections that cannot be read or written; absent if there is none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub unavailable: Vec<UnavailableCollection>,
    /// Versions of the cluster's nodes; absent for an embedded store.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(test, schemars(with = "ClusterStatus"))]
    pub cluster: Option<ClusterStatus>,
}

/// Versions of a Cassandra cluster's nodes, and what the cluster cannot do.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct ClusterStatus {
    /// Versions of the nodes, such as `5.0.8`, each once. There are several during an upgrade.
    pub versions: Vec<String>,
    /// Parts of Recto that the cluster cannot serve, a sentence with the reason each; absent if there is none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub lacks: Vec<String>,
}

impl ClusterStatus {
    /// Returns the versions of the nodes as a text, such as `Cassandra 4.1.9 and 5.0.8`.
    pub fn version(&self) -> String {
        format!("Cassandra {}", self.versions.join(" and "))
    }
}

/// A collection that cannot be read or written: its tables are missing or differ from the schema, or the cluster of its
/// attached table is unreachable.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct UnavailableCollection {
    /// Name of the collection.
    pub collection: String,
    /// Reason why the collection is unavailable.
    pub message: String,
    /// Most likely remedy.
    pub hint: String,
}

/// Body of `POST /v1/store:verify` and `POST /v1/store:repair`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(default, deny_unknown_fields)]
pub struct CompareRequest {
    /// Collections whose views Recto compares; empty, all that the token sees.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub collections: Vec<String>,
    /// Maximum number of rows that Recto reads per second; absent, there is no limit.
    #[serde(deserialize_with = "at_least_one", skip_serializing_if = "Option::is_none")]
    #[cfg_attr(test, schemars(with = "std::num::NonZeroU32"))]
    pub rows_per_second: Option<u32>,
    /// Token of an interrupted comparison, which this one continues: the last `resume_token` of its progress.
    #[serde(deserialize_with = "present", skip_serializing_if = "Option::is_none")]
    #[cfg_attr(test, schemars(with = "String"))]
    pub resume_token: Option<String>,
}

/// Body of `POST /v1/store:rotateCursorKeys`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct RotateRequest {
    /// Number of earlier keys that still decrypt page tokens.
    #[cfg_attr(test, schemars(range(max = 15)))]
    pub earlier: u32,
}

/// Reply to `GET /v1/store:commitLog`: state of the commit log of an embedded store. The commit log makes a
/// write durable by a short append. A checkpoint brings the writes of the log into the data file.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct CommitLog {
    /// Size of the log's files in bytes; 0 if the store has no log yet.
    pub file_bytes: u64,
    /// Number of bytes of the records since the last checkpoint. After a crash, Recto applies these records
    /// again.
    pub record_bytes: u64,
    /// Number of records that were written since the store was opened.
    pub records: u64,
    /// Number of checkpoints since the store was opened.
    pub checkpoints: u64,
    /// Time of the last checkpoint, in seconds since 1970-01-01T00:00:00Z; absent if there was none since the
    /// store was opened.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(test, schemars(with = "u64"))]
    pub last_checkpoint_at_seconds: Option<u64>,
    /// Age of the last checkpoint in seconds; absent if there was none since the store was opened.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(test, schemars(with = "u64"))]
    pub last_checkpoint_age_seconds: Option<u64>,
    /// Number of records that were applied again after a crash, when the store was opened.
    pub replayed_records: u64,
    /// Number of incomplete records at the end of the log that were found when the store was opened. A crash
    /// during a write leaves such a record; the write was not acknowledged.
    pub incomplete_records: u64,
}

/// Reply to `GET /v1/store:cursorKeys` and `POST /v1/store:rotateCursorKeys`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct CursorKeys {
    /// Keys, the oldest first.
    pub keys: Vec<CursorKey>,
}

/// A key that encrypts page tokens. A reply never has the key itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct CursorKey {
    /// Number of the key. A token contains this number without encryption.
    pub id: u32,
    /// Whether the key encrypts new tokens. Other keys only decrypt old tokens.
    pub encrypts: bool,
    /// Time at which the key was created, in seconds since 1970-01-01T00:00:00Z; absent if an old release
    /// created the key.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(test, schemars(with = "u64"))]
    pub created_at_seconds: Option<u64>,
    /// Age of the key in seconds; absent if an old release created the key.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(test, schemars(with = "u64"))]
    pub age_seconds: Option<u64>,
}
