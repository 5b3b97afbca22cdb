//! `recto queue create` and `recto queue change`: set the options of a queue.

use clap::Args;
use recto::session::{DeadLetterSettings, QueueSettings, Queues};
use serde_json::json;

use super::status::draw_status;
use crate::commands::print_json;
use crate::console::{Console, Tone};
use crate::failure::{Exit, Result};
use crate::store::StoreArgs;

const CREATE_EXAMPLES: &str = "\
Examples:
  recto queue create mails
  recto queue create mails-dead --retention 14d
  recto queue create mails --visibility 5m --dead-letters mails-dead --attempts 5
  recto queue create orders.fifo --ordered --deduplication group
  recto queue create clicks --shards 16

A queue that exists with these options stays as it is. If it has other options, the command fails. The name of an ordered \
queue may end in .fifo.";

const CHANGE_EXAMPLES: &str = "\
Examples:
  recto queue change mails --visibility 10m
  recto queue change mails --retention forever --no-dead-letters
  recto queue change mails --paused
  recto queue change mails --paused=false

An option that you leave out keeps its value. New options apply at once; programs that keep a queue open in another process \
see them within 30 seconds.";

/// Options of a queue.
#[derive(Debug, Args)]
pub(crate) struct SettingsArgs {
    #[command(flatten)]
    settings: QueueSettings,
    /// Queue for dead letters: messages that were received --attempts times
    #[arg(long, value_name = "QUEUE", requires = "attempts")]
    dead_letters: Option<String>,
    /// Number of deliveries of a message before it goes to --dead-letters: 1 to 1,000
    #[arg(long, value_name = "NUMBER", requires = "dead_letters")]
    attempts: Option<u16>,
}

impl SettingsArgs {
    fn settings(&self) -> QueueSettings {
        let dead_letters = self.dead_letters.clone().zip(self.attempts);
        QueueSettings {
            dead_letters: dead_letters.map(|(queue, attempts)| Some(DeadLetterSettings { queue, attempts })),
            ..self.settings.clone()
        }
    }
}

/// Arguments of `recto queue create`.
#[derive(Debug, Args)]
#[command(after_help = CREATE_EXAMPLES)]
pub(crate) struct CreateArgs {
    /// Name of the queue: up to 80 letters, digits, - and _
    #[arg(value_name = "NAME")]
    name: String,
    #[command(flatten)]
    settings: SettingsArgs,
    /// Print JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    pub(crate) store: StoreArgs,
}

/// Arguments of `recto queue change`.
#[derive(Debug, Args)]
#[command(after_help = CHANGE_EXAMPLES)]
// Hide the options that are fixed for an existing queue. Only `recto queue create` accepts them.
#[command(mut_arg("ordered", |arg| arg.hide(true)), mut_arg("shards", |arg| arg.hide(true)))]
#[command(mut_arg("deduplication", |arg| arg.hide(true)))]
pub(crate) struct ChangeArgs {
    /// Name of the queue
    #[arg(value_name = "NAME")]
    name: String,
    #[command(flatten)]
    settings: SettingsArgs,
    /// Remove the dead-letter queue
    #[arg(long, conflicts_with = "dead_letters")]
    no_dead_letters: bool,
    /// Change the queue only if it has this version, as `recto queue describe` shows it
    #[arg(long, value_name = "VERSION")]
    if_version: Option<u64>,
    /// Print JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    pub(crate) store: StoreArgs,
}

/// Runs `recto queue create`: creates a queue.
pub(crate) async fn create(args: &CreateArgs, queues: &dyn Queues, console: &mut Console) -> Result<Exit> {
    let settings = args.settings.settings();
    let (status, is_new) = queues.create_queue(&args.name, &settings).await?;
    if args.json {
        print_json(console, &json!({ "created": is_new, "queue": status }))?;
        return Ok(Exit::Done);
    }
    let done = if is_new {
        "created"
    } else {
        "already exists with these options"
    };
    let mark = console.paint(Tone::Good, "✓");
    console.line(format_args!("{mark} Queue {} {done}.", status.name))?;
    Ok(Exit::Done)
}

/// Runs `recto queue change`: changes options of a queue.
pub(crate) async fn change(args: &ChangeArgs, queues: &dyn Queues, console: &mut Console) -> Result<Exit> {
    let mut settings = args.settings.settings();
    if args.no_dead_letters {
        settings.dead_letters = Some(None);
    }
    let status = queues
        .change_queue(&args.name, &settings, args.if_version)
        .await?;
    if args.json {
        print_json(console, &json!(status))?;
    } else if status.options == QueueSettings::default() {
        // If the token may change the queue but not read it, the reply has no settings. Report only
        // the change.
        let mark = console.paint(Tone::Good, "✓");
        console.line(format_args!("{mark} queue {} was changed", status.name))?;
    } else {
        draw_status(&status, console)?;
    }
    Ok(Exit::Done)
}
