//! `recto queue list` and `recto queue describe`: show queues with their numbers of messages and options.

use std::time::Duration;

use clap::Args;
use recto::session::{DeduplicationScope, QueueStatus, Queues};
use serde_json::json;

use crate::commands::print_json;
use crate::console::{Console, Tone};
use crate::failure::{Exit, Result};
use crate::store::StoreArgs;
use crate::table::Table;
use crate::text::{bytes, counted, duration, grouped};

const LIST_EXAMPLES: &str = "\
Examples:
  recto queue list
  recto queue list --json | jq '.queues[] | select(.messages > 0) | .name'";

const DESCRIBE_EXAMPLES: &str = "\
Examples:
  recto queue describe mails
  recto queue describe mails --json --store http://127.0.0.1:8080

The process that has the store open counts sent, received and acknowledged messages, from the time when it \
opened the store. These numbers are useful for a server.";

/// Arguments of `recto queue list`.
#[derive(Debug, Args)]
#[command(after_help = LIST_EXAMPLES)]
pub(crate) struct ListArgs {
    /// Print JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    pub(crate) store: StoreArgs,
}

/// Arguments of `recto queue describe`.
#[derive(Debug, Args)]
#[command(after_help = DESCRIBE_EXAMPLES)]
pub(crate) struct DescribeArgs {
    /// Name of the queue
    #[arg(value_name = "NAME")]
    name: String,
    /// Print JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    pub(crate) store: StoreArgs,
}

/// Runs `recto queue list`: lists the queues with their numbers of messages.
pub(crate) async fn list(args: &ListArgs, queues: &dyn Queues, console: &mut Console) -> Result<Exit> {
    let all = queues.queues().await?;
    if args.json {
        print_json(console, &json!({ "queues": all }))?;
        return Ok(Exit::Done);
    }
    if all.is_empty() {
        console.line("There are no queues. `recto queue create` creates one.")?;
        return Ok(Exit::Done);
    }
    let dead_letters = |status: &QueueStatus| match &status.options.dead_letters {
        Some(Some(dead_letters)) => dead_letters.queue.clone(),
        _ => String::new(),
    };
    let mut columns = amounts(&all);
    columns.push(("dead letters", false, all.iter().map(dead_letters).collect()));
    if all.iter().any(QueueStatus::is_paused) {
        let paused = |status: &QueueStatus| if status.is_paused() { "paused" } else { "" }.to_owned();
        columns.push(("state", false, all.iter().map(paused).collect()));
    }
    for line in Table::of_columns(columns, console.width()).lines(console) {
        console.line(line.trim_end())?;
    }
    Ok(Exit::Done)
}

/// Returns the columns of the table of queues: their names, and their numbers of messages.
pub(super) fn amounts(all: &[QueueStatus]) -> Vec<(&'static str, bool, Vec<String>)> {
    let column = |text: &dyn Fn(&QueueStatus) -> String| all.iter().map(text).collect();
    vec![
        ("queue", false, column(&|status| status.name.clone())),
        ("messages", true, column(&messages)),
        ("in flight", true, column(&|status| grouped(status.in_flight))),
        ("delayed", true, column(&|status| grouped(status.delayed))),
        ("oldest", true, column(&|status| age(status).unwrap_or_default())),
    ]
}

/// Returns the number of messages of a queue as text, with `~` before it if it is not exact.
fn messages(status: &QueueStatus) -> String {
    if status.damage.is_some() {
        return "damaged".to_owned();
    }
    let about = if status.exact { "" } else { "~" };
    format!("{about}{}", grouped(status.messages))
}

/// Returns how long the oldest message has been due, as text; `None` if no message is due.
fn age(status: &QueueStatus) -> Option<String> {
    let age = Duration::try_from_secs_f64(status.age_seconds?).ok()?;
    Some(duration(age))
}

/// Runs `recto queue describe`: shows the options and the numbers of messages of a queue.
pub(crate) async fn describe(
    args: &DescribeArgs,
    queues: &dyn Queues,
    console: &mut Console,
) -> Result<Exit> {
    let status = queues.queue(&args.name).await?;
    if args.json {
        print_json(console, &json!(status))?;
    } else {
        draw_status(&status, console)?;
    }
    Ok(Exit::Done)
}

pub(super) fn draw_status(status: &QueueStatus, console: &mut Console) -> Result<()> {
    let name = console.paint(Tone::Strong, &status.name);
    let version = console.paint(Tone::Dim, &format!("version {}", status.version));
    console.line(format_args!("{name}  {version}"))?;
    let mut amount = format!(
        "{}, {} in flight, {} delayed",
        messages(status),
        grouped(status.in_flight),
        grouped(status.delayed)
    );
    if let Some(age) = age(status) {
        amount.push_str(&format!("; the oldest has been due for {age}"));
    }
    let totals = &status.totals;
    let done = format!(
        "{} sent, {} received, {} acknowledged, {} given back,",
        grouped(totals.sent),
        grouped(totals.received),
        grouped(totals.acked),
        grouped(totals.given_back)
    );
    let gone = format!(
        "{} to the dead letters, {} expired, {} lost",
        grouped(totals.dead_lettered),
        grouped(totals.expired),
        counted(totals.bodies_lost, "body", "bodies")
    );
    if status.is_paused() {
        amount.push_str("; paused");
    }
    let mut lines = vec![
        ("messages", amount),
        ("since opened", done),
        ("", gone),
        (
            "waiting",
            counted(status.receivers_waiting, "receiver", "receivers"),
        ),
    ];
    lines.extend(settings(status));
    for (what, text) in lines {
        console.line(format_args!("  {what:<14}{text}"))?;
    }
    Ok(())
}

/// Returns the options of a queue as pairs of a name and a text.
fn settings(status: &QueueStatus) -> Vec<(&'static str, String)> {
    let options = &status.options;
    let time = |seconds: u32| duration(Duration::from_secs(seconds.into()));
    let mut lines = Vec::new();
    if let Some(seconds) = options.visibility_seconds {
        lines.push(("visibility", time(seconds)));
    }
    if let Some(seconds) = options.delay_seconds {
        lines.push((
            "delay",
            if seconds == 0 {
                "none".to_owned()
            } else {
                time(seconds)
            },
        ));
    }
    if let Some(seconds) = options.retention_seconds {
        lines.push(("retention", seconds.map_or("forever".to_owned(), time)));
    }
    if let Some(dead_letters) = &options.dead_letters {
        let text = dead_letters.as_ref().map_or("none".to_owned(), |to| {
            let times = counted(to.attempts.into(), "attempt", "attempts");
            format!("to {} after {times}", to.queue)
        });
        lines.push(("dead letters", text));
    }
    if let Some(ordered) = options.ordered {
        lines.push((
            "order",
            if ordered {
                "in groups".to_owned()
            } else {
                "roughly as sent".to_owned()
            },
        ));
    }
    if let Some(shards) = options.shards {
        lines.push(("shards", shards.to_string()));
    }
    if let Some(scope) = options.deduplication {
        let scope = match scope {
            DeduplicationScope::Queue => "in the queue",
            DeduplicationScope::Group => "in the group",
        };
        lines.push(("deduplication", scope.to_owned()));
    }
    if let Some(most) = options.body_bytes {
        lines.push(("body", format!("{} at most", bytes(most.into()))));
    }
    if let Some(most) = options.max_in_flight {
        lines.push((
            "in flight",
            format!("{} at most", counted(most.into(), "message", "messages")),
        ));
    }
    lines
}

#[cfg(test)]
mod tests {
    use recto::session::QueueTotals;

    use super::*;

    #[test]
    fn all_that_was_done_is_said() {
        let totals = QueueTotals {
            sent: 1_001,
            received: 1_002,
            acked: 1_003,
            given_back: 1_004,
            dead_lettered: 1_005,
            expired: 1_006,
            bodies_lost: 1,
        };
        let status = QueueStatus {
            totals,
            ..QueueStatus::default()
        };
        let (mut console, screen) = Console::captured(80);
        draw_status(&status, &mut console).unwrap_or_else(|failure| panic!("{failure:?}"));
        for said in [
            "  since opened  1,001 sent, 1,002 received, 1,003 acknowledged, 1,004 given back,\n",
            "                1,005 to the dead letters, 1,006 expired, 1 body lost\n",
        ] {
            assert!(screen.out().contains(said), "{said}: {}", screen.out());
        }
    }
}
