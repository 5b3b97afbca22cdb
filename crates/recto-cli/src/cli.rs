//! Commands of the program, with their options and help.

use std::ffi::OsString;

use clap::builder::Resettable;
use clap::builder::styling::{AnsiColor, Styles};
use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{ArgMatches, Args as _, CommandFactory as _, FromArgMatches as _, Parser, Subcommand};

#[cfg(feature = "cassandra")]
use crate::commands::attach;
use crate::commands::{
    self, buckets, completions, config, copy, cursor_keys, demo_args, describe, design, explain, load, page,
    queue, records, recover, scan, schema, serve, token, tune, update, upkeep, views,
};
use crate::console::Console;
use crate::failure::{EXIT_CODES, Exit, Failure};
use crate::store::{STORES, StoreArgs};

const STYLES: Styles = Styles::styled()
    .header(AnsiColor::Yellow.on_default().bold())
    .usage(AnsiColor::Yellow.on_default().bold())
    .literal(AnsiColor::Green.on_default())
    .placeholder(AnsiColor::Cyan.on_default());

/// Text that `recto --help` prints after the list of commands.
const AFTER_HELP: &str = "\
Examples:
  recto demo                                     create a store with real data, and show pages of it
  recto init && recto apply                      write a schema file, and create a store with it
  recto load posts posts.csv                     load a file into a collection
  recto page posts --filter 'user_id = \"…\"'      show a page; n and p turn pages

`recto help COMMAND` describes a command and its options.";

/// Recto is a database for large sorted lists. It stores data in a folder or in Apache Cassandra, and returns
/// any page of a filtered, sorted collection.
#[derive(Debug, Parser)]
#[command(name = "recto", version, styles = STYLES, max_term_width = 110)]
#[command(after_help = AFTER_HELP, after_long_help = format!("{AFTER_HELP}\n\n{STORES}\n\n{EXIT_CODES}"))]
#[command(subcommand_required = true, arg_required_else_help = true)]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) command: Command,
}

impl Cli {
    /// Parses a command line, whose first element is the program's name.
    ///
    /// # Errors
    /// The command line is invalid, or asks for help.
    pub(crate) fn read<T>(line: impl IntoIterator<Item = T>) -> Result<Self, clap::Error>
    where
        T: Into<OsString> + Clone,
    {
        let mut program = program();
        let matches = program.try_get_matches_from_mut(line).map_err(prefixes_first)?;
        refuse_unused_store(&program, &matches)?;
        Self::from_arg_matches(&matches).map_err(|error| error.format(&mut program))
    }

    pub(crate) async fn run(self, console: &mut Console) -> Result<Exit, Failure> {
        commands::run(self.command, console).await
    }
}

/// Returns the parser of the command line. The options that select the store may be before or after
/// the command. If an option is in both places, the value after the command applies.
pub(crate) fn program() -> clap::Command {
    let program = without_store(Cli::command());
    // The global options read no environment variables, because `recto demo` must ignore such
    // variables. Commands that use a store have their own copies of the options, which read them.
    with_store(program, |arg| arg.global(true).env(Resettable::Reset))
}

/// Returns the commands and options for shell completion scripts. It leaves out hidden options,
/// because some script generators would offer them.
pub(crate) fn offered() -> clap::Command {
    with_store(Cli::command(), |arg| arg.env(Resettable::Reset))
}

/// Reorders clap's suggestions for an unknown command. Commands that start with the input, or with
/// which the input starts, come first. For example, `pages` suggests `page` before `update`.
fn prefixes_first(mut error: clap::Error) -> clap::Error {
    let Some(ContextValue::String(given)) = error.get(ContextKind::InvalidSubcommand) else {
        return error;
    };
    let Some(ContextValue::Strings(suggested)) = error.get(ContextKind::SuggestedSubcommand) else {
        return error;
    };
    let is_prefix = |name: &String| given.starts_with(name.as_str()) || name.starts_with(given.as_str());
    let mut suggested = suggested.clone();
    suggested.sort_by_key(|name| !is_prefix(name));
    if suggested.first().is_some_and(is_prefix) {
        suggested.retain(is_prefix);
    }
    error.insert(ContextKind::SuggestedSubcommand, ContextValue::Strings(suggested));
    error
}

/// Adds the options that select the store to a command, after `change` has modified each option.
fn with_store(command: clap::Command, change: impl Fn(clap::Arg) -> clap::Arg) -> clap::Command {
    // Take the options from a separate command, because `augment_args` also replaces the
    // description of its command.
    let options = StoreArgs::augment_args(clap::Command::new("store"));
    command.args(options.get_arguments().cloned().map(change))
}

/// Returns whether the command, or one of its subcommands, has the options that select the store.
fn takes_store(command: &clap::Command) -> bool {
    let is_store = |arg: &clap::Arg| arg.get_id() == StoreArgs::IDS[0] && !arg.is_hide_set();
    command.get_arguments().any(is_store) || command.get_subcommands().any(takes_store)
}

/// Hides the options that select the store from the help of commands that use no store. Those
/// commands still parse the options, to reject them with a helpful error.
fn without_store(command: clap::Command) -> clap::Command {
    command.mut_subcommands(|command| {
        let command = without_store(command);
        if takes_store(&command) {
            return command;
        }
        with_store(command, |arg| arg.hide(true).env(Resettable::Reset))
    })
}

fn refuse_unused_store(program: &clap::Command, matches: &ArgMatches) -> Result<(), clap::Error> {
    let mut name = program.get_name().to_owned();
    let (mut command, mut matches) = (program, matches);
    while let Some((next, further)) = matches.subcommand() {
        let Some(found) = command.find_subcommand(next) else {
            break;
        };
        (command, matches) = (found, further);
        name = format!("{name} {next}");
    }
    let given = StoreArgs::IDS.iter().find(|id| matches.contains_id(id));
    match given {
        Some(id) if !takes_store(command) => {
            let message = format!("`{name}` uses no store: leave --{} out", id.replace('_', "-"));
            Err(command.clone().error(ErrorKind::UnknownArgument, message))
        }
        _ => Ok(()),
    }
}

/// Commands of the program.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Create a store with 336,776 real flights, and show pages of it
    Demo(demo_args::DemoArgs),
    /// Write a schema file with comments to start from
    Init(schema::InitArgs),
    /// Show what applying the schema file would change in the store
    Plan(schema::PlanArgs),
    /// Apply the schema file to the store
    Apply(schema::ApplyArgs),
    /// Show collections, fields and sort orders of the store
    Describe(describe::DescribeArgs),
    /// Attach an existing table of Cassandra, to page it read-only
    #[cfg(feature = "cassandra")]
    Attach(attach::AttachArgs),
    /// Load a CSV or NDJSON file into collections
    Load(load::LoadArgs),
    /// Show a page of a collection, and turn pages
    Page(page::PageArgs),
    /// Show the query plan and the cost of a page
    Explain(explain::ExplainArgs),
    /// Print every record of a collection as NDJSON
    Scan(scan::ScanArgs),
    /// Show one record
    Get(records::GetArgs),
    /// Put records; they replace records with the same key
    Put(records::PutArgs),
    /// Insert records whose keys do not exist
    Insert(records::InsertArgs),
    /// Change fields of a record
    Update(update::UpdateArgs),
    /// Delete one record
    Delete(records::DeleteArgs),
    /// Serve the store over HTTP
    Serve(serve::ServeArgs),
    /// Create, list and revoke access tokens of a server
    Token(token::TokenArgs),
    /// Show and check the configuration of a server
    Config(config::ConfigArgs),
    /// Copy an embedded store, while it is open, to a new folder
    Backup(upkeep::BackupArgs),
    /// Check a backup, and copy it to the folder of a store
    Restore(upkeep::RestoreArgs),
    /// Copy collections to another store: a folder to Cassandra, or back
    Copy(copy::CopyArgs),
    /// Free unused space of an embedded store
    Compact(upkeep::CompactArgs),
    /// Check every row of an embedded store, or the tables on Cassandra
    Check(upkeep::CheckArgs),
    /// List the views of a store, with their states
    Views(views::ViewsArgs),
    /// Compare views with their records
    Verify(views::VerifyArgs),
    /// Compare views with their records, and repair them
    Repair(views::RepairArgs),
    /// Finish changes that crashed processes left incomplete on Cassandra
    Recover(recover::RecoverArgs),
    /// Work with queues: create them, and send, receive and settle messages
    Queue(queue::QueueArgs),
    /// List the buckets of partitions, and split those that are too large
    Buckets(buckets::BucketsArgs),
    /// Estimate the sizes of buckets, and the cost of measuring them
    Tune(tune::TuneArgs),
    /// List or rotate the keys that encrypt page tokens
    CursorKeys(cursor_keys::CursorKeysArgs),
    /// Find the fewest views that serve the queries of a collection
    Design(design::DesignArgs),
    /// Print a script that completes arguments in a shell
    Completions(completions::CompletionsArgs),
}
