//! What is not as usual about a cluster of a test's own.

use super::Nodes;
use super::node::Peculiarities;

/// How to start a cluster.
#[derive(Clone, Debug)]
pub struct ClusterOptions {
    pub(super) nodes: Nodes,
    usual: Peculiarities,
    datacenters: Vec<String>,
}

impl ClusterOptions {
    /// As [`Cluster::start`](super::Cluster::start) does.
    pub fn new(nodes: Nodes) -> Self {
        Self {
            nodes,
            usual: Peculiarities::default(),
            datacenters: Vec::new(),
        }
    }

    /// The heap of each node, in the words of `-Xmx`: `512M`. The environment's is heard first.
    #[must_use]
    pub fn heap(mut self, heap: impl Into<String>) -> Self {
        self.usual.heap = Some(heap.into());
        self
    }

    /// A line of every node's `cassandra.yaml`, in the place of the rig's own if it makes this setting; the value as
    /// YAML writes it on one line.
    #[must_use]
    pub fn setting(mut self, name: &str, value: &str) -> Self {
        self.usual.settings.push_str(&format!("{name}: {value}\n"));
        self
    }

    /// The nodes speak CQL by TLS only, as a [`setting`](Self::setting) says: they are known to run by refusing plain
    /// text.
    #[must_use]
    pub fn encrypted(mut self) -> Self {
        self.usual.is_encrypted = true;
        self
    }

    /// The data centre of each node, node 1 first.
    ///
    /// # Panics
    /// If there are not as many as nodes.
    #[must_use]
    pub fn datacenters<const N: usize>(mut self, names: [&str; N]) -> Self {
        assert_eq!(N, self.nodes.count(), "each node is in one data centre");
        self.datacenters = names.map(str::to_owned).to_vec();
        self
    }

    /// Those of the node of this number, from 1.
    pub(super) fn peculiarities(&self, number: usize) -> Peculiarities {
        Peculiarities {
            datacenter: self.datacenters.get(number - 1).cloned(),
            ..self.usual.clone()
        }
    }
}
