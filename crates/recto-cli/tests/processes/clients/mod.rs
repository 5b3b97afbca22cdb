//! Tests of the example clients in other languages, and of commands in the guide, with a running
//! server. They need python3 with venv, node with npm, and curl. scripts/test installs these
//! programs. Without one of them, the tests fail.

mod queues;
mod readme;

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

use crate::support::cutter::Cutter;
use crate::support::guide::{blocks, is_shown};
use crate::support::{Server, recto};
use serde_json::Value as Json;

/// Number of flights from each of two airports. All flights together are more than one step of an
/// export.
const FLIGHTS: u32 = 1_500;

fn project() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// Runs a command to its end. Returns its standard output.
fn run(command: &mut Command) -> String {
    let output = command
        .output()
        .unwrap_or_else(|error| panic!("{command:?} cannot be run: {error}"));
    let err = String::from_utf8_lossy(&output.stderr);
    let out = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.success(), "{command:?}: {out}{err}");
    out
}

/// Returns a folder in cargo's target folder, whose content later test runs can reuse.
fn kept(name: &str) -> PathBuf {
    Path::new(env!("CARGO_TARGET_TMPDIR")).join(name)
}

/// Example clients in one language: the program that runs them, their folder, and the ending of their files.
struct Client {
    program: PathBuf,
    folder: PathBuf,
    ending: &'static str,
}

/// Returns the Python clients, in a virtual environment that has only the packages in their
/// requirements.
fn python() -> &'static Client {
    static CLIENT: OnceLock<Client> = OnceLock::new();
    CLIENT.get_or_init(|| {
        let (from, venv) = (project().join("examples/clients/python"), kept("python-client"));
        run(Command::new("python3").args(["-m", "venv"]).arg(&venv));
        let install = [
            "-m",
            "pip",
            "install",
            "--quiet",
            "--require-hashes",
            "--only-binary",
            ":all:",
            "-r",
        ];
        let program = venv.join("bin/python");
        run(Command::new(&program)
            .args(install)
            .arg(from.join("requirements.txt")));
        Client {
            program,
            folder: from,
            ending: "py",
        }
    })
}

/// Returns the TypeScript clients, after their types were checked.
fn typescript() -> &'static Client {
    static CLIENT: OnceLock<Client> = OnceLock::new();
    CLIENT.get_or_init(|| {
        let (from, to) = (
            project().join("examples/clients/typescript"),
            kept("typescript-client"),
        );
        std::fs::create_dir_all(&to).unwrap();
        for file in [
            "client.ts",
            "problem.ts",
            "queues.ts",
            "package.json",
            "package-lock.json",
            "tsconfig.json",
        ] {
            std::fs::copy(from.join(file), to.join(file)).unwrap();
        }
        let install = [
            "ci",
            "--ignore-scripts",
            "--no-audit",
            "--no-fund",
            "--loglevel",
            "error",
        ];
        run(Command::new("npm").args(install).current_dir(&to));
        run(Command::new("npx").args(["--no-install", "tsc"]).current_dir(&to));
        Client {
            program: "node".into(),
            folder: to.join("build"),
            ending: "js",
        }
    })
}

impl Client {
    /// Returns the command that runs the client `name`. The command writes no files beside the
    /// client's source.
    fn command(&self, name: &str) -> Command {
        let mut command = Command::new(&self.program);
        command
            .arg(self.folder.join(name).with_extension(self.ending))
            .env_remove("RECTO_TOKEN")
            .env("PYTHONDONTWRITEBYTECODE", "1");
        command
    }

    fn run(&self, name: &str, url: &str, command: &str) -> String {
        run(self.command(name).args([url, command]))
    }

    /// Checks that the client `name` prints its usage in one line if it gets no arguments.
    fn tells_its_usage(&self, name: &str) {
        let usage = self.command(name).output().unwrap();
        let (is_done, err) = (usage.status.success(), String::from_utf8(usage.stderr).unwrap());
        let is_a_line = err.starts_with("usage: ") && err.lines().count() == 1;
        assert!(!is_done && is_a_line, "{err}");
    }
}

/// Creates a store with the demo's schema and fewer flights, and starts a server for it.
fn airport() -> (tempfile::TempDir, Server) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path();
    std::fs::write(
        path.join("recto.toml"),
        include_str!("../../../data/flights.toml"),
    )
    .unwrap();
    let mut csv = String::from("origin,time_hour,carrier,flight,dest,distance\n");
    for flight in 0..FLIGHTS {
        let (day, hour) = (flight % 2 + 30, flight % 24);
        for (origin, carrier) in [("EWR", "UA"), ("JFK", "B6")] {
            writeln!(
                csv,
                "{origin},2013-12-{day}T{hour:02}:00:00Z,{carrier},{flight},LAX,2454"
            )
            .unwrap();
        }
    }
    std::fs::write(path.join("flights.csv"), csv).unwrap();
    recto(path, &["apply", "--yes", "--store", "demo"]).done();
    let load = ["load", "flights", "flights.csv", "--store", "demo", "--quiet"];
    recto(path, &load).done();
    let server = Server::start(path, &["--store", "demo"]);
    (folder, server)
}

fn does_it_all(client: &Client) {
    let (folder, server) = airport();
    client.tells_its_usage("client");
    // Pass the server's address with a final `/`, as browsers show it.
    let pages = client.run("client", &format!("{}/", server.url), "pages");
    assert_eq!(
        pages,
        "forwards: 750 flights on 8 pages\nbackwards: 750 flights on 8 pages\nthe same flights\n"
    );
    let problem = client.run("client", &server.url, "problem");
    let (what, hint) = problem.split_once('\n').unwrap();
    assert!(
        what.starts_with("invalid-query in filter, character 20: filter, column 20"),
        "{what}"
    );
    assert!(hint.starts_with("hint: ") && hint.contains("distance"), "{hint}");

    // Cut the first connection in the middle of the export, and the second one at its beginning.
    let way = Cutter::new(server.address(), vec![150_000, 10, usize::MAX, usize::MAX]);
    let exported = client.run("client", &way.url, "export");
    let local = recto(folder.path(), &["scan", "flights", "--store", &server.url]).done();
    assert!(records(&exported) == records(&local));
    assert_eq!(records(&exported).len(), 2 * FLIGHTS as usize);
    assert!(way.count() >= 3);

    let put = client.run("client", &server.url, "put");
    let (record, missing) = put.split_once('\n').unwrap();
    let record: Json = serde_json::from_str(record).unwrap();
    assert_eq!(record["dest"], "São Paulo & back");
    assert_eq!(
        (&record["distance"], &record["flight"]),
        (&4_759.into(), &7_000.into())
    );
    assert!(["None\n", "undefined\n"].contains(&missing), "{missing}");
}

fn records(lines: &str) -> Vec<String> {
    let parse = |line: &str| serde_json::from_str::<Json>(line).unwrap().to_string();
    let mut records: Vec<String> = lines.lines().map(parse).collect();
    records.sort_unstable();
    records
}

#[test]
fn the_python_client_does_it_all() {
    does_it_all(python());
}

#[test]
fn the_typescript_client_does_it_all() {
    does_it_all(typescript());
}

#[test]
fn the_guides_commands_do_what_it_says() {
    let page = std::fs::read_to_string(project().join("docs/book/http.md")).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let program = Path::new(env!("CARGO_BIN_EXE_recto")).parent().unwrap();
    let path = format!("{}:{}", program.display(), std::env::var("PATH").unwrap());
    let (mut server, mut settings) = (None, String::new());
    let mut out = String::new();
    let mut checked = 0;
    for block in blocks(&page) {
        match block.language {
            // Start the server on a free port. It keeps running for the later blocks of the page.
            "sh" if block.text.starts_with("recto serve") => {
                let more: Vec<&str> = block.text.split_whitespace().skip(2).collect();
                server = Some(Server::start(folder.path(), &more));
            }
            "sh" => {
                let mut text = block.text.to_owned();
                if let Some(server) = &server {
                    text = text.replace("127.0.0.1:8080", server.address());
                }
                // Save the shell's variables for the next block, because readers would run all
                // blocks in one shell.
                let script = format!("set -euo pipefail\n{settings}\n{text}\ndeclare -p > variables\n");
                let mut shell = Command::new("bash");
                out = run(shell
                    .args(["-c", &script])
                    .current_dir(folder.path())
                    .env("PATH", &path));
                let kept = std::fs::read_to_string(folder.path().join("variables")).unwrap();
                let is_own = |line: &&str| {
                    ["url=", "next=", "previous=", "tag="]
                        .iter()
                        .any(|name| line.starts_with(&format!("declare -- {name}")))
                };
                settings = kept
                    .lines()
                    .filter(is_own)
                    .map(|line| format!("{line}\n"))
                    .collect();
            }
            "text" => {
                assert!(
                    is_shown(block.text, &out),
                    "the guide shows\n{}and it is\n{out}",
                    block.text
                );
                checked += 1;
            }
            other => panic!("a block of {other:?}: commands are sh, what they print is text"),
        }
    }
    assert!(checked >= 10, "{checked}");
}
