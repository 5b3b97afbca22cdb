//! Reads what the nodes of a cluster can do.

use std::sync::{Arc, PoisonError};

use futures::FutureExt as _;
use futures::future::{join_all, try_join};
use recto_store::StoreError;
use scylla::cluster::Node;
use scylla::policies::load_balancing::{NodeIdentifier, SingleTargetLoadBalancingPolicy};
use scylla::statement::Statement;

use crate::capabilities::{Capabilities, SNAPSHOTS_BY_TABLE};
use crate::client::{Client, Deadline};
use crate::schema::typed_rows;

/// Maximum number of nodes whose settings are read. In a larger cluster, the settings count as unknown.
const MAX_ASKED_NODES: usize = 256;

impl Client {
    /// Returns what the nodes could do when this was last read.
    pub(crate) fn capabilities(&self) -> Capabilities {
        let last = self.capabilities.lock();
        last.unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Reads what the nodes can do. Nodes may be upgraded or restarted with other settings while a store is
    /// open, so the client reads this again before it changes the schema.
    pub(crate) async fn refresh_capabilities(&self, deadline: &Deadline) -> Result<Capabilities, StoreError> {
        // Box the future, because the futures of callers are already nested deeply.
        let capabilities = self.read_capabilities(deadline).boxed().await?;
        let last = self.capabilities.lock();
        *last.unwrap_or_else(PoisonError::into_inner) = capabilities.clone();
        Ok(capabilities)
    }

    async fn read_capabilities(&self, deadline: &Deadline) -> Result<Capabilities, StoreError> {
        let (local, peers) = try_join(
            self.ask("SELECT release_version FROM system.local", (), deadline),
            self.ask("SELECT release_version FROM system.peers", (), deadline),
        )
        .await?;
        let mut versions = typed_rows::<(Option<String>,)>(local)?;
        versions.extend(typed_rows::<(Option<String>,)>(peers)?);
        let versions = versions.into_iter().filter_map(|(version,)| version);
        let versions: Vec<String> = versions.collect();
        let capabilities = Capabilities::new(versions.clone(), []);
        if capabilities.has(SNAPSHOTS_BY_TABLE) {
            return Ok(capabilities);
        }
        let settings = self.read_auto_snapshots(deadline).await;
        Ok(Capabilities::new(versions, settings))
    }

    /// Returns the setting `auto_snapshot` of each node. Each node knows only its own settings, so each is asked.
    async fn read_auto_snapshots(&self, deadline: &Deadline) -> Vec<Option<bool>> {
        let state = self.session.get_cluster_state();
        let nodes = state.get_nodes_info();
        if nodes.len() > MAX_ASKED_NODES {
            return vec![None];
        }
        join_all(nodes.iter().map(|node| self.read_auto_snapshot(node, deadline))).await
    }

    /// Returns the setting `auto_snapshot` of a node; `None` if the node does not tell it.
    async fn read_auto_snapshot(&self, node: &Arc<Node>, deadline: &Deadline) -> Option<bool> {
        let target = NodeIdentifier::Node(Arc::clone(node));
        let mut statement =
            Statement::new("SELECT value FROM system_views.settings WHERE name = 'auto_snapshot'");
        statement.set_load_balancing_policy(Some(SingleTargetLoadBalancingPolicy::new(target, None)));
        statement.set_request_timeout(Some(deadline.remaining().ok()?));
        let sent = deadline.limit(self.session.query_unpaged(statement, ())).await;
        let rows = typed_rows::<(Option<String>,)>(sent.ok()?.ok()?).ok()?;
        let (value,) = rows.into_iter().next()?;
        value?.parse().ok()
    }
}
