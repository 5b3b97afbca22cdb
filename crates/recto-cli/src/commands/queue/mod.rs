//! `recto queue`: commands for queues and their messages.

mod clock;
mod empty;
mod environment;
mod lines;
mod peek;
mod program;
mod receive;
mod send;
mod settings;
mod settle;
mod status;
mod tables;
mod unit;
mod watch;
mod work;

use std::sync::Arc;

use clap::{Args, Subcommand};
use recto::{OpenOptions, Session};

use crate::console::{Console, Tone};
use crate::failure::{Exit, Result};
use crate::opening::{Place, environment};
use crate::store::{DEFAULT_STORE, StoreArgs};

/// Hint for commands on queues if the store does not exist.
const MAKES_A_QUEUE: &str = "create the store, with a queue: `recto queue create NAME`";

/// Maximum number of messages that one request sends or returns.
const MAX_BATCH: u32 = 1_000;

const EXAMPLES: &str = "\
Examples:
  recto queue create mails --dead-letters mails-dead --attempts 5
  recto queue send mails 'to ada' 'to grace'
  recto queue receive mails --ack
  recto queue work mails --concurrency 4 -- ./send-mail
  recto queue watch

Messages are delivered at least once. A received message is hidden from other consumers for the visibility \
timeout. If it is not acknowledged in time, it is delivered again. Only one process at a time can have an \
embedded store open for its queues. To run several workers, run `recto serve`, and use --store http://….";

/// Arguments of `recto queue`.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
#[command(subcommand_required = true, arg_required_else_help = true)]
pub(crate) struct QueueArgs {
    #[command(subcommand)]
    pub(crate) command: QueueCommand,
}

/// Commands for queues.
#[derive(Debug, Subcommand)]
pub(crate) enum QueueCommand {
    /// Create a queue, and the store if it does not exist
    Create(settings::CreateArgs),
    /// List the queues, with their numbers of messages
    List(status::ListArgs),
    /// Show the options and the numbers of messages of a queue
    Describe(status::DescribeArgs),
    /// Change options of a queue
    Change(settings::ChangeArgs),
    /// Send messages: arguments, or the lines of standard input or a file
    Send(send::SendArgs),
    /// Receive messages, the oldest first
    Receive(receive::ReceiveArgs),
    /// Acknowledge received messages, which removes them
    Ack(settle::AckArgs),
    /// Give received messages back, so that they are delivered again
    Nack(settle::NackArgs),
    /// Extend the visibility timeout of received messages
    Extend(settle::ExtendArgs),
    /// Show messages without receiving them, roughly the oldest first
    Peek(peek::PeekArgs),
    /// Remove messages, by the positions that `peek` shows
    Remove(peek::RemoveArgs),
    /// Remove all messages that are in the queue now
    Purge(empty::PurgeArgs),
    /// Move messages to another queue, such as dead letters back to their queue
    Redrive(empty::RedriveArgs),
    /// Delete a queue with its messages
    Delete(empty::DeleteArgs),
    /// Begin, list and end work units, parts of a queue that end as a whole
    Unit(unit::UnitArgs),
    /// Show the tables of message bodies on Cassandra, and change the options of all queues
    Tables(tables::TablesArgs),
    /// Confirm the clock by which an embedded store expires messages
    ConfirmClock(clock::ConfirmClockArgs),
    /// Show the numbers and rates of messages every second
    Watch(watch::WatchArgs),
    /// Run a command for each message; exit code 0 acknowledges it
    Work(work::WorkArgs),
}

impl QueueArgs {
    /// Opens the store for the command. A command that only reads opens an embedded store for
    /// reading, so that other processes can read the store at the same time.
    pub(crate) async fn open(&self, console: &mut Console) -> Result<Arc<dyn Session>> {
        let options = match &self.command {
            QueueCommand::Create(args) => return open_or_create(&args.store, console).await,
            _ if self.only_looks() => OpenOptions::new().read_only(),
            _ => OpenOptions::new(),
        };
        if let Some(receipts) = self.receipts()
            && receipts.await_input(console).await?
        {
            // Retry while the store is locked. The command that writes the receipts into the pipe
            // still has the store open, but closes it soon.
            return self.store().open_in_pipe(options, MAKES_A_QUEUE).await;
        }
        self.store().open_with(options, MAKES_A_QUEUE).await
    }

    fn receipts(&self) -> Option<&settle::ReceiptsArgs> {
        match &self.command {
            QueueCommand::Ack(args) => Some(args.which()),
            QueueCommand::Nack(args) => Some(args.which()),
            QueueCommand::Extend(args) => Some(args.which()),
            _ => None,
        }
    }

    fn only_looks(&self) -> bool {
        match &self.command {
            QueueCommand::List(_)
            | QueueCommand::Describe(_)
            | QueueCommand::Peek(_)
            | QueueCommand::Watch(_) => true,
            QueueCommand::Unit(args) => args.only_looks(),
            QueueCommand::Tables(args) => args.only_looks(),
            _ => false,
        }
    }

    fn store(&self) -> &StoreArgs {
        match &self.command {
            QueueCommand::Create(args) => &args.store,
            QueueCommand::List(args) => &args.store,
            QueueCommand::Describe(args) => &args.store,
            QueueCommand::Change(args) => &args.store,
            QueueCommand::Send(args) => &args.store,
            QueueCommand::Receive(args) => &args.store,
            QueueCommand::Ack(args) => &args.store,
            QueueCommand::Nack(args) => &args.store,
            QueueCommand::Extend(args) => &args.store,
            QueueCommand::Peek(args) => &args.store,
            QueueCommand::Remove(args) => &args.store,
            QueueCommand::Purge(args) => &args.store,
            QueueCommand::Redrive(args) => &args.store,
            QueueCommand::Delete(args) => &args.store,
            QueueCommand::Unit(args) => args.store(),
            QueueCommand::Tables(args) => &args.store,
            QueueCommand::ConfirmClock(args) => &args.store,
            QueueCommand::Watch(args) => &args.store,
            QueueCommand::Work(args) => &args.store,
        }
    }
}

/// Opens the store, and creates it if it does not exist. Prints a message if it creates the store.
async fn open_or_create(store: &StoreArgs, console: &mut Console) -> Result<Arc<dyn Session>> {
    let place = Place {
        address: store.address(DEFAULT_STORE, environment())?,
        options: store.with_parameters(OpenOptions::new())?,
        wait: store.wait()?,
    };
    if let Some(session) = place.open().await? {
        return Ok(session);
    }
    let session = place.open_or_create().await?;
    let mark = console.err_paint(Tone::Good, "✓");
    console.note(format_args!("{mark} created the store {}", place.address))?;
    Ok(session)
}

pub(crate) async fn run(args: &QueueArgs, session: Arc<dyn Session>, console: &mut Console) -> Result<Exit> {
    let queues = session.queues()?;
    match &args.command {
        QueueCommand::Create(args) => settings::create(args, queues, console).await,
        QueueCommand::List(args) => status::list(args, queues, console).await,
        QueueCommand::Describe(args) => status::describe(args, queues, console).await,
        QueueCommand::Change(args) => settings::change(args, queues, console).await,
        QueueCommand::Send(args) => send::run(args, queues, console).await,
        QueueCommand::Receive(args) => receive::run(args, queues, console).await,
        QueueCommand::Ack(args) => settle::ack(args, queues, console).await,
        QueueCommand::Nack(args) => settle::nack(args, queues, console).await,
        QueueCommand::Extend(args) => settle::extend(args, queues, console).await,
        QueueCommand::Peek(args) => peek::run(args, queues, console).await,
        QueueCommand::Remove(args) => peek::remove(args, queues, console).await,
        QueueCommand::Purge(args) => empty::purge(args, queues, console).await,
        QueueCommand::Redrive(args) => empty::redrive(args, queues, console).await,
        QueueCommand::Delete(args) => empty::delete(args, queues, console).await,
        QueueCommand::Unit(args) => unit::run(args, queues, console).await,
        QueueCommand::Tables(args) => tables::run(args, queues, console).await,
        QueueCommand::ConfirmClock(_) => clock::confirm(queues, console).await,
        QueueCommand::Watch(args) => watch::run(args, queues, console).await,
        QueueCommand::Work(args) => work::run(args, Arc::clone(&session), console).await,
    }
}
