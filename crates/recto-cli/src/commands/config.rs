//! `recto config check`, and the command-line options of a server: one option for each of
//! [`recto_server::config::SETTINGS`].

use std::path::{Path, PathBuf};

use clap::{Arg, ArgAction, ArgMatches, Args, Command, FromArgMatches, Subcommand};
use recto_server::config::{ConfigError, Effective, MAX_CONFIG_BYTES, SETTINGS, Sources};
use recto_server::{ServeError, Server};
use serde_json::{Map, Value as Json, json};

use super::print_json;
use crate::console::{Console, Tone};
use crate::failure::{Exit, Failure, Result};
use crate::opening::environment;
use crate::store::{DEFAULT_STORE, StoreArgs, read_text};

const EXAMPLES: &str = "\
Examples:
  recto config check                             show the settings that `recto serve` would use
  recto config check --config recto.toml         check a configuration file
  recto config check --json

The output has the origin of each value. A flag takes precedence over the environment (RECTO_SERVE_LISTEN), \
the environment over the table [serve] of the file, and the file over the default. The output has no \
secrets.";

/// Heading above the server's options in `--help`.
const HEADING: &str = "Server";

/// Arguments of `recto config`.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
#[command(subcommand_required = true, arg_required_else_help = true)]
pub(crate) struct ConfigArgs {
    #[command(subcommand)]
    pub(crate) command: ConfigCommand,
}

/// Commands for configurations.
#[derive(Debug, Subcommand)]
pub(crate) enum ConfigCommand {
    /// Show the configuration that a server would have, and check it
    Check(CheckArgs),
}

/// Arguments of `recto config check`.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct CheckArgs {
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
    #[command(flatten)]
    pub(crate) server: ServerArgs,
}

/// Flags of a server.
#[derive(Debug, Args)]
pub(crate) struct ServerArgs {
    #[arg(help = "TOML file with the store, and with the server's settings in [serve] [env: RECTO_CONFIG]")]
    #[arg(long, value_name = "FILE", env = "RECTO_CONFIG", hide_env = true, help_heading = HEADING)]
    pub(crate) config: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) settings: SettingFlags,
    #[command(flatten)]
    pub(crate) store: StoreArgs,
}

/// Server options on the command line: pairs of a setting's name and its value.
#[derive(Debug, Default)]
pub(crate) struct SettingFlags(Vec<(String, String)>);

impl Args for SettingFlags {
    fn augment_args(command: Command) -> Command {
        command.args(SETTINGS.iter().map(|setting| {
            let arg = Arg::new(setting.name)
                .long(setting.name.replace('_', "-"))
                .value_name(setting.value_name)
                .help(setting.help)
                .help_heading(HEADING)
                .action(ArgAction::Set);
            if setting.is_switch() {
                arg.num_args(0..=1)
                    .require_equals(true)
                    .default_missing_value("true")
            } else {
                arg
            }
        }))
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

impl FromArgMatches for SettingFlags {
    fn from_arg_matches(matches: &ArgMatches) -> std::result::Result<Self, clap::Error> {
        let given = SETTINGS.iter().filter_map(|setting| {
            let value = matches.get_one::<String>(setting.name)?;
            Some((setting.name.to_owned(), value.clone()))
        });
        Ok(Self(given.collect()))
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> std::result::Result<(), clap::Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}

impl ServerArgs {
    /// Returns the configuration that a server would use. It combines defaults, the file, the
    /// environment and the command line.
    pub(crate) fn effective(&self) -> Result<Effective> {
        let file = match &self.config {
            Some(path) => Some((path.clone(), read(path)?)),
            None => None,
        };
        let sources = Sources {
            file,
            environment: environment().collect(),
            flags: self.settings.0.clone(),
        };
        Ok(sources.resolve()?)
    }

    /// Returns the options that select the store. If they name no store file, the server's
    /// configuration file serves as the store file.
    pub(crate) fn store(&self) -> StoreArgs {
        let mut store = self.store.clone();
        store.store_config = store.store_config.or_else(|| self.config.clone());
        store
    }
}

fn read(path: &Path) -> Result<String> {
    read_text(path, MAX_CONFIG_BYTES)?.ok_or_else(|| {
        let message = format!("{} is larger than {MAX_CONFIG_BYTES} bytes", path.display());
        Failure::new(Exit::Refused, message)
    })
}

/// Prints the configuration that a server would use, and checks it.
pub(crate) fn run(args: &ConfigArgs, console: &mut Console) -> Result<Exit> {
    let ConfigCommand::Check(args) = &args.command;
    let effective = args.server.effective()?;
    let store = args
        .server
        .store()
        .address(DEFAULT_STORE, environment())?
        .to_string();
    if args.json {
        let settings = effective.settings().map(|(setting, value, origin)| {
            let described = json!({ "value": value, "origin": origin.name() });
            (setting.name.to_owned(), described)
        });
        let settings: Map<String, Json> = settings.collect();
        print_json(console, &json!({ "store": store, "settings": settings }))?;
    } else {
        show(&effective, &store, console)?;
    }
    // Show the configuration before the check, so that users can see the setting that an error
    // names.
    console.flush()?;
    Server::check(&effective.config)?;
    Ok(Exit::Done)
}

fn show(effective: &Effective, store: &str, console: &mut Console) -> Result<()> {
    let settings: Vec<_> = effective.settings().collect();
    let names = settings
        .iter()
        .map(|(setting, ..)| setting.name.len())
        .max()
        .unwrap_or(0);
    let values = settings
        .iter()
        .map(|(_, value, _)| value.len())
        .max()
        .unwrap_or(0);
    console.line(format_args!("{:names$}  {store}", "store"))?;
    for (setting, value, origin) in &settings {
        let value = if value.is_empty() { "-" } else { value };
        let origin = console.paint(Tone::Dim, origin.name());
        console.line(format_args!("{:names$}  {value:values$}  {origin}", setting.name))?;
    }
    Ok(())
}

impl From<ConfigError> for Failure {
    fn from(error: ConfigError) -> Self {
        Self::from(ServeError::from(error))
    }
}
