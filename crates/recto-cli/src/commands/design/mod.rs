//! `recto design`: finds the views that a collection needs for its queries.

mod report;

use std::fs::File;
use std::io::{self, BufRead as _, BufReader, Read as _, Write as _};
use std::path::{Path, PathBuf};

use clap::Args;
use recto::design::{
    DesignError, DesignErrorKind, LogReader, MAX_LOG_LINE_BYTES, MAX_QUERIES_BYTES, MAX_SHAPES,
    WorkloadQuery, design, parse_queries, servable, with_views,
};
use serde_json::json;

use super::schema::{DEFAULT_FILE, parse_schema, read_schema_text};
use super::{collection_of, print_json};
use crate::console::{Console, Tone};
use crate::failure::{Exit, Failure, Result};
use crate::text::{byte_count, printable};
use report::Report;

const EXAMPLES: &str = "\
Examples:
  recto design orders --queries queries.toml
  recto design orders --queries queries.toml --row 1kB --output recto.toml
  recto design orders --log server.log

A file of queries has the parameters of the HTTP API, with ? for any value:

  [[query]]
  name = \"board\"
  filter = 'status = ? AND created >= ?'
  order_by = \"-created\"
  per_day = 5000

A server logs the requested queries if it logs JSON at the level debug (log_format, log_level). The log has \
filters without their values.

The command proposes the fewest new views with which no query needs a filter scan. If several sets of views \
are equally small, it prefers fewer views without a partition, then more partition fields, then fewer \
columns. The query planner checks each query over the schema with these views.";

/// Arguments of `recto design`.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct DesignArgs {
    /// Name of the collection
    #[arg(value_name = "COLLECTION")]
    collection: String,
    /// TOML file with the queries
    #[arg(
        long,
        value_name = "FILE",
        required_unless_present = "log",
        conflicts_with = "log"
    )]
    queries: Option<PathBuf>,
    /// Log of a server, in JSON, with the requested queries
    #[arg(long, value_name = "FILE")]
    log: Option<PathBuf>,
    /// Schema file
    #[arg(long, value_name = "FILE", default_value = DEFAULT_FILE)]
    schema: PathBuf,
    /// Size of a record, to estimate the number of written bytes
    #[arg(long, value_name = "BYTES", value_parser = byte_count)]
    row: Option<u64>,
    /// File to write the schema with the views to; may be the schema file
    #[arg(long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// Runs `recto design`: finds the views that a collection needs for its queries.
pub(crate) fn run(args: &DesignArgs, console: &mut Console) -> Result<Exit> {
    let text = read_schema_text(&args.schema)?;
    let schema = parse_schema(&args.schema, &text)?;
    let collection = collection_of(&schema, &args.collection)?;
    let (queries, left_out, source) = queries(args)?;
    let (queries, unservable) = match left_out {
        // Leave out queries of a log that no view can serve. Failing would not help, because users
        // cannot edit the queries of clients.
        Some(_) => servable(collection, queries).map_err(|error| failure(error, source))?,
        None => (queries, Vec::new()),
    };
    let design = design(collection, &queries).map_err(|error| failure(error, source))?;
    let views: Vec<_> = design
        .views
        .iter()
        .map(|proposed| proposed.view.clone())
        .collect();
    let with_views =
        with_views(&text, &collection.name, &views).map_err(|error| failure(error, &args.schema))?;
    if let Some(file) = &args.output {
        write_whole(file, &with_views).map_err(|error| Failure::file("write", file, &error))?;
    }
    let report = Report {
        design: &design,
        row_bytes: args.row,
        left_out,
        unservable: &unservable,
    };
    if args.json {
        let mut shown = report.to_json();
        shown["schema"] = json!(with_views);
        print_json(console, &shown)?;
    } else {
        report.write(console)?;
        if let Some(file) = &args.output {
            let name = printable(&file.display().to_string());
            console.line("")?;
            let anew = if with_views.starts_with(text.trim_end()) {
                ""
            } else {
                "; it has no comments, because the views could not be added at the end of the schema"
            };
            console.line(format_args!(
                "{} wrote {name}{anew}",
                console.paint(Tone::Good, "✓")
            ))?;
        }
    }
    Ok(Exit::Done)
}

/// Replaces the content of a file atomically: after a failure, the file has its old or its new
/// content.
fn write_whole(file: &Path, text: &str) -> io::Result<()> {
    // Resolve links, so that a link stays and its target is replaced.
    let file = file.canonicalize().unwrap_or_else(|_| file.to_owned());
    let mut name = file.file_name().unwrap_or_default().to_owned();
    name.push(format!(".{}", std::process::id()));
    let beside = file.with_file_name(name);
    let written = File::create_new(&beside).and_then(|mut written| {
        if let Ok(there) = file.metadata() {
            written.set_permissions(there.permissions())?;
        }
        written.write_all(text.as_bytes())?;
        written.sync_all()?;
        std::fs::rename(&beside, &file)
    });
    if written.is_err() {
        // Remove the incomplete file. Ignore an error of the removal, because `written` contains
        // the first error.
        let _ = std::fs::remove_file(&beside);
    }
    written
}

/// Reads the queries. Returns them, the number of queries of a log beyond the limit, and the source
/// file. The number is `None` if the queries are not from a log.
fn queries(args: &DesignArgs) -> Result<(Vec<WorkloadQuery>, Option<usize>, &Path)> {
    if let Some(file) = &args.log {
        let log = read_log(file, &args.collection)?;
        let log = log.end(MAX_SHAPES).map_err(|error| failure(error, file))?;
        return Ok((log.queries, Some(log.left_out), file));
    }
    // clap requires --queries if --log is absent, so this default is never used.
    let file = args.queries.as_deref().unwrap_or(Path::new("queries.toml"));
    let failed = |error: io::Error| {
        let failure = Failure::file("read the queries", file, &error);
        match error.kind() {
            io::ErrorKind::InvalidData => failure.with_hint("write the queries as TOML, in UTF-8"),
            _ => failure,
        }
    };
    let mut text = String::new();
    let limit = MAX_QUERIES_BYTES as u64 + 1;
    let read = File::open(file).and_then(|opened| opened.take(limit).read_to_string(&mut text));
    read.map_err(failed)?;
    let queries = parse_queries(&text).map_err(|error| failure(error, file))?;
    Ok((queries, None, file))
}

/// Reads the queries of a collection from a server's log, line by line. A line may have any length.
fn read_log(file: &Path, collection: &str) -> Result<LogReader> {
    let failed = |error: io::Error| Failure::file("read the log", file, &error);
    let mut input = BufReader::new(File::open(file).map_err(failed)?);
    let mut log = LogReader::new(collection);
    let mut line = Vec::new();
    loop {
        line.clear();
        let limit = MAX_LOG_LINE_BYTES as u64 + 1;
        let read = input
            .by_ref()
            .take(limit)
            .read_until(b'\n', &mut line)
            .map_err(failed)?;
        if read == 0 {
            return Ok(log);
        }
        // Replace invalid UTF-8 by an empty line, which the log reader ignores. The parts of a line
        // longer than the limit need no care: they are not valid log records, so the reader ignores
        // them.
        log.line(std::str::from_utf8(&line).unwrap_or_default().trim_end());
    }
}

fn failure(error: DesignError, file: &Path) -> Failure {
    let exit = match error.kind {
        DesignErrorKind::Internal => Exit::Failed,
        _ => Exit::Refused,
    };
    let mut failure = Failure::new(exit, error.to_string()).at(&file.display().to_string());
    if let Some((text, column)) = &error.pointed {
        failure = failure.pointing(text, *column);
    }
    match error.hint {
        Some(hint) => failure.with_hint(hint),
        None => failure,
    }
}
