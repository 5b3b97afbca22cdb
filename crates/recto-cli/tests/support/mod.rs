//! Helpers that run the binary in a folder of its own, and its server.
// Each test suite uses only a part of this module, so allow dead code.
#![allow(dead_code)]

pub(crate) mod cutter;
pub(crate) mod guide;
pub(crate) mod place;

use std::io::{BufRead as _, BufReader, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::Arc;

use recto::Recto;
use recto::store::{Atomicity, Mutation, Operation, PartitionWrite, Stamp, WriteOptions, WriteOutcome};

/// Schema with a collection of orders. A page has orders of one tenant.
pub(crate) const ORDERS: &str = r#"
[collection.orders]
fields = { tenant = "text", id = "int", note = "text" }
key = ["tenant", "id"]
partition = ["tenant"]
order = ["id"]
writes = "overwrite"
"#;

/// Output and exit code of one run of the binary.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Ran {
    pub(crate) out: String,
    pub(crate) err: String,
    pub(crate) code: i32,
}

impl Ran {
    pub(crate) fn of(output: &Output) -> Self {
        Self {
            out: String::from_utf8(output.stdout.clone()).unwrap(),
            err: String::from_utf8(output.stderr.clone()).unwrap(),
            code: output.status.code().unwrap(),
        }
    }

    /// Checks that the run succeeded. Returns its standard output.
    pub(crate) fn done(self) -> String {
        assert_eq!(self.code, 0, "{}{}", self.out, self.err);
        self.out
    }

    /// Checks that the run ended with `code` and printed `text` on standard error. Returns standard
    /// error.
    pub(crate) fn failed(self, code: i32, text: &str) -> String {
        assert_eq!(self.code, code, "{}{}", self.out, self.err);
        assert!(self.err.contains(text), "{}", self.err);
        assert!(!self.err.contains("panicked"), "{}", self.err);
        self.err
    }
}

/// Returns a command that runs the binary in a folder, without the environment variables that the
/// binary reads.
pub(crate) fn command(folder: &Path) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_recto"));
    forget_settings(&mut command);
    command.current_dir(folder);
    command
}

/// Removes from a command's environment the variables that the binary reads.
pub(crate) fn forget_settings(command: &mut Command) {
    for (name, _) in std::env::vars_os() {
        let text = name.to_string_lossy();
        if text.starts_with("RECTO_") || text.starts_with("OTEL_") {
            command.env_remove(&name);
        }
    }
}

/// Runs the binary in a folder.
pub(crate) fn recto(folder: &Path, line: &[&str]) -> Ran {
    recto_with(folder, line, &[], b"")
}

/// Runs the binary in a folder, with environment variables and standard input.
pub(crate) fn recto_with(folder: &Path, line: &[&str], variables: &[(&str, &str)], input: &[u8]) -> Ran {
    let mut command = command(folder);
    command.args(line).envs(variables.iter().copied());
    let command = command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    // Ignore an error: a command that rejects its arguments closes its input early, and its output
    // shows the reason.
    let _ = child.stdin.take().unwrap().write_all(input);
    Ran::of(&child.wait_with_output().unwrap())
}

/// Deletes the entries of one partition from a view behind Recto's back, as another program could.
pub(crate) async fn lose_entries(recto: &Recto, view: &str, partition: &str, stamp: i64) {
    let views = recto.views().await.unwrap();
    let view = views.into_iter().find(|one| one.view == view).unwrap();
    let tables = recto.store().list_tables().await.unwrap();
    let table = tables.into_iter().find(|one| one.name() == view.table);
    let write = PartitionWrite {
        table: Arc::new(table.unwrap()),
        partition: [Some(partition.as_bytes())].into_iter().collect(),
        mutations: vec![Mutation {
            operation: Operation::DeletePartition,
            stamp: Some(Stamp(stamp)),
            ttl_seconds: None,
        }],
    };
    let written = recto
        .store()
        .write_many(vec![write], Atomicity::Each, WriteOptions::default());
    assert!(matches!(written.await.unwrap(), WriteOutcome::Done));
}

/// Running `recto serve`. Dropping the value ends the server.
#[derive(Debug)]
pub(crate) struct Server {
    child: Child,
    folder: PathBuf,
    line: Vec<String>,
    pub(crate) url: String,
}

impl Server {
    /// Starts a server in a folder on a free port. `more` are further command-line options.
    pub(crate) fn start(folder: &Path, more: &[&str]) -> Self {
        Self::start_at(folder, "127.0.0.1:0", more)
    }

    fn start_at(folder: &Path, listen: &str, more: &[&str]) -> Self {
        let mut command = command(folder);
        command.args(["serve", "--listen", listen]).args(more);
        let command = command.stdout(Stdio::piped()).stderr(Stdio::null());
        let mut child = command.spawn().unwrap();
        let mut line = String::new();
        let mut out = BufReader::new(child.stdout.take().unwrap());
        out.read_line(&mut line).unwrap();
        // Read the rest of the output in a thread, so that the server never blocks at a full pipe.
        std::thread::spawn(move || std::io::copy(&mut out, &mut std::io::sink()));
        let url = line.split_whitespace().find(|word| word.starts_with("http"));
        let url = url.unwrap_or_else(|| panic!("it did not say where it serves: {line:?}"));
        Self {
            child,
            folder: folder.to_owned(),
            line: more.iter().map(|&one| one.to_owned()).collect(),
            url: url.to_owned(),
        }
    }

    /// Returns host and port of the server.
    pub(crate) fn address(&self) -> &str {
        self.url.split_once("://").unwrap().1
    }

    pub(crate) fn kill(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }

    /// Kills the server, and starts it again at the same address.
    pub(crate) fn restart(&mut self) {
        self.kill();
        let more: Vec<&str> = self.line.iter().map(String::as_str).collect();
        *self = Self::start_at(&self.folder, self.address(), &more);
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.kill();
    }
}
