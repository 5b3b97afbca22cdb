//! `recto load`: a file into collections.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use clap::Args;
use recto::Session;
use recto::session::{LoadReport, LoadRequest, LoadedCollection};
use serde_json::{Value as Json, json};

use super::loading::{draw_collections, load};
use super::print_json;
use crate::console::{Console, Tone};
use crate::failure::{Exit, Result};
use crate::progress::per_second;
use crate::store::StoreArgs;
use crate::text::{duration, grouped, printable, rows};

const EXAMPLES: &str = "\
Examples:
  recto load posts posts.csv
  recto load posts export.ndjson.gz --ignore-unknown
  recto load flights flights.csv.zip --null NA

The file is .csv (with a header line) or .ndjson, plain or in .gz, .zst or .zip. Empty CSV cells are null; nested \
values are JSON. Rows that are not right go to a reject file with the reason, the others are loaded; the exit code \
is then 4.

Each row is stored (its key was not there), replaced (it took the place of another record: writes = \"overwrite\"), \
repeated (the same record was there) or rejected; there before, or earlier in the file. It is written with its entries \
in all views, or not at all. A record of a collection with \
writes = \"append\" is never changed: a row of another one with its key is rejected. Cassandra cannot know what is there \
without reading: there, of rows that are not sorted together in --buffer-mib, the fields that are not null take the \
place of those that were there, and all count as stored.

A load that was stopped goes on where it stopped when the same command runs again; a file that was \
loaded to its end is not loaded again without --again. Through a server (--store http://…) the file is sent, and \
rejects come back.";

/// Arguments of `recto load`.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
#[allow(clippy::struct_excessive_bools)] // each is a flag
pub(crate) struct LoadArgs {
    /// The collection; several joined by commas each get every row
    #[arg(value_name = "COLLECTION[,…]")]
    pub(crate) collections: String,
    /// The file
    pub(crate) file: PathBuf,
    /// Text that stands for null in CSV cells, beside the empty cell
    #[arg(long, value_name = "TEXT")]
    pub(crate) null: Option<String>,
    /// Load a file again that was loaded to its end
    #[arg(long)]
    pub(crate) again: bool,
    /// Leave out columns that are not fields
    #[arg(long)]
    pub(crate) ignore_unknown: bool,
    /// The file for rejected rows; beside the loaded file if absent
    #[arg(long, value_name = "FILE")]
    pub(crate) rejects: Option<PathBuf>,
    /// The most memory for rows being sorted and written, in MiB
    #[arg(long, value_name = "MIB", value_parser = clap::value_parser!(u64).range(1..=4_096))]
    pub(crate) buffer_mib: Option<u64>,
    /// Show no progress
    #[arg(long, short)]
    pub(crate) quiet: bool,
    /// Print the report as JSON
    #[arg(long)]
    pub(crate) json: bool,
    #[command(flatten)]
    pub(crate) store: StoreArgs,
}

/// Loads a file.
pub(crate) async fn run(args: &LoadArgs, session: Arc<dyn Session>, console: &mut Console) -> Result<Exit> {
    let request = LoadRequest {
        file: args.file.clone(),
        collections: args
            .collections
            .split(',')
            .map(|name| name.trim().to_owned())
            .collect(),
        null: args.null.clone(),
        again: args.again,
        ignore_unknown: args.ignore_unknown,
        rejects: args.rejects.clone(),
        buffer_bytes: args.buffer_mib.map(|mib| mib << 20),
    };
    let Some((report, elapsed)) = load(session, request, args.quiet, console).await? else {
        let stopped = console.err_paint(Tone::Warning, "stopped;");
        console.note(format_args!(
            "{stopped} what was stored stays, and the same command goes on where this one stopped"
        ))?;
        return Ok(Exit::Interrupted);
    };
    if args.json {
        print_json(console, &report_json(&report, elapsed))?;
    } else {
        draw(&args.file.display().to_string(), &report, elapsed, console)?;
    }
    let rejected = report
        .collections
        .iter()
        .any(|collection| collection.rows_rejected > 0);
    Ok(if rejected { Exit::Partly } else { Exit::Done })
}

/// The report as people read it.
pub(crate) fn draw(file: &str, report: &LoadReport, elapsed: Duration, console: &mut Console) -> Result<()> {
    let file = printable(file);
    let done = console.paint(Tone::Good, "✓");
    if report.already_loaded {
        console.line(format_args!(
            "{done} {file} was loaded to its end before; nothing was done"
        ))?;
        console.line("  recto load … --again loads it again")?;
        draw_collections(report, console)?;
        return draw_rejects(report, console);
    }
    let stored: u64 = report
        .collections
        .iter()
        .map(|collection| collection.rows_stored + collection.rows_replaced + collection.rows_repeated)
        .sum();
    let rate = per_second(stored, elapsed).map(|rate| format!(", {} stored rows/s", grouped(rate)));
    let took = duration(elapsed);
    console.line(format_args!(
        "{done} {file}: {} in {took}{}",
        rows(report.rows_read),
        rate.unwrap_or_default()
    ))?;
    if report.rows_resumed > 0 {
        let earlier = rows(report.rows_resumed);
        console.line(format_args!(
            "  went on from an earlier load that was stopped after {earlier}"
        ))?;
    }
    draw_collections(report, console)?;
    draw_rejects(report, console)
}

/// Where the rejected rows are.
fn draw_rejects(report: &LoadReport, console: &mut Console) -> Result<()> {
    if let Some(rejects) = &report.rejects {
        let text = format!("the rejected rows, with reasons: {}", rejects.display());
        console.line(format_args!(
            "  {}",
            console.paint(Tone::Warning, &printable(&text))
        ))?;
    }
    Ok(())
}

fn report_json(report: &LoadReport, elapsed: Duration) -> Json {
    let collections: Vec<Json> = report.collections.iter().map(LoadedCollection::to_json).collect();
    json!({
        "rows_read": report.rows_read,
        "rows_resumed": report.rows_resumed,
        "collections": collections,
        "rejects": report.rejects.as_ref().map(|path| path.display().to_string()),
        "already_loaded": report.already_loaded,
        "time_micros": u64::try_from(elapsed.as_micros()).unwrap_or(u64::MAX),
    })
}
