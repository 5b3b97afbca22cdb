//! Size limits of one request, from the cluster's settings.

use recto_store::{Limits, StoreError, StoreErrorKind};

use crate::client::{Client, Deadline};
use crate::config::{CassandraConfig, MAX_REQUEST_BYTES};
use crate::schema::typed_rows;

/// Default maximum size of a mutation, in bytes, unless the cluster allows less or the
/// configuration sets a size. Larger mutations delay a node and block their partition for
/// conditional writes.
const DEFAULT_MUTATION_BYTES: usize = 2 << 20;
/// Maximum size of a logged batch, in bytes, if the cluster's settings cannot be read: Cassandra's
/// own default.
const DEFAULT_BATCH_BYTES: usize = 50 << 10;
/// Maximum size of a whole key as Cassandra serializes it, in bytes.
pub(crate) const MAX_KEY_BYTES: usize = 65_535;

const BATCH_SETTING: &str = "batch_size_fail_threshold";
const MUTATION_SETTING: &str = "max_mutation_size";
/// End of the names of settings before Cassandra 4.1, whose values are numbers of KiB.
const IN_KIBIBYTES: &str = "_in_kb";

/// Size limits from a node's `cassandra.yaml`, in bytes. `None`: not known.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Sizes {
    batch: Option<usize>,
    mutation: Option<usize>,
}

impl Client {
    /// Reads the settings of the node that answers. Returns no sizes if the user may not read the
    /// settings, or if the cluster has no view of its settings.
    pub(crate) async fn read_sizes(&self, deadline: &Deadline) -> Result<Sizes, StoreError> {
        let text = format!(
            "SELECT name, value FROM system_views.settings WHERE name IN ('{BATCH_SETTING}', '{MUTATION_SETTING}', \
             '{BATCH_SETTING}{IN_KIBIBYTES}', '{MUTATION_SETTING}{IN_KIBIBYTES}')"
        );
        let settings: Vec<(String, Option<String>)> = match self.ask(&text, (), deadline).await {
            Ok(result) => typed_rows(result)?,
            Err(error)
                if matches!(
                    error.kind(),
                    StoreErrorKind::Unavailable | StoreErrorKind::Timeout
                ) =>
            {
                return Err(error);
            }
            Err(_) => Vec::new(),
        };
        Ok(Sizes {
            batch: size_of(BATCH_SETTING, &settings),
            mutation: size_of(MUTATION_SETTING, &settings),
        })
    }
}

/// Returns the limits of requests. Settings of `config` take precedence over those of the cluster.
pub(crate) fn limits(config: &CassandraConfig, sizes: Sizes) -> Limits {
    let mutation = sizes.mutation.unwrap_or(MAX_REQUEST_BYTES);
    // Cassandra first stores a logged batch as one mutation, so the limit of a mutation also limits
    // a batch.
    let batch = sizes.batch.unwrap_or(DEFAULT_BATCH_BYTES).min(mutation);
    Limits {
        mutation_bytes: config
            .mutation_bytes
            .unwrap_or(mutation.min(DEFAULT_MUTATION_BYTES)),
        batch_bytes: config.batch_bytes.unwrap_or(batch.min(MAX_REQUEST_BYTES)),
        key_bytes: MAX_KEY_BYTES,
        remote: true,
        leaves_tombstones: true,
        sees_conflicts: false,
        transactions: false,
        counts_rows: false,
    }
}

/// Returns a size in bytes from settings with their values. Cassandra 4.0 writes the unit into the name.
fn size_of(name: &str, settings: &[(String, Option<String>)]) -> Option<usize> {
    let value = |name: &str| {
        let (_, value) = settings.iter().find(|(setting, _)| setting == name)?;
        value.as_deref()
    };
    match value(name) {
        Some(text) => bytes_of(text),
        None => value(&format!("{name}{IN_KIBIBYTES}"))?
            .parse::<usize>()
            .ok()?
            .checked_mul(1 << 10),
    }
}

/// Parses a size as `cassandra.yaml` writes it: `50KiB`.
fn bytes_of(text: &str) -> Option<usize> {
    let text = text.trim();
    let unit = text.find(|character: char| !character.is_ascii_digit())?;
    let (number, unit) = text.split_at(unit);
    let shift = match unit.trim() {
        "B" => 0,
        "KiB" => 10,
        "MiB" => 20,
        "GiB" => 30,
        _ => return None,
    };
    number.parse::<usize>().ok()?.checked_mul(1 << shift)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_read_as_cassandra_writes_them() {
        assert_eq!(bytes_of("50KiB"), Some(51_200));
        assert_eq!(bytes_of("16MiB"), Some(16 << 20));
        assert_eq!(bytes_of("7B"), Some(7));
        for other in ["", "50", "KiB", "50 kb", "-1KiB", "99999999999999999999GiB"] {
            assert_eq!(bytes_of(other), None, "{other}");
        }
    }

    #[test]
    fn sizes_are_found_under_the_names_of_each_release() {
        let settings = |name: &str, value: &str| [(name.to_owned(), Some(value.to_owned()))];
        for (settings, bytes) in [
            (settings("batch_size_fail_threshold", "50KiB"), Some(51_200)),
            (settings("batch_size_fail_threshold_in_kb", "50"), Some(51_200)),
            (settings("batch_size_fail_threshold_in_kb", "50KiB"), None),
            (settings("max_mutation_size", "16MiB"), None),
        ] {
            assert_eq!(size_of(BATCH_SETTING, &settings), bytes, "{settings:?}");
        }
        assert_eq!(size_of(BATCH_SETTING, &[(BATCH_SETTING.to_owned(), None)]), None);
    }

    #[test]
    fn configured_limits_override_limits_of_the_cluster() {
        let mut config = CassandraConfig::new(["h"], "k");
        let of = |config: &CassandraConfig, batch, mutation| {
            let limits = limits(config, Sizes { batch, mutation });
            (limits.mutation_bytes, limits.batch_bytes)
        };
        assert_eq!(of(&config, None, None), (2 << 20, 50 << 10));
        assert_eq!(of(&config, Some(100 << 10), Some(16 << 20)), (2 << 20, 100 << 10));
        assert_eq!(of(&config, Some(5 << 10), Some(1 << 20)), (1 << 20, 5 << 10));
        // If the cluster's batch limit is higher, its mutation limit or the maximum size of a
        // request limits the batch.
        assert_eq!(of(&config, Some(1 << 30), Some(1 << 20)), (1 << 20, 1 << 20));
        assert_eq!(of(&config, Some(1 << 30), None), (2 << 20, MAX_REQUEST_BYTES));
        config.mutation_bytes = Some(4 << 20);
        config.batch_bytes = Some(7 << 10);
        assert_eq!(of(&config, Some(5 << 10), Some(1 << 20)), (4 << 20, 7 << 10));
    }
}
