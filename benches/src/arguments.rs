//! Command-line arguments of the benchmark program.

use std::path::PathBuf;

/// Output of `--help`.
pub(crate) const HELP: &str = "\
Compare Recto with its peers.

    cargo run --release -p recto-benches -- PHASE… [OPTIONS]

Phases:
    all            Run all phases below in this order, and write docs/benchmarks.md
    layers         Layers of a page: the engine's read, the store's slice, the page
    pages          Pages at depths 0, 1,000 and 1,000,000, compared with SQLite and PostgreSQL
    cache          Pages with caches of a tenth of the data
    size           Bytes on disk, and time to store the data
    readers        Pages by 1, 2 and 8 readers, and by 2 readers with a writer
    writes         Durable puts by 1, 8 and 64 writers
    load           Loads of CSV files
    views          Puts with views, compared with SQLite with indexes; pages, filling and comparing of views
    queues         Send, receive and acknowledge, compared with PostgreSQL; receives after many messages
    intersect      Several filters, by views of one field each, by one view of all fields, and by filter scan
    reopen         Opening after kill -9
    cassandra      Pages, compared with the hand-written statements
    cassandra-views
                   Appends and updates with views, compared with a hand-written program; verified pages
    cassandra-repair
                   Repair of a view without entries
    collation      Pages of a view with a collation, compared with a view without; both stores
    unique         Inserts with and without a unique field, compared with a hand-written program; both stores
    cassandra-buckets
                   A list with and without buckets, also with eight shards: load, pages, puts; requests by node
    cassandra-intersect
                   The filters of `intersect` on Cassandra
    copy           Copies of a collection between stores, compared with loads; both stores
    cassandra-queues
                   Messages/s and conditional writes a message, by one server and by three
    cassandra-queues-aged
                   Receives after many messages, compared with a new queue and with deleted rows
    cassandra-queues-waiting
                   Time until a waiting receiver has a message; both stores, one server and two
    cassandra-queues-rolling
                   Receives with and without a rotation of the body tables every few seconds
    http           Pages of `recto serve`, axum, FastAPI and Datasette; memory, idle connections, start
    instructions   Instructions of a page of each shape, counted by valgrind
    render FILE…   Write the document from files of `--json`; later files replace phases of earlier files
    loop SHAPE N   Read N pages of a shape, for a profiler; `loop help` lists the shapes

Options:
    --rows N               Number of flights [default: 6,735,520, the data 20 times]
    --quick                Run few rounds, as a test of the program
    --folder DIR           Folder of the data, which later runs use again [default: a temporary folder]
    --json FILE            Write the figures to this file
    --document FILE        Write the document to this file [default with `all`: docs/benchmarks.md]
    --cassandra HOST:PORT  Address of Cassandra [default: 127.0.0.1:9042]
    --without-postgresql   Leave out PostgreSQL
    --without-python       Leave out FastAPI and Datasette in `http`
    --recto FILE           Program that serves Recto in `http` [default: built by this run, in release mode]
";

/// Default number of rows: 20 times the original data. The largest partition then has more than a
/// million rows.
const DEFAULT_ROWS: u64 = 20 * 336_776;

/// Names of the phases (measurements) that the argument `all` runs, in order.
pub(crate) const PHASES: [&str; 25] = [
    "layers",
    "pages",
    "cache",
    "size",
    "readers",
    "writes",
    "load",
    "views",
    "queues",
    "intersect",
    "reopen",
    "cassandra",
    "cassandra-views",
    "cassandra-repair",
    "collation",
    "unique",
    "cassandra-buckets",
    "cassandra-intersect",
    "copy",
    "cassandra-queues",
    "cassandra-queues-aged",
    "cassandra-queues-waiting",
    "cassandra-queues-rolling",
    "http",
    "instructions",
];

/// Parsed command-line arguments.
#[derive(Debug, Clone)]
pub(crate) struct Arguments {
    pub(crate) words: Vec<String>,
    pub(crate) rows: u64,
    pub(crate) quick: bool,
    pub(crate) folder: Option<PathBuf>,
    pub(crate) json: Option<PathBuf>,
    pub(crate) document: Option<PathBuf>,
    pub(crate) cassandra: String,
    pub(crate) postgresql: bool,
    pub(crate) python: bool,
    pub(crate) recto: Option<PathBuf>,
}

impl Arguments {
    /// Parses the arguments. The error is a message for the user.
    pub(crate) fn parse(mut given: impl Iterator<Item = String>) -> Result<Self, String> {
        let mut arguments = Self {
            words: Vec::new(),
            rows: DEFAULT_ROWS,
            quick: false,
            folder: None,
            json: None,
            document: None,
            cassandra: "127.0.0.1:9042".to_owned(),
            postgresql: true,
            python: true,
            recto: None,
        };
        while let Some(word) = given.next() {
            let mut value = || given.next().ok_or_else(|| format!("{word} needs a value"));
            match word.as_str() {
                "--rows" => {
                    let text = value()?.replace(['_', ','], "");
                    arguments.rows = text
                        .parse()
                        .map_err(|_| format!("{text:?} is not a number of rows"))?;
                }
                "--quick" => arguments.quick = true,
                "--folder" => arguments.folder = Some(value()?.into()),
                "--json" => arguments.json = Some(value()?.into()),
                "--document" => arguments.document = Some(value()?.into()),
                "--cassandra" => arguments.cassandra = value()?,
                "--without-postgresql" => arguments.postgresql = false,
                "--without-python" => arguments.python = false,
                "--recto" => arguments.recto = Some(value()?.into()),
                option if option.starts_with("--") => return Err(format!("unknown option {option}")),
                _ => arguments.words.push(word),
            }
        }
        if arguments.words.is_empty() {
            return Err("no phase. hint: name a phase, or `all`".to_owned());
        }
        Ok(arguments)
    }

    /// Returns the names of the requested phases (measurements), in the order of [`PHASES`].
    pub(crate) fn phases(&self) -> Result<Vec<&'static str>, String> {
        if self.words == ["all"] {
            return Ok(PHASES.to_vec());
        }
        if let Some(word) = self.words.iter().find(|word| !PHASES.contains(&word.as_str())) {
            return Err(format!(
                "unknown phase {word}. hint: the phases are all, {}",
                PHASES.join(", ")
            ));
        }
        // Run the phases in the order of PHASES, not of the command line, because the phase
        // `readers` changes the data that earlier phases measure.
        let is_asked = |phase: &&str| self.words.iter().any(|word| word == phase);
        Ok(PHASES.into_iter().filter(is_asked).collect())
    }

    /// Returns the command line that measures one phase with the current options, for the report.
    pub(crate) fn command(&self, phase: &str) -> String {
        let mut command = format!("cargo run --release -p recto-benches -- {phase}");
        if self.rows != DEFAULT_ROWS {
            command += &format!(" --rows {}", self.rows);
        }
        if self.quick {
            command += " --quick";
        }
        command
    }

    /// Returns the number of rounds to measure: `full`, or an eighth of it (at least 2) in a quick
    /// run.
    pub(crate) fn rounds(&self, full: usize) -> usize {
        if self.quick { full.div_ceil(8).max(2) } else { full }
    }
}
