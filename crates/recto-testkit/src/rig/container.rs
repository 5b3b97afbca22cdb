//! Cassandra node in a container of docker or podman.

use std::fs;
use std::net::SocketAddr;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use super::node::{NODETOOL_TIMEOUT, START_TIMEOUT, answers_cql};
use super::process::{Output, run, wait_until};
use super::{ANSWER_TIMEOUT, CQL_PORT, RigError};

const IMAGE: &str = "docker.io/library/cassandra:5.0";
const ENGINE_TIMEOUT: Duration = Duration::from_secs(15);
/// Maximum time for starting a container, which includes the download of the image at the first
/// run.
const RUN_TIMEOUT: Duration = Duration::from_secs(600);
/// Container engines, each with the format with which its `info` command prints the version of the
/// server. An engine is available if it prints a version.
const ENGINES: [(&str, &str); 2] = [
    ("docker", "{{.ServerVersion}}"),
    ("podman", "{{.Version.Version}}"),
];
/// Shell command that the container runs. It gives settings of `cassandra.yaml` that tests can
/// observe the values of nodes without a container.
const ENTRY: &str = "sed -i -e '/^paxos_variant:/d' -e '/^auto_snapshot:/d' -e '/^truncate_request_timeout:/d' \
    /etc/cassandra/cassandra.yaml && printf '\\npaxos_variant: v2\\nauto_snapshot: false\\ntruncate_request_timeout: 10s\\n' \
    >> /etc/cassandra/cassandra.yaml && exec docker-entrypoint.sh cassandra -f";

/// Cassandra node in a container.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Container {
    engine: String,
    id: String,
}

impl Container {
    /// Returns the name of the first container engine that answers; `None`: no engine answers.
    pub(super) fn engine() -> Option<&'static str> {
        let answers = |(engine, words): &(&str, &str)| {
            let output = run(
                Command::new(engine).args(["info", "--format", words]),
                ENGINE_TIMEOUT,
            );
            output.is_ok_and(|output| !output.stdout.trim().is_empty())
        };
        ENGINES.into_iter().find(answers).map(|(engine, _)| engine)
    }

    /// Starts a container, and waits until Cassandra answers. `publish` is the host address, with
    /// an optional port, that is mapped to the CQL port.
    pub(super) fn start(engine: &str, publish: &str, heap: &str) -> Result<Self, RigError> {
        let mut command = Command::new(engine);
        command.args(["run", "-d", "-p", &format!("{publish}:{CQL_PORT}")]);
        command.args(["-e", &format!("MAX_HEAP_SIZE={heap}"), "-e", "HEAP_NEWSIZE=96M"]);
        command.args([IMAGE, "sh", "-c", ENTRY]);
        let printed = run(&mut command, RUN_TIMEOUT)?.stdout;
        // The id is the last line. A download of the image may print other lines before it.
        let id = printed.lines().last().unwrap_or_default().trim().to_owned();
        let container = Self {
            engine: engine.to_owned(),
            id,
        };
        container.wait_for_answer().inspect_err(|_| {
            // Ignore an error here, so that the caller gets the error of the start.
            let _ = container.remove();
        })?;
        Ok(container)
    }

    /// Returns the address on this host at which Cassandra in the container answers CQL clients.
    pub(super) fn address(&self) -> Result<SocketAddr, RigError> {
        let port = CQL_PORT.to_string();
        let output = run(
            Command::new(&self.engine).args(["port", &self.id, &port]),
            ENGINE_TIMEOUT,
        )?;
        let address = output.stdout.lines().find_map(|line| line.trim().parse().ok());
        address.ok_or(RigError::NotAnswering {
            address: output.stdout,
            waited: Duration::ZERO,
        })
    }

    pub(super) fn is_running(&self) -> bool {
        let mut command = Command::new(&self.engine);
        command.args(["inspect", "--format", "{{.State.Running}}", &self.id]);
        run(&mut command, ENGINE_TIMEOUT).is_ok_and(|output| output.stdout.trim() == "true")
    }

    pub(super) fn remove(&self) -> Result<(), RigError> {
        run(
            Command::new(&self.engine).args(["rm", "-f", "-v", &self.id]),
            ENGINE_TIMEOUT,
        )
        .map(drop)
    }

    pub(super) fn nodetool(&self, arguments: &[&str]) -> Result<Output, RigError> {
        let mut command = Command::new(&self.engine);
        run(
            command.args(["exec", &self.id, "nodetool"]).args(arguments),
            NODETOOL_TIMEOUT,
        )
    }

    pub(super) fn wait_for_answer(&self) -> Result<(), RigError> {
        let address = self.address()?;
        let mut running = true;
        let answered = wait_until(START_TIMEOUT, || {
            answers_cql(address, ANSWER_TIMEOUT) || {
                running = self.is_running();
                !running
            }
        });
        if answered && running {
            return Ok(());
        }
        Err(RigError::NotAnswering {
            address: address.to_string(),
            waited: START_TIMEOUT,
        })
    }

    /// Writes the container engine and the container id as two lines, which the script `watch.sh`
    /// also reads.
    pub(super) fn write(&self, file: &Path) -> Result<(), RigError> {
        fs::write(file, format!("{}\n{}\n", self.engine, self.id)).map_err(RigError::io("write", file))
    }

    pub(super) fn read(file: &Path) -> Result<Self, RigError> {
        let text = fs::read_to_string(file).map_err(RigError::io("read", file))?;
        match text.lines().collect::<Vec<_>>()[..] {
            [engine, id] => Ok(Self {
                engine: engine.to_owned(),
                id: id.to_owned(),
            }),
            _ => Err(RigError::BadState {
                path: file.to_owned(),
                what: "a container's engine and id",
            }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_container_is_found_again_by_its_file() {
        let dir = tempfile::tempdir().expect("a folder");
        let file = dir.path().join("container");
        let container = Container {
            engine: "podman".to_owned(),
            id: "0a1b".to_owned(),
        };
        container.write(&file).expect("written");
        assert_eq!(Container::read(&file).expect("read"), container);
        fs::write(&file, "podman\n").expect("written");
        assert!(matches!(Container::read(&file), Err(RigError::BadState { .. })));
    }
}
