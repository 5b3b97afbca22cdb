//! `recto queue ring`: the tables in which bodies lie, and what all queues go by.

use std::time::Duration;

use clap::Args;
use recto::session::{QueueRing, Queues, RingSettings, RingTable};
use serde_json::json;

use super::time_seconds;
use crate::commands::print_json;
use crate::console::{Console, Tone};
use crate::failure::{Exit, Result};
use crate::store::StoreArgs;
use crate::table::Table;
use crate::text::{bytes, counted, duration, grouped};

const EXAMPLES: &str = "\
Examples:
  recto queue ring
  recto queue ring --json --store http://127.0.0.1:8080
  recto queue ring --slice 1h --tables 6 --store cassandra://127.0.0.1/shop
  recto queue ring --units 8

On Cassandra bodies lie in tables. What is sent goes to the one that is open, for a slice of time; then the next one is \
open, and the one before is emptied whole when nothing in it has been needed for the margin. So nothing is deleted row by \
row. Messages and bytes are those that were sent to the segments which a table has, done with or not, and bytes not of the store's files. \
An embedded store needs no such tables. Options that are not said stay as they are.";

/// Arguments of `recto queue ring`.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct RingArgs {
    /// For how long bodies go to one table from now on: 10s to 7d [default: 6h]
    #[arg(long, visible_alias = "slice-seconds", value_name = "TIME", value_parser = time_seconds)]
    slice: Option<u32>,
    /// For how long nothing in a table is needed before it is emptied: 1s to 24h [default: 5m]
    #[arg(long, visible_alias = "margin-seconds", value_name = "TIME", value_parser = time_seconds)]
    margin: Option<u32>,
    /// How many tables slices have: 2 to 48 [default: 4]
    #[arg(long, value_name = "NUMBER")]
    tables: Option<u32>,
    /// How many work units there may be at once: up to 46, and 48 with the tables of slices [default: 4]
    #[arg(long, value_name = "NUMBER")]
    units: Option<u32>,
    /// Print JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    pub(crate) store: StoreArgs,
}

impl RingArgs {
    /// What is to be changed.
    fn settings(&self) -> RingSettings {
        RingSettings {
            slice_seconds: self.slice,
            margin_seconds: self.margin,
            tables: self.tables,
            units: self.units,
        }
    }

    /// Whether nothing is changed.
    pub(super) fn only_looks(&self) -> bool {
        self.settings() == RingSettings::default()
    }
}

/// Shows the ring; changes it first, if something is said.
pub(crate) async fn run(args: &RingArgs, queues: &dyn Queues, console: &mut Console) -> Result<Exit> {
    let ring = if args.only_looks() {
        queues.ring().await?
    } else {
        queues.change_ring(&args.settings()).await?
    };
    if args.json {
        print_json(console, &json!(ring))?;
    } else {
        draw(&ring, console)?;
    }
    Ok(Exit::Done)
}

fn draw(ring: &QueueRing, console: &mut Console) -> Result<()> {
    let options = &ring.options;
    let units = counted(u64::from(options.units.unwrap_or(0)), "work unit", "work units");
    if !ring.needed {
        console.line("This store needs no ring of tables: bodies go with their messages.")?;
        console.line(format_args!("There may be {units} at once."))?;
        return Ok(());
    }
    for line in tables(ring, console) {
        console.line(line)?;
    }
    let time = |seconds: Option<u32>| duration(Duration::from_secs(seconds.unwrap_or(0).into()));
    let said = format!(
        "a slice is {}; a table is emptied when nothing in it was needed for {}; {} for slices, and {units} at most",
        time(options.slice_seconds),
        time(options.margin_seconds),
        counted(u64::from(options.tables.unwrap_or(0)), "table", "tables"),
    );
    let said = console.paint(Tone::Dim, &said);
    console.line(said)?;
    for line in progress(ring, console) {
        console.line(line)?;
    }
    Ok(())
}

/// Its tables, a line each.
pub(super) fn tables(ring: &QueueRing, console: &Console) -> Vec<String> {
    let columns = vec![
        ("table", true, cells(ring, |table| table.number.to_string())),
        ("phase", false, cells(ring, phase)),
        ("for", true, cells(ring, age)),
        ("segments", true, cells(ring, |table| grouped(table.segments))),
        (
            "messages",
            true,
            cells(ring, |table| at_least(table, grouped(table.messages))),
        ),
        (
            "bytes",
            true,
            cells(ring, |table| at_least(table, bytes(table.bytes))),
        ),
        (
            "work unit",
            false,
            cells(ring, |table| table.unit.clone().unwrap_or_default()),
        ),
    ];
    let lines = Table::of_columns(columns, console.width()).lines(console);
    lines.iter().map(|line| line.trim_end().to_owned()).collect()
}

/// How long its slice goes on, and what stands still.
pub(super) fn progress(ring: &QueueRing, console: &Console) -> Vec<String> {
    let mut lines = Vec::new();
    if let Some(left) = slice_left(ring) {
        let said = if left.is_zero() {
            "the slice is over".to_owned()
        } else {
            format!("the slice goes on for {}", duration(left))
        };
        lines.push(console.paint(Tone::Dim, &said));
    }
    if let Some(obstacle) = &ring.obstacle {
        let mark = console.paint(Tone::Warning, "!");
        lines.push(format!("{mark} stands still: {obstacle}"));
    }
    lines
}

/// How long it is until its slice is over; nothing if it is.
fn slice_left(ring: &QueueRing) -> Option<Duration> {
    let open = ring.tables.iter().find(|table| table.phase == "open")?;
    let passed = Duration::try_from_secs_f64(open.age_seconds?.round()).ok()?;
    let slice = Duration::from_secs(ring.options.slice_seconds?.into());
    Some(slice.saturating_sub(passed))
}

fn cells(ring: &QueueRing, text: impl Fn(&RingTable) -> String) -> Vec<String> {
    ring.tables.iter().map(text).collect()
}

/// How a table stands, with a sign that shows how full it may be.
fn phase(table: &RingTable) -> String {
    let sign = match table.phase.as_str() {
        "free" => "○",
        "open" => "●",
        "unit" => "◆",
        "retired" => "✗",
        _ => "◐",
    };
    format!("{sign} {}", table.phase)
}

/// How much refers to a table.
fn at_least(table: &RingTable, said: String) -> String {
    if table.exact { said } else { format!("≥ {said}") }
}

fn age(table: &RingTable) -> String {
    let age = table.age_seconds.map(Duration::try_from_secs_f64);
    age.and_then(std::result::Result::ok)
        .map(duration)
        .unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tables_are_drawn_with_what_stands_still() {
        let table = |number: u32, phase: &str, age: Option<f64>| RingTable {
            number,
            name: format!("recto_queue_body_{number}"),
            phase: phase.to_owned(),
            age_seconds: age,
            exact: true,
            ..RingTable::default()
        };
        let ring = QueueRing {
            needed: true,
            options: RingSettings {
                slice_seconds: Some(21_600),
                margin_seconds: Some(300),
                tables: Some(4),
                units: Some(1),
            },
            tables: vec![
                table(1, "free", None),
                RingTable {
                    segments: 3,
                    messages: 12_288,
                    bytes: 12_345_678,
                    ..table(2, "open", Some(125.4))
                },
                RingTable {
                    unit: Some("mails/night".to_owned()),
                    bytes: 1_200,
                    exact: false,
                    ..table(7, "unit", Some(30.0))
                },
                table(9, "retired", None),
            ],
            obstacle: Some("no table of bodies is free: the slice goes on".to_owned()),
        };
        let (mut console, screen) = Console::captured(100);
        draw(&ring, &mut console).unwrap_or_else(|failure| panic!("{failure:?}"));
        insta::assert_snapshot!(screen.out());
    }
}
