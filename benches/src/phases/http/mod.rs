//! Phases: pages over HTTP from `recto serve`, compared with a server that responds from memory,
//! with Datasette, and with a hand-written endpoint. Further phases measure the server's resources
//! and start time.

mod contenders;
mod keeping;
mod rates;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::flights;
use crate::peers::http::python::{self, Python};
use crate::peers::http::server::Server;
use crate::peers::ours::Ours;
use crate::peers::sqlite::{self, Layout};
use crate::report::{self, Section};
use crate::world::{World, for_chunks};

/// Maximum number of rows that the servers store: ten times the flights. The command line may
/// request fewer rows.
const MAX_ROWS: u64 = 10 * 336_776;
const CACHE_BYTES: u64 = 1 << 30;
/// Name of the file that marks the data in a folder as complete.
const COMPLETE: &str = "complete";
/// SQL statement for the table of the Python peers, with column types. Without types, Datasette
/// would compare numeric parameters as text.
const TABLE: &str = "CREATE TABLE flights (year INTEGER, month INTEGER, day INTEGER, dep_time INTEGER, \
    sched_dep_time INTEGER, dep_delay INTEGER, arr_time INTEGER, sched_arr_time INTEGER, arr_delay INTEGER, \
    carrier TEXT, flight INTEGER, tailnum TEXT, origin TEXT, dest TEXT, air_time INTEGER, distance INTEGER, \
    hour INTEGER, minute INTEGER, time_hour INTEGER)";

/// Stored flights and programs of the compared servers.
struct Site {
    rows: u64,
    folder: PathBuf,
    /// Path of the program `recto`.
    program: PathBuf,
    python: Option<Python>,
}

pub(super) fn run(world: &mut World) -> Result<Section, String> {
    let site = Site::new(world)?;
    let start = keeping::start(world, &site)?;
    let rates = rates::run(world, &site)?;
    let memory = keeping::memory(world, &site)?;
    let idle = keeping::idle(world, &site)?;
    let mut section = Section {
        title: "Over HTTP".to_owned(),
        text: text(&site, &rates.text),
        ..Section::default()
    };
    for part in [rates, memory, idle, start] {
        if !section.text.ends_with(&part.text) {
            section.text += &format!("\n\n{}", part.text);
        }
        section.tables.extend(part.tables);
        section.targets.extend(part.targets);
    }
    Ok(section)
}

fn text(site: &Site, rates: &str) -> String {
    let python = if site.python.is_some() {
        format!(
            "FastAPI {} (uvicorn {}, {} workers, Python's sqlite3) and Datasette {} (`--immutable`, a named query) use keyset \
             SQL.",
            python::version("fastapi"),
            python::version("uvicorn"),
            python::processors(),
            python::version("datasette")
        )
    } else {
        "FastAPI and Datasette were left out (`--without-python`).".to_owned()
    };
    format!(
        "{} flights, pages of 20 rows of one carrier, newest first. `recto serve` has default settings. axum returns the \
         same bytes from a hash table. {python} The generator, a thread on the same machine, asks for the first 64 pages \
         in turn. {rates}",
        report::number(site.rows as f64)
    )
}

impl Site {
    fn new(world: &mut World) -> Result<Self, String> {
        let rows = world.arguments.rows.min(MAX_ROWS);
        let target = target_folder()?;
        let program = match &world.arguments.recto {
            Some(program) => program.clone(),
            None => build(world, &target)?,
        };
        let python = if world.arguments.python {
            world.progress.say("installing the peers in Python");
            Some(Python::new(&target.join("bench-venv"))?)
        } else {
            None
        };
        let site = Self {
            rows,
            folder: world.folder.join(format!("http-{rows}")),
            program,
            python,
        };
        site.store(world)?;
        Ok(site)
    }

    fn recto(&self) -> PathBuf {
        self.folder.join("recto")
    }

    fn sqlite(&self) -> PathBuf {
        self.folder.join("flights.sqlite")
    }

    /// Stores the flights for all compared servers, if they are not stored yet.
    fn store(&self, world: &mut World) -> Result<(), String> {
        let complete = self.folder.join(COMPLETE);
        if complete.exists() {
            return Ok(());
        }
        let in_words = |error: std::io::Error| format!("{}: {error}", self.folder.display());
        let _ = fs::remove_dir_all(&self.folder);
        fs::create_dir_all(&self.folder).map_err(in_words)?;
        let base = flights::read();
        let ours = Ours::open(&self.recto(), CACHE_BYTES);
        for_chunks(&base, self.rows, |chunk, done| {
            world.progress.say(&format!("storing in Recto, {done} rows"));
            ours.runtime.block_on(ours.flights.put_all(chunk)).unwrap();
        });
        drop(ours);
        let connection = sqlite::open(&self.sqlite(), CACHE_BYTES, false, "NORMAL");
        connection.execute_batch(TABLE).unwrap();
        for_chunks(&base, self.rows, |chunk, done| {
            world.progress.say(&format!("storing in SQLite, {done} rows"));
            sqlite::insert(&connection, chunk);
        });
        sqlite::index(&connection, Layout::Indexed);
        fs::write(complete, b"").map_err(in_words)
    }

    /// Starts `recto serve` with its default settings.
    fn serve(&self) -> Result<Server, String> {
        let mut command = Command::new(&self.program);
        // Remove settings of Recto from the environment, because they concern other servers and
        // stores.
        for (name, _) in std::env::vars().filter(|(name, _)| name.starts_with("RECTO_")) {
            command.env_remove(name);
        }
        command.arg("serve").args(["--listen", "127.0.0.1:0", "--store"]);
        let log = self.folder.join("recto.log");
        let log = fs::File::create(&log).map_err(|error| format!("{}: {error}", log.display()))?;
        Server::announced(command.arg(self.recto()).stderr(log))
    }
}

/// Returns cargo's target folder, which contains this program in a subfolder.
fn target_folder() -> Result<PathBuf, String> {
    let program = std::env::current_exe().map_err(|error| error.to_string())?;
    let target = program.parent().and_then(Path::parent);
    Ok(target
        .ok_or("this program is not in a target folder of cargo")?
        .to_owned())
}

/// Builds the program `recto`, so that the current code is measured. Returns the program's path.
fn build(world: &mut World, target: &Path) -> Result<PathBuf, String> {
    world.progress.say("building recto");
    let output = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()))
        .args([
            "build",
            "--release",
            "--locked",
            "-p",
            "recto-cli",
            "--target-dir",
        ])
        .arg(target)
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .output()
        .map_err(|error| format!("cargo: {error}. hint: name a built program with --recto FILE"))?;
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr);
        return Err(format!("could not build recto:\n{said}"));
    }
    Ok(target.join("release").join("recto"))
}
