//! `recto load`: loads a file into collections.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use clap::Args;
use recto::Session;
use recto::session::{
    BlobFormat, ColumnMapping, CsvOptions, Delimiter, Escape, LoadReport, LoadRequest, LoadedCollection,
};
use serde_json::{Value as Json, json};

use super::loading::{draw_collections, load};
use super::print_json;
use super::stdin_file::{STANDARD_INPUT, StdinFile};
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
  recto load orders from-cqlsh.csv --escape '\\' --blobs hex
  recto load countries gapminder.csv --delimiter tab --map lifeExp=life_exp
  recto load events events.csv --time-format '%d/%m/%Y %H:%M' --time-zone Europe/Berlin
  zcat posts.csv.gz | recto load posts -

The file is .csv (with a header line) or .ndjson, plain or in .gz, .zst or .zip. Invalid rows go to a \
reject file with the reason, and the other rows are loaded; the exit code is then 4.

In CSV, an empty cell without quotes is null, and \"\" is empty text (--null changes this). Nested values \
are JSON, or CQL as in files of cqlsh COPY TO. Times need an offset unless --time-zone is given.

Codes of --time-format:
  %Y %y        year                  %M %S     minute, second
  %m %b %B     month                 %f        fraction of a second
  %d %e        day                   %z %Z     offset
  %a %A        weekday               %s        seconds since 1970
  %H           hour, 0-23            %F %T %R  %Y-%m-%d, %H:%M:%S, %H:%M
  %I and %p    hour, 12 hours        %%        %
A pattern applies to dates and timestamps. A pattern without a date applies to times of day.

The load counts each row once:
  stored       no record had its key
  replaced     it replaced another record (writes = \"overwrite\" or \"update\")
  repeated     the same record existed
  rejected     it was not written
A record counts as existing if it was in the store or earlier in the file. Recto writes a row with its \
entries in all views, or not at all. A record of a collection with writes = \"append\" never changes: Recto \
rejects another row with its key.

On Cassandra, a load into an append or overwrite collection does not read before it writes. It compares only \
rows that it sorts together in --buffer-mib. Any other row counts as stored, and its fields that are not null \
replace those of an existing record.

To continue an interrupted load, run the same command again. A completely loaded file is loaded again only \
with --again. Through a server (--store http://…), the command sends the file and receives the rejected \
rows.";

/// Arguments of `recto load`.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
#[allow(clippy::struct_excessive_bools)] // each is a flag
pub(crate) struct LoadArgs {
    /// Name of the collection; of several, joined by commas, each gets every row
    #[arg(value_name = "COLLECTION[,…]")]
    pub(crate) collections: String,
    /// File to load; `-` reads standard input
    pub(crate) file: PathBuf,
    /// CSV cell that means null, as the file writes it, with its quotes; can be repeated [default: the empty
    /// cell without quotes]
    #[arg(long, value_name = "TEXT", allow_hyphen_values = true)]
    pub(crate) null: Vec<String>,
    /// Separator between two CSV cells: one ASCII character, or `tab` [default: ,]
    #[arg(long, value_name = "CHARACTER")]
    pub(crate) delimiter: Option<Delimiter>,
    /// Escape character in CSV cells, before quotes and other special characters: \ in files of cqlsh
    /// [default: none; quotes are doubled]
    #[arg(long, value_name = "CHARACTER")]
    pub(crate) escape: Option<Escape>,
    /// CSV column that fills a field of another name; can be repeated. Without a field, the column is left
    /// out
    #[arg(long, value_name = "COLUMN=FIELD")]
    pub(crate) map: Vec<ColumnMapping>,
    /// Form of blobs in CSV cells: base64 or hex [default: base64, and cells that look like hex are rejected]
    #[arg(long, value_name = "FORM")]
    pub(crate) blobs: Option<BlobFormat>,
    /// Pattern of dates and times in CSV cells, such as %Y/%m/%d [default: ISO 8601]
    #[arg(long, value_name = "PATTERN")]
    pub(crate) time_format: Option<String>,
    /// Time zone of timestamps without an offset: UTC, +02:00 or a name such as Europe/Berlin
    #[arg(long, value_name = "ZONE", allow_hyphen_values = true)]
    pub(crate) time_zone: Option<String>,
    /// Load a completely loaded file again
    #[arg(long)]
    pub(crate) again: bool,
    /// Ignore columns that are not fields
    #[arg(long)]
    pub(crate) ignore_unknown: bool,
    /// File for rejected rows [default: FILE.rejects.csv, or stdin.rejects.csv for standard input; .ndjson for
    /// NDJSON]
    #[arg(long, value_name = "FILE")]
    pub(crate) rejects: Option<PathBuf>,
    /// Memory for sorting and writing rows, in MiB: 1 to 4096 [default: 256]
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

/// Runs `recto load`: loads a file into collections.
pub(crate) async fn run(args: &LoadArgs, session: Arc<dyn Session>, console: &mut Console) -> Result<Exit> {
    let mut request = LoadRequest {
        file: args.file.clone(),
        collections: args
            .collections
            .split(',')
            .map(|name| name.trim().to_owned())
            .collect(),
        csv: CsvOptions {
            null: args.null.clone(),
            delimiter: args.delimiter,
            escape: args.escape,
            map: args.map.clone(),
            blobs: args.blobs,
            time_format: args.time_format.clone(),
            time_zone: args.time_zone.clone(),
        },
        again: args.again,
        ignore_unknown: args.ignore_unknown,
        rejects: args.rejects.clone(),
        buffer_bytes: args.buffer_mib.map(|mib| mib << 20),
    };
    // `StdinFile` removes its temporary file when it is dropped, so keep it until the load ends.
    let mut received = None;
    if args.file.as_os_str() == STANDARD_INPUT {
        let Some(file) = StdinFile::receive(args.quiet, console).await? else {
            return stopped(console);
        };
        file.path().clone_into(&mut request.file);
        if request.rejects.is_none() {
            request.rejects = Some(file.default_rejects());
        }
        received = Some(file);
    }
    let name = match &received {
        Some(_) => "standard input".to_owned(),
        None => args.file.display().to_string(),
    };
    let loaded = load(session, request, args.quiet, console).await;
    let loaded = loaded.map_err(|failure| match &received {
        Some(file) => failure.renaming(&file.path().display().to_string(), &name),
        None => failure,
    });
    let Some((report, elapsed)) = loaded? else {
        return stopped(console);
    };
    if args.json {
        print_json(console, &report_json(&report, elapsed))?;
    } else {
        draw(&name, &report, elapsed, console)?;
    }
    let rejected = report
        .collections
        .iter()
        .any(|collection| collection.rows_rejected > 0);
    Ok(if rejected { Exit::Partly } else { Exit::Done })
}

fn stopped(console: &mut Console) -> Result<Exit> {
    let stopped = console.err_paint(Tone::Warning, "stopped;");
    console.note(format_args!(
        "{stopped} stored rows remain; run the same command again to continue"
    ))?;
    Ok(Exit::Interrupted)
}

/// Prints the result of the load as text.
pub(crate) fn draw(file: &str, report: &LoadReport, elapsed: Duration, console: &mut Console) -> Result<()> {
    let file = printable(file);
    let stored: u64 = report
        .collections
        .iter()
        .map(|collection| collection.rows_stored + collection.rows_replaced + collection.rows_repeated)
        .sum();
    let done = if stored == 0 && report.rejects.is_some() {
        console.paint(Tone::Bad, "✗")
    } else {
        console.paint(Tone::Good, "✓")
    };
    if report.already_loaded {
        console.line(format_args!(
            "{done} {file} was already loaded completely; nothing was done"
        ))?;
        console.line("  `recto load … --again` loads it again")?;
        draw_collections(report, console)?;
        return draw_rejects(report, console);
    }
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
            "  continued an earlier load, which stopped after {earlier}"
        ))?;
    }
    draw_collections(report, console)?;
    draw_rejects(report, console)
}

/// Prints the path of the file with the rejected rows, if there is one.
fn draw_rejects(report: &LoadReport, console: &mut Console) -> Result<()> {
    if let Some(rejects) = &report.rejects {
        let text = format!("rejected rows, with reasons: {}", rejects.display());
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
