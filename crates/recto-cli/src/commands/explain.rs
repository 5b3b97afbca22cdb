//! `recto explain`: how a page is found and what it costs.

use std::time::Duration;

use clap::Args;
use recto::Session;
use recto::session::{Explanation, PageCost};
use serde_json::{Value as Json, json};

use super::page::QueryArgs;
use super::print_json;
use crate::console::{Console, Tone};
use crate::failure::{Exit, Result};
use crate::store::StoreArgs;
use crate::text::{bytes, counted, duration, printable, printable_lines, rows};

/// The most sources that are drawn; a merge may have 128.
const MAX_SOURCES_DRAWN: usize = 8;

const EXAMPLES: &str = "\
Examples:
  recto explain flights_by_carrier --filter 'carrier = \"UA\"' --order-by 'time_hour'
  recto explain flights_by_carrier --filter 'carrier = \"UA\"' --plan-only --json

The page is read once, to say what it did cost, unless --plan-only.";

/// Arguments of `recto explain`.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct ExplainArgs {
    #[command(flatten)]
    pub(crate) query: QueryArgs,
    /// Do not read the page: say what is expected, not what it did cost
    #[arg(long)]
    pub(crate) plan_only: bool,
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
    #[command(flatten)]
    pub(crate) store: StoreArgs,
}

/// Shows how a page is found.
pub(crate) async fn run(args: &ExplainArgs, session: &dyn Session, console: &mut Console) -> Result<Exit> {
    let request = args.query.request();
    let explained = session
        .explain(&args.query.collection, &request, !args.plan_only)
        .await;
    let explained = explained.map_err(|error| args.query.failure(error))?;
    if args.json {
        print_json(console, &explanation_json(&explained))?;
    } else {
        draw(&args.query.collection, &explained, console)?;
    }
    Ok(Exit::Done)
}

fn draw(collection: &str, explained: &Explanation, console: &mut Console) -> Result<()> {
    let title = console.paint(Tone::Strong, &printable(collection));
    console.line(format_args!(
        "{title}  {}",
        console.paint(Tone::Hint, &printable(&explained.shape))
    ))?;
    console.line("")?;
    row(console, "arrangement", &explained.arrangement)?;
    row(console, "order", &explained.order)?;
    if !explained.table.is_empty() {
        let direction = match explained.direction.as_str() {
            "" => String::new(),
            direction => format!(", read {direction} its clustering order"),
        };
        row(console, "table", &format!("{}{direction}", explained.table))?;
    }
    draw_sources(explained, console)?;
    for (index, residual) in explained.residual.iter().enumerate() {
        row(console, if index == 0 { "row by row" } else { "" }, residual)?;
    }
    let trips = counted(explained.expected_round_trips.into(), "round trip", "round trips");
    row(
        console,
        "expected",
        &format!("at most {}, {trips}", rows(explained.expected_rows)),
    )?;
    if let Some(actual) = &explained.actual {
        row(
            console,
            "actual",
            &actual_text(actual, explained.actual_rows_returned),
        )?;
    }
    if !explained.rejected.is_empty() {
        console.line("")?;
        console.line(console.paint(Tone::Strong, "Not taken"))?;
        for (arrangement, reason) in &explained.rejected {
            let reason = console.paint(Tone::Dim, &printable(reason));
            console.line(format_args!("  {}: {reason}", printable(arrangement)))?;
        }
    }
    Ok(())
}

fn draw_sources(explained: &Explanation, console: &mut Console) -> Result<()> {
    let count = explained.sources.len();
    let shown = count.min(MAX_SOURCES_DRAWN);
    row(console, "sources", &crate::text::grouped(count as u64))?;
    for (index, source) in explained.sources.iter().take(shown).enumerate() {
        let is_last = index + 1 == count;
        let (branch, trunk) = if is_last {
            ("└─", "  ")
        } else {
            ("├─", "│ ")
        };
        let mut lines = vec![format!("{branch} {}", printable(&source.partition))];
        if !source.bounds.is_empty() {
            lines.push(format!("{trunk}   {}", printable(&source.bounds)));
        }
        for request in &source.requests {
            for line in printable_lines(request).lines() {
                lines.push(format!("{trunk}   {}", console.paint(Tone::Dim, line)));
            }
        }
        for line in lines {
            console.line(format_args!("    {line}"))?;
        }
    }
    if count > shown {
        console.line(format_args!(
            "    └─ and {} more; --json lists all",
            count - shown
        ))?;
    }
    Ok(())
}

fn row(console: &mut Console, name: &str, text: &str) -> Result<()> {
    let name = console.paint(Tone::Dim, &format!("{name:<12}"));
    console.line(format_args!("  {name} {}", printable(text)))?;
    Ok(())
}

fn actual_text(actual: &PageCost, returned: Option<u64>) -> String {
    let mut parts = vec![format!(
        "{} read ({})",
        rows(actual.rows_read),
        bytes(actual.bytes_read)
    )];
    parts.extend(returned.map(|returned| format!("{} returned", crate::text::grouped(returned))));
    parts.push(counted(actual.round_trips.into(), "round trip", "round trips"));
    parts.push(counted(actual.statements.into(), "request", "requests"));
    if actual.tombstones > 0 {
        parts.push(counted(actual.tombstones, "tombstone", "tombstones"));
    }
    parts.push(duration(Duration::from_micros(actual.time_micros)));
    parts.join(", ")
}

fn explanation_json(explained: &Explanation) -> Json {
    let sources: Vec<Json> = explained
        .sources
        .iter()
        .map(|source| json!({ "partition": source.partition, "bounds": source.bounds, "requests": source.requests }))
        .collect();
    let rejected: Vec<Json> = explained
        .rejected
        .iter()
        .map(|(arrangement, reason)| json!({ "arrangement": arrangement, "reason": reason }))
        .collect();
    let mut document = json!({
        "shape": explained.shape,
        "arrangement": explained.arrangement,
        "table": explained.table,
        "order": explained.order,
        "direction": explained.direction,
        "sources": sources,
        "residual": explained.residual,
        "expected_rows": explained.expected_rows,
        "expected_round_trips": explained.expected_round_trips,
        "rejected": rejected,
    });
    if let (Json::Object(document), Some(actual)) = (&mut document, &explained.actual) {
        let actual = json!({
            "rows_read": actual.rows_read,
            "rows_returned": explained.actual_rows_returned,
            "bytes_read": actual.bytes_read,
            "round_trips": actual.round_trips,
            "statements": actual.statements,
            "tombstones": actual.tombstones,
            "time_micros": actual.time_micros,
        });
        document.insert("actual".into(), actual);
    }
    document
}
