//! `recto queue peek` and `recto queue remove`: show messages without receiving them, and remove single
//! messages.

use clap::Args;
use recto::session::{PeekedMessage, Queues};
use serde_json::json;

use super::MAX_BATCH;
use super::receive::body_text;
use crate::commands::print_json;
use crate::console::{Console, Tone};
use crate::failure::{Exit, Failure, Result};
use crate::store::StoreArgs;
use crate::table::Table;
use crate::text::{counted, grouped, printable};

/// Default number of messages that `peek` shows.
const DEFAULT_MAX: u32 = 20;

const PEEK_EXAMPLES: &str = "\
Examples:
  recto queue peek mails-dead
  recto queue peek mails --max 1000 --json | jq -r '.messages[] | select(.state == \"in_flight\") | .id'

The command receives no messages, and counts no attempts. A terminal shows only the start of a long body; \
--json shows all of it.";

const REMOVE_EXAMPLES: &str = "\
Examples:
  recto queue remove mails 0-3-17
  recto queue remove mails 0-3-17 2-1-18

`recto queue peek` shows the positions. The command also removes messages that are in flight. It does not \
remove messages that are moving to another queue.";

/// Arguments of `recto queue peek`.
#[derive(Debug, Args)]
#[command(after_help = PEEK_EXAMPLES)]
pub(crate) struct PeekArgs {
    /// Name of the queue
    #[arg(value_name = "NAME")]
    name: String,
    /// Maximum number of messages: 1 to 1,000
    #[arg(long, value_name = "NUMBER", default_value_t = DEFAULT_MAX, value_parser = clap::value_parser!(u32).range(1..=i64::from(MAX_BATCH)))]
    max: u32,
    /// Print JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    pub(crate) store: StoreArgs,
}

/// Arguments of `recto queue remove`.
#[derive(Debug, Args)]
#[command(after_help = REMOVE_EXAMPLES)]
pub(crate) struct RemoveArgs {
    /// Name of the queue
    #[arg(value_name = "NAME")]
    name: String,
    /// Positions of the messages, as `recto queue peek` shows them
    #[arg(value_name = "POSITION", required = true)]
    positions: Vec<String>,
    /// Print JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    pub(crate) store: StoreArgs,
}

/// Runs `recto queue peek`: shows messages without receiving them.
pub(crate) async fn run(args: &PeekArgs, queues: &dyn Queues, console: &mut Console) -> Result<Exit> {
    let messages = queues.peek(&args.name, args.max).await?;
    if args.json {
        print_json(console, &json!({ "messages": messages }))?;
        return Ok(Exit::Done);
    }
    if messages.is_empty() {
        console.line("There are no messages.")?;
        return Ok(Exit::Done);
    }
    let column = |text: &dyn Fn(&PeekedMessage) -> String| messages.iter().map(text).collect();
    let columns = vec![
        ("position", false, column(&|message| message.position.clone())),
        ("state", false, column(&state)),
        (
            "attempts",
            true,
            column(&|message| grouped(message.attempts.into())),
        ),
        ("sent", false, column(&|message| message.sent_at.clone())),
        ("message", false, column(&content)),
    ];
    for line in Table::of_columns(columns, console.width()).lines(console) {
        console.line(line)?;
    }
    Ok(Exit::Done)
}

/// Returns the state of a message as text, with the time at which the state ends.
fn state(message: &PeekedMessage) -> String {
    let state = message.state.replace('_', " ");
    match &message.until {
        Some(until) => format!("{state} until {until}"),
        None => state,
    }
}

/// Returns the body, group and attributes of a message as text on one line.
fn content(message: &PeekedMessage) -> String {
    if let Some(damage) = &message.damage {
        return printable(&format!("(cannot be read: {damage})"));
    }
    let mut text = body_text(message.body.as_deref(), message.body_base64.as_deref()).replace('\n', "\\n");
    if let Some(group) = &message.group {
        text = format!("[{}] {text}", printable(group));
    }
    for (name, value) in &message.attributes {
        text.push_str(&printable(&format!("  {name}={value}")));
    }
    text
}

/// Runs `recto queue remove`: removes single messages, named by their positions in the queue.
pub(crate) async fn remove(args: &RemoveArgs, queues: &dyn Queues, console: &mut Console) -> Result<Exit> {
    let mut absent = Vec::new();
    for (number, position) in args.positions.iter().enumerate() {
        let removed = queues.remove_message(&args.name, position).await;
        let removed = removed.map_err(|error| match number - absent.len() {
            0 => Failure::from(error),
            count => {
                let before = counted(count as u64, "message", "messages");
                Failure::from(error).after(&format!("{before} removed before"))
            }
        })?;
        if !removed {
            absent.push(position.as_str());
        }
    }
    let removed = args.positions.len() - absent.len();
    if args.json {
        print_json(console, &json!({ "removed": removed, "absent": absent }))?;
    } else if removed > 0 {
        let mark = console.paint(Tone::Good, "✓");
        let messages = counted(removed as u64, "message", "messages");
        console.line(format_args!("{mark} {messages} removed"))?;
    }
    if absent.is_empty() {
        return Ok(Exit::Done);
    }
    let exit = if removed == 0 {
        Exit::NotFound
    } else {
        Exit::Partly
    };
    let message = format!("there is no message at {}", absent.join(", "));
    Err(Failure::new(exit, message)
        .with_hint("run `recto queue peek` again: messages may have been acknowledged, removed or moved"))
}
