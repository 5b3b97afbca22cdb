//! What a store has seen of the servers it asks, for whoever watches over it.

/// What a store has counted since it was opened. Counts only rise.
///
/// A store that asks nobody else, as the embedded one, has no nodes and counts nothing.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct StoreMetrics {
    /// The nodes it knows, by address; those that left the cluster are in it no more.
    pub nodes: Vec<NodeMetrics>,
    /// Requests that were sent again, after one failed that may have failed in passing.
    pub retries: u64,
    /// Reads that crossed too many tombstones and were asked again for fewer rows.
    pub narrowed_reads: u64,
    /// Tombstones that reads crossed, as far as the store tells of them (Cassandra: of reads past its
    /// `tombstone_warn_threshold`).
    pub tombstones: u64,
}

/// What a store has seen of one node.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct NodeMetrics {
    /// Where it is reached, `address:port`.
    pub address: String,
    /// Its data centre, if it has told.
    pub datacenter: Option<String>,
    /// Whether there is a connection to it now.
    pub up: bool,
    /// Requests sent to it.
    pub requests: u64,
    /// Requests to it that failed, those that ran out of time among them.
    pub failures: u64,
    /// Requests to it that ran out of time: it did not answer, or its replicas did not.
    pub timeouts: u64,
}
