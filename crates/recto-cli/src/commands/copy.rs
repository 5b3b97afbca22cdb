//! `recto copy`: copies collections of one store into another.

use std::path::PathBuf;
use std::sync::Arc;

use clap::Args;
use recto::session::{CopiedCollection, CopyReport, CopyRequest, RecordSum};
use recto::{OpenOptions, Recto};

use super::upkeep::OutputArgs;
use super::{collection_of, print_json};
use crate::console::{Console, Tone};
use crate::failure::{Exit, Failure, Result};
use crate::progress::Meter;
use crate::stop::unless_stopped;
use crate::store::StoreArgs;
use crate::text::{counted, duration, grouped, printable, rows};

const EXAMPLES: &str = "\
Examples:
  recto copy --from shop --to cassandra://db1,db2/shop                copy a folder to Cassandra
  recto copy --from cassandra://db1/shop --to shop-2026 orders users  copy two collections to a folder
  recto copy --from shop --to cassandra://db1/shop --rate 20000       limit the load on the stores

Recto applies the schema to the other store, and builds its views and buckets there. It copies all records \
with their versions and their remaining times to live. ETags stay valid. Page tokens stay valid if the \
other store has no other collections; tokens of scans do not. Queues are not copied. At the end, Recto \
reads, counts and compares both stores.

Stop all writes to both stores during the copy. A record that is written to the first store meanwhile may \
or may not be copied; the comparison reports differences. The other store must have no records of these \
collections. To continue an interrupted copy, run the same command again.

RECTO_CASSANDRA_… applies to both stores. Put parameters that differ into the addresses or into the two \
files.";

/// Arguments of `recto copy`.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct CopyArgs {
    #[arg(
        long,
        value_name = "STORE",
        help = "Store to copy from: a folder, or cassandra://host/keyspace"
    )]
    from: String,
    /// Store to copy to, which is created if it does not exist
    #[arg(long, value_name = "STORE")]
    to: String,
    /// Names of the collections [default: all]
    #[arg(value_name = "COLLECTION")]
    collections: Vec<String>,
    /// TOML file with parameters of the --from store
    #[arg(long, value_name = "FILE")]
    from_config: Option<PathBuf>,
    /// TOML file with parameters of the --to store
    #[arg(long, value_name = "FILE")]
    to_config: Option<PathBuf>,
    /// Maximum number of rows to read per second [default: no limit]
    #[arg(long, value_name = "ROWS", value_parser = clap::value_parser!(u32).range(1..))]
    rate: Option<u32>,
    #[command(flatten)]
    output: OutputArgs,
}

/// Runs `recto copy`: copies collections to another store.
pub(crate) async fn run(args: &CopyArgs, console: &mut Console) -> Result<Exit> {
    let store = |store: &String, config: &Option<PathBuf>| StoreArgs {
        store: Some(store.clone()),
        store_config: config.clone(),
        wait: None,
    };
    let source = store(&args.from, &args.from_config);
    let source = source.open_itself(OpenOptions::new().read_only()).await?;
    // Check the names of the collections before the target is opened: a wrong name must not create
    // the target store.
    for name in &args.collections {
        collection_of(&source.schema(), name)?;
    }
    let target = store(&args.to, &args.to_config);
    let target = target.open_itself(OpenOptions::new().create()).await?;
    let request = CopyRequest {
        collections: args.collections.clone(),
        rows_per_second: args.rate,
    };
    copy(source, target, request, args.output, console).await
}

async fn copy(
    source: Recto,
    target: Recto,
    request: CopyRequest,
    output: OutputArgs,
    console: &mut Console,
) -> Result<Exit> {
    console.flush()?;
    let meter = Arc::new(Meter::start(console, output.quiet));
    let (shown, to) = (Arc::clone(&meter), target.describe());
    let outcome = unless_stopped(async move {
        source
            .copy_to(&target, &request, &|progress| shown.copy(&progress))
            .await
    })
    .await;
    let elapsed = meter.elapsed();
    meter.finish();
    let report = match outcome {
        Some(Ok(report)) => report?,
        Some(Err(error)) => {
            return Err(
                Failure::new(Exit::Failed, format!("the copy stopped unexpectedly: {error}"))
                    .with_hint("run the same command again to continue, and report this defect of Recto"),
            );
        }
        None => {
            let stopped = console.err_paint(Tone::Warning, "stopped;");
            console.note(format_args!(
                "{stopped} copied records remain; run the same command again to continue"
            ))?;
            return Ok(Exit::Interrupted);
        }
    };
    if output.json {
        print_json(console, &report.to_json())?;
    } else {
        draw(&report, &to, &duration(elapsed), console)?;
    }
    if report.is_equal() {
        return Ok(Exit::Done);
    }
    console.flush()?;
    Err(differ(&report))
}

/// Prints the result of a copy as text.
fn draw(report: &CopyReport, to: &str, took: &str, console: &mut Console) -> Result<()> {
    let read: u64 = report.collections.iter().map(|one| one.rows_read).sum();
    let resumed: u64 = report.collections.iter().map(|one| one.rows_resumed).sum();
    let done = if report.is_equal() {
        console.paint(Tone::Good, "✓")
    } else {
        console.paint(Tone::Bad, "✗")
    };
    console.line(format_args!(
        "{done} {} copied to {} in {took}",
        rows(read),
        printable(to)
    ))?;
    if resumed > 0 {
        console.line(format_args!(
            "  continued an earlier copy, which stopped after {}",
            rows(resumed)
        ))?;
    }
    for one in &report.collections {
        draw_collection(one, console)?;
    }
    if !report.cursors_go_on {
        let line = "page tokens of one store are not valid in the other, because each store has its own keys";
        console.line(format_args!("  {} {line}", console.paint(Tone::Dim, "note:")))?;
    }
    for misfits in &report.misfits {
        let note = console.paint(Tone::Warning, "missing from a view:");
        console.line(format_args!("  {note} {}", printable(&misfits.to_string())))?;
    }
    for line in &report.left_out {
        let note = console.paint(Tone::Dim, "note:");
        console.line(format_args!("  {note} {}", printable(line)))?;
    }
    Ok(())
}

fn draw_collection(one: &CopiedCollection, console: &mut Console) -> Result<()> {
    let name = printable(&one.name);
    if one.is_equal() {
        let sum = said(&one.target);
        return Ok(console.line(format_args!("  {name}  {sum}, in both"))?);
    }
    let name = console.paint(Tone::Bad, &name);
    console.line(format_args!("  {name}  the stores differ"))?;
    console.line(format_args!("    from  {}", said(&one.source)))?;
    console.line(format_args!("    to    {}", said(&one.target)))?;
    Ok(())
}

/// Returns a checksum of records as text, such as
/// `120,000 records, digest 00ff…, and 3 with a time to live, not compared`.
fn said(sum: &RecordSum) -> String {
    let records = counted(sum.records, "record", "records");
    let ending = match sum.ending {
        0 => String::new(),
        ending => format!(", and {} with a time to live, not compared", grouped(ending)),
    };
    format!("{records}, digest {:032x}{ending}", sum.digest)
}

#[cold]
fn differ(report: &CopyReport) -> Failure {
    let those = report.collections.iter().filter(|one| !one.is_equal());
    let those: Vec<String> = those.map(|one| printable(&one.name)).collect();
    Failure::new(
        Exit::Failed,
        format!("the stores have different records in {}", those.join(", ")),
    )
    .with_hint(
        "if a process wrote to one of the stores meanwhile, stop all writes, remove these collections from \
         the other store (recto apply --remove COLLECTION), and copy them again",
    )
}
