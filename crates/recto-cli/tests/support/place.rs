//! Store of a test (embedded or on Cassandra), and the folder in which commands use it.

use std::path::Path;
use std::process::Command;

use recto::Environment;
use recto_cassandra::{CassandraConfig, drop_keyspace};
use recto_testkit::rig::{Cluster, unique_keyspace};

use super::{Ran, command, recto_with};

/// Folder with an embedded store, or with a Cassandra keyspace of its own. Dropping the value
/// removes the keyspace.
pub(crate) struct Place {
    folder: tempfile::TempDir,
    /// Address of Cassandra, and name of the keyspace; `None` for an embedded store.
    keyspace: Option<(String, String)>,
}

impl Place {
    pub(crate) fn embedded() -> Self {
        Self::of(None)
    }

    pub(crate) fn on_cassandra() -> Self {
        let cassandra = Cluster::shared().expect("tests need a Cassandra").address();
        Self::of(Some((cassandra.to_owned(), unique_keyspace("recto_commands"))))
    }

    fn of(keyspace: Option<(String, String)>) -> Self {
        let folder = tempfile::tempdir().unwrap();
        Self { folder, keyspace }
    }

    pub(crate) fn path(&self) -> &Path {
        self.folder.path()
    }

    /// Returns the address of the store on Cassandra; `None` for an embedded store in the folder.
    pub(crate) fn store(&self) -> Option<String> {
        let (cassandra, keyspace) = self.keyspace.as_ref()?;
        Some(format!("cassandra://{cassandra}/{keyspace}"))
    }

    /// Returns a command of the binary that uses the store.
    pub(crate) fn command(&self) -> Command {
        let mut command = command(self.path());
        command.envs(self.store().map(|store| ("RECTO_STORE", store)));
        command
    }

    /// Runs the binary on the store, with `input` as standard input.
    pub(crate) fn run(&self, line: &[&str], input: &[u8]) -> Ran {
        let store = self.store();
        let variables: Vec<_> = store
            .iter()
            .map(|store| ("RECTO_STORE", store.as_str()))
            .collect();
        recto_with(self.path(), line, &variables, input)
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        if let Some((cassandra, keyspace)) = self.keyspace.take() {
            let config = CassandraConfig::new([cassandra], keyspace);
            let runtime = tokio::runtime::Runtime::new().unwrap();
            let _ = runtime.block_on(drop_keyspace(config, Environment::system()));
        }
    }
}
