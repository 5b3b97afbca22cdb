//! `recto queue send`: sends messages to a queue.

use std::collections::BTreeMap;
use std::path::PathBuf;

use clap::Args;
use recto::ErrorKind;
use recto::session::{OutgoingMessage, Queues, SentMessage};
use recto_api::display::time_seconds;
use serde_json::{Value as Json, json};

use super::lines::{Line, Lines};
use crate::console::{Console, Tone};
use crate::failure::{Exit, Failure, Result};
use crate::progress::{Meter, per_second};
use crate::stop::Stop;
use crate::store::StoreArgs;
use crate::text::{counted, duration, grouped};

/// Maximum number of rejected messages whose errors are printed as text; `--json` prints all.
const MAX_REFUSED_SHOWN: u64 = 20;

const EXAMPLES: &str = "\
Examples:
  recto queue send mails 'to ada' 'to grace'
  recto queue send mails --attribute lang=en --delay 10m 'good morning'
  recto queue send mails < addresses.txt                          send each line as a message
  recto queue send orders.fifo --ndjson --file orders.ndjson
  recto queue send mails --json 'to ada' | jq -r .id

--ndjson reads each line as a JSON object, such as {\"body\": \"to ada\", \"attributes\": {\"lang\": \
\"en\"}}. It has body (text) or body_base64. It can also have attributes, delay_seconds, group and \
deduplication_id.

Messages are sent in the order of the lines, up to 1,000 and 2 MiB at a time. A counted message is durable. \
The command names the line of each rejected message, and sends the others; the exit code is then 4. The \
exit code is 5 if it is unknown whether some messages were sent. Send these again with the same \
deduplication ids within five minutes: no message is sent twice.";

/// Arguments of `recto queue send`.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct SendArgs {
    /// Name of the queue
    #[arg(value_name = "NAME")]
    name: String,
    /// Bodies of messages [default: the lines of standard input]
    #[arg(value_name = "BODY", conflicts_with_all = ["file", "ndjson"])]
    bodies: Vec<String>,
    /// File whose lines are messages
    #[arg(long, value_name = "FILE")]
    file: Option<PathBuf>,
    /// Read each line as a JSON object with all members of a message
    #[arg(long, conflicts_with_all = ["attributes", "delay", "group", "deduplication_id"])]
    ndjson: bool,
    /// Attribute of each message; can be repeated
    #[arg(long = "attribute", value_name = "NAME=VALUE", value_parser = attribute)]
    attributes: Vec<(String, String)>,
    /// Delay of the messages: up to 30d [default: the delay of the queue]
    #[arg(long, value_name = "TIME", value_parser = time_seconds)]
    delay: Option<u32>,
    /// Group of the messages, in an ordered queue
    #[arg(long, value_name = "GROUP")]
    group: Option<String>,
    /// Deduplication id of the message: within five minutes, the queue accepts no other message
    /// with this id
    #[arg(long, value_name = "ID", requires = "bodies")]
    deduplication_id: Option<String>,
    /// Show no progress
    #[arg(long, short)]
    quiet: bool,
    /// Print the outcome of each message as a line of JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    pub(crate) store: StoreArgs,
}

fn attribute(text: &str) -> std::result::Result<(String, String), String> {
    let expected = || "write NAME=VALUE, such as lang=en".to_owned();
    let (name, value) = text.split_once('=').ok_or_else(expected)?;
    Ok((name.to_owned(), value.to_owned()))
}

impl SendArgs {
    /// Creates a message with the given body, and with the attributes and other options of the
    /// command line.
    fn message(&self, body: Vec<u8>) -> OutgoingMessage {
        OutgoingMessage {
            attributes: self.attributes.iter().cloned().collect::<BTreeMap<_, _>>(),
            delay_seconds: self.delay,
            group: self.group.clone(),
            deduplication_id: self.deduplication_id.clone(),
            ..OutgoingMessage::of(body)
        }
    }

    /// Parses an input line as a message. With `--ndjson`, returns `None` for a blank line. Without
    /// `--ndjson`, a blank line is a message.
    fn read(&self, line: Line) -> std::result::Result<Option<OutgoingMessage>, String> {
        let content = line.content()?;
        if !self.ndjson {
            return Ok(Some(self.message(content)));
        }
        if content.trim_ascii().is_empty() {
            return Ok(None);
        }
        let message = serde_json::from_slice(&content);
        message.map(Some).map_err(|error| {
            // Remove the JSON parser's line number, which is always 1. The failure already names
            // the line of the input.
            let why = error.to_string().replace(" at line 1 column ", " at column ");
            format!("not a valid message: {why}")
        })
    }
}

/// Runs `recto queue send`: sends arguments or input lines as messages.
pub(crate) async fn run(args: &SendArgs, queues: &dyn Queues, console: &mut Console) -> Result<Exit> {
    if args.deduplication_id.is_some() && args.bodies.len() > 1 {
        return Err(Failure::new(
            Exit::Refused,
            "--deduplication-id takes one message, but there are several; nothing was sent",
        )
        .with_hint("use --ndjson, with a deduplication_id in each message"));
    }
    let mut stop = Stop::listen();
    let meter = Meter::start(console, args.quiet || args.json);
    let mut sending = Sending {
        args,
        queues,
        noun: if args.bodies.is_empty() { "line" } else { "message" },
        totals: Totals::default(),
    };
    let is_stopped = if args.bodies.is_empty() {
        sending.lines(&meter, &mut stop, console).await?
    } else {
        sending.bodies(&meter, &mut stop, console).await
    };
    let elapsed = meter.elapsed();
    meter.finish();
    sending.end(elapsed, is_stopped, console)
}

/// State of one run of `recto queue send`.
struct Sending<'a> {
    args: &'a SendArgs,
    queues: &'a dyn Queues,
    /// Noun for positions of messages in reports: `line` or `message`.
    noun: &'static str,
    totals: Totals,
}

/// Messages to send in one request, and input lines that are invalid as messages. Each comes with
/// its position in the input, from 1.
#[derive(Default)]
struct Batch {
    messages: Vec<(u64, OutgoingMessage)>,
    refused: Vec<(u64, Failure)>,
}

/// Counters and errors over all messages that were processed so far.
#[derive(Debug, Default)]
struct Totals {
    sent: u64,
    duplicates: u64,
    refused: u64,
    /// Position (from 1) in the input of the last message that was processed.
    last: u64,
    /// True if the outcome of the messages after position `last` is unknown.
    is_in_doubt: bool,
    /// Reason why the command sends no further messages; `None` while it continues.
    ended: Option<Failure>,
    /// True if results can no longer be printed, because the reader of standard output has closed
    /// it.
    is_unheard: bool,
    /// Error of the last rejected message; `None` if none was rejected.
    refusal: Option<Failure>,
}

impl Sending<'_> {
    /// Sends each input line as a message. Returns true if a signal to stop arrived before the end
    /// of the input.
    async fn lines(&mut self, meter: &Meter, stop: &mut Stop, console: &mut Console) -> Result<bool> {
        if self.args.file.is_none() && console.input_is_terminal() {
            console.note("Each line is a message; Ctrl-D ends the input.")?;
        }
        let mut lines = Lines::open(self.args.file.as_deref(), console)?;
        loop {
            let some = tokio::select! {
                biased;
                () = stop.requested() => return Ok(true),
                some = lines.next() => some,
            };
            let some = match some {
                Ok(Some(some)) => some,
                Ok(None) => return Ok(false),
                // Keep the failure instead of returning it, so that the command still reports the messages
                // that were sent.
                Err(failure) => {
                    self.totals.ended = Some(failure);
                    return Ok(false);
                }
            };
            let mut batch = Batch::default();
            for line in some {
                let number = line.number;
                match self.args.read(line) {
                    Ok(Some(message)) => batch.messages.push((number, message)),
                    Ok(None) => {}
                    Err(why) => batch.refused.push((number, Failure::new(Exit::Refused, why))),
                }
            }
            self.send(batch, console).await;
            meter.messages(self.totals.sent);
            if self.totals.ended.is_some() {
                return Ok(false);
            }
        }
    }

    /// Sends each command-line argument as a message. Returns true if a signal to stop arrived
    /// before the last message.
    async fn bodies(&mut self, meter: &Meter, stop: &mut Stop, console: &mut Console) -> bool {
        let mut number = 0;
        for bodies in self.args.bodies.chunks(super::MAX_BATCH as usize) {
            let messages = bodies
                .iter()
                .map(|body| self.args.message(body.clone().into_bytes()));
            let batch = Batch {
                messages: (number + 1..).zip(messages).collect(),
                refused: Vec::new(),
            };
            number += bodies.len() as u64;
            self.send(batch, console).await;
            meter.messages(self.totals.sent);
            if self.totals.ended.is_some() {
                return false;
            }
            if stop.is_requested() {
                return true;
            }
        }
        false
    }

    /// Sends a batch of messages in one request, and prints their results in the order of the
    /// input.
    async fn send(&mut self, batch: Batch, console: &mut Console) {
        let Batch { messages, refused } = batch;
        let last = messages.iter().map(|(number, _)| *number);
        let last = last.chain(refused.iter().map(|(number, _)| *number)).max();
        let mut outcomes: BTreeMap<_, _> = refused
            .into_iter()
            .map(|(number, why)| (number, Err(why)))
            .collect();
        let (numbers, messages): (Vec<_>, Vec<_>) = messages.into_iter().unzip();
        let results = if messages.is_empty() {
            Ok(Vec::new())
        } else {
            self.queues.send(&self.args.name, messages).await
        };
        match results {
            Ok(results) => {
                self.totals.last = last.unwrap_or(self.totals.last);
                for (number, result) in numbers.into_iter().zip(results) {
                    outcomes.insert(number, result.map_err(|error| self.not_sent(error)));
                }
            }
            Err(error) => {
                self.totals.is_in_doubt = error.kind() == ErrorKind::OutcomeUnknown;
                self.totals.ended = Some(Failure::from(error));
            }
        }
        for (number, outcome) in outcomes {
            match outcome {
                Ok(sent) => self.count(number, &sent, console),
                Err(failure) => self.refuse(number, failure, console),
            }
        }
        let flushed = console.flush();
        self.is_heard(flushed);
    }

    /// Converts the error of one message to a failure. If the message was invalid, sending
    /// continues. Any other error ends the command.
    fn not_sent(&mut self, error: recto::Error) -> Failure {
        let goes_on = error.kind() == ErrorKind::InvalidArgument;
        let failure = Failure::from(error);
        if !goes_on && self.totals.ended.is_none() {
            self.totals.ended = Some(Failure::new(failure.exit, "not all messages were sent"));
        }
        failure
    }

    fn count(&mut self, number: u64, sent: &SentMessage, console: &mut Console) {
        self.totals.sent += u64::from(!sent.duplicate);
        self.totals.duplicates += u64::from(sent.duplicate);
        self.tell(
            json!({ self.noun: number, "id": sent.id, "duplicate": sent.duplicate }),
            console,
        );
    }

    /// Counts a rejected message, and prints its error.
    fn refuse(&mut self, number: u64, failure: Failure, console: &mut Console) {
        self.totals.refused += 1;
        self.tell(json!({ self.noun: number, "error": failure.message() }), console);
        if self.args.bodies.len() == 1 {
            self.totals.refusal = Some(failure);
        } else if self.totals.refused <= MAX_REFUSED_SHOWN {
            failure
                .at(&format!("{} {}", self.noun, grouped(number)))
                .show(console);
        }
    }

    /// Prints the result of one message as a line of JSON, if `--json` is given.
    fn tell(&mut self, said: Json, console: &mut Console) {
        if self.args.json && !self.totals.is_unheard {
            let told = console.line(said);
            self.is_heard(told);
        }
    }

    /// Handles an error of printing a result. The command still sends all messages from arguments,
    /// but reads no further input lines.
    fn is_heard(&mut self, told: std::io::Result<()>) {
        let Err(error) = told else { return };
        self.totals.is_unheard = true;
        if self.args.bodies.is_empty() && self.totals.ended.is_none() {
            let why = format!("cannot print the outcomes of messages: {error}");
            self.totals.ended = Some(Failure::new(Exit::Failed, why));
        }
    }

    /// Prints a summary of all sent messages, and returns the exit code.
    fn end(self, elapsed: std::time::Duration, is_stopped: bool, console: &mut Console) -> Result<Exit> {
        let Totals {
            sent,
            duplicates,
            refused,
            last,
            is_in_doubt,
            ended,
            is_unheard: _,
            refusal,
        } = self.totals;
        if let Some(refusal) = refusal {
            return Err(refusal);
        }
        let mut said = format!(
            "{} sent in {}",
            counted(sent, "message", "messages"),
            duration(elapsed)
        );
        said.extend(per_second(sent, elapsed).map(|rate| format!(", {}/s", grouped(rate))));
        if duplicates > 0 {
            said.push_str(&format!("; {} had been sent already", grouped(duplicates)));
        }
        if refused > 0 {
            said.push_str(&format!("; {} not sent", grouped(refused)));
        }
        let is_all = refused == 0 && ended.is_none() && !is_stopped;
        let mark = if is_all {
            console.err_paint(Tone::Good, "✓")
        } else {
            console.err_paint(Tone::Warning, "!")
        };
        if !self.args.quiet || !is_all {
            console.note(format_args!("{mark} {said}"))?;
        }
        if is_stopped || ended.is_some() {
            let noun = self.noun;
            let from = match last {
                last if is_in_doubt => {
                    format!("{noun}s after {} may or may not have been sent", grouped(last))
                }
                0 => format!("no {noun} was sent"),
                last => format!("{noun}s after {} were not sent", grouped(last)),
            };
            console.note(format_args!("{from}"))?;
        }
        match ended {
            Some(failure) => Err(failure),
            None if is_stopped => Ok(Exit::Interrupted),
            None if refused > 0 => Ok(Exit::Partly),
            None => Ok(Exit::Done),
        }
    }
}
