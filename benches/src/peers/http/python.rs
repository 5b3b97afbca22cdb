//! Peers in Python from PyPI: Datasette, and a hand-written endpoint with FastAPI.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::server::{Server, free_address};

/// Python packages to install, each with its version, as a requirements file for pip.
const REQUIREMENTS: &str = include_str!("requirements.txt");
const KEYSET: &str = include_str!("keyset.py");
/// Configuration of Datasette: a named query with the SQL statement that the FastAPI endpoint also
/// uses.
const METADATA: &str = include_str!("datasette.json");
/// Name of a file in the virtual environment that lists the installed packages.
const INSTALLED: &str = "installed.txt";

/// Python virtual environment in which the peers are installed.
#[derive(Debug)]
pub(crate) struct Python {
    folder: PathBuf,
}

impl Python {
    /// Opens the virtual environment in a folder. Creates the environment if it does not exist or
    /// has other packages.
    ///
    /// # Errors
    /// Returns a message if Python is missing or cannot install the packages.
    pub(crate) fn new(folder: &Path) -> Result<Self, String> {
        let python = Self {
            folder: folder.to_owned(),
        };
        let installed = folder.join(INSTALLED);
        if fs::read_to_string(&installed).is_ok_and(|text| text == REQUIREMENTS) {
            return Ok(python);
        }
        run(Command::new("python3").args(["-m", "venv"]).arg(folder))?;
        let wanted = folder.join("requirements.txt");
        fs::write(&wanted, REQUIREMENTS).map_err(|error| format!("{}: {error}", wanted.display()))?;
        run(Command::new(python.program("pip"))
            .args(["install", "--quiet", "--requirement"])
            .arg(&wanted))?;
        fs::write(&installed, REQUIREMENTS).map_err(|error| format!("{}: {error}", installed.display()))?;
        Ok(python)
    }

    fn program(&self, name: &str) -> PathBuf {
        self.folder.join("bin").join(name)
    }

    /// Starts Datasette on an SQLite database that no program changes.
    pub(crate) fn datasette(&self, database: &Path, folder: &Path) -> Result<Server, String> {
        let metadata = folder.join("datasette.json");
        fs::write(&metadata, METADATA).map_err(|error| format!("{}: {error}", metadata.display()))?;
        let address = free_address();
        let mut command = Command::new(self.program("datasette"));
        command.arg("serve").arg("--immutable").arg(database);
        command.arg("--metadata").arg(&metadata);
        command.args(["--host", "127.0.0.1", "--port", &address.port().to_string()]);
        for (setting, value) in [
            ("suggest_facets", "off"),
            ("cache_size_kb", "1048576"),
            ("sql_time_limit_ms", "10000"),
        ] {
            command.args(["--setting", setting, value]);
        }
        Server::told(
            &mut command,
            address,
            "/-/versions.json",
            &folder.join("datasette.log"),
        )
    }

    /// Starts the FastAPI endpoint on an SQLite database, with one worker process per processor.
    pub(crate) fn fastapi(&self, database: &Path, folder: &Path) -> Result<Server, String> {
        let module = folder.join("keyset.py");
        fs::write(&module, KEYSET).map_err(|error| format!("{}: {error}", module.display()))?;
        let address = free_address();
        let mut command = Command::new(self.program("uvicorn"));
        command.arg("keyset:app").arg("--app-dir").arg(folder);
        command.args(["--host", "127.0.0.1", "--port", &address.port().to_string()]);
        command.args(["--workers", &processors().to_string()]);
        command.args(["--no-access-log", "--log-level", "warning"]);
        command.args(["--loop", "uvloop", "--http", "httptools"]);
        command.env("FLIGHTS", database);
        Server::told(
            &mut command,
            address,
            "/flights?carrier=UA",
            &folder.join("fastapi.log"),
        )
    }
}

/// Returns the version of a Python package in the requirements, or `?` if it is not listed.
pub(crate) fn version(package: &str) -> &'static str {
    let lines = REQUIREMENTS.lines().filter_map(|line| line.split_once("=="));
    let mut found = lines.filter(|(name, _)| *name == package);
    found.next().map_or("?", |(_, version)| version)
}

/// Returns the number of processors of this machine.
pub(crate) fn processors() -> usize {
    std::thread::available_parallelism().map_or(1, std::num::NonZero::get)
}

fn run(command: &mut Command) -> Result<(), String> {
    let hint = "hint: install python3 with venv and allow access to PyPI, or use --without-python";
    let output = command
        .output()
        .map_err(|error| format!("{}: {error}. {hint}", command.get_program().display()))?;
    if output.status.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&output.stderr);
    Err(format!("{command:?} failed. {hint}\n{said}"))
}
