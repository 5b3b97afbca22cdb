//! `recto views`, `recto verify` and `recto repair`: the views of a store.

use clap::Args;
use recto::Session;
use recto::session::{VerifiedView, VerifyReport, VerifyRequest, ViewStatus};
use serde_json::Value as Json;

use super::print_json;
use super::upkeep::OutputArgs;
use crate::console::{Console, Tone};
use crate::failure::{Exit, Result};
use crate::progress::Meter;
use crate::store::StoreArgs;
use crate::text::{counted, duration, printable, rows};

const VIEWS_EXAMPLES: &str = "\
Examples:
  recto views                  every view, with its state and its table
  recto views flights --json";

/// Arguments of `recto views`.
#[derive(Debug, Args)]
#[command(after_help = VIEWS_EXAMPLES)]
pub(crate) struct ViewsArgs {
    /// The collection; all if none is named
    #[arg(value_name = "COLLECTION")]
    collection: Option<String>,
    /// Print JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    pub(crate) store: StoreArgs,
}

const VERIFY_EXAMPLES: &str = "\
Examples:
  recto verify
  recto verify flights --json
  recto verify --rate 50000        leaves room for others

Records and views are read whole and compared. Nothing is changed. The exit code is 4 if a view is not as its records.";

const REPAIR_EXAMPLES: &str = "\
Examples:
  recto repair
  recto repair flights

What `recto verify` finds is mended, while others write: entries that are missing are put, those of no record deleted. \
The exit code is 4 if something could not be mended.";

/// Arguments of `recto verify`.
#[derive(Debug, Args)]
#[command(after_help = VERIFY_EXAMPLES)]
pub(crate) struct VerifyArgs {
    #[command(flatten)]
    pub(crate) which: ComparedArgs,
}

/// Arguments of `recto repair`.
#[derive(Debug, Args)]
#[command(after_help = REPAIR_EXAMPLES)]
pub(crate) struct RepairArgs {
    #[command(flatten)]
    pub(crate) which: ComparedArgs,
}

/// Which views are compared with their records.
#[derive(Debug, Args)]
pub(crate) struct ComparedArgs {
    /// The collections; all if none is named
    #[arg(value_name = "COLLECTION")]
    collections: Vec<String>,
    /// The most rows to read a second
    #[arg(long, value_name = "ROWS", value_parser = clap::value_parser!(u32).range(1..))]
    rate: Option<u32>,
    /// MiB of memory to compare in; with less, tables are read more often [default: 64]
    #[arg(long, value_name = "MIB", value_parser = clap::value_parser!(u64).range(1..=65_536))]
    memory_mib: Option<u64>,
    #[command(flatten)]
    output: OutputArgs,
    #[command(flatten)]
    pub(crate) store: StoreArgs,
}

/// Lists views.
pub(crate) async fn list(args: &ViewsArgs, session: &dyn Session, console: &mut Console) -> Result<Exit> {
    if let Some(name) = &args.collection {
        super::collection_of(&*session.schema().await?, name)?;
    }
    let mut views = session.tools()?.views().await?;
    views.retain(|view| {
        args.collection
            .as_ref()
            .is_none_or(|name| *name == view.collection)
    });
    if args.json {
        let views: Vec<Json> = views.iter().map(ViewStatus::to_json).collect();
        print_json(console, &views.into())?;
        return Ok(Exit::Done);
    }
    if views.is_empty() {
        console.line("There are no views: a schema declares them.")?;
    }
    for view in &views {
        draw_view(view, console)?;
    }
    Ok(Exit::Done)
}

fn draw_view(view: &ViewStatus, console: &mut Console) -> Result<()> {
    let tone = if view.state == "ready" {
        Tone::Good
    } else {
        Tone::Strong
    };
    let filled = match view.rows_filled {
        Some(filled) => format!("; {} filled in", rows(filled)),
        None => String::new(),
    };
    console.line(format_args!(
        "{}  {}{filled}",
        console.paint(
            Tone::Strong,
            &printable(&format!("{}.{}", view.collection, view.view))
        ),
        console.paint(tone, &printable(&view.state)),
    ))?;
    console.line(format_args!(
        "  {}, table {}",
        printable(&view.arrangement),
        printable(&view.table)
    ))?;
    Ok(())
}

/// Compares views with their records, and mends them if `repairs`.
pub(crate) async fn compare(
    args: &ComparedArgs,
    repairs: bool,
    session: &dyn Session,
    console: &mut Console,
) -> Result<Exit> {
    let request = VerifyRequest {
        collections: args.collections.clone(),
        repair: repairs,
        memory_bytes: args.memory_mib.map(|mib| mib << 20),
        rows_per_second: args.rate,
    };
    let meter = Meter::start(console, args.output.quiet);
    let report = session
        .tools()?
        .verify(&request, &|progress| meter.view(&progress))
        .await?;
    let elapsed = meter.elapsed();
    meter.finish();
    let left = if repairs { report.left() } else { report.wrong() };
    let exit = if left == 0 { Exit::Done } else { Exit::Partly };
    if args.output.json {
        print_json(console, &report.to_json())?;
        return Ok(exit);
    }
    for view in &report.views {
        draw_compared(view, repairs, console)?;
    }
    for line in &report.left_out {
        console.line(format_args!(
            "{} {}",
            console.paint(Tone::Dim, "left out:"),
            printable(line)
        ))?;
    }
    draw_end(&report, repairs, console)?;
    console.line(console.paint(Tone::Dim, &format!("in {}", duration(elapsed))))?;
    Ok(exit)
}

fn draw_compared(view: &VerifiedView, repairs: bool, console: &mut Console) -> Result<()> {
    let name = printable(&format!("{}.{}", view.collection, view.view));
    let compared = format!(
        "{}, {}",
        rows(view.records),
        counted(view.entries, "entry", "entries")
    );
    if view.wrong() == 0 {
        let good = console.paint(Tone::Good, "✓");
        console.line(format_args!("{good} {name}: {compared}; all is well"))?;
        return Ok(());
    }
    let parts = [
        (view.missing, "missing"),
        (view.orphan, "orphan"),
        (view.differing, "differing"),
    ];
    let mut parts: Vec<String> = parts
        .iter()
        .filter(|(count, _)| *count > 0)
        .map(|(count, what)| counted(*count, what, what))
        .collect();
    if repairs {
        parts.push(counted(view.mended, "mended", "mended"));
    }
    let bad = console.paint(Tone::Bad, "✗");
    console.line(format_args!("{bad} {name}: {compared}; {}", parts.join(", ")))?;
    for example in &view.examples {
        let outcome = match example.outcome.as_str() {
            "" => String::new(),
            outcome => format!(": {}", printable(outcome)),
        };
        let kind = printable(&example.kind);
        console.line(format_args!("  {kind} {}{outcome}", printable(&example.key)))?;
    }
    let more = view.wrong().saturating_sub(view.examples.len() as u64);
    if more > 0 {
        console.line(format_args!("  and {} more", crate::text::grouped(more)))?;
    }
    Ok(())
}

fn draw_end(report: &VerifyReport, repairs: bool, console: &mut Console) -> Result<()> {
    if report.views.is_empty() && report.left_out.is_empty() {
        console.line("There are no views to compare.")?;
    } else if !repairs && report.wrong() > 0 {
        console.line("Nothing was changed. `recto repair` mends it.")?;
    }
    Ok(())
}
