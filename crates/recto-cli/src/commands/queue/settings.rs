//! `recto queue create` and `recto queue change`: the options of queues.

use clap::{Args, ValueEnum};
use recto::session::{DeadLetterSettings, DeduplicationScope, QueueSettings, Queues};
use serde_json::json;

use super::status::draw_status;
use super::time_seconds;
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

An option that you leave out keeps its value. New options apply at once.";

/// Options of a queue that can be changed.
#[derive(Debug, Args)]
pub(crate) struct SettingsArgs {
    /// Visibility timeout of a received message, if its receiver sets none: 1s to 12h [default: 30s]
    #[arg(long, value_name = "TIME", value_parser = time_seconds)]
    visibility: Option<u32>,
    /// Delay of a message, if its sender sets none: up to 30d [default: 0s]
    #[arg(long, value_name = "TIME", value_parser = time_seconds)]
    delay: Option<u32>,
    /// Retention of a message that is not acknowledged: 60s to 365d, or forever [default: forever]
    #[arg(long, value_name = "TIME", value_parser = retention)]
    retention: Option<Retention>,
    /// Queue to which messages go that were received --attempts times
    #[arg(long, value_name = "QUEUE", requires = "attempts")]
    dead_letters: Option<String>,
    /// Number of times that a message is received before it goes to --dead-letters: 1 to 1,000
    #[arg(long, value_name = "NUMBER", requires = "dead_letters")]
    attempts: Option<u16>,
    /// Maximum number of bytes of a message's body and attributes: up to 1048576 [default: 1048576]
    #[arg(long, value_name = "BYTES")]
    body_bytes: Option<u32>,
    /// Maximum number of messages in flight: 1 to 1,000,000 [default: 120000]
    #[arg(long, value_name = "NUMBER")]
    max_in_flight: Option<u32>,
}

/// Retention of messages in seconds; `None` keeps them until they are acknowledged.
#[derive(Debug, Clone, Copy)]
struct Retention(Option<u32>);

fn retention(text: &str) -> std::result::Result<Retention, String> {
    match text {
        "forever" => Ok(Retention(None)),
        text => match time_seconds(text) {
            Ok(seconds) => Ok(Retention(Some(seconds))),
            Err(expected) => Err(format!("`forever`, or {expected}")),
        },
    }
}

/// Scope in which a deduplication id is unique.
#[derive(Debug, Clone, Copy, ValueEnum)]
enum Scope {
    /// The whole queue
    Queue,
    /// The group of the message, in an ordered queue
    Group,
}

impl SettingsArgs {
    fn settings(&self) -> QueueSettings {
        let dead_letters = self.dead_letters.clone().zip(self.attempts);
        QueueSettings {
            visibility_seconds: self.visibility,
            delay_seconds: self.delay,
            retention_seconds: self.retention.map(|Retention(seconds)| seconds),
            dead_letters: dead_letters.map(|(queue, attempts)| Some(DeadLetterSettings { queue, attempts })),
            body_bytes: self.body_bytes,
            max_in_flight: self.max_in_flight,
            ..QueueSettings::default()
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
    /// Receive the messages of each group in order; cannot be changed later
    #[arg(long)]
    ordered: bool,
    /// Number of shards, to which as many servers write concurrently: 1 to 64, and always 1 in an embedded store; cannot be changed later [default: 4]
    #[arg(long, value_name = "NUMBER")]
    shards: Option<u16>,
    /// Scope in which a deduplication id is unique; cannot be changed later [default: queue]
    #[arg(long, value_name = "SCOPE")]
    deduplication: Option<Scope>,
    /// Print JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    pub(crate) store: StoreArgs,
}

/// Arguments of `recto queue change`.
#[derive(Debug, Args)]
#[command(after_help = CHANGE_EXAMPLES)]
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

/// Creates a queue.
pub(crate) async fn create(args: &CreateArgs, queues: &dyn Queues, console: &mut Console) -> Result<Exit> {
    let settings = QueueSettings {
        ordered: args.ordered.then_some(true),
        shards: args.shards,
        deduplication: args.deduplication.map(|scope| match scope {
            Scope::Queue => DeduplicationScope::Queue,
            Scope::Group => DeduplicationScope::Group,
        }),
        ..args.settings.settings()
    };
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

/// Changes options of a queue.
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
        // The token may change the queue and not read it.
        let mark = console.paint(Tone::Good, "✓");
        console.line(format_args!("{mark} queue {} was changed", status.name))?;
    } else {
        draw_status(&status, console)?;
    }
    Ok(Exit::Done)
}
