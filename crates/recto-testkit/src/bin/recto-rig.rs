//! Program that starts and stops the Cassandra that all tests share, for CI and for development.
#![allow(clippy::print_stdout, clippy::print_stderr)]

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use recto_testkit::rig::{Nodes, Rig, RigError, Shared, Version};

const USAGE: &str = "\
recto-rig start [--dir DIR] [--version VERSION] [--nodes 1|3] [--idle-minutes N] [--maven]
                          starts the shared Cassandra, unless it runs; prints its address. It runs until `stop`,
                          or until no test has used it for N minutes. With --maven, it is not a container.
                          Does nothing if $RECTO_TEST_CASSANDRA names one that answers
recto-rig stop [--dir DIR] [--version VERSION]
recto-rig address [--dir DIR] [--version VERSION]
recto-rig nodetool [--dir DIR] [--version VERSION] NODE ARGUMENTS…
DIR: default $RECTO_TEST_CASSANDRA_DIR, else target/cassandra. Tests find the one there.
VERSION: 4.0, 4.1, 5.0 or 6.0; default $RECTO_TEST_CASSANDRA_VERSION, else 5.0. Each one is a separate Cassandra.";
const SECONDS_PER_MINUTE: u64 = 60;

struct Call {
    verb: String,
    dir: Option<PathBuf>,
    version: Option<Version>,
    nodes: Nodes,
    idle: Option<Duration>,
    maven: bool,
    rest: Vec<String>,
}

fn main() -> ExitCode {
    let Some(call) = parse(std::env::args().skip(1)) else {
        eprintln!("{USAGE}");
        return ExitCode::from(2);
    };
    match obey(&call) {
        Ok(code) => code,
        Err(error) => {
            eprintln!("recto-rig: {error}");
            ExitCode::FAILURE
        }
    }
}

fn parse(mut words: impl Iterator<Item = String>) -> Option<Call> {
    let mut call = Call {
        verb: words.next()?,
        dir: None,
        version: None,
        nodes: Nodes::One,
        idle: None,
        maven: false,
        rest: Vec::new(),
    };
    while let Some(word) = words.next() {
        match (call.verb.as_str(), word.as_str()) {
            (_, "--dir") => call.dir = Some(PathBuf::from(words.next()?)),
            (_, "--version") => call.version = Some(words.next()?.parse().ok()?),
            ("start", "--nodes") => {
                call.nodes = match words.next()?.as_str() {
                    "1" => Nodes::One,
                    "3" => Nodes::Three,
                    _ => return None,
                }
            }
            ("start", "--maven") => call.maven = true,
            ("start", "--idle-minutes") => {
                let minutes: u64 = words.next()?.parse().ok()?;
                call.idle = Some(Duration::from_secs(minutes.checked_mul(SECONDS_PER_MINUTE)?));
            }
            ("nodetool", _) => {
                call.rest = std::iter::once(word).chain(words.by_ref()).collect();
            }
            _ => return None,
        }
    }
    Some(call)
}

fn obey(call: &Call) -> Result<ExitCode, RigError> {
    if call.verb == "start"
        && call.dir.is_none()
        && call.version.is_none()
        && let Some(given) = Shared::given()?
    {
        println!("{}", given.address());
        return Ok(ExitCode::SUCCESS);
    }
    let rig = match &call.dir {
        Some(dir) => Rig::at(dir)?,
        None => Rig::at_default()?,
    };
    let rig = match call.version {
        Some(version) => rig.of_version(version)?,
        None => rig,
    };
    match call.verb.as_str() {
        "start" => {
            let rig = if call.maven { rig.without_containers() } else { rig };
            let shared = rig.start(call.nodes, call.idle)?;
            println!("{}", shared.address());
        }
        "stop" => {
            let stopped = rig.stop()?;
            println!("{}", if stopped { "stopped" } else { "nothing ran" });
        }
        "address" => {
            let Some(address) = rig.address()? else {
                eprintln!("recto-rig: nothing runs; `recto-rig start`");
                return Ok(ExitCode::FAILURE);
            };
            println!("{address}");
        }
        "nodetool" => {
            let mut words = call.rest.iter().map(String::as_str);
            let Some(node) = words.next().and_then(|word| word.parse().ok()) else {
                eprintln!("{USAGE}");
                return Ok(ExitCode::from(2));
            };
            let output = rig.nodetool(node, &words.collect::<Vec<_>>())?;
            print!("{}", output.stdout);
            eprint!("{}", output.stderr);
        }
        _ => {
            eprintln!("{USAGE}");
            return Ok(ExitCode::from(2));
        }
    }
    Ok(ExitCode::SUCCESS)
}
