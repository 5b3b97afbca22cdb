//! Options for the start of a test cluster.

use super::Nodes;
use super::node::Peculiarities;
use super::version::Version;

/// Options for the start of a test cluster.
#[derive(Clone, Debug)]
pub struct ClusterOptions {
    pub(super) nodes: Nodes,
    usual: Peculiarities,
    datacenters: Vec<String>,
    /// Release that the nodes run; `None`: the one that the environment names, or the default one.
    pub(super) version: Option<Version>,
}

impl ClusterOptions {
    /// Returns the default options, which [`Cluster::start`](super::Cluster::start) uses.
    pub fn new(nodes: Nodes) -> Self {
        Self {
            nodes,
            usual: Peculiarities::default(),
            datacenters: Vec::new(),
            version: None,
        }
    }

    /// Sets the Java heap of each node, such as `512M` (as for `-Xmx`). The variable
    /// `RECTO_TEST_CASSANDRA_HEAP` takes precedence.
    #[must_use]
    pub fn heap(mut self, heap: impl Into<String>) -> Self {
        self.usual.heap = Some(heap.into());
        self
    }

    /// Sets the release of Cassandra that the nodes run.
    #[must_use]
    pub fn version(mut self, version: Version) -> Self {
        self.version = Some(version);
        self
    }

    /// Adds a setting to the `cassandra.yaml` of each node, or replaces its default value. The
    /// value is YAML on one line.
    #[must_use]
    pub fn setting(mut self, name: &str, value: &str) -> Self {
        self.usual.settings.push_str(&format!("{name}: {value}\n"));
        self
    }

    /// Says that the nodes accept CQL only over TLS, which a [`setting`](Self::setting) must
    /// configure. The rig then regards a node as running if it rejects plain text.
    #[must_use]
    pub fn encrypted(mut self) -> Self {
        self.usual.is_encrypted = true;
        self
    }

    /// Sets the data center of each node, in the order of the nodes.
    ///
    /// # Panics
    /// If the number of names is not the number of nodes.
    #[must_use]
    pub fn datacenters<const N: usize>(mut self, names: [&str; N]) -> Self {
        assert_eq!(N, self.nodes.count(), "each node is in one data centre");
        self.datacenters = names.map(str::to_owned).to_vec();
        self
    }

    /// Returns the options of the node with this index, from 1.
    pub(super) fn peculiarities(&self, number: usize) -> Peculiarities {
        Peculiarities {
            datacenter: self.datacenters.get(number - 1).cloned(),
            ..self.usual.clone()
        }
    }
}
