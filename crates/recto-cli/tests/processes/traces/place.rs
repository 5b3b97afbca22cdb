//! Store for tests of traces, and its server with environment variables of the test.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use crate::support::{ORDERS, command, recto};

/// Confidential value in records, filters and keys. No trace span may contain it.
pub(crate) const TENANT: &str = "acme-confidential";

/// Maximum time until a server has ended. A server may wait for a collector, but not as long.
const END_TIME: Duration = Duration::from_secs(30);

/// Folder with a store of orders.
pub(crate) struct Place(tempfile::TempDir);

impl Place {
    pub(crate) fn new() -> Self {
        let place = Self(tempfile::tempdir().unwrap());
        std::fs::write(place.folder().join("recto.toml"), ORDERS).unwrap();
        recto(place.folder(), &["apply", "--yes"]).done();
        let records: String = (0..30)
            .map(|id| format!("{{\"tenant\":\"{TENANT}\",\"id\":{id},\"note\":\"kept quiet\"}}\n"))
            .collect();
        std::fs::write(place.folder().join("orders.ndjson"), records).unwrap();
        recto(place.folder(), &["load", "orders", "orders.ndjson"]).done();
        place
    }

    pub(crate) fn folder(&self) -> &Path {
        self.0.path()
    }

    fn command(&self, line: &[&str]) -> Command {
        let mut command = command(self.folder());
        command.args(line).stdin(Stdio::null());
        command
    }

    /// Serves the store with the given environment variables.
    pub(crate) fn serve(&self, variables: &[(&str, &str)]) -> Running {
        self.serve_with(&[], variables)
    }

    /// Serves the store with the given options and environment variables.
    pub(crate) fn serve_with(&self, options: &[&str], variables: &[(&str, &str)]) -> Running {
        let mut line = vec!["serve", "--listen", "127.0.0.1:0"];
        line.extend(options);
        let mut child = self
            .command(&line)
            .envs(variables.iter().copied())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut err = child.stderr.take().unwrap();
        let log = std::thread::spawn(move || {
            let mut log = String::new();
            err.read_to_string(&mut log).unwrap();
            log
        });
        let mut said = String::new();
        BufReader::new(child.stdout.take().unwrap())
            .read_line(&mut said)
            .unwrap();
        let address = said.trim().rsplit("//").next().unwrap().to_owned();
        Running {
            child,
            address,
            log: Some(log),
        }
    }
}

/// Running server. Dropping this value kills it.
pub(crate) struct Running {
    child: Child,
    pub(crate) address: String,
    log: Option<JoinHandle<String>>,
}

impl Running {
    /// Sends a request without a body. Returns the whole response.
    pub(crate) fn ask(&self, method: &str, path: &str, headers: &str) -> String {
        let mut stream = TcpStream::connect(&self.address).unwrap();
        let request =
            format!("{method} {path} HTTP/1.1\r\nHost: localhost\r\n{headers}Connection: close\r\n\r\n");
        stream.write_all(request.as_bytes()).unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        answer
    }

    /// Requests a page of the orders of `TENANT`. Returns the response.
    pub(crate) fn page(&self, more: &str, headers: &str) -> String {
        let path =
            format!("/v1/collections/orders/records?filter=tenant%20%3D%20%22{TENANT}%22&page_size=4{more}");
        let answer = self.ask("GET", &path, headers);
        assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
        answer
    }

    /// Tells the server to stop, waits for its end, and returns its log.
    pub(crate) fn stop(mut self) -> String {
        let sent = Command::new("kill")
            .arg(self.child.id().to_string())
            .status()
            .unwrap();
        assert!(sent.success());
        let began = Instant::now();
        let status = loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                break status;
            }
            assert!(began.elapsed() < END_TIME, "it does not end");
            std::thread::sleep(Duration::from_millis(10));
        };
        let log = self.log.take().unwrap().join().unwrap();
        assert!(status.success(), "{status}: {log}");
        log
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
