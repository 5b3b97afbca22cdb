//! Which node a request of Paxos goes to: the first replica in ring order that is connected.
//!
//! Paxos decides the writes to one partition one by one, and coordinators that write to it at a time outbid
//! each other's ballots. So conditional writes and serial reads of a partition all go to one of its
//! replicas, and whoever shares a data centre finds the same one. The driver's own policy shuffles them,
//! and its choice without shuffling is another in each process.

use std::net::SocketAddr;
use std::sync::Arc;

use scylla::cluster::{ClusterState, NodeRef};
use scylla::frame::response::result::TableSpec;
use scylla::policies::load_balancing::{FallbackPlan, LoadBalancingPolicy, RoutingInfo};
use scylla::routing::{Shard, Token};

/// A node to ask, as policies name it.
type Target<'a> = (NodeRef<'a>, Option<Shard>);

/// The first live replica in ring order, then the next; where no replica is connected, as `others` says.
#[derive(Debug, Clone)]
pub(crate) struct OneCoordinator {
    /// Only its replicas are asked. None: the cluster has one data centre.
    pub(crate) local_datacenter: Option<String>,
    pub(crate) others: Arc<dyn LoadBalancingPolicy>,
    /// The token of requests of several partitions, which have none of their own.
    pub(crate) token: Option<Token>,
}

impl OneCoordinator {
    /// The same for requests of several partitions, of which one has this token.
    pub(crate) fn towards(&self, token: Token) -> Self {
        Self {
            token: Some(token),
            ..self.clone()
        }
    }

    /// The number of the node that requests of a partition of this token go to; none where no replica is connected.
    pub(crate) fn of(&self, token: Token, table: &TableSpec<'_>, cluster: &ClusterState) -> Option<u128> {
        let mut replicas = self.replicas(token, table, cluster)?;
        replicas.next().map(|(node, _)| node.host_id.as_u128())
    }

    /// The replicas that are connected, in ring order.
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

    /// Those of a request's partition; none where that is not known.
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

/// Any other node before one that has just answered that it does not know a table.
#[derive(Debug)]
pub(crate) struct Elsewhere {
    pub(crate) last: SocketAddr,
    pub(crate) inner: Arc<dyn LoadBalancingPolicy>,
}

impl Elsewhere {
    fn is_last(&self, (node, _): &Target<'_>) -> bool {
        (node.address.ip(), node.address.port()) == (self.last.ip(), self.last.port())
    }
}

impl LoadBalancingPolicy for Elsewhere {
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
