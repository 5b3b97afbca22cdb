//! Metrics of the servers that a store uses, for monitoring.

/// Counters of a store since it was opened. They never decrease.
///
/// A store without servers, such as the embedded store, has no nodes and counts nothing.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct StoreMetrics {
    /// Known nodes, by address. A node that left the cluster is removed.
    pub nodes: Vec<NodeMetrics>,
    /// Number of requests that were retried after a failure that may have been transient.
    pub retries: u64,
    /// Number of reads that crossed too many tombstones and were repeated with fewer rows.
    pub narrowed_reads: u64,
    /// Number of tombstones that reads crossed, as far as the store reports them (Cassandra: for reads above
    /// `tombstone_warn_threshold`).
    pub tombstones: u64,
}

/// Counters of the requests to one node (server of a cluster), and its state.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct NodeMetrics {
    /// Address of the node, `address:port`.
    pub address: String,
    /// Data center of the node, if it is known.
    pub datacenter: Option<String>,
    /// True if there is a connection to the node now.
    pub up: bool,
    /// Number of requests to the node.
    pub requests: u64,
    /// Number of failed requests to the node, including timeouts.
    pub failures: u64,
    /// Number of requests to the node that timed out, because the node or its replicas did not answer.
    pub timeouts: u64,
}
