//! Loading of a file with progress output, and the text of its result.

use std::sync::Arc;
use std::time::Duration;

use recto::Session;
use recto::session::{LoadReport, LoadRequest, LoadedView};

use crate::console::{Console, Tone};
use crate::failure::{Exit, Failure, Result};
use crate::progress::Meter;
use crate::stop::unless_stopped;
use crate::text::{grouped, printable};

/// Maximum number of reasons for rejected rows that are printed for each collection.
const MAX_REASONS_DRAWN: usize = 5;

/// Loads a file and shows the progress. Returns the report and the elapsed time, or `None` if the
/// process got a signal to stop.
pub(crate) async fn load(
    session: Arc<dyn Session>,
    request: LoadRequest,
    quiet: bool,
    console: &mut Console,
) -> Result<Option<(LoadReport, Duration)>> {
    console.flush()?;
    let meter = Arc::new(Meter::start(console, quiet));
    let shown = Arc::clone(&meter);
    let outcome = unless_stopped(async move {
        let tools = session.tools()?;
        tools.load(&request, &|progress| shown.load(progress)).await
    })
    .await;
    let elapsed = meter.elapsed();
    meter.finish();
    match outcome {
        None => Ok(None),
        Some(Ok(report)) => Ok(Some((report?, elapsed))),
        Some(Err(error)) => Err(Failure::new(
            Exit::Failed,
            format!("the load stopped unexpectedly: {error}"),
        )
        .with_hint("run the same command again to continue, and report this defect of Recto")),
    }
}

/// Prints, for each collection, the numbers of stored and rejected rows, then the reasons of
/// rejections.
pub(crate) fn draw_collections(report: &LoadReport, console: &mut Console) -> Result<()> {
    let name_width = report
        .collections
        .iter()
        .map(|collection| collection.name.len())
        .max()
        .unwrap_or(0);
    let stored = |rows: u64| grouped(rows).len();
    let width = report
        .collections
        .iter()
        .map(|collection| stored(collection.rows_stored))
        .max()
        .unwrap_or(0);
    for collection in &report.collections {
        let mut line = format!(
            "  {:name_width$}  {:>width$} stored",
            collection.name,
            grouped(collection.rows_stored)
        );
        for (rows, became) in [
            (collection.rows_replaced, "replaced"),
            (collection.rows_repeated, "repeated"),
        ] {
            if rows > 0 {
                line.push_str(&format!("   {} {became}", grouped(rows)));
            }
        }
        if collection.rows_rejected > 0 {
            let rejected = format!("   {} rejected", grouped(collection.rows_rejected));
            line.push_str(&console.paint(Tone::Warning, &rejected));
        }
        console.line(line)?;
        for (reason, count) in collection.reasons.iter().take(MAX_REASONS_DRAWN) {
            let reason = console.paint(Tone::Dim, &printable(reason));
            console.line(format_args!("    {:>8}  {reason}", grouped(*count)))?;
        }
        let more = collection.reasons.len().saturating_sub(MAX_REASONS_DRAWN);
        if more > 0 {
            console.line(console.paint(Tone::Dim, &format!("              and {more} more reasons")))?;
        }
        draw_views(&collection.views, console)?;
    }
    Ok(())
}

/// Prints a line for each view: the number of entries (rows of the view) that the load wrote.
fn draw_views(views: &[LoadedView], console: &mut Console) -> Result<()> {
    for view in views {
        let mut line = format!("    {:>8}  in {}", grouped(view.entries), view.name);
        if view.left_out > 0 {
            line.push_str(&format!(
                "   {} left out, because a field is null",
                grouped(view.left_out)
            ));
        }
        console.line(console.paint(Tone::Dim, &line))?;
    }
    Ok(())
}
