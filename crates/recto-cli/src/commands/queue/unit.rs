//! `recto queue unit`: begins, ends and lists work units, which are temporary queues.

use clap::{Args, Subcommand};
use recto::session::Queues;
use serde_json::json;

use super::status::amounts;
use crate::commands::{agrees, print_json};
use crate::console::{Console, Tone};
use crate::failure::{Exit, Result};
use crate::store::StoreArgs;
use crate::table::Table;
use crate::text::counted;

const EXAMPLES: &str = "\
Examples:
  recto queue unit begin mails night
  recto queue send mails/night 'to ada' 'to grace'
  recto queue work mails/night -- ./send-mail
  recto queue unit list mails
  recto queue unit end mails night --yes

A work unit is a temporary queue with the options of its queue, for work such as an import or a nightly \
run. Ending the unit removes all its remaining messages at once. Other commands name it QUEUE/UNIT. On \
Cassandra it has its own table, which is truncated as a whole.";

/// Arguments of `recto queue unit`.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
#[command(subcommand_required = true, arg_required_else_help = true)]
pub(crate) struct UnitArgs {
    #[command(subcommand)]
    command: UnitCommand,
}

/// Commands for work units.
#[derive(Debug, Subcommand)]
enum UnitCommand {
    /// Begin a work unit of a queue, if it has not begun
    Begin(BeginArgs),
    /// End a work unit, and remove its messages
    End(EndArgs),
    /// List the work units of a queue, with their numbers of messages
    List(ListArgs),
}

/// Name of a work unit and its queue.
#[derive(Debug, Args)]
struct NamedArgs {
    /// Name of the queue
    #[arg(value_name = "QUEUE")]
    queue: String,
    /// Name of the work unit
    #[arg(value_name = "UNIT")]
    unit: String,
}

/// Arguments of `recto queue unit begin`.
#[derive(Debug, Args)]
struct BeginArgs {
    #[command(flatten)]
    named: NamedArgs,
    /// Print JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    store: StoreArgs,
}

/// Arguments of `recto queue unit end`.
#[derive(Debug, Args)]
struct EndArgs {
    #[command(flatten)]
    named: NamedArgs,
    /// Do not ask for confirmation
    #[arg(long, short)]
    yes: bool,
    #[command(flatten)]
    store: StoreArgs,
}

/// Arguments of `recto queue unit list`.
#[derive(Debug, Args)]
struct ListArgs {
    /// Name of the queue
    #[arg(value_name = "QUEUE")]
    queue: String,
    /// Print JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    store: StoreArgs,
}

impl UnitArgs {
    /// Returns whether the command only lists work units and changes nothing.
    pub(super) fn only_looks(&self) -> bool {
        matches!(self.command, UnitCommand::List(_))
    }

    pub(crate) fn store(&self) -> &StoreArgs {
        match &self.command {
            UnitCommand::Begin(args) => &args.store,
            UnitCommand::End(args) => &args.store,
            UnitCommand::List(args) => &args.store,
        }
    }
}

pub(crate) async fn run(args: &UnitArgs, queues: &dyn Queues, console: &mut Console) -> Result<Exit> {
    match &args.command {
        UnitCommand::Begin(args) => begin(args, queues, console).await,
        UnitCommand::End(args) => end(args, queues, console).await,
        UnitCommand::List(args) => list(args, queues, console).await,
    }
}

async fn begin(args: &BeginArgs, queues: &dyn Queues, console: &mut Console) -> Result<Exit> {
    let NamedArgs { queue, unit } = &args.named;
    let status = queues.begin_unit(queue, unit).await?;
    if args.json {
        print_json(console, &json!(status))?;
        return Ok(Exit::Done);
    }
    let mark = console.paint(Tone::Good, "✓");
    console.line(format_args!("{mark} work unit {} has begun", status.name))?;
    Ok(Exit::Done)
}

async fn end(args: &EndArgs, queues: &dyn Queues, console: &mut Console) -> Result<Exit> {
    let NamedArgs { queue, unit } = &args.named;
    if !args.yes {
        let status = queues.queue(&format!("{queue}/{unit}")).await?;
        let messages = counted(status.messages, "message", "messages");
        let question = format!("End {}, with {messages}?", status.name);
        if !agrees(
            &question,
            &format!("recto queue unit end {queue} {unit}"),
            console,
        )? {
            return Ok(Exit::Done);
        }
    }
    queues.end_unit(queue, unit).await?;
    let mark = console.paint(Tone::Good, "✓");
    console.line(format_args!("{mark} work unit {queue}/{unit} has ended"))?;
    Ok(Exit::Done)
}

async fn list(args: &ListArgs, queues: &dyn Queues, console: &mut Console) -> Result<Exit> {
    let units = queues.units(&args.queue).await?;
    if args.json {
        print_json(console, &json!({ "units": units }))?;
        return Ok(Exit::Done);
    }
    if units.is_empty() {
        console.line(format_args!(
            "{} has no work units. `recto queue unit begin` begins one.",
            args.queue
        ))?;
        return Ok(Exit::Done);
    }
    for line in Table::of_columns(amounts(&units), console.width()).lines(console) {
        console.line(line.trim_end())?;
    }
    Ok(Exit::Done)
}
