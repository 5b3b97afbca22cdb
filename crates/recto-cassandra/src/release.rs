//! Releases of Cassandra that the nodes run, and features that Recto's tables need.

use std::fmt;

use recto_store::{StoreError, StoreErrorKind};

use crate::client::Client;
use crate::schema::typed_rows;

/// Release of Cassandra: major and minor number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Release(u16, u16);

/// Feature of Cassandra that not every release has and that statements of Recto use.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Feature {
    /// `UnifiedCompactionStrategy`, which removes tombstones early.
    UnifiedCompaction,
    /// `ADD IF NOT EXISTS`, which adds columns to existing tables.
    AddIfNotExists,
    /// Table option `allow_auto_snapshot`, which allows emptying a table without a snapshot.
    SnapshotsByTable,
}

/// Features that Recto's own tables need, for collections, views and queues.
pub(crate) const NEEDED: [Feature; 3] = [
    Feature::UnifiedCompaction,
    Feature::AddIfNotExists,
    Feature::SnapshotsByTable,
];

impl Feature {
    /// Returns the first release of Cassandra that has the feature.
    fn since(self) -> Release {
        match self {
            Self::UnifiedCompaction | Self::SnapshotsByTable => Release(5, 0),
            Self::AddIfNotExists => Release(4, 1),
        }
    }
}

impl fmt::Display for Feature {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::UnifiedCompaction => "UnifiedCompactionStrategy",
            Self::AddIfNotExists => "ALTER TABLE … ADD IF NOT EXISTS",
            Self::SnapshotsByTable => "the table option allow_auto_snapshot",
        })
    }
}

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

/// Oldest release among the nodes of a cluster, as far as the nodes report their versions.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ClusterReleases {
    /// Oldest release, with the full text of its version; `None` if no node reported a version.
    oldest: Option<(Release, String)>,
}

impl ClusterReleases {
    /// Returns the oldest of the nodes' versions. Ignores versions that cannot be parsed.
    fn of(versions: impl IntoIterator<Item = String>) -> Self {
        let versions = versions.into_iter();
        let releases = versions.filter_map(|version| Some((Release::of(&version)?, version)));
        Self {
            oldest: releases.min_by_key(|(release, _)| *release),
        }
    }

    /// Checks that the oldest node has all of `needed`. If the cluster reports no version, the
    /// check passes, and a statement that needs a missing feature fails later.
    ///
    /// # Errors
    /// [`Other`](StoreErrorKind::Other): the cluster lacks a feature. The request is valid, but the
    /// cluster cannot serve it.
    pub(crate) fn check(&self, needed: &[Feature]) -> Result<(), StoreError> {
        let Some((oldest, version)) = &self.oldest else {
            return Ok(());
        };
        let lacking = needed.iter().filter(|feature| feature.since() > *oldest);
        let Some(least) = lacking.clone().map(|feature| feature.since()).max() else {
            return Ok(());
        };
        let names: Vec<String> = lacking.map(Feature::to_string).collect();
        let message = format!(
            "the cluster runs Cassandra {version}; Recto needs {least} or newer: {version} lacks {}",
            names.join(" and ")
        );
        Err(StoreError::new(StoreErrorKind::Other, message).with_hint(
            "upgrade all nodes, or use another cluster or an embedded store; `recto attach` can read \
             existing tables of this cluster",
        ))
    }
}

impl Client {
    /// Reads the releases of the node that answers and of its peers.
    async fn read_releases(&self) -> Result<ClusterReleases, StoreError> {
        let deadline = self.connect_deadline();
        let mut versions = Vec::new();
        for table in ["system.local", "system.peers"] {
            let text = format!("SELECT release_version FROM {table}");
            let result = self.ask(&text, (), &deadline).await?;
            let read = typed_rows::<(Option<String>,)>(result)?.into_iter();
            versions.extend(read.filter_map(|(version,)| version));
        }
        Ok(ClusterReleases::of(versions))
    }

    /// Checks that all nodes have the features that Recto's own tables need.
    pub(crate) async fn check_features(&self) -> Result<(), StoreError> {
        self.read_releases().await?.check(&NEEDED)
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    fn releases(versions: &[&str]) -> ClusterReleases {
        ClusterReleases::of(versions.iter().map(ToString::to_string))
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
    fn rejects_a_cluster_whose_oldest_node_lacks_a_feature() {
        for newer in [
            &["5.0.8"][..],
            &["6.0-alpha2", "5.0.2"],
            &["10.0.1"],
            &[],
            &["unknown"],
        ] {
            assert!(releases(newer).check(&NEEDED).is_ok(), "{newer:?}");
        }
        for (older, version) in [
            (&["4.1.9"][..], "4.1.9"),
            (&["5.0.8", "4.1.9", "5.0.8"], "4.1.9"),
            (&["unknown", "4.0.18"], "4.0.18"),
        ] {
            let error = releases(older).check(&NEEDED).unwrap_err();
            let said = format!("the cluster runs Cassandra {version}; Recto needs 5.0 or newer: ");
            assert!(error.to_string().starts_with(&said), "{error}");
            assert!(error.to_string().contains("UnifiedCompactionStrategy"), "{error}");
            assert_eq!(error.kind(), StoreErrorKind::Other, "the request is right");
            assert!(error.hint().unwrap().contains("recto attach"));
        }
    }

    #[test]
    fn names_only_what_is_needed_and_lacks() {
        let old = releases(&["4.1.9"]);
        assert!(old.check(&[Feature::AddIfNotExists]).is_ok());
        assert!(old.check(&[]).is_ok());
        let older = releases(&["4.0.18"])
            .check(&[Feature::AddIfNotExists])
            .unwrap_err();
        assert!(older.to_string().contains("needs 4.1 or newer"), "{older}");
        assert!(!older.to_string().contains("UnifiedCompaction"), "{older}");
    }
}
