//! `recto queue purge`, `redrive` and `delete`: remove or move many messages.

use clap::Args;
use recto::session::{QueueStatus, Queues, REDRIVE_TIME};
use serde_json::json;

use crate::commands::{agrees, print_json};
use crate::console::{Console, Tone};
use crate::failure::{Exit, Failure, Result};
use crate::stop::Stop;
use crate::store::StoreArgs;
use crate::text::counted;

const PURGE_EXAMPLES: &str = "\
Examples:
  recto queue purge mails
  recto queue purge mails --yes

The command removes every message that is in the queue now, also messages that are in flight or delayed. \
Messages that are sent later stay.";

const REDRIVE_EXAMPLES: &str = "\
Examples:
  recto queue redrive mails-dead                     move dead letters back to their queue
  recto queue redrive mails-dead --max 10
  recto queue redrive mails-dead --to mails-by-hand

The command moves messages that are not in flight, the oldest first. Without --to, exactly one queue must \
send its dead letters here. An ordered queue gets only messages that have a group.";

const DELETE_EXAMPLES: &str = "\
Examples:
  recto queue delete mails
  recto queue delete mails --yes

A queue that gets the dead letters of another queue cannot be deleted.";

/// Name of the queue, and the user's consent.
#[derive(Debug, Args)]
pub(crate) struct AgreedArgs {
    /// Name of the queue
    #[arg(value_name = "NAME")]
    name: String,
    /// Do not ask for confirmation
    #[arg(long, short)]
    yes: bool,
}

/// Arguments of `recto queue purge`.
#[derive(Debug, Args)]
#[command(after_help = PURGE_EXAMPLES)]
pub(crate) struct PurgeArgs {
    #[command(flatten)]
    agreed: AgreedArgs,
    #[command(flatten)]
    pub(crate) store: StoreArgs,
}

/// Arguments of `recto queue delete`.
#[derive(Debug, Args)]
#[command(after_help = DELETE_EXAMPLES)]
pub(crate) struct DeleteArgs {
    #[command(flatten)]
    agreed: AgreedArgs,
    #[command(flatten)]
    pub(crate) store: StoreArgs,
}

/// Arguments of `recto queue redrive`.
#[derive(Debug, Args)]
#[command(after_help = REDRIVE_EXAMPLES)]
pub(crate) struct RedriveArgs {
    /// Name of the queue
    #[arg(value_name = "NAME")]
    name: String,
    /// Queue to which the messages go [default: the queue whose dead letters they are]
    #[arg(long, value_name = "QUEUE")]
    to: Option<String>,
    /// Maximum number of messages to move [default: all]
    #[arg(long, value_name = "NUMBER", value_parser = clap::value_parser!(u64).range(1..))]
    max: Option<u64>,
    /// Print JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    pub(crate) store: StoreArgs,
}

impl AgreedArgs {
    /// Asks the user to confirm a change of the queue, unless `--yes` is given. `what` is the verb,
    /// such as `Purge`. Fails if the queue does not exist.
    async fn ask(&self, what: &str, queues: &dyn Queues, console: &mut Console) -> Result<bool> {
        if self.yes {
            return Ok(true);
        }
        let QueueStatus { name, messages, .. } = queues.queue(&self.name).await?;
        let messages = counted(messages, "message", "messages");
        let question = format!("{what} {name}, with {messages}?");
        agrees(
            &question,
            &format!("recto queue {} {name}", what.to_lowercase()),
            console,
        )
    }
}

/// Runs `recto queue purge`: removes all messages of a queue.
pub(crate) async fn purge(args: &PurgeArgs, queues: &dyn Queues, console: &mut Console) -> Result<Exit> {
    if args.agreed.ask("Purge", queues, console).await? {
        queues.purge(&args.agreed.name).await?;
        let mark = console.paint(Tone::Good, "✓");
        console.line(format_args!("{mark} queue {} was purged", args.agreed.name))?;
    }
    Ok(Exit::Done)
}

/// Runs `recto queue delete`: deletes a queue with its messages.
pub(crate) async fn delete(args: &DeleteArgs, queues: &dyn Queues, console: &mut Console) -> Result<Exit> {
    if args.agreed.ask("Delete", queues, console).await? {
        queues.delete_queue(&args.agreed.name).await?;
        let mark = console.paint(Tone::Good, "✓");
        console.line(format_args!("{mark} queue {} was deleted", args.agreed.name))?;
    }
    Ok(Exit::Done)
}

/// Runs `recto queue redrive`: moves dead letters to a queue in several requests. If the user stops
/// the command, it reports the number of messages moved so far.
pub(crate) async fn redrive(args: &RedriveArgs, queues: &dyn Queues, console: &mut Console) -> Result<Exit> {
    let stop = Stop::listen();
    let mut moved = 0;
    let mut is_done = false;
    while !is_done && !stop.is_requested() {
        let most = args.max.map(|most| most - moved);
        let redriven = queues.redrive(&args.name, args.to.as_deref(), most, REDRIVE_TIME);
        let redriven = match redriven.await {
            Ok(redriven) => redriven,
            Err(error) if moved == 0 => return Err(error.into()),
            Err(error) => {
                let before = counted(moved, "message", "messages");
                return Err(Failure::from(error).after(&format!("{before} moved before")));
            }
        };
        moved += redriven.moved;
        is_done = redriven.done || args.max.is_some_and(|most| moved >= most);
    }
    if args.json {
        print_json(console, &json!({ "moved": moved, "done": is_done }))?;
    } else {
        let (tone, sign, more) = if is_done {
            (Tone::Good, "✓", "")
        } else {
            (Tone::Warning, "!", ", and there are more")
        };
        let mark = console.paint(tone, sign);
        let messages = counted(moved, "message", "messages");
        console.line(format_args!("{mark} {messages} moved{more}"))?;
    }
    Ok(if is_done { Exit::Done } else { Exit::Interrupted })
}
