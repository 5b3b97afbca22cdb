//! Choice of the node that receives a Paxos request: the first connected replica in ring order.
//!
//! Paxos decides the writes to one partition one at a time, and concurrent coordinators delay each
//! other, because each replaces the ballot of the other. Clients of one data center therefore send
//! all conditional writes and serial reads of a partition to the same replica. The driver's own
//! policy is no help: its order of replicas is random or differs between processes.

use std::net::SocketAddr;
use std::sync::Arc;

use scylla::cluster::{ClusterState, NodeRef};
use scylla::frame::response::result::TableSpec;
use scylla::policies::load_balancing::{FallbackPlan, LoadBalancingPolicy, RoutingInfo};
use scylla::routing::{Shard, Token};

/// Node to contact (and its shard), as the driver's load balancing policies return it.
type Target<'a> = (NodeRef<'a>, Option<Shard>);

/// Load balancing policy that sends all Paxos requests of a partition to its first connected
/// replica in ring order, and retries to the next ones. If no replica is connected, `others`
/// selects the node.
#[derive(Debug, Clone)]
pub(crate) struct OneCoordinator {
    /// Data center whose replicas are used; `None` if the cluster has one data center.
    pub(crate) local_datacenter: Option<String>,
    pub(crate) others: Arc<dyn LoadBalancingPolicy>,
    /// Token that determines the node of a request over several partitions, which has no token of
    /// its own.
    pub(crate) token: Option<Token>,
}

impl OneCoordinator {
    /// Returns a policy that sends requests over several partitions to the coordinator of the
    /// partition with this token.
    pub(crate) fn towards(&self, token: Token) -> Self {
        Self {
            token: Some(token),
            ..self.clone()
        }
    }

    /// Returns the id of the node that receives requests of a partition with this token, or `None`
    /// if no replica is connected.
    pub(crate) fn of(&self, token: Token, table: &TableSpec<'_>, cluster: &ClusterState) -> Option<u128> {
        let mut replicas = self.replicas(token, table, cluster)?;
        replicas.next().map(|(node, _)| node.host_id.as_u128())
    }

    /// Returns the connected replicas, in ring order.
    fn replicas<'a>(
        &'a self,
        token: Token,
        table: &TableSpec<'_>,
        cluster: &'a ClusterState,
    ) -> Option<impl Iterator<Item = Target<'a>> + use<'a>> {
        let strategy = &cluster.get_keyspace(table.ks_name())?.strategy;
        let local = self.local_datacenter.as_deref();
        let replicas = cluster.replica_locator();
        let replicas = replicas.replicas_for_token(token, strategy, local, table);
        let ordered = replicas.into_replicas_ordered().into_iter();
        let live = ordered.filter(|(node, _)| node.is_connected());
        Some(live.map(|(node, shard)| (node, Some(shard))))
    }

    /// Returns the connected replicas of a request's partition. Returns none if the request has no
    /// token or no table.
    fn replicas_of<'a>(
        &'a self,
        request: &RoutingInfo<'_>,
        cluster: &'a ClusterState,
    ) -> impl Iterator<Item = Target<'a>> + use<'a> {
        let place = request.token.or(self.token).zip(request.table);
        let replicas = place.and_then(|(token, table)| self.replicas(token, table, cluster));
        replicas.into_iter().flatten()
    }
}

impl LoadBalancingPolicy for OneCoordinator {
    fn pick<'a>(&'a self, request: &'a RoutingInfo<'_>, cluster: &'a ClusterState) -> Option<Target<'a>> {
        let first = self.replicas_of(request, cluster).next();
        first.or_else(|| self.others.pick(request, cluster))
    }

    fn fallback<'a>(&'a self, request: &'a RoutingInfo<'_>, cluster: &'a ClusterState) -> FallbackPlan<'a> {
        let replicas: Vec<Target<'a>> = self.replicas_of(request, cluster).collect();
        let known: Vec<_> = replicas.iter().map(|(node, _)| node.host_id).collect();
        let others = self.others.fallback(request, cluster);
        let others = others.filter(move |(node, _)| !known.contains(&node.host_id));
        Box::new(replicas.into_iter().chain(others))
    }

    fn name(&self) -> String {
        "OneCoordinator".to_owned()
    }
}

/// Load balancing policy for a retry: it avoids `last`, a node that answered that it does not know
/// a table, unless no other node is available.
#[derive(Debug)]
pub(crate) struct OtherNodePolicy {
    pub(crate) last: SocketAddr,
    pub(crate) inner: Arc<dyn LoadBalancingPolicy>,
}

impl OtherNodePolicy {
    fn is_last(&self, (node, _): &Target<'_>) -> bool {
        (node.address.ip(), node.address.port()) == (self.last.ip(), self.last.port())
    }
}

impl LoadBalancingPolicy for OtherNodePolicy {
    fn pick<'a>(&'a self, request: &'a RoutingInfo<'_>, cluster: &'a ClusterState) -> Option<Target<'a>> {
        let first = self.inner.pick(request, cluster);
        first.filter(|target| !self.is_last(target))
    }

    fn fallback<'a>(&'a self, request: &'a RoutingInfo<'_>, cluster: &'a ClusterState) -> FallbackPlan<'a> {
        let picked = self.inner.pick(request, cluster);
        let all = picked.into_iter().chain(self.inner.fallback(request, cluster));
        let (last, others): (Vec<_>, Vec<_>) = all.partition(|target| self.is_last(target));
        Box::new(others.into_iter().chain(last))
    }

    fn name(&self) -> String {
        "Elsewhere".to_owned()
    }
}
