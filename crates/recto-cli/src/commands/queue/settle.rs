//! `recto queue ack`, `nack` and `extend`: acknowledge received messages, give them back, or extend their
//! visibility timeouts.

use clap::Args;
use recto::queues::receipt_from_text;
use recto::session::{Queues, Settling};
use recto_api::display::time_seconds;
use serde_json::{Value as Json, json};

use super::MAX_BATCH;
use super::lines::{Line, Lines};
use crate::commands::print_json;
use crate::console::{Console, Tone};
use crate::failure::{Exit, Failure, Result};
use crate::store::StoreArgs;
use crate::text::{counted, grouped, printable};

/// Hint for an argument or input line that is not a receipt.
const SHOW_AS_RECEIVED: &str = "give each receipt as `recto queue receive` printed it";

const ACK_EXAMPLES: &str = "\
Examples:
  recto queue ack mails RECEIPT
  recto queue receive mails --max 100 --json | recto queue ack mails

Without receipts, the command reads them from standard input: one receipt a line, or the lines of JSON that \
`receive` prints. It opens the store when the first line arrives. If a text is not a receipt, only this \
text fails. If a message was received again, its old receipt does not acknowledge it. The command names \
such texts and receipts, and the exit code is 4. You can acknowledge a message twice.";

const NACK_EXAMPLES: &str = "\
Examples:
  recto queue nack mails RECEIPT
  recto queue nack mails RECEIPT --delay 5m --error 'no such address'

The message can be received again after the delay. If it was received as often as the queue allows, it \
becomes a dead letter, with the error as an attribute. Without receipts, the command reads them from \
standard input, as `ack` does.";

const EXTEND_EXAMPLES: &str = "\
Examples:
  recto queue extend mails RECEIPT --visibility 10m

The new timeout starts now. Without receipts, the command reads them from standard input, as `ack` does.";

/// Receipts of the messages.
#[derive(Debug, Args)]
pub(crate) struct ReceiptsArgs {
    /// Name of the queue
    #[arg(value_name = "NAME")]
    name: String,
    /// Receipts that `receive` printed [default: those on standard input]
    #[arg(value_name = "RECEIPT")]
    receipts: Vec<String>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// Arguments of `recto queue ack`.
#[derive(Debug, Args)]
#[command(after_help = ACK_EXAMPLES)]
pub(crate) struct AckArgs {
    #[command(flatten)]
    which: ReceiptsArgs,
    #[command(flatten)]
    pub(crate) store: StoreArgs,
}

/// Arguments of `recto queue nack`.
#[derive(Debug, Args)]
#[command(after_help = NACK_EXAMPLES)]
pub(crate) struct NackArgs {
    #[command(flatten)]
    which: ReceiptsArgs,
    /// Delay after which the messages can be received again
    #[arg(long, value_name = "TIME", default_value = "0", value_parser = time_seconds)]
    delay: u32,
    /// Reason, which `peek` shows
    #[arg(long, value_name = "TEXT", default_value = "", hide_default_value = true)]
    error: String,
    #[command(flatten)]
    pub(crate) store: StoreArgs,
}

/// Arguments of `recto queue extend`.
#[derive(Debug, Args)]
#[command(after_help = EXTEND_EXAMPLES)]
pub(crate) struct ExtendArgs {
    #[command(flatten)]
    which: ReceiptsArgs,
    /// Visibility timeout from now on: up to 12h
    #[arg(long, value_name = "TIME", value_parser = time_seconds)]
    visibility: u32,
    #[command(flatten)]
    pub(crate) store: StoreArgs,
}

impl ReceiptsArgs {
    /// Waits for the first line of standard input, if the receipts come from there. The process
    /// that writes the receipts may have the store open until then. Returns whether it waited.
    pub(super) async fn await_input(&self, console: &mut Console) -> Result<bool> {
        if !self.receipts.is_empty() || console.input_is_terminal() {
            return Ok(false);
        }
        let mut input = console.take_input();
        let waited = tokio::task::spawn_blocking(move || {
            // Ignore an error here: the first read of the receipts returns it again.
            let _ = input.fill_buf().map(<[u8]>::len);
            input
        });
        let input = waited.await;
        console.give_input(input.map_err(|error| Failure::new(Exit::Failed, error.to_string()))?);
        Ok(true)
    }
}

impl AckArgs {
    pub(super) fn which(&self) -> &ReceiptsArgs {
        &self.which
    }
}

impl NackArgs {
    pub(super) fn which(&self) -> &ReceiptsArgs {
        &self.which
    }
}

impl ExtendArgs {
    pub(super) fn which(&self) -> &ReceiptsArgs {
        &self.which
    }
}

/// Runs `recto queue ack`: acknowledges received messages.
pub(crate) async fn ack(args: &AckArgs, queues: &dyn Queues, console: &mut Console) -> Result<Exit> {
    settle(&args.which, &Settling::Ack, "acknowledged", queues, console).await
}

/// Runs `recto queue nack`: gives received messages back.
pub(crate) async fn nack(args: &NackArgs, queues: &dyn Queues, console: &mut Console) -> Result<Exit> {
    let back = Settling::Nack {
        delay_seconds: args.delay,
        error: args.error.clone(),
    };
    settle(&args.which, &back, "given back", queues, console).await
}

/// Runs `recto queue extend`: extends the visibility timeout of received messages.
pub(crate) async fn extend(args: &ExtendArgs, queues: &dyn Queues, console: &mut Console) -> Result<Exit> {
    let keep = Settling::Extend {
        visibility_seconds: args.visibility,
    };
    settle(&args.which, &keep, "kept", queues, console).await
}

async fn settle(
    which: &ReceiptsArgs,
    settling: &Settling,
    done: &str,
    queues: &dyn Queues,
    console: &mut Console,
) -> Result<Exit> {
    let mut outcome = Outcome::default();
    if which.receipts.is_empty() {
        if console.input_is_terminal() {
            console.note("Reading receipts, one a line; Ctrl-D ends the input.")?;
        }
        let mut lines = Lines::open(None, console)?;
        while let Some(some) = lines.next().await? {
            let mut given = Vec::with_capacity(some.len());
            for line in some {
                let place = format!("line {}", grouped(line.number));
                match receipt(line) {
                    Ok(Some(receipt)) => given.push((place, receipt)),
                    Ok(None) => {}
                    Err(why) => outcome.malformed.push((place, why)),
                }
            }
            outcome.settle(&which.name, given, settling, done, queues).await?;
        }
    } else {
        let given = which.receipts.iter().enumerate();
        let mut given = given.map(|(index, receipt)| (format!("receipt {}", index + 1), receipt.clone()));
        loop {
            let some: Vec<_> = given.by_ref().take(MAX_BATCH as usize).collect();
            if some.is_empty() {
                break;
            }
            outcome.settle(&which.name, some, settling, done, queues).await?;
        }
    }
    outcome.tell(which.json, done, console)
}

/// Parses an input line as a receipt: the line itself, or the member `receipt` of a JSON message.
/// Returns `None` for an empty line.
fn receipt(line: Line) -> std::result::Result<Option<String>, String> {
    let text = String::from_utf8(line.content()?).map_err(|error| format!("not text: {error}"))?;
    let text = text.trim();
    if !text.starts_with('{') {
        return Ok((!text.is_empty()).then(|| text.to_owned()));
    }
    let message: Json = serde_json::from_str(text).map_err(|error| format!("not JSON: {error}"))?;
    let receipt = message.get("receipt").and_then(Json::as_str);
    let none = || "no member `receipt`".to_owned();
    receipt.map(|receipt| Some(receipt.to_owned())).ok_or_else(none)
}

/// Counters and errors over all receipts that were processed so far.
#[derive(Debug, Default)]
struct Outcome {
    done: u64,
    /// Receipts that are no longer valid, because their visibility timeout has ended.
    lost: Vec<String>,
    /// Arguments or input lines that are not receipts. Each comes with its position and the error.
    malformed: Vec<(String, String)>,
}

impl Outcome {
    /// Acknowledges, gives back or extends the messages of several receipts. Each element of
    /// `given` is a receipt's position in the input, and the receipt.
    async fn settle(
        &mut self,
        queue: &str,
        given: Vec<(String, String)>,
        settling: &Settling,
        done: &str,
        queues: &dyn Queues,
    ) -> Result<()> {
        let (mut places, mut receipts) = (Vec::new(), Vec::new());
        for (place, receipt) in given {
            match receipt_from_text(&receipt) {
                Ok(_) => {
                    places.push(place);
                    receipts.push(receipt);
                }
                // Record an invalid receipt, and continue with the other receipts of the batch.
                Err(error) => self.malformed.push((place, error.message().to_owned())),
            }
        }
        if receipts.is_empty() {
            return Ok(());
        }
        let settled = queues.settle(queue, &receipts, settling).await.map_err(|error| {
            let place = error.change().and_then(|number| places.get(number)).cloned();
            let failure = Failure::from(error);
            self.broken_off(
                done,
                match place {
                    Some(place) => failure.at(&place),
                    None => failure,
                },
            )
        })?;
        for (receipt, is_done) in receipts.into_iter().zip(settled) {
            if is_done {
                self.done += 1;
            } else {
                self.lost.push(receipt);
            }
        }
        Ok(())
    }

    /// Adds the number of messages already processed to the message of a failure that ends the
    /// command.
    fn broken_off(&self, done: &str, failure: Failure) -> Failure {
        match self.done {
            0 => failure,
            count => failure.after(&format!(
                "{} {done} before",
                counted(count, "message", "messages")
            )),
        }
    }

    fn tell(&self, json: bool, done: &str, console: &mut Console) -> Result<Exit> {
        if let ([(place, why), ..], 0, true) = (&self.malformed[..], self.done, self.lost.is_empty()) {
            let refused = Failure::new(Exit::Refused, why.clone()).with_hint(SHOW_AS_RECEIVED);
            return Err(refused.at(place));
        }
        let exit = if self.lost.is_empty() && self.malformed.is_empty() {
            Exit::Done
        } else {
            Exit::Partly
        };
        for (place, why) in &self.malformed {
            console.note(format_args!("{place}: {}", printable(why)))?;
        }
        if json {
            let mut told = json!({ "done": self.done, "lost": self.lost });
            if !self.malformed.is_empty() {
                let malformed = self.malformed.iter();
                let malformed = malformed.map(|(place, why)| json!({ "place": place, "error": why }));
                told["malformed"] = malformed.collect();
            }
            print_json(console, &told)?;
            return Ok(exit);
        }
        if self.done > 0 || self.lost.is_empty() {
            let mark = console.paint(Tone::Good, "✓");
            let messages = counted(self.done, "message", "messages");
            console.line(format_args!("{mark} {messages} {done}"))?;
        }
        if !self.lost.is_empty() {
            let mark = console.paint(Tone::Warning, "!");
            let messages = counted(self.lost.len() as u64, "message is", "messages are");
            console.line(format_args!(
                "{mark} {messages} no longer yours: delivered again, or removed"
            ))?;
            for receipt in &self.lost {
                console.line(format_args!("  {receipt}"))?;
            }
        }
        Ok(exit)
    }
}
