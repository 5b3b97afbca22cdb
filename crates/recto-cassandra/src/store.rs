//! Implementation of the store interface by a Cassandra keyspace.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use async_trait::async_trait;
use futures::FutureExt as _;
use recto_model::{Cells, Environment, Slice, Table};
use recto_store::{
    Atomicity, Cas, CasOutcome, ClockGuard, ConsistencyLevel, Limits, PartitionWrite, ReadOptions, Snapshot,
    Store, StoreError, StoreErrorKind, StoreKind, StoreMetrics, TableOutcome, TableState, WriteOptions,
    WriteOutcome,
};

use crate::capabilities::{ClusterStatus, Need};
use crate::client::Client;
use crate::config::CassandraConfig;
use crate::connect;
use crate::cql::Selected;
use crate::ddl::Dialect;
use crate::read::{CassandraSnapshot, slice_requests};
use crate::settings::MAX_KEY_BYTES;

/// Bytes that Cassandra adds to each part of a multi-part partition key: its length and an end
/// marker.
const KEY_PART_OVERHEAD_BYTES: usize = 3;

/// Keyspace of an Apache Cassandra cluster as a store.
///
/// A snapshot reads the current state of the replicas: two reads of one snapshot may see different
/// moments. The store retries reads and timestamped writes that fail for a transient reason, within
/// their deadline. It retries a conditional write only if no attempt can have had an effect.
#[derive(Clone)]
pub struct CassandraStore {
    client: Arc<Client>,
}

impl CassandraStore {
    /// Connects to the cluster of `config`.
    ///
    /// # Errors
    /// - [`Invalid`](recto_store::StoreErrorKind::Invalid): the configuration is invalid, names a
    ///   missing data center, or names none although the cluster has several.
    /// - [`Unavailable`](recto_store::StoreErrorKind::Unavailable): no node answers.
    /// - [`Unauthorized`](recto_store::StoreErrorKind::Unauthorized): the cluster rejects the user.
    /// - [`Table`](recto_store::StoreErrorKind::Table): the keyspace does not exist
    ///   ([`create_keyspace`](crate::create_keyspace) creates it).
    pub async fn connect(config: CassandraConfig, environment: Environment) -> Result<Self, StoreError> {
        // Box the future: it is nested so deeply that the compiler rejects callers that are nested, too.
        let client = connect::connect(config, environment).boxed().await?;
        connect::check_keyspace(&client).await?;
        Ok(Self {
            client: Arc::new(client),
        })
    }

    /// Checks that the cluster can serve all of `needs`, as its nodes are now.
    ///
    /// # Errors
    /// [`Other`](recto_store::StoreErrorKind::Other): the cluster cannot serve a need, which the
    /// message names. An error also occurs if the nodes cannot be queried.
    pub async fn check_needs(&self, needs: &[Need]) -> Result<(), StoreError> {
        let deadline = self.client.connect_deadline();
        self.client.refresh_capabilities(&deadline).await?.check(needs)
    }

    /// Returns the versions of the nodes and what the cluster cannot do, as of the last time when the store
    /// was opened or its schema changed.
    pub fn cluster_status(&self) -> ClusterStatus {
        self.client.capabilities().status()
    }

    /// Returns the number of tables of all keyspaces of the cluster, without those of Cassandra itself.
    ///
    /// # Errors
    /// Cassandra's system tables cannot be read.
    pub async fn count_tables(&self) -> Result<u64, StoreError> {
        self.client.count_tables().await
    }

    /// Returns the form of statements that create and extend tables of this cluster.
    pub fn dialect(&self) -> Dialect {
        self.client.capabilities().dialect()
    }

    pub(crate) fn client(&self) -> &Client {
        &self.client
    }
}

impl std::fmt::Debug for CassandraStore {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("CassandraStore")
            .field(&self.client.config)
            .finish()
    }
}

impl Client {
    /// Checks the size of a partition key as Cassandra serializes it: each part of a multi-part key
    /// has some additional bytes.
    pub(crate) fn check_partition(&self, table: &Table, partition: &Cells) -> Result<(), StoreError> {
        self.limits.check_partition(table, partition)?;
        let parts = partition.len();
        let overhead = if parts > 1 {
            parts * KEY_PART_OVERHEAD_BYTES
        } else {
            0
        };
        let bytes = partition.byte_len() + overhead;
        if bytes > MAX_KEY_BYTES {
            return Err(StoreError::new(
                StoreErrorKind::Invalid,
                format!(
                    "the partition key has {bytes} bytes in Cassandra's encoding; at most {MAX_KEY_BYTES} \
                     are allowed"
                ),
            ));
        }
        Ok(())
    }
}

#[async_trait]
impl Store for CassandraStore {
    fn kind(&self) -> StoreKind {
        StoreKind::Cassandra
    }

    fn describe(&self) -> String {
        let config = &self.client.config;
        format!("cassandra {}/{}", config.hosts.join(","), config.keyspace)
    }

    fn limits(&self) -> Limits {
        self.client.limits
    }

    /// Marks the store as closed. Connections end when no caller uses the store any more.
    async fn close(&self) -> Result<(), StoreError> {
        self.client.closed.store(true, Ordering::Relaxed);
        Ok(())
    }

    fn check_decisions(&self) -> Result<(), StoreError> {
        connect::check_decisions(&self.client)
    }

    fn serial_consistency(&self) -> Option<ConsistencyLevel> {
        Some(self.client.config.serial_consistency)
    }

    fn snapshot(&self) -> Result<Arc<dyn Snapshot>, StoreError> {
        Ok(Arc::new(CassandraSnapshot {
            client: Arc::clone(&self.client),
        }))
    }

    async fn write(&self, write: PartitionWrite, options: WriteOptions) -> Result<WriteOutcome, StoreError> {
        self.client.write(&write, options).await
    }

    async fn write_many(
        &self,
        writes: Vec<PartitionWrite>,
        atomicity: Atomicity,
        options: WriteOptions,
    ) -> Result<WriteOutcome, StoreError> {
        self.client.write_many(&writes, atomicity, options).await
    }

    async fn cas(&self, cas: Cas, options: WriteOptions) -> Result<CasOutcome, StoreError> {
        self.client.cas(&cas, options).await
    }

    async fn create_table(&self, table: &Table) -> Result<TableOutcome, StoreError> {
        self.client.limits.check_table(table)?;
        self.client.create_table(table).await
    }

    async fn create_tables_once(&self, tables: &[Table]) -> Result<TableOutcome, StoreError> {
        let mut each = tables.iter();
        each.try_for_each(|table| self.client.limits.check_table(table))?;
        self.client.create_tables_once(tables).await
    }

    async fn add_columns(&self, recorded: &Table, table: &Table) -> Result<TableOutcome, StoreError> {
        self.client.limits.check_table(table)?;
        let outcome = self.client.add_columns(recorded, table).await?;
        self.client.await_writers().await;
        Ok(outcome)
    }

    async fn drop_table(&self, name: &str) -> Result<TableOutcome, StoreError> {
        self.client.drop_table(name).await
    }

    async fn empty_table(&self, table: &Table) -> Result<TableOutcome, StoreError> {
        self.client.empty_table(table).await
    }

    async fn list_tables(&self) -> Result<Vec<Table>, StoreError> {
        self.client.list_tables().await
    }

    fn expected_round_trips(&self, slice: &Slice, options: &ReadOptions) -> u32 {
        let client = &self.client;
        let selected = Selected::in_partition(&slice.table, options);
        let requests = slice_requests(&client.config.keyspace, slice, selected);
        let further = (requests.len() as u32).saturating_sub(1);
        let first = requests.first();
        first.map_or(0, |request| {
            further + client.expected_pages(&request.text, slice.limit)
        })
    }

    fn metrics(&self) -> StoreMetrics {
        self.client.metrics.snapshot(&self.client.session)
    }

    async fn compare_tables(&self, tables: &[Table]) -> Result<Vec<TableState>, StoreError> {
        self.client.compare_tables(tables).await
    }

    fn clock_guard(&self) -> Option<&dyn ClockGuard> {
        Some(self)
    }

    async fn tables_version(&self) -> Result<Option<String>, StoreError> {
        self.client.schema_version().await.map(Some)
    }

    fn check_partition(&self, table: &Table, partition: &Cells) -> Result<(), StoreError> {
        self.client.check_partition(table, partition)
    }

    fn describe_slice(&self, slice: &Slice, options: &ReadOptions) -> Vec<String> {
        if let Err(error) = self.client.limits.check_slice(slice) {
            return vec![format!("nothing: {error}")];
        }
        let selected = Selected::in_partition(&slice.table, options);
        slice_requests(&self.client.config.keyspace, slice, selected)
            .iter()
            .map(crate::cql::Request::describe)
            .collect()
    }
}
