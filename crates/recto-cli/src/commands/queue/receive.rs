//! `recto queue receive`: receives messages of a queue.

use clap::Args;
use recto::session::{Queues, ReceiveRequest, ReceivedMessage, ReceivedMessages, Settling};
use recto_api::display::time_seconds;
use serde_json::json;

use super::MAX_BATCH;
use crate::console::{Console, Tone};
use crate::failure::{Exit, Failure, Result};
use crate::stop::Stop;
use crate::store::StoreArgs;
use crate::text::{counted, grouped, printable, printable_lines};

/// Maximum value of `--wait-message`, the wait for a message, in seconds.
const MAX_WAIT_SECONDS: i64 = 20;

const EXAMPLES: &str = "\
Examples:
  recto queue receive mails
  recto queue receive mails --max 10 --wait-message 20 --json
  recto queue receive mails --max 10 --ack                 acknowledge messages after printing them
  recto queue receive mails --json | recto queue ack mails

--json prints each message as a line of JSON. A message that is neither acknowledged nor given back is \
delivered again after the visibility timeout. If the command cannot print messages, it gives them back at \
once.";

/// Arguments of `recto queue receive`.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct ReceiveArgs {
    /// Name of the queue
    #[arg(value_name = "NAME")]
    name: String,
    /// Maximum number of messages: 1 to 1,000
    #[arg(long, value_name = "NUMBER", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=i64::from(MAX_BATCH)))]
    max: u32,
    /// Visibility timeout of the messages [default: that of the queue]
    #[arg(long, value_name = "TIME", value_parser = time_seconds)]
    visibility: Option<u32>,
    /// Maximum time to wait for a message, in seconds: 0 to 20
    #[arg(long, value_name = "SECONDS", default_value_t = 0, value_parser = clap::value_parser!(u32).range(..=MAX_WAIT_SECONDS))]
    wait_message: u32,
    /// Acknowledge the messages after printing them
    #[arg(long)]
    ack: bool,
    /// Print each message as a line of JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    pub(crate) store: StoreArgs,
}

/// Runs `recto queue receive`: receives messages and prints them.
pub(crate) async fn run(args: &ReceiveArgs, queues: &dyn Queues, console: &mut Console) -> Result<Exit> {
    let request = ReceiveRequest {
        max_messages: Some(args.max),
        visibility_seconds: args.visibility,
        wait_seconds: Some(args.wait_message),
    };
    let mut stop = Stop::listen();
    let ReceivedMessages {
        messages: received,
        paused,
    } = tokio::select! {
        received = queues.receive(&args.name, &request) => received?,
        () = stop.requested() => return Ok(Exit::Interrupted),
    };
    let receipts: Vec<String> = received.iter().map(|message| message.receipt.clone()).collect();
    if let Err(failure) = print(args, &received, console) {
        give_back(args, queues, &receipts).await;
        return Err(failure);
    }
    if received.is_empty() {
        if !args.json {
            console.note(if paused {
                "The queue is paused."
            } else {
                "There is no message to receive."
            })?;
        }
        return Ok(Exit::Done);
    }
    if !args.ack {
        return Ok(Exit::Done);
    }
    let settled = queues.settle(&args.name, &receipts, &Settling::Ack).await?;
    let lost = settled.iter().filter(|is_done| !**is_done).count() as u64;
    if lost == 0 {
        return Ok(Exit::Done);
    }
    let message = format!(
        "{} delivered again before this command could acknowledge",
        counted(lost, "message was", "messages were")
    );
    Err(Failure::new(Exit::Partly, message)
        .with_hint("receive fewer messages at a time (--max), or set a longer --visibility"))
}

/// Gives received messages back that could not be printed, so that other receivers get them at
/// once.
async fn give_back(args: &ReceiveArgs, queues: &dyn Queues, receipts: &[String]) {
    if !receipts.is_empty() {
        // Ignore an error: without giving back, the queue delivers the message again after its
        // visibility timeout.
        let _ = queues.settle(&args.name, receipts, &Settling::GiveBack).await;
    }
}

/// Prints received messages, and flushes the output.
fn print(args: &ReceiveArgs, received: &[ReceivedMessage], console: &mut Console) -> Result<()> {
    for message in received {
        if args.json {
            console.line(json!(message))?;
        } else {
            draw(message, console)?;
        }
    }
    console.flush()?;
    Ok(())
}

fn draw(message: &ReceivedMessage, console: &mut Console) -> Result<()> {
    let attempts = counted(message.attempts.into(), "attempt", "attempts");
    let about = format!("{attempts}, sent {}", message.sent_at);
    console.line(format_args!(
        "{}  {}",
        console.paint(Tone::Strong, &message.id),
        console.paint(Tone::Dim, &about)
    ))?;
    console.line(format_args!("  receipt  {}", message.receipt))?;
    for (what, text) in [
        ("group", &message.group),
        ("deduplication id", &message.deduplication_id),
    ] {
        if let Some(text) = text {
            console.line(format_args!("  {what}  {}", printable(text)))?;
        }
    }
    for (name, value) in &message.attributes {
        console.line(format_args!("  {} = {}", printable(name), printable(value)))?;
    }
    console.line(body_text(message.body.as_deref(), message.body_base64.as_deref()))?;
    console.line("")?;
    Ok(())
}

/// Returns the body of a message as text. A body that is not UTF-8 stays in base64.
pub(super) fn body_text(body: Option<&str>, body_base64: Option<&str>) -> String {
    match (body, body_base64) {
        (Some(text), _) => printable_lines(text),
        (None, Some(encoded)) => {
            let length = grouped(encoded.len() as u64);
            format!("(no text; {length} characters of base64) {encoded}")
        }
        (None, None) => String::new(),
    }
}
