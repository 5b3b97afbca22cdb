//! Arguments of the command line.

use std::path::PathBuf;

/// Output of `--help`.
pub(crate) const HELP: &str = "\
Measures Recto beside named peers.

    cargo run --release -p recto-benches -- PHASE… [OPTIONS]

Phases:
    all            every phase below, in this order; writes docs/benchmarks.md
    layers         what a page consists of: the engine's read, the store's, the page's
    pages          pages beside SQLite and PostgreSQL, at depths 0, 1,000 and 1,000,000
    cache          the same with caches a tenth of the data
    size           bytes on disk, and how long the data took to store
    readers        1, 2 and 8 readers; readers beside a writer at full speed
    writes         durable puts by 1, 8 and 64 writers
    load           loading CSV files
    views          puts with views beside SQLite with indexes; pages of views; filling and comparing them
    queues         send, receive, acknowledge beside PostgreSQL with SKIP LOCKED; after millions of messages
    buckets        a list in buckets beside the same without: loading, pages a million rows down, writes
    intersect      several filters by views of one each, by one view of all, and by scanning
    reopen         opening after kill -9
    cassandra      pages beside the same statements hand-written on the driver
    cassandra-views
                   appends and updates with views beside the same by hand on the driver; verified pages
    cassandra-repair
                   repairing a view of which all entries are missing
    collation      pages of a view that sorts names as people do, beside one that sorts by bytes; both stores
    unique         inserts with a unique field beside those without, and beside two IF NOT EXISTS by hand; both stores
    cassandra-buckets
                   the same on Cassandra, with eight shards, too: and how much one node gets of a hot list
    cassandra-intersect
                   the same on Cassandra
    copy           copying a collection between stores, beside loading it; both stores
    cassandra-queues
                   queues on Cassandra: rates by one server and by three, and conditional writes a message
    cassandra-queues-aged
                   receives after many messages, beside a new queue and beside rows that are deleted
    cassandra-queues-waiting
                   from send until who waits has it, embedded and by one server and by two, beside the store calls
    cassandra-queues-rolling
                   receives while tables of bodies take turns every few seconds, and while they do not
    http           pages over HTTP: `recto serve` beside axum from memory, Datasette and FastAPI; memory,
                   idle connections, start
    instructions   instructions of one page of each shape, counted by valgrind
    render FILE…   writes the document of what `--json` saved, later files over earlier ones
    loop SHAPE N   reads N pages of a shape, for a profiler; `loop help` lists the shapes

Options:
    --rows N               flights (default 6,735,520: the data twenty times over)
    --quick                few rounds: to see that it works
    --folder DIR           keeps the data here, and takes it from here if it is there
    --json FILE            saves the figures
    --document FILE        writes the document (`all` writes docs/benchmarks.md)
    --cassandra HOST:PORT  the Cassandra to ask (default 127.0.0.1:9042)
    --without-postgresql   leaves that peer out; the document says so
    --without-python       leaves Datasette and FastAPI out of `http`; the document says so
    --recto FILE           the program that `http` serves with (default: built now, in release mode)
";

/// Twenty times the data. The largest partition then has more than a million rows.
const DEFAULT_ROWS: u64 = 20 * 336_776;

/// Phases of `all`, in their order.
pub(crate) const PHASES: [&str; 26] = [
    "layers",
    "pages",
    "cache",
    "size",
    "readers",
    "writes",
    "load",
    "views",
    "queues",
    "buckets",
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

/// Parsed arguments.
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
                        .map_err(|_| format!("{text:?} is no number of rows"))?;
                }
                "--quick" => arguments.quick = true,
                "--folder" => arguments.folder = Some(value()?.into()),
                "--json" => arguments.json = Some(value()?.into()),
                "--document" => arguments.document = Some(value()?.into()),
                "--cassandra" => arguments.cassandra = value()?,
                "--without-postgresql" => arguments.postgresql = false,
                "--without-python" => arguments.python = false,
                "--recto" => arguments.recto = Some(value()?.into()),
                option if option.starts_with("--") => return Err(format!("there is no option {option}")),
                _ => arguments.words.push(word),
            }
        }
        if arguments.words.is_empty() {
            return Err("name a phase, or all".to_owned());
        }
        Ok(arguments)
    }

    /// Returns the requested phases.
    pub(crate) fn phases(&self) -> Result<Vec<&'static str>, String> {
        if self.words == ["all"] {
            return Ok(PHASES.to_vec());
        }
        if let Some(word) = self.words.iter().find(|word| !PHASES.contains(&word.as_str())) {
            return Err(format!(
                "there is no phase {word}; there are all, {}",
                PHASES.join(", ")
            ));
        }
        // Phases run in their fixed order, because the writer of `readers` changes the data that
        // other phases compare.
        let is_asked = |phase: &&str| self.words.iter().any(|word| word == phase);
        Ok(PHASES.into_iter().filter(is_asked).collect())
    }

    /// Returns the command that measures a phase with these arguments.
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

    /// Returns `full`, or a fraction of it in a quick run.
    pub(crate) fn rounds(&self, full: usize) -> usize {
        if self.quick { full.div_ceil(8).max(2) } else { full }
    }
}
