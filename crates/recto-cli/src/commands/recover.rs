//! `recto recover`: completes changes that crashed processes left incomplete on Cassandra.

use std::sync::{Mutex, PoisonError, mpsc};
use std::time::Duration;

use clap::Args;
use recto::Session;
use recto::session::RecoveryPass;
use serde_json::json;

use super::print_json;
use super::upkeep::OutputArgs;
use crate::console::{Console, Tone};
use crate::failure::{Exit, Failure, Result};
use crate::progress::Meter;
use crate::stop::Stop;
use crate::store::StoreArgs;
use crate::text::{counted, duration};

/// Maximum duration of the command without `--watch`. It is long enough to detect dead processes,
/// which takes half a minute.
const MAX_RECOVERY_TIME: Duration = Duration::from_secs(120);

/// Interval at which the command prints new lines of output.
const TELLING_PAUSE: Duration = Duration::from_millis(200);

const EXAMPLES: &str = "\
Examples:
  recto recover --store cassandra://db1/shop
  recto recover --watch        continue until Ctrl-C, with a line for each change
  recto recover --json

On Cassandra, a process that crashes while it changes records can leave a change incomplete: the record is new, and a view \
still shows the old entry. Every other process that writes, and every server, finishes such changes within a minute. Run this \
command if none is running, or to watch the work. An embedded store never has incomplete changes. The exit code is 4 if some \
changes are still incomplete.";

/// Arguments of `recto recover`.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct RecoverArgs {
    /// Continue until Ctrl-C
    #[arg(long)]
    watch: bool,
    #[command(flatten)]
    output: OutputArgs,
    #[command(flatten)]
    pub(crate) store: StoreArgs,
}

/// Result of the last pass over unfinished changes, and totals over all passes.
#[derive(Debug, Clone, Copy, Default)]
struct Total {
    last: RecoveryPass,
    looks: u64,
    found_dead: usize,
    removed: usize,
    resolved: usize,
}

impl Total {
    fn add(&mut self, pass: RecoveryPass) {
        self.last = pass;
        self.looks += 1;
        self.found_dead += pass.found_dead;
        self.removed += pass.removed;
        self.resolved += pass.resolved;
    }

    fn to_json(self) -> serde_json::Value {
        json!({
            "living": self.last.living,
            "watched": self.last.watched,
            "unresolved": self.last.unresolved,
            "waiting": self.last.waiting,
            "found_dead": self.found_dead,
            "removed": self.removed,
            "resolved": self.resolved,
        })
    }

    fn line(&self, json: bool) -> String {
        if json {
            self.to_json().to_string()
        } else {
            self.text()
        }
    }

    fn text(&self) -> String {
        let mut parts = vec![counted(
            self.last.living as u64,
            "process lives",
            "processes live",
        )];
        for (count, one, more) in [
            (self.last.watched, "is watched", "are watched"),
            (self.found_dead, "was found dead", "were found dead"),
            (
                self.last.unresolved,
                "is still to be resolved",
                "are still to be resolved",
            ),
            (
                self.last.waiting,
                "is resolved once more after a day",
                "are resolved once more after a day",
            ),
            (self.removed, "is removed", "are removed"),
        ] {
            if count > 0 {
                parts.push(counted(count as u64, one, more));
            }
        }
        parts.push(counted(
            self.resolved as u64,
            "record resolved",
            "records resolved",
        ));
        parts.join(", ")
    }
}

/// Runs `recto recover`: recovers changes until none is left, or until Ctrl-C.
pub(crate) async fn run(args: &RecoverArgs, session: &dyn Session, console: &mut Console) -> Result<Exit> {
    let meter = Meter::start(console, args.output.quiet || args.watch);
    let total = Mutex::new(Total::default());
    let (tell, told) = mpsc::channel();
    let goes_on = |pass: RecoveryPass| {
        let mut total = total.lock().unwrap_or_else(PoisonError::into_inner);
        let before = total.text();
        total.add(pass);
        meter.recover(total.looks, &total.text());
        if args.watch && (args.output.json || total.looks == 1 || before != total.text()) {
            // Sending cannot fail, because the receiver lives until the function ends.
            let _ = tell.send(total.line(args.output.json));
        }
        args.watch || (!pass.is_done() && meter.elapsed() < MAX_RECOVERY_TIME)
    };
    let (tell_failure, failures) = mpsc::channel();
    let bears = |error| {
        if !args.watch {
            return Err(error);
        }
        let _ = tell_failure.send(Failure::from(error));
        Ok(())
    };
    let mut stop = Stop::listen();
    let tools = session.tools()?;
    let mut recovering = tools.recover(&goes_on, &bears);
    let mut is_stopped = false;
    let has_writers = loop {
        let pass = tokio::select! {
            pass = &mut recovering => Some(pass?.is_some()),
            () = stop.requested() => {
                is_stopped = true;
                Some(true)
            }
            () = tokio::time::sleep(TELLING_PAUSE) => None,
        };
        for line in told.try_iter() {
            console.line(line)?;
        }
        for failure in failures.try_iter() {
            failure.show(console);
        }
        if let Some(has_writers) = pass {
            break has_writers;
        }
    };
    drop(recovering);
    let elapsed = meter.elapsed();
    meter.finish();
    let total = *total.lock().unwrap_or_else(PoisonError::into_inner);
    let exit = end(args, has_writers.then_some(total), elapsed, console)?;
    Ok(if is_stopped && !args.watch {
        Exit::Interrupted
    } else {
        exit
    })
}

fn end(args: &RecoverArgs, total: Option<Total>, elapsed: Duration, console: &mut Console) -> Result<Exit> {
    let Some(total) = total else {
        if args.output.json {
            print_json(console, &Total::default().to_json())?;
        } else {
            console.line(
                "An embedded store has nothing to recover: it makes each change as a whole or not at all.",
            )?;
        }
        return Ok(Exit::Done);
    };
    let is_left = total.last.unresolved > 0;
    let exit = if is_left { Exit::Partly } else { Exit::Done };
    if args.output.json {
        if !args.watch {
            print_json(console, &total.to_json())?;
        }
        return Ok(exit);
    }
    let mark = if is_left {
        console.paint(Tone::Bad, "✗")
    } else {
        console.paint(Tone::Good, "✓")
    };
    console.line(format_args!("{mark} {} in {}", total.text(), duration(elapsed)))?;
    Ok(exit)
}
