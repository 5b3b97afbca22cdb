//! The command line `recto`: words in, words out.
//!
//! Every command speaks to a [`recto::Session`] and holds nothing that another surface would need:
//! it reads arguments, asks the session, and draws the answer.
//!
//! | module | holds |
//! |---|---|
//! | `cli` | the commands there are, with their help |
//! | `commands` | one module per command or few that belong together |
//! | `store` | which store: options, environment, file |
//! | `console` | standard streams, the terminal, keys |
//! | `failure` | errors as they are shown, exit codes |
//! | `table`, `progress`, `text` | drawing: tables, progress bars, numbers |
//! | `stop` | Ctrl-C |
//! | `checkpoint` | how far work is, in a file |

mod checkpoint;
mod cli;
mod commands;
mod console;
mod failure;
mod progress;
mod stop;
mod store;
mod table;
mod text;

#[cfg(test)]
mod tests;

use std::process::ExitCode;

use crate::cli::Cli;
use crate::console::Console;
use crate::failure::{Exit, Failure};

fn main() -> ExitCode {
    let cli = Cli::read(std::env::args_os()).unwrap_or_else(|error| error.exit());
    let mut console = Console::standard();
    let exit = match tokio::runtime::Builder::new_multi_thread().enable_all().build() {
        Ok(runtime) => {
            let outcome = runtime.block_on(async {
                let outcome = commands::run(cli.command, &mut console).await;
                store::leave().await;
                outcome
            });
            // Work that was told to stop must not hold up the end of the process.
            runtime.shutdown_background();
            finish(outcome, &mut console)
        }
        Err(error) => {
            let failure = Failure::new(Exit::Failed, format!("cannot start the runtime: {error}"));
            finish(Err(failure), &mut console)
        }
    };
    ExitCode::from(exit.code())
}

/// Hands on what was written, and shows what failed.
fn finish(outcome: failure::Result<Exit>, console: &mut Console) -> Exit {
    let flushed = console.flush().map_err(Failure::from);
    let outcome = match (outcome, flushed) {
        (Ok(exit), Ok(())) => Ok(exit),
        (Err(failure), _) | (Ok(_), Err(failure)) => Err(failure),
    };
    outcome.unwrap_or_else(|failure| {
        failure.show(console);
        failure.exit
    })
}
