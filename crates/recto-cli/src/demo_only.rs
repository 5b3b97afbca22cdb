//! Command line of a program that has only the command `recto demo`.

use std::ffi::OsString;
use std::time::Duration;

use recto::OpenOptions;

use crate::commands::demo::{self, DemoRequest, FOLDER};
use crate::console::Console;
use crate::failure::{Exit, Failure, Result};
use crate::opening::Place;

/// Text of `recto --help` in a program with only `recto demo`.
pub(crate) const HELP: &str = "\
Create an embedded store with 336,776 real flights, and show pages of it.

Usage: recto demo [OPTIONS]

Options:
  -q, --quiet          Show no progress
      --serve          Serve the console at the end, as on a terminal
      --store FOLDER   Folder of the store [default: recto-demo]
  -h, --help           Print help

This program was built for the demo only. `cargo install --path crates/recto-cli` builds all commands.";

/// Shell command, shown as a hint, that installs a program with all commands.
const FULL_HINT: &str = "cargo install --path crates/recto-cli";

/// Parsed command line of a program that has only `recto demo`.
pub(crate) struct Cli(DemoRequest);

impl Cli {
    /// Parses a command line without the program's name. Returns `None` if the user asks for help.
    ///
    /// # Errors
    /// The command is not `demo`, or `demo` does not have a given option.
    pub(crate) fn read(words: impl IntoIterator<Item = OsString>) -> Result<Option<Self>> {
        let mut words = words.into_iter().map(|word| {
            word.into_string()
                .map_err(|_| refused("an argument is not UTF-8"))
        });
        let (mut store, mut quiet, mut serve) = (FOLDER.to_owned(), false, false);
        match words.next().transpose()?.as_deref() {
            Some("demo") => {}
            None | Some("help" | "-h" | "--help") => return Ok(None),
            Some(other) => {
                let message = format!("this build of recto runs `recto demo` only, not `recto {other}`");
                return Err(Failure::new(Exit::Refused, message).with_hint(FULL_HINT));
            }
        }
        while let Some(word) = words.next().transpose()? {
            match word.as_str() {
                "-h" | "--help" => return Ok(None),
                "-q" | "--quiet" => quiet = true,
                "--serve" => serve = true,
                "--store" => match words.next().transpose()? {
                    Some(folder) => store = folder,
                    None => return Err(refused("--store needs a folder")),
                },
                option => match option.strip_prefix("--store=") {
                    Some(folder) => folder.clone_into(&mut store),
                    None => {
                        return Err(refused(&format!(
                            "`recto demo` of this build has no option {option}"
                        )));
                    }
                },
            }
        }
        let place = Place {
            options: OpenOptions::new(),
            address: store.parse()?,
            wait: Duration::ZERO,
        };
        Ok(Some(Self(DemoRequest { place, quiet, serve })))
    }

    pub(crate) async fn run(self, console: &mut Console) -> Result<Exit> {
        demo::run(self.0, console).await
    }
}

fn refused(message: &str) -> Failure {
    Failure::new(Exit::Refused, message).with_hint("recto demo --help")
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    fn read(line: &str) -> Result<Option<Cli>> {
        Cli::read(line.split_whitespace().map(OsString::from))
    }

    #[test]
    fn reads_the_options_of_the_demo() {
        let Cli(request) = read("demo").unwrap().unwrap();
        assert_eq!(request.place.address.to_string(), FOLDER);
        assert!(!request.quiet && !request.serve);
        for line in ["demo -q --serve --store x", "demo --store=x --quiet --serve"] {
            let Cli(request) = read(line).unwrap().unwrap();
            assert_eq!(request.place.address.to_string(), "x");
            assert!(request.quiet && request.serve);
        }
        assert!(read("--help").unwrap().is_none());
        assert!(read("demo --help").unwrap().is_none());
    }

    #[test]
    fn names_the_build_that_has_all_commands() {
        let failure = read("page flights").err().unwrap();
        let message = "this build of recto runs `recto demo` only, not `recto page`";
        assert_eq!(failure.message(), message);
        assert!(format!("{failure:?}").contains("cargo install --path crates/recto-cli"));
        for line in ["demo --wait 3", "demo --store", "demo now"] {
            assert_eq!(read(line).err().unwrap().exit, Exit::Refused, "{line}");
        }
    }
}
