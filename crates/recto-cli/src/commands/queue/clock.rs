//! `recto queue confirm-clock`: confirms that the clock is right by which an embedded store deletes
//! old data.

use clap::Args;
use recto::session::Queues;

use crate::console::{Console, Tone};
use crate::failure::{Exit, Result};
use crate::store::StoreArgs;

const EXAMPLES: &str = "\
Examples:
  recto queue confirm-clock --store shop.data

An embedded store records the time every hour. The clock may be wrong if it is ahead of that record by more \
than a day, and by more than a tenth of the time for which a queue or a collection (`keep`) keeps its data. \
Then a process deletes no old data of this queue or collection. This also happens once after a store was closed for longer. Check the clock (`date`), then confirm \
it. If you confirmed a wrong time, set the clock and confirm it again.";

/// Arguments of `recto queue confirm-clock`.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct ConfirmClockArgs {
    #[command(flatten)]
    pub(crate) store: StoreArgs,
}

/// Runs `recto queue confirm-clock`: confirms that the local clock is right, so that messages expire by it.
pub(crate) async fn confirm(queues: &dyn Queues, console: &mut Console) -> Result<Exit> {
    let time = queues.confirm_clock().await?;
    let mark = console.paint(Tone::Good, "✓");
    console.line(format_args!(
        "{mark} the clock is confirmed: {time}; queues and collections delete old data by this clock"
    ))?;
    Ok(Exit::Done)
}
