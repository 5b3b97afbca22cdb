//! Options of a cluster for one test.

use super::Nodes;
use super::node::Peculiarities;

/// Options for the start of a cluster.
#[derive(Clone, Debug)]
pub struct ClusterOptions {
    pub(super) nodes: Nodes,
    usual: Peculiarities,
    datacenters: Vec<String>,
}

impl ClusterOptions {
    /// Returns the options that [`Cluster::start`](super::Cluster::start) uses.
    pub fn new(nodes: Nodes) -> Self {
        Self {
            nodes,
            usual: Peculiarities::default(),
            datacenters: Vec::new(),
        }
    }

    /// Sets the heap of each node, in the syntax of `-Xmx`, for example `512M`. The variable
    /// `RECTO_TEST_CASSANDRA_HEAP` takes precedence.
    #[must_use]
    pub fn heap(mut self, heap: impl Into<String>) -> Self {
        self.usual.heap = Some(heap.into());
        self
    }

    /// Adds a setting to the `cassandra.yaml` of each node. It replaces the rig's own value of this
    /// setting. The value is YAML on one line.
    #[must_use]
    pub fn setting(mut self, name: &str, value: &str) -> Self {
        self.usual.settings.push_str(&format!("{name}: {value}\n"));
        self
    }

    /// Marks the nodes as accepting CQL only by TLS, which a [`setting`](Self::setting) must configure. The rig then
    /// recognizes a running node because it rejects plain text.
    #[must_use]
    pub fn encrypted(mut self) -> Self {
        self.usual.is_encrypted = true;
        self
    }

    /// Sets the data center of each node, beginning with node 1.
    ///
    /// # Panics
    /// If the number of names is not the number of nodes.
    #[must_use]
    pub fn datacenters<const N: usize>(mut self, names: [&str; N]) -> Self {
        assert_eq!(N, self.nodes.count(), "each node is in one data centre");
        self.datacenters = names.map(str::to_owned).to_vec();
        self
    }

    /// Returns the options of the node with this number, beginning with 1.
    pub(super) fn peculiarities(&self, number: usize) -> Peculiarities {
        Peculiarities {
            datacenter: self.datacenters.get(number - 1).cloned(),
            ..self.usual.clone()
        }
    }
}
