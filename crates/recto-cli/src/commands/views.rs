//! `recto views`, `recto verify` and `recto repair`: list the views of a store, and compare them with the
//! records.

mod checked;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use clap::Args;
use recto::session::{VerifiedView, VerifyReport, VerifyRequest, ViewProgress, ViewStatus};
use recto::{ErrorKind, Session};
use serde_json::Value as Json;

use super::print_json;
use super::upkeep::OutputArgs;
use crate::checkpoint::Checkpoint;
use crate::console::{Console, Tone};
use crate::failure::{Exit, Failure, Result};
use crate::progress::Meter;
use crate::stop::unless_stopped;
use crate::store::StoreArgs;
use crate::text::{counted, duration, printable, rows};

const VIEWS_EXAMPLES: &str = "\
Examples:
  recto views                  list every view, with its state and its table
  recto views flights --json";

/// Arguments of `recto views`.
#[derive(Debug, Args)]
#[command(after_help = VIEWS_EXAMPLES)]
pub(crate) struct ViewsArgs {
    /// Name of the collection [default: all]
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
  recto verify --rate 50000                  limit the load on the store
  recto verify --checkpoint verify.place     continue an interrupted run of the same command

The command first checks buckets: whether each row is where the range map says, and whether range maps and \
samples are complete. Then it reads all records and views, and compares them, two views at a time. It \
changes nothing. The exit code is 4 if something is wrong. Records that do not fit a view are counted. They \
are wrong if the store has not recorded that the view lacks them.";

const REPAIR_EXAMPLES: &str = "\
Examples:
  recto repair
  recto repair flights
  recto repair --checkpoint repair.place     continue an interrupted run of the same command

The command repairs the problems that `recto verify` finds, while others write. It adds missing entries, \
and deletes entries without a record. It moves misplaced rows to their buckets, and rebuilds range maps and \
samples. It records the number of records that do not fit a view. The exit code is 4 if something could not \
be repaired.";

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

/// Views to compare with their records.
#[derive(Debug, Args)]
pub(crate) struct ComparedArgs {
    /// Names of the collections [default: all]
    #[arg(value_name = "COLLECTION")]
    collections: Vec<String>,
    /// Maximum number of rows to read per second [default: no limit]
    #[arg(long, value_name = "ROWS", value_parser = clap::value_parser!(u32).range(1..))]
    rate: Option<u32>,
    /// Memory for comparing all views, in MiB: 1 to 65536. With less memory, tables are read more often
    /// [default: 64]
    #[arg(long, value_name = "MIB", value_parser = clap::value_parser!(u64).range(1..=65_536))]
    memory_mib: Option<u64>,
    /// File for the progress. If it exists, the command continues from it. At the end, the command removes it
    #[arg(long, value_name = "FILE")]
    checkpoint: Option<PathBuf>,
    #[command(flatten)]
    output: OutputArgs,
    #[command(flatten)]
    pub(crate) store: StoreArgs,
}

/// Runs `recto views`: lists the views of a store with their states.
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
        let views: Vec<Json> = views.iter().map(|view| serde_json::json!(view)).collect();
        print_json(console, &views.into())?;
        return Ok(Exit::Done);
    }
    if views.is_empty() {
        console.line("There are no views. Declare views in the schema.")?;
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
    if view.misfits.total() > 0 {
        let lacks = format!("lacks {}", view.misfits);
        console.line(format_args!("  {}", console.paint(Tone::Warning, &lacks)))?;
    }
    let collations = view.collate.iter();
    let collations = collations.map(|(field, locale)| format!(", {field} as in {locale}"));
    console.line(format_args!(
        "  {}{}, table {}",
        printable(&view.sort_order),
        printable(&collations.collect::<String>()),
        printable(&view.table)
    ))?;
    Ok(())
}

/// Runs `recto verify`, or `recto repair` if `repairs` is true: compares views with their records.
pub(crate) async fn compare(
    args: &ComparedArgs,
    repairs: bool,
    session: Arc<dyn Session>,
    console: &mut Console,
) -> Result<Exit> {
    let checkpoint = args.checkpoint.as_deref().map(Checkpoint::open).transpose()?;
    let checkpoint = checkpoint.map(Arc::new);
    let request = VerifyRequest {
        collections: args.collections.clone(),
        repair: repairs,
        memory_bytes: args.memory_mib.map(|mib| mib << 20),
        rows_per_second: args.rate,
        resume: checkpoint.as_ref().and_then(|checkpoint| checkpoint.token()),
    };
    let meter = Arc::new(Meter::start(console, args.output.quiet));
    let (shown, keeps) = (Arc::clone(&meter), checkpoint.clone());
    let outcome = unless_stopped(async move {
        let told = |progress: ViewProgress| {
            shown.view(&progress);
            if let (Some(checkpoint), Some(resume)) = (&keeps, &progress.resume) {
                checkpoint.keep(resume);
            }
        };
        session.tools()?.verify(&request, &told).await
    })
    .await;
    let elapsed = meter.elapsed();
    meter.finish();
    let report = match outcome {
        Some(Ok(report)) => report.map_err(|error| not_compared(error, args))?,
        Some(Err(error)) => {
            let message = format!("the comparison stopped unexpectedly: {error}");
            return Err(Failure::new(Exit::Failed, message).with_hint("report this defect of Recto"));
        }
        None => return stopped(checkpoint.as_deref(), console),
    };
    if let Some(checkpoint) = &checkpoint {
        checkpoint.remove()?;
    }
    told(args, repairs, &report, elapsed, console)
}

/// Converts the error of a comparison of views. If the checkpoint file belongs to another
/// comparison, the hint says to remove the file.
fn not_compared(error: recto::Error, args: &ComparedArgs) -> Failure {
    match &args.checkpoint {
        Some(path) if error.kind() == ErrorKind::InvalidCursor => {
            let hint = format!("remove {} to start from the beginning", path.display());
            Failure::from(error).with_hint(hint)
        }
        _ => Failure::from(error),
    }
}

fn stopped(checkpoint: Option<&Checkpoint>, console: &mut Console) -> Result<Exit> {
    let stopped = console.err_paint(Tone::Warning, "stopped;");
    let how = match checkpoint {
        Some(checkpoint) if checkpoint.is_kept()? => "run the same command again to continue",
        Some(_) => "no progress was saved yet: the same command starts from the beginning",
        None => "use --checkpoint FILE to make the command resumable",
    };
    console.note(format_args!("{stopped} {how}"))?;
    Ok(Exit::Interrupted)
}

/// Prints the result of a comparison of views with records, and returns the exit code.
fn told(
    args: &ComparedArgs,
    repairs: bool,
    report: &VerifyReport,
    elapsed: Duration,
    console: &mut Console,
) -> Result<Exit> {
    let left = if repairs { report.left() } else { report.wrong() };
    let exit = if left == 0 { Exit::Done } else { Exit::Partly };
    if args.output.json {
        print_json(console, &report.to_json())?;
        return Ok(exit);
    }
    for buckets in &report.buckets {
        checked::draw(buckets, repairs, console)?;
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
    draw_end(report, repairs, console)?;
    console.line(console.paint(Tone::Dim, &format!("in {}", duration(elapsed))))?;
    Ok(exit)
}

fn compared_text(view: &VerifiedView) -> String {
    let entries = counted(view.entries, "entry", "entries");
    let text = format!("{}, {entries}", rows(view.records));
    if view.wrong() > 0 || view.entries <= view.records {
        return text;
    }
    // Explain why a view can have more entries than records, because users could take it for an
    // error.
    format!("{text} (entries of expired rows stay for up to an hour)")
}

fn draw_compared(view: &VerifiedView, repairs: bool, console: &mut Console) -> Result<()> {
    let name = printable(&format!("{}.{}", view.collection, view.view));
    let compared = compared_text(view);
    if view.wrong() == 0 && view.misfits.total() == 0 {
        let good = console.paint(Tone::Good, "✓");
        console.line(format_args!("{good} {name}: {compared}; all is well"))?;
        return Ok(());
    }
    let is_known = view.wrong() == 0 && view.unrecorded_misfits() == 0;
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
    if repairs && view.wrong() > 0 {
        parts.push(counted(view.repaired, "repaired", "repaired"));
    }
    if view.misfits.total() > 0 {
        parts.push(format!("lacks {}", view.misfits));
    }
    let mark = if is_known {
        console.paint(Tone::Warning, "!")
    } else {
        console.paint(Tone::Bad, "✗")
    };
    console.line(format_args!("{mark} {name}: {compared}; {}", parts.join(", ")))?;
    for example in &view.examples {
        let outcome = match example.outcome.as_str() {
            "" => String::new(),
            outcome => format!(": {}", printable(outcome)),
        };
        let kind = printable(&example.kind);
        console.line(format_args!("  {kind} {}{outcome}", printable(&example.key)))?;
    }
    let all = view.wrong() + view.misfits.total();
    let more = all.saturating_sub(view.examples.len() as u64);
    if more > 0 {
        console.line(format_args!("  and {} more", crate::text::grouped(more)))?;
    }
    Ok(())
}

/// Returns the number of misfits (records that a view cannot contain) that the comparison found and
/// that the store has not recorded.
fn unrecorded(report: &VerifyReport) -> u64 {
    report.views.iter().map(VerifiedView::unrecorded_misfits).sum()
}

fn draw_end(report: &VerifyReport, repairs: bool, console: &mut Console) -> Result<()> {
    if report.views.is_empty() && report.buckets.is_empty() && report.left_out.is_empty() {
        console.line("There are no views to compare.")?;
    } else if !repairs && report.wrong() > unrecorded(report) {
        let examples = report.views.iter().flat_map(|view| &view.examples);
        let mut examples = examples.filter(|example| example.kind != "misfit");
        let what = if examples.all(|example| example.outcome.is_empty()) {
            "these problems"
        } else {
            "the other problems"
        };
        console.line(format_args!(
            "Nothing was changed. `recto repair` repairs {what}."
        ))?;
    }
    if report.views.iter().any(|view| view.misfits.total() > 0) {
        let records = if unrecorded(report) > 0 {
            ", or record them with `recto repair`, so that queries report them"
        } else {
            ""
        };
        console.line(format_args!(
            "No page of these views shows the records that do not fit: change them{records}."
        ))?;
    }
    if let Some(seconds) = report.begun_seconds_ago {
        let ago = duration(Duration::from_secs(seconds));
        console.line(format_args!(
            "This run continued an interrupted run, which began {ago} ago. Findings of that run may be \
             outdated."
        ))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn explains_entries_of_expired_rows() {
        let view = VerifiedView {
            records: 100,
            entries: 120,
            ..VerifiedView::default()
        };
        let text = compared_text(&view);
        assert!(
            text.starts_with("100 rows, 120 entries (entries of expired"),
            "{text}"
        );
        let orphans = VerifiedView { orphan: 20, ..view };
        assert_eq!(compared_text(&orphans), "100 rows, 120 entries");
    }
}
