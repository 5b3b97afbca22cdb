//! Counters of requests, by node.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, RwLock};

use recto_store::{NodeMetrics, StoreErrorKind, StoreMetrics};
use scylla::client::session::Session;
use scylla::errors::{RequestAttemptError, RequestError};
use scylla::observability::history::{AttemptId, HistoryListener, RequestId, SpeculativeId};
use scylla::policies::retry::RetryDecision;

/// Maximum number of nodes for which requests are counted.
const MAX_COUNTED_NODES: usize = 4_096;

/// Counters of requests of one store since it was opened, in all and by node.
#[derive(Debug, Default)]
pub(crate) struct Metrics {
    nodes: RwLock<HashMap<SocketAddr, Arc<NodeCounters>>>,
    pub(crate) retries: AtomicU64,
    pub(crate) narrowed_reads: AtomicU64,
    pub(crate) tombstones: AtomicU64,
}

#[derive(Debug, Default)]
struct NodeCounters {
    requests: AtomicU64,
    failures: AtomicU64,
    timeouts: AtomicU64,
}

impl Metrics {
    /// Counts a request that was sent to a node, and the kind of its failure if it failed.
    pub(crate) fn sent(&self, node: SocketAddr, failed: Option<StoreErrorKind>) {
        let Some(counters) = self.counters(node) else {
            return;
        };
        count(&counters.requests);
        if let Some(kind) = failed {
            count(&counters.failures);
            if kind == StoreErrorKind::Timeout {
                count(&counters.timeouts);
            }
        }
    }

    fn counters(&self, node: SocketAddr) -> Option<Arc<NodeCounters>> {
        // Ignore the poison of the lock: each operation leaves the map consistent, so the panic of
        // another thread does no damage.
        let known = self.nodes.read().unwrap_or_else(PoisonError::into_inner);
        if let Some(counters) = known.get(&node) {
            return Some(Arc::clone(counters));
        }
        drop(known);
        let mut nodes = self.nodes.write().unwrap_or_else(PoisonError::into_inner);
        if nodes.len() >= MAX_COUNTED_NODES && !nodes.contains_key(&node) {
            return None;
        }
        Some(Arc::clone(nodes.entry(node).or_default()))
    }

    /// Returns the counters as metrics, one entry for each node that the driver knows now.
    pub(crate) fn snapshot(&self, session: &Session) -> StoreMetrics {
        let counted = self.nodes.read().unwrap_or_else(PoisonError::into_inner);
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let mut nodes: Vec<NodeMetrics> = session
            .get_cluster_state()
            .get_nodes_info()
            .iter()
            .map(|node| {
                let address = SocketAddr::new(node.address.ip(), node.address.port());
                let counters = counted.get(&address);
                let of = |counter: fn(&NodeCounters) -> &AtomicU64| {
                    counters.map_or(0, |counters| read(counter(counters)))
                };
                NodeMetrics {
                    address: address.to_string(),
                    datacenter: node.datacenter.clone(),
                    up: node.is_connected(),
                    requests: of(|counters| &counters.requests),
                    failures: of(|counters| &counters.failures),
                    timeouts: of(|counters| &counters.timeouts),
                }
            })
            .collect();
        nodes.sort_by(|left, right| left.address.cmp(&right.address));
        StoreMetrics {
            nodes,
            retries: read(&self.retries),
            narrowed_reads: read(&self.narrowed_reads),
            tombstones: read(&self.tombstones),
        }
    }
}

pub(crate) fn count(counter: &AtomicU64) {
    counter.fetch_add(1, Ordering::Relaxed);
}

/// Listener that records the node to which the driver sends a request, because the driver's errors
/// do not name the node.
#[derive(Debug, Default)]
pub(crate) struct SentTo(Mutex<Option<SocketAddr>>);

impl SentTo {
    /// Returns the address of the node, or `None` if the driver did not send the request.
    pub(crate) fn node(&self) -> Option<SocketAddr> {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl HistoryListener for SentTo {
    fn log_request_start(&self) -> RequestId {
        RequestId(0)
    }

    fn log_request_success(&self, _: RequestId) {}

    fn log_request_error(&self, _: RequestId, _: &RequestError) {}

    fn log_new_speculative_fiber(&self, _: RequestId) -> SpeculativeId {
        SpeculativeId(0)
    }

    fn log_attempt_start(&self, _: RequestId, _: Option<SpeculativeId>, node: SocketAddr) -> AttemptId {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(node);
        AttemptId(0)
    }

    fn log_attempt_success(&self, _: AttemptId) {}

    fn log_attempt_error(&self, _: AttemptId, _: &RequestAttemptError, _: &RetryDecision) {}
}
