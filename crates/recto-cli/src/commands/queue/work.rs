//! `recto queue work`: runs a command of the user for each message.

use std::ffi::OsString;
use std::io::Write as _;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use clap::Args;
use recto::Session;
use recto::queues::{MAX_CONCURRENCY, Receive, Settled, Source, WorkEvent, Worked, Worker};
use recto::session::{DeadLetterSettings, ReceiveRequest, ReceivedMessage, Settling};
use recto_api::display::time_seconds;
use serde_json::json;
use tokio::sync::Notify;

use super::program::Program;
use crate::commands::print_json;
use crate::console::{Console, Tone};
use crate::failure::{Exit, Failure, Result};
use crate::stop::Stop;
use crate::store::StoreArgs;
use crate::text::{counted, duration, grouped, printable};

const EXAMPLES: &str = "\
Examples:
  recto queue work mails -- ./send-mail
  recto queue work mails --concurrency 4 --store http://127.0.0.1:8080 -- python3 handle.py
  recto queue work mails --until-empty -- sh -c 'mail -s \"$RECTO_ATTRIBUTE_SUBJECT\" ada@example.com'

The command runs once for each message, with the body on its standard input. Its environment describes the \
message:
  RECTO_MESSAGE_ID, _QUEUE, _ATTEMPTS and _SENT_AT
  RECTO_MESSAGE_GROUP and _DEDUPLICATION_ID, if the message has them
  RECTO_ATTRIBUTE_NAME for each attribute: its name in upper case, with _ for anything but letters and digits
A message fails if two of its attributes would have the same variable, or if a value has a NUL byte.

Exit code 0 acknowledges the message. Any other exit code gives it back: it is delivered again after a \
growing delay, or becomes a dead letter. The last line that the command wrote to standard error is the \
reason. While the command runs, no other consumer receives the message. If this process dies, other \
consumers receive its messages after the visibility timeout. Commands that it started may still run then: a \
message is handled at least once.

After Ctrl-C or SIGTERM, running commands can finish, then this process exits. A second signal kills the \
commands, and their messages are given back.";

/// Arguments of `recto queue work`.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
#[allow(clippy::struct_excessive_bools)] // each is a flag
pub(crate) struct WorkArgs {
    /// Name of the queue
    #[arg(value_name = "NAME")]
    name: String,
    /// Maximum number of commands that run at a time: up to 1,000
    #[arg(long, value_name = "NUMBER", default_value_t = 1, value_parser = concurrency)]
    concurrency: usize,
    /// Visibility timeout, which is extended while a command runs. If this process dies, others receive its
    /// messages after this time [default: that of the queue]
    #[arg(long, value_name = "TIME", value_parser = time_seconds)]
    visibility: Option<u32>,
    /// Delay of a message after its first failure; each further failure doubles the delay
    #[arg(long, value_name = "TIME", default_value = "1s", value_parser = time_seconds)]
    first_delay: u32,
    /// Maximum delay of a message after a failure
    #[arg(long, value_name = "TIME", default_value = "15m", value_parser = time_seconds)]
    longest_delay: u32,
    /// Maximum time for running commands to finish after a signal to stop [default: no limit]
    #[arg(long, value_name = "TIME", value_parser = time_seconds)]
    stop_within: Option<u32>,
    /// Handle one message, and exit
    #[arg(long, conflicts_with = "concurrency")]
    once: bool,
    /// Exit when there is no message to receive
    #[arg(long)]
    until_empty: bool,
    /// Do not print failures
    #[arg(long, short)]
    quiet: bool,
    /// Print a summary as JSON at the end
    #[arg(long)]
    json: bool,
    /// Command with its arguments
    #[arg(value_name = "COMMAND", last = true, required = true)]
    command: Vec<OsString>,
    #[command(flatten)]
    pub(crate) store: StoreArgs,
}

fn concurrency(text: &str) -> std::result::Result<usize, String> {
    let number = text.parse().ok();
    number
        .filter(|number| (1..=MAX_CONCURRENCY).contains(number))
        .ok_or_else(|| format!("a whole number, 1 to {}", grouped(MAX_CONCURRENCY as u64)))
}

/// Runs `recto queue work`: runs a command of the user for each message.
pub(crate) async fn run(args: &WorkArgs, session: Arc<dyn Session>, console: &mut Console) -> Result<Exit> {
    let status = session.queues()?.queue(&args.name).await?;
    let stop = Stop::listen_twice();
    let program = Arc::new(Program::new(&args.command, args.name.clone(), stop.clone()));
    let one = args.once.then(|| Arc::new(One::default()));
    let source = SessionQueue {
        session,
        queue: args.name.clone(),
        visibility: seconds(status.options.visibility_seconds.unwrap_or_default()),
        is_paused: AtomicBool::new(false),
        one: one.clone(),
    };
    let handler = Arc::clone(&program);
    let mut worker = Worker::new(source, move |message| {
        let program = Arc::clone(&handler);
        async move { program.handle(message).await }
    })
    .concurrency(args.concurrency)
    .backoff(seconds(args.first_delay), seconds(args.longest_delay))
    .stop_within(args.stop_within.map_or(seconds(u32::MAX), seconds));
    if let Some(visibility) = args.visibility {
        worker = worker.visibility(seconds(visibility));
    }
    if args.until_empty {
        worker = worker.until_empty();
    }
    if !args.quiet {
        let dead_letters = status.options.dead_letters.flatten();
        worker = worker.observe(move |event| tell(event, dead_letters.as_ref()));
    }
    let mut told = stop.clone();
    let ends = async {
        tokio::select! {
            () = told.requested() => {}
            () = program.breaks() => {}
            () = One::is_given(one.as_deref()) => {}
        }
    };
    let worked = worker.run_until(ends).await?;
    if let Some(error) = program.broken() {
        let name = args.command.first().map(|name| name.display().to_string());
        return Err(Failure::new(
            if error.kind() == std::io::ErrorKind::NotFound {
                Exit::NotFound
            } else {
                Exit::Failed
            },
            format!("cannot run {}: {error}", printable(&name.unwrap_or_default())),
        )
        .with_hint("correct the command; the received messages are given back"));
    }
    end(args, worked, console)?;
    let is_script = args.once || args.until_empty;
    Ok(if stop.is_insisted() {
        Exit::Interrupted
    } else if is_script && worked.failed + worked.lost > 0 {
        Exit::Partly
    } else {
        Exit::Done
    })
}

/// Prints a summary of the messages that the worker handled.
fn end(args: &WorkArgs, worked: Worked, console: &mut Console) -> Result<()> {
    if args.json {
        let done = json!({
            "done": worked.done,
            "failed": worked.failed,
            "given_back": worked.given_back,
            "lost": worked.lost,
        });
        return print_json(console, &done);
    }
    if args.quiet {
        return Ok(());
    }
    let mut said = vec![format!("{} done", counted(worked.done, "message", "messages"))];
    for (count, what) in [
        (worked.failed, "failed"),
        (worked.given_back, "given back"),
        (worked.lost, "delivered again or removed"),
    ] {
        if count > 0 {
            said.push(format!("{} {what}", grouped(count)));
        }
    }
    let mark = console.err_paint(Tone::Good, "✓");
    console.note(format_args!("{mark} {}", said.join(", ")))?;
    Ok(())
}

/// Describes how the queue continues with a message after `attempts` failures: a new delivery, or a
/// dead letter.
fn fate(dead_letters: Option<&DeadLetterSettings>, attempts: u16, delay: Duration) -> String {
    match dead_letters {
        Some(dead_letters) if attempts >= dead_letters.attempts => {
            format!("goes to {}", dead_letters.queue)
        }
        _ if delay.is_zero() => "is delivered again at once".to_owned(),
        _ => format!("is delivered again in {}", duration(delay)),
    }
}

/// Prints an event of the worker, such as a failed message, on standard error.
fn tell(event: &WorkEvent<'_>, dead_letters: Option<&DeadLetterSettings>) {
    let said = match event {
        WorkEvent::Failed {
            error,
            attempts,
            delay,
        } => format!(
            "failed ({}): {}; {}",
            counted((*attempts).into(), "attempt", "attempts"),
            printable(error),
            fate(dead_letters, *attempts, *delay)
        ),
        WorkEvent::Lost => "a message was delivered again or removed: its command was stopped".to_owned(),
        WorkEvent::NotSettled(error) => format!(
            "a message will be delivered again: {}",
            printable(error.message())
        ),
        WorkEvent::Unreachable(error) => format!("retrying: {}", printable(error.message())),
        WorkEvent::Paused => "waiting: the queue is paused".to_owned(),
        WorkEvent::TooManyInFlight(error) => format!("waiting: {}", printable(error.message())),
        _ => return,
    };
    // Ignore an error, because there is no other stream to report it on.
    let _ = writeln!(std::io::stderr(), "{said}");
}

/// Queue of a session from which a worker receives messages.
struct SessionQueue {
    session: Arc<dyn Session>,
    queue: String,
    visibility: Duration,
    /// True if the queue was paused at the last receive.
    is_paused: AtomicBool,
    /// State for `--once` (handle one message); `None` without `--once`.
    one: Option<Arc<One>>,
}

/// State of a worker with `--once`, which handles exactly one message.
#[derive(Debug, Default)]
struct One {
    is_given: AtomicBool,
    given: Notify,
}

impl One {
    /// Waits until the only message of `--once` has been received. Never returns without `--once`.
    async fn is_given(one: Option<&Self>) {
        match one {
            Some(one) => one.given.notified().await,
            None => std::future::pending().await,
        }
    }
}

impl SessionQueue {
    async fn settle(&self, receipts: &[String], settling: &Settling) -> recto::Result<Vec<Settled>> {
        let settled = self
            .session
            .queues()?
            .settle(&self.queue, receipts, settling)
            .await?;
        let word = |is_done| if is_done { Settled::Done } else { Settled::Stale };
        Ok(settled.into_iter().map(word).collect())
    }
}

#[async_trait]
impl Source for SessionQueue {
    type Message = ReceivedMessage;
    type Receipt = String;

    fn receipt(message: &ReceivedMessage) -> String {
        message.receipt.clone()
    }

    fn attempts(message: &ReceivedMessage) -> u16 {
        message.attempts
    }

    fn visibility(&self) -> Duration {
        self.visibility
    }

    fn is_paused(&self) -> bool {
        self.is_paused.load(Ordering::SeqCst)
    }

    async fn receive(&self, receive: Receive) -> recto::Result<Vec<ReceivedMessage>> {
        if self
            .one
            .as_ref()
            .is_some_and(|one| one.is_given.load(Ordering::SeqCst))
        {
            return std::future::pending().await;
        }
        let most = if self.one.is_some() { 1 } else { receive.most };
        let wait = receive.wait.as_secs();
        let request = ReceiveRequest {
            max_messages: u32::try_from(most).ok(),
            visibility_seconds: receive.visibility.map(whole_seconds),
            wait_seconds: u32::try_from(wait).ok(),
        };
        let reply = self.session.queues()?.receive(&self.queue, &request).await?;
        self.is_paused.store(reply.paused, Ordering::SeqCst);
        let received = reply.messages;
        match &self.one {
            Some(one) if !received.is_empty() => {
                one.is_given.store(true, Ordering::SeqCst);
                one.given.notify_one();
            }
            // Sleep here for a wait of less than a second: a session waits only whole seconds, and
            // the worker must not poll continuously.
            _ if received.is_empty() && wait == 0 => tokio::time::sleep(receive.wait).await,
            _ => {}
        }
        Ok(received)
    }

    async fn ack(&self, receipts: &[String]) -> recto::Result<Vec<Settled>> {
        self.settle(receipts, &Settling::Ack).await
    }

    async fn give_back(&self, receipt: &String) -> recto::Result<Settled> {
        let settled = self
            .settle(std::slice::from_ref(receipt), &Settling::GiveBack)
            .await?;
        Ok(settled.first().copied().unwrap_or(Settled::Stale))
    }

    async fn nack(&self, receipt: &String, delay: Duration, error: &str) -> recto::Result<Settled> {
        let back = Settling::Nack {
            delay_seconds: whole_seconds(delay),
            error: error.to_owned(),
        };
        let settled = self.settle(std::slice::from_ref(receipt), &back).await?;
        Ok(settled.first().copied().unwrap_or(Settled::Stale))
    }

    async fn extend(&self, receipts: &[String], visibility: Duration) -> recto::Result<Vec<Settled>> {
        let keep = Settling::Extend {
            visibility_seconds: whole_seconds(visibility),
        };
        self.settle(receipts, &keep).await
    }
}

fn seconds(seconds: u32) -> Duration {
    Duration::from_secs(seconds.into())
}

/// Returns a duration in whole seconds, rounded up.
fn whole_seconds(time: Duration) -> u32 {
    let more = u64::from(time.subsec_nanos() > 0);
    u32::try_from(time.as_secs().saturating_add(more)).unwrap_or(u32::MAX)
}
