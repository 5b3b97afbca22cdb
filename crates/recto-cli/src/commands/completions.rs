//! `recto completions`: prints completion scripts for shells.

use clap::Args;
use clap_complete::Shell;

use crate::cli::offered;
use crate::console::Console;
use crate::failure::{Exit, Result};

const EXAMPLES: &str = "\
Examples:
  recto completions bash > ~/.local/share/bash-completion/completions/recto
  recto completions zsh > \"${fpath[1]}/_recto\"
  recto completions fish > ~/.config/fish/completions/recto.fish";

/// Arguments of `recto completions`.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct CompletionsArgs {
    /// Shell
    shell: Shell,
}

pub(crate) fn run(args: &CompletionsArgs, console: &mut Console) -> Result<Exit> {
    // Generate the script in memory first, because the generator panics if its writer fails.
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut offered(), "recto", &mut script);
    console.out().write_all(&script)?;
    Ok(Exit::Done)
}
