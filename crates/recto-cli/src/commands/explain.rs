//! `recto explain`: shows the plan and the cost of a page.

use clap::Args;
use recto::Session;
use recto::session::Explanation;
use serde_json::json;

use super::page::QueryArgs;
use super::print_json;
use crate::console::{Console, Tone};
use crate::failure::{Exit, Result};
use crate::store::StoreArgs;
use crate::text::{printable, printable_lines};

/// Maximum number of sources (key ranges) of a merge that are printed. A merge can have 128.
const MAX_SOURCES_DRAWN: usize = 8;

const EXAMPLES: &str = "\
Examples:
  recto explain flights --filter 'carrier = \"UA\"' --order-by 'time_hour'
  recto explain flights --filter 'carrier = \"UA\"' --plan-only --json

Recto reads the page once to measure its cost, unless --plan-only is given.";

/// Arguments of `recto explain`.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct ExplainArgs {
    #[command(flatten)]
    pub(crate) query: QueryArgs,
    /// Show only the expected cost, and do not read the page
    #[arg(long)]
    pub(crate) plan_only: bool,
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
    #[command(flatten)]
    pub(crate) store: StoreArgs,
}

/// Runs `recto explain`: shows the query plan and the cost of a page.
pub(crate) async fn run(args: &ExplainArgs, session: &dyn Session, console: &mut Console) -> Result<Exit> {
    let explained = session
        .explain(&args.query.collection, &args.query.request, !args.plan_only)
        .await;
    let explained = explained.map_err(|error| args.query.failure(error))?;
    if args.json {
        print_json(console, &json!(explained))?;
    } else {
        draw(&args.query.collection, &explained, console)?;
    }
    Ok(Exit::Done)
}

fn draw(collection: &str, explained: &Explanation, console: &mut Console) -> Result<()> {
    let title = console.paint(Tone::Strong, &printable(collection));
    console.line(format_args!(
        "{title}  {}",
        console.paint(Tone::Hint, &explained.shape.to_string())
    ))?;
    console.line("")?;
    named(console, &explained.facts())?;
    draw_sources(explained, console)?;
    named(console, &explained.costs())?;
    if !explained.rejected.is_empty() {
        console.line("")?;
        console.line(console.paint(Tone::Strong, "Not used"))?;
        for rejected in &explained.rejected {
            let reason = console.paint(Tone::Dim, &printable(&rejected.reason));
            console.line(format_args!("  {}: {reason}", printable(&rejected.sort_order)))?;
        }
    }
    Ok(())
}

/// Prints lines of text after their labels. A label that equals the label above is not repeated.
fn named(console: &mut Console, lines: &[(&str, String)]) -> Result<()> {
    let mut before = "";
    for (name, text) in lines {
        row(console, if *name == before { "" } else { name }, text)?;
        before = name;
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
        let mut lines = vec![format!("{branch} {}", printable(&source.place()))];
        if !source.bounds.is_empty() {
            lines.push(format!("{trunk}   {}", printable(&source.bounds)));
        }
        for request in &source.requests {
            for line in printable_lines(request).lines() {
                lines.push(format!("{trunk}   {}", console.paint(Tone::Dim, line)));
            }
        }
        if let Some(buckets) = source.buckets_text() {
            lines.push(format!("{trunk}   read: {buckets}"));
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
