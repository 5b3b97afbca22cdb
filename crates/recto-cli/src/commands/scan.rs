//! `recto scan`: prints all records of a collection, or those that satisfy a filter.

use clap::Args;
use futures::StreamExt;
use recto::Session;
use recto::session::{ScanStep, version_json};
use recto_api::scans::ScanRequest;
use serde_json::json;

use crate::console::{Console, Tone};
use crate::failure::{Exit, Failure, Result};
use crate::stop::Stop;
use crate::store::StoreArgs;

const EXAMPLES: &str = "\
Examples:
  recto scan posts > posts.ndjson
  recto scan posts --fields user_id,post_id | head
  recto scan posts --filter 'user_id = 7' > seven.ndjson
  recto scan posts --resume-token TOKEN >> posts.ndjson      continue a scan that stopped

The order of the records depends on the kind of store. If pages can be served for the filter, the scan \
reads only the records that satisfy it. With any other filter, it reads all records of the collection. A \
scan that stops or fails prints a token to standard error, with which it can continue.";

/// Arguments of `recto scan`.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct ScanArgs {
    /// Name of the collection
    pub(crate) collection: String,
    #[command(flatten)]
    pub(crate) request: ScanRequest,
    /// Print NDJSON, as without this option
    #[arg(long, hide = true)]
    pub(crate) json: bool,
    #[command(flatten)]
    pub(crate) store: StoreArgs,
}

/// Runs `recto scan`: prints all records of a collection as NDJSON.
pub(crate) async fn run(args: &ScanArgs, session: &dyn Session, console: &mut Console) -> Result<Exit> {
    let mut stop = Stop::listen();
    let mut steps = session.scan(&args.collection, &args.request);
    let mut token = args.request.resume_token.clone();
    loop {
        let step = tokio::select! {
            biased;
            () = stop.requested() => {
                say_how_to_go_on(args, token.as_deref(), console)?;
                return Ok(Exit::Interrupted);
            }
            step = steps.next() => step,
        };
        match step {
            None => return Ok(Exit::Done),
            Some(Ok(step)) => {
                print(&step, console)?;
                token = step.resume;
            }
            Some(Err(error)) => {
                let column = error.column();
                let mut failure = Failure::from(error);
                if let Some(column) = column {
                    failure = failure.pointing(&args.request.filter, column);
                }
                // After a rejected request, do not suggest to continue from the token: the same
                // token would be rejected again.
                let is_stopped = failure.exit != Exit::Refused;
                if is_stopped && token.is_some() {
                    say_how_to_go_on(args, token.as_deref(), console)?;
                }
                return Err(failure);
            }
        }
    }
}

/// Prints and flushes the records of one step of a scan. So the token of the step covers only
/// records that were printed.
fn print(step: &ScanStep, console: &mut Console) -> Result<()> {
    for (index, record) in step.records.iter().enumerate() {
        let written = match &step.versions {
            None => serde_json::to_writer(console.out(), record),
            Some(versions) => {
                let version = version_json(versions[index]);
                serde_json::to_writer(console.out(), &json!({ "record": record, "version": version }))
            }
        };
        written.map_err(std::io::Error::from)?;
        console.out().write_all(b"\n")?;
    }
    console.flush()?;
    Ok(())
}

fn say_how_to_go_on(args: &ScanArgs, token: Option<&str>, console: &mut Console) -> Result<()> {
    let command = match token {
        Some(token) => format!("recto scan {} --resume-token {token}", args.collection),
        None => format!("recto scan {}", args.collection),
    };
    let stopped = console.err_paint(Tone::Warning, "stopped;");
    console.note(format_args!(
        "{stopped} to continue, run with the same options: {command}"
    ))?;
    Ok(())
}
