//! Releases of Cassandra that the rig can run.

use std::env;
use std::fmt;
use std::str::FromStr;

use super::{RigError, VERSION_VARIABLE};

/// Release of Cassandra that the nodes of a cluster run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Version {
    /// The oldest release on which Recto stores collections.
    V4_0,
    /// The newest release before 5.0.
    V4_1,
    /// The release that tests use unless they ask for another one.
    #[default]
    V5_0,
    /// The newest release, which has only alpha versions.
    V6_0,
}

impl Version {
    /// All releases, the oldest first.
    pub const ALL: [Self; 4] = [Self::V4_0, Self::V4_1, Self::V5_0, Self::V6_0];

    /// Returns the exact version of the jars, as Maven names it.
    pub fn number(self) -> &'static str {
        match self {
            Self::V4_0 => "4.0.19",
            Self::V4_1 => "4.1.10",
            Self::V5_0 => "5.0.8",
            Self::V6_0 => "6.0-alpha2",
        }
    }

    /// Returns the short name, such as `5.0`.
    pub fn name(self) -> &'static str {
        match self {
            Self::V4_0 => "4.0",
            Self::V4_1 => "4.1",
            Self::V5_0 => "5.0",
            Self::V6_0 => "6.0",
        }
    }

    /// Returns the release that the environment names, or the default one.
    pub(super) fn of_environment() -> Result<Self, RigError> {
        match env::var(VERSION_VARIABLE) {
            Ok(text) if !text.is_empty() => text.parse().map_err(|()| RigError::BadVersion { text }),
            _ => Ok(Self::default()),
        }
    }

    /// Converts a line of `cassandra.yaml` to the form that this release knows. Returns `None` if the release
    /// lacks the setting. Cassandra 4.0 writes the unit into the name: `commitlog_segment_size_in_mb: 8`.
    pub(super) fn setting(self, line: &str) -> Option<String> {
        if self != Self::V4_0 {
            return Some(line.to_owned());
        }
        match line.split_once(": ") {
            Some(("paxos_variant", _)) => None,
            Some((name @ "prepared_statements_cache_size", value)) => {
                Some(format!("{name}_mb: {}", value.strip_suffix("MiB")?))
            }
            Some((name, value)) => Some(match (value.strip_suffix("MiB"), in_ms(value)) {
                (Some(mebibytes), _) => format!("{name}_in_mb: {mebibytes}"),
                (None, Some(ms)) => format!("{name}_in_ms: {ms}"),
                (None, None) => line.to_owned(),
            }),
            None => Some(line.to_owned()),
        }
    }
}

/// Converts a time such as `10s` or `10000ms` to milliseconds. Returns `None` for other texts.
fn in_ms(text: &str) -> Option<u64> {
    match text.strip_suffix("ms") {
        Some(ms) => ms.parse().ok(),
        None => Some(text.strip_suffix('s')?.parse::<u64>().ok()? * 1_000),
    }
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.number())
    }
}

impl FromStr for Version {
    type Err = ();

    /// Parses a short name, such as `4.1`.
    fn from_str(name: &str) -> Result<Self, ()> {
        Self::ALL
            .into_iter()
            .find(|version| version.name() == name)
            .ok_or(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_have_the_form_of_the_release() {
        for (line, of_4_0) in [
            (
                "commitlog_segment_size: 8MiB",
                Some("commitlog_segment_size_in_mb: 8"),
            ),
            (
                "commitlog_sync_period: 10000ms",
                Some("commitlog_sync_period_in_ms: 10000"),
            ),
            (
                "truncate_request_timeout: 10s",
                Some("truncate_request_timeout_in_ms: 10000"),
            ),
            (
                "prepared_statements_cache_size: 64MiB",
                Some("prepared_statements_cache_size_mb: 64"),
            ),
            ("cluster_name: recto-tests", Some("cluster_name: recto-tests")),
            ("  - class_name: a.b.Seeds", Some("  - class_name: a.b.Seeds")),
            ("paxos_variant: v2", None),
        ] {
            assert_eq!(Version::V4_0.setting(line).as_deref(), of_4_0, "{line}");
            assert_eq!(Version::V4_1.setting(line).as_deref(), Some(line));
        }
    }

    #[test]
    fn names_are_parsed() {
        for version in Version::ALL {
            assert_eq!(version.name().parse(), Ok(version));
            assert!(version.number().starts_with(version.name()));
        }
        assert_eq!("3.11".parse::<Version>(), Err(()));
    }
}
