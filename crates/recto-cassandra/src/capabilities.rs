//! What the nodes of a cluster can do: their releases, and whether they keep snapshots of emptied tables.
//!
//! During an upgrade, nodes run different releases. The cluster then counts as its oldest node, because each
//! node must accept each statement.

use std::collections::BTreeSet;
use std::fmt;

use recto_model::Table;
use recto_store::{StoreError, StoreErrorKind};

use crate::ddl::Dialect;

/// Release of Cassandra: major and minor number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Release(u16, u16);

/// First release with `ALTER TABLE … ADD IF NOT EXISTS`.
const ADD_IF_NOT_EXISTS: Release = Release(4, 1);
/// First release with `UnifiedCompactionStrategy`.
const UNIFIED_COMPACTION: Release = Release(5, 0);
/// First release with the table option `allow_auto_snapshot`.
pub(crate) const SNAPSHOTS_BY_TABLE: Release = Release(5, 0);
/// First release with the type `vector`.
const VECTORS: Release = Release(5, 0);

impl fmt::Display for Release {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.0, self.1)
    }
}

impl Release {
    /// Parses the release of a version such as `5.0.8` or `6.0-alpha2`. Returns `None` if the text
    /// is not a version.
    fn of(version: &str) -> Option<Self> {
        let mut numbers = version.split(|character: char| !character.is_ascii_digit());
        Some(Self(numbers.next()?.parse().ok()?, numbers.next()?.parse().ok()?))
    }
}

/// Part of Recto that not every cluster can serve.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Need {
    /// Queues. They empty tables, and Cassandra must not keep a snapshot of each emptied table.
    Queues,
    /// Fields of type `vector`.
    Vectors,
}

impl fmt::Display for Need {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Queues => "queues",
            Self::Vectors => "fields of type vector",
        })
    }
}

/// All parts of Recto that not every cluster can serve.
const NEEDS: [Need; 2] = [Need::Queues, Need::Vectors];

/// Versions of a cluster's nodes, and what the cluster cannot do.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ClusterStatus {
    /// Versions of the nodes, such as `5.0.8`, each once. There are several during an upgrade.
    pub versions: Vec<String>,
    /// Parts of Recto that the cluster cannot serve, a sentence with the reason each.
    pub lacks: Vec<String>,
}

/// Reason why a cluster cannot serve a [`Need`].
#[derive(Debug, Clone, PartialEq, Eq)]
struct Lack {
    reason: String,
    hint: &'static str,
}

/// What the nodes of a cluster can do.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Capabilities {
    /// Versions of the nodes, as they report them.
    versions: BTreeSet<String>,
    /// Oldest release, with the full text of its version; `None` if no node reported a version.
    oldest: Option<(Release, String)>,
    /// True if no node keeps a snapshot of a table that it empties: the setting `auto_snapshot` of each node
    /// is false.
    keeps_no_snapshots: bool,
}

impl Capabilities {
    /// Returns the capabilities of nodes with these versions. `auto_snapshot` contains the setting of each
    /// node, or `None` if it is unknown. Versions that cannot be parsed are listed, but not compared.
    pub(crate) fn new(
        versions: impl IntoIterator<Item = String>,
        auto_snapshot: impl IntoIterator<Item = Option<bool>>,
    ) -> Self {
        let versions: BTreeSet<String> = versions.into_iter().collect();
        let releases = versions
            .iter()
            .filter_map(|version| Some((Release::of(version)?, version.clone())));
        let mut settings = auto_snapshot.into_iter().peekable();
        Self {
            oldest: releases.min_by_key(|(release, _)| *release),
            keeps_no_snapshots: settings.peek().is_some() && settings.all(|setting| setting == Some(false)),
            versions,
        }
    }

    /// Returns whether each node has at least this release. Nodes that report no release count as new, so that
    /// a statement that they do not know fails later.
    pub(crate) fn has(&self, release: Release) -> bool {
        self.oldest.as_ref().is_none_or(|(oldest, _)| *oldest >= release)
    }

    /// Returns the form of the statements that all nodes accept.
    pub(crate) fn dialect(&self) -> Dialect {
        Dialect {
            has_unified_compaction: self.has(UNIFIED_COMPACTION),
            has_add_if_not_exists: self.has(ADD_IF_NOT_EXISTS),
            has_snapshots_by_table: self.has(SNAPSHOTS_BY_TABLE),
        }
    }

    /// Returns the reason why the cluster cannot serve `need`, or `None` if it can.
    fn lack(&self, need: Need) -> Option<Lack> {
        let (_, version) = self.oldest.as_ref()?;
        match need {
            Need::Queues if !self.has(SNAPSHOTS_BY_TABLE) && !self.keeps_no_snapshots => Some(Lack {
                reason: format!(
                    "Cassandra {version} has no table option allow_auto_snapshot, and auto_snapshot is not known \
                     to be false on all nodes, so a snapshot would keep each emptied table on disk"
                ),
                hint: "set auto_snapshot: false in cassandra.yaml of all nodes and restart them, or upgrade all \
                       nodes to 5.0; until then, use queues in an embedded store or in another cluster",
            }),
            Need::Vectors if !self.has(VECTORS) => Some(Lack {
                reason: format!(
                    "Cassandra {version} has no type vector; Cassandra {VECTORS} is the first one"
                ),
                hint: "upgrade all nodes, or give the field the type blob",
            }),
            Need::Queues | Need::Vectors => None,
        }
    }

    /// Checks that the cluster can serve all of `needs`. If the cluster reports no version, the check passes,
    /// and a statement that needs a missing feature fails later.
    ///
    /// # Errors
    /// [`Other`](StoreErrorKind::Other): the cluster cannot serve a need. The request is valid, but the
    /// cluster must be changed first.
    pub(crate) fn check(&self, needs: &[Need]) -> Result<(), StoreError> {
        let lacks = needs.iter().filter_map(|need| Some((need, self.lack(*need)?)));
        let Some((need, lack)) = lacks.into_iter().next() else {
            return Ok(());
        };
        let message = format!("this cluster cannot store {need}: {}", lack.reason);
        Err(StoreError::new(StoreErrorKind::Other, message).with_hint(lack.hint))
    }

    /// Checks that the cluster can create `table`.
    ///
    /// # Errors
    /// The errors of [`check`](Self::check).
    pub(crate) fn check_table(&self, table: &Table) -> Result<(), StoreError> {
        let mut needs = Vec::new();
        if !table.options().automatic_snapshots {
            needs.push(Need::Queues);
        }
        if table.columns().iter().any(|column| column.ty.has_vector()) {
            needs.push(Need::Vectors);
        }
        self.check(&needs)
    }

    /// Returns the versions of the nodes and what the cluster cannot do, for users.
    pub(crate) fn status(&self) -> ClusterStatus {
        let lacks = NEEDS.iter().filter_map(|need| {
            let lack = self.lack(*need)?;
            Some(format!("this cluster cannot store {need}: {}", lack.reason))
        });
        ClusterStatus {
            versions: self.versions.iter().cloned().collect(),
            lacks: lacks.collect(),
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    fn capabilities(versions: &[&str], auto_snapshot: &[Option<bool>]) -> Capabilities {
        Capabilities::new(
            versions.iter().map(ToString::to_string),
            auto_snapshot.iter().copied(),
        )
    }

    #[test]
    fn reads_versions_as_nodes_report_them() {
        for (version, release) in [
            ("5.0.8", Some(Release(5, 0))),
            ("6.0-alpha2", Some(Release(6, 0))),
            ("4.0.0.6816", Some(Release(4, 0))),
            ("10.1.0-SNAPSHOT", Some(Release(10, 1))),
            ("", None),
            ("five", None),
            ("5", None),
        ] {
            assert_eq!(Release::of(version), release, "{version}");
        }
    }

    #[test]
    fn the_oldest_node_decides_what_a_cluster_can_do() {
        for newer in [
            &["5.0.8"][..],
            &["6.0-alpha2", "5.0.2"],
            &["10.0.1"],
            &[],
            &["unknown"],
        ] {
            let newer = capabilities(newer, &[Some(true)]);
            assert!(newer.check(&NEEDS).is_ok(), "{newer:?}");
            assert_eq!(newer.dialect(), Dialect::NEWEST);
            assert_eq!(newer.status().lacks, [""; 0]);
        }
        for (older, version) in [
            (&["4.1.9"][..], "4.1.9"),
            (&["5.0.8", "4.1.9", "5.0.8"], "4.1.9"),
            (&["unknown", "4.0.18"], "4.0.18"),
        ] {
            let older = capabilities(older, &[Some(true)]);
            assert!(older.check(&[]).is_ok(), "collections work on each release");
            for need in NEEDS {
                let error = older.check(&[need]).unwrap_err();
                let said = format!("this cluster cannot store {need}: Cassandra {version} has no ");
                assert!(error.to_string().starts_with(&said), "{error}");
                assert_eq!(error.kind(), StoreErrorKind::Other, "the request is right");
                assert!(error.hint().unwrap().contains("5.0") || need == Need::Vectors);
            }
            assert_eq!(older.status().lacks.len(), NEEDS.len());
            assert!(!older.dialect().has_unified_compaction);
        }
        assert!(capabilities(&["4.1.9"], &[]).dialect().has_add_if_not_exists);
        assert!(
            !capabilities(&["4.1.9", "4.0.18"], &[])
                .dialect()
                .has_add_if_not_exists
        );
    }

    #[test]
    fn queues_work_on_older_releases_if_no_node_keeps_snapshots() {
        let can = |auto_snapshot: &[Option<bool>]| {
            capabilities(&["4.1.9"], auto_snapshot)
                .check(&[Need::Queues])
                .is_ok()
        };
        assert!(can(&[Some(false)]));
        assert!(can(&[Some(false), Some(false)]));
        assert!(!can(&[Some(false), Some(true)]));
        assert!(!can(&[Some(false), None]), "a node that did not answer");
        assert!(!can(&[]));
    }
}
