//! `recto queue tables`: shows the tables that store message bodies on Cassandra, and changes the
//! options that all queues share.

use std::time::Duration;

use clap::Args;
use recto::session::{QueueTable, QueueTableSettings, QueueTables, Queues};
use recto_api::display::time_seconds;
use serde_json::json;

use crate::commands::print_json;
use crate::console::{Console, Tone};
use crate::failure::{Exit, Result};
use crate::store::StoreArgs;
use crate::table::Table;
use crate::text::{bytes, counted, duration, grouped};

const EXAMPLES: &str = "\
Examples:
  recto queue tables
  recto queue tables --json --store http://127.0.0.1:8080
  recto queue tables --rotation 1h --tables 6 --store cassandra://127.0.0.1/shop
  recto queue tables --units 8

On Cassandra the bodies of messages are in tables that Recto fills in turn. New bodies go to the open table for the rotation \
interval. A table is truncated as a whole once no message has needed it for the grace period, so no row is deleted. Messages and bytes \
count what was sent to the table's segments, acknowledged messages too. An embedded store has no such tables. An option that you \
leave out keeps its value.";

/// Arguments of `recto queue tables`.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct TablesArgs {
    /// Rotation interval, for which new bodies go to one table: 10s to 7d [default: 6h]
    #[arg(long, visible_alias = "rotation-seconds", value_name = "TIME", value_parser = time_seconds)]
    rotation: Option<u32>,
    /// Grace period, for which no message needs a table before it is truncated: 1s to 24h [default: 5m]
    #[arg(long, visible_alias = "grace-seconds", value_name = "TIME", value_parser = time_seconds)]
    grace: Option<u32>,
    /// Number of tables that are filled in turn: 2 to 48 [default: 4]
    #[arg(long, value_name = "NUMBER")]
    tables: Option<u32>,
    /// Maximum number of work units at a time: up to 46, and 48 together with --tables [default: 4]
    #[arg(long, value_name = "NUMBER")]
    units: Option<u32>,
    /// Print JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    pub(crate) store: StoreArgs,
}

impl TablesArgs {
    /// Returns the table settings that the command line changes; others are `None`.
    fn settings(&self) -> QueueTableSettings {
        QueueTableSettings {
            rotation_seconds: self.rotation,
            grace_seconds: self.grace,
            tables: self.tables,
            units: self.units,
        }
    }

    /// Returns whether the command only shows the tables and changes nothing.
    pub(super) fn only_looks(&self) -> bool {
        self.settings() == QueueTableSettings::default()
    }
}

/// Runs `recto queue tables`: changes the given options, and then shows the tables.
pub(crate) async fn run(args: &TablesArgs, queues: &dyn Queues, console: &mut Console) -> Result<Exit> {
    let tables = if args.only_looks() {
        queues.tables().await?
    } else {
        queues.change_tables(&args.settings()).await?
    };
    if args.json {
        print_json(console, &json!(tables))?;
    } else {
        draw(&tables, console)?;
    }
    Ok(Exit::Done)
}

fn draw(tables: &QueueTables, console: &mut Console) -> Result<()> {
    let options = &tables.options;
    let units = counted(u64::from(options.units.unwrap_or(0)), "work unit", "work units");
    if !tables.needed {
        console.line("This store needs no queue tables: it keeps bodies with their messages.")?;
        console.line(format_args!("At most {units} can exist at the same time."))?;
        return Ok(());
    }
    for line in lines(tables, console) {
        console.line(line)?;
    }
    let time = |seconds: Option<u32>| duration(Duration::from_secs(seconds.unwrap_or(0).into()));
    let said = format!(
        "rotation interval {}; grace period {}; {} in rotation; at most {units}",
        time(options.rotation_seconds),
        time(options.grace_seconds),
        counted(u64::from(options.tables.unwrap_or(0)), "table", "tables"),
    );
    let said = console.paint(Tone::Dim, &said);
    console.line(said)?;
    for line in progress(tables, console) {
        console.line(line)?;
    }
    Ok(())
}

/// Returns the lines of a text table that describes the tables of message bodies.
pub(super) fn lines(tables: &QueueTables, console: &Console) -> Vec<String> {
    let columns = vec![
        ("table", true, cells(tables, |table| table.number.to_string())),
        ("phase", false, cells(tables, phase)),
        ("for", true, cells(tables, age)),
        ("segments", true, cells(tables, |table| grouped(table.segments))),
        (
            "messages",
            true,
            cells(tables, |table| at_least(table, grouped(table.messages))),
        ),
        (
            "bytes",
            true,
            cells(tables, |table| at_least(table, bytes(table.bytes))),
        ),
        (
            "work unit",
            false,
            cells(tables, |table| table.unit.clone().unwrap_or_default()),
        ),
    ];
    let lines = Table::of_columns(columns, console.width()).lines(console);
    lines.iter().map(|line| line.trim_end().to_owned()).collect()
}

/// Returns lines about the rotation of the tables of message bodies. They say when the next table
/// opens, and what prevents it, if anything.
pub(super) fn progress(tables: &QueueTables, console: &Console) -> Vec<String> {
    let mut lines = Vec::new();
    if let Some(left) = rotation_left(tables) {
        let said = if left.is_zero() {
            "the rotation interval is over".to_owned()
        } else {
            format!("the next table opens in {}", duration(left))
        };
        lines.push(console.paint(Tone::Dim, &said));
    }
    if let Some(obstacle) = &tables.obstacle {
        let mark = console.paint(Tone::Warning, "!");
        lines.push(format!("{mark} blocked: {obstacle}"));
    }
    lines
}

/// Returns the time until the next table opens; `None` if no table is open, or the reply lacks the
/// interval.
fn rotation_left(tables: &QueueTables) -> Option<Duration> {
    let open = tables.tables.iter().find(|table| table.phase == "open")?;
    let passed = Duration::try_from_secs_f64(open.age_seconds?.round()).ok()?;
    let interval = Duration::from_secs(tables.options.rotation_seconds?.into());
    Some(interval.saturating_sub(passed))
}

fn cells(tables: &QueueTables, text: impl Fn(&QueueTable) -> String) -> Vec<String> {
    tables.tables.iter().map(text).collect()
}

/// Returns a table's phase as text after a sign, for example `○` for a free table and `●` for an
/// open one.
fn phase(table: &QueueTable) -> String {
    let sign = match table.phase.as_str() {
        "free" => "○",
        "open" => "●",
        "unit" => "◆",
        "retired" => "✗",
        _ => "◐",
    };
    format!("{sign} {}", table.phase)
}

/// Adds `≥` before a number of messages or bytes of a table, if the number is not exact.
fn at_least(table: &QueueTable, said: String) -> String {
    if table.exact { said } else { format!("≥ {said}") }
}

fn age(table: &QueueTable) -> String {
    let age = table.age_seconds.map(Duration::try_from_secs_f64);
    age.and_then(std::result::Result::ok)
        .map(duration)
        .unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn draws_tables_and_what_blocks_them() {
        let table = |number: u32, phase: &str, age: Option<f64>| QueueTable {
            number,
            name: format!("recto_queue_body_{number}"),
            phase: phase.to_owned(),
            age_seconds: age,
            exact: true,
            ..QueueTable::default()
        };
        let tables = QueueTables {
            needed: true,
            options: QueueTableSettings {
                rotation_seconds: Some(21_600),
                grace_seconds: Some(300),
                tables: Some(4),
                units: Some(1),
            },
            tables: vec![
                table(1, "free", None),
                QueueTable {
                    segments: 3,
                    messages: 12_288,
                    bytes: 12_345_678,
                    ..table(2, "open", Some(125.4))
                },
                QueueTable {
                    unit: Some("mails/night".to_owned()),
                    bytes: 1_200,
                    exact: false,
                    ..table(7, "unit", Some(30.0))
                },
                table(9, "retired", None),
            ],
            obstacle: Some("no table of bodies is free".to_owned()),
        };
        let (mut console, screen) = Console::captured(100);
        draw(&tables, &mut console).unwrap_or_else(|failure| panic!("{failure:?}"));
        insta::assert_snapshot!(screen.out());
    }
}
