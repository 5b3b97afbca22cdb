//! Command line `recto`.
//!
//! Every command uses a [`recto::Session`] and contains no logic that another interface would need. It parses
//! arguments, calls the session, and prints the result.
//!
//! | module | holds |
//! |---|---|
//! | `cli` | commands and their help; in a program with only `recto demo`, its arguments |
//! | `commands` | one module for each command or group of commands |
//! | `store` | choice of the store: options, environment, file |
//! | `opening` | opening of that store |
//! | `console` | standard streams |
//! | `terminal` | size and keys of the terminal |
//! | `failure` | display of errors, exit codes |
//! | `table`, `progress`, `text` | drawing: tables, progress bars, numbers |
//! | `stop` | Ctrl-C |
//! | `checkpoint` | file with the position of an operation |

// Allow dead code in a program with only `recto demo`, which uses a part of the shared code.
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
            // Do not wait for blocking tasks of an aborted operation, which would delay the end of
            // the process.
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

/// Flushes the output, prints a failure if there is one, and returns the exit code's kind.
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
