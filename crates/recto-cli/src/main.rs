//! The command line `recto`: words in, words out.
//!
//! Every command speaks to a [`recto::Session`] and holds nothing that another surface would need:
//! it reads arguments, asks the session, and draws the answer.
//!
//! | module | holds |
//! |---|---|
//! | `cli` | the commands there are, with their help; in a program that has `recto demo` only, its words |
//! | `commands` | one module per command or few that belong together |
//! | `store` | which store: options, environment, file |
//! | `opening` | opening that store |
//! | `console` | standard streams |
//! | `terminal` | its size, its keys |
//! | `failure` | errors as they are shown, exit codes |
//! | `table`, `progress`, `text` | drawing: tables, progress bars, numbers |
//! | `stop` | Ctrl-C |
//! | `checkpoint` | how far work is, in a file |

// Without its other commands, the program uses only a part of what they share.
#![cfg_attr(not(feature = "full"), allow(dead_code))]

#[cfg(feature = "full")]
mod checkpoint;
#[cfg(feature = "full")]
mod cli;
#[cfg(not(feature = "full"))]
#[path = "demo_only.rs"]
mod cli;
mod commands;
mod console;
mod failure;
mod opening;
mod progress;
mod stop;
#[cfg(feature = "full")]
mod store;
mod table;
#[cfg(feature = "full")]
mod terminal;
#[cfg(not(feature = "full"))]
#[path = "no_keys.rs"]
mod terminal;
mod text;

#[cfg(feature = "full")]
#[cfg(test)]
mod tests;

use std::process::ExitCode;

use crate::cli::Cli;
use crate::console::Console;
use crate::failure::{Exit, Failure};

fn main() -> ExitCode {
    let mut console = Console::standard();
    #[cfg(feature = "full")]
    let cli = Cli::read(std::env::args_os()).unwrap_or_else(|error| error.exit());
    #[cfg(not(feature = "full"))]
    let cli = match Cli::read(std::env::args_os().skip(1)) {
        Ok(Some(cli)) => cli,
        told => {
            let told = told.map(|_| cli::HELP);
            let outcome = told.and_then(|help| Ok(console.line(help).map(|()| Exit::Done)?));
            return ExitCode::from(finish(outcome, &mut console).code());
        }
    };
    let exit = match tokio::runtime::Builder::new_multi_thread().enable_all().build() {
        Ok(runtime) => {
            let outcome = runtime.block_on(async {
                let outcome = cli.run(&mut console).await;
                opening::leave().await;
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
