//! `recto queue create` and `recto queue change`: what queues are like.

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

A queue that is there and is like that is left as it is; one that is like something else is an error. The names of \
ordered queues may end with .fifo.";

const CHANGE_EXAMPLES: &str = "\
Examples:
  recto queue change mails --visibility 10m
  recto queue change mails --retention forever --no-dead-letters

What is not said stays as it is. Who uses the queue goes by the new options at once.";

/// What a queue may be like from some time on.
#[derive(Debug, Args)]
pub(crate) struct SettingsArgs {
    /// For how long a message is its receiver's, if that says nothing else: up to 12h [default: 30]
    #[arg(long, value_name = "TIME", value_parser = time_seconds)]
    visibility: Option<u32>,
    /// How much later than sent a message is received first, if its sender says nothing else: up to 30d [default: 0]
    #[arg(long, value_name = "TIME", value_parser = time_seconds)]
    delay: Option<u32>,
    /// For how long a message is kept that is not acknowledged: 60s to 365d, or forever [default: forever]
    #[arg(long, value_name = "TIME", value_parser = retention)]
    retention: Option<Retention>,
    /// The queue to which messages go that were received --attempts times
    #[arg(long, value_name = "QUEUE", requires = "attempts")]
    dead_letters: Option<String>,
    /// How often a message is received before it goes to the dead letters: 1 to 1,000
    #[arg(long, value_name = "NUMBER", requires = "dead_letters")]
    attempts: Option<u16>,
    /// Bytes of a message's body and attributes, at most 1048576 [default: 1048576]
    #[arg(long, value_name = "BYTES")]
    body_bytes: Option<u32>,
    /// Maximum number of messages in flight at once: 1 to 1,000,000 [default: 120000]
    #[arg(long, value_name = "NUMBER")]
    max_in_flight: Option<u32>,
}

/// For how long messages are kept; none: until they are done with.
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

/// Where two messages with one deduplication id are the same.
#[derive(Debug, Clone, Copy, ValueEnum)]
enum Scope {
    /// In all of the queue
    Queue,
    /// In their group, of an ordered queue
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
    /// What it is called: up to 80 letters, digits, - and _
    #[arg(value_name = "NAME")]
    name: String,
    #[command(flatten)]
    settings: SettingsArgs,
    /// Messages have groups, each of which is received in order; never changes
    #[arg(long)]
    ordered: bool,
    /// Of how many parts it is, so that as many servers write to it side by side: 1 to 64; in an embedded store 1, whatever is asked for; never changes [default: 4]
    #[arg(long, value_name = "NUMBER")]
    shards: Option<u16>,
    /// Where two messages with one deduplication id are the same; never changes [default: queue]
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
    /// The queue
    #[arg(value_name = "NAME")]
    name: String,
    #[command(flatten)]
    settings: SettingsArgs,
    /// Messages are received again and again, however often that was
    #[arg(long, conflicts_with = "dead_letters")]
    no_dead_letters: bool,
    /// Change it only if it is of this version, as `recto queue describe` shows it
    #[arg(long, value_name = "VERSION")]
    if_version: Option<u64>,
    /// Print JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    pub(crate) store: StoreArgs,
}

/// Makes a queue.
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

/// Changes what a queue is like.
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
