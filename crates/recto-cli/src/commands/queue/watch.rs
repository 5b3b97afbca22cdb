//! `recto queue watch`: prints the numbers and rates of messages every second.

use std::time::Duration;

use clap::Args;
use crossterm::cursor::MoveToPreviousLine;
use crossterm::terminal::{Clear, ClearType};
use recto::session::{QueueStatus, QueueTables, QueueTotals, Queues};
use recto::{Environment, Error, ErrorKind};
use serde_json::{Value as Json, json};
use tokio::time::{MissedTickBehavior, interval};

use super::status::amounts;
use super::tables;
use crate::console::{Console, Tone};
use crate::failure::{Exit, Failure, Result};
use crate::stop::Stop;
use crate::store::StoreArgs;
use crate::table::Table;
use crate::text::{duration, grouped};

/// Interval between two reads of the numbers of messages.
const PAUSE: Duration = Duration::from_secs(1);
/// Number of terminal lines that show no queue: the header of the table, and the lines below the
/// table.
const OTHER_LINES: usize = 5;

const EXAMPLES: &str = "\
Examples:
  recto queue watch --store http://127.0.0.1:8080
  recto queue watch mails --count 10
  recto queue watch --json                           print a line of JSON each second

The command runs until Ctrl-C. Below the queues, it shows the tables of message bodies, if the store has \
them and the token may read all queues. Rates come from the process that has the store open. If this \
command itself opens an embedded store, its rates are 0: watch a server instead. If a server does not \
answer, the command asks again.";

/// Arguments of `recto queue watch`.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct WatchArgs {
    /// Name of the queue [default: all queues]
    #[arg(value_name = "NAME")]
    name: Option<String>,
    /// Number of times to print [default: until Ctrl-C]
    #[arg(long, value_name = "NUMBER", value_parser = clap::value_parser!(u64).range(1..))]
    count: Option<u64>,
    /// Print a line of JSON each second
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    pub(crate) store: StoreArgs,
}

/// Snapshot of all queues with their numbers of messages, read at one time.
struct Look {
    /// Time from the start of the command to the read.
    passed: Duration,
    all: Vec<QueueStatus>,
    /// Tables of message bodies; `None` if the store has none, or the access token may not read
    /// them.
    tables: Option<QueueTables>,
}

/// Rates of one queue, in messages per second, by operation.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Rates {
    sent: f64,
    received: f64,
    acked: f64,
    given_back: f64,
    dead_lettered: f64,
}

impl Rates {
    /// Returns the rates between two reads of a queue's counters. Returns `None` if a counter fell,
    /// because the process that counts was restarted.
    #[allow(clippy::cast_precision_loss)] // the values are only for display
    fn between(before: &QueueTotals, now: &QueueTotals, passed: Duration) -> Option<Self> {
        let seconds = passed.as_secs_f64();
        let rate = |before: u64, now: u64| {
            let more = now.checked_sub(before)?;
            (seconds > 0.0).then(|| (more as f64 / seconds * 10.0).round() / 10.0)
        };
        Some(Self {
            sent: rate(before.sent, now.sent)?,
            received: rate(before.received, now.received)?,
            acked: rate(before.acked, now.acked)?,
            given_back: rate(before.given_back, now.given_back)?,
            dead_lettered: rate(before.dead_lettered, now.dead_lettered)?,
        })
    }

    fn to_json(self) -> Json {
        json!({
            "sent_per_second": self.sent,
            "received_per_second": self.received,
            "acked_per_second": self.acked,
            "given_back_per_second": self.given_back,
            "dead_lettered_per_second": self.dead_lettered,
        })
    }
}

/// Runs `recto queue watch`: prints the numbers and rates of messages every second.
pub(crate) async fn run(args: &WatchArgs, queues: &dyn Queues, console: &mut Console) -> Result<Exit> {
    let mut stop = Stop::listen();
    let mut ticks = interval(PAUSE);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let clock = Environment::system();
    let begun = clock.monotonic_nanos();
    let (mut before, mut drawn, mut looks) = (None, 0, 0);
    let mut has_tables = true;
    while args.count.is_none_or(|count| looks < count) {
        let found = tokio::select! {
            biased;
            () = stop.requested() => break,
            found = async {
                ticks.tick().await;
                look(args, queues, has_tables).await
            } => found,
        };
        looks += 1;
        let passed = Duration::from_nanos(clock.monotonic_nanos().saturating_sub(begun));
        let (all, tables) = match found {
            Ok(found) => found,
            Err(error) if looks > 1 && passes(&error) => {
                Failure::from(error).show(console);
                drawn = 0;
                continue;
            }
            Err(error) => return Err(error.into()),
        };
        has_tables = tables.is_some();
        let now = Look { passed, all, tables };
        let rates = rates(before.as_ref(), &now);
        if args.json {
            console.line(line(&now, &rates))?;
        } else {
            drawn = draw(drawn, &now, &rates, console)?;
        }
        console.flush()?;
        before = Some(now);
    }
    Ok(Exit::Done)
}

/// Reads the queues with their numbers of messages. If `has_tables` is true, also reads the tables
/// of message bodies.
async fn look(
    args: &WatchArgs,
    queues: &dyn Queues,
    has_tables: bool,
) -> recto::Result<(Vec<QueueStatus>, Option<QueueTables>)> {
    let all = match &args.name {
        Some(name) => vec![queues.queue(name).await?],
        None => queues.queues().await?,
    };
    if !has_tables {
        return Ok((all, None));
    }
    match queues.tables().await {
        Ok(tables) => Ok((all, Some(tables).filter(|tables| tables.needed))),
        // A token for single queues cannot read the tables, which belong to all queues. Show the
        // queues without the tables.
        Err(error) if error.kind() == ErrorKind::Forbidden => Ok((all, None)),
        Err(error) => Err(error),
    }
}

/// Returns whether the error is temporary, so that a later read may succeed.
fn passes(error: &Error) -> bool {
    matches!(error.kind(), ErrorKind::Unavailable | ErrorKind::Timeout)
}

/// Returns the rates of each queue since the previous read; `None` for a queue that is new since
/// then.
fn rates(before: Option<&Look>, now: &Look) -> Vec<Option<Rates>> {
    let rates = |status: &QueueStatus| {
        let before = before?;
        let earlier = before.all.iter().find(|earlier| earlier.name == status.name)?;
        Rates::between(
            &earlier.totals,
            &status.totals,
            now.passed.saturating_sub(before.passed),
        )
    };
    now.all.iter().map(rates).collect()
}

fn line(now: &Look, rates: &[Option<Rates>]) -> Json {
    let queue = |(status, rates): (&QueueStatus, &Option<Rates>)| {
        let mut queue = json!(status);
        queue["rates"] = rates.map_or(Json::Null, Rates::to_json);
        queue
    };
    let queues: Vec<Json> = now.all.iter().zip(rates).map(queue).collect();
    json!({ "seconds": now.passed.as_secs_f64().round(), "queues": queues, "tables": now.tables })
}

/// Prints the tables of queues and of message bodies. On a terminal, they overwrite the `drawn`
/// lines printed before. Returns the number of printed lines.
fn draw(drawn: u16, now: &Look, rates: &[Option<Rates>], console: &mut Console) -> Result<u16> {
    let below = now.tables.as_ref().map(|tables| table_lines(tables, console));
    let below = below.unwrap_or_default();
    let most = console.height().map_or(usize::MAX, |height| {
        height.saturating_sub(OTHER_LINES + below.len()).max(1)
    });
    let all = &now.all;
    let shown = &all[..all.len().min(most)];
    let rate = |of: fn(&Rates) -> f64| {
        let text = |rates: &Option<Rates>| rates.as_ref().map(of).map(rate_text).unwrap_or_default();
        rates[..shown.len()].iter().map(text).collect()
    };
    let mut columns = amounts(shown);
    let waiting = shown.iter().map(|status| grouped(status.receivers_waiting));
    columns.push(("waiting", true, waiting.collect()));
    columns.push(("sent/s", true, rate(|rates| rates.sent)));
    columns.push(("received/s", true, rate(|rates| rates.received)));
    columns.push(("acked/s", true, rate(|rates| rates.acked)));
    columns.push(("back/s", true, rate(|rates| rates.given_back)));
    columns.push(("dead/s", true, rate(|rates| rates.dead_lettered)));
    let mut lines = Table::of_columns(columns, console.width()).lines(console);
    let mut note = duration(Duration::from_secs(now.passed.as_secs()));
    if shown.len() < all.len() {
        note.push_str(&format!("; {} more queues", all.len() - shown.len()));
    }
    lines.push(console.paint(Tone::Dim, &note));
    lines.extend(below);
    if console.width().is_some() {
        if drawn > 0 {
            write!(
                console.out(),
                "{}{}",
                MoveToPreviousLine(drawn),
                Clear(ClearType::FromCursorDown)
            )?;
        }
    } else {
        lines.push(String::new());
    }
    for line in &lines {
        console.line(line)?;
    }
    Ok(u16::try_from(lines.len()).unwrap_or(u16::MAX))
}

/// Returns lines about the tables of message bodies. They take at most half of the terminal's height.
fn table_lines(tables: &QueueTables, console: &Console) -> Vec<String> {
    let progress = tables::progress(tables, console);
    let mut lines = tables::lines(tables, console);
    let most = console
        .height()
        .map_or(usize::MAX, |height| (height / 2).saturating_sub(progress.len()));
    if lines.len() > most {
        let left = lines.len() - most.saturating_sub(1);
        lines.truncate(most.saturating_sub(1));
        lines.push(console.paint(Tone::Dim, &format!("{left} more tables")));
    }
    lines.extend(progress);
    lines
}

#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // the values are only for display, and never negative
fn rate_text(rate: f64) -> String {
    if rate >= 100.0 {
        grouped(rate.round() as u64)
    } else {
        format!("{rate:.1}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_are_of_what_was_counted_since() {
        let before = QueueTotals {
            sent: 10,
            received: 4,
            ..QueueTotals::default()
        };
        let now = QueueTotals {
            sent: 1_010,
            received: 5,
            ..before
        };
        let rates = Rates::between(&before, &now, Duration::from_secs(2));
        let rates = rates.unwrap_or_else(|| panic!("there are rates"));
        assert_eq!((rates.sent, rates.received, rates.acked), (500.0, 0.5, 0.0));
        assert_eq!(
            (rate_text(rates.sent), rate_text(rates.received)),
            ("500".into(), "0.5".into())
        );
        // Counters that fell show that the counting process was restarted, so there are no rates.
        assert_eq!(Rates::between(&now, &before, Duration::from_secs(2)), None);
        assert_eq!(Rates::between(&before, &now, Duration::ZERO), None);
    }
}
