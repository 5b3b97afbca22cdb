//! Addresses of the keyspaces whose tables are attached. One row of the catalog contains them,
//! without credentials.

use std::collections::BTreeMap;

use recto_store::ConsistencyLevel;

use super::{Catalog, Entry};
use crate::error::{Error, ErrorKind, Result};

/// Name of the catalog row with the addresses of attached keyspaces.
pub(super) const ATTACHED: &str = "attached";
/// Version of the format of the catalog row with the addresses.
pub(super) const ATTACHED_VERSION: i32 = 1;
/// Maximum number of attempts to record an address when other writers change the row.
#[cfg_attr(not(feature = "cassandra"), allow(dead_code))]
const MAX_RECORDINGS: u32 = 16;

/// Address of each keyspace, by the name of the keyspace.
pub(crate) type Addresses = BTreeMap<String, String>;

impl Catalog<'_> {
    /// Returns the recorded addresses of attached keyspaces, read at the consistency level
    /// `LocalQuorum`.
    ///
    /// # Errors
    /// The catalog cannot be read.
    pub(crate) async fn attached(&self) -> Result<Addresses> {
        let entry = self.entry(ATTACHED, ConsistencyLevel::LocalQuorum).await?;
        read(entry.as_ref())
    }

    /// Records the address of a keyspace. Replaces an earlier address of the same keyspace.
    ///
    /// # Errors
    /// The catalog cannot be written, or other writers changed the row at every attempt.
    #[cfg_attr(not(feature = "cassandra"), allow(dead_code))]
    pub(crate) async fn record_attached(&self, keyspace: &str, address: &str) -> Result<()> {
        for _ in 0..MAX_RECORDINGS {
            let entry = self.entry(ATTACHED, ConsistencyLevel::Serial).await?;
            let generation = entry.as_ref().map_or(0, |entry| entry.generation);
            let mut addresses = read(entry.as_ref())?;
            if addresses.get(keyspace).is_some_and(|there| there == address) {
                return Ok(());
            }
            addresses.insert(keyspace.to_owned(), address.to_owned());
            let lines = addresses
                .iter()
                .map(|(keyspace, address)| format!("{keyspace} {address}\n"));
            let entry = Entry {
                version: ATTACHED_VERSION,
                generation: generation + 1,
                body: lines.collect::<String>().into_bytes(),
            };
            if self.replace(ATTACHED, generation, &entry).await? {
                return Ok(());
            }
        }
        Err(Error::new(
            ErrorKind::Store,
            "the address of an attached keyspace cannot be saved, because other processes keep changing the \
             addresses",
        )
        .with_hint("try again when other processes have finished attaching tables"))
    }
}

/// Decodes the addresses from a catalog row. Each line of the row has a keyspace, a space and an
/// address. Returns an empty map if there is no row.
fn read(entry: Option<&Entry>) -> Result<Addresses> {
    let Some(entry) = entry else {
        return Ok(Addresses::new());
    };
    let damaged = || {
        Error::new(
            ErrorKind::Corrupt,
            "the catalog's row with the addresses of attached keyspaces is damaged",
        )
        .with_hint("attach the tables again")
    };
    let text = std::str::from_utf8(&entry.body).map_err(|_| damaged())?;
    let line = |line: &str| {
        let (keyspace, address) = line.split_once(' ').ok_or_else(damaged)?;
        Ok((keyspace.to_owned(), address.to_owned()))
    };
    text.lines().map(line).collect()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use std::sync::Arc;

    use recto_model::Environment;
    use recto_store::Store;
    use recto_store::memory::MemoryStore;

    use super::*;

    const GOLDEN: &str = include_str!("golden/attached-v1.txt");

    #[tokio::test]
    async fn addresses_are_recorded_as_every_release_reads_them() {
        let entry = Entry {
            version: ATTACHED_VERSION,
            generation: 1,
            body: GOLDEN.as_bytes().to_vec(),
        };
        let addresses = read(Some(&entry)).unwrap();
        let environment = Environment::system();
        let store: Arc<dyn Store> = Arc::new(MemoryStore::new(environment.clone()));
        let catalog = Catalog::new(&store, &environment, None);
        catalog.create().await.unwrap();
        for (keyspace, address) in &addresses {
            catalog.record_attached(keyspace, address).await.unwrap();
        }
        let entry = catalog
            .entry(ATTACHED, ConsistencyLevel::Serial)
            .await
            .unwrap()
            .unwrap();
        assert_eq!(entry.body, GOLDEN.as_bytes());
    }

    #[tokio::test]
    async fn addresses_are_recorded_by_keyspace() {
        let environment = Environment::system();
        let store: Arc<dyn Store> = Arc::new(MemoryStore::new(environment.clone()));
        let catalog = Catalog::new(&store, &environment, None);
        catalog.create().await.unwrap();
        assert!(catalog.attached().await.unwrap().is_empty());
        for (keyspace, address) in [
            ("shop", "one"),
            ("depot", "two"),
            ("shop", "three"),
            ("shop", "three"),
        ] {
            catalog.record_attached(keyspace, address).await.unwrap();
        }
        let entry = catalog
            .entry(ATTACHED, ConsistencyLevel::Serial)
            .await
            .unwrap()
            .unwrap();
        assert_eq!((entry.version, entry.generation), (1, 3));
        assert_eq!(
            std::str::from_utf8(&entry.body).unwrap(),
            "depot two\nshop three\n"
        );
        assert_eq!(catalog.attached().await.unwrap()["shop"], "three");
    }
}
